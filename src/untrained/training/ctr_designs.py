"""Known designs of networks for tables, which compete with the best network of a search.

`CTR_DESIGNS["dlrm"](task)` builds a network that maps rows (N, columns) of a table to outputs
(N, outputs): one logit of a click, one logit per class, or one number.

logistic  logistic regression, one weight per identifier and output
linear    the same network for numbers, which is linear regression
dlrm      dot products of all pairs of embeddings, with the dense columns as one more embedding
          (Naumov et al. 2019)
deepfm    a factorisation machine and a deep network on the same embeddings (Guo et al. 2017)
autoint   self-attention among embeddings beside a deep network (AutoInt+, Song et al. 2019)

They are small on purpose: embeddings of 16 numbers and layers of 128 and 64. Embeddings are
initialised as in the space that they are compared with. With much smaller initial values, the dot
products of DLRM would change so slowly at first that it would look worse than it is. A table may
have no dense columns or no identifiers.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from untrained.types import REGRESSION, Task

EMBEDDING_WIDTH = 16
HIDDEN_WIDTHS = (128, 64)


class Embeddings(nn.Module):
    """Split rows into dense columns and the embeddings of their identifiers.

    Maps rows (N, columns) to dense columns (N, D) and embeddings (N, F, width). All identifier
    columns share one embedding table, in which each column has its own range of rows.
    """

    offsets: Tensor

    def __init__(self, task: Task, width: int = EMBEDDING_WIDTH) -> None:
        super().__init__()
        sizes = torch.tensor((0, *task.vocabularies))
        self.field_count = len(task.vocabularies)
        self.dense_count = task.input_shape[0] - self.field_count
        self.register_buffer("offsets", sizes.cumsum(0)[:-1], persistent=False)
        # A table without identifiers still needs one row, because torch refuses an empty table.
        self.table = nn.Embedding(max(int(sizes.sum()), 1), width)
        rows_per_column = list(task.vocabularies) or [1]
        for rows in self.table.weight.data.split(rows_per_column):  # type: ignore[no-untyped-call]
            nn.init.xavier_normal_(rows)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        identifiers = rows[:, self.dense_count :].long() + self.offsets
        return rows[:, : self.dense_count], self.table(identifiers)


class Logistic(nn.Module):
    """output = b + <w, dense> + sum over fields of the weight of the identifier."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.weights = Embeddings(task, task.num_classes)
        self.slopes = nn.Parameter(torch.zeros(self.weights.dense_count, task.num_classes))
        self.bias = nn.Parameter(torch.zeros(task.num_classes))
        nn.init.zeros_(self.weights.table.weight)

    def forward(self, rows: Tensor) -> Tensor:
        dense, weights = self.weights(rows)
        logits: Tensor = self.bias + dense @ self.slopes + weights.sum(1)
        return logits


class Dlrm(nn.Module):
    """An MLP on an embedding of the dense columns and the dot products of all embeddings.

    With one identifier column and no dense columns there are no pairs, so the MLP reads that
    embedding.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.bottom: nn.Module | None = None
        vectors = self.embed.field_count
        dense_width = 0
        if self.embed.dense_count:
            self.bottom = make_mlp(self.embed.dense_count, HIDDEN_WIDTHS[1], EMBEDDING_WIDTH)
            vectors += 1
            dense_width = EMBEDDING_WIDTH
        pairs = vectors * (vectors - 1) // 2
        feature_count = pairs + dense_width
        if feature_count == 0:
            feature_count = EMBEDDING_WIDTH
        self.top = make_mlp(feature_count, *HIDDEN_WIDTHS, task.num_classes)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        if self.bottom is None and self.embed.field_count == 1:
            features = vectors.flatten(1)
        elif self.bottom is None:
            features = multiply_pairs(vectors)
        else:
            dense_vector = self.bottom(dense)
            vectors = torch.cat([dense_vector[:, None], vectors], 1)
            features = torch.cat([dense_vector, multiply_pairs(vectors)], 1)
        logits: Tensor = self.top(features)
        return logits


class DeepFm(nn.Module):
    """Logistic regression + pairwise dot products + an MLP on dense columns and embeddings.

    With several classes, a sum of dot products that is added to every logit would not change the
    class probabilities. So the components of the products are weighted for each class.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.first = Logistic(task)
        self.embed = Embeddings(task)
        width = self.embed.dense_count + self.embed.field_count * EMBEDDING_WIDTH
        self.deep = make_mlp(width, *HIDDEN_WIDTHS, task.num_classes)
        self.mix: nn.Module | None = None
        if task.num_classes > 1:
            self.mix = nn.Linear(EMBEDDING_WIDTH, task.num_classes, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        # Sum over pairs: ((sum of v)^2 - sum of v^2) / 2.
        products = vectors.sum(1) ** 2 - (vectors**2).sum(1)
        if self.mix is None:
            second_order = products.sum(1, keepdim=True) / 2
        else:
            second_order = self.mix(products) / 2
        deep = self.deep(torch.cat([dense, vectors.flatten(1)], 1))
        logits: Tensor = self.first(rows) + second_order + deep
        return logits


class AutoInt(nn.Module):
    """Self-attention among embeddings + an MLP.

    A dense column is embedded as a learned vector times its value.
    """

    def __init__(self, task: Task, layers: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.embed = Embeddings(task)
        self.directions = nn.Parameter(torch.randn(self.embed.dense_count, EMBEDDING_WIDTH) * 0.03)
        self.attentions = nn.ModuleList(
            nn.MultiheadAttention(EMBEDDING_WIDTH, heads, batch_first=True) for _ in range(layers)
        )
        self.residuals = nn.ModuleList(
            nn.Linear(EMBEDDING_WIDTH, EMBEDDING_WIDTH) for _ in range(layers)
        )
        width = (self.embed.dense_count + self.embed.field_count) * EMBEDDING_WIDTH
        self.head = nn.Linear(width, task.num_classes)
        self.deep = make_mlp(width, *HIDDEN_WIDTHS, task.num_classes)

    def forward(self, rows: Tensor) -> Tensor:
        dense, vectors = self.embed(rows)
        inputs = torch.cat([dense[..., None] * self.directions, vectors], 1)
        features = inputs
        for attention, residual in zip(self.attentions, self.residuals, strict=True):
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
    """Make an MLP of these widths with ReLU between its layers."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers.append(nn.Linear(inputs, outputs))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers[:-1])


CTR_DESIGNS: dict[str, Callable[[Task], nn.Module]] = {
    "logistic": Logistic,
    "linear": Logistic,
    "dlrm": Dlrm,
    "deepfm": DeepFm,
    "autoint": AutoInt,
}


def list_ctr_designs(task: Task) -> list[str]:
    """Return the names of the designs that compete with the best network of a search on a table."""
    # Both names stand for the same network; the other one suits the task.
    unsuitable_name = "linear"
    if task.kind == REGRESSION:
        unsuitable_name = "logistic"
    return [name for name in CTR_DESIGNS if name != unsuitable_name]
