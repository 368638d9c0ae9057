"""What a strategy worked out itself outlives it: stopped anywhere it goes on to the same end, no step twice."""

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
from untrained._terminal import _cost
from untrained.data import load
from untrained.errors import UsageError
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.searches import SearchPlan, run_searches
from untrained.probe.guard import fastest_kernels
from untrained.spaces import load_space
from untrained.strategies import Result, _trace, nasi, zerocost_pt
from untrained.strategies._notes import FILE, Notes
from untrained.strategies.nasi import NASI
from untrained.strategies.zerocost_pt import ZeroCostPT
from untrained.studies._scores import Crew
from untrained.types import Task

NET = "nasbench201(channels=2,cells=1)"
STEPS = "nasi(steps=6,batch=2,nu0=1e9)"
FLOATS = [0.1 + 0.2, 1e-300, 5e-324, -0.0, 1 / 3, inf, None]


class Stopped(Exception):  # noqa: N818 - not an error
    pass


def kept(folder: Path, whose: object = "me", answers: int | None = None, tell: Any = None) -> Notes:
    notes = Notes(tell)
    notes.keep(folder, whose, answers)
    return notes


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().split("\n") if line]


def unknown() -> Any:
    raise AssertionError("worked out again")


# -------------------------------------------------------------------------------------------------------------- a file


def test_what_was_written_down_is_read_to_the_last_bit_and_not_worked_out_again(tmp_path):
    first = kept(tmp_path)
    assert str(first.of("a", lambda: (FLOATS, {"b": 1}))) == str([FLOATS, {"b": 1}])
    assert str(first.of("a", unknown)) == str([FLOATS, {"b": 1}])
    assert str(kept(tmp_path).of("a", unknown)) == str([FLOATS, {"b": 1}])
    assert Notes().of("a", lambda: 2) == 2, "without a folder everything is new"


def test_a_line_that_was_torn_anywhere_is_worked_out_again_and_the_others_stay(tmp_path):
    notes = kept(tmp_path)
    notes.of("a", lambda: 1.5)
    sound = (tmp_path / FILE).read_bytes()
    notes.of("b", lambda: [2.5, "two"])
    whole = (tmp_path / FILE).read_bytes()
    for length in range(len(sound), len(whole)):
        (tmp_path / FILE).write_bytes(whole[:length])
        torn = kept(tmp_path)
        assert (torn.of("a", unknown), torn.of("b", lambda: "again"), torn.of("c", lambda: 3)) == (1.5, "again", 3)
        after = kept(tmp_path)
        assert [after.of(key, unknown) for key in "abc"] == [1.5, "again", 3]
    (tmp_path / FILE).write_bytes(b"\xff\xfe\nnull\n[1]\n{}" + whole)
    assert kept(tmp_path).of("b", unknown) == [2.5, "two"]


def test_notes_of_other_work_are_not_read_and_not_lost(tmp_path):
    kept(tmp_path, "me").of("a", lambda: 1)
    assert kept(tmp_path, "you").of("a", lambda: 2) == 2
    assert (kept(tmp_path, "me").of("a", unknown), kept(tmp_path, "you").of("a", unknown)) == (1, 2)


def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path):
    notes = kept(tmp_path)
    (tmp_path / FILE).mkdir()
    for broken in (lambda: notes.of("a", lambda: 1), lambda: kept(tmp_path)):
        with pytest.raises(UsageError, match=rf"{FILE} cannot be (written|read): ") as caught:
            broken()
        assert "\n" not in str(caught.value)


def test_who_listens_hears_of_steps_that_are_taken_now_and_of_all_that_will_be(tmp_path):
    """Two architectures of three steps are asked for; the first way ends early, and a third is needed."""
    told: list[tuple[int, int]] = []
    notes = kept(tmp_path, answers=2, tell=lambda *at: told.append(at))
    notes.begin(3)
    notes.of("a", lambda: 1)
    notes.of("b", lambda: 1)
    notes.begin(3)
    notes.of("c", lambda: 1)
    assert told == [(0, 6), (1, 6), (1, 6), (2, 6), (2, 5), (3, 5)]
    told.clear()
    again = kept(tmp_path, answers=1, tell=lambda *at: told.append(at))
    again.begin(4)
    for key in "abcd":
        again.of(key, lambda: 1)
    again.begin(2)
    again.of("e", lambda: 1)
    assert told == [(3, 4), (4, 4), (4, 6), (5, 6)]


# ---------------------------------------------------------------------------------------------------------- strategies


@untrained.proxy(needs=(), samples=2)
def taste(probe: Probe) -> float:
    """Any number that follows from how the supernet is mixed and what it is shown."""
    weights = torch.cat(list(probe.model.mixture.values()))
    return float((weights * torch.arange(1, len(weights) + 1).sin()).sum() + probe.batch.inputs[0].sum())


