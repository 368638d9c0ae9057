"""Architectures that end, hang or starve the process that looks at them: the run goes on, the record says what
happened, and another sitting tries again. With real processes."""

import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import dedent

import pytest

from untrained import Record, load_space, search
from untrained.data import load
from untrained.engine import Job, Samples, Store, hired
from untrained.engine._pool import Died, Ready
from untrained.engine.processes import ProcessCrew, _cause, _last_words
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.strategies import Result
from untrained.types import PASSING, Failure

pytestmark = pytest.mark.slow  # eight workers are killed and hired anew
MINE = """
    import ctypes
    import os
    import signal
    import sys
    from pathlib import Path

    import torch
    from torch import nn

    import untrained

    CURED = Path(__file__).with_name("cured")  # once it exists, the machine is well again
    FATES = "fine well exit leave kill segfault forever build ask memory thirst hunger".split()

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=len(FATES))
    def nets(choose, task):
        fate = choose("fate", FATES)

        def make():
            net = nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Tanh(), nn.Linear(2, 4))
            net.fate = fate
            if fate == "build":
                raise ValueError("cannot be built on any machine")
            if fate == "ask":
                input("nobody is at this keyboard")
            if CURED.exists():
                return net
            if fate in ("exit", "leave", "kill", "segfault"):
                print("last words of", fate, flush=True)
            if fate == "exit":
                os._exit(7)
            if fate == "leave":
                sys.exit(3)
            if fate == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if fate == "segfault":
                ctypes.string_at(0)
            while fate == "forever":
                pass
            return net

        return make

    def starve(probe):
        \"\"\"Out of memory: `thirst` on eight samples, `hunger` on any number of them.\"\"\"
        fate = "" if CURED.exists() else probe.model.fate
        if fate == "memory":
            raise MemoryError
        if fate == "hunger" or (fate == "thirst" and len(probe.batch) == 8):
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return float(len(probe.batch))

    @untrained.proxy(samples=8)
    def mean_of_samples(probe):
        return starve(probe)
"""
DIED = {
    "exit": "its worker ended with exit code 7",
    "kill": "its worker was killed by SIGKILL; was the machine out of memory?",
    "segfault": "its worker was killed by SIGSEGV",
}


@dataclass(frozen=True)
class Story:
    """A run on a sick machine, what its store held, and the same command after the machine was cured."""

    sick: Result
    kept: list[Record]
    cured: Result
    kept_then: list[Record]


def stored(folder: Path) -> list[Record]:
    with Store(folder / "records.sqlite") as store:
        return list(store)


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Iterator[Story]:
    folder: Path = tmp_path_factory.mktemp("folder")
    (folder / "mine.py").write_text(dedent(MINE))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        def find() -> Result:
            names = {"space": "./mine.py:nets", "proxy": "./mine.py:mean_of_samples", "data": "noise", "run": "run"}
            return search(**names, budget=12, workers=2, time_limit="3s")

        sick, kept = find(), stored(folder / "run")
        (folder / "cured").touch()
        yield Story(sick, kept, find(), stored(folder / "run"))


def by_fate(records: list[Record] | tuple[Record, ...]) -> dict[str, dict[str, Record]]:
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        found.setdefault(str(record.arch["fate"]), {})[record.proxy] = record
    return found


@pytest.mark.parametrize("fate", DIED)
def test_who_ends_its_worker_has_crashed_by_every_proxy_and_says_how(story, fate):
    records = by_fate(story.sick.records)[fate]
    assert {name: record.error for name, record in records.items()} == dict.fromkeys(
        ("mean_of_samples", "params", "flops"), Failure("crashed", DIED[fate])
    )
    assert f"last words of {fate}" in records["params"].error.trace.splitlines()
    assert "Fatal Python error: _enter" not in records["params"].error.trace


def test_last_words_are_the_whole_lines_at_the_end_however_long_the_stacks_of_a_crash_are():
    lines = [f"line {number}" for number in range(3000)]  # 26,890 bytes
    kept = _last_words(BytesIO("\n".join(lines).encode())).splitlines()
    assert kept == lines[-len(kept) :]
    assert 15_980 < len("\n".join(kept)) <= 16_000
    assert _last_words(BytesIO(b"little\nis said\n")) == "little\nis said"


def test_who_takes_too_long_is_stopped(story):
    records = by_fate(story.sick.records)["forever"].values()
    assert {record.error for record in records} == {Failure("timeout", "took longer than 3 s")}


@pytest.mark.parametrize(
    ("fate", "detail"),
    [
        ("memory", "MemoryError: "),
        ("hunger", "OutOfMemoryError: tried to allocate 2 GiB"),
        ("thirst", "OutOfMemoryError: tried to allocate 2 GiB"),  # half of the samples would have fitted
    ],
)
def test_a_network_that_does_not_fit_into_memory_fails_and_other_proxies_go_on(story, fate, detail):
    records = by_fate(story.sick.records)[fate]
    error = records["mean_of_samples"].error
    assert error.kind == "oom"
    assert error.detail.startswith(detail)
    assert "mine.py" in error.trace
    assert records["params"].value == 193 * 2 + 3 * 4  # the other proxies had enough


