"""From what a user asks for (`--workers`, `--ray`, `--time-limit`) to an Executor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil

import torch

from untrained._numbers import counted
from untrained.engine._pool import Pool
from untrained.engine.executor import Executor, Inline, OnCall
from untrained.engine.measure import Examiner, Job, usable
from untrained.engine.processes import ProcessCrew
from untrained.errors import UsageError

LOCAL = "local"  # `--ray local` starts a cluster on this machine
FEW = 32  # networks that are scored before a process has started
WORKERS_PER_CORE = 4  # more only take turns, and each holds a torch of its own in memory
ALWAYS_ALLOWED = 8  # workers on any machine, so that a command copied from a larger one runs


@contextmanager
def hired(
    job: Job | Examiner,
    workers: int | None = None,
    ray: str | None = None,
    time_limit: float | None = None,
    networks: int | None = None,
    later: bool = False,
) -> Iterator[Executor]:
    """Workers, dismissed afterwards. Without wishes one a core, or one a GPU, unless there are only a few networks.

    What cannot be sent to another process, such as a function typed into a notebook, comes as an `Examiner` and is
    worked on here. A limit on the time of one architecture needs a worker that can be stopped, so it starts one, which
    looks at one network at a time: of many together nobody could say which is late.

    A device that is not there is refused at once; `later`, for a run that may have nothing left to measure, when the
    first question comes, so that a finished run can be read anywhere.
    """
    check_workers(workers, ray)
    if time_limit is not None and time_limit <= 0:
        raise UsageError("a time limit must be more than nothing: --time-limit 30s")
    job = replace(job, population=networks_per_pass(job.population, time_limit))
    chosen = partial(_chosen, job, workers, ray, time_limit, networks)
    executor = OnCall(chosen) if later else chosen()
    try:
        yield executor
    finally:
        executor.close()


def check_workers(workers: int | None, ray: str | None = None) -> None:
    """Refuse a number of workers that makes no sense, for the command line and the API alike.

    Args:
        workers: How many the user asked for; None leaves the choice to us.
        ray: Where they run. A Ray cluster at an address has more cores than this machine and checks by itself.

    Raises:
        UsageError: The number is no whole number, less than 1, or far more than this machine has cores.
    """
    if workers is None:
        return
    cores = count_cores()
    if type(workers) is not int or workers < 1:
        raise UsageError(
            f"--workers must be a whole number of at least 1, not {workers!r}; "
            f"this machine has {counted(cores, 'core')}: --workers {cores}"
        )
    most = max(ALWAYS_ALLOWED, WORKERS_PER_CORE * cores)
    if ray in (None, LOCAL) and workers > most:
        raise UsageError(
            f"--workers {workers} is too many for this machine, which has {counted(cores, 'core')}: "
            f"type --workers {cores}, or at most {most}"
        )


def count_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def networks_per_pass(population: int, time_limit: float | None) -> int:
    """How many networks a worker measures together; one at a time where one may be late."""
    return 1 if time_limit is not None else population


def _chosen(
    job: Job | Examiner, workers: int | None, ray: str | None, time_limit: float | None, networks: int | None
) -> Executor:
    usable(job.device)
    elsewhere = ray is not None or time_limit is not None or (workers or 1) > 1
    if isinstance(job, Examiner):
        if elsewhere:
            raise UsageError(
                "other processes can load a space or a proxy only by name: put it in a file and give ./mine.py:NAME"
            )
        return Inline(job)
    count = workers or _usual(job.device)
    job = replace(job, neighbours=_neighbours(job.device, count))
    if ray is not None:
        from untrained.engine.ray import RayCrew

        return Pool(RayCrew(job, ray, count), count, time_limit, job.population)
    few = workers is None and networks is not None and networks < FEW
    if not elsewhere and (count == 1 or few):
        return Inline(job.open())
    return Pool(ProcessCrew(job), count, time_limit, job.population)


def _neighbours(device: str, workers: int) -> int:
    """How many of the workers share a GPU, where these are dealt out in turn."""
    gpus = torch.cuda.device_count() if device == "cuda" else 1
    return ceil(workers / max(1, gpus)) if torch.device(device).type == "cuda" else 1


def _usual(device: str) -> int:
    """One worker per core, or one per GPU."""
    if torch.device(device).type == "cpu":
        return count_cores()
    return torch.cuda.device_count() if device == "cuda" else 1
