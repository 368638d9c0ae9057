"""A space whose supernet is one wide network, small enough to be trained by hand, and data for it."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

import untrained
from untrained.data import DataSource, load_data
from untrained.spaces.core.supernet import share_weights
from untrained.training.warm_up import WarmUp
from untrained.types import Arch, Task

TASK = Task("digits", (1, 4, 4), 10)
PIXELS = 16
WIDEST = 6


def make_layers(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, width), nn.ReLU(), nn.Linear(width, 10))


class Wide(nn.Module):
    """A supernet; every architecture uses its leading neurons."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.body = make_layers(WIDEST)

    def subnet(self, arch: Arch) -> nn.Module:
        with torch.device("meta"):
            small = make_layers(int(arch["width"]))
        share_weights(self.body, small)
        return small


@untrained.space(task=TASK, size=5, supernet=Wide)
def elastic(choose: Any, task: Task) -> nn.Module:
    return make_layers(choose("width", (2, 3, 4, 5, WIDEST)))


@untrained.space(task=TASK, size=5)
def alone(choose: Any, task: Task) -> nn.Module:
    """The same networks without a supernet."""
    return make_layers(choose("width", (2, 3, 4, 5, WIDEST)))


def load_digits() -> DataSource:
    return load_data("digits", TASK)


def parse_warm_up(text: str) -> WarmUp:
    return WarmUp.parse(text, load_digits())


def read_checkpoint(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "warmup.pt", weights_only=True)
    return content


def list_leaves(tree: Any) -> list[Any]:
    """Return all leaves of a tree of dictionaries and lists, in order."""
    if isinstance(tree, dict):
        branches = list(tree.values())
    elif isinstance(tree, list):
        branches = tree
    else:
        return [tree]
    leaves = []
    for branch in branches:
        leaves += list_leaves(branch)
    return leaves


def checkpoints_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two checkpoints hold the same numbers, bit by bit; their times may differ."""
    first_leaves = list_leaves({k: v for k, v in first.items() if k != "seconds"})
    second_leaves = list_leaves({k: v for k, v in second.items() if k != "seconds"})
    for one, other in zip(first_leaves, second_leaves, strict=True):
        equal = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        if not equal:
            return False
    return True
