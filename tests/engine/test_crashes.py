"""Architectures that end, block or starve their worker process, with real processes.

The run continues, the record contains the reason, and another run tries again.
"""

import errno
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from textwrap import dedent
from threading import Thread
from types import SimpleNamespace

import pytest

from untrained import Record, load_space, search
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import SeedBatches, WorkerSetup, open_executor
from untrained.engine.executors.backend import WorkerDied, WorkerReady
from untrained.engine.executors.pool import PoolExecutor
from untrained.engine.executors.processes import (
    ProcessBackend,
    _describe_exit,
    _read_last_lines,
)
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.types import TRANSIENT_FAILURES, Arch, Failure, ScoreRequest, Task
from untrained.workflows.search import SearchResult

pytestmark = pytest.mark.slow  # eight workers are killed and replaced
MINE = """
    import ctypes
    import os
    import signal
    import sys
    from pathlib import Path

    import torch
    from torch import nn

    import untrained

    REPAIRED = Path(__file__).with_name("repaired")  # once it exists, the machine works
    FAULTS = "none other exit leave kill segfault forever build ask memory thirst hunger".split()

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=len(FAULTS))
    def nets(choose, task):
        fault = choose("fault", FAULTS)

        def make():
            net = nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Tanh(), nn.Linear(2, 4))
            net.fault = fault
            if fault == "build":
                raise ValueError("cannot be built on any machine")
            if fault == "ask":
                input("there is no keyboard")
            if REPAIRED.exists():
                return net
            if fault in ("exit", "leave", "kill", "segfault"):
                print("last output of", fault, flush=True)
            if fault == "exit":
                os._exit(7)
            if fault == "leave":
                sys.exit(3)
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "segfault":
                ctypes.string_at(0)
            while fault == "forever":
                pass
            return net

        return make

    def run_out_of_memory(probe):
        \"\"\"Out of memory: `thirst` on eight samples, `hunger` on any number of them.\"\"\"
        fault = "" if REPAIRED.exists() else probe.model.fault
        if fault == "memory":
            raise MemoryError
        if fault == "hunger" or (fault == "thirst" and len(probe.batch) == 8):
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return float(len(probe.batch))

    @untrained.proxy(samples=8)
    def count_samples(probe):
        return run_out_of_memory(probe)
"""
DEATHS = {
    "exit": "its worker ended with exit code 7",
    "kill": "its worker was killed by SIGKILL; was the machine out of memory?",
    "segfault": "its worker was killed by SIGSEGV",
}
# By hand: 193 * 2 + 3 * 4 parameters, 192 * 2 + 2 * 4 multiply-adds.
VALUES = {"count_samples": 8, "params": 398, "flops": 392}


@dataclass(frozen=True)
class TwoRuns:
    """A run on a faulty machine, and the same command after the machine was repaired.

    Attributes:
        faulty: The first run.
        stored: Records in the store after the first run.
        repaired: The second run.
        stored_later: Records in the store after the second run.
    """

    faulty: SearchResult
    stored: list[Record]
    repaired: SearchResult
    stored_later: list[Record]


