"""TE-NAS (Chen et al., ICLR 2021, arXiv:2102.11535): the condition number of the neural tangent
kernel together with the number of linear regions (`te_nas_regions`).

z_li is the activation code of sample i in layer l, as in `naswot.py`.
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.spectrum import EIGENVALUE_TOLERANCE
from untrained.proxies.base import aggregate, proxy, register_proxy
from untrained.proxies.naswot import LAYERS, VERSION


def condition_number(K: Tensor) -> float:
    """lambda_max / lambda_min of a kernel in float64"""
    eigenvalues = torch.linalg.eigvalsh(K)
    # `not >` is also true for NaN.
    if not eigenvalues[-1] > 0:
        raise Unscorable("disconnected", "no parameter receives a gradient")
    if eigenvalues[0] <= EIGENVALUE_TOLERANCE * eigenvalues[-1]:
        detail = "the tangent kernel is singular: some samples have dependent gradients"
        raise Unscorable("singular", detail)
    return float(eigenvalues[-1] / eigenvalues[0])


@register_proxy
@proxy(
    paper="TE-NAS (Chen et al.)", aspects="expressivity", samples=64, layers=LAYERS, version=VERSION
)
def te_nas_regions(probe: Probe) -> float:
    """Number of linear regions that contain samples.

        |{ (z_1i, z_2i, ...) : i a sample }|

    This is informative only for thin networks and many samples: on the full NAS-Bench-201 network,
    each of 64 images is in its own region. The authors' code uses a network with one channel and
    3,000 crops of 3x3 pixels.
    """
    K = torch.stack([code.agreement for code in probe.codes]).sum(0)
    neurons = sum(code.signs.shape[1] for code in probe.codes)
    # Two samples are in one region if they agree on all neurons.
    return float(len(torch.unique(neurons == K, dim=0)))


@register_proxy
@proxy(
    paper="TE-NAS (Chen et al.)",
    higher_is_better=False,
    aspects="trainability",
    needs=("data", "gradients"),
    samples=64,
    cost=3,
)
def te_nas_condition(probe: Probe, variant: Literal["default", "published"] = "default") -> float:
    """Condition number of the tangent kernel of the summed outputs.

        lambda_max(K) / lambda_min(K),   K_ij = J_i . J_j
        J_i: the gradient of the sum of the outputs of sample i

    By default, the kernel is over all parameters, the statistics of batch norm are constants, and
    there is one backward pass. The authors' code uses one backward pass per sample, differentiates
    through the statistics, and reads every parameter with "weight" in its name
    (`variant=published`). Their code computes in float32, where rounding may make the smallest
    eigenvalue negative. We compute in float64, and a singular kernel is a failure.
    """
    if variant == "published":
        kernel = probe.kernel("sum", "all", "exact")
        names = {name for name in kernel.grams if "weight" in name}
        return condition_number(kernel.gram(names))
    return condition_number(probe.kernel("sum", "all", "fixed").gram())


@register_proxy
@aggregate(
    parts=("te_nas_condition", "te_nas_regions"),
    paper="TE-NAS (Chen et al.)",
    aspects="expressivity, trainability",
)
def te_nas(*relative_ranks: list[float]) -> list[float]:
    """The TE-NAS score: sum of the ranks by condition number and by linear regions.

        sum over both of rank / m
        rank: from 1, the worst, to m, the best of m candidates; ties share the mean of their ranks

    The paper uses these ranks to prune a supernet. Here they rank networks.
    """
    return [sum(candidate) for candidate in zip(*relative_ranks, strict=True)]
