"""WRCor (Jing et al., Neurocomputing 2025, arXiv:2507.08841): how little the responses to different
samples resemble each other, above all in the last blocks.
"""

from math import log

import torch

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.spectrum import EIGENVALUE_TOLERANCE
from untrained.proxies.base import proxy, register_proxy


@register_proxy
@proxy(
    paper="WRCor (Jing et al.)",
    aspects="expressivity, generalisation",
    needs=("data", "labels", "gradients"),
    samples=32,
    cost=2,
    layers="pointwise nonlinearities",
)
def wrcor(probe: Probe) -> float:
    """Log determinant of the correlations of samples, summed over activations and gradients.

        ln |det K|,   K = sum_l 2^l (|A_l| + |G_l|)                                     (Eq. 10, 11)
        A_l: correlations of the samples at the input of a nonlinearity after l blocks
        G_l: correlations of the loss gradients with respect to that input

    A block is a cell, a residual block or a transformer layer; in a network without these, every
    layer is a block. Correlations that are undefined because a response is constant are left out,
    as in the authors' code. Their code hooks every module with ReLU in its class name, so the ReLU
    of a ReLUConvBN counts twice, and it uses only the part of the gradient that passes through this
    ReLU. As in the paper, we read every pointwise nonlinearity once, and the whole gradient with
    respect to its input.
    """
    last = max(response.block for response in probe.responses)
    samples = len(probe.batch)
    # 2^l may overflow, so 2^-L K is computed, where L is the last block. The log determinant is
    # corrected for the missing factor at the end.
    K = torch.zeros(samples, samples, dtype=torch.float64)
    for response in probe.responses:
        for correlations in (response.activations, response.gradients):
            if correlations is not None:
                K += 2.0 ** (response.block - last) * correlations.abs()
    eigenvalues = torch.linalg.eigvalsh(K).abs()
    if not eigenvalues.min() > EIGENVALUE_TOLERANCE * eigenvalues.max():
        raise Unscorable("singular", "two samples have the same responses")
    return float(eigenvalues.log().sum()) + samples * last * log(2)
