"""Score a list of architectures with a list of proxies, and keep the records in a store.

Benchmarks, calibrations and reproductions of papers use this function.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from untrained.config import ComputeConfig
from untrained.data import DataSource
from untrained.engine import (
    ProxyEvaluator,
    SeedBatches,
    make_worker_setup,
    open_executor,
)
from untrained.engine.worker_setup import WeightSource
from untrained.errors import Interrupted
from untrained.progress import Progress, ProgressCallback
from untrained.proxies import Proxy
from untrained.runs.aggregates import compute_aggregates, expand_aggregates
from untrained.runs.store import Store, has_records
from untrained.spaces import Space, fingerprint_space
from untrained.strategies.budget import Budget
from untrained.strategies.driver import DriverResult, run_strategy
from untrained.strategies.screening import FixedCandidates
from untrained.types import FRESH, Arch

# If scoring a network takes at least this many forward passes of one sample, several worker
# processes are started even for a few networks. Cheaper networks are scored faster than processes
# start.
EXPENSIVE_PASSES = 1000


def score_architectures(
    space: str | Space,
    archs: Sequence[Arch],
    proxies: Sequence[Proxy],
    source: DataSource,
    seeds: Sequence[int],
    compute: ComputeConfig,
    store_path: Path,
    proxy_names_by_measure: Mapping[str, str] | None = None,
    on_progress: ProgressCallback | None = None,
    stage: str = "scoring",
    weights: WeightSource | None = None,
) -> DriverResult:
    """Score every architecture with every proxy and seed.

    Records that are already in the store are not measured again.

    Args:
        space: The space of the architectures, or its name.
        archs: The architectures.
        proxies: The proxies. Aggregates of several proxies are allowed.
        source: The data.
        seeds: Seeds of weights and batches.
        compute: Device, workers and time limit.
        store_path: The SQLite file of the records.
        proxy_names_by_measure: The proxies as the user typed them. Worker processes load the
            proxies by these names.
        on_progress: Called after every architecture.
        stage: Name of the stage in progress events.
        weights: Initial weights of the networks; None for fresh weights.

    Returns:
        All records, those of aggregates last, and the time.

    Raises:
        Interrupted: Ctrl-C was pressed. Finished records stay in the store.
    """
    single_proxies = expand_aggregates(proxies)
    batches = SeedBatches.for_proxies(source, single_proxies, seeds)
    setup = make_worker_setup(
        space, single_proxies, batches, compute, proxy_names_by_measure, weights
    )
    passes = sum(proxy.samples * proxy.cost for proxy in single_proxies)
    network_count = None if passes >= EXPENSIVE_PASSES else len(archs)
    executor_context = open_executor(setup, compute, network_count, lazy=has_records(store_path))
    with executor_context as executor, Store(store_path) as store:
        evaluator = ProxyEvaluator(
            batches,
            single_proxies,
            executor,
            compute.device,
            store,
            weights.init if weights else FRESH,
            fingerprint_space(space),
            compute.effective_networks_per_batch,
        )

        def report_progress(progress: Progress) -> None:
            if on_progress:
                measured = evaluator.measured_count
                on_progress(replace(progress, measured=measured, workers=executor.workers))

        result = run_strategy(
            FixedCandidates(archs),
            evaluator,
            Budget(len(archs)),
            # Nothing is ranked here, so no architecture needs a fitness.
            lambda records: None,
            report_progress,
            stage=stage,
        )
        result.batched_networks = sum(cost.batched_networks for cost in executor.costs())
    if result.end_reason == "interrupted":
        raise Interrupted(
            f"stopped by Ctrl-C; finished records are in {store_path}, and the same command resumes"
        )
    for proxy in proxies:
        if proxy.parts:
            result.records += compute_aggregates(result.records, proxy)
    return result
