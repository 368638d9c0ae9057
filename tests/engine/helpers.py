"""Shared by the tests of the engine: a small space, proxies and architectures."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

import untrained
from tests.records import make_record
from untrained import Arch, Probe, Record, Task
from untrained.proxies import Proxy
from untrained.types import Failure

TASK = Task("noise", (3, 8, 8), 4)
ARCH = Arch("tiny", (("width", 2), ("kernel", 3)), "width=2,kernel=3")
RECORD = make_record(
    ARCH, "mine@1", TASK, 0, 1.5, data="d", build_seconds=0.25, measure_seconds=0.5
)
CONV = "nor_conv_3x3"
NONE = "none"


def format_cell(*operations: str) -> str:
    """Return the notation of the NAS-Bench-201 cell with these six operations."""
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*operations)


@untrained.space(task=TASK)
def tiny(choose: Any, task: Task) -> nn.Module:
    width = choose("width", (2, 3, 4))
    kernel = choose("kernel", (1, 3))
    conv = nn.Conv2d(task.input_shape[0], width, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width * 64, task.num_classes))


def build_tiny(arch: Arch) -> nn.Module:
    """Build a network of the small space for `TASK`."""
    return tiny.build(arch, TASK)


def parse_archs(*texts: str) -> list[Arch]:
    """Return architectures of the small space."""
    return [tiny.parse(text) for text in texts]


def make_proxy(function: Callable[..., Any], **options: Any) -> Proxy:
    """Return a proxy made of a function."""
    return untrained.proxy(**options)(function)


class CountingProxy:
    """A proxy that counts how often it is called."""

    def __init__(self, **options: Any) -> None:
        self.calls = 0
        self.proxy = make_proxy(self._count, **options)

    def _count(self, probe: Probe) -> float:
        self.calls += 1
        return float(probe.params)


def weight_sum(probe: Probe) -> float:
    """The sum of all weights, as a function of a proxy."""
    return sum(float(p.detach().double().sum()) for p in probe.model.parameters())


def get_value(records: list[Record]) -> float:
    """Return the value of a single record."""
    (record,) = records
    assert record.value is not None, record.error
    return record.value


def get_failure(records: list[Record]) -> Failure:
    """Return the failure of a single record."""
    (record,) = records
    assert record.error is not None, record.value
    return record.error


def read_rows(run: Path) -> list[str]:
    """Return the sorted rows of a store without the columns of cost and place."""
    database = sqlite3.connect(run / "records.sqlite")
    columns = [name for _, name, *_ in database.execute("PRAGMA table_info(flat)")]
    compared_columns = []
    for name in columns:
        if not name.endswith("_seconds") and name not in ("peak_bytes", "place"):
            compared_columns.append(name)
    assert len(columns) - len(compared_columns) == 5
    rows = sorted(map(repr, database.execute(f"SELECT {', '.join(compared_columns)} FROM flat")))
    assert database.execute("SELECT count(*) FROM records").fetchone() == (len(rows),)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    return rows
