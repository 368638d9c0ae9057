"""Supernets of NASRec: one set of weights for all architectures of a space.

There are two variants, because the architectures in the published supernet are not equal to their
stand-alone networks:

* `default`: An architecture uses some rows and columns of every weight, and computes the same
  function as its stand-alone network. Every entry of an earlier tensor has its own column. Paired
  operators, which add or multiply their two inputs entry by entry, use the leading columns. All
  operators use the leading rows.
* `published`: All tensors have their full width. Inputs that are not read are replaced by zeros,
  and outputs beyond the width of an architecture are masked. Norms are computed over the full
  width, a dot product always reads 45 tokens, and zero tokens take part in attention. No
  stand-alone network computes the same function, so weights cannot be extracted.
"""

from collections.abc import Collection
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call

from untrained.errors import UsageError
from untrained.spaces.core.supernet import ElasticSubnet
from untrained.spaces.nasrec.blocks import (
    PAIRED_OPERATORS,
    BlockSpec,
    BlockSpecs,
    make_block_specs,
)
from untrained.spaces.nasrec.network import (
    NasrecBlock,
    NasrecNetwork,
    TableStem,
    remove_layer_norms,
)
from untrained.spaces.nasrec.operators import (
    DENSE_OPERATORS,
    INTERACT_TOKENS,
    SPARSE_OPERATORS,
    FactorizationMachine,
    GlorotLinear,
    OperatorSize,
    build_projection,
)
from untrained.types import Arch, Task

MAX_DENSE_DIM = 1024
MAX_SPARSE_DIM = 64
# Tokens of the largest sparse output: those of its operator, and those cut from the dense output.
_MAX_TOKENS = MAX_SPARSE_DIM + INTERACT_TOKENS
_OPERATORS = DENSE_OPERATORS | SPARSE_OPERATORS


class NasrecSupernet(nn.Module):
    """Every operator of every block at its largest size."""

    def __init__(
        self, ops: tuple[str, ...], task: Task, blocks: int, embed: int, norms: bool = True
    ) -> None:
        super().__init__()
        self.task = task
        self.ops = ops
        self.embed = embed
        self.norms = norms
        self.stem = TableStem(task, embed)
        self.blocks = nn.ModuleList(self._build_block(index) for index in range(blocks))
        self.head = GlorotLinear(MAX_DENSE_DIM + _MAX_TOKENS * embed, task.num_classes)
        if not norms:
            remove_layer_norms(self)

    def _build_block(self, index: int) -> NasrecBlock:
        """Build block `index`, which can read the table and all earlier blocks."""
        dense_widths = (self.stem.dense_width, *(MAX_DENSE_DIM,) * index)
        token_count = len(self.task.vocabularies) + _MAX_TOKENS * index
        joined_size = self._make_size(dense_widths, token_count)
        paired_size = self._make_size((self._compute_paired_width(dense_widths),), token_count)
        operators = {}
        for op in self.ops:
            size = joined_size
            if op in PAIRED_OPERATORS:
                size = paired_size
            operator_type = _OPERATORS[op]
            operators[op] = operator_type(size)
        fm = FactorizationMachine(joined_size)
        interact = build_projection(MAX_DENSE_DIM, INTERACT_TOKENS * self.embed, elastic=True)
        return NasrecBlock(operators, fm, interact)

    def _make_size(self, dense_widths: tuple[int, ...], token_count: int) -> OperatorSize:
        return OperatorSize(
            dense_widths=dense_widths,
            token_count=token_count,
            output_width=MAX_DENSE_DIM,
            output_tokens=MAX_SPARSE_DIM,
            embed=self.embed,
            elastic=True,
        )

    def _compute_paired_width(self, dense_widths: tuple[int, ...]) -> int:
        """Return the width of the left and of the right input of paired operators."""
        return max(dense_widths)

    def subnet(self, arch: Arch) -> nn.Module:
        """Return the network of `arch`, which uses the weights of this supernet."""
        specs = make_block_specs(arch.genes)
        is_member = len(specs) == len(self.blocks)
        for spec in specs:
            if spec.dense_op not in self.ops or spec.sparse_op not in self.ops:
                is_member = False
        if not is_member:
            raise UsageError(f"{arch} is not in this supernet; use the supernet of {arch.space}")
        return ElasticSubnet(self, specs)

    def forward(self, x: Tensor, specs: BlockSpecs) -> Tensor:
        network = self._make_skeleton(specs)
        logits: Tensor = functional_call(network, self.weights(specs), (x,))
        return logits

    def _make_skeleton(self, specs: BlockSpecs) -> NasrecNetwork:
        return _build_skeleton(specs, self.task, self.embed, self.norms)

    def weights(self, specs: BlockSpecs) -> dict[str, Tensor]:
        """Return the weights of the stand-alone network, as views where possible."""
        shared = dict(self.named_parameters())
        columns_by_reader = self._select_columns(specs)
        weights = {}
        for name, parameter in self._make_skeleton(specs).named_parameters():
            rows = shared[name][: len(parameter)]
            columns = columns_by_reader.get(_find_reader(name))
            if columns is not None:
                indices = torch.tensor(columns, device=rows.device)
                weights[name] = rows.index_select(1, indices)
            elif parameter.ndim > 1:
                weights[name] = rows[:, : parameter.shape[1]]
            else:
                weights[name] = rows
        return weights

    def _select_columns(self, specs: BlockSpecs) -> dict[str, list[int]]:
        """Return the columns that the weights of each block and of the head use.

        `_find_reader` returns the key for a weight.
        """
        # Columns of every tensor so far, in a concatenation of all tensors at their largest size.
        dense_columns = [list(range(self.stem.dense_width))]
        token_columns = [list(range(len(self.task.vocabularies)))]
        columns = {}
        for index, spec in enumerate(specs):
            dense_read = []
            for source in spec.dense_from:
                dense_read += dense_columns[source]
            tokens_read = []
            for source in spec.sparse_from:
                tokens_read += token_columns[source]
            columns[f"blocks.{index}.reads_dense"] = dense_read
            columns[f"blocks.{index}.reads_tokens"] = tokens_read
            dense_start = self.stem.dense_width + MAX_DENSE_DIM * index
            dense_columns.append([dense_start + column for column in range(spec.dense_dim)])
            token_start = len(self.task.vocabularies) + _MAX_TOKENS * index
            token_columns.append([token_start + token for token in _list_output_tokens(spec)])
        # The head reads the dense output of the last block and all entries of its tokens.
        last_spec = specs[-1]
        head_columns = list(range(last_spec.dense_dim))
        for token in _list_output_tokens(last_spec):
            start = MAX_DENSE_DIM + token * self.embed
            head_columns += range(start, start + self.embed)
        columns["head"] = head_columns
        return columns


