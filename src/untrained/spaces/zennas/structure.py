"""Structures of ZenNAS's networks as choices and as strings.

A structure is a list of blocks. Its choices are grouped into a stem, stages of blocks, and the last
convolution. Each stage halves the map, except for the first, which keeps the size that the stem
returns. The input channels of a block follow from the block before it. Because the strides belong
to stages, not to blocks, a crossover of two structures neither loses nor gains a stride.

Uniform samples of these choices would be unusable, because most widths would be in the thousands,
and no paper uses them. `mutations.py` samples structures instead.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from untrained.drawings.diagrams import Stage, StageList
from untrained.spaces.core.choices import ChooseOption, InvalidArch
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.zennas.network import ZenBlock
from untrained.types import Arch, Choice, Genes

STEM = "SuperConvK3BNRELU"
LAST = "SuperConvK1BNRELU"
# All published widths are among these.
WIDTHS = range(8, 8193, 8)
MAX_STAGES = 8
_NUMBER_PATTERN = re.compile(r"[(,](0|[1-9]\d*)")


def count_layers(blocks: Sequence[ZenBlock]) -> int:
    """Return the number of sublayers, first and last convolution included.

    This is `get_num_layers` of the official code.
    """
    return sum(block.layers for block in blocks)


# ------------------------------------------------------------------------------------- choices


def choose_structure(choose: ChooseOption, kinds: Sequence[str], max_layers: int) -> list[ZenBlock]:
    """Choose a structure of at most `max_layers` layers.

    Args:
        choose: The `choose` of the space.
        kinds: Types of blocks.
        max_layers: Limit of `count_layers`.
    """
    stem_width = choose("stem", WIDTHS)
    stem_stride = choose("stem_stride", (1, 2))
    blocks = [ZenBlock(STEM, 3, stem_width, stem_stride)]
    stage_count = choose("stages", range(MAX_STAGES))
    for stage in range(stage_count + 1):
        # The first stage may be empty.
        min_blocks = min(stage, 1)
        block_count = choose(f"blocks{stage}", range(min_blocks, max_layers))
        for index in range(block_count):
            # Blocks of this stage, one block of each later stage, and the last convolution remain.
            remaining = block_count - index + stage_count - stage + 1
            _check_layer_count(count_layers(blocks) + remaining, max_layers)
            name = f"{stage}.{index}"
            block = ZenBlock(
                kind=choose(f"{name}.kind", kinds),
                cin=blocks[-1].cout,
                cout=choose(f"{name}.width", WIDTHS),
                stride=2 if stage > 0 and index == 0 else 1,
                inner=choose(f"{name}.inner", WIDTHS),
                layers=choose(f"{name}.layers", range(1, max_layers)),
            )
            blocks.append(block)
    blocks.append(ZenBlock(LAST, blocks[-1].cout, choose("last", WIDTHS), 1))
    _check_layer_count(count_layers(blocks), max_layers)
    return blocks


def _check_layer_count(layer_count: int, max_layers: int) -> None:
    """Raise an error as soon as the limit is exceeded, so that no further choices are made."""
    if layer_count > max_layers:
        raise InvalidArch(f"it has at least {layer_count} layers, and max_layers is {max_layers}")


def make_blocks(genes: Genes) -> list[ZenBlock]:
    """Return the structure with these genes."""
    values = dict(genes)

    def read_value(name: str, options: object, not_sampled: object = ()) -> Any:
        # Genes of an architecture are valid, so they are not checked again: this function runs for
        # every sample and mutant.
        return values[name]

    return choose_structure(read_value, (), max_layers=10**9)


def list_genes(blocks: Sequence[ZenBlock]) -> Genes:
    """Return the genes of a structure."""
    stem, *inner_blocks, last = blocks
    stages: list[list[ZenBlock]] = [[]]
    for block in inner_blocks:
        # A stride starts a new stage.
        if block.stride > 1:
            stages.append([])
        stages[-1].append(block)
    genes: list[tuple[str, Choice]] = [
        ("stem", stem.cout),
        ("stem_stride", stem.stride),
        ("stages", len(stages) - 1),
    ]
    for stage, stage_blocks in enumerate(stages):
        genes.append((f"blocks{stage}", len(stage_blocks)))
        for index, block in enumerate(stage_blocks):
            name = f"{stage}.{index}"
            genes.append((f"{name}.kind", block.kind))
            genes.append((f"{name}.width", block.cout))
            genes.append((f"{name}.inner", block.inner))
            genes.append((f"{name}.layers", block.layers))
    genes.append(("last", last.cout))
    return tuple(genes)


def make_structure_diagram(arch: Arch) -> StageList:
    """Return one stage per block, with labels such as `K3 K3`, `E6 K3` and `K1 K3 K1`."""
    stages = []
    for block in make_blocks(arch.genes):
        label = _shorten_kind(block.kind)
        stages.append(Stage(label, block.cout, block.stride, block.layers, block.inner))
    return StageList(tuple(stages))


def _shorten_kind(kind: str) -> str:
    match = re.fullmatch(r"SuperConvK(\d)BNRELU", kind)
    if match:
        return f"conv {match[1]}x{match[1]}"
    return " ".join(re.findall(r"[EK]\d", kind))


# ------------------------------------------------------------------------------------- strings


class BlockNumber(NamedTuple):
    """One number in the brackets of a block, and its allowed values.

    Attributes:
        field: Its field of `ZenBlock`.
        name: Its name in messages.
        is_allowed: Whether a value is allowed.
        expected: The allowed values, for messages.
    """

    field: str
    name: str
    is_allowed: Callable[[int], bool]
    expected: str


class StructureNotation:
    """The published strings.

    `SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)...SuperConvK1BNRELU(128,2048,1,1)`:
    the numbers are input channels, output channels, stride, bottleneck, sublayers. The first number
    is 3 in all of them; a network has as many input channels as its task.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)

    def format(self, genes: Genes) -> str:
        return "".join(map(str, make_blocks(genes)))

    def parse(self, text: str) -> Genes:
        return list_genes(self.parse_blocks(text))

    def parse_blocks(self, text: str) -> list[ZenBlock]:
        """Read a structure; an error marks the position."""
        block, position = self._parse_block(text, 0, 3, (STEM,))
        blocks = [block]
        while block.kind != LAST:
            block, position = self._parse_block(text, position, block.cout, (*self.kinds, LAST))
            blocks.append(block)
        if position < len(text):
            raise make_parse_error(text, position, "the end")
        return blocks

    def _parse_block(
        self, text: str, position: int, cin: int, kinds: Sequence[str]
    ) -> tuple[ZenBlock, int]:
        """Return the block at `position`, and the position after it."""
        kind = _find_kind(text, position, kinds)
        if kind is None:
            expected = f"one of {', '.join(kinds)} and '('"
            raise make_parse_error(text, position, expected)
        position += len(kind)
        values: dict[str, int] = {}
        for number in _list_numbers(kind, cin):
            match = _NUMBER_PATTERN.match(text, position)
            expected = f"{number.expected} ({number.name})"
            if match is None:
                raise make_parse_error(text, position, expected)
            value = int(match[1])
            if not number.is_allowed(value):
                # The number starts after the bracket or comma.
                raise make_parse_error(text, position + 1, expected)
            values[number.field] = value
            position = match.end()
        if not text.startswith(")", position):
            raise make_parse_error(text, position, "')'")
        return ZenBlock(kind, **values), position + 1


