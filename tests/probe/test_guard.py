"""Randomness inside a look depends on its seed alone, and nobody outside notices."""

import random

import numpy as np
import torch

from untrained.probe.guard import random_state


def draws() -> list[float]:
    return [float(torch.rand(())), random.random(), float(np.random.rand())]  # noqa: NPY002


def test_every_generator_is_seeded_and_put_back():
    torch.manual_seed(1)
    outside = torch.rand(3)
    torch.manual_seed(1)
    with random_state(5):
        first = draws()
    with random_state(5):
        assert draws() == first
    with random_state(6):
        assert not set(draws()) & set(first)
    assert torch.equal(torch.rand(3), outside)
    torch.manual_seed(5)
    assert float(torch.rand(())) == first[0]  # as torch's own seeding, so that weights are those of anybody's script


def test_seeding_does_not_write_down_where_it_was_asked_for(monkeypatch):
    """`torch.manual_seed` does, once for every kind of device that is not there, and that takes most of its time."""
    monkeypatch.setattr(torch, "manual_seed", lambda seed: 1 / 0)
    with random_state(5):
        draws()
