"""Measure what a search costs beside scoring: proposals, limits, reading and writing the store, bookkeeping.

    python benchmarks/strategies.py [--space nasbench201 ...] [--networks 500] [--scored 12]

For every strategy and space, without a limit and with one, the real driver runs with the real store and with an executor
that returns made-up scores at once, so all measured time is that of the driver. It is compared with the time that one
process with one thread takes to build a network and to score it by dextr, measured in the same run. `rejected` is the
number of rejected architectures per scored one.
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
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Record
from untrained.workflows.search_setup import prepare_search

MAX_SHARE = 0.05
LIMITS = {
    "nasbench201": {"params": "300k"},
    "autoformer_tiny": {"params": "6M"},
    "mobilenetv2": {"flops": "150M"},
}
STRATEGIES = ("random", "evolution", "local", "nsga2", "best_of_pool(top=20)")


def main() -> None:
    options = parse_options()
    print(
        f"torch {torch.__version__}, {platform.machine()}, one thread, {options.networks} networks per search\n"
    )
    print(
        "| space | strategy | limit | rejected | driver, ms per network | dextr, ms per network | share |"
    )
    print("|---|---|---|---|---|---|---|")
    shares = []
    with use_threads(1):
        for name in options.space:
            scoring_seconds = measure_scoring(name, options.scored)
            for strategy in STRATEGIES:
                for limits in ({}, LIMITS[name]):
                    driver_cost = measure_driver(name, strategy, limits, options.networks)
                    shares.append(driver_cost.seconds / scoring_seconds)
                    limit_text = (
                        " ".join(f"{key}={value}" for key, value in limits.items()) or "none"
                    )
                    print(f"| {name} | {strategy} | {limit_text} | {driver_cost.rejected:.1f} | {1e3 * driver_cost.seconds:.2f} | "
                          f"{1e3 * scoring_seconds:.1f} | {shares[-1]:.1%} |", flush=True)  # fmt: skip
    print(
        f"\nlargest share: {max(shares):.1%}; under {MAX_SHARE:.0%}: {'yes' if max(shares) < MAX_SHARE else 'NO'}"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", nargs="+", default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument(
        "--scored", type=int, default=12, help="networks that are really scored, per space"
    )
    return parser.parse_args()


def measure_scoring(name: str, count: int) -> float:
    """Return the seconds to build and score one network by dextr; a first network is for warm-up."""
    space = load_space(name)
    proxy = load_proxy("dextr")
    samples = SeedBatches.for_proxies(load_data("noise", space.task), [proxy], (0,))
    rng = make_generator("strategies", name)
    archs = [space.sample(rng) for _ in range(count + 1)]
    setup = WorkerSetup(name, ("dextr",), space.task, samples.draw_largest_batches())
    evaluate = ProxyEvaluator(samples, [proxy], InlineExecutor(setup.open_worker()))
    list(evaluate(archs[:1]))
    records = [record for arch_records in evaluate(archs[1:]) for record in arch_records]
    return sum(record.build_seconds + record.measure_seconds for record in records) / len(records)


@dataclass
class InstantExecutor:
    """An executor that returns made-up scores at once."""

    workers: int = 1
    networks: int = 0

    def map(self, groups: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        for place, requests in enumerate(groups):
            self.networks += 1
            score = crc32(str(requests[0].arch).encode()) % 1009
            yield place, [Record(request, float(score + k)) for k, request in enumerate(requests)]

    def costs(self) -> list[WorkerCost]:
        return []

    def close(self) -> None:
        """Nothing was started, so there is nothing to close."""


@dataclass(frozen=True)
class DriverCost:
    """Seconds of the driver and rejected architectures, both per scored network."""

    seconds: float
    rejected: float


def measure_driver(name: str, strategy: str, limits: dict[str, str], count: int) -> DriverCost:
    """Run a search as `untrained search` does, with an executor that returns at once."""
    also = ""
    validate = ""
    budget = count
    if strategy == "nsga2":
        also = "params"
    if strategy.startswith("best_of_pool"):
        strategy = f"best_of_pool(top=20,pool={count})"
        budget = 20
        validate = "training(epochs=1)"
    config = SearchConfig(
        name,
        strategy=strategy,
        data="noise",
        budget=budget,
        also=also,
        validate=validate,
        limits=limits,
    )
    setup = prepare_search(config)
    # Drawing the samples is not the work of the driver.
    setup.batches.draw_largest_batches()
    executor = InstantExecutor()
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "scores.sqlite")) as store:
        start = perf_counter()
        setup.stages.connect(executor, store)
        setup.stages.run(setup.strategy, setup.budget, "benchmark")
        store.read_search("benchmark")
        seconds = perf_counter() - start
    networks = executor.networks
    return DriverCost(seconds / networks, setup.limits.space.rejected.total() / networks)


if __name__ == "__main__":
    main()
