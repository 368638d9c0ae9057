"""Open the executor that `--workers`, `--ray` and `--time-limit` ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil

import torch

from untrained.config import ComputeConfig
from untrained.engine.devices import check_device
from untrained.engine.executors.base import Executor, InlineExecutor, LazyExecutor
from untrained.engine.executors.pool import PoolExecutor
from untrained.engine.executors.processes import ProcessBackend
from untrained.engine.worker import Worker
from untrained.engine.worker_setup import WorkerSetup
from untrained.errors import UsageError
from untrained.workers import count_cores

# Scoring fewer networks than this takes less time than starting worker processes.
FEW_NETWORKS = 32


@contextmanager
def open_executor(
    setup: WorkerSetup | Worker,
    compute: ComputeConfig,
    network_count: int | None = None,
    lazy: bool = False,
) -> Iterator[Executor]:
    """Open an executor for a block and close it afterwards.

    By default there is one worker process per core or per GPU. A few networks are scored in this
    process. A time limit needs workers that can be stopped, so it always starts processes. They
    measure one network per pass, because in a pass of several it is unknown which one is late.

    Args:
        setup: Describes the workers. A `Worker` cannot be sent to another process, so it works in
            this one.
        compute: Number of workers, Ray and time limit.
        network_count: Number of networks that will be scored, if it is known.
        lazy: Whether to start workers, and to check the device, only at the first request. A
            finished run can then be read on any machine.

    Yields:
        The executor.

    Raises:
        UsageError: The device cannot be used, or a `Worker` would have to be sent to another
            process.
    """
    if compute.time_limit is not None:
        setup = replace(setup, networks_per_batch=1)
    make_executor = partial(_make_executor, setup, compute, network_count)
    executor: Executor
    if lazy:
        executor = LazyExecutor(make_executor)
    else:
        executor = make_executor()
    try:
        yield executor
    finally:
        executor.close()


def _make_executor(
    setup: WorkerSetup | Worker, compute: ComputeConfig, network_count: int | None
) -> Executor:
    check_device(setup.device)
    has_several_workers = compute.workers is not None and compute.workers > 1
    time_limit = compute.time_limit_seconds
    needs_pool = compute.ray is not None or time_limit is not None or has_several_workers
    if isinstance(setup, Worker):
        if needs_pool:
            raise UsageError(
                "other processes can load a space or a proxy only by name: put it in a file and "
                "give ./mine.py:NAME"
            )
        return InlineExecutor(setup)

    workers = compute.workers or _get_default_worker_count(setup.device)
    setup = replace(setup, workers_per_device=_count_workers_per_device(setup.device, workers))
    if compute.ray is not None:
        # Ray is an optional dependency.
        from untrained.engine.executors.ray import RayBackend

        ray_backend = RayBackend(setup, compute.ray, workers)
        return PoolExecutor(ray_backend, workers, time_limit, setup.networks_per_batch)

    few_networks = network_count is not None and network_count < FEW_NETWORKS
    prefers_inline = workers == 1 or (compute.workers is None and few_networks)
    if prefers_inline and not needs_pool:
        return InlineExecutor(setup.open_worker())
    return PoolExecutor(ProcessBackend(setup), workers, time_limit, setup.networks_per_batch)


def _get_default_worker_count(device: str) -> int:
    """Return the number of cores, or of GPUs."""
    if torch.device(device).type == "cpu":
        return count_cores()
    if device == "cuda":
        return torch.cuda.device_count()
    return 1


def _count_workers_per_device(device: str, workers: int) -> int:
    """Return how many workers share a GPU, if GPUs are assigned to workers in turn."""
    if torch.device(device).type != "cuda":
        return 1
    gpu_count = 1
    if device == "cuda":
        gpu_count = max(1, torch.cuda.device_count())
    return ceil(workers / gpu_count)
