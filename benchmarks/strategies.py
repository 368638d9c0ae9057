"""What a search costs beside judging: proposing, checking limits, asking the store, bookkeeping.

    python benchmarks/strategies.py [--space nasbench201 ...] [--networks 500] [--scored 12]

For every strategy and space, without a limit and with one, the real driver works with the real store, and workers that
answer at once with made-up numbers: all the time that is left is the driver's. It stands beside the time that one
process takes to build a network and judge it by dextr, measured in the same run, with one thread. `turned down` are the
architectures that were checked and rejected for each that was judged.
"""

import argparse
import platform
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from zlib import crc32

import torch

from untrained.data import load
from untrained.engine import Job, ProxyEvaluator, Samples, Store
from untrained.engine.executor import Answer, Cost, Inline, threads
from untrained.engine.measure import Requests
from untrained.proxies import load_proxy
from untrained.rng import generator
from untrained.runs.question import name_question
from untrained.runs.ranking import fitness, rank_records
from untrained.spaces import load_space
from untrained.strategies._bounds import Bounds
from untrained.strategies._check import Asked
from untrained.strategies._desk import Desk
from untrained.strategies._panel import wanted_high
from untrained.strategies.budget import Budget
from untrained.types import Record

BAR = 0.05
LIMITS = {
    "nasbench201": {"max_params": "300k"},
    "autoformer_tiny": {"max_params": "6M"},
    "mobilenetv2": {"max_flops": "150M"},
}
STRATEGIES = ("random", "evolution", "local", "nsga2", "screen(top=20)")


def main() -> None:
    options = arguments()
    print(f"torch {torch.__version__}, {platform.machine()}, one thread, {options.networks} networks a search\n")
    print("| space | strategy | limit | turned down | driver, ms a network | dextr, ms a network | share |")
    print("|---|---|---|---|---|---|---|")
    shares = []
    with threads(1):
        for name in options.space:
            judging = scoring(name, options.scored)
            for strategy in STRATEGIES:
                for limit in ({}, LIMITS[name]):
                    driven = driving(name, strategy, limit, options.networks)
                    shares.append(driven.seconds / judging)
                    said = " ".join(f"{key}={value}" for key, value in limit.items()) or "none"
                    print(f"| {name} | {strategy} | {said} | {driven.rejected:.1f} | {1e3 * driven.seconds:.2f} | "
                          f"{1e3 * judging:.1f} | {shares[-1]:.1%} |", flush=True)  # fmt: skip
    print(f"\nlargest share: {max(shares):.1%}; under {BAR:.0%}: {'yes' if max(shares) < BAR else 'NO'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--space", nargs="+", default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--scored", type=int, default=12, help="networks that are really judged, for each space")
    return parser.parse_args()


def scoring(name: str, count: int) -> float:
    """Seconds to build a network and to judge it by dextr, after a first one."""
    home, judge = load_space(name), load_proxy("dextr")
    samples = Samples.of(load("noise", home.task), [judge], (0,))
    rng = generator("strategies", name)
    archs = [home.sample(rng) for _ in range(count + 1)]
    evaluate = ProxyEvaluator(samples, [judge], Inline(Job(name, ("dextr",), home.task, samples.largest()).open()))
    list(evaluate(archs[:1]))
    records = [record for found in evaluate(archs[1:]) for record in found]
    return sum(record.build_seconds + record.measure_seconds for record in records) / len(records)


@dataclass
class AtOnce:
    """An executor that makes its answers up."""

    workers: int = 1
    networks: int = 0

    def map(self, questions: Iterable[Requests]) -> Iterator[Answer]:
        for place, requests in enumerate(questions):
            self.networks += 1
            score = crc32(str(requests[0].arch).encode()) % 1009
            yield place, [Record(request, float(score + k)) for k, request in enumerate(requests)]

    def costs(self) -> list[Cost]:
        return []

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Driven:
    """Seconds of the driver and rejected architectures, both for each network that was judged."""

    seconds: float
    rejected: float


def driving(name: str, strategy: str, limit: dict[str, str], count: int) -> Driven:
    """A search as `untrained search` makes it, with workers that answer at once."""
    home, enough = load_space(name), Budget(count)
    beside, validate = ("params", "") if strategy == "nsga2" else ("", "")
    if strategy.startswith("screen"):
        strategy, enough, validate = f"screen(top=20,pool={count})", Budget(20), "training(epochs=1)"
    asked = Asked.of(strategy, "dextr", beside, "", "", validate, enough, name, None)
    chosen, panel = asked.strategy, asked.panel
    source = load("noise", home.task)
    bounds = Bounds(home, source.task, limit)
    desk = Desk(panel, Samples.of(source, panel.everybody, (0,)), "cpu", None)
    fit = partial(fitness, measure=panel.decides.measure, higher_is_better=panel.decides.higher_is_better)
    asker = chosen.make(
        bounds.space,
        generator("strategies", strategy, name),
        fit,
        judge=desk.judge,
        by=partial(fitness, measure=panel.judge.measure, higher_is_better=panel.judge.higher_is_better),
        beside=[partial(fitness, measure=p.measure, higher_is_better=wanted_high(p)) for p in panel.beside],
    )
    desk.executor = executor = AtOnce()
    desk.samples.largest()  # drawing them is no work of the driver's
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "scores.sqlite")) as desk.store:
        start = perf_counter()
        desk.question = name_question({}, [count], desk.requests())
        desk.work(asker, enough, fit)
        records = desk.store.read_question(desk.question)
        decides = panel.decides
        bounds.settle(
            records, partial(rank_records, measure=decides.measure, higher_is_better=decides.higher_is_better)
        )
        seconds = perf_counter() - start
    judged = executor.networks
    return Driven(seconds / judged, bounds.space.rejected.total() / judged)


if __name__ == "__main__":
    main()
