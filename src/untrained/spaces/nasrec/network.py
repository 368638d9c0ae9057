"""The network of a NASRec architecture, which turns rows of a table into logits.

The network has two streams of tensors. Dense tensors have the shape (B, D); the first one contains
the dense columns. Sparse tensors have the shape (B, T, e); the first one contains an embedding for
each column of identifiers. A block reads some of the earlier tensors of both streams and appends
one tensor to each stream. The head reads the two tensors of the last block.

Special cases in the authors' code, and what we do:
* A factorisation machine whose output is as wide as a token has no projection. The authors build
  the norm of that projection and never use it. We do not build it, so each such block has 2 e
  fewer parameters.
* A block cuts its dense output into tokens before its factorisation machine is added. If the dense
  output is 8 e wide, it needs no projection to tokens, and then an in-place sum in the authors'
  code changes the tokens too. We reproduce this.
* Avazu has no dense column, so the authors add a column of zeros. We do this for every table
  without a dense column.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.spaces.nasrec.blocks import BlockSpec, BlockSpecs
from untrained.spaces.nasrec.operators import (
    DENSE_OPERATORS,
    HEADS,
    INTERACT_TOKENS,
    SPARSE_OPERATORS,
    FactorizationMachine,
    GlorotEmbedding,
    GlorotLinear,
    OperatorSize,
    apply_mask,
    build_projection,
)
from untrained.types import Task


class NasrecNetwork(nn.Module):
    """Turns rows (B, columns) into logits (B, classes)."""

    def __init__(self, specs: BlockSpecs, task: Task, embed: int, norms: bool = True) -> None:
        super().__init__()
        self.specs = specs
        self.stem = TableStem(task, embed)
        # Sizes of all tensors of the two streams so far.
        dense_widths = [self.stem.dense_width]
        token_counts = [len(task.vocabularies)]
        self.blocks = nn.ModuleList()
        for spec in specs:
            size = OperatorSize(
                dense_widths=tuple(dense_widths[source] for source in spec.dense_from),
                token_count=sum(token_counts[source] for source in spec.sparse_from),
                output_width=spec.dense_dim,
                output_tokens=spec.sparse_dim,
                embed=embed,
            )
            self.blocks.append(NasrecBlock.from_spec(spec, size))
            dense_widths.append(spec.dense_dim)
            token_counts.append(count_output_tokens(spec))
        self.head = GlorotLinear(dense_widths[-1] + token_counts[-1] * embed, task.num_classes)
        if not norms:
            remove_layer_norms(self)

    def forward(self, x: Tensor) -> Tensor:
        dense_input, sparse_input = self.stem(x)
        dense = [dense_input]
        sparse = [sparse_input]
        for spec, block in zip(self.specs, self.blocks, strict=True):
            tokens = torch.cat([sparse[source] for source in spec.sparse_from], 1)
            inputs = [dense[source] for source in spec.dense_from]
            dense_out, *sparse_parts = block(spec, inputs, tokens)
            dense.append(dense_out)
            sparse.append(torch.cat(sparse_parts, 1))
        features = torch.cat([dense[-1], sparse[-1].flatten(1)], 1)
        logits: Tensor = self.head(features)
        return logits


def count_output_tokens(spec: BlockSpec) -> int:
    """Return the tokens of the sparse output of a block."""
    if spec.interact:
        return spec.sparse_dim + INTERACT_TOKENS
    return spec.sparse_dim


def remove_layer_norms(module: nn.Module) -> None:
    """Replace every layer norm by the identity."""
    for name, child in module.named_children():
        if isinstance(child, nn.LayerNorm):
            setattr(module, name, nn.Identity())
        else:
            remove_layer_norms(child)


class TableStem(nn.Module):
    """Split rows into dense columns (B, D) and embed their identifiers as tokens (B, T, e).

    Identifiers are whole numbers stored as floats. Other numbers are rounded, and those outside of
    the vocabulary wrap around, because a proxy may pass any real numbers and an index out of range
    would crash the GPU process. Identifiers have no gradient.
    """

    def __init__(self, task: Task, embed: int) -> None:
        super().__init__()
        identifier_count = len(task.vocabularies)
        is_table = len(task.input_shape) == 1
        if not is_table or not 0 < identifier_count <= task.input_shape[0]:
            raise UsageError(
                f"{task} is not a table with columns of identifiers; "
                "for rows of numbers use the space mlp"
            )
        if embed < HEADS or embed % HEADS:
            raise UsageError(
                f"embedding_dim={embed} is not divisible by the {HEADS} attention heads; "
                "the paper uses 16"
            )
        self.dense_width = max(task.input_shape[0] - identifier_count, 1)
        self.sizes = task.vocabularies
        self.tables = nn.ModuleList(GlorotEmbedding(size, embed) for size in self.sizes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        dense_count = x.shape[1] - len(self.sizes)
        identifiers = x[:, dense_count:].detach().round().long().unbind(1)
        tokens = []
        for table, column, size in zip(self.tables, identifiers, self.sizes, strict=True):
            tokens.append(table(column % size))
        if dense_count:
            dense = x[:, :dense_count]
        else:
            dense = x.new_zeros(len(x), 1)
        return dense, torch.stack(tokens, 1)


class NasrecBlock(nn.Module):
    """A block of a network or of a supernet.

    Args:
        ops: Operators by name; a spec selects two of them.
        fm: Factorisation machine, if there is one.
        interact: Projection of the dense output to tokens, if there is one.
    """

    def __init__(
        self, ops: dict[str, nn.Module], fm: nn.Module | None, interact: nn.Module | None
    ) -> None:
        super().__init__()
        self.ops = nn.ModuleDict(ops)
        self.fm = fm
        self.interact = interact

    @classmethod
    def from_spec(cls, spec: BlockSpec, size: OperatorSize) -> "NasrecBlock":
        """Return a block that contains only what the spec uses."""
        ops = {
            spec.dense_op: DENSE_OPERATORS[spec.dense_op](size),
            spec.sparse_op: SPARSE_OPERATORS[spec.sparse_op](size),
        }
        fm = None
        if spec.fm:
            fm = FactorizationMachine(size)
        interact = None
        if spec.interact:
            interact = build_projection(
                size.output_width, INTERACT_TOKENS * size.embed, elastic=False
            )
        return cls(ops, fm, interact)

    def forward(
        self,
        spec: BlockSpec,
        dense: Sequence[Tensor],
        tokens: Tensor,
        dense_mask: Tensor | None = None,
        sparse_mask: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the dense output, the sparse output and, with `interact`, further tokens."""
        dense_out = apply_mask(self.ops[spec.dense_op](dense, tokens), dense_mask)
        sparse_out = self.ops[spec.sparse_op](tokens, sparse_mask)
        total = dense_out
        if spec.fm and self.fm is not None:
            total = dense_out + apply_mask(self.fm(sparse_out), dense_mask)
        if not spec.interact or self.interact is None:
            return total, sparse_out
        if isinstance(self.interact, nn.Identity):
            # Reproduces the in-place sum of the authors' code; see the docstring of this module.
            dense_tokens = total
        else:
            dense_tokens = self.interact(dense_out)
        return total, sparse_out, dense_tokens.reshape(len(dense_tokens), INTERACT_TOKENS, -1)
