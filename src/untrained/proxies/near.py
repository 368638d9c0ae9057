"""NEAR (Husistein, Reiher & Eckhoff, ICLR 2025, arXiv:2408.08776): how many dimensions the outputs
of layers use, before and after the nonlinearities.

The effective rank (Roy & Vetterli) of a matrix with singular values s_k is

    exp(- sum_k p_k ln p_k),   p_k = s_k / sum_j s_j

It is n if n singular values are equal and the others are zero.
"""

from math import ceil
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from untrained.errors import Unscorable
from untrained.options import Between
from untrained.probe import Probe
from untrained.probe.features import map_by_shape, require_finite
from untrained.proxies.base import proxy, register_proxy

# These layers have their features on the last axis; all others on the second.
FEATURES_LAST = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm)
# Since version 2, the outputs of two ReLUs are two features if their common input was overwritten
# in between.
VERSION = 2


@register_proxy
@proxy(
    paper="NEAR (Husistein et al.)",
    aspects="expressivity",
    samples=32,
    layers="modules with weights",
    version=VERSION,
)
def near(probe: Probe, width: Annotated[int, Between(1, 1024)] = 512) -> float:
    """Effective rank of the outputs of layers and nonlinearities, summed.

        sum_l erank(Z_l) + erank(H_l),   Z_l before and H_l after the nonlinearity of layer l
        erank(X) = exp(- sum_k p_k ln p_k),   p_k = s_k / sum_j s_j,   s_k singular values of X

    A row is one position of one sample and has one entry per channel. For C channels, C contiguous
    rows are read, starting at a random place. The authors' code sums over all modules with weights,
    norms included, and over all modules that are nonlinearities. So do we, but several ReLUs of the
    same tensor count once. Their code reads samples until there are C rows. We read 32 samples, so
    use `near(samples=512)` for a wide MLP. At most `width` channels of a layer are read. Their code
    can also average over several initialisations.
    """
    generator = probe.generator("rows")
    matrices = []
    axis = 1
    for feature in probe.features:
        module = probe.model.get_submodule(feature.name)
        is_layer = _has_weight(module)
        # The features of a nonlinearity are on the same axis as those of the layer before it.
        if is_layer:
            axis = -1 if isinstance(module, FEATURES_LAST) else 1
        if is_layer or _is_nonlinearity(module):
            matrices.append(_select_rows(feature.tensor, axis, width, generator))
    if not matrices:
        raise Unscorable("unsupported", "the network has no module with weights")
    return float(require_finite(map_by_shape(matrices, effective_ranks)).sum())


def effective_ranks(X: Tensor) -> Tensor:
    """Effective ranks of matrices, (k, m, n) -> (k,); 0 for a zero matrix, NaN if not finite"""
    if X.shape[1] > X.shape[2]:
        X = X.mT
    finite = X.isfinite().all(2).all(1)
    X = torch.where(finite[:, None, None], X, 0)
    # The singular values are the square roots of the eigenvalues of the smaller Gram matrix.
    s = torch.linalg.eigvalsh(X @ X.mT).clamp_min(0).sqrt()
    total = s.sum(1, keepdim=True)
    p = torch.where(total > 0, s / total, 0)
    ranks = torch.special.entr(p).sum(1).exp()
    ranks = torch.where(total[:, 0] > 0, ranks, 0)
    return torch.where(finite, ranks, torch.nan)


def _has_weight(module: nn.Module) -> bool:
    """Whether a module has a weight. Reading `module.weight` would compute it for weight norm."""
    return "weight" in module._parameters or is_parametrized(module, "weight")


def _is_nonlinearity(module: nn.Module) -> bool:
    return type(module).__module__ == "torch.nn.modules.activation"


def _select_rows(feature: Tensor, axis: int, width: int, generator: torch.Generator) -> Tensor:
    """Return contiguous rows of a feature as a matrix, (rows, channels).

    Args:
        feature: (samples, ...).
        axis: Axis of the channels.
        width: Largest number of channels and of rows.
        generator: Random generator that chooses the first row.
    """
    if feature.ndim == 1:
        feature = feature[:, None]
    positions = feature.movedim(axis, -1)[..., :width]
    samples = positions.shape[0]
    row_count = positions.shape[:-1].numel()
    selected_count = min(row_count, positions.shape[-1])
    # The selection starts at the left border of the feature map.
    line_length = 1
    if positions.ndim > 2:
        line_length = positions.shape[-2]
    possible_lines = (row_count - selected_count) // line_length + 1
    first_line = int(torch.randint(possible_lines, (), generator=generator))
    start = first_line * line_length
    # Only the samples that contain the selected rows are copied.
    rows_per_sample = row_count // samples
    first_sample = start // rows_per_sample
    end_sample = ceil((start + selected_count) / rows_per_sample)
    rows = positions[first_sample:end_sample].flatten(0, -2)
    start_in_copy = start - first_sample * rows_per_sample
    return rows[start_in_copy : start_in_copy + selected_count]
