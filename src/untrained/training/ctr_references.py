"""Hand-made networks for clicks, to hold found ones against: `REFERENCES["dlrm"](task)` takes rows (N, columns) of a
table and gives logits (N, 1).

logistic  logistic regression, one weight an identifier
dlrm      dot products of all pairs of embeddings, and of the dense columns as one more (Naumov et al. 2019)
deepfm    a factorisation machine and a deep network on the same embeddings (Guo et al. 2017)
autoint   self-attention among embeddings beside a deep network (AutoInt+, Song et al. 2019)

Small on purpose: embeddings of 16 numbers and layers of 128 and 64. Embeddings begin as in the space they are compared
with: from much smaller numbers dot products hardly move at first, and DLRM would look worse than it is. A table may
have no dense columns or no identifiers.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from untrained.types import Task

EMBEDDING = 16
HIDDEN = (128, 64)


class Embeddings(nn.Module):
    """Rows (N, columns) -> dense columns (N, D) and the vectors of their identifiers (N, F, width). All columns share
    one table, each from its own offset on."""

    offsets: Tensor

    def __init__(self, task: Task, width: int = EMBEDDING) -> None:
        super().__init__()
        sizes = torch.tensor((0, *task.vocabularies))
        self.dense, self.fields = task.input_shape[0] - len(task.vocabularies), len(task.vocabularies)
        self.register_buffer("offsets", sizes.cumsum(0)[:-1], persistent=False)
        self.table = nn.Embedding(max(int(sizes.sum()), 1), width)
        for rows in self.table.weight.data.split([*task.vocabularies] or [1]):  # type: ignore[no-untyped-call]
            nn.init.xavier_normal_(rows)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows[:, : self.dense], self.table(rows[:, self.dense :].long() + self.offsets)


class Logistic(nn.Module):
    """logit = b + <w, dense> + sum over fields of the weight of the identifier."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.weights = Embeddings(task, 1)
        self.slopes = nn.Parameter(torch.zeros(self.weights.dense, 1))
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.weights.table.weight)

    def forward(self, rows: Tensor) -> Tensor:
        dense, weights = self.weights(rows)
        return self.bias + dense @ self.slopes + weights.sum(1)  # type: ignore[no-any-return]


class Dlrm(nn.Module):
    """The dense columns become one more vector; a network sees it and the dot products of all pairs."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.bottom = mlp(self.embed.dense, HIDDEN[1], EMBEDDING) if self.embed.dense else None
        vectors = self.embed.fields + (self.bottom is not None)
        self.top = mlp(vectors * (vectors - 1) // 2 + EMBEDDING * (self.bottom is not None), *HIDDEN, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        if self.bottom is None:
            return self.top(pairs(vectors))  # type: ignore[no-any-return]
        first = self.bottom(dense)
        return self.top(torch.cat([first, pairs(torch.cat([first[:, None], vectors], 1))], 1))  # type: ignore[no-any-return]


class DeepFm(nn.Module):
    """Logistic regression + the sum of all pairwise dot products + a network on dense columns and embeddings."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.first, self.embed = Logistic(task), Embeddings(task)
        self.deep = mlp(self.embed.dense + self.embed.fields * EMBEDDING, *HIDDEN, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        second = (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1, keepdim=True) / 2
        deep: Tensor = self.deep(torch.cat([dense, vectors.flatten(1)], 1))
        return self.first(rows) + second + deep  # type: ignore[no-any-return]


class AutoInt(nn.Module):
    """Layers of self-attention among the vectors of a row; a dense column is a vector times its value."""

    def __init__(self, task: Task, layers: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.directions = nn.Parameter(torch.randn(self.embed.dense, EMBEDDING) * 0.03)
        self.attend = nn.ModuleList(nn.MultiheadAttention(EMBEDDING, heads, batch_first=True) for _ in range(layers))
        self.pass_on = nn.ModuleList(nn.Linear(EMBEDDING, EMBEDDING) for _ in range(layers))
        width = (self.embed.dense + self.embed.fields) * EMBEDDING
        self.head, self.deep = nn.Linear(width, 1), mlp(width, *HIDDEN, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        seen = first = torch.cat([dense[..., None] * self.directions, vectors], 1)
        for attend, pass_on in zip(self.attend, self.pass_on, strict=True):
            seen = torch.relu(attend(seen, seen, seen, need_weights=False)[0] + pass_on(seen))
        return self.head(seen.flatten(1)) + self.deep(first.flatten(1))  # type: ignore[no-any-return]


def pairs(vectors: Tensor) -> Tensor:
    """(N, F, width) -> the dot product of each pair once, (N, F (F - 1) / 2)."""
    first, second = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1, device=vectors.device)
    return (vectors @ vectors.transpose(1, 2))[:, first, second]


def mlp(*widths: int) -> nn.Sequential:
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


REFERENCES: dict[str, Callable[[Task], nn.Module]] = {
    "logistic": Logistic,
    "dlrm": Dlrm,
    "deepfm": DeepFm,
    "autoint": AutoInt,
}
