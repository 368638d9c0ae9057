"""Small spaces, searches of them in this process and in another, and readers of their results."""

import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

import untrained
from tests.records import make_record
from untrained import Arch, Probe, Record, Task, search
from untrained.proxies import Proxy
from untrained.runs.store import Store
from untrained.types import Failure, ScoreKey
from untrained.workflows.search import SearchResult

TASK = Task("noise", (3, 8, 8), 4)


@untrained.space(task=TASK, size=16)
def tiny(choose: Any, task: Task) -> nn.Module:
    width = choose("width", (2, 3, 4, 5))
    kernel = choose("kernel", (1, 3))
    bias = choose("bias", ("yes", "no"))
    conv = nn.Conv2d(3, width, kernel, padding=kernel // 2, bias=bias == "yes")
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width * 64, task.num_classes))


@untrained.space(task=TASK)
def four(choose: Any, task: Task) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, choose("width", (1, 2, 3, 4))))


def make_weight_proxy(higher_is_better: bool = True) -> Proxy:
    @untrained.proxy(higher_is_better=higher_is_better)
    def weight(probe: Probe) -> float:
        """The first weight: a number that differs between architectures and seeds."""
        return float(next(probe.model.parameters()).detach().flatten()[0])

    return weight


@untrained.proxy()
def odd(probe: Probe) -> float:
    """The width of the convolution; no score if it is even."""
    width = len(next(probe.model.parameters()))
    return float("nan") if width % 2 == 0 else float(width)


def search_tiny(
    folder: Path, proxy: Any = "params", budget: int = 6, **options: Any
) -> SearchResult:
    options = {"space": tiny, "data": "noise"} | options
    return search(proxy=proxy, budget=budget, run=folder, **options)


def read_values(folder: Path) -> dict[ScoreKey, tuple[float | None, Failure | None]]:
    with Store(folder / "records.sqlite") as store:
        records = list(store)
    values = {record.key: (record.value, record.error) for record in records}
    assert len(values) == len(records)
    return values


def drop_costs(records: Any) -> list[Record]:
    """Return the same records without their times and memory."""
    no_costs: Any = {
        "build_seconds": 0.0,
        "transfer_seconds": 0.0,
        "measure_seconds": 0.0,
        "peak_bytes": None,
    }
    return [replace(record, **no_costs) for record in records]


def make_toy_record(arch: str, seed: int, value: float | None) -> Record:
    error = Failure("nan", f"seed {seed}") if value is None else None
    return make_record(Arch("s", (("a", arch),)), "m@1", TASK, seed, value, error)


MINE = """
    import time
    from torch import nn
    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=72)
    def mynet(choose, task):
        width, kernel, depth = choose("width", range(2, 14)), choose("kernel", (1, 3)), choose("depth", (1, 2, 3))
        layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Conv2d(width, width, 1), nn.Tanh()]
        return lambda: time.sleep(0.03) or nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 64, task.num_classes))

    @untrained.proxy(higher_is_better=False)
    def small(probe):
        return probe.params
"""
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " from untrained.cli.app import main; main()"
)


def start_search(project: Path, run: str, *more: str) -> "subprocess.Popen[str]":
    """Start `untrained search` in a new process, in the folder of the user's space."""
    options = (
        f"search --space ./mine.py:mynet --proxy dextr --data noise --run {run} --budget 40".split()
    )
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *options, *more],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def count_records(run: Path) -> int:
    """Count the records while another process writes them."""
    if not (run / "records.sqlite").exists():
        return 0
    db = sqlite3.connect(run / "records.sqlite", timeout=30)
    try:
        return int(db.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:  # the table does not exist yet
        return 0
    finally:
        db.close()


def wait_for_records(process: "subprocess.Popen[str]", run: Path, count: int) -> int:
    deadline = time.monotonic() + 240
    while (records := count_records(run)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing was scored for four minutes"
        time.sleep(0.005)
    return records


def wait_for_exit(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err
