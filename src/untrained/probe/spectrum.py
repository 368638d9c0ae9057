"""Extreme eigenvalues of many small symmetric matrices, without the ones between them.

    G : (k, m, m)  positive semidefinite, float64       l_1 >= ... >= l_m  its eigenvalues

A full decomposition finds m of them, and on a GPU it takes longer than all passes of a network. The largest alone comes
by repeated squaring. With B_0 = G / tr G, t_k = tr B_k^2 and B_(k+1) = B_k^2 / t_k, all traces are 1, and

    ln l_1 = ln tr G + sum_(j<k) 2^-(j+1) ln t_j + 2^-k ln b,        t_k <= b <= 1,   b the largest eigenvalue of B_k

so what is left out after k squarings lies between 2^-k ln t_k and 0. That is a bound, whatever the gaps between
eigenvalues, where power iteration from a random vector has none. The smallest is the largest of the inverse, and the
inverse comes by Cholesky's factors. A matrix without such factors is singular: l_m <= m eps l_1.

What a ratio sqrt(l_m / l_1) is worth: relative error TOLERANCE where it is above 1e-4; below that the inverse loses
digits as every float64 method does, and its absolute error stays below 1e-6. Tests compare with `eigvalsh`.
"""

from math import ceil, log, log2

import torch
from torch import Tensor

TOLERANCE = 1e-8
_EVERY = 4  # squarings between looks at the bound: a look makes a GPU wait


def extreme_ratio(G: Tensor) -> Tensor:
    """l_m / l_1 of each matrix, 0 where it is zero and NaN where it is not finite; by what is faster here."""
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)  # of X X^T, so a single NaN of X is in it
    finite = trace.isfinite()
    G = torch.where(finite[:, None, None], G, 0)  # LAPACK would give up on its neighbours too; asking makes a GPU wait
    ratio = ratio_by_squaring(G) if _squaring_pays(G) else _ratio_by_decomposition(G)
    return torch.where(finite, ratio, torch.nan)


def _squaring_pays(G: Tensor) -> bool:
    """On a GPU from 33 rows on; smaller ones are decomposed quickly there too. On a CPU never:
    LAPACK is quicker for 16 to 256 rows (dev/LOG.md)."""
    return G.device.type == "cuda" and G.shape[-1] > 32


def _ratio_by_decomposition(G: Tensor) -> Tensor:
    eigenvalues = torch.linalg.eigvalsh(G)  # (k, m), ascending
    low, high = eigenvalues[:, 0].clamp_min(0), eigenvalues[:, -1]
    return torch.where(high <= 0, 0, low / high)


def ratio_by_squaring(G: Tensor) -> Tensor:
    """l_m / l_1 as 1 / (l_1 of G times l_1 of its inverse)."""
    unit = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    factor, broken = torch.linalg.cholesky_ex(G)
    singular = broken > 0
    inverse = torch.cholesky_inverse(torch.where(singular[:, None, None], unit, factor))
    product = log_largest(torch.where(singular[:, None, None], unit, G)) + log_largest(inverse)
    return torch.where(singular, 0, (-product).exp().clamp_max(1))


def log_largest(G: Tensor) -> Tensor:
    """ln l_1 of each matrix, none of which is zero."""
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
    total, B = trace.log(), G / trace[:, None, None]
    most = ceil(log2(max(1.0, log(G.shape[-1])) / TOLERANCE))  # 2^-k ln m, since t_k is at least 1 / m
    for k in range(most + 1):
        t = torch.linalg.vector_norm(B, dim=(-2, -1)).square()
        left = t.log() * 0.5**k
        if k == most or (k % _EVERY == _EVERY - 1 and bool((left > -TOLERANCE).all())):
            break
        total = total + left / 2
        B = (B @ B) / t[:, None, None]
    return torch.add(total, left, alpha=0.5)