def _find_kind(text: str, position: int, kinds: Sequence[str]) -> str | None:
    """Return the kind of block whose name is at `position`, or None."""
    for kind in kinds:
        if text.startswith(f"{kind}(", position):
            return kind
    return None


def _list_numbers(kind: str, cin: int) -> list[BlockNumber]:
    """Return the numbers of a block with their allowed values.

    The first and the last convolution have no bottleneck.
    """
    width_text = f"a multiple of 8 from {WIDTHS[0]} to {WIDTHS[-1]}"
    numbers = [
        BlockNumber("cin", "channels in", lambda value: value == cin, str(cin)),
        BlockNumber("cout", "channels out", lambda value: value in WIDTHS, width_text),
    ]
    if kind == LAST:
        numbers.append(BlockNumber("stride", "stride", lambda value: value == 1, "1"))
    else:
        numbers.append(BlockNumber("stride", "stride", lambda value: value in (1, 2), "1 or 2"))
    if kind in (STEM, LAST):
        numbers.append(BlockNumber("layers", "sublayers", lambda value: value == 1, "1"))
    else:
        numbers.append(
            BlockNumber("inner", "bottleneck", lambda value: value in WIDTHS, width_text)
        )
        numbers.append(
            BlockNumber("layers", "sublayers", lambda value: 1 <= value < 1000, "1 or more")
        )
    return numbers
