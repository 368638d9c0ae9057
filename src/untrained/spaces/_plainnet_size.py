"""Sizes of ZenNAS' networks without building them, as they are and as the official code counts them."""

from math import ceil

from untrained.errors import unknown
from untrained.spaces._counts import Counts
from untrained.spaces._plainnet import Block, Style, Unit, fitted, squeezed, units
from untrained.spaces._space import Space
from untrained.spaces._structure import blocks_of, layers, style_of
from untrained.types import Arch, Task

_VARIANTS = ("default", "published")


def num_layers(arch: Arch) -> int:
    """Sublayers with stem and last convolution, which `max_layers` limits: the official `get_num_layers`."""
    return layers(blocks_of(arch.genes))


def counts(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Both sizes; none where a norm would see one value of a sample, as in squeeze-and-excitation."""
    if style_of(space).use_se or min(task.input_shape[1:], default=0) < 2:
        return None
    return Counts(model_size(space, arch, task), int(flops(space, arch, task)))


def model_size(space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default") -> int:
    """Parameters. `variant="published"` is the official `get_model_size`: a batch norm of C channels counts C instead
    of 2C, a projection's norm nothing, the biases of the head 1."""
    task, style, published = task or space.task, style_of(space), _published(variant)
    blocks = fitted(blocks_of(arch.genes), task)
    norm = 0 if style.no_BN else 1 if published else 2
    total = blocks[-1].cout * task.num_classes + (1 if published else task.num_classes)
    for unit in _all_units(blocks):
        total += sum(conv.cin * conv.cout * conv.kernel**2 // conv.groups + norm * conv.cout for conv in unit.path)
        if squeezed := _gated(unit, style):
            channels = unit.path[-1].cin
            total += 2 * channels * squeezed + 2 * (channels + squeezed)
        if _projected(unit, style):
            total += unit.cin * unit.cout + unit.cout * (1 if published else 3)
    return total


def flops(space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default") -> float:
    """Multiply-adds of convolutions and the head. `variant="published"` is the official `get_FLOPs`: norms count one an
    entry, squeeze-and-excitation one an entry and channel, a projection's bias too; a projection divides by its stride
    twice, so that strided ones are undercounted by its square; and odd sides are halved downwards."""
    task, style = task or space.task, style_of(space)
    if _published(variant):
        return _published_flops(blocks_of(arch.genes), task, style)
    blocks = fitted(blocks_of(arch.genes), task)
    (height, width), total = task.input_shape[1:], blocks[-1].cout * task.num_classes
    for unit in _all_units(blocks):
        for conv in unit.path:
            height, width = ceil(height / conv.stride), ceil(width / conv.stride)
            total += height * width * conv.cin * conv.cout * conv.kernel**2 // conv.groups
        total += 2 * unit.path[-1].cin * _gated(unit, style)
        total += height * width * unit.cin * unit.cout * _projected(unit, style)
    return total


def _published_flops(blocks: list[Block], task: Task, style: Style) -> float:
    side, total = task.input_shape[-1], float(blocks[-1].cout * task.num_classes)
    for unit in _all_units(blocks):
        for n, conv in enumerate(unit.path):
            if n and conv is unit.path[-1] and (squeezed := _gated(unit, style)):
                total += 2 * conv.cin * squeezed + conv.cin + conv.cin * side**2
            total += conv.cin * conv.cout * conv.kernel**2 * side**2 // conv.stride**2 // conv.groups
            side //= conv.stride
            total += 0 if style.no_BN else conv.cout * side**2
        if _projected(unit, style):
            total += (unit.cin + 1) * unit.cout * (side / unit.stride) ** 2
    return total


def _all_units(blocks: list[Block]) -> list[Unit]:
    return [unit for block in blocks for unit in units(block)]


def _projected(unit: Unit, style: Style) -> bool:
    return unit.projects and not style.no_reslink


def _gated(unit: Unit, style: Style) -> int:
    """Channels in the middle of a unit's squeeze-and-excitation, 0 where it has none."""
    return squeezed(unit.path[-1].cin) if style.use_se and unit.residual else 0


def _published(variant: str) -> bool:
    if variant not in _VARIANTS:
        raise unknown("variant of the size", variant, _VARIANTS)
    return variant == "published"
