"""Shared by the tests of the engine: a small space, proxies and architectures."""

from collections.abc import Callable
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
