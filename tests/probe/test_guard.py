"""Randomness inside a measurement depends on its seed alone and does not affect the outside."""

import random

import numpy as np
import torch
from torch import nn

from untrained.probe.guard import index_modules, random_state


def draw_numbers() -> list[float]:
    return [float(torch.rand(())), random.random(), float(np.random.rand())]  # noqa: NPY002


def test_every_generator_is_seeded_and_restored():
    torch.manual_seed(1)
    outside = torch.rand(3)
    torch.manual_seed(1)
    with random_state(5):
        first = draw_numbers()
    with random_state(5):
        assert draw_numbers() == first
    with random_state(6):
        assert not set(draw_numbers()) & set(first)
    assert torch.equal(torch.rand(3), outside)
    torch.manual_seed(5)
    # Like torch's own seeding, so that weights equal those of a plain script
    assert float(torch.rand(())) == first[0]


def test_seeding_records_no_stack_trace(monkeypatch):
    """`torch.manual_seed` records one per missing kind of device, which takes most of its time."""
    monkeypatch.setattr(torch, "manual_seed", lambda seed: 1 / 0)
    with random_state(5):
        assert draw_numbers()[0] == float(
            torch.rand((), generator=torch.Generator().manual_seed(5))
        )


def test_index_modules_equals_named_modules():
    shared = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
    model = nn.Sequential(
        nn.Sequential(nn.Tanh(), shared), nn.ModuleDict({"again": shared, "own": nn.Linear(2, 1)})
    )
    model.register_module("none", None)
    assert [(name, module) for module, name in index_modules(model).items()] == list(
        model.named_modules()
    )
