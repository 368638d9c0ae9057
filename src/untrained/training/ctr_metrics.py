"""Metrics of click prediction, from logits z and labels y in {0, 1}, in numpy.

log loss            mean of log(1 + e^z) - y z, a form that never overflows
AUC                 probability that a click ranks above a row without a click; ties count half
normalised entropy  log loss divided by the log loss of always predicting the mean click rate; below
                    1, the model is better than that constant (He et al. 2014)
calibration         mean prediction and observed click rate of bins; rows are sorted by prediction
                    and divided into bins of equal size
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import compute_ranks

Array = NDArray[np.float64]
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of similar prediction.

    Attributes:
        predicted: Mean predicted probability of a click, or mean predicted number.
        observed: Share of the rows with a click, or mean label.
        rows: Number of rows.
    """

    predicted: float
    observed: float
    rows: int


@dataclass(frozen=True)
class ClickMetrics:
    """All metrics. AUC and normalised entropy are None if all labels are equal."""

    rows: int
    clicks: int
    log_loss: float
    auc: float | None
    normalised_entropy: float | None
    calibration_error: float
    bins: tuple[CalibrationBin, ...]

    @property
    def summary(self) -> dict[str, float]:
        """The metrics of one epoch for the curve of a training."""
        values = {"loss": self.log_loss}
        if self.auc is not None:
            values["auc"] = self.auc
        return values


def compute_click_metrics(logits: Array, labels: Array) -> ClickMetrics:
    """Compute all metrics."""
    bins = compute_calibration(logits, labels)
    return ClickMetrics(
        rows=len(labels),
        clicks=int(labels.sum()),
        log_loss=compute_log_loss(logits, labels),
        auc=compute_auc(logits, labels),
        normalised_entropy=compute_normalised_entropy(logits, labels),
        calibration_error=compute_calibration_error(bins),
        bins=bins,
    )


def compute_log_loss(logits: Array, labels: Array) -> float:
    """Compute the mean log loss."""
    return float(np.mean(compute_row_losses(logits, labels)))


def compute_row_losses(logits: Array, labels: Array) -> Array:
    """Compute the log loss of each row."""
    losses: Array = np.logaddexp(0, logits) - labels * logits
    return losses


def compute_auc(logits: Array, labels: Array) -> float | None:
    """Compute the area under the ROC curve; None if all labels are equal.

    It is computed from the ranks of the clicks (Mann and Whitney). Rows with equal logits get the
    mean of their ranks.
    """
    clicks = int(labels.sum())
    if clicks in (0, len(labels)):
        return None
    rank_sum = compute_ranks(logits)[labels == 1].sum()
    pairs_in_order = rank_sum - clicks * (clicks + 1) / 2
    pairs = clicks * (len(labels) - clicks)
    return float(pairs_in_order / pairs)


def compute_normalised_entropy(logits: Array, labels: Array) -> float | None:
    """Compute the log loss relative to that of the mean click rate; None if labels are equal."""
    mean = labels.mean()
    if mean in (0, 1):
        return None
    entropy = float(-mean * np.log(mean) - (1 - mean) * np.log1p(-mean))
    return compute_log_loss(logits, labels) / entropy


def compute_calibration(
    logits: Array, labels: Array, bins: int = CALIBRATION_BINS
) -> tuple[CalibrationBin, ...]:
    """Compare predictions with observed click rates, from the lowest prediction to the highest.

    The sizes of bins differ by at most one row. Empty bins are left out.
    """
    order = np.argsort(logits, kind="stable")
    probabilities = np.exp(-np.logaddexp(0, -logits))
    result = []
    for rows in np.array_split(order, bins):
        if len(rows) == 0:
            continue
        predicted = float(probabilities[rows].mean())
        observed = float(labels[rows].mean())
        result.append(CalibrationBin(predicted, observed, len(rows)))
    return tuple(result)


def compute_calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Compute the mean distance between predicted and observed, weighted by rows."""
    weighted_distances = []
    for calibration_bin in bins:
        distance = abs(calibration_bin.predicted - calibration_bin.observed)
        weighted_distances.append(distance * calibration_bin.rows)
    total_rows = sum(calibration_bin.rows for calibration_bin in bins)
    return sum(weighted_distances) / total_rows
