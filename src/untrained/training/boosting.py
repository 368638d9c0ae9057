"""Gradient boosting of decision trees on a table, as a reference for networks.

On small tables it is what a data scientist would try first. Identifiers are replaced by the click
rate, the shares of the classes or the mean label of their rows, estimated on other rows of the
training part (scikit-learn's `TargetEncoder`). The number of trees and the size of a tree are
selected by the loss on the validation part.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np

from untrained.data import DataSource
from untrained.data.parts import TEST, TRAIN, VAL, Part
from untrained.training.batches import EVALUATION_ROWS
from untrained.training.ctr_metrics import Array, compute_auc, compute_row_losses
from untrained.training.regression_metrics import compute_regression_metrics
from untrained.types import BINARY, REGRESSION, Task, TaskKind

BOOSTING = "gradient boosting"
NOT_EXPORTED = (
    "it cannot be exported, because an export contains a network; train it with scikit-learn "
    "instead"
)
# Largest number of rows for fitting or selection. Of a longer table, every n-th row is used.
MAX_ROWS = 200_000
# Number of folds of the target encoder.
FOLDS = 5
TREES = 300
LEARNING_RATE = 0.05
# Largest numbers of leaves per tree that are compared.
LEAVES = (15, 63)
# A class that the trees exclude has this probability, so that its loss is finite.
SMALLEST_PROBABILITY = 1e-12

# Yields the outputs for rows of the first tree, of the first two trees, and so on: logits, numbers,
# or log probabilities (rows, classes).
_PredictStages = Callable[[Array], Iterator[Array]]


@dataclass(frozen=True)
class BoostingResult:
    """The result of gradient boosting.

    Attributes:
        val_loss: Loss on the validation part: log loss, or squared error of standardised labels.
        val_quality: AUC, accuracy or R2 on the validation part; None if it is not defined.
        loss: Loss on the test part.
        quality: AUC, accuracy or R2 on the test part; None if it is not defined.
        row_losses: Loss of each test row.
        trees: Number of trees.
        leaves: Largest number of leaves per tree.
        rows: Number of training rows.
    """

    val_loss: float
    val_quality: float | None
    loss: float
    quality: float | None
    row_losses: Array
    trees: int
    leaves: int
    rows: int

    @property
    def description(self) -> str:
        """The settings that were selected."""
        return f"{self.trees} trees of at most {self.leaves} leaves"


def train_boosting(source: DataSource, seconds: float | None = None) -> BoostingResult:
    """Train gradient boosting on the training part, and test it once on the test part.

    Args:
        source: The table.
        seconds: After this time, no further size of the trees is tried; None for no limit.

    Returns:
        The result of the size with the lowest loss on the validation part.
    """
    start = perf_counter()
    kind = source.task.kind
    train_rows, train_labels = _read_rows(source.parts[TRAIN], MAX_ROWS)
    encoder = _IdentifierEncoder(source.task, train_rows, train_labels)
    train_features = encoder.encode_training_rows()
    val_rows, val_labels = _read_rows(source.parts[VAL], MAX_ROWS)
    val_features = encoder.encode(val_rows)
    best_loss = np.inf
    best_trees = 0
    best_leaves = 0
    best_predict_stages: _PredictStages | None = None
    for leaves in LEAVES:
        is_time_over = seconds is not None and perf_counter() - start > seconds
        if is_time_over and best_predict_stages is not None:
            break
        predict_stages = _fit_trees(source.task, leaves, train_features, train_labels)
        for trees, outputs in enumerate(predict_stages(val_features), 1):
            loss = float(_compute_losses(kind, outputs, val_labels).mean())
            if loss < best_loss:
                best_loss = loss
                best_trees = trees
                best_leaves = leaves
                best_predict_stages = predict_stages
    assert best_predict_stages is not None
    val_outputs = _take_stage(best_predict_stages(val_features), best_trees)
    # Every test row is compared with the winner of a search, so none is left out.
    test_rows, test_labels = _read_rows(source.parts[TEST], None)
    test_features = encoder.encode(test_rows)
    test_outputs = _take_stage(best_predict_stages(test_features), best_trees)
    row_losses = _compute_losses(kind, test_outputs, test_labels)
    return BoostingResult(
        val_loss=float(np.mean(_compute_losses(kind, val_outputs, val_labels))),
        val_quality=_compute_quality(kind, val_outputs, val_labels),
        loss=float(np.mean(row_losses)),
        quality=_compute_quality(kind, test_outputs, test_labels),
        row_losses=row_losses,
        trees=best_trees,
        leaves=best_leaves,
        rows=len(train_labels),
    )


def _fit_trees(task: Task, leaves: int, features: Array, labels: Array) -> _PredictStages:
    """Fit trees with at most `leaves` leaves each."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make_model = HistGradientBoostingClassifier
    if task.kind == REGRESSION:
        make_model = HistGradientBoostingRegressor
    model = make_model(
        learning_rate=LEARNING_RATE,
        max_iter=TREES,
        max_leaf_nodes=leaves,
        early_stopping=False,
        random_state=0,
    )
    model.fit(features, labels)

    def predict_stages(rows: Array) -> Iterator[Array]:
        if task.kind == REGRESSION:
            yield from model.staged_predict(rows)
            return
        for probabilities in model.staged_predict_proba(rows):
            if task.kind == BINARY:
                yield _compute_logits(probabilities)
                continue
            # A class without training rows has no column.
            outputs = np.zeros((len(rows), task.num_classes))
            outputs[:, model.classes_.astype(int)] = probabilities
            yield np.log(np.maximum(outputs, SMALLEST_PROBABILITY))

    return predict_stages


