"""AutoFormer (Chen et al., ICCV 2021; arXiv:2107.00651): vision transformers that share the
weights of a supernet.

An architecture has a depth, an MLP ratio and a number of heads for every layer, and one width. It
is written as in the logs of the authors' search: `(12, 3.5, ... 4.0, 3, ... 4, 192)`, that is
depth, ratios, heads, width. Choices are made in the order of the authors' code.

Where the published sources differ, and what we do (`network.py` has another list for the network):
* The published AutoFormer-T has layers of MLP ratio 3.0, which its own space does not have (3.5,
  4). It is rejected with a hint; `autoformer_tiny(ratios=(3.0,3.5,4.0))` contains it.
* For the base space one published file lists 8, 9 or 10 heads, the file of the supernet 9 or 10. We
  use the latter.
* The published FLOPs come from a formula that counts 198 tokens instead of 197, multiplies the
  count of the head by the number of tokens, and omits most of the relative positions:
  `count_flops(..., variant="published")`. By default we count what the network computes.
* Stand-alone networks have the rows of qkv in plain thirds, the supernet has them interleaved; the
  `state_dict()` of a subnet is that of the stand-alone network.
"""

import ast
from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import Any

from untrained.drawings.diagrams import TransformerLayers
from untrained.errors import UsageError, make_unknown_name_error
from untrained.options import Count, Probability
from untrained.spaces.autoformer.counts import count_arch
from untrained.spaces.autoformer.network import TransformerConfig, VisionTransformer
from untrained.spaces.autoformer.supernet import (
    AutoformerFamily,
    AutoformerSupernet,
    read_transformer_layers,
)
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.types import Genes, Task

IMAGENET = Task("imagenet", (3, 224, 224), 1000)
_ATTENTION_SCALES = ("head", "embed")

TINY = AutoformerFamily(
    depths=(12, 13, 14),
    ratios=(3.5, 4.0),
    heads=(3, 4),
    embeds=(192, 216, 240),
    supernet_embed=256,
    ratio_note=(
        "the published AutoFormer-T has 3.0 though its own space does not: "
        "autoformer_tiny(ratios=(3.0,3.5,4.0)) does"
    ),
)
SMALL = AutoformerFamily(
    depths=(12, 13, 14),
    ratios=(3.0, 3.5, 4.0),
    heads=(5, 6, 7),
    embeds=(320, 384, 448),
    supernet_embed=448,
)
BASE = AutoformerFamily(
    depths=(14, 15, 16),
    ratios=(3.0, 3.5, 4.0),
    heads=(9, 10),
    embeds=(528, 576, 624),
    supernet_embed=640,
)


class AutoformerNotation:
    """The tuple of the authors' search: depth, ratio of each layer, heads of each layer, width."""

    def format(self, genes: Genes) -> str:
        return str(tuple(value for _, value in genes))

    def parse(self, text: str) -> Genes:
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            # The last two are raised for deeply nested text.
            values = None
        is_sequence = isinstance(values, tuple | list)
        if not is_sequence or not all(map(_is_finite_number, values)):
            expected = "numbers in brackets, (depth, ratios, heads, width)"
            raise make_parse_error(text, 0, expected)
        depth = int(values[0]) if values else 0
        length = 2 * depth + 2
        if len(values) != length:
            expected = f"{length} numbers (1 + {depth} + {depth} + 1), not {len(values)},"
            raise make_parse_error(text, len(text), expected)
        return tuple(zip(_list_choice_names(depth), values, strict=True))


def _is_finite_number(value: object) -> bool:
    # `type(...)` excludes True and False. A literal such as 1e999 is infinite.
    return type(value) is int or (type(value) is float and isfinite(value))


def _list_choice_names(depth: int) -> list[str]:
    ratio_names = [f"ratio{layer}" for layer in range(depth)]
    heads_names = [f"heads{layer}" for layer in range(depth)]
    return ["depth", *ratio_names, *heads_names, "embed"]


def _choose_layers(choose: Choose, family: AutoformerFamily) -> TransformerLayers:
    """Make all choices, in the order of the authors' code."""
    depth = choose("depth", family.depths)
    ratios = []
    try:
        for layer in range(depth):
            ratios.append(choose(f"ratio{layer}", family.ratios))
    except UsageError as error:
        if not family.ratio_note:
            raise
        raise UsageError(f"{error}; {family.ratio_note}") from error
    heads = [choose(f"heads{layer}", family.heads) for layer in range(depth)]
    embed = choose("embed", family.embeds)
    return TransformerLayers(embed, tuple(heads), tuple(ratios))


def _compute_size(
    family: AutoformerFamily, ratios: Sequence[float] | None = None, **_: object
) -> int:
    options_per_layer = len(family.with_ratios(ratios).ratios) * len(family.heads)
    size = 0
    for depth in family.depths:
        size += len(family.embeds) * options_per_layer**depth
    return size


def _register_autoformer_space(name: str, about: str, family: AutoformerFamily) -> Space:
    """Create and register a space of transformers."""

    def choose_network(
        choose: Choose,
        task: Task,
        *,
        ratios: Sequence[float] | None = None,
        patch: Count = 16,
        relative_position: bool = True,
        class_token: bool = False,
        attention_scale: str = "head",
        drop_path: Probability = 0.0,
    ) -> NetworkBuilder:
        if attention_scale not in _ATTENTION_SCALES:
            raise make_unknown_name_error("attention_scale", attention_scale, _ATTENTION_SCALES)
        config = TransformerConfig(
            patch=patch,
            relative_position=relative_position,
            class_token=class_token,
            attention_scale=attention_scale,
            drop_path=drop_path,
            max_depth=max(family.depths),
        )
        layers = _choose_layers(choose, family.with_ratios(ratios))
        return partial(VisionTransformer, layers, task, config)

    def build_supernet(task: Task, **options: Any) -> AutoformerSupernet:
        return AutoformerSupernet(family, task, **options)

    # The decorator takes name and description from the function.
    choose_network.__name__ = name
    choose_network.__doc__ = about
    make_space = space(
        task=IMAGENET,
        notation=AutoformerNotation(),
        draw=read_transformer_layers,
        size=partial(_compute_size, family),
        supernet=build_supernet,
        counts=count_arch,
    )
    return register_space(make_space(choose_network))


autoformer_tiny = _register_autoformer_space(
    "autoformer_tiny", "Vision transformers of 5 to 11 M parameters.", TINY
)
autoformer_small = _register_autoformer_space(
    "autoformer_small", "Vision transformers of 13 to 35 M parameters.", SMALL
)
autoformer_base = _register_autoformer_space(
    "autoformer_base", "Vision transformers of 42 to 77 M parameters.", BASE
)
