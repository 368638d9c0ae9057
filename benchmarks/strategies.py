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
from pathlib import Path
from time import perf_counter
from zlib import crc32

import torch

from untrained.config import SearchConfig
from untrained.data import load_data
from untrained.engine import ProxyEvaluator, SeedBatches, WorkerSetup
from untrained.engine.executors.base import IndexedRecords, InlineExecutor, WorkerCost
from untrained.engine.threads import use_threads
from untrained.engine.worker import RequestGroup
from untrained.proxies import load_proxy
from untrained.runs.question import name_question
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Record
from untrained.workflows.search_setup import prepare_search

BAR = 0.05
LIMITS = {
    "nasbench201": {"params": "300k"},
    "autoformer_tiny": {"params": "6M"},
    "mobilenetv2": {"flops": "150M"},
}
STRATEGIES = ("random", "evolution", "local", "nsga2", "best_of_pool(top=20)")


def main() -> None:
    options = arguments()
    print(
        f"torch {torch.__version__}, {platform.machine()}, one thread, {options.networks} networks a search\n"
    )
    print(
        "| space | strategy | limit | turned down | driver, ms a network | dextr, ms a network | share |"
    )
    print("|---|---|---|---|---|---|---|")
    shares = []
    with use_threads(1):
        for name in options.space:
            judging = scoring(name, options.scored)
            for strategy in STRATEGIES:
                for limit in ({}, LIMITS[name]):
                    driven = driving(name, strategy, limit, options.networks)
                    shares.append(driven.seconds / judging)
                    said = " ".join(f"{key}={value}" for key, value in limit.items()) or "none"
                    print(f"| {name} | {strategy} | {said} | {driven.rejected:.1f} | {1e3 * driven.seconds:.2f} | "
                          f"{1e3 * judging:.1f} | {shares[-1]:.1%} |", flush=True)  # fmt: skip
    print(
        f"\nlargest share: {max(shares):.1%}; under {BAR:.0%}: {'yes' if max(shares) < BAR else 'NO'}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", nargs="+", default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument(
        "--scored", type=int, default=12, help="networks that are really judged, for each space"
    )
    return parser.parse_args()


def scoring(name: str, count: int) -> float:
    """Seconds to build a network and to judge it by dextr, after a first one."""
    home = load_space(name)
    judge = load_proxy("dextr")
    samples = SeedBatches.for_proxies(load_data("noise", home.task), [judge], (0,))
    rng = make_generator("strategies", name)
    archs = [home.sample(rng) for _ in range(count + 1)]
    evaluate = ProxyEvaluator(
        samples,
        [judge],
        InlineExecutor(
            WorkerSetup(name, ("dextr",), home.task, samples.largest_batches()).open_worker()
        ),
    )
    list(evaluate(archs[:1]))
    records = [record for found in evaluate(archs[1:]) for record in found]
    return sum(record.build_seconds + record.measure_seconds for record in records) / len(records)


@dataclass
class AtOnce:
    """An executor that makes its answers up."""

    workers: int = 1
    networks: int = 0

    def map(self, questions: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        for place, requests in enumerate(questions):
            self.networks += 1
            score = crc32(str(requests[0].arch).encode()) % 1009
            yield place, [Record(request, float(score + k)) for k, request in enumerate(requests)]

    def costs(self) -> list[WorkerCost]:
        return []

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Driven:
    """Seconds of the driver and rejected architectures, both for each network that was judged."""

    seconds: float
    rejected: float


def driving(name: str, strategy: str, limits: dict[str, str], count: int) -> Driven:
    """Run a search as `untrained search` does, with workers that answer at once."""
    beside = ""
    validate = ""
    budget = count
    if strategy == "nsga2":
        beside = "params"
    if strategy.startswith("best_of_pool"):
        strategy = f"best_of_pool(top=20,pool={count})"
        budget = 20
        validate = "training(epochs=1)"
    config = SearchConfig(
        name,
        strategy=strategy,
        data="noise",
        budget=budget,
        beside=beside,
        validate=validate,
        limits=limits,
    )
    setup = prepare_search(config)
    # Drawing the samples is not the work of the driver.
    setup.batches.largest_batches()
    executor = AtOnce()
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "scores.sqlite")) as store:
        start = perf_counter()
        setup.stages.connect(executor, store)
        question = name_question({}, [count], setup.stages.list_requests())
        setup.stages.run(setup.strategy, setup.budget, question)
        store.read_question(question)
        seconds = perf_counter() - start
    networks = executor.networks
    return Driven(seconds / networks, setup.limits.space.rejected.total() / networks)


if __name__ == "__main__":
    main()
