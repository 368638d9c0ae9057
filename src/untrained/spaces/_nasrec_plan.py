"""What a block of NASRec chooses, as one object, as genes and as text. Knows nothing of networks or tables.

A block is written as its two operators, each with the inputs it reads in brackets and the size of its output, then
what connects the two streams; blocks are parted by semicolons:

    linear-2d(0)512 transformer(0)48 fm; sigmoid-gating(1,0)64 linear-3d(0+1)16 interact; ...

Inputs are counted from 0, the table itself; 1 is what the first block makes. `0+1` are two inputs joined, `1,0` are
left and right. The authors write JSON, `{"micro": [...], "macro": [...]}`, which is read as well; what it says of
inputs that an operator does not use is dropped.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from untrained.spaces._notation import malformed
from untrained.types import Genes

PAIRED = ("sigmoid-gating", "sum")  # these read two dense inputs, left and right; the others any number, joined
_BLOCK = re.compile(
    r"\s*(?P<dense>[a-z0-9-]+)\((?P<dense_from>[0-9+,]+)\)(?P<dense_dim>[0-9]+)"
    r"\s+(?P<sparse>[a-z0-9-]+)\((?P<sparse_from>[0-9+]+)\)(?P<sparse_dim>[0-9]+)(?P<fm>\s+fm)?(?P<interact>\s+interact)?\s*"
)
_WANTED = "a block such as linear-2d(0)512 linear-3d(0)48 fm interact"


@dataclass(frozen=True)
class Plan:
    """The choices of one block."""

    dense_op: str
    dense_from: tuple[int, ...]  # left and right for operators of two, else in ascending order
    dense_dim: int
    sparse_op: str
    sparse_from: tuple[int, ...]
    sparse_dim: int
    fm: bool  # add a factorisation machine of the sparse output to the dense one
    interact: bool  # append the dense output, cut into tokens, to the sparse one

    @classmethod
    def of(cls, genes: Mapping[str, Any], i: int) -> "Plan":
        """Block i of these choices."""
        op = genes[f"dense{i}"]
        return cls(
            op,
            (int(genes[f"left{i}"]), int(genes[f"right{i}"])) if op in PAIRED else _apart(genes[f"dense_from{i}"]),
            int(genes[f"dense_dim{i}"]),
            genes[f"sparse{i}"],
            _apart(genes[f"sparse_from{i}"]),
            int(genes[f"sparse_dim{i}"]),
            bool(genes[f"fm{i}"]),
            bool(genes[f"interact{i}"]),
        )

    def __str__(self) -> str:
        read = (",".join(map(str, self.dense_from))) if self.dense_op in PAIRED else joined(self.dense_from)
        dense = f"{self.dense_op}({read}){self.dense_dim}"
        sparse = f"{self.sparse_op}({joined(self.sparse_from)}){self.sparse_dim}"
        return f"{dense} {sparse}{' fm' * self.fm}{' interact' * self.interact}"

    def genes(self, i: int) -> Genes:
        """As choices of block i."""
        left, right = self.dense_from[0], self.dense_from[-1]
        pair: Genes = ((f"left{i}", left), (f"right{i}", right))
        return (
            (f"dense{i}", self.dense_op),
            *(pair if self.dense_op in PAIRED else ((f"dense_from{i}", joined(self.dense_from)),)),
            (f"dense_dim{i}", self.dense_dim),
            (f"sparse{i}", self.sparse_op),
            (f"sparse_from{i}", joined(self.sparse_from)),
            (f"sparse_dim{i}", self.sparse_dim),
            (f"fm{i}", int(self.fm)),
            (f"interact{i}", int(self.interact)),
        )


Plans = tuple[Plan, ...]


def joined(inputs: tuple[int, ...]) -> str:
    return "+".join(map(str, inputs))


def _apart(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, re.findall("[0-9]+", text))))


def plans_of(genes: Genes) -> Plans:
    known = dict(genes)
    return tuple(Plan.of(known, i) for i in range(sum(name.startswith("sparse_dim") for name in known)))


@dataclass(frozen=True)
class Blocks:
    """The notation; `ops` are those of the space in the authors' order, by which their JSON counts."""

    ops: tuple[str, ...]

    def format(self, genes: Genes) -> str:
        return "; ".join(map(str, plans_of(genes)))

    def parse(self, text: str) -> Genes:
        plans = self._published(text) if text.lstrip().startswith("{") else _read(text)
        return tuple(gene for i, plan in enumerate(plans) for gene in plan.genes(i))

    def _published(self, text: str) -> list[Plan]:
        try:
            choice = json.loads(text)
            return [self._both(*pair) for pair in zip(choice["micro"], choice["macro"], strict=True)]
        except json.JSONDecodeError as error:
            raise malformed(text, error.pos, "JSON") from error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise malformed(text, 0, "NASRec's lists of blocks, one under micro and one under macro,") from error

    def _both(self, micro: dict[str, Any], macro: dict[str, Any]) -> Plan:
        dense_op, sparse_op = (self.ops[node] for node in sorted(micro["active_nodes"]))
        pair = (macro["dense_left_idx"][0], macro["dense_right_idx"][0])
        return Plan(
            dense_op,
            pair if dense_op in PAIRED else tuple(sorted(macro["dense_idx"])),
            micro["dense_in_dims"],
            sparse_op,
            tuple(sorted(macro["sparse_idx"])),
            micro["sparse_in_dims"],
            bool(micro["deep_fm"]),
            bool(micro["dense_sparse_interact"]),
        )


def _read(text: str) -> list[Plan]:
    plans, position = [], 0
    for part in text.split(";"):
        found = _BLOCK.fullmatch(part)
        if not found:
            raise malformed(text, position, _WANTED)
        said = found.groupdict()
        paired = said["dense"] in PAIRED
        inputs = said["dense_from"].split("," if paired else "+")
        if not all(map(str.isdecimal, inputs)) or (paired and len(inputs) != 2):
            wanted = "left and right such as (1,0)" if paired else "inputs such as (0+1)"
            raise malformed(text, position + found.start("dense_from"), wanted)
        dense_from = tuple(map(int, inputs)) if paired else _apart(said["dense_from"])
        sizes = int(said["dense_dim"]), int(said["sparse_dim"])
        sparse_from = _apart(said["sparse_from"])
        flags = bool(said["fm"]), bool(said["interact"])
        plans.append(Plan(said["dense"], dense_from, sizes[0], said["sparse"], sparse_from, sizes[1], *flags))
        position += len(part) + 1
    return plans