def darts(rng: np.random.Generator, notes: Notes) -> ZeroCostPT:
    space, source = load_space("darts(channels=2,cells=3)"), load("noise", Task("noise", (3, 8, 8), 4))
    return ZeroCostPT(space, rng, source=source, notes=notes, operations=taste, edges=taste, proposals=1)


KINDS: dict[str, tuple[int, Callable[..., Any]]] = {  # with the number of looks at the supernet
    "nasi": (3 * 5, lambda rng, notes: NASI(two_edges, rng, source=SOURCE, notes=notes, steps=5, nu0=1e6)),
    "nasi, fixed": (
        3 * (4 + 5),
        lambda rng, notes: NASI(
            two_edges, rng, source=SOURCE, notes=notes, steps=5, nu="fixed", samples=4, mu=0.5
        ),
    ),
    "zerocost_pt": (3 * 4, lambda rng, notes: ZeroCostPT(two_edges, rng, source=SOURCE, notes=notes,
                                                        operations=taste, proposals=3)),
    "zerocost_pt, darts": (28 * 7 + 2 * (3 + (4 + 3) + (5 + 4 + 3)), darts),
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """One for every time that somebody looks at a supernet."""
    found: list[str] = []

    def counted(look: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *some, **options: (found.append("look"), look(*some, **options))[1]

    monkeypatch.setattr(nasi, "trace_norm", counted(nasi.trace_norm))
    monkeypatch.setattr(zerocost_pt, "Probe", counted(zerocost_pt.Probe))
    return found


def asked(kind: str, notes: Notes) -> tuple[list[Any], list[Any], Any]:
    """What is proposed, what was believed, and where chance is afterwards."""
    rng = np.random.default_rng(3)
    strategy = KINDS[kind][1](rng, notes)
    archs = [arch for _ in range(3) for arch in strategy.ask(1)]
    return archs, strategy.trace, rng.bit_generator.state


@kinds
def test_stopped_at_any_step_it_goes_on_to_the_same_end_and_looks_at_nothing_twice(kind, tmp_path, looks):
    whole, count = asked(kind, Notes()), KINDS[kind][0]
    assert len(looks) == count
    for stop in (0, 1, count // 2, count - 1):
        folder = tmp_path / str(stop)
        folder.mkdir()

        def pull(done: int, total: int, stop: int = stop) -> None:
            if done == stop:
                raise Stopped

        looks.clear()
        with pytest.raises(Stopped):
            asked(kind, kept(folder, tell=pull))
        assert len(looks) == stop
        assert asked(kind, kept(folder)) == whole
        assert len(looks) == count
        assert asked(kind, kept(folder)) == whole
        assert len(looks) == count, "nothing is left to look at"


@kinds
def test_every_look_is_told_and_foreseen(kind, tmp_path):
    told: list[tuple[int, int]] = []
    asked(kind, kept(tmp_path, answers=1 if "darts" in kind else 3, tell=lambda *at: told.append(at)))
    count = KINDS[kind][0]
    assert list(dict.fromkeys(told)) == [(done, count) for done in range(count + 1)]


def test_other_samples_are_looked_at_anew(tmp_path, looks):
    """The key of a look holds what was looked at, as that of a record does."""
    for shift in (0.0, 1.0):
        source = replace(
            SOURCE, draw=lambda n, g, shift=shift: replace(SOURCE.draw(n, g), inputs=torch.ones(n, 1) + shift)
        )
        found = NASI(two_edges, np.random.default_rng(0), source=source, notes=kept(tmp_path), steps=2, nu0=1e6)
        found.ask(1)
    assert len(looks) == 4


@pytest.mark.parametrize("kind", ["nasi, fixed", "zerocost_pt"])
def test_looks_may_take_the_fastest_kernels_of_their_device(kind, tmp_path, monkeypatch):
    devices: list[str] = []
    for module in (nasi, zerocost_pt):
        monkeypatch.setattr(module, "fastest_kernels", lambda device: devices.append(device) or fastest_kernels(device))
    asked(kind, Notes())
    assert devices == ["cpu"] * KINDS[kind][0]
    before = torch.backends.cudnn.benchmark
    with fastest_kernels("cuda"):
        assert torch.backends.cudnn.benchmark
    with fastest_kernels("cpu"):
        assert torch.backends.cudnn.benchmark == before
    assert torch.backends.cudnn.benchmark == before


# ------------------------------------------------------------------------------------------------------------ searches


def find(folder: Path, strategy: str = STEPS, watch: Any = None, **options: Any) -> Result:
    return search(NET, "params", strategy, 1, "noise", run=folder, watch=watch, workers=1, **options)


def stop_at(step: int) -> Callable[[Any], None]:
    def stop(at: Any) -> None:
        if (at.stage, at.done) == ("looking at the supernet", step):
            raise KeyboardInterrupt

    return stop


def test_ctrl_c_keeps_the_steps_and_the_account_and_the_bar_goes_on(tmp_path):
    whole = find(tmp_path / "whole")
    stopped = find(tmp_path / "stopped", watch=stop_at(4))
    assert (stopped.run.ended, len(lines(tmp_path / "stopped"))) == ("interrupted", 4)
    told: list[Any] = []
    found = find(tmp_path / "stopped", watch=told.append)
    looked = [(at.done, at.total) for at in told if at.stage == "looking at the supernet"]
    assert list(dict.fromkeys(looked)) == [(4, 6), (5, 6), (6, 6)]
    assert found.best == whole.best
    assert _trace.read(tmp_path / "stopped") == _trace.read(tmp_path / "whole") != []
    noted = [line["seconds"] for line in lines(tmp_path / "stopped")]
    assert len(noted) == 6
    assert found.run.noted_seconds == pytest.approx(sum(noted))
    assert stopped.run.wall_seconds + sum(noted[4:]) < found.run.wall_seconds
    assert "looking at the supernet" in _cost(replace(found.run, noted_seconds=1.0))
    assert "Supernet measurements" in found.report().read_text()


def test_sittings_that_were_killed_are_charged_for_what_they_wrote_down_and_only_once(tmp_path):
    """10 s of notes that no account knows, and 2 s of this sitting; then a sitting of 1 s that took no step."""
    (tmp_path / FILE).write_text("")
    notes = kept(tmp_path)
    line = {"of": notes._whose, "key": "a", "answer": 1, "seconds": 10.0}
    (tmp_path / FILE).write_text(json.dumps(line))
    run = replace(find(tmp_path / "run").run, wall_seconds=0.0, noted_seconds=0.0)
    first = run.account([], 2.0, "interrupted", notes=kept(tmp_path))
    assert (first.wall_seconds, first.noted_seconds) == (12.0, 10.0)
    second = first.account([], 1.0, "budget", notes=kept(tmp_path))
    assert (second.wall_seconds, second.noted_seconds) == (13.0, 10.0)
    lost = second.account([], 1.0, "budget", notes=kept(tmp_path, "other work"))
    assert lost.wall_seconds == 14.0


def test_another_search_may_have_a_folder_without_records_but_not_its_notes_nor_its_account(tmp_path):
    other = STEPS.replace("nu0=1e9", "nu0=1e-3,mu=3.0")
    replace(find(tmp_path / "shared", watch=stop_at(4)).run, wall_seconds=1e6).save()
    found, fresh = find(tmp_path / "shared", other), find(tmp_path / "fresh", other)
    assert _trace.read(tmp_path / "shared") == _trace.read(tmp_path / "fresh")
    assert (found.best, len(lines(tmp_path / "shared"))) == (fresh.best, 4 + 6)
    assert found.run.wall_seconds < 1e6
    own = [line["seconds"] for line in lines(tmp_path / "shared")[4:]]
    assert found.run.noted_seconds == pytest.approx(sum(own))


def test_a_proxy_of_the_users_own_that_a_strategy_takes_is_among_what_a_run_depends_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = "import untrained\n\n@untrained.proxy(needs=(), samples=2)\ndef own{n}(probe):\n    return {n}.0\n"
    for n in (1, 2):
        Path(f"mine{n}.py").write_text(mine.format(n=n))
        search(NET, "params", f"zerocost_pt(operations=./mine{n}.py:own{n},proposals=1)", 1, "noise", run=f"run{n}")
    codes = [json.loads(Path(f"run{n}", "run.json").read_text())["settings"]["code"] for n in (1, 2)]
    assert codes[0] != codes[1]
    assert all(codes)


KILLED = """
    import json, os, signal, sys
    from untrained import search

    def watch(at):
        if (at.stage, at.done) == ("looking at the supernet", 3):
            os.kill(os.getpid(), signal.SIGKILL)

    search(**json.loads(sys.argv[1]), workers=1, watch=watch)
"""


def test_killed_searches_of_an_experiment_go_on_in_processes_of_their_own(tmp_path):
    plans = [SearchPlan(NET, STEPS, "noise", seed) for seed in (0, 1)]
    effort = ExperimentConfig(1, 1, tmp_path, compute=Crew(workers=2))
    said = json.dumps(plans[0].to_arguments(effort))
    alone = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", dedent(KILLED), said], capture_output=True, text=True, env=alone)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = plans[0].folder(effort)
    before = lines(folder)
    assert len(before) == 3
    with (folder / FILE).open("a") as file:
        file.write('\n{"of": "')  # torn
    first, _ = run_searches(effort, plans, "searches")
    text = (folder / FILE).read_text().split("\n")
    after = [json.loads(line) for line in text if line.endswith("}")]
    assert (after[:3], len({line["key"] for line in after}), len(after)) == (before, 6, 6)
    whole = replace(effort, folder=tmp_path / "whole", compute=Crew(workers=1))
    (expected,) = run_searches(whole, plans[:1], "searches")
    assert (first.arch, first.scores, first.trace) == (expected.arch, expected.scores, expected.trace)
    assert first.seconds >= sum(line["seconds"] for line in after)
