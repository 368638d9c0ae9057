"""The choices of a NASRec block as an object, as genes and as text.

A block is written as its two operators, each with its inputs in brackets and its output size,
followed by the connections between the two streams, `fm` and `interact`. Blocks are separated by
semicolons:

    linear-2d(0)512 transformer(0)48 fm; sigmoid-gating(1,0)64 linear-3d(0+1)16 interact; ...

Input 0 is the table itself, input 1 the output of the first block. `0+1` is the concatenation of
two inputs; `1,0` are the left and the right input. The authors' JSON, `{"micro": [...], "macro":
[...]}`, is accepted too; inputs that an operator does not use are dropped.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from untrained.spaces.core.notation import make_parse_error
from untrained.types import Choice, Genes

# These operators read two dense inputs, left and right. The others concatenate any number of
# inputs.
PAIRED_OPERATORS = ("sigmoid-gating", "sum")
_BLOCK_PATTERN = re.compile(
    r"\s*(?P<dense>[a-z0-9-]+)\((?P<dense_from>[0-9+,]+)\)(?P<dense_dim>[0-9]+)"
    r"\s+(?P<sparse>[a-z0-9-]+)\((?P<sparse_from>[0-9+]+)\)(?P<sparse_dim>[0-9]+)"
    r"(?P<fm>\s+fm)?(?P<interact>\s+interact)?\s*"
)
_BLOCK_EXAMPLE = "a block such as linear-2d(0)512 linear-3d(0)48 fm interact"


@dataclass(frozen=True)
class BlockSpec:
    """The choices of one block.

    Attributes:
        dense_op: Name of the dense operator.
        dense_from: Its inputs: left and right for a paired operator, else in ascending order.
        dense_dim: Width of the dense output.
        sparse_op: Name of the sparse operator.
        sparse_from: Its inputs in ascending order.
        sparse_dim: Number of tokens of the sparse output.
        fm: Whether a factorisation machine of the sparse output is added to the dense output.
        interact: Whether the dense output, cut into tokens, is appended to the sparse output.
    """

    dense_op: str
    dense_from: tuple[int, ...]
    dense_dim: int
    sparse_op: str
    sparse_from: tuple[int, ...]
    sparse_dim: int
    fm: bool
    interact: bool

    @classmethod
    def from_genes(cls, values: Mapping[str, Choice], index: int) -> "BlockSpec":
        """Return block `index` of an architecture with these values."""
        dense_op = str(values[f"dense{index}"])
        if dense_op in PAIRED_OPERATORS:
            left = int(values[f"left{index}"])
            right = int(values[f"right{index}"])
            dense_from: tuple[int, ...] = (left, right)
        else:
            dense_from = _split_inputs(str(values[f"dense_from{index}"]))
        return cls(
            dense_op=dense_op,
            dense_from=dense_from,
            dense_dim=int(values[f"dense_dim{index}"]),
            sparse_op=str(values[f"sparse{index}"]),
            sparse_from=_split_inputs(str(values[f"sparse_from{index}"])),
            sparse_dim=int(values[f"sparse_dim{index}"]),
            fm=bool(values[f"fm{index}"]),
            interact=bool(values[f"interact{index}"]),
        )

    def __str__(self) -> str:
        if self.dense_op in PAIRED_OPERATORS:
            dense_inputs = ",".join(map(str, self.dense_from))
        else:
            dense_inputs = join_inputs(self.dense_from)
        words = [
            f"{self.dense_op}({dense_inputs}){self.dense_dim}",
            f"{self.sparse_op}({join_inputs(self.sparse_from)}){self.sparse_dim}",
        ]
        if self.fm:
            words.append("fm")
        if self.interact:
            words.append("interact")
        return " ".join(words)

    def list_genes(self, index: int) -> Genes:
        """Return the genes of this block if it is block `index` of an architecture."""
        inputs: Genes
        if self.dense_op in PAIRED_OPERATORS:
            left = self.dense_from[0]
            right = self.dense_from[-1]
            inputs = ((f"left{index}", left), (f"right{index}", right))
        else:
            inputs = ((f"dense_from{index}", join_inputs(self.dense_from)),)
        return (
            (f"dense{index}", self.dense_op),
            *inputs,
            (f"dense_dim{index}", self.dense_dim),
            (f"sparse{index}", self.sparse_op),
            (f"sparse_from{index}", join_inputs(self.sparse_from)),
            (f"sparse_dim{index}", self.sparse_dim),
            (f"fm{index}", int(self.fm)),
            (f"interact{index}", int(self.interact)),
        )


BlockSpecs = tuple[BlockSpec, ...]


def join_inputs(inputs: Iterable[int]) -> str:
    """Write concatenated inputs: `0+1`."""
    return "+".join(map(str, inputs))


def _split_inputs(text: str) -> tuple[int, ...]:
    numbers = re.findall("[0-9]+", text)
    return tuple(sorted(map(int, numbers)))


def make_block_specs(genes: Genes) -> BlockSpecs:
    """Return all blocks of an architecture."""
    values = dict(genes)
    block_count = sum(name.startswith("sparse_dim") for name in values)
    return tuple(BlockSpec.from_genes(values, index) for index in range(block_count))


# ------------------------------------------------------------------------------------ notation


@dataclass(frozen=True)
class NasrecNotation:
    """Blocks as text.

    Attributes:
        ops: Operators of the space in the authors' order, which their JSON uses to number them.
    """

    ops: tuple[str, ...]

    def format(self, genes: Genes) -> str:
        return "; ".join(map(str, make_block_specs(genes)))

    def parse(self, text: str) -> Genes:
        if text.lstrip().startswith("{"):
            blocks = self._parse_json(text)
        else:
            blocks = _parse_blocks(text)
        genes: list[tuple[str, Choice]] = []
        for index, block in enumerate(blocks):
            genes.extend(block.list_genes(index))
        return tuple(genes)

    def _parse_json(self, text: str) -> list[BlockSpec]:
        try:
            choice = json.loads(text)
            blocks = []
            for micro, macro in zip(choice["micro"], choice["macro"], strict=True):
                blocks.append(self._read_json_block(micro, macro))
        except json.JSONDecodeError as error:
            raise make_parse_error(text, error.pos, "JSON") from error
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            expected = "NASRec's lists of blocks, one under micro and one under macro,"
            raise make_parse_error(text, 0, expected) from error
        return blocks

    # JSON values have no static type.
    def _read_json_block(self, micro: dict[str, Any], macro: dict[str, Any]) -> BlockSpec:
        # The dense operators have the lower numbers.
        dense_node, sparse_node = sorted(micro["active_nodes"])
        dense_op = self.ops[dense_node]
        sparse_op = self.ops[sparse_node]
        dense_pair = (macro["dense_left_idx"][0], macro["dense_right_idx"][0])
        dense_from: tuple[int, ...]
        if dense_op in PAIRED_OPERATORS:
            dense_from = dense_pair
        else:
            dense_from = tuple(sorted(macro["dense_idx"]))
        return BlockSpec(
            dense_op=dense_op,
            dense_from=dense_from,
            dense_dim=micro["dense_in_dims"],
            sparse_op=sparse_op,
            sparse_from=tuple(sorted(macro["sparse_idx"])),
            sparse_dim=micro["sparse_in_dims"],
            fm=bool(micro["deep_fm"]),
            interact=bool(micro["dense_sparse_interact"]),
        )


def _parse_blocks(text: str) -> list[BlockSpec]:
    blocks = []
    position = 0
    for part in text.split(";"):
        match = _BLOCK_PATTERN.fullmatch(part)
        if match is None:
            raise make_parse_error(text, position, _BLOCK_EXAMPLE)
        block = BlockSpec(
            dense_op=match["dense"],
            dense_from=_parse_dense_inputs(text, position, match),
            dense_dim=int(match["dense_dim"]),
            sparse_op=match["sparse"],
            sparse_from=_split_inputs(match["sparse_from"]),
            sparse_dim=int(match["sparse_dim"]),
            fm=bool(match["fm"]),
            interact=bool(match["interact"]),
        )
        blocks.append(block)
        # One more for the semicolon.
        position += len(part) + 1
    return blocks


def _parse_dense_inputs(text: str, position: int, match: re.Match[str]) -> tuple[int, ...]:
    """Read `1,0` for a paired operator, `0+1` for any other."""
    is_paired = match["dense"] in PAIRED_OPERATORS
    separator = "," if is_paired else "+"
    inputs = match["dense_from"].split(separator)
    has_numbers = all(map(str.isdecimal, inputs))
    if is_paired:
        if not has_numbers or len(inputs) != 2:
            input_position = position + match.start("dense_from")
            raise make_parse_error(text, input_position, "left and right such as (1,0)")
        return tuple(map(int, inputs))
    if not has_numbers:
        input_position = position + match.start("dense_from")
        raise make_parse_error(text, input_position, "inputs such as (0+1)")
    return _split_inputs(match["dense_from"])
