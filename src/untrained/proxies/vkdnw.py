"""VKDNW (Tybl & Neumann, CVPR 2025, arXiv:2502.04975): are all weights equally easy to estimate?

F is the Fisher information of a few weights under the predictions of the network itself
(`probe/fisher.py`). By the Cramer-Rao bound, its eigenvalues limit how precisely the weights can be
estimated from data; the score is high if they are of similar size.

Where the paper and the authors' code differ, and what we do:
* The paper takes a few weights per layer. The code takes the first entry of each of the first 128
  parameters, those of norms included, and so do we. Some of these weights may be in a branch that
  does not affect the output; they add eigenvalues of zero.
* The paper writes F with the covariance of the predictions, diag(p) - p p^T = L L^T. The code
  multiplies the Jacobian J by L instead of L^T, which gives J^T L^T L J, and mixes p with 5 % of
  the uniform distribution. We compute F as written.
* The code runs batch norm on running statistics, which make it the identity at initialisation. We
  treat the statistics of the batch as constants, as in the other per-sample proxies.
* To rank networks by one number, the paper adds the number of layers with weights. The code sorts
  by the number of parameter tensors, and by the entropy only among networks with equal numbers.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.options import Between
from untrained.probe import Probe
from untrained.probe.spectrum import EIGENVALUE_TOLERANCE
from untrained.proxies.base import proxy, register_proxy


@register_proxy
@proxy(
    paper="VKDNW (Tybl & Neumann)",
    aspects="trainability",
    needs=("data", "gradients"),
    samples=16,
    cost=11,
)
def vkdnw(
    probe: Probe,
    variant: Literal["default", "single"] = "default",
    weights: Annotated[int, Between(2, 1024)] = 128,
) -> float:
    """How evenly the Fisher information is spread over the directions of weight space.

        - sum_k q_k ln q_k,   q_k = lambda_k / sum_j lambda_j,   k = 1 ... 9            (Eq. 11, 12)
        lambda_k: the k-th decile of the eigenvalues of F, the Fisher information of 128 weights

    `variant=single` adds the number of layers with weights, as the paper does for its ranking. The
    authors' code multiplies by a factor of the covariance on the wrong side and runs batch norm as
    the identity. We compute F as the paper writes it, with batch norm on the statistics of the
    batch. Their code reads 64 samples, we read 16. With more than 16 outputs, F is estimated from
    16 random combinations of them.
    """
    entropy = _decile_entropy(probe.fisher[:weights, :weights])
    if variant == "single":
        return _count_layers(probe) + entropy
    return entropy


def _decile_entropy(F: Tensor) -> float:
    """Eq. 11"""
    if not bool(F.isfinite().all()):
        raise Unscorable("nan", "the Fisher information is not finite")
    eigenvalues = torch.linalg.eigvalsh(F)
    largest = eigenvalues[-1]
    eigenvalues = torch.where(eigenvalues > EIGENVALUE_TOLERANCE * largest, eigenvalues, 0)
    levels = torch.arange(1, 10, dtype=F.dtype) / 10
    deciles = torch.quantile(eigenvalues, levels)
    total = deciles.sum()
    if not total > 0:
        raise Unscorable("singular", "nine tenths of the Fisher information's eigenvalues are zero")
    return float(torch.special.entr(deciles / total).sum())


def _count_layers(probe: Probe) -> int:
    """Number of trainable weights of convolutions, linear layers and attention projections."""
    parameters = dict(probe.model.named_parameters())
    return sum(parameters[name].requires_grad for name in probe.weights)
