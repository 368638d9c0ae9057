"""GradSign (Zhang & Jia, ICLR 2022, arXiv:2110.08616): do the samples agree on the direction of
each weight update?
"""

import torch

from untrained.probe import Probe
from untrained.probe.kernels import Reading
from untrained.proxies.base import proxy, register_proxy


@register_proxy
@proxy(
    paper="GradSign (Zhang & Jia)",
    aspects="trainability, generalisation",
    needs=("data", "labels", "gradients"),
    samples=64,
    cost=3,
)
def gradsign(probe: Probe, reading: Reading = "fixed") -> float:
    """How often the loss gradients of the samples agree in sign, over all parameters.

        sum_k |sum_i sign(g_ik)|,   g_i = dL(f(x_i), y_i)/dtheta

    The authors' code runs the samples one by one, with batch norm on running statistics. We run
    them as one batch and treat its statistics as constants.
    """
    agreement = probe.kernel("loss", "all", reading).agreement
    return float(torch.stack(list(agreement.values())).sum())
