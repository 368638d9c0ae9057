"""The step log: a strategy that was interrupted anywhere ends with the same result, no step twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

import untrained
from tests.strategies.edges import SOURCE, two_edges
from untrained import Probe, search
from untrained.cli.terminal.search_result import format_cost
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.searches import SearchPlan, run_searches
from untrained.probe.guard import fastest_kernels
from untrained.progress import Progress
from untrained.runs import trace as _trace
from untrained.runs.step_log import STEP_LOG_FILE, StepLog
from untrained.spaces import load_space
from untrained.strategies import nasi, zerocost_pt
from untrained.strategies.nasi import NASI
from untrained.strategies.zerocost_pt import ZeroCostPT
from untrained.types import Task
from untrained.workflows.search import SearchResult

NET = "nasbench201(channels=2,cells=1)"
STEPS = "nasi(steps=6,batch=2,nu0=1e9)"
FLOATS = [0.1 + 0.2, 1e-300, 5e-324, -0.0, 1 / 3, inf, None]


class StopTest(Exception):  # noqa: N818 - not an error
    pass


def open_step_log(
    folder: Path, owner: object = "me", max_proposals: int | None = None, on_progress: Any = None
) -> StepLog:
    step_log = StepLog(on_progress)
    step_log.open(folder, owner, max_proposals)
    return step_log


def read_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / STEP_LOG_FILE).read_text().split("\n") if line]


def fail_if_called() -> Any:
    raise AssertionError("computed again")


# -------------------------------------------------------------------------------------- the file


def test_a_logged_result_is_read_exactly_and_not_computed_again(tmp_path):
    first = open_step_log(tmp_path)
    assert str(first.get_or_compute("a", lambda: (FLOATS, {"b": 1}))) == str([FLOATS, {"b": 1}])
    assert str(first.get_or_compute("a", fail_if_called)) == str([FLOATS, {"b": 1}])
    assert str(open_step_log(tmp_path).get_or_compute("a", fail_if_called)) == str(
        [FLOATS, {"b": 1}]
    )
    assert StepLog().get_or_compute("a", lambda: 2) == 2, "without a folder nothing is remembered"


def test_an_incomplete_line_is_computed_again_and_other_lines_stay(tmp_path):
    step_log = open_step_log(tmp_path)
    step_log.get_or_compute("a", lambda: 1.5)
    sound = (tmp_path / STEP_LOG_FILE).read_bytes()
    step_log.get_or_compute("b", lambda: [2.5, "two"])
    uninterrupted = (tmp_path / STEP_LOG_FILE).read_bytes()
    for length in range(len(sound), len(uninterrupted)):
        (tmp_path / STEP_LOG_FILE).write_bytes(uninterrupted[:length])
        torn = open_step_log(tmp_path)
        assert (
            torn.get_or_compute("a", fail_if_called),
            torn.get_or_compute("b", lambda: "again"),
            torn.get_or_compute("c", lambda: 3),
        ) == (
            1.5,
            "again",
            3,
        )
        after = open_step_log(tmp_path)
        assert [after.get_or_compute(key, fail_if_called) for key in "abc"] == [1.5, "again", 3]
    (tmp_path / STEP_LOG_FILE).write_bytes(b"\xff\xfe\nnull\n[1]\n{}" + uninterrupted)
    assert open_step_log(tmp_path).get_or_compute("b", fail_if_called) == [2.5, "two"]


def test_results_of_other_work_are_neither_read_nor_lost(tmp_path):
    open_step_log(tmp_path, "me").get_or_compute("a", lambda: 1)
    assert open_step_log(tmp_path, "you").get_or_compute("a", lambda: 2) == 2
    assert (
        open_step_log(tmp_path, "me").get_or_compute("a", fail_if_called),
        open_step_log(tmp_path, "you").get_or_compute("a", fail_if_called),
    ) == (1, 2)


def test_an_unusable_file_is_reported_in_one_line(tmp_path):
    step_log = open_step_log(tmp_path)
    (tmp_path / STEP_LOG_FILE).mkdir()
    for broken in (
        lambda: step_log.get_or_compute("a", lambda: 1),
        lambda: open_step_log(tmp_path),
    ):
        with pytest.raises(
            UsageError, match=rf"{STEP_LOG_FILE} cannot be (written|read): "
        ) as caught:
            broken()
        assert "\n" not in str(caught.value)


def test_progress_counts_steps_done_and_expected(tmp_path):
    """Two architectures of three steps are expected; the first ends early, and a third is needed."""
    progress: list[tuple[int, int | None]] = []

    def log_event(event: Progress) -> None:
        progress.append((event.done, event.total))

    step_log = open_step_log(tmp_path, max_proposals=2, on_progress=log_event)
    step_log.begin_proposal(3)
    step_log.get_or_compute("a", lambda: 1)
    step_log.get_or_compute("b", lambda: 1)
    step_log.begin_proposal(3)
    step_log.get_or_compute("c", lambda: 1)
    assert progress == [(0, 6), (1, 6), (1, 6), (2, 6), (2, 5), (3, 5)]
    progress.clear()
    again = open_step_log(tmp_path, max_proposals=1, on_progress=log_event)
    again.begin_proposal(4)
    for key in "abcd":
        again.get_or_compute(key, lambda: 1)
    again.begin_proposal(2)
    again.get_or_compute("e", lambda: 1)
    assert progress == [(3, 4), (4, 4), (4, 6), (5, 6)]


# ------------------------------------------------------------------------------------ strategies


@untrained.proxy(needs=(), samples=2)
def mixture_score(probe: Probe) -> float:
    """A number that depends on the mixture of the supernet and on the batch."""
    weights = torch.cat(list(probe.model.mixture.values()))
    return float(
        (weights * torch.arange(1, len(weights) + 1).sin()).sum() + probe.batch.inputs[0].sum()
    )


def make_darts_strategy(rng: np.random.Generator, step_log: StepLog) -> ZeroCostPT:
    space = load_space("darts(channels=2,cells=3)")
    source = load_data("noise", Task("noise", (3, 8, 8), 4))
    return ZeroCostPT(
        space,
        rng,
        source=source,
        step_log=step_log,
        operations=mixture_score,
        edges=mixture_score,
        proposals=1,
    )


KINDS: dict[str, tuple[int, Callable[..., Any]]] = {  # with the number of measurements of the supernet
    "nasi": (3 * 5, lambda rng, step_log: NASI(two_edges, rng, source=SOURCE, step_log=step_log, steps=5, nu0=1e6)),
    "nasi, fixed": (
        3 * (4 + 5),
        lambda rng, step_log: NASI(
            two_edges, rng, source=SOURCE, step_log=step_log, steps=5, nu="fixed", samples=4, mu=0.5
        ),
    ),
    "zerocost_pt": (3 * 4, lambda rng, step_log: ZeroCostPT(two_edges, rng, source=SOURCE, step_log=step_log,
                                                        operations=mixture_score, proposals=3)),
    "zerocost_pt, darts": (28 * 7 + 2 * (3 + (4 + 3) + (5 + 4 + 3)), make_darts_strategy),
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def measurements(monkeypatch) -> list[str]:
    """One entry per measurement of a supernet."""
    calls: list[str] = []

    def count_calls(measure: Callable[..., Any]) -> Callable[..., Any]:
        def measure_and_count(*arguments: Any, **options: Any) -> Any:
            calls.append("measurement")
            return measure(*arguments, **options)

        return measure_and_count

    monkeypatch.setattr(nasi, "compute_trace_norm", count_calls(nasi.compute_trace_norm))
    monkeypatch.setattr(zerocost_pt, "Probe", count_calls(zerocost_pt.Probe))
    return calls


def run_kind(kind: str, step_log: StepLog) -> tuple[list[Any], list[Any], Any]:
    """Return the proposals, the trace, and the state of the generator at the end."""
    rng = np.random.default_rng(3)
    strategy = KINDS[kind][1](rng, step_log)
    archs = [arch for _ in range(3) for arch in strategy.ask(1)]
    return archs, strategy.trace, rng.bit_generator.state


@kinds
def test_a_strategy_interrupted_at_any_step_resumes_to_the_same_result(
    kind, tmp_path, measurements
):
    uninterrupted = run_kind(kind, StepLog())
    count = KINDS[kind][0]
    assert len(measurements) == count
    for stop in (0, 1, count // 2, count - 1):
        folder = tmp_path / str(stop)
        folder.mkdir()

        def stop_at_step(event: Progress, stop: int = stop) -> None:
            if event.done == stop:
                raise StopTest

        measurements.clear()
        with pytest.raises(StopTest):
            run_kind(kind, open_step_log(folder, on_progress=stop_at_step))
        assert len(measurements) == stop
        assert run_kind(kind, open_step_log(folder)) == uninterrupted
        assert len(measurements) == count
        assert run_kind(kind, open_step_log(folder)) == uninterrupted
        assert len(measurements) == count, "nothing is left to measure"


@kinds
def test_progress_knows_the_number_of_measurements_in_advance(kind, tmp_path):
    progress: list[tuple[int, int | None]] = []
    run_kind(
        kind,
        open_step_log(
            tmp_path,
            max_proposals=1 if "darts" in kind else 3,
            on_progress=lambda event: progress.append((event.done, event.total)),
        ),
    )
    count = KINDS[kind][0]
    assert list(dict.fromkeys(progress)) == [(done, count) for done in range(count + 1)]


def test_other_samples_are_measured_again(tmp_path, measurements):
    """The key of a measurement contains the fingerprint of its batch."""
    for shift in (0.0, 1.0):
        source = replace(
            SOURCE,
            draw=lambda n, g, shift=shift: replace(
                SOURCE.draw(n, g), inputs=torch.ones(n, 1) + shift
            ),
        )
        strategy = NASI(
            two_edges,
            np.random.default_rng(0),
            source=source,
            step_log=open_step_log(tmp_path),
            steps=2,
            nu0=1e6,
        )
        strategy.ask(1)
    assert len(measurements) == 4


@pytest.mark.parametrize("kind", ["nasi, fixed", "zerocost_pt"])
def test_measurements_use_the_fastest_kernels_of_their_device(kind, tmp_path, monkeypatch):
    devices: list[str] = []
    for module in (nasi, zerocost_pt):
        monkeypatch.setattr(
            module,
            "fastest_kernels",
            lambda device: devices.append(device) or fastest_kernels(device),
        )
    run_kind(kind, StepLog())
    assert devices == ["cpu"] * KINDS[kind][0]
    before = torch.backends.cudnn.benchmark
    with fastest_kernels("cuda"):
        assert torch.backends.cudnn.benchmark
    with fastest_kernels("cpu"):
        assert torch.backends.cudnn.benchmark == before
    assert torch.backends.cudnn.benchmark == before


# -------------------------------------------------------------------------------------- searches


def search_one_arch(folder: Path, strategy: str = STEPS, **options: Any) -> SearchResult:
    return search(NET, "params", strategy, 1, "noise", run=folder, workers=1, **options)


def make_interrupt(step: int) -> Callable[[Any], None]:
    def interrupt(event: Any) -> None:
        if (event.stage, event.done) == ("searching the supernet", step):
            raise KeyboardInterrupt

    return interrupt


def test_ctrl_c_keeps_steps_and_times_and_progress_resumes(tmp_path):
    uninterrupted = search_one_arch(tmp_path / "uninterrupted")
    stopped = search_one_arch(tmp_path / "stopped", on_progress=make_interrupt(4))
    assert (stopped.run.end_reason, len(read_lines(tmp_path / "stopped"))) == ("interrupted", 4)
    progress: list[Any] = []
    resumed = search_one_arch(tmp_path / "stopped", on_progress=progress.append)
    steps = [
        (event.done, event.total) for event in progress if event.stage == "searching the supernet"
    ]
    assert list(dict.fromkeys(steps)) == [(4, 6), (5, 6), (6, 6)]
    assert resumed.best == uninterrupted.best
    assert (
        _trace.read_trace(tmp_path / "stopped")
        == _trace.read_trace(tmp_path / "uninterrupted")
        != []
    )
    step_seconds = [line["seconds"] for line in read_lines(tmp_path / "stopped")]
    assert len(step_seconds) == 6
    assert resumed.run.strategy_seconds == pytest.approx(sum(step_seconds))
    assert stopped.run.wall_seconds + sum(step_seconds[4:]) < resumed.run.wall_seconds
    assert "searching the supernet" in format_cost(replace(resumed.run, strategy_seconds=1.0))
    assert "Supernet measurements" in resumed.report().read_text()


def test_the_steps_of_a_killed_session_are_counted_once(tmp_path):
    """10 s of logged steps that no session has counted, 2 s of this session, then 1 s without a step."""
    (tmp_path / STEP_LOG_FILE).write_text("")
    step_log = open_step_log(tmp_path)
    line = {"dependencies": step_log._fingerprint, "key": "a", "result": 1, "seconds": 10.0}
    (tmp_path / STEP_LOG_FILE).write_text(json.dumps(line))
    run = replace(search_one_arch(tmp_path / "run").run, wall_seconds=0.0, strategy_seconds=0.0)
    first = run.add_session([], 2.0, "interrupted", step_log=open_step_log(tmp_path))
    assert (first.wall_seconds, first.strategy_seconds) == (12.0, 10.0)
    second = first.add_session([], 1.0, "budget", step_log=open_step_log(tmp_path))
    assert (second.wall_seconds, second.strategy_seconds) == (13.0, 10.0)
    other = second.add_session([], 1.0, "budget", step_log=open_step_log(tmp_path, "other work"))
    assert other.wall_seconds == 14.0


def test_another_search_in_a_folder_without_records_uses_no_steps_of_the_first(
    tmp_path,
):
    other = STEPS.replace("nu0=1e9", "nu0=1e-3,mu=3.0")
    replace(
        search_one_arch(tmp_path / "shared", on_progress=make_interrupt(4)).run, wall_seconds=1e6
    ).save()
    result = search_one_arch(tmp_path / "shared", other)
    fresh = search_one_arch(tmp_path / "fresh", other)
    assert _trace.read_trace(tmp_path / "shared") == _trace.read_trace(tmp_path / "fresh")
    assert (result.best, len(read_lines(tmp_path / "shared"))) == (fresh.best, 4 + 6)
    assert result.run.wall_seconds < 1e6
    own_seconds = [line["seconds"] for line in read_lines(tmp_path / "shared")[4:]]
    assert result.run.strategy_seconds == pytest.approx(sum(own_seconds))


def test_a_run_depends_on_a_users_proxy_in_the_options_of_its_strategy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = "import untrained\n\n@untrained.proxy(needs=(), samples=2)\ndef own{n}(probe):\n    return {n}.0\n"
    for n in (1, 2):
        Path(f"mine{n}.py").write_text(mine.format(n=n))
        search(
            NET,
            "params",
            f"zerocost_pt(operations=./mine{n}.py:own{n},proposals=1)",
            1,
            "noise",
            run=f"run{n}",
        )
    codes = [json.loads(Path(f"run{n}", "run.json").read_text())["code"] for n in (1, 2)]
    assert codes[0] != codes[1]
    assert all(codes)


KILLED = """
    import json, os, signal, sys
    from untrained.config import SearchConfig
    from untrained.workflows.search import run_search

    def kill_at_step_3(progress):
        if (progress.stage, progress.done) == ("searching the supernet", 3):
            os.kill(os.getpid(), signal.SIGKILL)

    run_search(SearchConfig.from_document(json.loads(sys.argv[1])), kill_at_step_3)
