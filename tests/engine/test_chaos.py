"""Chaos: `kill -9` at random moments, of workers and of whoever drives them. In the end the store is what it would have
been: nothing lost, nothing doubled, every value the same to the last bit.

Moments are drawn by a seed that is printed; `CHAOS_SEED=n` repeats it as far as a machine can repeat time.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest

from tests.strategies.helpers import MAIN, stored
from untrained import search

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes under /proc"),
]
MINE = """
    import time

    from torch import nn

    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=180)
    def mynet(choose, task):
        width, kernel, depth = choose("width", range(2, 32)), choose("kernel", (1, 3)), choose("depth", (1, 2, 3))

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
ASKED = {"space": "./mine.py:mynet", "proxy": "./mine.py:slow", "data": "noise", "budget": 120}
# Helpers of Ray's own, and people it had not yet told their work: they take a minute to see that everybody is gone
RAYS_OWN = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "default_worker.py")
KILLS = {"--workers": 14, "--ray": 6}  # one of each is of the driver


@dataclass(frozen=True)
class Process:
    """A process by number and hour of birth, since numbers are given again."""

    pid: int
    born: str

    @staticmethod
    def all() -> "dict[Process, tuple[int, str]]":
        """Everybody who is alive, with the number of the parent and what is written above the door."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    facts = (entry / "stat").read_text().rpartition(")")[2].split()
                    title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:  # gone meanwhile
                    continue
                if facts[0] not in "ZX":
                    found[Process(int(entry.name), facts[19])] = int(facts[1]), title
        return found


def below(pid: int) -> dict[Process, str]:
    """Children of a process, and theirs."""
    everybody = Process.all()
    found: dict[Process, str] = {}
    above = {pid}
    while more := {p: title for p, (parent, title) in everybody.items() if parent in above and p not in found}:
        found |= more
        above = {p.pid for p in more}
    return found


def workers_of(pid: int) -> list[Process]:
    """Worker processes, or those of Ray's actors."""
    found = {p: title for p, title in below(pid).items() if "untrained.engine._worker" in title or "_Actor" in title}
    return sorted(found, key=lambda p: p.pid)


def die(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


@dataclass
class Chaos:
    """A search in a folder, and somebody who kills."""

    folder: Path
    run: str
    options: tuple[str, ...]
    chance: Random
    log: list[str] = field(default_factory=list)

    def started(self) -> "subprocess.Popen[bytes]":
        typed = [word for name, value in (ASKED | {"run": self.run}).items() for word in (f"--{name}", str(value))]
        with open(self.folder / f"{self.run}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", MAIN, "search", *typed, *self.options],
                cwd=self.folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "RAY_DISABLE_IMPORT_WARNING": "1"},
                stdout=log,
                stderr=log,
            )

    def said(self) -> str:
        return (self.folder / f"{self.run}.log").read_text()[-3000:]

    def progress(self, driver: "subprocess.Popen[bytes]") -> bool:
        """Wait until something new is stored and a random moment longer; whether the driver is still there then."""
        before, deadline = stored(self.folder / self.run), time.monotonic() + 240
        while driver.poll() is None and stored(self.folder / self.run) == before:
            assert time.monotonic() < deadline, f"nothing was stored for four minutes: {self.log} {self.said()}"
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0, 0.15))
        return driver.poll() is None

    def kill_driver(self, driver: "subprocess.Popen[bytes]") -> None:
        orphans = below(driver.pid)
        driver.kill()
        driver.wait()
        deadline = time.monotonic() + 30
        rays = {p for p, title in orphans.items() if any(name in title for name in RAYS_OWN)}
        while left := (orphans.keys() - rays) & Process.all().keys():
            assert time.monotonic() < deadline, f"orphans after half a minute: {[orphans[p] for p in left]}"
            time.sleep(0.05)
        for helper in rays & Process.all().keys():
            die(helper)

    def wreak(self, kills: int) -> None:
        """The same command again and again until so many were killed, and then until it is done."""
        of_driver, sittings = self.chance.randrange(2, kills - 1), 0
        while True:
            driver, sittings = self.started(), sittings + 1
            assert sittings < 6, f"{self.log} {self.said()}"
            while len(self.log) < kills and self.progress(driver):
                at, victims = f"{stored(self.folder / self.run)} records", workers_of(driver.pid)
                if not victims:  # all were killed a moment ago, and others are on their way
                    continue
                if len(self.log) == of_driver:
                    self.kill_driver(driver)
                    self.log.append(f"driver at {at}")
                else:
                    victim = self.chance.choice(victims)
                    die(victim)
                    self.log.append(f"{victim.pid} at {at}")
            code = driver.wait(300)
            if code == 0:
                return
            three_in_a_row = code == 2 and "no worker can be started" in self.said()  # killed before they were ready
            assert code == -signal.SIGKILL or three_in_a_row, f"{code} {self.log} {self.said()}"


def rows(run: Path) -> list[str]:
    """All that is in a store but the time it took, in an order of its own."""
    db = sqlite3.connect(run / "records.sqlite")
    columns = [name for _, name, *_ in db.execute("PRAGMA table_info(flat)")]
    kept = [name for name in columns if not name.endswith("_seconds") and name not in ("peak_bytes", "place")]
    assert len(columns) - len(kept) == 5
    found = sorted(map(repr, db.execute(f"SELECT {', '.join(kept)} FROM flat")))
    assert db.execute("SELECT count(*) FROM records").fetchone() == (len(found),)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("chaos")
    (folder / "mine.py").write_text(dedent(MINE))
    return folder


@pytest.fixture(scope="module")
def undisturbed(folder) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        search(**ASKED, run="undisturbed", workers=1)
    found = rows(folder / "undisturbed")
    assert len(found) == len(set(found)) == ASKED["budget"] * 3
    assert any("'nan'" in row for row in found)
    return found


@pytest.mark.parametrize("option", KILLS)
def test_whoever_is_killed_nothing_is_lost_and_nothing_is_doubled(folder, undisturbed, monkeypatch, option):
    if option == "--ray":
        pytest.importorskip("ray", reason="ray is an extra")
    seed = int(os.environ.get("CHAOS_SEED") or int.from_bytes(os.urandom(2), "big"))
    options = ("--workers", "2") if option == "--workers" else ("--workers", "2", "--ray", "local")
    chaos = Chaos(folder, option.strip("-"), options, Random(seed))
    try:
        chaos.wreak(KILLS[option])
    finally:
        print(f"CHAOS_SEED={seed}: killed {', '.join(chaos.log)}")
    assert len(chaos.log) == KILLS[option]
    assert sum("driver" in line for line in chaos.log) == 1
    monkeypatch.chdir(folder)
    found = search(**ASKED, run=chaos.run, workers=1)  # who was unlucky twice has crashed, and is tried again
    assert rows(folder / chaos.run) == undisturbed
    assert found.run.ended == "budget"


def test_there_are_at_least_twenty_moments():
    assert sum(KILLS.values()) >= 20
