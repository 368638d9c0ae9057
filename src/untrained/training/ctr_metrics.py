"""How well clicks are predicted, from logits z and labels y in {0, 1}. Pure numpy; knows nothing of networks.

log loss            mean of log(1 + e^z) - y z, which never overflows
AUC                 chance that a click ranks above a row without one; ties count half
normalised entropy  log loss over that of always saying the mean; below 1 something was learned (He et al. 2014)
calibration         rows in bins of equal number by what was predicted: mean predicted against share that clicked
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import ranks

Array = NDArray[np.float64]
BINS = 10


@dataclass(frozen=True)
class Bin:
    """Some rows: what was predicted of them, what happened, and how many they are."""

    predicted: float
    observed: float
    rows: int


@dataclass(frozen=True)
class Metrics:
    """All of them. AUC and normalised entropy are None where all labels are the same."""

    rows: int
    clicks: int
    log_loss: float
    auc: float | None
    normalised_entropy: float | None
    calibration_error: float
    bins: tuple[Bin, ...]

    @property
    def facts(self) -> dict[str, float]:
        """What is told of every epoch."""
        return {"loss": self.log_loss} | ({} if self.auc is None else {"auc": self.auc})


def metrics(logits: Array, labels: Array) -> Metrics:
    bins = calibration(logits, labels)
    return Metrics(
        rows=len(labels),
        clicks=int(labels.sum()),
        log_loss=log_loss(logits, labels),
        auc=auc(logits, labels),
        normalised_entropy=normalised_entropy(logits, labels),
        calibration_error=calibration_error(bins),
        bins=bins,
    )


def log_loss(logits: Array, labels: Array) -> float:
    return float(np.mean(losses(logits, labels)))


def losses(logits: Array, labels: Array) -> Array:
    """Row by row."""
    found: Array = np.logaddexp(0, logits) - labels * logits
    return found


def auc(logits: Array, labels: Array) -> float | None:
    """From the ranks of the clicks (Mann and Whitney); rows of equal logit share the mean of their ranks."""
    clicks = int(labels.sum())
    if clicks in (0, len(labels)):
        return None
    above = ranks(logits)[labels == 1].sum() - clicks * (clicks + 1) / 2
    return float(above / (clicks * (len(labels) - clicks)))


def normalised_entropy(logits: Array, labels: Array) -> float | None:
    mean = labels.mean()
    if mean in (0, 1):
        return None
    return log_loss(logits, labels) / float(-mean * np.log(mean) - (1 - mean) * np.log1p(-mean))


def calibration(logits: Array, labels: Array, bins: int = BINS) -> tuple[Bin, ...]:
    """Bins from the lowest prediction to the highest, of equal number as far as rows can be shared out."""
    order = np.argsort(logits, kind="stable")
    predicted = np.exp(-np.logaddexp(0, -logits))
    shared = [rows for rows in np.array_split(order, bins) if len(rows)]
    return tuple(Bin(float(predicted[rows].mean()), float(labels[rows].mean()), len(rows)) for rows in shared)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """The mean distance between predicted and observed, weighted by rows."""
    return sum(abs(b.predicted - b.observed) * b.rows for b in bins) / sum(b.rows for b in bins)
