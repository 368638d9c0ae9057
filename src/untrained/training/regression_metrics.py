"""Metrics of a regression, from predictions and labels in the unit of the label, in numpy.

RMSE  root of the mean squared error
MAE   mean absolute error
R2    1 - sum of squared errors / sum of squared distances of the labels from their mean; 0 is as
      good as always predicting the mean, and it may be negative
bias  mean of prediction minus label
"""

from dataclasses import dataclass, field

import numpy as np

from untrained.formatting import format_measured
from untrained.training.ctr_metrics import (
    CALIBRATION_BINS,
    Array,
    CalibrationBin,
    compute_calibration_error,
)


@dataclass(frozen=True)
class RegressionMetrics:
    """All metrics. R2 is None if all labels are equal.

    Attributes:
        loss: Mean squared error of standardised labels, which networks are trained with.
        rmse: Root of the mean squared error, in the unit of the label.
        mae: Mean absolute error, in the unit of the label.
        r2: Share of the variance that is explained.
        bias: Mean error: by how much predictions are too high on average.
        constant: RMSE and MAE of always predicting the mean label of the training rows.
        bins: Mean prediction and mean label of rows of similar prediction.
        predicted: Predictions in the unit of the label, (samples,).
        observed: Labels, (samples,).
    """

    loss: float
    rmse: float
    mae: float
    r2: float | None
    bias: float
    constant: dict[str, float]
    bins: tuple[CalibrationBin, ...]
    predicted: Array = field(repr=False, compare=False)
    observed: Array = field(repr=False, compare=False)

    @property
    def summary(self) -> dict[str, float]:
        """The metrics of one epoch for the curve of a training."""
        values = {"loss": self.loss, "rmse": self.rmse, "mae": self.mae}
        if self.r2 is not None:
            values["r2"] = self.r2
        return values

    @property
    def squared_errors(self) -> Array:
        """The squared error of each sample, in the unit of the label."""
        return (self.predicted - self.observed) ** 2

    def find_largest_errors(self, count: int) -> list[int]:
        """Return the indices of the samples with the largest errors, the largest first.

        Args:
            count: The largest number of indices to return.
        """
        order = np.argsort(-self.squared_errors, kind="stable")
        indices: list[int] = order[:count].tolist()
        return indices

    def compute_calibration_error(self) -> float:
        """Compute the mean distance between predicted and observed, weighted by rows."""
        return compute_calibration_error(self.bins)


def compute_regression_metrics(
    outputs: Array, targets: Array, mean: float, std: float
) -> RegressionMetrics:
    """Compute all metrics.

    Args:
        outputs: Outputs of a network, (samples,) or (samples, outputs).
        targets: Standardised labels of the same shape.
        mean: Mean of the label over the training rows.
        std: Its standard deviation over the training rows.
    """
    errors = std * (outputs - targets)
    predicted = mean + std * outputs.ravel()
    observed = mean + std * targets.ravel()
    # A standardised label is its distance from what the constant predicts.
    constant_errors = std * targets
    variance = float(np.var(std * targets))
    r2 = None
    if variance > 0:
        r2 = 1 - float(np.mean(errors**2)) / variance
    return RegressionMetrics(
        loss=float(np.mean((outputs - targets) ** 2)),
        rmse=float(np.sqrt(np.mean(errors**2))),
        mae=float(np.mean(np.abs(errors))),
        r2=r2,
        bias=float(np.mean(errors)),
        constant={
            "rmse": float(np.sqrt(np.mean(constant_errors**2))),
            "mae": float(np.mean(np.abs(constant_errors))),
        },
        bins=_compute_bins(predicted, observed),
        predicted=predicted,
        observed=observed,
    )


def describe_bias(bias: float) -> str:
    """Return the mean error in words, such as "on average, predictions are 2.01 too high"."""
    direction = "low" if bias < 0 else "high"
    return f"on average, predictions are {abs(bias):.3g} too {direction}"


def make_mean_warning(rmse: float, mean_rmse: float) -> str:
    """Return a warning if a network is no better than predicting the mean; empty if it is better.

    Args:
        rmse: RMSE of the network on the test part.
        mean_rmse: RMSE of always predicting the mean label of the training rows.
    """
    if rmse < mean_rmse:
        return ""
    comparison = "equal to" if rmse == mean_rmse else "worse than"
    return (
        f"the test RMSE {format_measured(rmse)} is {comparison} that of always predicting the mean "
        f"({format_measured(mean_rmse)}): do not use this network; allow more time (search with "
        "--time 15m, or train with more --epochs), or add more pictures or rows"
    )


def _compute_bins(predicted: Array, observed: Array) -> tuple[CalibrationBin, ...]:
    """Compare predictions with labels in bins of equal size, from low to high predictions."""
    order = np.argsort(predicted, kind="stable")
    result = []
    for rows in np.array_split(order, CALIBRATION_BINS):
        if len(rows) == 0:
            continue
        mean_prediction = float(predicted[rows].mean())
        mean_label = float(observed[rows].mean())
        result.append(CalibrationBin(mean_prediction, mean_label, len(rows)))
    return tuple(result)