"""


def test_killed_searches_of_an_experiment_resume_in_new_processes(tmp_path):
    plans = [SearchPlan(NET, STEPS, "noise", seed) for seed in (0, 1)]
    config = ExperimentConfig(1, 1, tmp_path, compute=ComputeConfig(workers=2))
    document = json.dumps(plans[0].to_search_config(config).to_document())
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", dedent(KILLED), document],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = plans[0].get_folder(config)
    before = read_lines(folder)
    assert len(before) == 3
    with (folder / STEP_LOG_FILE).open("a") as file:
        file.write('\n{"dependencies": "')  # an incomplete line
    first, _ = run_searches(config, plans, "searches")
    text = (folder / STEP_LOG_FILE).read_text().split("\n")
    after = [json.loads(line) for line in text if line.endswith("}")]
    assert (after[:3], len({line["key"] for line in after}), len(after)) == (before, 6, 6)
    uninterrupted = replace(
        config, folder=tmp_path / "uninterrupted", compute=ComputeConfig(workers=1)
    )
    (expected,) = run_searches(uninterrupted, plans[:1], "searches")
    assert (first.arch, first.scores, first.trace) == (
        expected.arch,
        expected.scores,
        expected.trace,
    )
    assert first.seconds >= sum(line["seconds"] for line in after)
