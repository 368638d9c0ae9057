"""MeCo (Jiang et al., NeurIPS 2023, arXiv:2310.01228): how far channels are from being linear copies of each other."""

from typing import Literal

import torch
from torch import Tensor

from untrained.probe import Probe
from untrained.probe.features import Feature
from untrained.proxies._proxy import proxy, registered

PAPER = "MeCo (Jiang et al.)"
Variant = Literal["default", "published"]


@registered
@proxy(paper=PAPER, measures="trainability, generalisation")
def meco(probe: Probe, variant: Variant = "default") -> float:
    """Smallest eigenvalue of the correlations between channels, summed over layers.

        sum_l lambda_min(P_l),   P_l the Pearson correlation matrix of the channels of one sample

    A constant channel has correlation 0 with all, itself included, as in the code. The code hooks every module, so
    containers repeat their last child: `variant=published`; ours reads leaf modules once a call. Its second version
    ignores the data and looks at noise of 64x64.
    """
    return float(sum(times * _lowest(f.matrix()) for f, times in counted(probe, variant)))


@registered
@proxy(paper=PAPER, measures="trainability, generalisation")
def meco_opt(probe: Probe, channels: int = 8, variant: Variant = "default") -> float:
    """MeCo on a few random channels of each layer, scaled to its width.

        sum_l (C_l / c) lambda_min(P'_l),   P'_l on c = 8 channels drawn at random

    For spaces whose layers differ in width, where more channels alone make the smallest eigenvalue smaller.
    """
    draw = probe.generator("channels")
    total = 0.0
    for feature, times in counted(probe, variant):
        matrix, width = few(feature, channels, draw)
        total += times * width / channels * float(_lowest(matrix))
    return total


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
    """lambda_min of the correlations of the rows of X, (channels, positions), float64 on the CPU."""
    X = X.double()
    centred = X - X.mean(1, keepdim=True)
    norms = centred.norm(dim=1, keepdim=True)
    varies = norms > 1e-6 * X.norm(dim=1, keepdim=True)  # float32 leaves that much of a constant
    unit = torch.where(varies, centred / norms, 0)
    if X.shape[1] < 2 or not bool(varies.all()):
        return torch.zeros((), dtype=torch.float64)
    lowest: Tensor = torch.linalg.eigvalsh(unit @ unit.mT)[0].clamp_min(0).cpu()
    return lowest
