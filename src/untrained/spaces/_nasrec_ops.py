"""The operators of NASRec: what a block makes of the dense and of the sparse tensors that it reads.

Legend: B samples, D width of the dense inputs, T tokens of the sparse inputs, e width of a token, D' and T' what is
wanted. Dense tensors are (B, D), sparse ones (B, T, e).

As in the authors' code a projection is left out where its input has the wanted width already. What reads the inputs of
a block is called `reads_dense` or `reads_tokens` everywhere, so that a supernet knows whose columns are whose.
Initial weights are the authors': Glorot's, and 0.17 for the norms of the transformer.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS = 8
TOKENS = 8  # into which a dense tensor is cut when it joins the sparse ones
_SMALL = 0.17  # first weights of the transformer's norms


@dataclass(frozen=True)
class Size:
    """What an operator reads and makes. `elastic`: other sizes will be cut out, so no projection may be left out."""

    dense: tuple[int, ...]  # width of every dense input
    tokens: int  # of all sparse inputs together
    wide: int  # D'
    long: int  # T'
    embed: int
    elastic: bool = False


class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        nn.init.xavier_normal_(self.weight)


class Projection(nn.Sequential):
    """norm(W x)."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__(OrderedDict(linear=Linear(cin, cout, bias=False), norm=nn.LayerNorm(cout)))


def projection(cin: int, cout: int, elastic: bool) -> nn.Module:
    return Projection(cin, cout) if elastic or cin != cout else nn.Identity()


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


# ------------------------------------------------------------------------------- dense: (inputs, tokens) -> (B, D')


class Linear2d(nn.Module):
    """relu(norm(W [x1, x2, ...]))."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.reads_dense, self.relu = Projection(sum(size.dense), size.wide), nn.ReLU()

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        out: Tensor = self.relu(self.reads_dense(torch.cat(tuple(dense), 1)))
        return out


class DotProduct(nn.Module):
    """norm(W p): p holds the products of every two of k + 1 vectors, one made of the dense inputs and k of the tokens,
    where k = sqrt(2 D'), so that there are about D' pairs."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        k = round(sqrt(2 * size.wide))
        pairs = k * (k + 1) // 2
        self.reads_dense = projection(sum(size.dense), size.embed, size.elastic)
        self.reads_tokens = projection(size.tokens, k, size.elastic)
        self.out = _plain(pairs, size, bias=False)
        self.norm = nn.LayerNorm(size.wide)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        one = self.reads_dense(torch.cat(tuple(dense), 1))[:, None]
        rows = torch.cat([one, self.reads_tokens(tokens.mT).mT], 1)  # (B, k + 1, e)
        i, j = torch.tril_indices(rows.shape[1], rows.shape[1], -1, device=tokens.device)
        products = (rows @ rows.mT)[:, i, j]
        out: Tensor = self.norm(self.out(products))
        return out


class SigmoidGating(nn.Module):
    """norm(W (sigmoid(G left) * right)), the narrower of the two filled up with zeros."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        wider = max(size.dense)
        self.gate, self.sigmoid = Linear(wider, wider), nn.Sigmoid()
        self.out = _plain(wider, size, bias=True)
        self.norm = nn.LayerNorm(size.wide)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        left, right = _padded(*dense)
        out: Tensor = self.norm(self.out(self.sigmoid(self.gate(left)) * right))
        return out


class Sum(nn.Module):
    """norm(W (left + right)), the narrower of the two filled up with zeros."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.out = _plain(max(size.dense), size, bias=False)
        self.norm = nn.LayerNorm(size.wide)

    def forward(self, dense: Sequence[Tensor], tokens: Tensor) -> Tensor:
        left, right = _padded(*dense)
        out: Tensor = self.norm(self.out(left + right))
        return out


def _plain(cin: int, size: Size, bias: bool) -> nn.Module:
    """A projection whose norm stays when it is left out itself."""
    return Linear(cin, size.wide, bias) if size.elastic or cin != size.wide else nn.Identity()


def _padded(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    more = right.shape[1] - left.shape[1]
    return F.pad(left, (0, max(more, 0))), F.pad(right, (0, max(-more, 0)))


# --------------------------------------------------------------- sparse: (tokens, mask of the T') -> (B, T', e)


class Linear3d(nn.Module):
    """relu(norm(W x)) along the tokens."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.reads_tokens, self.relu = Projection(size.tokens, size.long), nn.ReLU()

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return masked(self.relu(self.reads_tokens(tokens.mT)), mask).mT


class Transformer(nn.Module):
    """A projection along the tokens, then y = norm(x + attention(x)) and norm(y + W2 relu(W1 y))."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        e = size.embed
        self.reads_tokens = Projection(size.tokens, size.long)
        self.attention = nn.MultiheadAttention(e, HEADS, batch_first=True)
        self.fc1, self.relu, self.fc2 = Linear(e, e), nn.ReLU(), Linear(e, e)
        self.attention_norm, self.fc_norm = nn.LayerNorm(e), nn.LayerNorm(e)
        nn.init.xavier_uniform_(self.attention.out_proj.weight)
        for norm in (self.attention_norm, self.fc_norm):
            nn.init.constant_(norm.weight, _SMALL)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = masked(self.reads_tokens(tokens.mT), mask).mT
        y = self.attention_norm(x + self.attention(x, x, x, need_weights=False)[0])
        out = self.fc_norm(y + self.fc2(self.relu(self.fc1(y))))
        return out if mask is None else masked(out.mT, mask).mT


class FactorizationMachine(nn.Module):
    """norm(W ((sum of tokens)^2 - sum of (tokens^2))): (B, T, e) to (B, D')."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.project = projection(size.embed, size.wide, size.elastic)

    def forward(self, tokens: Tensor) -> Tensor:
        total = tokens.sum(1)
        out: Tensor = self.project(total * total - (tokens * tokens).sum(1))
        return out


DENSE: dict[str, type[nn.Module]] = {
    "linear-2d": Linear2d,
    "dot-product": DotProduct,
    "sigmoid-gating": SigmoidGating,
    "sum": Sum,
}
SPARSE: dict[str, type[nn.Module]] = {"transformer": Transformer, "linear-3d": Linear3d}
