"""What a trained network is worth on samples that it has not learned from: accuracy, loss, which classes it takes for
which, how far its probabilities can be believed, and where it was most surely wrong.

Reads answers and labels; knows nothing of training.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe.gradients import LOSSES
from untrained.probe.probe import logits
from untrained.types import Batch, Task

BINS = 10  # of the calibration


@dataclass(frozen=True)
class Answers:
    """Probabilities of all classes (samples, classes) and the true labels, on the CPU."""

    probabilities: Tensor
    labels: Tensor
    loss: float

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


@torch.no_grad()
def answers(model: nn.Module, batches: Iterable[Batch], task: Task, layout: torch.memory_format) -> Answers:
    """One pass over the samples. Of one output a sample the two classes are no and yes."""
    model.eval()
    pairs = [(logits(model(laid(b.inputs, layout))).float(), b.targets) for b in batches]
    outputs, targets = (torch.cat(side) for side in zip(*pairs, strict=True))
    loss = float(LOSSES[task.loss](outputs, targets))
    yes = outputs.sigmoid()
    chances = torch.cat([1 - yes, yes], 1) if task.loss == "bce" else F.softmax(outputs, 1)
    return Answers(chances.cpu(), targets.long().flatten().cpu(), loss)


def laid(inputs: Tensor, layout: torch.memory_format) -> Tensor:
    """Pictures in that order of memory; anything else as it comes."""
    return inputs.contiguous(memory_format=layout) if inputs.ndim == 4 else inputs
