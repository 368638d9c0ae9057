"""Train on reduced pictures first (progressive resizing), so that more steps fit into the time.

The time of a step of a convolutional network falls with the square of the side of the pictures. The
last steps see pictures of full size, the size that the network will be used with. In the same
number of epochs, networks become worse; in the same time they become better if there is only time
for few epochs (dev/LOG.md, 2026-11-20, and docs/results/one-command.md).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.engine.failures import catch_failure
from untrained.probe.guard import random_state
from untrained.probe.passes import read_logits
from untrained.types import REGRESSION, Failure, Task

# Side of a reduced picture, as a share of the full side.
SCALE = 5 / 8
# Pictures with a shorter side are not reduced, because too little would be left of them.
MIN_SIDE = 28
# Share of the steps that see reduced pictures, if the time is short.
SMALL_SHARE = 0.6
# The time is short if it suffices for fewer epochs on pictures of full size.
SHORT_TRAINING_EPOCHS = 100
# Time of a step on reduced pictures divided by the time of one on full pictures.
STEP_COST = SCALE**2


def reduce_pictures(pixels: Tensor) -> Tensor:
    """Reduce a batch of pictures (N, C, H, W)."""
    height, width = pixels.shape[2:]
    size = (round(SCALE * height), round(SCALE * width))
    return F.interpolate(pixels, size, mode="bilinear", antialias=True, align_corners=False)


def accepts_small_pictures(model: nn.Module, pixels: Tensor) -> bool:
    """Return whether a network returns as many outputs for reduced pictures as for full ones.

    Networks with a fixed number of positions, such as transformers with position embeddings, do
    not. The network is left in evaluation mode.

    Args:
        model: The network.
        pixels: A batch of pictures.
    """

    def compare_outputs() -> bool:
        full_logits = read_logits(model(pixels))
        small_logits = read_logits(model(reduce_pictures(pixels)))
        return full_logits.shape == small_logits.shape

    return _run_without_traces(model, compare_outputs)


def _run_without_traces(model: nn.Module, check: Callable[[], bool]) -> bool:
    """Run a check in evaluation mode, without gradients; an exception counts as False."""
    model.eval()
    with torch.no_grad(), random_state(0):
        result = catch_failure(check)
    if isinstance(result, Failure):
        return False
    return result


def choose_small_share(task: Task, device: str) -> float:
    """Return which share of the steps of a short training should see reduced pictures.

    On a GPU it is 0, because the time of a step of a small network hardly depends on the size of
    the pictures there. It is also 0 if there is nothing to reduce, and for a regression, because
    the label may be a size.
    """
    has_pictures = len(task.input_shape) == 3 and min(task.input_shape[1:]) >= MIN_SIDE
    if torch.device(device).type != "cpu" or not has_pictures or task.kind == REGRESSION:
        return 0.0
    return SMALL_SHARE


def estimate_relative_cost(share: float) -> float:
    """Return the mean time of a step, divided by that of a step on full pictures.

    Args:
        share: Share of the steps that see reduced pictures.
    """
    return 1 - (1 - STEP_COST) * share


def count_small_steps(share: float, total_steps: int) -> int:
    """Return how many steps of a training see reduced pictures; they are the first ones."""
    return int(share * total_steps)


def compute_work(first_step: int, total_steps: int, share: float) -> float:
    """Return how much time the steps from `first_step` take, in units of one step on full pictures.

    Args:
        first_step: The first of these steps, counted from 0.
        total_steps: Number of steps of the whole training.
        share: Share of the steps that see reduced pictures.
    """
    remaining_steps = total_steps - first_step
    small_steps = max(0, count_small_steps(share, total_steps) - first_step)
    return remaining_steps - (1 - STEP_COST) * small_steps
