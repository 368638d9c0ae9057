"""The network of a NASRec architecture: rows of a table to logits, block by block.

Two streams run through it: dense tensors (B, D), at first the dense columns, and sparse ones (B, T, e), at first an
embedding for every column of identifiers. A block reads some of what came before, of either stream, and adds one
tensor to each. The head reads the two tensors of the last block.

Where the authors' code has a corner, and what we do:
* A factorisation machine whose output is as wide as a token has no projection; the authors build its norm all the same
  and never use it. We do not build it: 2 e parameters less for each such block.
* The tokens that a block makes of its dense output leave out what its factorisation machine adds, except where that
  output is 8 e wide, so that it needs no projection: there an in-place sum reaches them too. So it does here.
* Avazu has no dense column; the authors give it one of zeros. Any table without a dense column gets that here.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.spaces._nasrec_ops import (
    DENSE,
    HEADS,
    SPARSE,
    TOKENS,
    Embedding,
    FactorizationMachine,
    Linear,
    Size,
    masked,
    projection,
)
from untrained.spaces._nasrec_plan import Plan, Plans
from untrained.types import Task


class Network(nn.Module):
    """Rows (B, columns) to logits (B, classes)."""

    def __init__(self, plans: Plans, task: Task, embed: int, norms: bool = True) -> None:
        super().__init__()
        self.plans = plans
        self.stem = Stem(task, embed)
        dense, tokens = [self.stem.dense], [len(task.vocabularies)]
        self.blocks = nn.ModuleList()
        for plan in plans:
            widths, count = tuple(dense[j] for j in plan.dense_from), sum(tokens[j] for j in plan.sparse_from)
            size = Size(widths, count, plan.dense_dim, plan.sparse_dim, embed)
            self.blocks.append(Block.of(plan, size))
            dense.append(plan.dense_dim)
            tokens.append(plan.sparse_dim + TOKENS * plan.interact)
        self.head = Linear(dense[-1] + tokens[-1] * embed, task.num_classes)
        if not norms:
            leave_out_norms(self)

    def forward(self, x: Tensor) -> Tensor:
        dense, sparse = ([first] for first in self.stem(x))
        for plan, block in zip(self.plans, self.blocks, strict=True):
            tokens = torch.cat([sparse[j] for j in plan.sparse_from], 1)
            out, *made = block(plan, [dense[j] for j in plan.dense_from], tokens)
            dense.append(out)
            sparse.append(torch.cat(made, 1))
        logits: Tensor = self.head(torch.cat([dense[-1], sparse[-1].flatten(1)], 1))
        return logits


def leave_out_norms(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.LayerNorm):
            setattr(module, name, nn.Identity())
        else:
            leave_out_norms(child)


class Stem(nn.Module):
    """A row to its dense columns (B, D) and to a token for each identifier (B, T, e).

    Identifiers are whole numbers held as floats. A number beyond a table wraps around, and no gradient goes through
    it: a proxy may show the network any real row, and a GPU would not survive a place that is not there.
    """

    def __init__(self, task: Task, embed: int) -> None:
        super().__init__()
        known = len(task.vocabularies)
        if len(task.input_shape) != 1 or not 0 < known <= task.input_shape[0]:
            raise UsageError(f"{task} is no table with columns of identifiers; for rows of numbers take the space mlp")
        if embed < HEADS or embed % HEADS:
            raise UsageError(f"embedding_dim={embed} is no multiple of the {HEADS} heads of attention; 16 is published")
        self.dense = max(task.input_shape[0] - known, 1)
        self.sizes = task.vocabularies
        self.tables = nn.ModuleList(Embedding(size, embed) for size in self.sizes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        columns = x.shape[1] - len(self.sizes)
        identifiers = x[:, columns:].detach().round().long().unbind(1)
        found = zip(self.tables, identifiers, self.sizes, strict=True)
        tokens = [table(each % size) for table, each, size in found]
        return x[:, :columns] if columns else x.new_zeros(len(x), 1), torch.stack(tokens, 1)


class Block(nn.Module):
    """Operators by name, of which a plan picks two; the factorisation machine; the way from dense to tokens."""

    def __init__(self, ops: dict[str, nn.Module], fm: nn.Module | None, interact: nn.Module | None) -> None:
        super().__init__()
        self.ops, self.fm, self.interact = nn.ModuleDict(ops), fm, interact

    @classmethod
    def of(cls, plan: Plan, size: Size) -> "Block":
        """The block that has what the plan needs and nothing else."""
        ops = {plan.dense_op: DENSE[plan.dense_op](size), plan.sparse_op: SPARSE[plan.sparse_op](size)}
        fm = FactorizationMachine(size) if plan.fm else None
        return cls(ops, fm, projection(size.wide, TOKENS * size.embed, False) if plan.interact else None)

    def forward(
        self,
        plan: Plan,
        dense: Sequence[Tensor],
        tokens: Tensor,
        wide: Tensor | None = None,
        long: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """The dense output, the sparse one, and the dense one as tokens if the plan wants it; `wide` and `long` are
        masks."""
        before = out = masked(self.ops[plan.dense_op](dense, tokens), wide)
        made = self.ops[plan.sparse_op](tokens, long)
        if plan.fm and self.fm is not None:
            out = out + masked(self.fm(made), wide)
        if not plan.interact or self.interact is None:
            return out, made
        cut: Tensor = out if isinstance(self.interact, nn.Identity) else self.interact(before)
        return out, made, cut.reshape(len(cut), TOKENS, -1)
