"""The trunk of a network as a chain of blocks, and how gradients pass through each block.

Blocks are the members of the outermost stacks: the cells of a cell network, the residual blocks of
a ResNet, the layers of a transformer. In a network without stacks every convolution and linear
layer is a block.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.features import find_first_tensor
from untrained.probe.layers import LAYERS

_STACKS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
VersionedTensor = tuple[Tensor, int]  # a tensor and its version when it was recorded
# Receives a feature and its index; returns random +-1 of the same shape.
DrawSigns = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Blocks:
    """Measurements of the trunk.

    Attributes:
        features: The input of the first block and the output of every block, (samples, ...).
        gradient_pairs: For each block (g_in, g_out): a random gradient of +-1 at its output, and
            the gradient at its input that follows from it, both as (positions, channels). None if
            the output of the block does not depend on its input.
    """

    features: tuple[Tensor, ...]
    gradient_pairs: tuple[tuple[Tensor, Tensor] | None, ...]

    @cached_property
    def spectra(self) -> tuple[Tensor, ...]:
        """Eigenvalues of the channel covariance of each feature, float64."""
        return tuple(_compute_covariance_spectrum(feature) for feature in self.features)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the members of the outermost stacks of composite modules.

    If there are none, return all convolutions and linear layers.
    """
    # Breadth first, so that the outermost stacks are found before the stacks inside their members.
    level: list[nn.Module] = [model]
    while level:
        stacks = [module for module in level if _is_stack_of_blocks(module)]
        if stacks:
            return _list_children(stacks)
        level = _list_children(level)
    return [module for module in model.modules() if isinstance(module, LAYERS)]


def _list_children(modules: Sequence[nn.Module]) -> list[nn.Module]:
    children: list[nn.Module] = []
    for module in modules:
        children.extend(module.children())
    return children


def _is_stack_of_blocks(module: nn.Module) -> bool:
    if not isinstance(module, _STACKS):
        return False
    members = list(module.children())
    if len(members) < 2:
        return False
    # A stack of single layers is itself a block.
    return all(list(member.children()) for member in members)


def contain_conv1d(blocks: Sequence[nn.Module]) -> bool:
    """Return whether a block contains a one-dimensional convolution.

    Features with three axes are then series, (samples, channels, length). Otherwise they are
    tokens, (samples, positions, channels).
    """
    for block in blocks:
        if any(isinstance(module, nn.Conv1d) for module in block.modules()):
            return True
    return False


def measure_blocks(
    trunk: Sequence[Tensor], draw_signs: DrawSigns, are_series: bool = False
) -> Blocks:
    """Run one backward pass through each block.

    Args:
        trunk: What `record_trunk` recorded, with its autograd graph.
        draw_signs: Draws the gradients at the outputs, from the last block to the first.
        are_series: Whether features with three axes are series. They are measured as maps of one
            column.
    """
    features: list[Tensor] = []
    if len(trunk) >= 2:
        # The pooled features at the end have fewer axes and are not part of the trunk.
        first_output = trunk[1]
        same_axes = [feature for feature in trunk if feature.ndim == first_output.ndim]
        features = _remove_gates(same_axes)
    if len(features) < 2:
        raise Unscorable("unsupported", "the network has no block")
    # Features of the trunk have the same number of axes.
    add_column_axis = are_series and features[0].ndim == 3
    gradient_pairs = []
    for k in range(len(features) - 1, 0, -1):
        g_out = draw_signs(features[k], k)
        pair = _propagate_gradient(features[k - 1], features[k], g_out, add_column_axis)
        gradient_pairs.append(pair)
    gradient_pairs.reverse()
    measured_features = []
    for feature in features:
        measured_feature = feature.detach()
        if add_column_axis:
            measured_feature = measured_feature[..., None]
        measured_features.append(measured_feature)
    return Blocks(tuple(measured_features), tuple(gradient_pairs))


