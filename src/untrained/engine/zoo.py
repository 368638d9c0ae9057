"""Networks of the library timm, by name: `timm:resnet18`. The only file that imports timm, and only when asked."""

from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from typing import Any

from torch import nn

from untrained.errors import UsageError, unknown
from untrained.probe.guard import random_state

PREFIX = "timm:"


def in_zoo(name: str) -> bool:
    return name.startswith(PREFIX)


def listed(pattern: str) -> list[str]:
    """The names that a pattern such as `timm:resnet*` stands for."""
    known = _timm().list_models()
    word = pattern.removeprefix(PREFIX)
    found = [f"{PREFIX}{name}" for name in known if fnmatchcase(name, word)]
    if not found:
        raise unknown("network of timm", word, known)
    return found


def made(name: str, classes: int) -> nn.Module:
    """The network with new weights, for so many classes, or for its own number where that is 0."""
    word = name.removeprefix(PREFIX)
    if word not in (known := _timm().list_models()):
        raise unknown("network of timm", word, known)
    network: nn.Module = _timm().create_model(word, pretrained=False, **({"num_classes": classes} if classes else {}))
    return network


@cache
def input_shape(name: str) -> tuple[int, ...]:
    """What the network was made for, as timm tells it."""
    with random_state(0):
        told: Any = made(name, 0)
    return tuple(int(side) for side in told.default_cfg["input_size"])


def _timm() -> Any:
    try:
        return import_module("timm")
    except ImportError as error:
        raise UsageError("timm is not installed: pip install timm") from error
