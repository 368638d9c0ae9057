"""The trunk of a network as a chain of blocks: what enters the first, what each hands on, and how gradients pass each.

Blocks are the members of the outermost stacks: the cells of a cell network, the residual blocks of a ResNet, the layers
of a transformer. A network without stacks counts every convolution and linear layer as a block.
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
from untrained.probe.features import first_tensor
from untrained.probe.layers import LAYERS

_STACKS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
Met = tuple[Tensor, int]  # a tensor, and its version when it was met
Signs = Callable[[Tensor, int], Tensor]  # (a feature, its place) -> +-1 of its shape


@dataclass(frozen=True)
class Blocks:
    """Features of the trunk, (samples, ...), and for each block (g_in, g_out): random +-1 at its output, and what they
    become at its input, both as (positions, channels). None where the input does not reach the block's output."""

    features: tuple[Tensor, ...]
    passes: tuple[tuple[Tensor, Tensor] | None, ...]

    @cached_property
    def spectra(self) -> tuple[Tensor, ...]:
        """Eigenvalues of the channel covariance of each feature, float64."""
        return tuple(_spectrum(rows(feature).double()) for feature in self.features)


def block_modules(model: nn.Module) -> list[nn.Module]:
    """The members of the outermost stacks of composite modules; else all convolutions and linear layers."""
    level: list[nn.Module] = [model]
    while level:
        stacks = [m for m in level if isinstance(m, _STACKS) and len(list(m.children())) > 1 and _composite(m)]
        if stacks:
            return [block for stack in stacks for block in stack.children()]
        level = [child for module in level for child in module.children()]
    return [module for module in model.modules() if isinstance(module, LAYERS)]


def _composite(stack: nn.Module) -> bool:
    return all(next(child.children(), None) is not None for child in stack.children())


def block_pass(met: Sequence[Tensor], signs: Signs) -> Blocks:
    """One backward through each block; `met`: what `listening` noted, with its graph."""
    met = [f for f in met if f.ndim == met[-1 if len(met) < 2 else 1].ndim]  # the pooled end is no trunk
    if len(met) < 2:
        raise Unscorable("unsupported", "the network has no block")
    passes = [_through(met[k - 1], met[k], signs(met[k], k)) for k in range(len(met) - 1, 0, -1)]
    return Blocks(tuple(f.detach() for f in met), tuple(reversed(passes)))


@contextmanager
def listening(blocks: list[nn.Module], met: list[Met], copies: bool) -> Iterator[None]:
    """Note what enters the first block and what every block returns; `copies`: pass on copies, to be overwritten."""

    def note(found: Tensor | None, whole: Any) -> Tensor | None:
        if found is None:
            return None
        met.append((found, found._version))
        return found.clone() if copies and found is whole else None

    def enter(module: nn.Module, args: Any) -> Any:
        if met or not args:
            return None
        copy = note(first_tensor(args), args[0])
        return None if copy is None else (copy, *args[1:])

    def leave(module: nn.Module, args: Any, output: Any) -> Any:
        return note(first_tensor(output), output)

    handles = [block.register_forward_pre_hook(enter) for block in blocks]
    handles += [block.register_forward_hook(leave) for block in blocks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _through(before: Tensor, after: Tensor, g_out: Tensor) -> tuple[Tensor, Tensor] | None:
    if not (before.requires_grad and after.requires_grad):
        return None
    (g_in,) = torch.autograd.grad(after, before, g_out, retain_graph=True, allow_unused=True)
    return None if g_in is None else (rows(_unshuffled(g_in, g_out)), rows(g_out))


def _unshuffled(g_in: Tensor, g_out: Tensor) -> Tensor:
    """Where a block lowers the resolution, the pixels of a neighbourhood become channels; a border left over is cut."""
    if g_in.ndim != 4 or g_in.shape[2:] == g_out.shape[2:]:
        return g_in
    height, width = g_out.shape[2:]
    factor = min(g_in.shape[2] // height, g_in.shape[3] // width)
    if not factor:
        raise Unscorable("unsupported", "a block raises the resolution")
    return F.pixel_unshuffle(g_in[:, :, : factor * height, : factor * width], factor)


def _spectrum(X: Tensor) -> Tensor:
    centred = X - X.mean(0)
    eigenvalues: Tensor = torch.linalg.eigvalsh(centred.mT @ centred / len(X))
    return eigenvalues.clamp_min(0)


def rows(feature: Tensor) -> Tensor:
    """(positions of all samples, channels): channels are the second axis of feature maps, the last of tokens."""
    return feature.movedim(1, -1).flatten(0, -2) if feature.ndim > 3 else feature.flatten(0, -2)
