"""Trainings on tables whose labels are numbers or one of several classes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, root_mean_squared_error
from torch import nn

from untrained.data import DataSource, load_data
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.training.adaptation import adapt_recipe
from untrained.training.ctr_designs import CTR_DESIGNS, DeepFm, list_ctr_designs
from untrained.training.recipes import load_recipe
from untrained.training.regression_metrics import (
    compute_regression_metrics,
    describe_bias,
    make_mean_warning,
)
from untrained.training.result import TrainingResult
from untrained.training.short_training import SHORT_TRAINING, measure_r2
from untrained.types import Batch, Task
from untrained.workflows.train import train

LIKE = Task("any", (1,), 1)
ROWS = 800
GENERATOR = np.random.default_rng(7)
NUMBERS = GENERATOR.normal(size=(ROWS, 3))
USERS = GENERATOR.integers(0, 4, ROWS)
USER_EFFECTS = np.array([-30.0, 0.0, 10.0, 40.0])
PRICES = 200 + NUMBERS @ [20.0, -10.0, 5.0] + USER_EFFECTS[USERS] + GENERATOR.normal(0, 4, ROWS)
# Three classes of unequal frequency: below 180, up to 230, above.
BANDS = np.array(["low", "middle", "high"])[np.digitize(PRICES, [180, 230])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, labels in (("price", PRICES), ("band", BANDS)):
        lines = [f"a,b,c,user,{name}"]
        for numbers, user, label in zip(NUMBERS, USERS, labels, strict=True):
            columns = [*(f"{number:.6f}" for number in numbers), f"u{user}", str(label)]
            lines.append(",".join(columns))
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return folder


def open_source(folder: Path, label: str) -> DataSource:
    return load_data(f"csv:{folder}/{label}.csv?label={label}", LIKE, folder / "root")


def read_part(source: DataSource, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the dense columns with one column per identifier, and the labels."""
    (batch,) = source.parts[name].batches(10_000)
    (size,) = source.task.vocabularies
    one_hot = np.eye(size)[batch.inputs[:, -1].long().numpy()]
    inputs = np.concatenate([batch.inputs[:, :-1].numpy(), one_hot], axis=1)
    return inputs, batch.targets.numpy()


# ---------------------------------------------------------------------------------- metrics


def test_metrics_of_a_regression_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    labels = generator.normal(30, 7, 500)
    predictions = labels + generator.normal(1, 3, 500)
    mean = 31.0
    std = 6.5
    metrics = compute_regression_metrics(
        (predictions - mean) / std, (labels - mean) / std, mean, std
    )
    assert metrics.rmse == pytest.approx(root_mean_squared_error(labels, predictions))
    assert metrics.mae == pytest.approx(mean_absolute_error(labels, predictions))
    assert metrics.r2 == pytest.approx(r2_score(labels, predictions))
    assert metrics.bias == pytest.approx(np.mean(predictions - labels))
    assert metrics.loss == pytest.approx((metrics.rmse / std) ** 2)
    constant = np.full(500, mean)
    assert metrics.constant == {
        "rmse": pytest.approx(root_mean_squared_error(labels, constant)),
        "mae": pytest.approx(mean_absolute_error(labels, constant)),
    }
    assert [row.rows for row in metrics.bins] == [50] * 10
    assert metrics.bins[0].predicted == pytest.approx(np.sort(predictions)[:50].mean())
    assert metrics.bins[0].observed == pytest.approx(labels[np.argsort(predictions)[:50]].mean())
    distances = [abs(row.predicted - row.observed) for row in metrics.bins]
    assert metrics.compute_calibration_error() == pytest.approx(np.mean(distances))


def test_the_mean_error_has_a_direction():
    assert describe_bias(2.0) == "on average, predictions are 2 too high"
    assert describe_bias(-12.34) == "on average, predictions are 12.3 too low"


def test_a_network_that_is_worse_than_the_mean_has_a_warning():
    assert make_mean_warning(570.1, 570.2) == ""
    assert make_mean_warning(668.0, 570.2).startswith(
        "the test RMSE 668 is worse than that of always predicting the mean (570.2): do not use"
    )
    assert "is equal to that of" in make_mean_warning(570.2, 570.2)


def test_r2_of_equal_labels_is_undefined():
    metrics = compute_regression_metrics(np.array([0.5, 1.5]), np.array([1.0, 1.0]), 0.0, 2.0)
    assert metrics.r2 is None
    assert "r2" not in metrics.summary
    assert metrics.rmse == pytest.approx(1.0)  # 2 * 0.5


# ------------------------------------------------------------------------------- references


