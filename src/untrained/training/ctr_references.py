"""Hand-made networks for click prediction, as references for networks that a search finds.

`REFERENCES["dlrm"](task)` builds a network that maps rows (N, columns) of a table to logits (N, 1).

logistic  logistic regression, one weight per identifier
dlrm      dot products of all pairs of embeddings, with the dense columns as one more embedding
          (Naumov et al. 2019)
deepfm    a factorisation machine and a deep network on the same embeddings (Guo et al. 2017)
autoint   self-attention among embeddings beside a deep network (AutoInt+, Song et al. 2019)

They are small on purpose: embeddings of 16 numbers and layers of 128 and 64. Embeddings are
initialised as in the space they are compared with. With much smaller initial values the dot products
hardly move at first, and DLRM would look worse than it is. A table may have no dense columns or no
identifiers.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from untrained.types import Task

EMBEDDING_WIDTH = 16
HIDDEN_WIDTHS = (128, 64)


class Embeddings(nn.Module):
    """Split rows into dense columns and the embeddings of their identifiers.

    Maps rows (N, columns) to dense columns (N, D) and embeddings (N, F, width). All identifier
    columns share one table, in which each column starts at its own offset.
    """

    offsets: Tensor

    def __init__(self, task: Task, width: int = EMBEDDING_WIDTH) -> None:
        super().__init__()
        sizes = torch.tensor((0, *task.vocabularies))
        self.fields = len(task.vocabularies)
        self.dense = task.input_shape[0] - self.fields
        self.register_buffer("offsets", sizes.cumsum(0)[:-1], persistent=False)
        # A table without identifiers still needs one row, because torch refuses an empty table.
        self.table = nn.Embedding(max(int(sizes.sum()), 1), width)
        rows_per_column = list(task.vocabularies) or [1]
        for rows in self.table.weight.data.split(rows_per_column):  # type: ignore[no-untyped-call]
            nn.init.xavier_normal_(rows)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        identifiers = rows[:, self.dense :].long() + self.offsets
        return rows[:, : self.dense], self.table(identifiers)


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
        logits: Tensor = self.bias + dense @ self.slopes + weights.sum(1)
        return logits


class Dlrm(nn.Module):
    """A network on one embedding of the dense columns and the dot products of all pairs."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.bottom: nn.Module | None = None
        vectors = self.embed.fields
        dense_width = 0
        if self.embed.dense:
            self.bottom = make_mlp(self.embed.dense, HIDDEN_WIDTHS[1], EMBEDDING_WIDTH)
            vectors += 1
            dense_width = EMBEDDING_WIDTH
        pairs = vectors * (vectors - 1) // 2
        self.top = make_mlp(pairs + dense_width, *HIDDEN_WIDTHS, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        if self.bottom is None:
            features = multiply_pairs(vectors)
        else:
            dense_vector = self.bottom(dense)
            vectors = torch.cat([dense_vector[:, None], vectors], 1)
            features = torch.cat([dense_vector, multiply_pairs(vectors)], 1)
        logits: Tensor = self.top(features)
        return logits


class DeepFm(nn.Module):
    """Logistic regression + all pairwise dot products + a network on the columns and embeddings."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.first = Logistic(task)
        self.embed = Embeddings(task)
        width = self.embed.dense + self.embed.fields * EMBEDDING_WIDTH
        self.deep = make_mlp(width, *HIDDEN_WIDTHS, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        # The sum over all pairs is half the square of the sum without the squares of the terms.
        second = (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1, keepdim=True) / 2
        deep = self.deep(torch.cat([dense, vectors.flatten(1)], 1))
        logits: Tensor = self.first(rows) + second + deep
        return logits


class AutoInt(nn.Module):
    """Self-attention among the vectors of a row; a dense column is a learned vector times its value."""

    def __init__(self, task: Task, layers: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.directions = nn.Parameter(torch.randn(self.embed.dense, EMBEDDING_WIDTH) * 0.03)
        self.attend = nn.ModuleList(
            nn.MultiheadAttention(EMBEDDING_WIDTH, heads, batch_first=True) for _ in range(layers)
        )
        self.pass_on = nn.ModuleList(
            nn.Linear(EMBEDDING_WIDTH, EMBEDDING_WIDTH) for _ in range(layers)
        )
        width = (self.embed.dense + self.embed.fields) * EMBEDDING_WIDTH
        self.head = nn.Linear(width, 1)
        self.deep = make_mlp(width, *HIDDEN_WIDTHS, 1)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        inputs = torch.cat([dense[..., None] * self.directions, vectors], 1)
        features = inputs
        for attention, residual in zip(self.attend, self.pass_on, strict=True):
            attended, _ = attention(features, features, features, need_weights=False)
            features = torch.relu(attended + residual(features))
        logits: Tensor = self.head(features.flatten(1)) + self.deep(inputs.flatten(1))
        return logits


def multiply_pairs(vectors: Tensor) -> Tensor:
    """Compute the dot product of each pair once: (N, F, width) -> (N, F (F - 1) / 2)."""
    count = vectors.shape[1]
    first, second = torch.tril_indices(count, count, offset=-1, device=vectors.device)
    return (vectors @ vectors.transpose(1, 2))[:, first, second]


def make_mlp(*widths: int) -> nn.Sequential:
    """Make linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers.append(nn.Linear(inputs, outputs))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers[:-1])


REFERENCES: dict[str, Callable[[Task], nn.Module]] = {
    "logistic": Logistic,
    "dlrm": Dlrm,
    "deepfm": DeepFm,
    "autoint": AutoInt,
}
