"""From what a user asks for (`--workers`, `--ray`, `--time-limit`) to an Executor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil

import torch

from untrained.engine._pool import Pool
from untrained.engine.executor import Executor, Inline, OnCall
from untrained.engine.measure import Examiner, Job, usable
from untrained.engine.processes import ProcessCrew
from untrained.errors import UsageError

FEW = 32  # networks that are scored before a process has started


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
    if (workers is not None and workers < 1) or (time_limit is not None and time_limit <= 0):
        raise UsageError("there must be at least 1 worker, and a time limit must be more than nothing")
    if time_limit is not None and job.population > 1:
        job = replace(job, population=1)
    chosen = partial(_chosen, job, workers, ray, time_limit, networks)
    executor = OnCall(chosen) if later else chosen()
    try:
        yield executor
    finally:
        executor.close()


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
    """One worker a core; on GPUs one each."""
    if torch.device(device).type == "cpu":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return torch.cuda.device_count() if device == "cuda" else 1
