"""Parameters and multiply-adds of AutoFormer's networks by formula.

Legend as in `network.py`: N tokens, E width of the tokens, h heads, f inner width of the MLP.
"""

from untrained.drawings.diagrams import TransformerLayers
from untrained.errors import make_unknown_name_error
from untrained.spaces.autoformer.network import (
    HEAD_WIDTH,
    MAX_DISTANCE,
    POSITION_COUNT,
    compute_patch_grid,
)
from untrained.spaces.autoformer.supernet import read_transformer_layers
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.space import Space
from untrained.types import Arch, Task

_VARIANTS = ("default", "published")


def count_arch(space: Space, arch: Arch, task: Task) -> Counts:
    """Return parameters and multiply-adds without building the network."""
    return Counts(count_params(space, arch, task), int(count_flops(space, arch, task)))


def count_params(space: Space, arch: Arch, task: Task | None = None) -> int:
    """Return the number of parameters without building the network."""
    options = dict(space.options)
    layers = read_transformer_layers(arch)
    task = task or space.task
    patch: int = options.get("patch", 16)
    channels, rows, columns = compute_patch_grid(task, patch)
    E = layers.embed
    position_params = 0
    if options.get("relative_position", True):
        # Vertical and horizontal embeddings, for keys and for values.
        position_params = 4 * POSITION_COUNT * HEAD_WIDTH
    patch_params = E * (channels * patch**2 + 1)
    # One position per patch, one for the class token, and the class token itself.
    token_params = E * (rows * columns + 2)
    norm_params = 2 * E
    head_params = (E + 1) * task.num_classes
    total = patch_params + token_params + norm_params + head_params
    for h, ratio in zip(layers.heads, layers.ratios, strict=True):
        inner = HEAD_WIDTH * h
        f = int(E * ratio)
        attention_params = (E + 1) * 3 * inner + (inner + 1) * E + position_params
        mlp_params = (E + 1) * f + (f + 1) * E
        total += 2 * norm_params + attention_params + mlp_params
    return total


def count_flops(
    space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default"
) -> float:
    """Return the number of multiply-adds without building the network.

    Args:
        space: The space. Its options determine the patches and the relative positions.
        arch: An architecture of the space.
        task: Image size and classes; by default the task of the space.
        variant: "default" counts what the network computes. "published" is the official
            `get_complexity`, which counts the class token twice, multiplies the count of the head
            by the number of tokens, and omits most of the relative positions.
    """
    if variant not in _VARIANTS:
        raise make_unknown_name_error("variant of AutoFormer", variant, _VARIANTS)
    options = dict(space.options)
    layers = read_transformer_layers(arch)
    task = task or space.task
    patch: int = options.get("patch", 16)
    relative_position: bool = options.get("relative_position", True)
    channels, rows, columns = compute_patch_grid(task, patch)
    E = layers.embed
    patch_count = rows * columns
    patch_flops = patch_count * channels * patch**2 * E
    head_flops = E * task.num_classes
    if variant == "published":
        block_flops = _count_published_blocks(layers, patch_count + 2, relative_position)
        token_flops = E + (patch_count + 1) * E / 2
        return float(patch_flops + token_flops + block_flops + (patch_count + 1) * head_flops)
    return float(
        patch_flops + _count_blocks(layers, patch_count + 1, relative_position) + head_flops
    )


def _count_blocks(layers: TransformerLayers, N: int, relative_position: bool) -> int:
    """Count qkv, projection and MLP for N tokens, and attention for N^2 pairs of tokens."""
    E = layers.embed
    # Each head needs 64 N^2 multiply-adds for the attention weights and 64 N^2 for the weighted sum
    # of values. Relative positions double this.
    products = 4 if relative_position else 2
    total = 0
    for h, ratio in zip(layers.heads, layers.ratios, strict=True):
        linear = 4 * HEAD_WIDTH * h * E + 2 * E * int(E * ratio)
        total += N * linear + products * N * N * HEAD_WIDTH * h
    return total


def _count_published_blocks(layers: TransformerLayers, N: int, relative_position: bool) -> float:
    """Count the blocks like `get_complexity`.

    Each norm counts N E. The relative positions of a layer count 14 N^2 for keys, 14 N^2 for
    values, and N^2 / 2 + 32 N h.
    """
    E = layers.embed
    total: float = _count_blocks(layers, N, relative_position=False)
    total += 2 * N * E * len(layers.heads)
    if relative_position:
        position_flops = 0.0
        for h in layers.heads:
            position_flops += 2 * MAX_DISTANCE * N * N + N * N / 2 + N * HEAD_WIDTH * h / 2
        total += position_flops
    return total
