"""Optimiser, loss, drop path, memory format and precision for the training of a network."""

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
from untrained.types import REGRESSION, Batch, Task

TRAINABLE_LOSSES = ("cross_entropy", "bce", "mse")
# The epsilon of Adagrad in NASRec.
ADAGRAD_EPSILON = 1e-2
# Major version of the compute capability of the first GPUs with instructions for bfloat16.
_AMPERE = 8


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the optimiser of a recipe.

    Parameters with at most one dimension are norms and biases. They have weight decay only if
    `recipe.decay_all` is true.

    Raises:
        UsageError: The network has no trainable parameter.
    """
    weights = []
    norms_and_biases = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim > 1:
            weights.append(parameter)
        else:
            norms_and_biases.append(parameter)
    if not weights and not norms_and_biases:
        raise UsageError("the network has nothing to learn: no parameter requires a gradient")
    norm_decay = 0.0
    if recipe.decay_all:
        norm_decay = recipe.decay
    groups = [
        {"params": weights, "weight_decay": recipe.decay},
        {"params": norms_and_biases, "weight_decay": norm_decay},
    ]
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=recipe.rate)
    if recipe.optimiser == "adagrad":
        return torch.optim.Adagrad(groups, lr=recipe.rate, eps=ADAGRAD_EPSILON)
    return torch.optim.SGD(groups, lr=recipe.rate, momentum=0.9, nesterov=recipe.nesterov)


def make_loss(task: Task, recipe: Recipe) -> Callable[[Any, Tensor], Tensor]:
    """Make the function that computes the mean loss of the outputs of a network.

    Targets are labels, or rows of class probabilities. In training mode a network with an auxiliary
    tower returns two outputs. The first is that of the tower, and its loss has the weight
    `recipe.auxiliary`.

    Raises:
        UsageError: The loss of the task cannot be trained.
    """
    if task.loss not in TRAINABLE_LOSSES:
        available = ", ".join(TRAINABLE_LOSSES)
        raise UsageError(f"cannot train with the loss {task.loss!r}; available: {available}")

    def compute_single_loss(logits: Tensor, targets: Tensor) -> Tensor:
        if task.loss == "cross_entropy":
            return F.cross_entropy(logits, targets, label_smoothing=recipe.smoothing)
        if task.kind == REGRESSION:
            # The loss converts labels to the type of the outputs. bfloat16 would round them.
            logits = logits.float()
        return LOSSES[task.loss](logits, targets)

    def compute_loss(outputs: Any, targets: Tensor) -> Tensor:
        logits = read_logits(outputs)
        loss = compute_single_loss(logits, targets)
        # A network may also return features beside its logits, which have another shape.
        has_tower = (
            isinstance(outputs, tuple) and len(outputs) == 2 and outputs[0].shape == logits.shape
        )
        if has_tower:
            loss = loss + recipe.auxiliary * compute_single_loss(outputs[0], targets)
        return loss

    return compute_loss


class DropPathSchedule:
    """Scales the drop-path rates of a network during training.

    A module has a drop-path rate if its attribute `drop_path` is a float.

    Attributes:
        initial_rates: Every such module with its rate before training.
    """

    def __init__(self, model: nn.Module) -> None:
        self.initial_rates: list[tuple[nn.Module, float]] = []
        for module in model.modules():
            rate = getattr(module, "drop_path", None)
            if isinstance(rate, float):
                self.initial_rates.append((module, rate))

    @property
    def is_active(self) -> bool:
        """Whether any module drops paths."""
        return any(rate > 0 for _, rate in self.initial_rates)

    def scale_rates(self, factor: float) -> None:
        """Set each rate to its initial value times this factor."""
        for module, rate in self.initial_rates:
            module.drop_path = factor * rate  # type: ignore[assignment]


class OverlappingPoolDetector(TorchFunctionMode):
    """Sets `detected` when average pooling with overlapping windows runs inside the block."""

    detected = False

    # The types are those of `torch.overrides.TorchFunctionMode`.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.avg_pool2d:
            # avg_pool2d(input, kernel_size, stride, ...), each by position or by name.
            named_arguments = dict(zip(("input", "kernel_size", "stride"), args, strict=False))
            named_arguments.update(kwargs)
            size = named_arguments.get("kernel_size")
            stride = named_arguments.get("stride")
            # Without a stride, the windows do not overlap.
            self.detected |= stride not in (None, [], size)
        return func(*args, **kwargs)


def has_overlapping_pools(model: nn.Module, inputs: Tensor) -> bool:
    """Return whether the network has average pooling with overlapping windows.

    It is tested in evaluation and in training mode, because an auxiliary tower runs only in the
    latter.
    """
    with OverlappingPoolDetector() as detector, torch.no_grad(), random_state(0):
        model.eval()(inputs)
        # A copy, because a forward pass in training mode updates the statistics of batch norms.
        deepcopy(model).train()(inputs)
    return bool(detector.detected)


def choose_memory_format(model: nn.Module, batch: Batch) -> torch.memory_format:
    """Return the memory format of images: channels last, which is faster on a GPU and on a CPU.

    Networks with overlapping average pooling are an exception on a GPU, where torch computes their
    gradients wrongly with channels last (dev/LOG.md).
    """
    device_type = batch.inputs.device.type
    if device_type not in ("cuda", "cpu") or batch.inputs.ndim != 4:
        return torch.contiguous_format
    if device_type == "cuda" and has_overlapping_pools(model, batch.inputs):
        return torch.contiguous_format
    return torch.channels_last


def supports_bfloat16(device: str) -> bool:
    """Return whether a device computes in bfloat16 faster than in float32.

    GPUs from Ampere on do; older ones emulate it. A CPU does if it has instructions for it: AVX-512
    BF16 or AMX. Without them torch converts every number to float32 and back, which is slower.
    """
    device_type = torch.device(device).type
    if device_type == "cuda":
        major_version, _ = torch.cuda.get_device_capability(device)
        return major_version >= _AMPERE
    if device_type != "cpu":
        return False
    # Torch has no public function for this.
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        is_supported = getattr(torch.cpu, name, None)
        if is_supported is not None and is_supported():
            return True
    return False


@torch.no_grad()
def check_network_fits(model: nn.Module, batch: Batch, task: Task) -> None:
    """Check that the network can read the data and has the number of outputs that the task needs.

    Raises:
        UsageError: The forward pass fails, or the number of outputs is wrong.
    """
    try:
        outputs = read_logits(model.eval()(batch.inputs))
    except Unscorable as failure:
        raise UsageError(f"the network cannot be trained: {failure.detail}") from failure
    # The forward pass is user code, which may raise any exception.
    except (Exception, SystemExit) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        shape = tuple(batch.inputs.shape[1:])
        raise UsageError(f"the network cannot read samples of {shape}: {reason}") from error
    expected_shape = (len(batch), task.num_classes)
    shape = tuple(outputs.shape)
    if shape != expected_shape:
        raise UsageError(
            f"the network returns {shape}, but {task.dataset} needs {expected_shape}: "
            "(samples, outputs)"
        )
