"""Training on reduced pictures first: which steps, for which networks, and how long it takes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from untrained.data import DataSource, load_data
from untrained.training.distributed import make_training_process
from untrained.training.loop import Training
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingKey
from untrained.training.small_pictures import (
    SMALL_SHARE,
    STEP_COST,
    accepts_small_pictures,
    choose_small_share,
    compute_work,
    estimate_relative_cost,
    reduce_pictures,
)
from untrained.types import Task

CLASSES = 2
STEPS_PER_EPOCH = 3


class SizeRecorder(nn.Module):
    """A small network that notes the side of the pictures of every training step."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, CLASSES)
        self.sides: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.sides.append(x.shape[-1])
        logits: torch.Tensor = self.head(self.conv(x).mean((2, 3)))
        return logits


@pytest.fixture
def load_pictures(tmp_path) -> Callable[[int], DataSource]:
    """Return a function that loads random pictures with a side of some pixels."""

    def load(side: int) -> DataSource:
        rng = np.random.default_rng(0)
        pictures = rng.integers(256, size=(40, side, side, 3), dtype=np.uint8)
        path = tmp_path / f"{side}.npz"
        np.savez(path, x=pictures, y=np.arange(40) % CLASSES)
        return load_data(f"npz:{path}", Task("pictures", (3, side, side), CLASSES), None)

    return load


def make_training(model: nn.Module, source: DataSource, options: str) -> Training:
    batch = len(source.parts["train"]) // STEPS_PER_EPOCH
    return Training(
        model,
        source,
        load_recipe(f"photos(batch={batch},{options})"),
        source.parts,
        make_training_process("cpu"),
        seed=0,
        select_weights=False,
    )


def test_the_first_steps_see_reduced_pictures_and_the_others_full_ones(load_pictures):
    model = SizeRecorder()
    training = make_training(model, load_pictures(32), "epochs=4,small_share=0.6")
    assert training.run() == "epochs"
    steps = 4 * STEPS_PER_EPOCH
    small_steps = int(0.6 * steps)
    assert model.sides == [20] * small_steps + [32] * (steps - small_steps)


def test_a_resumed_training_continues_with_the_same_sizes(load_pictures, tmp_path):
    """`small_share=0.5` of two epochs: the first epoch is reduced, the second is not."""
    source = load_pictures(32)
    model = SizeRecorder()
    training = make_training(model, source, "epochs=2,small_share=0.5")
    assert training.run(time_limit=0) == "time"
    key = TrainingKey("recorder", "", "", "", {}, 0, "cpu")
    training.make_checkpoint(key).save(tmp_path / "checkpoint.pt")
    continued_model = SizeRecorder()
    continued = make_training(continued_model, source, "epochs=2,small_share=0.5")
    continued.resume_if_saved(tmp_path / "checkpoint.pt", key)
    continued.run()
    assert model.sides + continued_model.sides == [20] * STEPS_PER_EPOCH + [32] * STEPS_PER_EPOCH


@pytest.mark.parametrize("side", [16, 27])
def test_small_pictures_are_not_reduced_further(load_pictures, side):
    model = SizeRecorder()
    make_training(model, load_pictures(side), "epochs=1,small_share=0.6").run()
    assert set(model.sides) == {side}


def test_a_training_with_a_number_of_epochs_sees_full_pictures(load_pictures):
    model = SizeRecorder()
    make_training(model, load_pictures(32), "epochs=1").run()
    assert set(model.sides) == {32}


def test_only_short_trainings_of_pictures_on_a_cpu_reduce_them():
    pictures = Task("pictures", (3, 28, 40), CLASSES)
    assert choose_small_share(pictures, "cpu") == SMALL_SHARE
    assert choose_small_share(pictures, "cuda") == 0
    assert choose_small_share(Task("pictures", (3, 40, 27), CLASSES), "cpu") == 0
    assert choose_small_share(Task("rows", (12,), CLASSES), "cpu") == 0
    assert choose_small_share(Task("angles", (3, 32, 32), 1, "mse"), "cpu") == 0


def test_the_relative_cost_is_the_mean_over_all_steps():
    assert estimate_relative_cost(0.0) == 1
    assert estimate_relative_cost(0.6) == pytest.approx(compute_work(0, 1000, 0.6) / 1000)


def test_networks_for_one_size_are_trained_on_full_pictures(load_pictures):
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, CLASSES))
    assert not accepts_small_pictures(model, torch.zeros(2, 3, 32, 32))
    training = make_training(model, load_pictures(32), "epochs=1,small_share=0.6")
    assert training.small_share == 0
    assert training.run() == "epochs"


def test_reduced_pictures_are_means_of_the_full_ones():
    constant = torch.full((1, 3, 32, 48), 0.25)
    reduced = reduce_pictures(constant)
    assert reduced.shape == (1, 3, 20, 30)
    assert reduced.flatten().tolist() == pytest.approx([0.25] * reduced.numel())


def test_the_work_counts_every_step_by_its_size():
    total_steps = 10
    for first_step in range(total_steps + 1):
        expected = 0.0
        for step in range(first_step, total_steps):
            expected += STEP_COST if step < 6 else 1.0
        assert compute_work(first_step, total_steps, 0.6) == pytest.approx(expected)


def test_epochs_are_left_out_by_the_work_that_remains(load_pictures):
    """There is time for the work of 5 of 10 epochs, which is a longer training than 5 epochs."""
    training = make_training(SizeRecorder(), load_pictures(32), "epochs=10,small_share=0.6")
    training.step = STEPS_PER_EPOCH
    affordable_work = 5 * STEPS_PER_EPOCH
    training._adjust_epochs(affordable_work, 10)
    epochs = training.recipe.epochs
    assert 6 < epochs < 10
    assert training._compute_work(training.step) <= affordable_work
    assert training._compute_work(training.step, epochs + 1) > affordable_work
