"""Train on reduced pictures first (progressive resizing), which takes less time per step.

With the side of the pictures, the time of a step of a convolutional network falls with its square,
so that more steps fit into the same time. The last steps see pictures of full size, which is the
size that the network will be used with. docs/results/one-command.md has measurements.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.engine.failures import catch_failure
from untrained.probe.guard import random_state
from untrained.probe.passes import read_logits
from untrained.training.recipes import Recipe
from untrained.types import Failure

# Side of a reduced picture, as a share of the full side.
SCALE = 5 / 8
# Pictures with a shorter side are not reduced, because too little would be left of them.
MIN_SIDE = 28
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


def get_small_share(recipe: Recipe, device: str) -> float:
    """Return the share of the steps that see reduced pictures on a device.

    On a GPU it is 0, because the time of a step of a small network hardly depends on the size of the
    pictures there.
    """
    if torch.device(device).type != "cpu":
        return 0.0
    return recipe.small_share


def estimate_relative_cost(recipe: Recipe, device: str) -> float:
    """Return the mean time of a step, divided by that of a step on full pictures."""
    return 1 - (1 - STEP_COST) * get_small_share(recipe, device)


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
