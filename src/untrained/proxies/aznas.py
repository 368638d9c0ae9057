"""AZ-NAS (Lee & Ham, CVPR 2024, arXiv:2403.19232): an aggregate of four proxies by their ranks
among the candidates.

f_0 is the input of the first block of the trunk, f_k the output of block k (see `probe/blocks.py`).
On NAS-Bench-201 these are the 18 tensors of the authors' code. The code applies Kaiming
initialisation before it scores a network; ours uses the weights that the network has. The fourth
member, complexity, is `flops`.
"""

from itertools import pairwise
from math import log

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import size  # noqa: F401 - flops is one of the members
from untrained.proxies.base import aggregate, proxy, register_proxy

PAPER = "AZ-NAS (Lee & Ham)"
LOG_OFFSET = 1e-8  # keeps the logarithm of 0 finite, as in the authors' code
TRUNK = "a trunk of blocks"
# Since version 2, features of one-dimensional convolutions are read as series and not as tokens.
VERSION = 2
MEMBERS = ("az_expressivity", "az_progressivity", "az_trainability", "flops")


@register_proxy
@proxy(paper=PAPER, aspects="expressivity", samples=64, cost=2, layers=TRUNK, version=VERSION)
def az_expressivity(probe: Probe) -> float:
    """How evenly features spread over the directions of channel space, summed over the trunk.

        sum_k s_k,   s_k = - sum_c p_c ln p_c
        p: the normalised eigenvalues of the channel covariance of f_k

    The authors' code computes the eigenvalues in float32. In a low-rank network, rounding makes
    some of them negative; their logarithms are NaN, and the score becomes -infinity. We compute
    them in float64 and clamp them at zero.
    """
    return sum(map(entropy, probe.blocks.spectra))


@register_proxy
@proxy(paper=PAPER, aspects="expressivity", samples=64, cost=2, layers=TRUNK, version=VERSION)
def az_progressivity(probe: Probe) -> float:
    """The smallest growth of the spread of features (`az_expressivity`) from one block to the next.

        min_k (s_k - s_(k-1))

    A single block that reduces the spread determines the score.
    """
    s = map(entropy, probe.blocks.spectra)
    return min(after - before for before, after in pairwise(s))


@register_proxy
@proxy(
    paper=PAPER,
    aspects="trainability",
    needs=("data", "gradients"),
    samples=64,
    cost=2,
    layers=TRUNK,
    version=VERSION,
)
def az_trainability(probe: Probe) -> float:
    """How near to 1 the spectral norm of each block's Jacobian is.

        mean_k (2 - sigma_k - 1/sigma_k)
        sigma_k: the largest singular value of g_in^T g_out / positions

    g_out is a tensor of random signs at the output of block k, g_in the gradient that it causes at
    the input of the block. A block that returns its input unchanged has sigma = 1 and would get the
    best score. Here it is a failure; in the authors' code its score is -infinity.
    """
    pairs = probe.blocks.gradient_pairs
    for pair in pairs:
        if pair is not None and _are_equal(*pair):
            detail = "a block returns its input unchanged: its Jacobian is the identity"
            raise Unscorable("unsupported", detail)
    norms = []
    for pair in pairs:
        # Without a path from input to output the Jacobian of a block is zero.
        norm = 0.0
        if pair is not None:
            norm = _spectral_norm(*pair)
        norms.append(norm)
    sigma = torch.tensor(norms, dtype=torch.float64)
    return float((2 - sigma - 1 / (sigma + 1e-6)).mean())


def entropy(eigenvalues: Tensor) -> float:
    """s_k"""
    p = eigenvalues / eigenvalues.sum()
    return -float((p * (p + LOG_OFFSET).log()).sum())


def _are_equal(g_in: Tensor, g_out: Tensor) -> bool:
    return g_in.shape == g_out.shape and bool((g_in == g_out).all())


def _spectral_norm(g_in: Tensor, g_out: Tensor) -> float:
    """sigma_k"""
    return float(torch.linalg.svdvals(g_in.double().mT @ g_out.double() / len(g_out))[0])


@register_proxy
@aggregate(parts=MEMBERS, paper=PAPER, aspects="expressivity, trainability, size")
def az_nas(*relative_ranks: list[float]) -> list[float]:
    """The AZ-NAS score: logarithms of the ranks among the candidates by four members, summed.

        sum over members of ln(rank / m)
        rank: from 1, the worst, to m, the best of m candidates; ties share the mean of their ranks

    Members: expressivity, progressivity, trainability and FLOPs. A candidate without one of them
    has no score.
    """
    return [sum(map(log, candidate)) for candidate in zip(*relative_ranks, strict=True)]
