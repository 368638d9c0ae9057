"""A short training, asked for like a proxy: so workers, resume, time limits and failures come with the engine.

    load_proxy("untrained.training.brief:accuracy(epochs=3,samples=1500)")

Of the samples it is given, the first four fifths are learned and the rest are judged. It is in no catalogue, since it
is what proxies are held against.
"""

from copy import deepcopy

import torch
from torch import nn

from untrained._options import Count, Positive
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.gradients import LOSSES
from untrained.probe.passes import read_logits
from untrained.proxies import proxy
from untrained.training.ctr_metrics import auc
from untrained.types import Batch

NAME = "untrained.training.brief:accuracy"
LEARNED = 0.8


@proxy(measures="accuracy", needs=("labels",), samples=1500)
def accuracy(probe: Probe, epochs: Count = 3, rate: Positive = 0.1, batch: Count = 64) -> float:
    """Held-out accuracy, or AUC on a table, after a few epochs (SGD, Nesterov 0.9, cosine, decay 5e-4).

    The gradient's norm is clipped at 5, since nothing is tuned to the network at hand. Accuracy is the share of samples
    that a network gets right. Where the answer is yes or no, of which one may be rare, it is the share of pairs of a
    yes and a no that are put in the right order, the AUC.
    """
    learned, held_out = split(probe.batch, LEARNED)
    model = deepcopy(probe.model).requires_grad_(True).train()
    fit(model, learned, epochs, rate, batch, probe.generator("order"), probe.loss_name)
    return (ordered if probe.loss_name == "bce" else correct)(model, held_out, batch)


def split(batch: Batch, share: float) -> tuple[Batch, Batch]:
    """The head of the samples and the rest."""
    cut = round(share * len(batch))
    if not 0 < cut < len(batch):
        raise Unscorable("error", f"{len(batch)} samples are too few to learn from some and be judged on others")
    return Batch(batch.inputs[:cut], batch.targets[:cut]), Batch(batch.inputs[cut:], batch.targets[cut:])


def fit(
    model: nn.Module,
    data: Batch,
    epochs: int,
    rate: float,
    batch: int,
    order: torch.Generator,
    loss_name: str = "cross_entropy",
) -> None:
    """Train `model` in place."""
    steps = epochs * (len(data) // min(batch, len(data)))
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    with torch.enable_grad():
        for _ in range(epochs):
            places = torch.randperm(len(data), generator=order).to(data.inputs.device)
            for rows in places.split(min(batch, len(data)))[: steps // epochs]:  # type: ignore[no-untyped-call]
                loss = LOSSES[loss_name](read_logits(model(data.inputs[rows])), data.targets[rows])
                if not torch.isfinite(loss):
                    raise Unscorable("nan", "the training diverged")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimiser.step()
                schedule.step()


@torch.no_grad()
def correct(model: nn.Module, data: Batch, batch: int) -> float:
    """The share of samples that the model gets right."""
    model.eval()
    parts = zip(data.inputs.split(batch), data.targets.split(batch), strict=True)  # type: ignore[no-untyped-call]
    hits = sum(int((read_logits(model(inputs)).argmax(1) == targets).sum()) for inputs, targets in parts)
    return hits / len(data)


@torch.no_grad()
def ordered(model: nn.Module, data: Batch, batch: int) -> float:
    """The area under the ROC curve: of all pairs of a yes and a no, those where the yes scores higher; ties count
    half."""
    model.eval()
    scores = torch.cat([read_logits(model(inputs)).flatten() for inputs in data.inputs.split(batch)])  # type: ignore[no-untyped-call]
    share = auc(scores.double().cpu().numpy(), (data.targets.flatten() > 0.5).double().cpu().numpy())
    if share is None:
        raise Unscorable("error", "the samples held out are all of one kind; take more of them")
    return share