@pytest.mark.parametrize("name", CTR_DESIGNS)
@pytest.mark.parametrize("vocabularies", [(), (5, 3)], ids=["numbers", "mixed"])
def test_a_reference_has_one_output_per_class_and_each_depends_on_the_row(name, vocabularies):
    task = Task("t", (3 + len(vocabularies),), 4, "cross_entropy", vocabularies)
    torch.manual_seed(0)
    model = CTR_DESIGNS[name](task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    outputs = model(load_data("noise", task).batch(32).inputs)
    assert outputs.shape == (32, 4)
    # What all classes share cancels in the softmax, so the differences must vary between rows.
    assert bool(((outputs - outputs.mean(1, keepdim=True)).std(0) > 0).all())


def test_the_products_of_a_factorisation_machine_change_the_probabilities():
    task = Task("t", (2,), 3, "cross_entropy", (4, 4))
    torch.manual_seed(0)
    model = DeepFm(task)
    rows = load_data("noise", task).batch(16).inputs
    before = model(rows).softmax(1)
    with torch.no_grad():
        model.mix.weight.add_(torch.randn_like(model.mix.weight))
    assert not torch.allclose(before, model(rows).softmax(1))


def test_linear_regression_takes_the_place_of_logistic_regression():
    assert list_ctr_designs(Task("t", (3,), 1, "mse")) == ["linear", "dlrm", "deepfm", "autoint"]
    assert list_ctr_designs(Task("t", (3,), 3)) == ["logistic", "dlrm", "deepfm", "autoint"]
    assert list_ctr_designs(Task("t", (3,), 1, "bce")) == ["logistic", "dlrm", "deepfm", "autoint"]


# -------------------------------------------------------------------------------- trainings


def test_linear_regression_comes_close_to_least_squares(folder, tmp_path):
    source = open_source(folder, "price")
    fitted = LinearRegression().fit(*read_part(source, "train"))
    inputs, labels = read_part(source, "test")
    best_rmse = root_mean_squared_error(labels, fitted.predict(inputs)) * source.task.target_std
    data = f"csv:{folder}/price.csv?label=price"
    result = train(
        "linear", data, "table(rate=0.03)", run=tmp_path, data_root=folder / "root", seed=0
    )
    assert 0.9 * best_rmse < result.rmse < 1.1 * best_rmse
    # The noise of the labels has a deviation of 4.
    assert 3 < best_rmse < 5
    assert result.r2 > 0.97
    assert result.kind.name == "regression"
    assert (result.accuracy, result.auc) == (None, None)
    test_prices = labels * source.task.target_std + source.task.target_mean
    train_mean = source.task.target_mean
    assert result.constant["rmse"] == pytest.approx(
        np.sqrt(np.mean((test_prices - train_mean) ** 2)), rel=1e-5
    )
    assert set(result.curve[0]) == {
        "epoch", "rate", "loss", "val_loss", "val_rmse", "val_mae", "val_r2",
    }  # fmt: skip
    read_again = TrainingResult.read(tmp_path)
    assert (read_again.rmse, read_again.mae, read_again.r2, read_again.constant) == (
        result.rmse,
        result.mae,
        result.r2,
        result.constant,
    )


def test_classes_are_trained_with_cross_entropy_and_compared_with_constants(folder, tmp_path):
    source = open_source(folder, "band")
    inputs, labels = read_part(source, "train")
    fitted = LogisticRegression(max_iter=1000).fit(inputs, labels)
    test_inputs, test_labels = read_part(source, "test")
    best_loss = log_loss(test_labels, fitted.predict_proba(test_inputs))
    data = f"csv:{folder}/band.csv?label=band"
    result = train(
        "logistic", data, "table(rate=0.03)", run=tmp_path, data_root=folder / "root", seed=0
    )
    assert result.loss < 1.3 * best_loss
    assert result.classes == ("high", "low", "middle")
    assert result.best["loss"] == min(row["val_loss"] for row in result.curve)
    counts = np.bincount(labels)
    assert result.constant["accuracy"] == pytest.approx(np.mean(test_labels == counts.argmax()))
    shares = (counts + 1) / (counts + 1).sum()
    assert result.constant["loss"] == pytest.approx(-np.log(shares[test_labels]).mean())
    assert np.sum(result.confusion) == len(test_labels)


def test_the_recipe_sees_small_tables_more_often_than_large_ones(folder):
    source = open_source(folder, "price")  # about 640 training rows
    recipe = adapt_recipe(load_recipe("table"), source)
    assert (recipe.epochs, recipe.batch) == (100, 64)
    assert load_recipe(recipe.label) == recipe
    assert adapt_recipe(load_recipe("table(epochs=3,batch=7)"), source).epochs == 3


def test_a_short_training_of_a_regression_is_judged_by_r2():
    """R2 of known predictions is worked out by hand: 1 - (1 + 0 + 1) / (4 + 0 + 4)."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    batch = Batch(torch.tensor([[-2.0], [0.0], [2.0]]), torch.tensor([-2.0, 0.0, 2.0]))
    assert measure_r2(model, batch, 2) == pytest.approx(1 - 2 / 8)
    with pytest.raises(Unscorable, match="all validation samples have the same target"):
        measure_r2(model, Batch(batch.inputs, torch.ones(3)), 2)
    inputs = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    probe = Probe(nn.Linear(3, 1), Batch(inputs, inputs.sum(1)), loss="mse", seed=0)
    assert load_proxy(f"{SHORT_TRAINING}(epochs=20,rate=0.05)")(probe) > 0.95
