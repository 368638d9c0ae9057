"""Failures are values: an error of one network becomes its record and changes nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import untrained
from tests.engine.helpers import ARCH, NONE, TASK, format_cell, get_failure, make_proxy, tiny
from untrained import Probe, Task
from untrained.errors import Unscorable, UsageError
from untrained.workflows.score import score_networks


def make_raising(error: BaseException) -> Callable[[Probe], float]:
    def fails(probe: Probe) -> float:
        raise error

    return fails


FAILURES: dict[str, tuple[Callable[[Probe], Any], str, str]] = {
    "nan": (lambda probe: float("nan"), "nan", "not a number"),
    "inf": (lambda probe: float("inf"), "inf", "infinite"),
    "minus inf": (lambda probe: torch.tensor(-torch.inf), "inf", "infinite"),
    "unscorable": (
        make_raising(Unscorable("disconnected", "no way through")),
        "disconnected",
        "no way through",
    ),
    "unsupported": (
        make_raising(Unscorable("unsupported", "cummax has no rule")),
        "unsupported",
        "cummax",
    ),
    "derivative": (
        make_raising(RuntimeError("derivative for aten::foo is not implemented")),
        "unsupported",
        "aten::foo",
    ),
    "error": (lambda probe: 1 / 0, "error", "ZeroDivisionError: division by zero"),
    "no number": (lambda probe: None, "error", "TypeError"),
    "no message": (make_raising(ValueError()), "error", "ValueError"),
    "many lines": (
        make_raising(ValueError("first\nsecond")),
        "error",
        "ValueError: first (fails, line",
    ),
    "memory": (make_raising(MemoryError()), "oom", "MemoryError"),
    "gpu memory": (
        make_raising(torch.OutOfMemoryError("tried to allocate 2 GiB")),
        "oom",
        "tried to allocate 2 GiB",
    ),
    "cpu memory": (
        make_raising(RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")),
        "oom",
        "8 bytes",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_of_a_network_is_its_record_and_changes_nothing_else(name):
    function, kind, detail = FAILURES[name]
    failed, fine = score_networks(ARCH, (make_proxy(function), "params"), data="noise", space=tiny)
    assert failed.value is None
    assert failed.error.kind == kind
    assert detail in failed.error.detail
    assert "\n" not in str(failed.error)
    # By hand: a convolution of two 3x3x3 filters, and a linear layer.
    assert fine.value == 2 * (27 + 1) + 4 * (128 + 1)


def test_a_cell_without_a_path_is_disconnected():
    dextr, params = score_networks(format_cell(*[NONE] * 6), ("dextr", "params"))
    assert dextr.error.kind == "disconnected"
    assert params.value > 0


class Distances(nn.Module):
    """We have no Taylor rule for `cdist`, and torch cannot differentiate it twice."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(4, 12))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cdist(x.flatten(1), self.centres)


def test_a_function_that_cannot_be_differentiated_is_unsupported_and_named():
    error = get_failure(score_networks(Distances(), data=torch.randn(1, 3, 2, 2)))
    assert error.kind == "unsupported"
    assert "cdist" in error.detail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("wrong variant")])
def test_ctrl_c_and_wrong_usage_are_not_failures_of_a_network(error):
    with pytest.raises(type(error)):
        score_networks(ARCH, make_proxy(make_raising(error)), data="noise", space=tiny)


def test_a_network_that_cannot_be_built_fails_every_proxy_and_the_next_one_is_scored():
    @untrained.space(task=TASK)
    def fragile(choose: Any, task: Task) -> Any:
        width = choose("width", (0, 2))

        def make() -> nn.Module:
            if not width:
                raise ValueError("no width")
            return nn.Sequential(nn.Flatten(), nn.Linear(192, width))

        return make

    records = score_networks(["width=0", "width=2"], ("params", "flops"), space=fragile)
    assert [r.error and r.error.kind for r in records] == ["error", "error", None, None]
    assert "ValueError: no width (make, line" in str(records[0].error)
    assert [r.value for r in records[2:]] == [193 * 2, 192 * 2]


def test_a_model_whose_forward_raises_is_a_record_with_the_reason():
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x8 and 9x2)")

    error = get_failure(score_networks(Broken(), data=torch.zeros(2, 8)))
    assert error.kind == "error"
    assert "cannot be multiplied (1x8 and 9x2) (forward, line" in error.detail