def _remove_gates(features: Sequence[Tensor]) -> list[Tensor]:
    """Remove feature maps of one pixel that larger maps follow.

    They are the gates of squeeze-and-excitation: a branch beside the trunk, not a part of it.
    """
    kept: list[Tensor] = []
    largest_later_map = 0
    for feature in reversed(features):
        pixels = feature[0, 0].numel()
        is_gate = feature.ndim == 4 and pixels == 1 and largest_later_map > 1
        if not is_gate:
            kept.append(feature)
            largest_later_map = max(largest_later_map, pixels)
    kept.reverse()
    return kept


@contextmanager
def record_trunk(
    blocks: list[nn.Module],
    trunk: list[VersionedTensor],
    copies: bool,
) -> Iterator[None]:
    """Record the input of the first block and the output of every block.

    Args:
        blocks: The blocks.
        trunk: Tensors are appended to it.
        copies: Whether the network continues with copies, because it overwrites these tensors.
    """

    def record(tensor: Tensor | None, container: Any) -> Tensor | None:
        """Record a tensor, and copy it if the network is to continue with a copy.

        Args:
            tensor: The first tensor of the input or output of a block.
            container: That input or output itself: the tensor, or a tuple, list or dictionary.
                A tensor in a tuple, list or dictionary is not copied.

        Returns:
            The copy; None if the network continues with the tensor itself.
        """
        if tensor is None:
            return None
        trunk.append((tensor, tensor._version))
        if not copies or tensor is not container:
            return None
        copy: Tensor = tensor.clone()
        return copy

    def before_block(module: nn.Module, args: Any) -> Any:
        if trunk or not args:  # only the first block
            return None
        copy = record(find_first_tensor(args), args[0])
        if copy is None:
            return None
        return (copy, *args[1:])

    def after_block(module: nn.Module, args: Any, output: Any) -> Any:
        return record(find_first_tensor(output), output)

    handles = [block.register_forward_pre_hook(before_block) for block in blocks]
    handles += [block.register_forward_hook(after_block) for block in blocks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _propagate_gradient(
    before: Tensor,
    after: Tensor,
    g_out: Tensor,
    add_column_axis: bool,
) -> tuple[Tensor, Tensor] | None:
    """Return an entry of `Blocks.gradient_pairs`.

    Args:
        before: The input of the block.
        after: The output of the block.
        g_out: The gradient at the output.
        add_column_axis: Whether to treat series (samples, channels, length) as maps of one column.
    """
    if not (before.requires_grad and after.requires_grad):
        return None
    (g_in,) = torch.autograd.grad(after, before, g_out, retain_graph=True, allow_unused=True)
    if g_in is None:
        return None
    if add_column_axis:
        g_in = g_in[..., None]
        g_out = g_out[..., None]
    g_in = _match_resolution(g_in, g_out)
    return flatten_positions(g_in), flatten_positions(g_out)


def _match_resolution(g_in: Tensor, g_out: Tensor) -> Tensor:
    """Bring the input gradient to the resolution of the output.

    Where a block lowers the resolution, the pixels of a neighbourhood become channels. A remaining
    border is cut off.
    """
    if g_in.ndim != 4 or g_in.shape[2:] == g_out.shape[2:]:
        return g_in
    height, width = g_out.shape[2:]
    factor = min(g_in.shape[2] // height, g_in.shape[3] // width)
    if not factor:
        raise Unscorable("unsupported", "a block raises the resolution")
    return F.pixel_unshuffle(g_in[:, :, : factor * height, : factor * width], factor)


def _compute_covariance_spectrum(feature: Tensor) -> Tensor:
    X = flatten_positions(feature).double()
    centred = X - X.mean(0)
    eigenvalues: Tensor = torch.linalg.eigvalsh(centred.mT @ centred / len(X))
    return eigenvalues.clamp_min(0)


def flatten_positions(feature: Tensor) -> Tensor:
    """Reshape to (positions of all samples, channels).

    Channels are the second axis of feature maps and the last axis of tokens.
    """
    if feature.ndim > 3:
        feature = feature.movedim(1, -1)
    return feature.flatten(0, -2)
