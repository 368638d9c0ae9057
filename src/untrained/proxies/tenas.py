"""TE-NAS (Chen et al., ICLR 2021, arXiv:2102.11535): the condition number of the neural tangent
kernel together with the number of linear regions (`te_nas_regions`).
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.spectrum import EIGENVALUE_TOLERANCE
from untrained.proxies import naswot  # noqa: F401 - te_nas_regions is one of the parts
from untrained.proxies.base import aggregate, proxy, register_proxy


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

        sum over both of rank / m,   m candidates; ties share the mean of their ranks

    The paper uses these ranks to prune a supernet. Here they rank networks.
    """
    return [sum(candidate) for candidate in zip(*relative_ranks, strict=True)]
