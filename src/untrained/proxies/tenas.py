"""TE-NAS (Chen et al., ICLR 2021, arXiv:2102.11535): the condition number of the neural tangent kernel, beside the
number of linear regions (`te_nas_regions`)."""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import naswot  # noqa: F401 - te_nas_regions is one of the parts
from untrained.proxies._proxy import aggregate, proxy, registered

SINGULAR = 1e-12  # eigenvalues of a float64 Gram matrix below this share of the largest are rounding


def condition(K: Tensor) -> float:
    """lambda_max / lambda_min of a kernel, float64."""
    eigenvalues = torch.linalg.eigvalsh(K)
    if not eigenvalues[-1] > 0:
        raise Unscorable("disconnected", "no parameter receives a gradient")
    if eigenvalues[0] <= SINGULAR * eigenvalues[-1]:
        raise Unscorable("singular", "the tangent kernel is singular: some samples have dependent gradients")
    return float(eigenvalues[-1] / eigenvalues[0])


@registered
@proxy(
    paper="TE-NAS (Chen et al.)", higher_is_better=False, measures="trainability", needs=("data", "gradients"),
    samples=64, cost=3,
)  # fmt: skip
def te_nas_condition(probe: Probe, variant: Literal["default", "published"] = "default") -> float:
    """Condition number of the tangent kernel of the summed outputs.

        lambda_max(K) / lambda_min(K),   K_ij = J_i . J_j,   J_i the gradient of the sum of the outputs of sample i

    Default: all parameters, the statistics of batch norm held constant, one backward pass. The code differentiates
    through the statistics with one backward a sample and takes every parameter with "weight" in its name
    (`variant=published`); in float32 its smallest eigenvalue may come out negative, ours is a failure then.
    """
    if variant == "published":
        K = probe.kernel("sum", "all", "exact")
        return condition(K.gram({name for name in K.grams if "weight" in name}))
    return condition(probe.kernel("sum", "all", "fixed").gram())


@registered
@aggregate(
    parts=("te_nas_condition", "te_nas_regions"), paper="TE-NAS (Chen et al.)", measures="expressivity, trainability"
)
def te_nas(*shares: list[float]) -> list[float]:
    """The TE-NAS score: ranks among the candidates by condition number and by linear regions, summed.

        sum over both of rank / m,   m candidates; ties share the mean of their ranks

    The paper prunes a supernet by these ranks; here they rank networks.
    """
    return [sum(candidate) for candidate in zip(*shares, strict=True)]