def test_what_is_the_networks_own_fault_is_told_as_such(story):
    found = by_fate(story.sick.records)
    assert found["build"]["params"].error.detail.startswith("ValueError: cannot be built on any machine (make, line")
    assert 'raise ValueError("cannot be built on any machine")' in found["build"]["params"].error.trace
    assert found["leave"]["params"].error.kind == "error"  # sys.exit is an exception, and the worker goes on
    assert found["leave"]["params"].error.detail.startswith("SystemExit: 3 (make, line")
    assert found["ask"]["params"].error.detail.startswith("EOFError")  # it did not read questions meant for the worker


def test_the_run_goes_on(story):
    found = by_fate(story.sick.records)
    assert (len(found), len(story.sick.records)) == (12, 36)
    for fate in ("fine", "well"):
        assert [found[fate][name].value for name in ("mean_of_samples", "params", "flops")] == [8, 398, 192 * 2 + 8]
    assert {standing.arch["fate"] for standing in story.sick.ranking.standings} == {"fine", "well"}
    assert story.sick.run.ended == "budget"
    assert sum(row["deaths"] for row in story.sick.run.workers) == 2 * len(DIED)


def test_the_store_keeps_what_was_found_with_its_trace(story):
    assert len(story.kept) == 36
    assert set(story.kept) == set(story.sick.records)
    told = {r.error.trace for r in story.sick.records if r.error}
    assert {r.error.trace for r in story.kept if r.error} == told
    assert "last words of kill" in told


def test_another_sitting_tries_again_what_the_machine_had_failed_and_nothing_else(story):
    before, after = by_fate(story.kept), by_fate(story.kept_then)
    assert len(story.kept_then) == 36
    again = {fate for fate in before if any(r.error and r.error.passing for r in before[fate].values())}
    assert again == {*DIED, "forever", "memory", "hunger", "thirst"}
    for fate, records in before.items():
        for name, record in records.items():
            if record.error and record.error.kind in PASSING:
                assert after[fate][name].value == {"mean_of_samples": 8, "params": 398, "flops": 392}[name]
            else:
                assert after[fate][name] == record  # seconds and all: it is that record
    assert [r.arch for r in story.kept_then] == [r.arch for r in story.kept]  # in the place of the old one
    assert set(story.cured.records) == set(story.kept_then)
    assert {str(failure) for _, failure in story.cured.ranking.failed} == {
        str(after[fate]["params"].error) for fate in ("build", "ask", "leave")
    }


# ------------------------------------------------------------------------------------------------- the crew itself


@pytest.fixture(scope="module")
def job() -> Job:
    space, proxies = load_space("nasbench201(channels=2,cells=1)"), [load_proxy("params")]
    samples = Samples.of(load("noise", space.task), proxies, (0,))
    return Job(space.name, ("params",), space.task, samples.largest())


@pytest.fixture
def crew(job) -> Iterator[ProcessCrew]:
    """Nobody is left behind, also where a test fails."""
    crew = ProcessCrew(job)
    yield crew
    for worker in list(crew._people):
        crew.dismiss(worker)


def test_what_is_given_to_a_dead_worker_is_nobodys_loss(crew):
    """Whoever listens has closed its pipe already, and the pool has not yet heard of it."""
    crew.hire(0, 0)
    person = crew._people[0]
    person.kill()
    deadline = time.monotonic() + 20
    while not person.stdin.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert person.stdin.closed
    crew.give(0, [[]])
    assert [type(event) for event in crew.events(1.0)] == [Died]


def test_every_end_of_a_worker_has_words():
    """Also the signals without a name: a thread that stumbles over one would leave the pool waiting for ever."""
    assert _cause(7) == "its worker ended with exit code 7"
    for number in range(1, signal.NSIG):
        assert re.match(r"its worker was killed by (SIG\w+|signal \d+)(;|$)", _cause(-number))
        assert ("out of memory?" in _cause(-number)) == (number == signal.SIGKILL)


def test_workers_that_cannot_start_say_why_in_one_error(job, tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no torch on this machine >&2\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with hired(job, workers=2) as executor, pytest.raises(UsageError) as caught:
        list(executor.map([[]]))
    said = str(caught.value)
    assert said == "no worker can be started: its worker ended with exit code 9; it said: no torch on this machine"


def test_a_worker_whose_driver_is_gone_ends_at_once(crew):
    crew.hire(0, 0)
    assert list(crew.events(60.0)) == [Ready(0)]
    person = crew._people[0]
    person.stdin.close()
    assert person.wait(5) == 0
    assert [type(event) for event in crew.events(5.0)] == [Died]
