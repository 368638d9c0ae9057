"""Models of the library timm, by name: `timm:resnet18`. Only this module imports timm."""

from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from types import ModuleType

from torch import nn

from untrained.errors import UsageError, make_unknown_name_error
from untrained.probe.guard import random_state

PREFIX = "timm:"


def is_timm_name(name: str) -> bool:
    """Return whether a name refers to a timm model."""
    return name.startswith(PREFIX)


def list_timm_models(pattern: str) -> list[str]:
    """Return the names that match a pattern such as `timm:resnet*`.

    Raises:
        UsageError: No name matches, or timm is not installed.
    """
    names = _import_timm().list_models()
    timm_pattern = pattern.removeprefix(PREFIX)
    matching_names = [f"{PREFIX}{name}" for name in names if fnmatchcase(name, timm_pattern)]
    if not matching_names:
        raise make_unknown_name_error("timm model", timm_pattern, names)
    return matching_names


def build_timm_model(name: str, num_classes: int) -> nn.Module:
    """Build a timm model with random weights.

    Args:
        name: Name with prefix, such as `timm:resnet18`.
        num_classes: Number of outputs; 0 for the default of the model.

    Raises:
        UsageError: There is no such model, or timm is not installed.
    """
    timm = _import_timm()
    timm_name = name.removeprefix(PREFIX)
    names = timm.list_models()
    if timm_name not in names:
        raise make_unknown_name_error("timm model", timm_name, names)
    options = {"num_classes": num_classes} if num_classes else {}
    network: nn.Module = timm.create_model(timm_name, pretrained=False, **options)
    return network


@cache
def get_timm_input_shape(name: str) -> tuple[int, ...]:
    """Return the input shape that a timm model was designed for."""
    with random_state(0):
        network = build_timm_model(name, 0)
    # timm describes its models by a dictionary that the type of a module does not declare.
    description = vars(network)["default_cfg"]
    return tuple(int(side) for side in description["input_size"])


def _import_timm() -> ModuleType:
    try:
        return import_module("timm")
    except ImportError as error:
        raise UsageError("timm is not installed: pip install timm") from error