def _list_output_tokens(spec: BlockSpec) -> list[int]:
    """Return the tokens of the largest sparse output that a block computes."""
    tokens = list(range(spec.sparse_dim))
    if spec.interact:
        tokens += range(MAX_SPARSE_DIM, MAX_SPARSE_DIM + INTERACT_TOKENS)
    return tokens


def _find_reader(parameter_name: str) -> str:
    """Return the key of `_select_columns` for a weight, or "" if it does not read inputs.

    `blocks.3.ops.linear-2d.reads_dense.linear.weight` gives `blocks.3.reads_dense`.
    """
    match parameter_name.split("."):
        case ["blocks", index, "ops", _, ("reads_dense" | "reads_tokens") as reader, *rest]:
            if rest == ["linear", "weight"]:
                return f"blocks.{index}.{reader}"
        case ["head", "weight"]:
            return "head"
    return ""


@lru_cache(maxsize=64)
def _build_skeleton(specs: BlockSpecs, task: Task, embed: int, norms: bool) -> NasrecNetwork:
    """Return the stand-alone network without memory for weights."""
    with torch.device("meta"):
        return NasrecNetwork(specs, task, embed, norms)


class PublishedNasrecSupernet(NasrecSupernet):
    """The authors' supernet: all tensors have their full width, with zeros and masks."""

    def _compute_paired_width(self, dense_widths: tuple[int, ...]) -> int:
        return sum(dense_widths)

    def forward(self, x: Tensor, specs: BlockSpecs) -> Tensor:
        dense_input, sparse_input = self.stem(x)
        dense = [dense_input]
        sparse = [sparse_input]
        for spec, block in zip(specs, self.blocks, strict=True):
            tokens = torch.cat(_zero_others(sparse, spec.sparse_from), 1)
            if spec.dense_op in PAIRED_OPERATORS:
                # Left and right are concatenations of all tensors, of which all but one are zeros.
                inputs = []
                for side in spec.dense_from:
                    inputs.append(torch.cat(_zero_others(dense, (side,)), 1))
            else:
                inputs = _zero_others(dense, spec.dense_from)
            dense_mask = _make_mask(x, spec.dense_dim, MAX_DENSE_DIM)
            sparse_mask = _make_mask(x, spec.sparse_dim, MAX_SPARSE_DIM)
            dense_out, *sparse_parts = block(spec, inputs, tokens, dense_mask, sparse_mask)
            if not spec.interact:
                sparse_parts.append(dense_out.new_zeros(len(x), INTERACT_TOKENS, self.embed))
            dense.append(dense_out)
            sparse.append(torch.cat(sparse_parts, 1))
        features = torch.cat([dense[-1], sparse[-1].flatten(1)], 1)
        logits: Tensor = self.head(features)
        return logits

    def weights(self, specs: BlockSpecs) -> dict[str, Tensor]:
        raise UsageError(
            "no stand-alone network computes what the published supernet does; "
            "leave out variant=published"
        )


def _zero_others(tensors: list[Tensor], kept: Collection[int]) -> list[Tensor]:
    """Replace the tensors whose index is not in `kept` by zeros."""
    result = []
    for index, tensor in enumerate(tensors):
        if index in kept:
            result.append(tensor)
        else:
            result.append(torch.zeros_like(tensor))
    return result


def _make_mask(x: Tensor, kept: int, size: int) -> Tensor:
    """Return `kept` ones followed by zeros, in the dtype and on the device of `x`."""
    return (torch.arange(size, device=x.device) < kept).to(x.dtype)
