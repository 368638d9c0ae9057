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
PIXELS, WIDEST = 16, 6


def layers(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, width), nn.ReLU(), nn.Linear(width, 10))


class Wide(nn.Module):
    """Every architecture takes the leading neurons."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.body = layers(WIDEST)

    def subnet(self, arch: Arch) -> nn.Module:
        with torch.device("meta"):
            small = layers(int(arch["width"]))
        share_weights(self.body, small)
        return small


@untrained.space(task=TASK, size=5, supernet=Wide)
def elastic(choose: Any, task: Task) -> nn.Module:
    return layers(choose("width", (2, 3, 4, 5, WIDEST)))


@untrained.space(task=TASK, size=5)
def alone(choose: Any, task: Task) -> nn.Module:
    """The same networks without a supernet."""
    return layers(choose("width", (2, 3, 4, 5, WIDEST)))


def digits() -> DataSource:
    return load_data("digits", TASK)


def asked(said: str) -> WarmUp:
    return WarmUp.parse(said, digits())


def checkpoint(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / "warmup.pt", weights_only=True)
    return found


def flat(tree: Any) -> list[Any]:
    """All leaves of a tree of dictionaries and lists, in order."""
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in flat(tree[key])]
    return [leaf for branch in tree for leaf in flat(branch)] if isinstance(tree, list) else [tree]


def same(a: Any, b: Any) -> bool:
    """Whether two checkpoints hold the same numbers, bit by bit; what they cost may differ."""
    one, other = (flat({k: v for k, v in tree.items() if k != "seconds"}) for tree in (a, b))
    pairs = list(zip(one, other, strict=True))
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)
