"""Structures of ZenNAS' networks as choices and as strings.

A structure is a list of blocks; as choices it is a stem, stages that each halve the map (all but the first, which keeps
the stem's), blocks of a stage, and the last convolution. A block's `cin` is no choice but what comes in. With stages as
the unit, two structures cross over without losing or gaining a stride. Drawn with equal chances such choices would make
absurd networks (most widths are thousands), and no paper draws them so; `_walk.py` knows how they are drawn.
"""

import re
from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import Any

from untrained.spaces._notation import malformed
from untrained.spaces._plainnet import Block, Style
from untrained.spaces._sketch import Stage, Stages
from untrained.spaces._space import Invalid, Network, Space
from untrained.types import Arch, Genes

STEM, LAST = "SuperConvK3BNRELU", "SuperConvK1BNRELU"
WIDTHS = range(8, 8193, 8)  # every published width is among them
MOST_STAGES = 8
_NUMBER = re.compile(r"[(,](0|[1-9]\d*)")


def layers(blocks: Sequence[Block]) -> int:
    """Sublayers of all blocks with stem and last convolution: the official `get_num_layers`."""
    return sum(block.layers for block in blocks)


# -------------------------------------------------------------------------------------------------- as choices


def chosen(choose: Any, kinds: Sequence[str], max_layers: int) -> list[Block]:
    """The structure that the answers of `choose` make."""
    blocks = [Block(STEM, 3, choose("stem", WIDTHS), choose("stem_stride", (1, 2)))]
    stages = choose("stages", range(MOST_STAGES))
    for stage in range(stages + 1):
        count = choose(f"blocks{stage}", range(min(stage, 1), max_layers))
        for n in range(count):
            _limit(layers(blocks) + count - n + stages - stage + 1, max_layers)
            at, stride = f"{stage}.{n}", 2 if stage and not n else 1
            kind, width = choose(f"{at}.kind", kinds), choose(f"{at}.width", WIDTHS)
            inner, depth = choose(f"{at}.inner", WIDTHS), choose(f"{at}.layers", range(1, max_layers))
            blocks.append(Block(kind, blocks[-1].cout, width, stride, inner, depth))
    blocks.append(Block(LAST, blocks[-1].cout, choose("last", WIDTHS), 1))
    _limit(layers(blocks), max_layers)
    return blocks


def _limit(count: int, max_layers: int) -> None:
    """Stop as soon as so many layers are certain, that of the choices to come none is tried in vain."""
    if count > max_layers:
        raise Invalid(f"it has {count} layers or more, and max_layers is {max_layers}")


def blocks_of(genes: Genes) -> list[Block]:
    """The structure with these choices."""
    known = dict(genes)
    return chosen(lambda name, _: known[name], (), max_layers=10**9)


def genes_of(blocks: Sequence[Block]) -> Genes:
    """The choices that make this structure."""
    stem, *inner, last = blocks
    stages: list[list[Block]] = [[]]
    for block in inner:
        if block.stride > 1:
            stages.append([])
        stages[-1].append(block)
    genes: list[Any] = [("stem", stem.cout), ("stem_stride", stem.stride), ("stages", len(stages) - 1)]
    for s, stage in enumerate(stages):
        genes.append((f"blocks{s}", len(stage)))
        for n, b in enumerate(stage):
            said = {"kind": b.kind, "width": b.cout, "inner": b.inner, "layers": b.layers}
            genes += [(f"{s}.{n}.{name}", value) for name, value in said.items()]
    return (*genes, ("last", last.cout))


def sketch(arch: Arch) -> Stages:
    """For drawing: `K3`, `E6 K3`, `K1 K3 K1`."""
    return Stages(tuple(Stage(_short(b.kind), b.cout, b.stride, b.layers, b.inner) for b in blocks_of(arch.genes)))


def _short(kind: str) -> str:
    if match := re.fullmatch(r"SuperConvK(\d)BNRELU", kind):
        return f"conv {match[1]}x{match[1]}"
    return " ".join(re.findall(r"[EK]\d", kind))


# --------------------------------------------------------------------------------------------------- as strings


class Structures:
    """The published strings: `SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)...SuperConvK1BNRELU(128,2048,1,1)`,
    where numbers are channels in, channels out, stride, bottleneck, sublayers. The first one is 3 in all of them; a
    network takes as many channels as its task has."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)

    def format(self, genes: Genes) -> str:
        return "".join(map(str, blocks_of(genes)))

    def parse(self, text: str) -> Genes:
        return genes_of(self.blocks(text))

    def blocks(self, text: str) -> list[Block]:
        """The structure that `text` writes; an error marks the place where it goes wrong."""
        blocks, at = [self._block(text, 0, 3, (STEM,))], 0
        while blocks[-1].kind != LAST:
            at += len(str(blocks[-1]))
            blocks.append(self._block(text, at, blocks[-1].cout, (*self.kinds, LAST)))
        if len(text) > at + len(str(blocks[-1])):
            raise malformed(text, at + len(str(blocks[-1])), "the end")
        return blocks

    def _block(self, text: str, at: int, cin: int, kinds: Sequence[str]) -> Block:
        kind = next((kind for kind in kinds if text.startswith(f"{kind}(", at)), None)
        if kind is None:
            raise malformed(text, at, f"one of {', '.join(kinds)} and '('")
        at += len(kind)
        values = []
        for name, allowed, said in self._numbers(kind, cin):
            found = _NUMBER.match(text, at)
            if found is None or int(found[1]) not in allowed:
                raise malformed(text, at + (found is not None), f"{said} ({name})")
            values.append(int(found[1]))
            at = found.end()
        if not text.startswith(")", at):
            raise malformed(text, at, "')'")
        cin, cout, stride, *rest = values
        return Block(kind, cin, cout, stride, *(rest if len(rest) > 1 else (0, *rest)))

    def _numbers(self, kind: str, cin: int) -> list[tuple[str, Sequence[int], str]]:
        """Name, allowed values and their description of a block's numbers."""
        width, one = f"a multiple of 8 from {WIDTHS[0]} to {WIDTHS[-1]}", ((1,), "1")
        stride = one if kind == LAST else ((1, 2), "1 or 2")
        numbers: list[Any] = [("channels in", (cin,), str(cin)), ("channels out", WIDTHS, width), ("stride", *stride)]
        if kind in (STEM, LAST):
            return [*numbers, ("sublayers", *one)]
        return [*numbers, ("bottleneck", WIDTHS, width), ("sublayers", range(1, 1000), "1 or more")]


# ---------------------------------------------------------------------------------------------------- options


def option(space: Space, name: str) -> Any:
    """What the space is configured with, or its function's default."""
    options = dict(space.options)
    return options[name] if name in options else _defaults(space.network)[name]


@cache
def _defaults(network: Network) -> dict[str, Any]:
    """What the function of a space has for its options; reading them anew takes half the time of a sample."""
    return {name: parameter.default for name, parameter in signature(network).parameters.items()}


def style_of(space: Space) -> Style:
    return Style(**{name: bool(option(space, name)) for name in ("use_se", "no_reslink", "no_BN")})
