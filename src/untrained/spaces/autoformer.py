"""AutoFormer (Chen et al., ICCV 2021; arXiv:2107.00651): vision transformers, searched as slices of a supernet.

An architecture has a depth, an MLP ratio and a number of heads for every layer, and one width. It is written as the
authors' search logs it: `(12, 3.5, ... 4.0, 3, ... 4, 192)`, that is depth, ratios, heads, width. Choices are made in
the order in which the authors' code samples them.

Where papers and codes differ, and what we do (the network itself: _autoformer.py):
* The published AutoFormer-T has layers of MLP ratio 3.0, which is not in its own space (3.5, 4). It is refused with a
  word about that; `autoformer_tiny(ratios=(3.0,3.5,4.0))` has it.
* For the base space one published file lists 8, 9 or 10 heads, the supernet's file 9 or 10: we have the latter.
* Published FLOPs come of a formula that takes 198 tokens for 197, charges the head for all of them and leaves out most
  of the relative positions: `flops(..., variant="published")`. By default we count what the network really does.
* Stand-alone networks have the rows of qkv in plain thirds, the supernet interleaved; a sub-network's `state_dict()`
  is that of the stand-alone one.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from untrained._options import Count, Probability
from untrained.errors import UsageError, unknown
from untrained.spaces._autoformer import HEAD, QKV, REACH, Style, Transformer, grid
from untrained.spaces._counts import Counts
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Layers
from untrained.spaces._space import SPACES, Space, space
from untrained.spaces._supernet import Subnet
from untrained.types import Arch, Genes, Task

IMAGENET = Task("imagenet", (3, 224, 224), 1000)
_SCALES = ("head", "embed")
_VARIANTS = ("default", "published")


@dataclass(frozen=True)
class Family:
    """What the architectures of one space choose from, and the largest one their supernet has weights for."""

    depths: tuple[int, ...]
    ratios: tuple[float, ...]
    heads: tuple[int, ...]
    embeds: tuple[int, ...]
    supernet_embed: int
    note: str = ""  # what an error about a ratio should add


TINY = Family(
    depths=(12, 13, 14),
    ratios=(3.5, 4.0),
    heads=(3, 4),
    embeds=(192, 216, 240),
    supernet_embed=256,
    note="the published AutoFormer-T has 3.0 though its own space has not: autoformer_tiny(ratios=(3.0,3.5,4.0)) does",
)
SMALL = Family((12, 13, 14), (3.0, 3.5, 4.0), (5, 6, 7), (320, 384, 448), supernet_embed=448)
BASE = Family((14, 15, 16), (3.0, 3.5, 4.0), (9, 10), (528, 576, 624), supernet_embed=640)


class _Notation:
    """The tuple of the authors' search: depth, a ratio for each layer, heads for each layer, width."""

    def format(self, genes: Genes) -> str:
        return str(tuple(value for _, value in genes))

    def parse(self, text: str) -> Genes:
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values = None
        if not isinstance(values, tuple | list) or not all(type(value) in (int, float) for value in values):
            raise malformed(text, 0, "numbers in brackets, (depth, ratios, heads, width)")
        depth = int(values[0]) if values else 0
        if len(values) != 2 * depth + 2:
            raise malformed(text, len(text), f"{2 * depth + 2} numbers (1 + {depth} + {depth} + 1), not {len(values)},")
        return tuple(zip(_names(depth), values, strict=True))


def _names(depth: int) -> list[str]:
    per_layer = [f"{what}{i}" for what in ("ratio", "heads") for i in range(depth)]
    return ["depth", *per_layer, "embed"]


def layers(arch: Arch) -> Layers:
    """The architecture layer by layer; also what is drawn."""
    genes = dict(arch.genes)
    depth = range(int(genes["depth"]))
    heads, ratios = [int(genes[f"heads{i}"]) for i in depth], [float(genes[f"ratio{i}"]) for i in depth]
    return Layers(int(genes["embed"]), tuple(heads), tuple(ratios))


# --------------------------------------------------------------------------------------------------- the spaces


def _register(name: str, about: str, family: Family) -> Space:
    """A space of transformers. `ratios` are others than the family's; the rest is in `Style`."""

    def network(
        choose: Any,
        task: Task,
        *,
        ratios: Sequence[float] | None = None,
        patch: Count = 16,
        relative_position: bool = True,
        class_token: bool = False,
        attention_scale: str = "head",
        drop_path: Probability = 0.0,
    ) -> Any:
        scale = _known(attention_scale, _SCALES)
        style = Style(patch, relative_position, class_token, scale, drop_path, max(family.depths))
        return partial(Transformer, _chosen(choose, family, _offered(family, ratios)), task, style)

    network.__name__, network.__doc__ = name, about
    made = space(
        task=IMAGENET,
        notation=_Notation(),
        sketch=layers,
        size=partial(_count, family),
        supernet=partial(AutoFormerSupernet, family),
        counts=lambda space, arch, task: Counts(params(space, arch, task), int(flops(space, arch, task))),
    )(network)
    return SPACES.add(name, made)


def _chosen(choose: Any, family: Family, ratios: Sequence[float]) -> Layers:
    """All choices, in the order of the authors' code."""
    depth = range(choose("depth", family.depths))
    try:
        chosen = tuple(choose(f"ratio{i}", ratios) for i in depth)
    except UsageError as error:
        if not family.note or ratios != family.ratios:
            raise
        raise UsageError(f"{error}; {family.note}") from error
    heads = tuple(choose(f"heads{i}", family.heads) for i in depth)
    return Layers(choose("embed", family.embeds), heads, chosen)


