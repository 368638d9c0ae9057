"""Trainings on pictures whose labels are numbers: metrics, selection, recipes and the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from torch import Tensor, nn

from untrained.data import TEST, TRAIN, DataSource, load_data
from untrained.formatting import format_measured
from untrained.reports.pages.training_sections import make_training_sections
from untrained.training.adaptation import adapt_recipe
from untrained.training.batches import BatchLoader
from untrained.training.network import make_loss
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingResult
from untrained.types import Task
from untrained.workflows.train import train

COUNT = 200
LIKE = Task("any", (3, 8, 8), 2)
RECIPE = "quick(epochs=12,batch=16,rate=0.1,crop=0,flip=False,average=0.0)"


class Average(nn.Module):
    """Predicts a linear function of the mean of each channel."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.head = nn.Linear(task.input_shape[0], task.num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(inputs.mean((2, 3)))
        return outputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write pictures whose label is three times their brightness plus 1,000, with some noise."""
    folder = tmp_path_factory.mktemp("numbers")
    generator = np.random.default_rng(5)
    brightness = generator.uniform(40, 210, COUNT)
    noise = generator.integers(-30, 30, (COUNT, 8, 8, 3))
    images = (brightness[:, None, None, None] + noise).round().astype(np.uint8)
    labels = 1000 + 3 * brightness + generator.normal(0, 10, COUNT)
    np.savez(folder / "bright.npz", x=images, y=labels)
    return folder


@pytest.fixture(scope="module")
def source(folder: Path) -> DataSource:
    return load_data(f"npz:{folder}/bright.npz", LIKE)


@pytest.fixture(scope="module")
def data(folder: Path) -> str:
    return f"npz:{folder}/bright.npz"


def train_average(
    data: str, source: DataSource, folder: Path, recipe: str = RECIPE, **options
) -> TrainingResult:
    torch.manual_seed(0)
    model = Average(source.task)
    return train(model, data, recipe, input_shape=(3, 8, 8), run=folder, seed=0, **options)


@pytest.fixture(scope="module")
def result(
    data: str, source: DataSource, tmp_path_factory: pytest.TempPathFactory
) -> TrainingResult:
    return train_average(data, source, tmp_path_factory.mktemp("run"))


def predict_test_labels(
    result: TrainingResult, source: DataSource
) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and labels of the test part in the unit of the label."""
    (batch,) = source.parts[TEST].batches(1000)
    assert result.model is not None
    with torch.no_grad():
        outputs = result.model(batch.inputs).double().flatten().numpy()
    std = source.task.target_std
    mean = source.task.target_mean
    return std * outputs + mean, std * batch.targets.double().numpy() + mean


def test_metrics_are_those_of_scikit_learn_in_the_unit_of_the_label(result, source):
    predicted, labels = predict_test_labels(result, source)
    assert result.rmse == pytest.approx(root_mean_squared_error(labels, predicted), rel=1e-5)
    assert result.mae == pytest.approx(mean_absolute_error(labels, predicted), rel=1e-5)
    assert result.r2 == pytest.approx(r2_score(labels, predicted), rel=1e-5)
    constant = np.full_like(labels, source.task.target_mean)
    assert result.constant == {
        "rmse": pytest.approx(root_mean_squared_error(labels, constant)),
        "mae": pytest.approx(mean_absolute_error(labels, constant)),
    }
    # The labels have a deviation of 147, and their noise one of 10.
    assert 5 < result.rmse < 40
    assert result.constant["rmse"] > 100
    assert (result.accuracy, result.auc, result.kind.name) == (None, None, "regression")


def test_the_epoch_with_the_lowest_validation_loss_is_kept(result):
    losses = [row["val_loss"] for row in result.curve]
    assert result.best["loss"] == min(losses)
    assert result.curve[int(result.best["epoch"]) - 1]["val_loss"] == min(losses)
    assert {"val_rmse", "val_mae", "val_r2"} <= set(result.curve[0])


def test_a_training_stops_when_the_validation_loss_no_longer_falls(data, source, tmp_path):
    """With a rate of zero, no epoch is better than the first."""
    still = train_average(
        data, source, tmp_path, RECIPE.replace("rate=0.1", "rate=1e-12"), patience=2
    )
    assert still.end_reason == "patience"
    # float32 weights do not change by steps this small.
    assert len(still.curve) == 3


def test_the_largest_errors_are_kept_with_their_pictures(result, source):
    predicted, labels = predict_test_labels(result, source)
    order = np.argsort(-np.abs(predicted - labels))
    assert len(result.mistakes) == min(24, len(labels))
    for index, row in zip(order, result.mistakes, strict=False):
        assert row["truth"] == pytest.approx(labels[index], rel=1e-5)
        assert row["predicted"] == pytest.approx(predicted[index], rel=1e-4)
        assert row["picture"].startswith("data:image/png;base64,")
    assert "picture" not in result.to_document()["mistakes"][0]


