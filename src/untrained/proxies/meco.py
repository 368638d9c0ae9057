"""MeCo (Jiang et al., NeurIPS 2023, arXiv:2310.01228): how far channels are from being linear
combinations of each other.
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.options import Count
from untrained.probe import Probe
from untrained.probe.features import Feature, map_by_shape, require_finite
from untrained.proxies.base import proxy, register_proxy

PAPER = "MeCo (Jiang et al.)"
# Since version 2, the smallest eigenvalue of linearly dependent channels is exactly 0 instead of a
# rounding error. Since version 3, a feature map that is not finite is a failure (before, it counted
# as 0), and the outputs of two ReLUs are two features if their common input was overwritten in
# between.
VERSION = 3
Variant = Literal["default", "published"]


@register_proxy
@proxy(paper=PAPER, aspects="trainability, generalisation", cost=3, version=VERSION)
def meco(probe: Probe, variant: Variant = "default") -> float:
    """Smallest eigenvalue of the correlations between channels, summed over layers.

        sum_l lambda_min(P_l),   P_l the Pearson correlation matrix of the channels of one sample

    A constant channel has correlation 0 with every channel, itself included, as in the authors'
    code. Their code hooks every module, so a container repeats the term of its last child;
    `variant=published` does this too. By default we read leaf modules once per call. The second
    version of their code reads noise images of 64x64 pixels instead of the data.
    """
    features, counts = zip(*list_counted_features(probe, variant), strict=True)
    matrices = [feature.matrix() for feature in features]
    lowest = require_finite(map_by_shape(matrices, _smallest_eigenvalues))
    return float(lowest @ torch.tensor(counts, dtype=torch.float64))


@register_proxy
@proxy(paper=PAPER, aspects="trainability, generalisation", cost=3, version=VERSION)
def meco_opt(probe: Probe, channels: Count = 8, variant: Variant = "default") -> float:
    """MeCo on a few random channels of each layer, scaled to its width.

        sum_l (C_l / c) lambda_min(P'_l),   P'_l on c = 8 channels drawn at random

    For spaces whose layers differ in width: more channels alone make the smallest eigenvalue
    smaller.
    """
    generator = probe.generator("channels")
    matrices = []
    factors = []
    for feature, count in list_counted_features(probe, variant):
        matrix, width = sample_channels(feature, channels, generator)
        matrices.append(matrix)
        factors.append(count * width / len(matrix))
    lowest = require_finite(map_by_shape(matrices, _smallest_eigenvalues))
    return float(lowest @ torch.tensor(factors, dtype=torch.float64))


def list_counted_features(probe: Probe, variant: str) -> list[tuple[Feature, int]]:
    """Return the features of a network, each with the number of its terms in the sum over layers.

    By default a feature has one term per call of a leaf module that returned it; with `published`,
    one per call of any module, containers included. Features without a term are left out.
    """
    counted_features = []
    for feature in probe.features:
        if variant == "default":
            count = feature.leaf_calls
        else:
            count = feature.calls
        if count:
            counted_features.append((feature, count))
    return counted_features


def sample_channels(
    feature: Feature, channels: int, generator: torch.Generator
) -> tuple[Tensor, int]:
    """Return randomly chosen rows of the feature's matrix, and the number of all its rows."""
    matrix = feature.matrix()
    rows = torch.randperm(len(matrix), generator=generator)[:channels].to(matrix.device)
    return matrix[rows], len(matrix)


def _smallest_eigenvalues(X: Tensor) -> Tensor:
    """lambda_min of the correlations of rows, (k, channels, positions) -> (k,); NaN if undefined"""
    count, channels, positions = X.shape
    is_finite = X.isfinite().all(2).all(1)
    # Centred rows span at most positions - 1 dimensions, so the channels are linearly dependent if
    # there are at least as many as positions. This also avoids the decomposition for the widest
    # layers of a network.
    if channels >= positions:
        return torch.where(is_finite, X.new_zeros(count), torch.nan)
    centred = X - X.mean(2, keepdim=True)
    norms = centred.norm(dim=2, keepdim=True)
    # In float32 a constant channel is not exactly zero after centring.
    varies = norms > 1e-6 * X.norm(dim=2, keepdim=True)
    unit = torch.where(varies, centred / norms, 0)
    lowest = torch.linalg.eigvalsh(unit @ unit.mT)[:, 0].clamp_min(0)
    # A constant channel has correlation 0 with all channels, so there is an eigenvalue 0.
    lowest = torch.where(varies.all(1)[:, 0], lowest, 0)
    return torch.where(is_finite, lowest, torch.nan)
