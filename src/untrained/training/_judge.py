"""What a trained network is worth on samples that it has not learned from: accuracy, loss, which classes it takes for
which, how far its probabilities can be believed, and where it was most surely wrong. Of clicks it is what
ctr_metrics.py says: log loss, AUC, calibration.

Reads answers and labels; knows nothing of training.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe.gradients import LOSSES
from untrained.probe.passes import read_logits
from untrained.training.ctr_metrics import Metrics, metrics
from untrained.types import Batch, Task

BINS = 10  # of the calibration


@dataclass(frozen=True)
class Answers:
    """Probabilities of all classes (samples, classes) and the true labels, on the CPU."""

    probabilities: Tensor
    labels: Tensor
    loss: float

    @property
    def facts(self) -> dict[str, float]:
        """What is told of every epoch."""
        return {"loss": self.loss, "accuracy": self.accuracy}

    @property
    def said(self) -> Tensor:
        return self.probabilities.argmax(1)

    @property
    def accuracy(self) -> float:
        return float((self.said == self.labels).double().mean())

    def confusion(self) -> list[list[int]]:
        """How often class i (row) was taken for class j (column)."""
        classes = self.probabilities.shape[1]
        pairs = self.labels * classes + self.said
        counts: list[list[int]] = torch.bincount(pairs, minlength=classes**2).reshape(classes, classes).tolist()
        return counts

    def calibration(self) -> list[dict[str, float]]:
        """For equal steps of the highest probability: how many samples, how sure on average, how often right."""
        sure, right = self.probabilities.amax(1).double(), (self.said == self.labels).double()
        bins = (sure * BINS).long().clamp(max=BINS - 1)
        inside = [bins == b for b in range(BINS)]
        return [
            {"samples": int(rows.sum()), "sure": float(sure[rows].mean()), "right": float(right[rows].mean())}
            for rows in inside
            if rows.any()
        ]

    def calibration_error(self) -> float:
        """The mean distance between how sure and how right, weighted by samples."""
        rows, n = self.calibration(), len(self.labels)
        return sum(row["samples"] * abs(row["sure"] - row["right"]) for row in rows) / n

    def mistakes(self, most: int) -> list[int]:
        """Places of the wrong answers that gave the truth the least chance, worst first."""
        wrong = (self.said != self.labels).nonzero()[:, 0]
        chance = self.probabilities[wrong, self.labels[wrong]]
        places: list[int] = wrong[chance.argsort(stable=True)][:most].tolist()
        return places


class Diverged(Exception):  # noqa: N818 - it names a state of a training
    """The loss is no number any more."""


def chosen_by(task: Task) -> tuple[str, int]:
    """The fact by which weights are chosen, and whether more of it (1) or less (-1) is better. Of clicks, most of which
    are a no, accuracy says nothing."""
    return ("loss", -1) if task.loss == "bce" else ("accuracy", 1)


def judged(model: nn.Module, batches: Iterable[Batch], task: Task, layout: torch.memory_format) -> Answers | Metrics:
    """What a network is worth, by one pass over the samples."""
    outputs, targets = answered(model, batches, layout)
    if not outputs.isfinite().all():
        raise Diverged("the training diverged: the network's answers are no numbers")
    if task.loss == "bce":
        return metrics(*(side.double().flatten().cpu().numpy() for side in (outputs, targets)))
    loss = float(LOSSES[task.loss](outputs, targets))
    return Answers(F.softmax(outputs, 1).cpu(), targets.long().flatten().cpu(), loss)


@torch.no_grad()
def answered(model: nn.Module, batches: Iterable[Batch], layout: torch.memory_format) -> tuple[Tensor, Tensor]:
    """The logits of all samples and their targets."""
    model.eval()
    pairs = [(read_logits(model(laid(b.inputs, layout))).float(), b.targets) for b in batches]
    outputs, targets = (torch.cat(side) for side in zip(*pairs, strict=True))
    return outputs, targets


def laid(inputs: Tensor, layout: torch.memory_format) -> Tensor:
    """Pictures in that order of memory; anything else as it comes."""
    return inputs.contiguous(memory_format=layout) if inputs.ndim == 4 else inputs