def _compute_losses(kind: TaskKind, outputs: Array, labels: Array) -> Array:
    """Return the loss of each row."""
    if kind == BINARY:
        return compute_row_losses(outputs, labels)
    losses: Array
    if kind == REGRESSION:
        losses = (outputs - labels) ** 2
    else:
        losses = -outputs[np.arange(len(labels)), labels.astype(int)]
    return losses


def _compute_quality(kind: TaskKind, outputs: Array, labels: Array) -> float | None:
    """Return AUC, accuracy or R2; None if it is not defined."""
    if kind == BINARY:
        return compute_auc(outputs, labels)
    if kind == REGRESSION:
        # R2 is the same for standardised labels.
        return compute_regression_metrics(outputs, labels, 0.0, 1.0).r2
    return float(np.mean(outputs.argmax(1) == labels))


class _IdentifierEncoder:
    """Replaces identifiers by rates that are estimated on the training rows.

    A row (columns,) has its dense columns first and its identifiers last.
    """

    def __init__(self, task: Task, train_rows: Array, train_labels: Array) -> None:
        self._task = task
        self._train_rows = train_rows
        self._train_labels = train_labels
        self._dense_count = train_rows.shape[1] - len(task.vocabularies)

    def encode_training_rows(self) -> Array:
        """Return the training rows. The rates of a row do not depend on its own label."""
        if not self._task.vocabularies:
            return self._train_rows
        dense, identifiers = self._split_columns(self._train_rows)
        rates = _estimate_rates_in_folds(self._task, identifiers, self._train_labels)
        return np.hstack([dense, rates])

    def encode(self, rows: Array) -> Array:
        """Return rows of another part."""
        if not self._task.vocabularies:
            return rows
        _, train_identifiers = self._split_columns(self._train_rows)
        dense, identifiers = self._split_columns(rows)
        rates = _estimate_rates(self._task, train_identifiers, self._train_labels, identifiers)
        return np.hstack([dense, rates])

    def _split_columns(self, rows: Array) -> tuple[Array, Array]:
        return rows[:, : self._dense_count], rows[:, self._dense_count :]


def _estimate_rates_in_folds(task: Task, identifiers: Array, labels: Array) -> Array:
    """Estimate the rates of training rows, those of each fold from the rows of the other folds.

    Args:
        task: The task.
        identifiers: Identifiers of the rows.
        labels: Their labels.

    Returns:
        Rates, as `_estimate_rates` returns them.
    """
    folds = np.arange(len(labels)) % FOLDS
    rates_of_folds = []
    for fold in range(FOLDS):
        in_fold = folds == fold
        rates_of_folds.append(
            _estimate_rates(task, identifiers[~in_fold], labels[~in_fold], identifiers[in_fold])
        )
    # The rates are sorted by fold; put them back into the order of the rows.
    order = np.argsort(folds, kind="stable")
    rates = np.empty((len(labels), rates_of_folds[0].shape[1]))
    rates[order] = np.concatenate(rates_of_folds)
    return rates


def _estimate_rates(
    task: Task, train_identifiers: Array, train_labels: Array, identifiers: Array
) -> Array:
    """Estimate the mean label of each identifier, or with three or more classes the class shares.

    Args:
        task: The task.
        train_identifiers: Identifiers of the rows to estimate from.
        train_labels: Their labels.
        identifiers: Identifiers of the rows that need rates.

    Returns:
        Rates (rows, columns), or (rows, columns times classes).
    """
    # Imported here, because scikit-learn takes a while to import.
    from sklearn.preprocessing import TargetEncoder

    if task.kind == REGRESSION:
        encoder = TargetEncoder(target_type="continuous").fit(train_identifiers, train_labels)
        return np.asarray(encoder.transform(identifiers))
    targets = [train_labels]
    if task.num_classes > 2:
        classes = range(task.num_classes)
        targets = [(train_labels == number).astype(np.float64) for number in classes]
    rates = []
    for target in targets:
        if target.min() == target.max():
            # A class without rows here, or the only one.
            rates.append(np.full(identifiers.shape, target[0]))
        else:
            encoder = TargetEncoder(target_type="binary").fit(train_identifiers, target)
            rates.append(np.asarray(encoder.transform(identifiers)))
    return np.hstack(rates)


def _read_rows(part: Part, max_rows: int | None) -> tuple[Array, Array]:
    """Return features and labels of at most `max_rows` rows, evenly spread.

    Their shapes are (rows, columns) and (rows).
    """
    step = 1
    if max_rows is not None:
        step = -(-len(part) // max_rows)
    features = []
    labels = []
    first = 0
    for batch in part.batches(EVALUATION_ROWS):
        # Every step-th row of the part, whatever the size of a batch.
        offset = -first % step
        features.append(batch.inputs[offset::step].double().numpy())
        labels.append(batch.targets[offset::step].double().flatten().numpy())
        first += len(batch.inputs)
    return np.concatenate(features), np.concatenate(labels)


def _take_stage(stages: Iterator[Array], trees: int) -> Array:
    """Return the outputs of the first `trees` trees."""
    return next(islice(stages, trees - 1, trees))


def _compute_logits(probabilities: Array) -> Array:
    """Return the logits of the second class, from the probabilities of both (rows, 2)."""
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(probabilities[:, 1], tiny)) - np.log(
        np.maximum(probabilities[:, 0], tiny)
    )
