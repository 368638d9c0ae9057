"""Training on clicks: `fit` learns from one part and chooses by another, `judge` measures. Two functions, no more.

The recipe is that of NASRec, which SiGeo follows: Adagrad (its eps 0.01) at rate 0.12, a linear warm-up over the first
tenth of the steps and a cosine to zero, gradients clipped at norm 5, batches of 512, one epoch. On small data more
epochs help until they harm: after each the validation part is asked, the best weights are kept, and the training ends
when it has not become better for `patience` epochs.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, cos, inf, pi
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.data import TRAIN, VAL, Part, Parts
from untrained.errors import Unscorable
from untrained.rng import torch_generator
from untrained.training.ctr_metrics import Metrics, metrics
from untrained.types import Failure

JUDGED_AT_ONCE = 4096


@dataclass(frozen=True)
class Settings:
    """How to train; the same settings give the same weights."""

    epochs: int = 1
    rate: float = 0.12
    batch: int = 512
    warm_up: float = 0.1  # the share of all steps in which the rate rises
    clip: float = 5.0
    patience: int = 2
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class Epoch:
    """One point of the learning curve."""

    epoch: int
    train_loss: float
    val_loss: float
    val_auc: float | None
    seconds: float


@dataclass(frozen=True)
class Trained:
    """What became of a training. The model has the weights of the best epoch, or there is a failure."""

    curve: tuple[Epoch, ...]
    best: Epoch | None
    failure: Failure | None = None


Watcher = Callable[[Epoch], None]


def fit(model: nn.Module, parts: Parts, settings: Settings | None = None, watch: Watcher | None = None) -> Trained:
    """Train `model` in place; the test part is not opened."""
    chosen, start = settings or Settings(), perf_counter()
    model.to(chosen.device)
    optimiser = torch.optim.Adagrad(model.parameters(), lr=chosen.rate, eps=1e-2)
    steps = chosen.epochs * ceil(len(parts[TRAIN]) / chosen.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: share(step, steps, chosen.warm_up))
    curve: list[Epoch] = []
    best, kept = None, None
    for epoch in range(1, chosen.epochs + 1):
        try:
            loss = _pass(model, parts[TRAIN], optimiser, schedule, chosen, epoch)
            judged = judge(model, parts[VAL], chosen.device)
        except Unscorable as error:
            return Trained(tuple(curve), None, Failure(error.kind, f"{error.detail} in epoch {epoch}"))
        curve.append(Epoch(epoch, loss, judged.log_loss, judged.auc, perf_counter() - start))
        if watch:
            watch(curve[-1])
        if judged.log_loss < (best.val_loss if best else inf):
            best, kept = curve[-1], deepcopy(model.state_dict())
        elif best and epoch - best.epoch >= chosen.patience:
            break
    if kept is not None:
        model.load_state_dict(kept)
    return Trained(tuple(curve), best)


def share(step: int, steps: int, warm_up: float) -> float:
    """The share of the rate at a step: up to all of it along a line, then down to nothing along a cosine."""
    rising = warm_up * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return (1 + cos(pi * (step - rising) / max(steps - rising, 1))) / 2


def _pass(
    model: nn.Module,
    part: Part,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    settings: Settings,
    epoch: int,
) -> float:
    """One epoch; the mean loss of its rows."""
    model.train()
    total = 0.0
    for batch in part.batches(settings.batch, torch_generator("ctr", settings.seed, epoch)):
        batch = batch.to(settings.device)
        loss = F.binary_cross_entropy_with_logits(_logits(model, batch.inputs), batch.targets.float())
        if not torch.isfinite(loss):
            raise Unscorable("nan", "the training diverged")
        total += float(loss.detach()) * len(batch)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimiser.step()
        schedule.step()
    return total / len(part)


@torch.no_grad()
def judge(model: nn.Module, part: Part, device: str = "cpu") -> Metrics:
    """All metrics of a model on one part; Unscorable where an answer is not a number."""
    model.to(device).eval()
    found = [(_logits(model, batch.inputs.to(device)).cpu(), batch.targets) for batch in part.batches(JUDGED_AT_ONCE)]
    logits, labels = (torch.cat(column).double().numpy() for column in zip(*found, strict=True))
    if not np.isfinite(logits).all():
        raise Unscorable("nan", "answers are not numbers")
    return metrics(logits, labels)


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    outputs: Tensor = model(inputs)
    return outputs.reshape(len(inputs))
