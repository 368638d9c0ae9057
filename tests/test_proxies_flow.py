"""Proxies of the positive network (SynFlow, LogSynFlow, DSS), compared with numpy and plain autograd.

The positive network has absolute values of parameters, an input of ones and no norms.
"""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.types import Batch

INPUTS = 5
CLASSES = 3


def score(name: str, model: nn.Module, batch: Batch) -> float:
    return load_proxy(name)(Probe(model, batch))


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(7), nn.LayerNorm(7), nn.RMSNorm(7)], ids=lambda n: type(n).__name__
)
def test_synflow_removes_norms_and_signs(norm):
    """R = 1^T (|W2| h + |b2|), h = |W1| 1 + |b1| without norms: dR/dW2 = 1 h^T, dR/dW1 = |W2|^T 1 1^T."""
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(INPUTS, 7), norm, nn.ReLU(), nn.Linear(7, CLASSES)).double()
    W1, b1, W2, _ = (
        p.detach().numpy() for layer in (model[0], model[3]) for p in layer.parameters()
    )
    h = np.abs(W1).sum(1) + np.abs(b1)
    back = np.abs(W2).sum(0)
    batch = Batch(torch.randn(2, INPUTS, dtype=torch.float64), torch.zeros(2, dtype=torch.long))
    assert score("synflow", model, batch) == pytest.approx(
        (np.abs(W2) * h).sum() + (np.abs(W1).T * back).sum()
    )
    expected = (np.abs(W2) * np.log1p(h)).sum() + (np.abs(W1).T * np.log1p(back)).sum()
    assert score("logsynflow", model, batch) == pytest.approx(expected, rel=1e-9)


class TinyAttention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj((q @ k.mT).softmax(-1) @ v)


class Transformer(nn.Module):
    """Two layers on tokens of five numbers: attention and an MLP, both residual."""

    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(INPUTS, 4)
        self.attention = nn.ModuleList(attention(4) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 6), nn.ReLU()) for _ in range(2)
        )
        self.out = nn.ModuleList(nn.Linear(6, 4) for _ in range(2))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for attention, mlp, out in zip(self.attention, self.mlp, self.out, strict=True):
            x = x + attention(x)
            x = x + out(mlp(x))
        return self.head(x.mean(1))


class SelfAttention(nn.Module):
    """Torch's own attention, whose projections are one packed matrix."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(dim, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


@pytest.mark.parametrize("attention", [TinyAttention, SelfAttention])
def test_dss_is_nuclear_norms_of_attention_and_saliency_of_the_rest(attention):
    torch.manual_seed(4)
    model = Transformer(attention).double()
    batch = Batch(torch.randn(2, 3, INPUTS, dtype=torch.float64), torch.zeros(2, dtype=torch.long))
    positive = deepcopy(model)
    for p in positive.parameters():
        p.data.abs_()
    for mlp in positive.mlp:
        mlp[0] = nn.Identity()
    positive(torch.ones(1, 3, INPUTS, dtype=torch.float64)).sum().backward()
    expected = 0.0
    for name, p in positive.named_parameters():
        W = p.detach().numpy()
        g = p.grad.numpy()
        if p.ndim == 2 and name.startswith("attention"):
            expected += np.linalg.svd(W)[1].sum() * np.linalg.svd(g)[1].sum()
        elif p.ndim == 2:
            expected += np.abs(W * g).sum()
    assert score("dss", model, batch) == pytest.approx(expected, rel=1e-6)


def test_dss_is_for_transformers():
    with pytest.raises(Unscorable, match="unsupported"):
        score(
            "dss",
            nn.Linear(INPUTS, CLASSES),
            Batch(torch.randn(2, INPUTS), torch.zeros(2, dtype=torch.long)),
        )
