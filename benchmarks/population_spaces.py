"""Spaces as users write them, for `population.py`: one that works, and one with networks that cannot be scored."""

from typing import Any

import torch
from torch import Tensor, nn

import untrained
from untrained.types import Task

TASK = Task("noise", (3, 32, 32), 10)
OWN = f"{__file__}:own"
FAULTY = f"{__file__}:faulty"


@untrained.space(task=TASK)
def own(choose: Any, task: Task) -> nn.Module:
    """A space as a user writes it."""
    layers: list[nn.Module] = []
    channels = task.input_shape[0]
    for i in range(choose("depth", [3, 4, 5])):
        width = choose(f"width{i}", [8, 16, 24, 32])
        kernel = choose(f"kernel{i}", [1, 3, 5])
        layers += [
            nn.Conv2d(channels, width, kernel, padding=kernel // 2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        channels = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, task.num_classes)
    )


class CutOff(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class NotFinite(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.inf - x * torch.inf


class TooLarge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean() * torch.ones(2**45, device=x.device)[0]  # 128 TiB


@untrained.space(task=TASK)
def faulty(choose: Any, task: Task) -> nn.Module:
    """Small networks, some of which have a part that makes scoring fail."""
    width = choose("width", [8, 16])
    kernel = choose("kernel", [1, 3, 5])
    failing_parts = {"cut off": CutOff, "not finite": NotFinite, "too large": TooLarge}
    part = choose("part", ["nothing", "still nothing", *failing_parts])
    layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.Conv2d(width, width, kernel, padding=kernel // 2), nn.BatchNorm2d(width)]
    if part in failing_parts:
        layers.append(failing_parts[part]())
    return nn.Sequential(
        *layers,
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, task.num_classes),
    )
