"""What a training must know of a network, whatever space it comes from: how its tensors lie in memory, what decays,
which of its parts drop paths, and what its answers are worth."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from untrained.errors import Unscorable, UsageError
from untrained.probe.gradients import LOSSES
from untrained.probe.guard import random_state
from untrained.probe.passes import read_logits
from untrained.training.recipes import Recipe
from untrained.types import Batch, Task

TRAINABLE = ("cross_entropy", "bce")


def optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD, AdamW or Adagrad with the eps of NASRec; norms and biases, which have one axis, decay only where the recipe
    says so."""
    weights = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    if not weights and not others:
        raise UsageError("the network has nothing to learn: no parameter requires a gradient")
    spared = recipe.decay if recipe.decay_all else 0.0
    groups = [{"params": weights, "weight_decay": recipe.decay}, {"params": others, "weight_decay": spared}]
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=recipe.rate)
    if recipe.optimiser == "adagrad":
        return torch.optim.Adagrad(groups, lr=recipe.rate, eps=1e-2)
    return torch.optim.SGD(groups, lr=recipe.rate, momentum=0.9, nesterov=recipe.nesterov)


def loss_of(task: Task, recipe: Recipe) -> Callable[[Any, Tensor], Tensor]:
    """The mean loss of what a network answers. In training mode a network with an auxiliary tower answers twice; the
    first answer counts by the weight of the recipe. Targets are labels, or rows of shares of the classes."""
    if task.loss not in TRAINABLE:
        raise UsageError(f"nothing trains by the loss {task.loss!r}; there are: {', '.join(TRAINABLE)}")

    def one(outputs: Tensor, targets: Tensor) -> Tensor:
        if task.loss == "cross_entropy":
            return F.cross_entropy(outputs, targets, label_smoothing=recipe.smoothing)
        return LOSSES[task.loss](outputs, targets)

    def loss(answer: Any, targets: Tensor) -> Tensor:
        outputs = read_logits(answer)
        main = one(outputs, targets)
        two = isinstance(answer, tuple) and len(answer) == 2 and answer[0].shape == outputs.shape  # not of features
        return main + recipe.auxiliary * one(answer[0], targets) if two else main

    return loss


class DropPath:
    """The parts of a network that have a `drop_path`, and what each was built with."""

    def __init__(self, model: nn.Module) -> None:
        found = [(module, getattr(module, "drop_path", None)) for module in model.modules()]
        self.built = [(module, value) for module, value in found if isinstance(value, float)]

    @property
    def drops(self) -> bool:
        return any(value > 0 for _, value in self.built)

    def grow(self, share: float) -> None:
        for module, value in self.built:
            module.drop_path = share * value  # type: ignore[assignment]


class _Pools(TorchFunctionMode):
    """Hears average pooling of windows that overlap."""

    heard = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.avg_pool2d:
            size = kwargs.get("kernel_size", args[1] if len(args) > 1 else None)
            stride = kwargs.get("stride", args[2] if len(args) > 2 else None)
            self.heard |= stride not in (None, [], size)
        return func(*args, **kwargs)


def pools_overlap(model: nn.Module, inputs: Tensor) -> bool:
    """Whether the network pools averages of windows that overlap, when it is judged or, in an auxiliary tower, only
    when it learns."""
    with _Pools() as pools, torch.no_grad(), random_state(0):
        model.eval()(inputs)
        deepcopy(model).train()(inputs)  # a copy: norms take in what they see
    return bool(pools.heard)


def layout(model: nn.Module, batch: Batch) -> torch.memory_format:
    """How pictures lie in memory: channels last on GPUs, which is faster there, unless the network pools averages of
    windows that overlap, whose gradient torch computes wrongly in that layout (dev/LOG.md)."""
    if batch.inputs.device.type != "cuda" or batch.inputs.ndim != 4:
        return torch.contiguous_format
    return torch.contiguous_format if pools_overlap(model, batch.inputs) else torch.channels_last


@torch.no_grad()
def require_fitting(model: nn.Module, batch: Batch, task: Task) -> None:
    """Refuse a network that cannot read the data or does not tell as many classes apart."""
    try:
        outputs = read_logits(model.eval()(batch.inputs))
    except Unscorable as why:
        raise UsageError(f"the network cannot be trained: {why.detail}") from why
    except (Exception, SystemExit) as error:  # the forward pass is the user's own code, and may raise anything
        first = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError(f"the network cannot read samples of {tuple(batch.inputs.shape[1:])}: {first}") from error
    wanted = (len(batch), task.num_classes)
    if tuple(outputs.shape) != wanted:
        raise UsageError(
            f"the network answers {tuple(outputs.shape)} where {task.dataset} wants {wanted}: samples and classes"
        )
