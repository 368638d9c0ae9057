"""Supernets of NASRec: one set of weights for all architectures of a space.

Two are offered, since the published one is not a set of networks that could stand alone:

    default     An architecture takes the rows and columns that are its own out of every weight and then is its
                stand-alone network. A column belongs to the entry of the earlier tensor that it reads; operators of
                two inputs, which add or multiply them entry by entry, take leading columns, as all do leading rows.
    published   All widths at once: what is not read is zeros, and what is beyond the width of an architecture is
                masked. Norms see the full width, a dot product always 45 tokens, and zero tokens take part in
                attention. So no stand-alone network computes the same, and no weights can be taken out.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from untrained.errors import UsageError
from untrained.spaces._nasrec_net import Block, Network, Stem, leave_out_norms
from untrained.spaces._nasrec_ops import DENSE, SPARSE, TOKENS, FactorizationMachine, Linear, Size, projection
from untrained.spaces._nasrec_plan import PAIRED, Plans, plans_of
from untrained.spaces._supernet import Subnet
from untrained.types import Arch, Task

WIDE, LONG = 1024, 64  # the largest dense and sparse outputs
_ROOM = LONG + TOKENS  # tokens of a block at most


class Supernet(nn.Module):
    """Every operator of every block at its largest."""

    def __init__(self, ops: tuple[str, ...], task: Task, blocks: int, embed: int, norms: bool = True) -> None:
        super().__init__()
        self.task, self.ops, self.embed, self.norms = task, ops, embed, norms
        self.stem = Stem(task, embed)
        self.blocks = nn.ModuleList(self._block(ops, i) for i in range(blocks))
        self.head = Linear(WIDE + _ROOM * embed, task.num_classes)
        if not norms:
            leave_out_norms(self)

    def _block(self, ops: tuple[str, ...], i: int) -> Block:
        dense, tokens = (self.stem.dense, *(WIDE,) * i), len(self.task.vocabularies) + _ROOM * i
        joined = Size(dense, tokens, WIDE, LONG, self.embed, elastic=True)
        paired = Size((self._paired(dense),), tokens, WIDE, LONG, self.embed, elastic=True)
        made = {op: (DENSE | SPARSE)[op](paired if op in PAIRED else joined) for op in ops}
        return Block(made, FactorizationMachine(joined), projection(WIDE, TOKENS * self.embed, True))

    def _paired(self, dense: tuple[int, ...]) -> int:
        """Width of the left and of the right input of operators of two."""
        return max(dense)

    def subnet(self, arch: Arch) -> nn.Module:
        plans = plans_of(arch.genes)
        fits = len(plans) == len(self.blocks)
        if not fits or any(op not in self.ops for plan in plans for op in (plan.dense_op, plan.sparse_op)):
            raise UsageError(f"{arch} is not in this supernet; ask for that of {arch.space}")
        return Subnet(self, plans)

    def forward(self, x: Tensor, plans: Plans) -> Tensor:
        logits: Tensor = functional_call(self._skeleton(plans), self.weights(plans), (x,))
        return logits

    def _skeleton(self, plans: Plans) -> Network:
        return _skeleton(plans, self.task, self.embed, self.norms)

    def weights(self, plans: Plans) -> dict[str, Tensor]:
        """The weights of an architecture as its stand-alone network has them, views where possible."""
        mine, columns = dict(self.named_parameters()), self._columns(plans)
        cut = {}
        for name, alone in self._skeleton(plans).named_parameters():
            owned = columns.get(_reader(name))
            rows = mine[name][: len(alone)]
            cut[name] = rows[:, : alone.shape[1]] if owned is None and alone.ndim > 1 else rows
            if owned is not None:
                cut[name] = rows.index_select(1, torch.tensor(owned, device=rows.device))
        return cut

    def _columns(self, plans: Plans) -> dict[str, list[int]]:
        """By what reads them: the columns of the inputs of every block, and of the head."""
        dense, tokens = [list(range(self.stem.dense))], [list(range(len(self.task.vocabularies)))]
        columns = {}
        for i, plan in enumerate(plans):
            columns[f"blocks.{i}.reads_dense"] = [n for j in plan.dense_from for n in dense[j]]
            columns[f"blocks.{i}.reads_tokens"] = [n for j in plan.sparse_from for n in tokens[j]]
            own = [*range(plan.sparse_dim), *range(LONG, LONG + TOKENS * plan.interact)]
            dense.append([self.stem.dense + WIDE * i + n for n in range(plan.dense_dim)])
            tokens.append([len(self.task.vocabularies) + _ROOM * i + n for n in own])
        columns["head"] = [*range(plan.dense_dim), *(WIDE + n * self.embed + k for n in own for k in range(self.embed))]
        return columns


def _reader(parameter: str) -> str:
    """`blocks.3.reads_dense` for blocks.3.ops.linear-2d.reads_dense.linear.weight; "" for what reads no input."""
    match parameter.split("."):
        case ["blocks", i, "ops", _, ("reads_dense" | "reads_tokens") as which, "linear", "weight"]:
            return f"blocks.{i}.{which}"
        case ["head", "weight"]:
            return "head"
    return ""


@lru_cache(maxsize=64)
def _skeleton(plans: Plans, task: Task, embed: int, norms: bool) -> Network:
    """The stand-alone network without weights."""
    with torch.device("meta"):
        return Network(plans, task, embed, norms)


class PublishedSupernet(Supernet):
    """The authors' one: everything at full width, zeros and masks."""

    def _paired(self, dense: tuple[int, ...]) -> int:
        return sum(dense)

    def forward(self, x: Tensor, plans: Plans) -> Tensor:
        dense, sparse = ([first] for first in self.stem(x))
        for plan, block in zip(plans, self.blocks, strict=True):
            tokens = torch.cat(_chosen(sparse, plan.sparse_from), 1)
            inputs = _chosen(dense, plan.dense_from)
            if plan.dense_op in PAIRED:
                inputs = [torch.cat(_chosen(dense, (side,)), 1) for side in plan.dense_from]
            out, *made = block(plan, inputs, tokens, _mask(x, plan.dense_dim, WIDE), _mask(x, plan.sparse_dim, LONG))
            dense.append(out)
            sparse.append(torch.cat(made if plan.interact else [*made, out.new_zeros(len(x), TOKENS, self.embed)], 1))
        logits: Tensor = self.head(torch.cat([dense[-1], sparse[-1].flatten(1)], 1))
        return logits

    def weights(self, plans: Plans) -> Any:
        raise UsageError("no stand-alone network computes what the published supernet does; leave variant= out")


def _chosen(inputs: list[Tensor], places: tuple[int, ...]) -> list[Tensor]:
    return [x if j in places else torch.zeros_like(x) for j, x in enumerate(inputs)]


def _mask(x: Tensor, kept: int, of: int) -> Tensor:
    return (torch.arange(of, device=x.device) < kept).to(x.dtype)
