"""Extreme eigenvalues of many small symmetric matrices, without the ones between them.

    G : (k, m, m)  positive semidefinite, float64       l_1 >= ... >= l_m  its eigenvalues

A full decomposition computes all m of them, and on a GPU it takes longer than all passes of a
network. The largest alone is found by repeated squaring. With B_0 = G / tr G, t_k = tr B_k^2 and
B_(k+1) = B_k^2 / t_k, all traces are 1, and

    ln l_1 = ln tr G + sum_(j<k) 2^-(j+1) ln t_j + 2^-k ln b,        t_k <= b <= 1

where b is the largest eigenvalue of B_k. The error after k squarings is therefore between
2^-k ln t_k and 0. This bound holds for any gaps between eigenvalues; power iteration from a random
vector has no such bound. The smallest eigenvalue is the inverse of the largest one of the inverse
matrix, which is computed by Cholesky factors. A matrix without such factors is singular:
l_m <= m eps l_1.

Accuracy of a ratio sqrt(l_m / l_1): relative error TOLERANCE if it is above 1e-4; below that the
inverse loses digits, as in every float64 method, and the absolute error stays below 1e-6. Tests
compare with `eigvalsh`.
"""

from math import ceil, log, log2

import torch
from torch import Tensor

TOLERANCE = 1e-8
# Eigenvalues of a float64 matrix below this share of the largest one are rounding errors.
EIGENVALUE_TOLERANCE = 1e-12
CHECK_INTERVAL = 4  # squarings between checks of the bound; each check synchronises a GPU


def compute_eigenvalue_ratios(G: Tensor) -> Tensor:
    """Return l_m / l_1 of each matrix; 0 for a zero matrix, NaN for one that is not finite."""
    # G = X X^T, so a single NaN in X also appears in the trace.
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
    finite = trace.isfinite()
    # LAPACK fails for the whole stack if one matrix is not finite, so such matrices are replaced.
    # There is no check whether there are any, because it would synchronise a GPU.
    G = torch.where(finite[:, None, None], G, 0)
    if _is_squaring_faster(G):
        ratio = compute_ratios_by_squaring(G)
    else:
        ratio = _compute_ratios_by_decomposition(G)
    return torch.where(finite, ratio, torch.nan)


def _is_squaring_faster(G: Tensor) -> bool:
    """Return whether repeated squaring is faster than a decomposition.

    It is faster on a GPU from 33 rows on. On a CPU, LAPACK is faster for 16 to 256 rows
    (dev/LOG.md).
    """
    return G.device.type == "cuda" and G.shape[-1] > 32


def _compute_ratios_by_decomposition(G: Tensor) -> Tensor:
    eigenvalues = torch.linalg.eigvalsh(G)  # (k, m), ascending
    low = eigenvalues[:, 0].clamp_min(0)
    high = eigenvalues[:, -1]
    return torch.where(high <= 0, 0, low / high)


def compute_ratios_by_squaring(G: Tensor) -> Tensor:
    """Return l_m / l_1 as 1 / (l_1 of G times l_1 of its inverse)."""
    unit = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    factor, info = torch.linalg.cholesky_ex(G)
    singular = info > 0
    # Singular matrices are replaced by the identity, and their ratio by 0 at the end.
    mask = singular[:, None, None]
    inverse = torch.cholesky_inverse(torch.where(mask, unit, factor))
    log_largest = compute_log_largest_eigenvalues(torch.where(mask, unit, G))
    log_largest_of_inverse = compute_log_largest_eigenvalues(inverse)
    log_product = log_largest + log_largest_of_inverse
    return torch.where(singular, 0, (-log_product).exp().clamp_max(1))


def compute_log_largest_eigenvalues(G: Tensor) -> Tensor:
    """Return ln l_1 of each matrix. No matrix may be zero."""
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
    total = trace.log()
    B = G / trace[:, None, None]
    # t_k >= 1 / m, so the error is at most 2^-k ln m: this many squarings always suffice.
    max_squarings = ceil(log2(max(1.0, log(G.shape[-1])) / TOLERANCE))
    for k in range(max_squarings + 1):
        t = torch.linalg.vector_norm(B, dim=(-2, -1)).square()
        remainder = t.log() * 0.5**k
        if k == max_squarings:
            break
        is_check = k % CHECK_INTERVAL == CHECK_INTERVAL - 1
        if is_check and bool((remainder > -TOLERANCE).all()):
            break
        total = total + remainder / 2
        B = (B @ B) / t[:, None, None]
    # The true value is between total and total + remainder: take the middle.
    return torch.add(total, remainder, alpha=0.5)
