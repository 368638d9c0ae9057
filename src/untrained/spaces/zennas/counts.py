"""Parameters and multiply-adds of ZenNAS's networks by formula, exact and as published."""

from math import ceil

from untrained.errors import make_unknown_name_error
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.space import Space
from untrained.spaces.zennas.mutations import read_config
from untrained.spaces.zennas.network import (
    ResidualUnit,
    ZenBlock,
    ZenConfig,
    adapt_blocks,
    compute_squeeze_width,
    list_units,
)
from untrained.spaces.zennas.structure import count_layers, make_blocks
from untrained.types import Arch, Task

_VARIANTS = ("default", "published")


def count_arch_layers(arch: Arch) -> int:
    """Return the number of sublayers, first and last convolution included; see `max_layers`."""
    return count_layers(make_blocks(arch.genes))


def count_arch(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Return both counts, or None if a norm would get maps of a single pixel."""
    # Squeeze-and-excitation normalises such maps in every network.
    if read_config(space).use_se or min(task.input_shape[1:], default=0) < 2:
        return None
    return Counts(count_params(space, arch, task), int(count_flops(space, arch, task)))


def count_params(
    space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default"
) -> int:
    """Return the number of parameters.

    Args:
        space: The space of the architecture.
        arch: The architecture.
        task: Input channels and classes; by default the task of the space.
        variant: "default" is exact. "published" is the official `get_model_size`, which counts C
            instead of 2C parameters for a batch norm of C channels, none for the norm of a
            projection, and one for all biases of the head.
    """
    is_published = _is_published(variant)
    task = task or space.task
    config = read_config(space)
    blocks = adapt_blocks(make_blocks(arch.genes), task)
    # Per channel.
    norm_params = 1 if is_published else 2
    if config.no_BN:
        norm_params = 0
    # Per output channel of a projection: its bias, and two parameters of its norm.
    projection_extra = 1 if is_published else 3
    head_biases = 1 if is_published else task.num_classes
    total = blocks[-1].cout * task.num_classes + head_biases
    for unit in _list_all_units(blocks):
        for conv in unit.path:
            weights = conv.cin * conv.cout * conv.kernel**2 // conv.groups
            total += weights + norm_params * conv.cout
        squeeze_width = _find_squeeze_width(unit, config)
        if squeeze_width:
            channels = unit.path[-1].cin
            total += 2 * channels * squeeze_width + 2 * (channels + squeeze_width)
        if _has_projection(unit, config):
            total += unit.cin * unit.cout + unit.cout * projection_extra
    return total


def count_flops(
    space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default"
) -> float:
    """Return the multiply-adds of convolutions and head.

    Args:
        space: The space of the architecture.
        arch: The architecture.
        task: Image size and classes; by default the task of the space.
        variant: "default" is exact. "published" is the official `get_FLOPs`. It also counts norms
            (one per entry), pooling and scaling in squeeze-and-excitation (together one per channel
            and one per entry), and the biases of projections. It divides the sides of a projection
            by its stride twice, so projections with a stride are undercounted by the square of the
            stride. It rounds down when it halves odd sides.
    """
    task = task or space.task
    config = read_config(space)
    if _is_published(variant):
        return _count_published_flops(make_blocks(arch.genes), task, config)
    blocks = adapt_blocks(make_blocks(arch.genes), task)
    height, width = task.input_shape[1:]
    total = blocks[-1].cout * task.num_classes
    for unit in _list_all_units(blocks):
        for conv in unit.path:
            height = ceil(height / conv.stride)
            width = ceil(width / conv.stride)
            total += height * width * conv.cin * conv.cout * conv.kernel**2 // conv.groups
        total += 2 * unit.path[-1].cin * _find_squeeze_width(unit, config)
        if _has_projection(unit, config):
            total += height * width * unit.cin * unit.cout
    return total


def _count_published_flops(blocks: list[ZenBlock], task: Task, config: ZenConfig) -> float:
    side = task.input_shape[-1]
    total = float(blocks[-1].cout * task.num_classes)
    for unit in _list_all_units(blocks):
        squeeze_width = _find_squeeze_width(unit, config)
        for index, conv in enumerate(unit.path):
            is_last = conv is unit.path[-1]
            if index > 0 and is_last and squeeze_width:
                total += 2 * conv.cin * squeeze_width + conv.cin + conv.cin * side**2
            products = conv.cin * conv.cout * conv.kernel**2 * side**2
            total += products // conv.stride**2 // conv.groups
            side //= conv.stride
            if not config.no_BN:
                total += conv.cout * side**2
        if _has_projection(unit, config):
            total += (unit.cin + 1) * unit.cout * (side / unit.stride) ** 2
    return total


def _list_all_units(blocks: list[ZenBlock]) -> list[ResidualUnit]:
    units: list[ResidualUnit] = []
    for block in blocks:
        units.extend(list_units(block))
    return units


def _has_projection(unit: ResidualUnit, config: ZenConfig) -> bool:
    return unit.has_projection and not config.no_reslink


def _find_squeeze_width(unit: ResidualUnit, config: ZenConfig) -> int:
    """Return the inner channels of squeeze-and-excitation, 0 if there is none."""
    if config.use_se and unit.residual:
        return compute_squeeze_width(unit.path[-1].cin)
    return 0


def _is_published(variant: str) -> bool:
    if variant not in _VARIANTS:
        raise make_unknown_name_error("variant of the counts", variant, _VARIANTS)
    return variant == "published"
