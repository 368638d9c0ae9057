"""A short training as a proxy: its score is the accuracy after a few epochs.

    load_proxy("untrained.training.short_training:accuracy(epochs=3,samples=1500)")

As a proxy it uses the workers, the store, the time limits and the failure handling of the engine.
The first 80 % of its samples are for training, the rest for evaluation. It is not in the registry
of proxies, because proxies are compared with it.
"""

from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.options import Count, Positive
from untrained.probe import Probe
from untrained.probe.gradients import LOSSES
from untrained.probe.passes import read_logits
from untrained.proxies import proxy
from untrained.training.ctr_metrics import compute_auc
from untrained.types import Batch

SHORT_TRAINING = "untrained.training.short_training:accuracy"
TRAIN_SHARE = 0.8
# Largest norm of a gradient. Nothing is tuned to the network, so some gradients are large.
MAX_GRADIENT_NORM = 5.0


@proxy(aspects="accuracy", needs=("labels",), samples=1500)
def accuracy(probe: Probe, epochs: Count = 3, rate: Positive = 0.1, batch: Count = 64) -> float:
    """Validation accuracy, AUC for clicks or R2 for numbers, after a few epochs of SGD.

    The optimiser has Nesterov momentum 0.9, a cosine schedule and a weight decay of 5e-4. The
    metric is AUC for clicks, because one of the two classes may be rare, and R2 for numbers, which
    is the share of the variance that is explained. The proxy is called `accuracy` in all three
    cases, because records are stored under this name.
    """
    train_samples, val_samples = split_samples(probe.batch, TRAIN_SHARE)
    model = deepcopy(probe.model).requires_grad_(True).train()
    train_briefly(
        model, train_samples, epochs, rate, batch, probe.generator("order"), probe.loss_name
    )
    if probe.loss_name == "bce":
        return measure_auc(model, val_samples, batch)
    if probe.loss_name == "mse":
        return measure_r2(model, val_samples, batch)
    return measure_accuracy(model, val_samples, batch)


def split_samples(batch: Batch, share: float) -> tuple[Batch, Batch]:
    """Split samples in two without shuffling. `share` is the fraction in the first part.

    Raises:
        Unscorable: One of the two would be empty.
    """
    count = round(share * len(batch))
    if not 0 < count < len(batch):
        raise Unscorable("error", f"{len(batch)} samples are too few for training and validation")
    first = Batch(batch.inputs[:count], batch.targets[:count])
    rest = Batch(batch.inputs[count:], batch.targets[count:])
    return first, rest


def train_briefly(
    model: nn.Module,
    samples: Batch,
    epochs: int,
    rate: float,
    batch_size: int,
    generator: torch.Generator,
    loss_name: str = "cross_entropy",
) -> None:
    """Train a network in place.

    Args:
        model: The network, in training mode.
        samples: All training samples.
        epochs: Number of passes over the samples. An incomplete last batch is left out.
        rate: Initial learning rate.
        batch_size: Number of samples per step.
        generator: Random generator for the order of the samples.
        loss_name: A key of `LOSSES`.

    Raises:
        Unscorable: The loss is not finite.
    """
    batch_size = min(batch_size, len(samples))
    steps_per_epoch = len(samples) // batch_size
    optimiser = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * steps_per_epoch)
    compute_loss = LOSSES[loss_name]
    with torch.enable_grad():
        for _ in range(epochs):
            order = torch.randperm(len(samples), generator=generator).to(samples.inputs.device)
            for step in range(steps_per_epoch):
                indices = order[step * batch_size : (step + 1) * batch_size]
                logits = read_logits(model(samples.inputs[indices]))
                loss = compute_loss(logits, samples.targets[indices])
                if not torch.isfinite(loss):
                    raise Unscorable("nan", "the training diverged")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
                optimiser.step()
                schedule.step()


@torch.no_grad()
def measure_accuracy(model: nn.Module, samples: Batch, batch_size: int) -> float:
    """Compute the fraction of samples that the network classifies correctly."""
    correct = 0
    for logits, targets in _predict_batches(model, samples, batch_size):
        correct += int((logits.argmax(1) == targets).sum())
    return correct / len(samples)


@torch.no_grad()
def measure_auc(model: nn.Module, samples: Batch, batch_size: int) -> float:
    """Compute the area under the ROC curve.

    Raises:
        Unscorable: All samples have the same label.
    """
    outputs = []
    for logits, _ in _predict_batches(model, samples, batch_size):
        outputs.append(logits.flatten())
    scores = torch.cat(outputs).double().cpu().numpy()
    labels = (samples.targets.flatten() > 0.5).double().cpu().numpy()
    auc = compute_auc(scores, labels)
    if auc is None:
        raise Unscorable("error", "all validation samples have the same label; take more samples")
    return auc


@torch.no_grad()
def measure_r2(model: nn.Module, samples: Batch, batch_size: int) -> float:
    """Compute the share of the variance of the targets that the outputs explain.

    Raises:
        Unscorable: All samples have the same target.
    """
    outputs = []
    for output, _ in _predict_batches(model, samples, batch_size):
        outputs.append(output)
    predictions = torch.cat(outputs).double()
    targets = samples.targets.double().view_as(predictions)
    variance = float(targets.var(correction=0))
    if variance == 0:
        raise Unscorable("error", "all validation samples have the same target; take more samples")
    return 1 - float((predictions - targets).square().mean()) / variance


def _predict_batches(
    model: nn.Module, samples: Batch, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits and targets, batch by batch. The network is in evaluation mode."""
    model.eval()
    for start in range(0, len(samples), batch_size):
        inputs = samples.inputs[start : start + batch_size]
        targets = samples.targets[start : start + batch_size]
        yield read_logits(model(inputs)), targets
