"""A small space, proxies that count and that see weights, and a record: what tests of the engine share."""

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
RECORD = make_record(ARCH, "mine@1", TASK, 0, 1.5, data="d", build_seconds=0.25, measure_seconds=0.5)
CONV, NONE = "nor_conv_3x3", "none"


def nb201(*ops: str) -> str:
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


@untrained.space(task=TASK)
def tiny(choose: Any, task: Task) -> nn.Module:
    width, kernel = choose("width", (2, 3, 4)), choose("kernel", (1, 3))
    conv = nn.Conv2d(task.input_shape[0], width, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width * 64, task.num_classes))


def judge(function: Callable[..., Any], **facts: Any) -> Proxy:
    return untrained.proxy(**facts)(function)


class Counter:
    """A proxy that knows how often it was asked."""

    def __init__(self, **facts: Any) -> None:
        self.calls = 0
        self.proxy = judge(self._count, **facts)

    def _count(self, probe: Probe) -> float:
        self.calls += 1
        return float(probe.params)


def weight_sum(probe: Probe) -> float:
    return sum(float(p.detach().double().sum()) for p in probe.model.parameters())


def value(records: list[Record]) -> float:
    (record,) = records
    assert record.value is not None, record.error
    return record.value


def failure(records: list[Record]) -> Failure:
    (record,) = records
    assert record.error is not None, record.value
    return record.error


def archs(*texts: str) -> list[Arch]:
    return [tiny.parse(text) for text in texts]
