"""Kill workers and drivers with `kill -9` at random moments. In the end the store is what it would
have been: no record is lost or doubled, and every value is the same to the last bit.

A seed decides the moments and is printed. `CHAOS_SEED=n` uses it again, although the timing of
processes still differs.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest

from tests.engine.helpers import read_rows
from tests.strategies.helpers import MAIN, count_records
from untrained import search

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="looks for processes under /proc"
    ),
]
MINE = """
    import time

    from torch import nn

    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=180)
    def mynet(choose, task):
        width = choose("width", range(2, 32))
        kernel = choose("kernel", (1, 3))
        depth = choose("depth", (1, 2, 3))

        def make():
            layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.Tanh()]
            layers += [nn.Conv2d(width, width, 1), nn.Tanh()] * (depth - 1)
            return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 64, task.num_classes))

        return make

    @untrained.proxy(samples=2)
    def slow(probe):
        time.sleep(0.03)
        first = next(probe.model.parameters())
        return float("nan") if len(first) % 7 == 0 else probe.outputs.std() + first.flatten()[0]
"""
SEARCH = {"space": "./mine.py:mynet", "proxy": "./mine.py:slow", "data": "noise", "budget": 120}
# Helper processes of Ray, and workers without a task. They need a minute to notice the end of a
# cluster.
RAY_HELPERS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "default_worker.py")
# How many processes are killed; one of each is the driver.
KILLS = {"--workers": 14, "--ray": 6}


@dataclass(frozen=True)
class Process:
    """A process by number and start time, because numbers are used again."""

    pid: int
    start_time: str


@dataclass(frozen=True)
class ProcessFacts:
    """The number of the parent of a process, and its command."""

    parent: int
    command: str


def list_processes() -> dict[Process, ProcessFacts]:
    """Return all processes that are alive."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:  # it has ended meanwhile
            continue
        is_zombie = fields[0] in "ZX"
        if not is_zombie:
            process = Process(int(entry.name), fields[19])
            processes[process] = ProcessFacts(int(fields[1]), command.decode(errors="replace"))
    return processes


def list_descendants(pid: int) -> dict[Process, str]:
    """Return the commands of the children of a process, of their children, and so on."""
    processes = list_processes()
    descendants: dict[Process, str] = {}
    parents = {pid}
    while parents:
        children = {}
        for process, facts in processes.items():
            if facts.parent in parents and process not in descendants:
                children[process] = facts.command
        descendants |= children
        parents = {process.pid for process in children}
    return descendants


def list_workers(pid: int) -> list[Process]:
    """Return the worker processes or Ray actors of a driver."""
    workers = []
    for process, command in list_descendants(pid).items():
        if "untrained.engine.worker_process" in command or "_Actor" in command:
            workers.append(process)
    return sorted(workers, key=lambda process: process.pid)


