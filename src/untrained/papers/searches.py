"""Run the searches of an experiment: every search has its own seed and its own run folder.

    plans = [SearchPlan("nasbench201", "nasi(steps=400)", "cifar10", seed) for seed in range(10)]
    outcomes = run_searches(config, plans, "NASI, 4T")

Finished searches are read from their folders, and unfinished ones are resumed. A strategy that logs
its steps continues at the step where it was interrupted. With `--workers N`, N searches run at the
same time, each in a process that ends when this one ends.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from untrained.config import ComputeConfig, SearchConfig
from untrained.errors import Interrupted, UsageError
from untrained.papers.experiment import ExperimentConfig
from untrained.progress import Progress, ProgressCallback
from untrained.runs.folder import RunFolder, make_folder_name
from untrained.runs.trace import TraceStep, read_trace
from untrained.runs.winner import read_ranking, read_winner
from untrained.types import Arch
from untrained.workflows.search import run_search
from untrained.workflows.search_stages import SUPERNET_STAGE

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # several searches share the cores
# How a run that need not be resumed has ended: its budget is spent, or its space is exhausted.
_FINISHED = ("budget", "exhausted")


@dataclass(frozen=True)
class SearchPlan:
    """Arguments of one search.

    The arguments are those of `untrained search`. The proxy matters only if the strategy proposes
    several architectures.
    """

    space: str
    strategy: str
    data: str
    seed: int = 0
    proxy: str = "params"
    budget: int = 1
    max_params: str | None = None
    max_flops: str | None = None

    def get_folder(self, config: ExperimentConfig) -> Path:
        """Return the run folder of the search.

        Its name contains only the name of a data file, not its directory, since files are moved.
        """
        data_name = self.data.rpartition("/")[2]
        name_parts = [self.space, self.proxy, self.strategy, data_name, f"seed{self.seed}"]
        for part in (self.max_params, self.max_flops, config.compute.device):
            if part:
                name_parts.append(part)
        return config.folder / "searches" / make_folder_name(*name_parts)

    def to_search_config(self, config: ExperimentConfig) -> SearchConfig:
        """Return the config of the search, which runs on one worker."""
        data_root = None
        if config.data_root is not None:
            data_root = Path(config.data_root)
        limits: dict[str, str | float | None] = {}
        if self.max_params is not None:
            limits["params"] = self.max_params
        if self.max_flops is not None:
            limits["flops"] = self.max_flops
        return SearchConfig(
            space=self.space,
            proxy=self.proxy,
            strategy=self.strategy,
            data=self.data,
            data_root=data_root,
            budget=self.budget,
            limits=limits,
            seed=self.seed,
            run=self.get_folder(config),
            compute=ComputeConfig(device=config.compute.device, workers=1),
        )


@dataclass(frozen=True)
class SearchOutcome:
    """The result of a search.

    Attributes:
        arch: The winner.
        seconds: Duration of the search.
        scores: Scores of the winner by proxy.
        scored_count: Number of architectures that the search scored.
        trace: Steps of the strategy.
    """

    arch: Arch
    seconds: float
    scores: Mapping[str, float]
    scored_count: int
    trace: Sequence[TraceStep]


def run_searches(
    config: ExperimentConfig, plans: Sequence[SearchPlan], stage: str
) -> list[SearchOutcome]:
    """Run the searches that are not finished and read the outcomes of all.

    Args:
        config: Folder, device and workers.
        plans: The searches.
        stage: Name of the stage in progress events.

    Returns:
        One outcome per plan, in the same order.

    Raises:
        Interrupted: Ctrl-C stopped a search.
    """
    # Equal plans are run once, and the outcome is read for each of them.
    unfinished = [
        plan for plan in dict.fromkeys(plans) if read_search_outcome(plan, config) is None
    ]
    workers = min(config.compute.workers or 1, max(1, len(unfinished)))

    def report_progress(finished: int) -> None:
        if config.on_progress:
            done = len(plans) - len(unfinished) + finished
            config.on_progress(Progress(stage, done, len(plans), finished, workers))

    report_progress(0)
    configs = [plan.to_search_config(config) for plan in unfinished]
    if workers == 1:
        runs = _run_in_this_process(configs, config, stage)
    else:
        runs = _run_in_subprocesses(configs, workers)
    for finished, _ in enumerate(runs, 1):
        report_progress(finished)
    outcomes = []
    for plan in plans:
        outcome = read_search_outcome(plan, config)
        if outcome is None:
            raise Interrupted(
                f"stopped by Ctrl-C; finished searches are in {config.folder}, and the same "
                "command resumes"
            )
        outcomes.append(outcome)
    return outcomes


def read_search_outcome(plan: SearchPlan, config: ExperimentConfig) -> SearchOutcome | None:
    """Return the outcome of a finished search; None if it has not finished."""
    folder = plan.get_folder(config)
    if not (folder / "run.json").is_file():
        return None
    run = RunFolder.read(folder)
    # A run with another budget belongs to an experiment of another size.
    if run.end_reason not in _FINISHED or run.config.budget != plan.budget:
        return None
    arch = read_winner(folder).arch
    records = read_ranking(run).records
    scores = {}
    scored_archs = set()
    for record in records:
        if record.arch == arch and record.value is not None:
            scores[record.proxy] = record.value
        if record.measure == run.measure:
            scored_archs.add(record.arch)
    return SearchOutcome(arch, run.wall_seconds, scores, len(scored_archs), read_trace(folder))


def _run_in_this_process(
    searches: Sequence[SearchConfig], config: ExperimentConfig, stage: str
) -> Iterator[None]:
    """Run searches one after the other.

    A search that scores many architectures uses all workers and reports its own progress.
    """
    for index, search_config in enumerate(searches):
        if search_config.budget == 1:
            on_progress = _make_step_reporter(
                config.on_progress, f"{stage}: steps", index, len(searches)
            )
        else:
            compute = replace(config.compute, networks_per_batch=1)
            search_config = replace(search_config, compute=compute)
            on_progress = config.on_progress
        result = run_search(search_config, on_progress)
        # Ctrl-C stops all searches, not only this one.
        if result.run.end_reason == "interrupted":
            return
        yield


def _make_step_reporter(
    on_progress: ProgressCallback | None, stage: str, index: int, count: int
) -> ProgressCallback | None:
    """Return a callback that adds the steps of one search to the progress of all searches."""
    if on_progress is None:
        return None

    def report_step(progress: Progress) -> None:
        # Other stages of such a search are short and would make the progress bar jump.
        if progress.stage == SUPERNET_STAGE and progress.total is not None:
            done = index * progress.total + progress.done
            total = count * progress.total
            on_progress(replace(progress, stage=stage, done=done, total=total))

    return report_step


def _run_in_subprocesses(searches: Sequence[SearchConfig], workers: int) -> Iterator[None]:
    """Run several searches at a time, each in its own process."""
    processes: set[subprocess.Popen[str]] = set()

    def run_search_process(config: SearchConfig) -> None:
        # -P keeps the current directory off the import path: foreign files there must not run.
        command = [sys.executable, "-P", "-m", "untrained.workflows.search_process"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD,
        ) as process:
            processes.add(process)
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(json.dumps(config.to_document()) + "\n")
            # The pipe stays open. When this process ends, the pipe closes and the search ends too.
            process.stdin.flush()
            errors = process.stderr.read().strip()
            if process.wait():
                last_line = errors.rpartition("\n")[2] or "it was killed"
                raise UsageError(f"the search in {config.run} failed: {last_line}")

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run_search_process, config) for config in searches]
        try:
            for future in as_completed(futures):
                future.result()
                yield
        except KeyboardInterrupt:
            return
        finally:
            # After an error in one search, the others must not continue either.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(processes):
                process.kill()
