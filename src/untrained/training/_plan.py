"""How to warm up: the lines of a plan, the presets, and how people say something else.

`vision` is SGD (Nesterov 0.9, decay 5e-4) at a constant rate, on one architecture a step. `nasrec` is what NASRec
(arXiv:2207.07187) does in its scripts: Adagrad at 0.12 with epsilon 0.01, which rises over a tenth of the steps and
falls like a cosine, batches of 512, any paths.
"""

from dataclasses import dataclass, fields, replace
from math import cos, pi
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn

from untrained.errors import UsageError, unknown

RISE = 0.1  # share of the steps in which the rate of a cosine rises


@dataclass(frozen=True, slots=True)
class Plan:
    """How to warm up."""

    paths: Literal["uniform", "any", "sandwich", "each"] = "uniform"
    rate: float = 0.1
    batch: int = 128
    passes: int = 1  # over the share of samples
    optimiser: Literal["sgd", "adagrad"] = "sgd"
    schedule: Literal["constant", "cosine"] = "constant"

    def __post_init__(self) -> None:
        if min(self.batch, self.passes) < 1 or not self.rate > 0:
            raise UsageError("a warm-up needs a batch of at least 1, at least 1 pass and a rate above 0: 10%(batch=64)")

    def said(self, usual: str) -> str:
        """What people type to get this plan instead of the usual preset."""
        lines = ((line.name, getattr(self, line.name)) for line in fields(self))
        return ",".join(f"{name}={value}" for name, value in lines if value != getattr(PRESETS[usual], name))

    def optimiser_of(self, model: nn.Module) -> torch.optim.Optimizer:
        trainable = [p for p in model.parameters() if p.requires_grad]
        if self.optimiser == "adagrad":
            return torch.optim.Adagrad(trainable, lr=self.rate, eps=1e-2)
        return torch.optim.SGD(trainable, lr=self.rate, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def rate_at(self, step: int, steps: int) -> float:
        rise = max(1, round(RISE * steps))
        if self.schedule == "constant":
            return self.rate
        if step < rise:
            return self.rate * (step + 1) / rise
        return self.rate * (1 + cos(pi * (step - rise) / (steps - rise))) / 2


PRESETS = {
    "vision": Plan(),
    "nasrec": Plan("any", rate=0.12, batch=512, optimiser="adagrad", schedule="cosine"),
}


def planned(options: dict[str, Any], usual: str) -> Plan:
    """A preset, the usual one unless another is named, with some of its lines said otherwise."""
    named = str(options.pop("preset", usual))
    if named not in PRESETS:
        raise unknown("preset of a warm-up", named, PRESETS)
    plan = PRESETS[named]
    hints = get_type_hints(Plan)
    for name, value in options.items():
        if name not in hints:
            raise unknown("option of a warm-up", name, [*hints, "preset"])
        hint = hints[name]
        allowed = get_args(hint)
        if get_origin(hint) is Literal and value not in allowed:
            raise UsageError(f"a warm-up has no {name} {value!r}; there are: {', '.join(allowed)}")
        if hint in (int, float) and (isinstance(value, bool) or not isinstance(value, int | hint)):
            raise UsageError(f"a warm-up takes {name}={getattr(plan, name)} or the like, not {name}={value}")
    return replace(plan, **options)
