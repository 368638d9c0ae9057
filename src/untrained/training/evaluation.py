"""Evaluation of a network on samples that it was not trained on.

For classification: accuracy, loss, confusion matrix, calibration and the worst mistakes. For binary
labels: log loss, AUC and calibration (`ctr_metrics.py`). For numbers: RMSE, MAE and R2
(`regression_metrics.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe.gradients import LOSSES
from untrained.probe.passes import read_logits
from untrained.training.ctr_metrics import (
    CALIBRATION_BINS,
    ClickMetrics,
    compute_click_metrics,
)
from untrained.training.regression_metrics import (
    RegressionMetrics,
    compute_regression_metrics,
)
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, Batch, Task


class DivergedError(Exception):
    """The loss or the outputs of a network are not finite."""


@dataclass(frozen=True)
class Predictions:
    """Predicted probabilities (samples, classes) and true labels, on the CPU."""

    probabilities: Tensor
    labels: Tensor
    loss: float

    @property
    def summary(self) -> dict[str, float]:
        """The metrics of one epoch for the curve of a training."""
        return {"loss": self.loss, "accuracy": self.accuracy}

    @property
    def predicted_labels(self) -> Tensor:
        """The most probable class of each sample."""
        return self.probabilities.argmax(1)

    @property
    def accuracy(self) -> float:
        """Fraction of samples whose most probable class is the true one."""
        return float((self.predicted_labels == self.labels).double().mean())

    def count_confusions(self) -> list[list[int]]:
        """Return how often class i (row) was predicted as class j (column)."""
        classes = self.probabilities.shape[1]
        cells = self.labels * classes + self.predicted_labels
        counts = torch.bincount(cells, minlength=classes**2)
        matrix: list[list[int]] = counts.reshape(classes, classes).tolist()
        return matrix

    def compute_calibration(self) -> list[dict[str, float]]:
        """Compare confidence with accuracy.

        Returns:
            One row per interval of the confidence that contains samples: number of samples, mean
            confidence and accuracy.
        """
        confidence = self.probabilities.amax(1).double()
        correct = (self.predicted_labels == self.labels).double()
        bins = (confidence * CALIBRATION_BINS).long().clamp(max=CALIBRATION_BINS - 1)
        rows = []
        for index in range(CALIBRATION_BINS):
            in_bin = bins == index
            if not in_bin.any():
                continue
            row = {
                "samples": int(in_bin.sum()),
                "confidence": float(confidence[in_bin].mean()),
                "accuracy": float(correct[in_bin].mean()),
            }
            rows.append(row)
        return rows

    def compute_calibration_error(self) -> float:
        """Compute the mean distance between confidence and accuracy, weighted by samples."""
        total = 0.0
        for row in self.compute_calibration():
            total += row["samples"] * abs(row["confidence"] - row["accuracy"])
        return total / len(self.labels)

    def find_worst_mistakes(self, count: int) -> list[int]:
        """Return the indices of the wrong predictions that are furthest from the truth.

        Args:
            count: The largest number of indices to return.

        Returns:
            Indices of samples, those with the lowest probability of the true class first.
        """
        wrong = (self.predicted_labels != self.labels).nonzero()[:, 0]
        truth_probabilities = self.probabilities[wrong, self.labels[wrong]]
        order = truth_probabilities.argsort(stable=True)
        indices: list[int] = wrong[order][:count].tolist()
        return indices


def get_selection_metric(task: Task) -> tuple[str, int]:
    """Return the metric that selects the best weights, and its sign.

    The sign is 1 if higher is better and -1 if lower is better. The metric is the loss for tables
    and regressions, otherwise the accuracy. Table classes are often rare: most rows of a click log
    have no click, and always predicting "no click" would be accurate.
    """
    if task.is_table or task.kind != CLASSIFICATION:
        return "loss", -1
    return "accuracy", 1


def evaluate_network(
    model: nn.Module, batches: Iterable[Batch], task: Task, memory_format: torch.memory_format
) -> Predictions | ClickMetrics | RegressionMetrics:
    """Evaluate a network in one pass over the samples.

    Args:
        model: The network.
        batches: The samples.
        task: The task.
        memory_format: Memory format of images.

    Returns:
        The predictions of classes, or the metrics of a binary label or of a regression.

    Raises:
        DivergedError: An output is not finite.
    """
    outputs, targets = predict_logits(model, batches, memory_format)
    if not outputs.isfinite().all():
        raise DivergedError("the training diverged: outputs of the network are not finite")
    if task.kind == REGRESSION:
        return compute_regression_metrics(
            outputs.double().cpu().numpy(),
            targets.double().view_as(outputs).cpu().numpy(),
            task.target_mean,
            task.target_std,
        )
    if task.kind == BINARY:
        logits = outputs.double().flatten().cpu().numpy()
        labels = targets.double().flatten().cpu().numpy()
        return compute_click_metrics(logits, labels)
    loss = float(LOSSES[task.loss](outputs, targets))
    return Predictions(F.softmax(outputs, 1).cpu(), targets.long().flatten().cpu(), loss)


@torch.no_grad()
def predict_logits(
    model: nn.Module, batches: Iterable[Batch], memory_format: torch.memory_format
) -> tuple[Tensor, Tensor]:
    """Return the logits and targets of all samples. This sets the network to evaluation mode."""
    model.eval()
    logits = []
    targets = []
    for batch in batches:
        inputs = apply_memory_format(batch.inputs, memory_format)
        logits.append(read_logits(model(inputs)).float())
        targets.append(batch.targets)
    return torch.cat(logits), torch.cat(targets)


def apply_memory_format(inputs: Tensor, memory_format: torch.memory_format) -> Tensor:
    """Return images in this memory format, and any other inputs unchanged."""
    if inputs.ndim != 4:
        return inputs
    return inputs.contiguous(memory_format=memory_format)
