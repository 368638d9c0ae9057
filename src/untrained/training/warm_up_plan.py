"""Options and presets of a warm-up.

`vision` is SGD (Nesterov 0.9, decay 5e-4) with a constant learning rate and one architecture per
step. `nasrec` follows the scripts of NASRec (arXiv:2207.07187): Adagrad with a learning rate of
0.12 and an epsilon of 0.01, a linear rise of the rate during 10 % of the steps and then a cosine
decay, batches of 512, and `paths=any` (a random subset of the options of each choice).
"""

from dataclasses import dataclass, fields, replace
from math import cos, pi
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn

from untrained.errors import UsageError, make_unknown_name_error
from untrained.training.network import ADAGRAD_EPSILON

# Fraction of the steps in which the learning rate of a cosine schedule rises.
RISING_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class WarmUpPlan:
    """How to warm up. The fields are what a user may write in brackets: `10%(rate=0.05)`.

    Attributes:
        paths: Which subnets are trained in a step (`supernet_paths.py`); "each" trains every
            candidate on its own.
        rate: Highest learning rate.
        batch: Batch size.
        passes: Number of passes over the samples.
        optimiser: The optimiser.
        schedule: Schedule of the learning rate.
    """

    paths: Literal["uniform", "any", "sandwich", "each"] = "uniform"
    rate: float = 0.1
    batch: int = 128
    passes: int = 1
    optimiser: Literal["sgd", "adagrad"] = "sgd"
    schedule: Literal["constant", "cosine"] = "constant"

    def __post_init__(self) -> None:
        if self.batch < 1 or self.passes < 1 or not self.rate > 0:
            raise UsageError(
                "a warm-up needs a batch of at least 1, at least 1 pass and a rate above 0: "
                "10%(batch=64)"
            )

    def format_options(self, preset: str) -> str:
        """Return what to type in brackets to get this plan from a preset."""
        options = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != getattr(PRESETS[preset], field.name):
                options.append(f"{field.name}={value}")
        return ",".join(options)

    def make_optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        """Make the optimiser for the trainable parameters of a network."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if self.optimiser == "adagrad":
            return torch.optim.Adagrad(parameters, lr=self.rate, eps=ADAGRAD_EPSILON)
        return torch.optim.SGD(
            parameters, lr=self.rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        )

    def rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 0, of `steps` in total."""
        if self.schedule == "constant":
            return self.rate
        rising_steps = max(1, round(RISING_SHARE * steps))
        if step < rising_steps:
            return self.rate * (step + 1) / rising_steps
        angle = pi * (step - rising_steps) / (steps - rising_steps)
        return self.rate * (1 + cos(angle)) / 2


PRESETS = {
    "vision": WarmUpPlan(),
    "nasrec": WarmUpPlan("any", rate=0.12, batch=512, optimiser="adagrad", schedule="cosine"),
}


def make_warm_up_plan(options: dict[str, Any], default_preset: str) -> WarmUpPlan:
    """Make a plan from the options that a user wrote in brackets.

    Args:
        options: Names and values. `preset` names a preset, the others replace its fields.
        default_preset: The preset if the options do not name one.

    Returns:
        The plan of the preset with the options of the user.

    Raises:
        UsageError: A name is unknown, or a value has the wrong type.
    """
    changes = dict(options)
    preset = str(changes.pop("preset", default_preset))
    if preset not in PRESETS:
        raise make_unknown_name_error("preset of a warm-up", preset, PRESETS)
    plan = PRESETS[preset]
    field_types = get_type_hints(WarmUpPlan)
    for name, value in changes.items():
        if name not in field_types:
            raise make_unknown_name_error("option of a warm-up", name, [*field_types, "preset"])
        field_type = field_types[name]
        if get_origin(field_type) is Literal:
            allowed = get_args(field_type)
            if value not in allowed:
                raise UsageError(
                    f"a warm-up has no {name} {value!r}; available: {', '.join(allowed)}"
                )
        # A whole number is valid for a float. In Python a bool is an int, but here it is invalid.
        elif isinstance(value, bool) or not isinstance(value, int | field_type):
            kind = "a number"
            if field_type is int:
                kind = "a whole number"
            example = getattr(plan, name)
            raise UsageError(
                f"a warm-up needs {kind} for {name}, such as {name}={example}, not {name}={value}"
            )
    return replace(plan, **changes)