def kill_process(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


@dataclass
class Chaos:
    """Runs a search in a folder and kills its processes.

    Attributes:
        folder: Where the search runs.
        run: Name of the run folder.
        options: Further options of the command.
        random: Decides what is killed and when.
        kills: What was killed so far, in words.
    """

    folder: Path
    run: str
    options: tuple[str, ...]
    random: Random
    kills: list[str] = field(default_factory=list)

    def start_driver(self) -> "subprocess.Popen[bytes]":
        arguments = []
        for name, value in (SEARCH | {"run": self.run}).items():
            arguments += [f"--{name}", str(value)]
        with open(self.folder / f"{self.run}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", MAIN, "search", *arguments, *self.options],
                cwd=self.folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "RAY_DISABLE_IMPORT_WARNING": "1"},
                stdout=log,
                stderr=log,
            )

    def read_log(self) -> str:
        return (self.folder / f"{self.run}.log").read_text()[-3000:]

    def count_records(self) -> int:
        return count_records(self.folder / self.run)

    def wait_for_progress(self, driver: "subprocess.Popen[bytes]") -> bool:
        """Wait until a record is stored and a random moment longer.

        Returns:
            Whether the driver is still running.
        """
        before = self.count_records()
        deadline = time.monotonic() + 240
        while driver.poll() is None and self.count_records() == before:
            assert time.monotonic() < deadline, (
                f"nothing was stored for four minutes: {self.kills} {self.read_log()}"
            )
            time.sleep(0.01)
        time.sleep(self.random.uniform(0, 0.15))
        return driver.poll() is None

    def kill_driver(self, driver: "subprocess.Popen[bytes]") -> None:
        """Kill the driver and check that its workers end too."""
        descendants = list_descendants(driver.pid)
        driver.kill()
        driver.wait()
        helpers = set()
        for process, command in descendants.items():
            if any(name in command for name in RAY_HELPERS):
                helpers.add(process)
        orphans = descendants.keys() - helpers
        deadline = time.monotonic() + 30
        while remaining := orphans & list_processes().keys():
            commands = [descendants[process] for process in remaining]
            assert time.monotonic() < deadline, f"orphans after half a minute: {commands}"
            time.sleep(0.05)
        for helper in helpers & list_processes().keys():
            kill_process(helper)

    def kill_random_process(self, driver: "subprocess.Popen[bytes]", driver_position: int) -> None:
        """Kill a worker, or the driver if it is its turn."""
        moment = f"{self.count_records()} records"
        workers = list_workers(driver.pid)
        if not workers:
            # All were killed a moment ago, and others are starting.
            return
        if len(self.kills) == driver_position:
            self.kill_driver(driver)
            self.kills.append(f"driver at {moment}")
        else:
            worker = self.random.choice(workers)
            kill_process(worker)
            self.kills.append(f"{worker.pid} at {moment}")

    def run_until_done(self, kill_count: int) -> None:
        """Repeat the command until enough processes were killed, and then until it is done."""
        driver_position = self.random.randrange(2, kill_count - 1)
        for _ in range(5):
            driver = self.start_driver()
            while len(self.kills) < kill_count and self.wait_for_progress(driver):
                self.kill_random_process(driver, driver_position)
            exit_code = driver.wait(300)
            if exit_code == 0:
                return
            # Three workers in a row may have been killed before they were ready.
            no_worker_started = exit_code == 2 and "no worker can be started" in self.read_log()
            assert exit_code == -signal.SIGKILL or no_worker_started, (
                f"{exit_code} {self.kills} {self.read_log()}"
            )
        pytest.fail(f"the search did not end after five runs: {self.kills} {self.read_log()}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("chaos")
    (folder / "mine.py").write_text(dedent(MINE))
    return folder


@pytest.fixture(scope="module")
def expected_rows(folder) -> list[str]:
    """The rows of a search in which nothing is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        search(**SEARCH, run="undisturbed", workers=1)
    rows = read_rows(folder / "undisturbed")
    assert len(rows) == len(set(rows)) == SEARCH["budget"] * 3
    assert any("'nan'" in row for row in rows)
    return rows


@pytest.mark.parametrize("option", KILLS)
def test_no_record_is_lost_or_doubled_whatever_process_is_killed(
    folder, expected_rows, monkeypatch, option
):
    if option == "--ray":
        pytest.importorskip("ray", reason="ray is an extra")
    seed = int(os.environ.get("CHAOS_SEED") or int.from_bytes(os.urandom(2), "big"))
    options: tuple[str, ...] = ("--workers", "2")
    if option == "--ray":
        options += ("--ray", "local")
    chaos = Chaos(folder, option.strip("-"), options, Random(seed))
    try:
        chaos.run_until_done(KILLS[option])
    finally:
        print(f"CHAOS_SEED={seed}: killed {', '.join(chaos.kills)}")
    assert len(chaos.kills) == KILLS[option]
    assert sum("driver" in kill for kill in chaos.kills) == 1
    monkeypatch.chdir(folder)
    # An architecture whose worker was killed twice is recorded as crashed and tried again.
    result = search(**SEARCH, run=chaos.run, workers=1)
    assert read_rows(folder / chaos.run) == expected_rows
    assert result.run.end_reason == "budget"


def test_at_least_twenty_processes_are_killed():
    assert sum(KILLS.values()) >= 20
