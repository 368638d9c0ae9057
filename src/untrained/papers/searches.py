"""The searches of an experiment: each by its own seed in a folder of its own, which remembers.

    searched(effort, [Hunt("nasbench201", "nasi(steps=400)", "cifar10", seed) for seed in range(10)], "NASI, 4T")

A search that came to its end is read from its folder; the same command goes on with the others, from the step where a
strategy with notes was stopped. `--workers` of them run at a time, each in a process that ends with this one. Knows
nothing of papers.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untrained.errors import Interrupted, UsageError
from untrained.papers.experiment import ExperimentConfig
from untrained.runs.winner import read_ranking, read_winner
from untrained.strategies import _trace
from untrained.strategies._desk import LOOKING
from untrained.strategies._run import Run, for_a_file
from untrained.strategies.search import Progress, Watcher, search
from untrained.studies._scores import Crew
from untrained.types import Arch

_ALONE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # several searches share the cores
_DONE = ("budget", "exhausted")


@dataclass(frozen=True)
class Hunt:
    """A search to be made, in words of `search`. The proxy that judges what is found only matters where several are."""

    space: str
    strategy: str
    data: str
    seed: int = 0
    proxy: str = "params"
    budget: int = 1
    max_params: str | None = None
    max_flops: str | None = None

    def folder(self, effort: ExperimentConfig) -> Path:
        """Where it is kept; a path within the name of the data is left out, since files move."""
        words = [self.space, self.proxy, self.strategy, self.data.rpartition("/")[2], f"seed{self.seed}"]
        words += [said for said in (self.max_params, self.max_flops, effort.compute.device) if said]
        return effort.folder / "searches" / for_a_file(*words)

    def asked(self, effort: ExperimentConfig) -> dict[str, Any]:
        """What `search` is asked for, as plain data."""
        crew, root = effort.compute, effort.data_root
        where = {
            "device": crew.device,
            "run": str(self.folder(effort)),
            "data_root": None if root is None else str(root),
        }
        return vars(self) | where


@dataclass(frozen=True)
class Found:
    """What a search found, how long it took, and what was measured of it, by proxy."""

    arch: Arch
    seconds: float
    measured: Mapping[str, float]
    judged: int  # architectures that had a say
    trace: Sequence[_trace.Step]  # what the strategy believed


def searched(effort: ExperimentConfig, hunts: Sequence[Hunt], stage: str) -> list[Found]:
    """What every search finds, in the order given."""
    left = [hunt for hunt in dict.fromkeys(hunts) if found(hunt, effort) is None]
    workers = min(effort.compute.workers or 1, max(1, len(left)))

    def tell(done: int) -> None:
        if effort.on_progress:
            effort.on_progress(Progress(stage, len(hunts) - len(left) + done, len(hunts), done, workers))

    tell(0)
    asked = [hunt.asked(effort) for hunt in left]
    for done, _ in enumerate(_here(asked, effort, stage) if workers == 1 else _elsewhere(asked, workers), 1):
        tell(done)
    whole = [found(hunt, effort) for hunt in hunts]
    if None in whole:
        raise Interrupted(f"stopped by Ctrl-C; what was found is in {effort.folder}, and the same command goes on")
    return [each for each in whole if each is not None]


def found(hunt: Hunt, effort: ExperimentConfig) -> Found | None:
    """What lies in the folder of a search that came to its end; None where there is none."""
    folder = hunt.folder(effort)
    if not (folder / "run.json").is_file():
        return None
    run = Run.read(folder)
    if run.ended not in _DONE or run.budget != hunt.budget:
        return None
    arch = read_winner(folder).arch
    records = read_ranking(run).records
    measured = {r.proxy: r.value for r in records if r.arch == arch and r.value is not None}
    judged = len({r.arch for r in records if r.measure == run.measure})
    return Found(arch, run.wall_seconds, measured, judged, _trace.read(folder))


def _here(hunts: Sequence[dict[str, Any]], effort: ExperimentConfig, stage: str) -> Iterator[None]:
    """One after the other; a single search over many architectures has all workers for itself."""
    for place, asked in enumerate(hunts):
        crew = effort.compute if asked["budget"] > 1 else Crew(workers=1)
        watch = (
            effort.on_progress
            if asked["budget"] > 1
            else _steps(effort.on_progress, f"{stage}: steps", place, len(hunts))
        )
        result = search(**asked, workers=crew.workers, ray=crew.ray, time_limit=crew.time_limit, watch=watch)
        if result.run.ended == "interrupted":
            return
        yield


def _steps(watch: Watcher | None, stage: str, place: int, count: int) -> Watcher | None:
    """Of a search for one architecture only the steps of its strategy are told, as a part of those of all searches."""

    def tell(at: Progress) -> None:
        if watch and at.stage == LOOKING and at.total is not None:
            watch(replace(at, stage=stage, done=place * at.total + at.done, total=count * at.total))

    return tell if watch else None


def _elsewhere(hunts: Sequence[dict[str, Any]], workers: int) -> Iterator[None]:
    """So many at a time, each in a process of its own."""
    running: set[subprocess.Popen[str]] = set()

    def run(asked: dict[str, Any]) -> None:
        program = [sys.executable, "-P", "-m", "untrained.strategies._searcher"]
        with subprocess.Popen(
            program, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | _ALONE
        ) as process:
            running.add(process)
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()  # and stays open: it tells the other side that we are here
            said = process.stderr.read().strip()
            if process.wait():
                raise UsageError(
                    f"the search in {asked['run']} failed: {said.rpartition(chr(10))[2] or 'it was killed'}"
                )

    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(run, asked) for asked in hunts]
        try:
            for one in as_completed(waiting):
                one.result()
                yield
        except KeyboardInterrupt:
            return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.kill()
