"""The operators of NASRec, which a block applies to the dense and sparse tensors that it reads.

Legend: B samples, D width of the dense inputs, T tokens of the sparse inputs, e width of a token,
D' and T' the output sizes. Dense tensors are (B, D), sparse ones (B, T, e).

As in the authors' code, a projection is omitted if its input already has the output width. The
layers that read the inputs of a block are always called `reads_dense` or `reads_tokens`; the
supernet relies on these names to find the columns of each input. As in the authors' code, weights
have Glorot initialisation, and the norms of the transformer start at 0.17.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS = 8
# If a block has `interact`, its dense output is cut into this many tokens.
INTERACT_TOKENS = 8
_TRANSFORMER_NORM_INIT = 0.17


@dataclass(frozen=True)
class OperatorSize:
    """Sizes of the inputs and outputs of an operator.

    Attributes:
        dense_widths: Width of every dense input.
        token_count: Number of tokens of all sparse inputs together.
        output_width: D', the width of the dense output.
        output_tokens: T', the number of tokens of the sparse output.
        embed: e, the width of a token.
        elastic: Whether smaller operators share these weights, as in a supernet. Then no projection
            is omitted.
    """

    dense_widths: tuple[int, ...]
    token_count: int
    output_width: int
    output_tokens: int
    embed: int
    elastic: bool = False


class GlorotLinear(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class GlorotEmbedding(nn.Embedding):
    def reset_parameters(self) -> None:
        nn.init.xavier_normal_(self.weight)


class Projection(nn.Sequential):
    """norm(W x)."""

    def __init__(self, cin: int, cout: int) -> None:
        linear = GlorotLinear(cin, cout, bias=False)
        super().__init__(OrderedDict(linear=linear, norm=nn.LayerNorm(cout)))


def build_projection(cin: int, cout: int, elastic: bool) -> nn.Module:
    """Return a projection, or the identity if the widths are equal and the layer is not elastic."""
    if elastic or cin != cout:
        return Projection(cin, cout)
    return nn.Identity()


def apply_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Multiply by the mask if there is one."""
    if mask is None:
        return x
    return x * mask


# --------------------------------------------------------- dense: (inputs, tokens) -> (B, D')


class Linear2d(nn.Module):
    """relu(norm(W [x1, x2, ...]))."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        self.reads_dense = Projection(sum(size.dense_widths), size.output_width)
        self.relu = nn.ReLU()

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        out: Tensor = self.relu(self.reads_dense(torch.cat(tuple(dense), 1)))
        return out


class DotProduct(nn.Module):
    """norm(W p), where p are the dot products of all pairs among k + 1 vectors.

    One vector comes from the dense inputs and k from the tokens; k = sqrt(2 D'), so that there are
    about D' pairs.
    """

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        k = round(sqrt(2 * size.output_width))
        pair_count = k * (k + 1) // 2
        self.reads_dense = build_projection(sum(size.dense_widths), size.embed, size.elastic)
        self.reads_tokens = build_projection(size.token_count, k, size.elastic)
        self.out = _build_output_layer(pair_count, size, bias=False)
        self.norm = nn.LayerNorm(size.output_width)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        dense_vector = self.reads_dense(torch.cat(tuple(dense), 1))[:, None]
        token_vectors = self.reads_tokens(tokens.mT).mT
        vectors = torch.cat([dense_vector, token_vectors], 1)  # (B, k + 1, e)
        count = vectors.shape[1]
        rows, columns = torch.tril_indices(count, count, -1, device=tokens.device)
        products = (vectors @ vectors.mT)[:, rows, columns]
        out: Tensor = self.norm(self.out(products))
        return out


class SigmoidGating(nn.Module):
    """norm(W (sigmoid(G left) * right)); the narrower input is padded with zeros."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        wider = max(size.dense_widths)
        self.gate = GlorotLinear(wider, wider)
        self.sigmoid = nn.Sigmoid()
        self.out = _build_output_layer(wider, size, bias=True)
        self.norm = nn.LayerNorm(size.output_width)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        left, right = _pad_to_equal_width(*dense)
        out: Tensor = self.norm(self.out(self.sigmoid(self.gate(left)) * right))
        return out


class Sum(nn.Module):
    """norm(W (left + right)); the narrower input is padded with zeros."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        self.out = _build_output_layer(max(size.dense_widths), size, bias=False)
        self.norm = nn.LayerNorm(size.output_width)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        left, right = _pad_to_equal_width(*dense)
        out: Tensor = self.norm(self.out(left + right))
        return out


def _build_output_layer(cin: int, size: OperatorSize, bias: bool) -> nn.Module:
    """Return a linear layer or the identity, without the norm of `build_projection`.

    The norm of these operators is never omitted, so they build it themselves.
    """
    if size.elastic or cin != size.output_width:
        return GlorotLinear(cin, size.output_width, bias)
    return nn.Identity()


def _pad_to_equal_width(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    missing = right.shape[1] - left.shape[1]
    return F.pad(left, (0, max(missing, 0))), F.pad(right, (0, max(-missing, 0)))


# -------------------------------------------------- sparse: (tokens, mask of T') -> (B, T', e)


class Linear3d(nn.Module):
    """relu(norm(W x)) along the tokens."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        self.reads_tokens = Projection(size.token_count, size.output_tokens)
        self.relu = nn.ReLU()

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        out = self.relu(self.reads_tokens(tokens.mT))
        return apply_mask(out, mask).mT


class TokenTransformer(nn.Module):
    """A projection along the tokens, y = norm(x + attention(x)), norm(y + W2 relu(W1 y))."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        embed = size.embed
        self.reads_tokens = Projection(size.token_count, size.output_tokens)
        self.attention = nn.MultiheadAttention(embed, HEADS, batch_first=True)
        self.fc1 = GlorotLinear(embed, embed)
        self.relu = nn.ReLU()
        self.fc2 = GlorotLinear(embed, embed)
        self.attention_norm = nn.LayerNorm(embed)
        self.fc_norm = nn.LayerNorm(embed)
        nn.init.xavier_uniform_(self.attention.out_proj.weight)
        nn.init.constant_(self.attention_norm.weight, _TRANSFORMER_NORM_INIT)
        nn.init.constant_(self.fc_norm.weight, _TRANSFORMER_NORM_INIT)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = apply_mask(self.reads_tokens(tokens.mT), mask).mT
        attended, _ = self.attention(x, x, x, need_weights=False)
        y = self.attention_norm(x + attended)
        out: Tensor = self.fc_norm(y + self.fc2(self.relu(self.fc1(y))))
        if mask is None:
            return out
        return apply_mask(out.mT, mask).mT


class FactorizationMachine(nn.Module):
    """norm(W ((sum of tokens)^2 - sum of (tokens^2))): (B, T, e) to (B, D')."""

    def __init__(self, size: OperatorSize) -> None:
        super().__init__()
        self.project = build_projection(size.embed, size.output_width, size.elastic)

    def forward(self, tokens: Tensor) -> Tensor:
        total = tokens.sum(1)
        out: Tensor = self.project(total * total - (tokens * tokens).sum(1))
        return out


DENSE_OPERATORS: dict[str, type[nn.Module]] = {
    "linear-2d": Linear2d,
    "dot-product": DotProduct,
    "sigmoid-gating": SigmoidGating,
    "sum": Sum,
}
SPARSE_OPERATORS: dict[str, type[nn.Module]] = {
    "transformer": TokenTransformer,
    "linear-3d": Linear3d,
}
