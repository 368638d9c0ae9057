"""MeCo (Jiang et al., NeurIPS 2023, arXiv:2310.01228): how far channels are from being linear copies of each other."""

from typing import Literal

import torch
from torch import Tensor

from untrained.probe import Probe
from untrained.probe.features import Feature, by_shape
from untrained.proxies._proxy import proxy, registered

PAPER = "MeCo (Jiang et al.)"
Variant = Literal["default", "published"]


@registered
@proxy(paper=PAPER, measures="trainability, generalisation", cost=3)
def meco(probe: Probe, variant: Variant = "default") -> float:
    """Smallest eigenvalue of the correlations between channels, summed over layers.

        sum_l lambda_min(P_l),   P_l the Pearson correlation matrix of the channels of one sample

    A constant channel has correlation 0 with all, itself included, as in the code. The code hooks every module, so
    containers repeat their last child: `variant=published`; ours reads leaf modules once a call. Its second version
    ignores the data and looks at noise of 64x64.
    """
    features, times = zip(*counted(probe, variant), strict=True)
    lowest = by_shape([feature.matrix() for feature in features], _lowest)
    return float(lowest @ torch.tensor(times, dtype=torch.float64))


@registered
@proxy(paper=PAPER, measures="trainability, generalisation", cost=3)
def meco_opt(probe: Probe, channels: int = 8, variant: Variant = "default") -> float:
    """MeCo on a few random channels of each layer, scaled to its width.

        sum_l (C_l / c) lambda_min(P'_l),   P'_l on c = 8 channels drawn at random

    For spaces whose layers differ in width, where more channels alone make the smallest eigenvalue smaller.
    """
    draw = probe.generator("channels")
    picked = [(*few(feature, channels, draw), times) for feature, times in counted(probe, variant)]
    lowest = by_shape([matrix for matrix, _, _ in picked], _lowest)
    scale = torch.tensor([times * width / len(matrix) for matrix, width, times in picked], dtype=torch.float64)
    return float(lowest @ scale)


def counted(probe: Probe, variant: str) -> list[tuple[Feature, int]]:
    """Features and how often each counts: once a leaf module that returned it, or once a module (published)."""
    times = ((f, f.leaf_calls if variant == "default" else f.calls) for f in probe.features)
    return [(f, n) for f, n in times if n]


def few(feature: Feature, channels: int, draw: torch.Generator) -> tuple[Tensor, int]:
    """Some rows of the feature's matrix, drawn at random, and how many rows it has."""
    matrix = feature.matrix()
    rows = torch.randperm(len(matrix), generator=draw)[:channels].to(matrix.device)
    return matrix[rows], len(matrix)


def _lowest(X: Tensor) -> Tensor:
    """lambda_min of the correlations of rows, (k, channels, positions) -> (k,)."""
    centred = X - X.mean(2, keepdim=True)
    norms = centred.norm(dim=2, keepdim=True)
    varies = norms > 1e-6 * X.norm(dim=2, keepdim=True)  # float32 leaves that much of a constant
    unit = torch.where(varies, centred / norms, 0)
    lowest = torch.linalg.eigvalsh(unit @ unit.mT)[:, 0].clamp_min(0)
    return torch.where(varies.all(1)[:, 0], lowest, 0)  # a channel without correlations is an eigenvalue 0
