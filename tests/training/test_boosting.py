"""Gradient boosting as a reference on tables."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from untrained.data import DataSource
from untrained.data.tables.source import TablePart, make_table_source
from untrained.training import boosting
from untrained.training.boosting import train_boosting
from untrained.types import CLASSIFICATION, REGRESSION, Task

RATES = np.array([0.1, 0.9, 0.3, 0.7, 0.5])


def make_table(rows: int, seed: int) -> TablePart:
    """Make rows of one number, which says nothing, and an identifier with a click rate of its own."""
    rng = np.random.default_rng(seed)
    identifiers = rng.integers(0, len(RATES), rows)
    labels = rng.random(rows) < RATES[identifiers]
    columns = [rng.standard_normal(rows), identifiers, labels]
    return TablePart(np.stack(columns, axis=1).astype(np.float32))


@pytest.fixture
def source() -> DataSource:
    parts = {"train": make_table(4000, 0), "val": make_table(1000, 1), "test": make_table(2000, 2)}
    task = Task("rates", (2,), 1, "bce", (len(RATES),))
    return make_table_source(task, parts, lambda: None)


def test_it_learns_the_click_rates_of_identifiers(source):
    """The true rates are the best possible prediction, and boosting comes close to it."""
    result = train_boosting(source)
    values = source.parts["test"].values
    labels = values[:, 2]
    truth = RATES[values[:, 1].astype(int)]
    best_loss = log_loss(labels, truth)
    constant_loss = log_loss(labels, np.full(len(labels), 0.5))
    # By chance, it may be slightly better than the truth on these rows.
    assert abs(result.loss - best_loss) < 0.05 * (constant_loss - best_loss)
    assert result.quality == pytest.approx(roc_auc_score(labels, truth), abs=0.02)
    assert result.row_losses.mean() == pytest.approx(result.loss)
    assert len(result.row_losses) == len(labels)
    assert result.rows == 4000
    assert train_boosting(source).loss == result.loss


def test_of_a_long_table_evenly_spread_rows_are_used(source, monkeypatch):
    monkeypatch.setattr(boosting, "MAX_ROWS", 1000)
    result = train_boosting(source)
    assert result.rows == 1000
    assert len(result.row_losses) == 2000
    features, labels = boosting._read_rows(source.parts["train"], 1000)
    expected = source.parts["train"].values[::4]
    assert np.array_equal(np.column_stack([features, labels]), expected)
    # The rows of all batches are spread as those of the whole part.
    monkeypatch.setattr(boosting, "EVALUATION_ROWS", 7)
    features, labels = boosting._read_rows(source.parts["train"], 1000)
    assert np.array_equal(np.column_stack([features, labels]), expected)


def test_without_time_one_size_is_tried(source, monkeypatch):
    result = train_boosting(source, seconds=-1.0)
    assert result.leaves == boosting.LEAVES[0]


SHARES = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])  # by identifier and class


@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns_the_shares_of_classes(classes):
    """The true shares are the best possible prediction, and boosting comes close to it."""
    shares = SHARES[:, :classes] / SHARES[:, :classes].sum(1, keepdims=True)
    parts = {}
    for seed, (name, rows) in enumerate({"train": 4000, "val": 1000, "test": 2000}.items()):
        rng = np.random.default_rng(seed)
        identifiers = rng.integers(0, 3, rows)
        limits = shares.cumsum(1)[identifiers][:, :-1]
        labels = (rng.random(rows)[:, None] > limits).sum(1)
        columns = np.stack([rng.standard_normal(rows), identifiers, labels], axis=1)
        parts[name] = TablePart(columns.astype(np.float32), CLASSIFICATION)
    task = Task("shares", (2,), classes, "cross_entropy", (3,))
    result = train_boosting(make_table_source(task, parts, lambda: None))
    values = parts["test"].values
    labels = values[:, 2]
    truth = shares[values[:, 1].astype(int)]
    best_loss = log_loss(labels, truth)
    constant_loss = log_loss(labels, np.full_like(truth, 1 / classes))
    assert abs(result.loss - best_loss) < 0.1 * (constant_loss - best_loss)
    assert result.quality == pytest.approx(np.mean(truth.argmax(1) == labels), abs=0.02)
    assert result.row_losses.mean() == pytest.approx(result.loss)


def test_a_class_that_only_one_row_has_is_no_error():
    rng = np.random.default_rng(0)
    parts = {}
    for name in ("train", "val", "test"):
        labels = np.arange(300) % 2
        labels[0] = 2
        columns = np.stack([rng.standard_normal(300), rng.integers(0, 3, 300), labels], axis=1)
        parts[name] = TablePart(columns.astype(np.float32), CLASSIFICATION)
    task = Task("rare", (2,), 3, "cross_entropy", (3,))
    assert np.isfinite(train_boosting(make_table_source(task, parts, lambda: None)).loss)


def test_it_learns_numbers():
    """The mean of each identifier explains all but the noise, whose variance is 0.04 of 0.04 + 1."""
    parts = {}
    for seed, (name, rows) in enumerate({"train": 4000, "val": 1000, "test": 2000}.items()):
        rng = np.random.default_rng(seed)
        identifiers = rng.integers(0, 2, rows)
        labels = 2 * identifiers - 1 + 0.2 * rng.standard_normal(rows)
        columns = np.stack([rng.standard_normal(rows), identifiers, labels], axis=1)
        parts[name] = TablePart(columns.astype(np.float32), REGRESSION)
    task = Task("numbers", (2,), 1, "mse", (2,))
    result = train_boosting(make_table_source(task, parts, lambda: None))
    assert result.loss == pytest.approx(0.04, rel=0.1)
    assert result.quality == pytest.approx(1 - 0.04 / 1.04, abs=0.005)
    assert result.row_losses.mean() == pytest.approx(result.loss)