def _offered(family: Family, ratios: Sequence[float] | None) -> Sequence[float]:
    return family.ratios if ratios is None else tuple(map(float, ratios))


def _count(family: Family, ratios: Sequence[float] | None = None, **_: Any) -> int:
    per_layer = len(_offered(family, ratios)) * len(family.heads)
    networks: int = len(family.embeds) * sum(per_layer**depth for depth in family.depths)
    return networks


def _known(value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise unknown("variant of AutoFormer", value, values)
    return value


# ------------------------------------------------------------------------------------------------- the supernet


class AutoFormerSupernet(Transformer):
    """The weights of all architectures: each takes the leading rows and columns, as the official code does."""

    def __init__(self, family: Family, task: Task, ratios: Sequence[float] | None = None, **style: Any) -> None:
        depth, ratio = max(family.depths), max(4.0, *_offered(family, ratios))
        largest = Layers(family.supernet_embed, (max(family.heads),) * depth, (ratio,) * depth)
        super().__init__(largest, task, Style(**style, deepest=depth, interleaved=True))
        self.task = task

    def subnet(self, arch: Arch) -> nn.Module:
        return Subnet(self, self._fitting(arch))

    def _fitting(self, arch: Arch) -> Layers:
        small, large = layers(arch), self.layers
        per_layer = zip(small.heads, small.ratios, large.heads, large.ratios, strict=False)
        fits = small.embed <= large.embed and len(small.heads) <= len(large.heads)
        if not fits or any(h > most or r > highest for h, r, most, highest in per_layer):
            raise UsageError(f"{arch} of {arch.space} is larger than this supernet; ask for that of {arch.space}")
        return small

    def weights(self, small: Layers) -> dict[str, Tensor]:
        """The weights of `small` as its stand-alone network has them, views where possible."""
        with torch.device("meta"):
            alone = Transformer(small, self.task, replace(self.style, interleaved=False))
        mine = dict(self.named_parameters())
        cut = {name: mine[name][tuple(map(slice, p.shape))] for name, p in alone.named_parameters()}
        qkvs = [module for module in self.modules() if isinstance(module, QKV)]
        for i, h in enumerate(small.heads):
            cut[f"blocks.{i}.attn.qkv.weight"] = qkvs[i].rows(h, small.embed)
        return cut


# ------------------------------------------------------------------------------------------------------- counts


def params(space: Space, arch: Arch, task: Task | None = None) -> int:
    """Parameters, without building: patches, class token and positions, blocks, norm and head, all with biases."""
    options, shape = dict(space.options), layers(arch)
    task, patch = task or space.task, options.get("patch", 16)
    channels, rows, columns = grid(task, patch)
    E, positions = shape.embed, 4 * (2 * REACH + 2) * HEAD if options.get("relative_position", True) else 0
    total: int = E * (channels * patch**2 + 1) + E * (rows * columns + 2) + 2 * E + (E + 1) * task.num_classes
    for h, ratio in zip(shape.heads, shape.ratios, strict=True):
        inner, f = HEAD * h, int(E * ratio)
        total += 4 * E + (E + 1) * 3 * inner + (inner + 1) * E + positions + (E + 1) * f + (f + 1) * E
    return total


def flops(space: Space, arch: Arch, task: Task | None = None, *, variant: str = "default") -> float:
    """Multiply-adds, without building. `variant="published"` is the official `get_complexity`."""
    options, shape = dict(space.options), layers(arch)
    task, patch, related = task or space.task, options.get("patch", 16), options.get("relative_position", True)
    channels, rows, columns = grid(task, patch)
    E, n, head = shape.embed, rows * columns, shape.embed * task.num_classes
    patches = n * channels * patch**2 * E
    if _known(variant, _VARIANTS) == "published":
        return float(patches + E + (n + 1) * E / 2 + _published(shape, n + 2, related) + (n + 1) * head)
    return float(patches + _counted(shape, n + 1, related) + head)


def _counted(shape: Layers, N: int, related: bool) -> int:
    """qkv, projection and MLP for N tokens, and N^2 64 for each head twice: for weights and values; relative positions
    once more."""
    E, products = shape.embed, 4 if related else 2
    linear = sum(4 * HEAD * h * E + 2 * E * int(E * r) for h, r in zip(shape.heads, shape.ratios, strict=True))
    return N * linear + sum(products * N * N * HEAD * h for h in shape.heads)


def _published(shape: Layers, N: int, related: bool) -> float:
    """The blocks of `get_complexity`, which adds the class token twice (N = 198) and charges each norm N E, relative
    positions 14 N^2 for keys and for values."""
    E = shape.embed
    norms = 2 * N * E * len(shape.heads)
    positions = sum(2 * REACH * N * N + N * N / 2 + N * HEAD * h / 2 for h in shape.heads)
    return _counted(shape, N, related=False) + norms + (positions if related else 0)


autoformer_tiny = _register("autoformer_tiny", "Vision transformers of 5 to 11 M parameters.", TINY)
autoformer_small = _register("autoformer_small", "Vision transformers of 13 to 35 M parameters.", SMALL)
autoformer_base = _register("autoformer_base", "Vision transformers of 42 to 77 M parameters.", BASE)