def read_store(folder: Path) -> list[Record]:
    with Store(folder / "records.sqlite") as store:
        return list(store)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[TwoRuns]:
    folder: Path = tmp_path_factory.mktemp("folder")
    (folder / "mine.py").write_text(dedent(MINE))

    def run_command() -> SearchResult:
        return search(
            "./mine.py:nets",
            proxy="./mine.py:count_samples",
            data="noise",
            run="run",
            budget=12,
            workers=2,
            time_limit="3s",
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        faulty = run_command()
        stored = read_store(folder / "run")
        (folder / "repaired").touch()
        repaired = run_command()
        yield TwoRuns(faulty, stored, repaired, read_store(folder / "run"))


def group_by_fault(records: Sequence[Record]) -> dict[str, dict[str, Record]]:
    """Return records by the fault of their architecture and by proxy."""
    groups: dict[str, dict[str, Record]] = {}
    for record in records:
        groups.setdefault(str(record.arch["fault"]), {})[record.proxy] = record
    return groups


@pytest.mark.parametrize("fault", DEATHS)
def test_a_network_that_ends_two_workers_is_recorded_as_crashed_with_the_last_output(runs, fault):
    records = group_by_fault(runs.faulty.records)[fault]
    assert {name: record.error for name, record in records.items()} == dict.fromkeys(
        VALUES, Failure("crashed", DEATHS[fault])
    )
    trace = records["params"].error.trace
    assert f"last output of {fault}" in trace.splitlines()
    assert "Fatal Python error: _enter" not in trace


def test_the_last_output_is_limited_and_consists_of_whole_lines():
    lines = [f"line {number}" for number in range(3000)]  # 26,890 bytes
    last_lines = _read_last_lines(BytesIO("\n".join(lines).encode())).splitlines()
    assert last_lines == lines[-len(last_lines) :]
    assert 15_980 < len("\n".join(last_lines)) <= 16_000
    assert _read_last_lines(BytesIO(b"two\nlines\n")) == "two\nlines"


def test_a_network_that_takes_too_long_is_stopped(runs):
    records = group_by_fault(runs.faulty.records)["forever"].values()
    assert {record.error for record in records} == {Failure("timeout", "took longer than 3 s")}


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        ("memory", "MemoryError: "),
        ("hunger", "OutOfMemoryError: tried to allocate 2 GiB"),
        # Half of the samples would have fitted.
        ("thirst", "OutOfMemoryError: tried to allocate 2 GiB"),
    ],
)
def test_a_network_that_does_not_fit_into_memory_fails_and_other_proxies_are_scored(
    runs, fault, detail
):
    records = group_by_fault(runs.faulty.records)[fault]
    error = records["count_samples"].error
    assert error.kind == "oom"
    assert error.detail.startswith(detail)
    assert "mine.py" in error.trace
    assert records["params"].value == 193 * 2 + 3 * 4


def test_the_faults_of_a_network_are_recorded_with_their_place(runs):
    groups = group_by_fault(runs.faulty.records)
    build_error = groups["build"]["params"].error
    assert build_error.detail.startswith("ValueError: cannot be built on any machine (make, line")
    assert 'raise ValueError("cannot be built on any machine")' in build_error.trace
    # sys.exit is an exception, and the worker survives it.
    leave_error = groups["leave"]["params"].error
    assert leave_error.kind == "error"
    assert leave_error.detail.startswith("SystemExit: 3 (make, line")
    # It could not read requests that were meant for the worker.
    assert groups["ask"]["params"].error.detail.startswith("EOFError")


def test_the_run_continues_after_crashes(runs):
    groups = group_by_fault(runs.faulty.records)
    assert (len(groups), len(runs.faulty.records)) == (12, 36)
    for fault in ("none", "other"):
        assert {name: record.value for name, record in groups[fault].items()} == VALUES
    ranked = {standing.arch["fault"] for standing in runs.faulty.ranking.standings}
    assert ranked == {"none", "other"}
    assert runs.faulty.run.end_reason == "budget"
    assert sum(row["deaths"] for row in runs.faulty.run.workers) == 2 * len(DEATHS)


def test_the_store_keeps_records_with_their_traces(runs):
    assert len(runs.stored) == 36
    assert set(runs.stored) == set(runs.faulty.records)
    traces = {record.error.trace for record in runs.faulty.records if record.error}
    assert {record.error.trace for record in runs.stored if record.error} == traces
    assert "last output of kill" in traces


def test_another_run_retries_failures_of_the_machine_and_nothing_else(runs):
    before = group_by_fault(runs.stored)
    after = group_by_fault(runs.stored_later)
    assert len(runs.stored_later) == 36
    tried_again = set()
    for fault, records in before.items():
        for name, record in records.items():
            if record.error and record.error.kind in TRANSIENT_FAILURES:
                tried_again.add(fault)
                assert after[fault][name].value == VALUES[name]
            else:
                # The seconds are equal too, so it is the same record.
                assert after[fault][name] == record
    assert tried_again == {*DEATHS, "forever", "memory", "hunger", "thirst"}
    # New records take the places of the old ones.
    assert [r.arch for r in runs.stored_later] == [r.arch for r in runs.stored]
    assert set(runs.repaired.records) == set(runs.stored_later)
    failures = {str(failure) for _, failure in runs.repaired.ranking.failed}
    assert failures == {str(after[fault]["params"].error) for fault in ("build", "ask", "leave")}


# --------------------------------------------------------------------------- the process backend


@pytest.fixture(scope="module")
def setup() -> WorkerSetup:
    space = load_space("nasbench201(channels=2,cells=1)")
    proxies = [load_proxy("params")]
    batches = SeedBatches.for_proxies(load_data("noise", space.task), proxies, (0,))
    return WorkerSetup(space.name, ("params",), space.task, batches.draw_largest_batches())


