"""SiGeo's small trainings: statistics by hand, a plain training loop, and the file of MNIST."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from untrained.papers import reproduce
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.sigeo_trainings import (
    BATCH,
    EPOCHS,
    FINAL_LEVEL,
    LEVELS,
    SETTINGS,
    train_networks,
)
from untrained.probe.guard import random_state
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import load_space
from untrained.spaces.mlp import SIGEO

TEXT = SETTINGS[0]


@pytest.fixture
def mnist(tmp_path):
    """A file like that of MNIST with 300 training images (two batches of 128) and 50 test images."""
    rng = np.random.default_rng(0)
    sizes = {"train": 300, "test": 50}
    arrays = {
        f"x_{part}": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for part, n in sizes.items()
    }
    arrays |= {f"y_{part}": rng.integers(0, 10, n, dtype=np.uint8) for part, n in sizes.items()}
    np.savez(tmp_path / "mnist.npz", **arrays)
    return tmp_path, {name: torch.from_numpy(values) for name, values in arrays.items()}


def train_by_hand(arrays, width, setting, seed=0):
    """Train as in the paper, in a plain loop; return the first statistics and the final losses."""
    space = load_space("mlp").with_options(**SIGEO, relu_logits=setting.relu_logits)
    arch = space.parse(f"depth=1,width1={width},activation=relu")
    with random_state(derive_seed("weights", arch.space, arch, seed)):
        W, b, V, c = (p.detach().requires_grad_() for p in space.build(arch).parameters())
    X, XT = (arrays[f"x_{part}"].flatten(1) / 255 for part in ("train", "test"))
    if setting.normalise:
        X, XT = ((x - 0.4914) / 0.2023 for x in (X, XT))
    Y = arrays["y_train"].long()
    YT = arrays["y_test"].long()

    def loss(x, y):
        logits = F.relu(x @ W.T + b) @ V.T + c
        return F.cross_entropy(F.relu(logits) if setting.relu_logits else logits, y)

    statistics = None
    for pass_ in range(EPOCHS):
        batches = torch.randperm(
            len(X), generator=make_torch_generator("course", seed, pass_)
        ).split(BATCH)
        if statistics is None:
            # There are three batches; a fourth would exceed the data.
            batch_losses = [loss(X[rows], Y[rows]) for rows in batches]
            g = [torch.autograd.grad(value, (W, V)) for value in batch_losses]
            products = [float((W * gw).sum().detach() + (V * gv).sum().detach()) for gw, gv in g]
            flat = np.stack([np.concatenate([gw.flatten(), gv.flatten()]) for gw, gv in g])
            statistics = {
                "fr": np.mean(np.square(products)),
                "loss": np.mean([float(value.detach()) for value in batch_losses]),
                "gradient": np.abs(flat).mean(0).sum(),
                "deviation": flat.std(0).sum(),
            }
        for rows in batches[:2]:
            gradients = torch.autograd.grad(loss(X[rows], Y[rows]), (W, b, V, c))
            for parameter, gradient in zip((W, b, V, c), gradients, strict=True):
                with torch.no_grad():
                    parameter -= setting.rate * gradient
    with torch.no_grad():
        return statistics, {"train": float(loss(X, Y)), "test": float(loss(XT, YT))}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_statistics_and_losses_equal_a_plain_loop(mnist, run_folder, setting):
    root, arrays = mnist
    result = train_networks(ExperimentConfig(3, 1, run_folder, data_root=root), setting)
    assert result.widths == (2, 26, 48)  # spread over 2 to 48: the middle of 24 is rounded up
    assert result.deviations == ()
    for place, width in enumerate(result.widths):
        statistics, final = train_by_hand(arrays, width, setting)
        for name, expected in statistics.items():
            assert result.scores[name, 0][0, place] == pytest.approx(expected, rel=1e-4), name
        for name, expected in final.items():
            assert result.scores[name, FINAL_LEVEL][0, place] == pytest.approx(
                expected, rel=1e-4
            ), name


def test_levels_are_measured_after_their_share_of_an_epoch(mnist, run_folder):
    """Of two batches 10 % is none, 40 and 60 % are one, 80 and 100 % are both.

    Equal numbers of steps give equal values.
    """
    result = train_networks(ExperimentConfig(3, 1, run_folder, data_root=mnist[0]), TEXT)
    loss = {level: result.scores["loss", level][0, 1] for level in LEVELS}
    assert (loss[0], loss[40], loss[80]) == (loss[10], loss[60], loss[100])
    assert len(set(loss.values())) == 3


def test_diverged_training_has_no_numbers(mnist, run_folder):
    result = train_networks(
        ExperimentConfig(3, 1, run_folder, data_root=mnist[0]), replace(TEXT, rate=1e30)
    )
    assert all(np.isnan(scores).all() for scores in result.scores.values())


def test_settings_share_a_folder_without_mixing(mnist, run_folder):
    """The settings differ in the learning rate, the images or the network."""
    config = ExperimentConfig(3, 1, run_folder, data_root=mnist[0])
    kinds = [
        TEXT,
        replace(TEXT, rate=0.02),
        replace(TEXT, normalise=False),
        replace(TEXT, relu_logits=True),
    ]
    finals = [
        train_networks(config, kind).scores["test", FINAL_LEVEL][0, 1] for kind in (*kinds, TEXT)
    ]
    assert len(set(finals)) == 4
    assert finals[0] == finals[-1]


def test_without_mnist_networks_learn_digits(tmp_path, run_folder):
    result = reproduce("sigeo-figure-6", samples=3, run=run_folder, data_root=tmp_path)
    assert any("digits of scikit-learn" in deviation for deviation in result.deviations)
    assert any("3 of the 24 widths" in deviation for deviation in result.deviations)
    assert len(result.lines) == len(SETTINGS) * 2 * 4