def test_the_page_shows_curve_metrics_predictions_and_largest_errors(result):
    page = make_training_sections(result)
    worst = result.mistakes[0]
    for text in (
        "Test RMSE",
        f"{format_measured(result.rmse)}, MAE {format_measured(result.mae)}, "
        f"R2 {result.r2:.3f} on 20 samples",
        "always predicting the mean has a test RMSE of",
        "Learning curves",
        "Predictions and labels",
        "in the unit of y.",
        "Largest errors",
        f"{format_measured(worst['truth'])}, predicted\u00a0{format_measured(worst['predicted'])}",
    ):
        assert text in page, text
    assert "Confusion" not in page
    assert "Worst mistakes" not in page
    # A picture that is not in the file itself is not shown.
    foreign = replace(result, mistakes=[{**worst, "picture": "https://example.org/a.png"}])
    assert "Largest errors" not in make_training_sections(foreign)


def test_a_refit_trains_on_the_validation_part_too(data, source, tmp_path):
    refit = train_average(data, source, tmp_path, refit=True)
    assert refit.samples["train"] == len(source.parts[TRAIN]) + len(source.parts["val"])
    predicted, labels = predict_test_labels(refit, source)
    assert refit.rmse == pytest.approx(root_mean_squared_error(labels, predicted), rel=1e-5)


# -------------------------------------------------------------------------------- recipes


def test_the_recipe_of_pictures_keeps_sizes_and_brightness_unless_the_user_decides(source):
    recipe = adapt_recipe(load_recipe("photos"), source)
    assert load_recipe("photos").augment == "trivial"
    assert (recipe.cutout, recipe.augment) == (0, "")
    # Shifts stay: an eighth of 8 pixels.
    assert recipe.crop == 1
    recipe = adapt_recipe(load_recipe("photos(cutout=3,augment=trivial)"), source)
    assert (recipe.cutout, recipe.augment) == (3, "trivial")


def test_the_recipe_of_pictures_has_no_label_smoothing_and_decides_on_mirroring(source):
    recipe = adapt_recipe(load_recipe("photos"), source)
    assert load_recipe("photos").smoothing > 0
    assert recipe.smoothing == 0
    # The brightness of a picture does not depend on left and right.
    assert recipe.flip is True
    assert recipe.from_data == ()
    assert adapt_recipe(recipe, source) == recipe
    assert adapt_recipe(load_recipe("cifar"), source).smoothing == 0


def test_the_recipe_photos_trains_on_numbers(data, source, tmp_path):
    result = train_average(data, source, tmp_path, "photos(epochs=2)")
    assert np.isfinite(result.rmse)
    assert result.notes == (
        "pictures are mirrored at random in training, because their labels hardly depend on left "
        "and right",
    )
    assert result.key.recipe["smoothing"] == 0


def test_mixup_mixes_numbers(source):
    """A mixed label is w a + (1 - w) b, as the mixed picture is of the two pictures."""
    part = source.parts[TRAIN]
    plain = BatchLoader.open(part, source.task, load_recipe("quick(crop=0,flip=False)"), "cpu", 0)
    recipe = load_recipe("zen-cifar(crop=0,flip=False,cutout=0)").with_options(
        batch=plain.recipe.batch
    )
    mixed = BatchLoader.open(part, source.task, recipe, "cpu", 0)
    first = next(plain.iterate_training_batches(0))
    second = next(mixed.iterate_training_batches(0))
    assert second.targets.shape == (len(first.targets), 1)
    inputs = first.inputs.flatten(1).double()
    for index in range(len(first.targets)):
        # Find the partner and the weight by least squares over all partners.
        target = second.inputs[index].flatten().double()
        differences = inputs[index] - inputs
        squares = differences.square().sum(1).clamp_min(1e-12)
        weights = ((target - inputs) * differences).sum(1) / squares
        residuals = (target - inputs - weights[:, None] * differences).square().sum(1)
        partner = int(residuals.argmin())
        weight = float(weights[partner])
        expected = weight * first.targets[index] + (1 - weight) * first.targets[partner]
        assert float(second.targets[index, 0]) == pytest.approx(float(expected), abs=1e-4)


def test_bfloat16_outputs_do_not_round_the_labels():
    """In bfloat16, 1.001 would be 1."""
    task = Task("any", (1,), 1, "mse")
    compute_loss = make_loss(task, load_recipe("quick"))
    loss = compute_loss(torch.ones(2, 1, dtype=torch.bfloat16), torch.tensor([1.001, 1.001]))
    assert float(loss) == pytest.approx(1e-6, rel=1e-2)