@pytest.fixture
def backend(setup) -> Iterator[ProcessBackend]:
    """A backend whose workers are stopped also if the test fails."""
    backend = ProcessBackend(setup)
    yield backend
    for worker in list(backend._processes):
        backend.stop_worker(worker)


def test_sending_groups_to_a_dead_worker_is_no_error(backend):
    """Its pipe is already closed, and the pool has not yet received the event of its death."""
    backend.start_worker(0, 0)
    process = backend._processes[0]
    process.kill()
    deadline = time.monotonic() + 20
    while not process.stdin.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.stdin.closed
    backend.send_groups(0, [[]])
    assert [type(event) for event in backend.wait_for_events(1.0)] == [WorkerDied]


def test_sending_groups_does_not_wait_for_a_worker_that_does_not_read(backend):
    """A full pipe would keep the pool from its time limit."""
    backend.start_worker(0, 0)
    assert list(backend.wait_for_events(60.0)) == [WorkerReady(0)]
    backend._processes[0].send_signal(signal.SIGSTOP)
    request = ScoreRequest(Arch("s", (("text", "x" * 2**20),)), "params@1", Task("noise", (), 2), 0)
    sender = Thread(target=backend.send_groups, args=(0, [[request]]), daemon=True)
    sender.start()
    sender.join(10)
    assert not sender.is_alive()


def test_workers_are_stopped_if_another_one_cannot_be_started(setup, monkeypatch):
    processes = []
    start_process = subprocess.Popen

    def start_one_process(*args, **kwargs):
        if processes:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        processes.append(start_process(*args, **kwargs))
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", start_one_process)
    message = "no worker process can be started: .* unavailable; use fewer --workers"
    with pytest.raises(UsageError, match=message):
        PoolExecutor(ProcessBackend(setup), 2)
    assert processes[0].returncode == -signal.SIGKILL


def test_a_dead_worker_that_cannot_be_replaced_ends_the_run(setup, monkeypatch):
    with open_executor(setup, ComputeConfig(workers=2)) as executor:
        assert isinstance(executor, PoolExecutor)

        def refuse(*args, **kwargs):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

        monkeypatch.setattr(subprocess, "Popen", refuse)
        for process in executor.backend._processes.values():
            process.kill()
        with pytest.raises(UsageError, match="no worker process can be started"):
            list(executor.map([[]]))


def test_every_exit_of_a_worker_has_a_description():
    """Also signals without a name: an exception in the reading thread would block the pool."""
    assert _describe_exit(7) == "its worker ended with exit code 7"
    for number in range(1, signal.NSIG):
        description = _describe_exit(-number)
        assert re.match(r"its worker was killed by (SIG\w+|signal \d+)(;|$)", description)
        assert ("out of memory?" in description) == (number == signal.SIGKILL)


def test_workers_that_cannot_start_say_why_in_one_error(setup, tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no torch on this machine >&2\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with (
        open_executor(setup, ComputeConfig(workers=2)) as executor,
        pytest.raises(UsageError) as caught,
    ):
        list(executor.map([[]]))
    assert str(caught.value) == (
        "no worker can be started: its worker ended with exit code 9; "
        "its output: no torch on this machine"
    )


def test_a_setup_that_cannot_be_sent_is_an_error_and_starts_no_process(setup):
    """Otherwise the pool would wait for a worker that never gets its setup."""
    backend = ProcessBackend(replace(setup, space=lambda: None))
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        backend.start_worker(0, 0)
    assert not backend._processes


def test_an_answer_that_cannot_be_read_is_reported_as_the_death_of_the_worker(setup):
    """The class of a record may be missing here, for example after an update during a run."""
    backend = ProcessBackend(setup)
    answer = BytesIO(b"cno_such_module\nUnknown\n.")  # a pickle of a class
    process = SimpleNamespace(stdout=answer)
    outbox = SimpleQueue()
    backend._read_messages(3, process, outbox, BytesIO(b"last words"))
    assert outbox.get_nowait() is None
    assert list(backend.wait_for_events(1.0)) == [
        WorkerDied(3, "ModuleNotFoundError: No module named 'no_such_module'", "last words")
    ]


def test_a_worker_whose_driver_is_gone_ends_at_once(backend):
    backend.start_worker(0, 0)
    assert list(backend.wait_for_events(60.0)) == [WorkerReady(0)]
    process = backend._processes[0]
    process.stdin.close()
    assert process.wait(5) == 0
    assert [type(event) for event in backend.wait_for_events(5.0)] == [WorkerDied]
