"""HNAS (Shu et al., NeurIPS 2022, arXiv:2201.09785): gradient metrics form one family, bound the
generalisation error, and rank best when combined with the condition number of the tangent kernel.

K is the tangent kernel of the output for each sample's label, over the weights and biases of
convolutions and linear layers, as in the authors' code. The option `reading` is how batch norms are
treated (see `probe/kernels.py`; the authors' code does `cross`). The family also contains SNIP and
GraSP, which are `snip` and `grasp` here, because the authors' code uses those of zero-cost-nas.
"""

from math import sqrt
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from untrained.probe import Probe
from untrained.probe.kernels import Reading
from untrained.proxies.base import PROXIES, proxy, register_proxy
from untrained.proxies.tenas import condition_number

PAPER = "HNAS (Shu et al.)"
LAYERS = "convolutions, linear layers"
NEEDS = ("data", "labels", "gradients")
Variant = Literal["default", "square", "published"]
Metric = Literal[
    "grad",
    "grad_norm",
    "snip",
    "grasp",
    "trace",
    "knas",
    "fisher",
    "synflow",
    "naswot",
]


@register_proxy
@proxy(paper=PAPER, aspects="trainability", needs=NEEDS, samples=64, cost=3)
def grad(probe: Probe) -> float:
    """Norm of the loss gradient of one mini-batch.

        ||(1/m) sum_i g_i||_2

    The norm is over all parameters, as in the paper. The authors' code uses `grad_norm` of
    zero-cost-nas, which sums the norms of layers.
    """
    return sqrt(sum(float(g.double().square().sum()) for g in probe.gradients.values()))


@register_proxy
@proxy(paper=PAPER, aspects="trainability", needs=NEEDS, samples=64, cost=3, layers=LAYERS)
def trace(probe: Probe, reading: Reading = "cross") -> float:
    """Root mean square over the samples of the gradient norm.

        sqrt(tr K / m)

    The gradient is that of the output for the sample's label.
    """
    K = probe.kernel("label", "layers", reading).gram()
    return sqrt(float(K.trace()) / len(probe.batch))


@register_proxy
@proxy(
    paper="KNAS (Xu et al.), HNAS form",
    aspects="trainability",
    needs=NEEDS,
    samples=64,
    cost=3,
    layers=LAYERS,
)
def knas(probe: Probe, reading: Reading = "cross") -> float:
    """Square root of the mean entry of the tangent kernel: how much the gradients of samples agree.

        sqrt(|(1/m^2) sum_ij K_ij|)

    KNAS itself takes the mean without the root.
    """
    K = probe.kernel("label", "layers", reading).gram()
    return sqrt(abs(float(K.mean())))


@register_proxy
@proxy(
    paper=PAPER,
    higher_is_better=False,
    aspects="trainability, generalisation",
    needs=NEEDS,
    samples=64,
    cost=3,
    layers=LAYERS,
)
def ntk_condition(probe: Probe, reading: Reading = "cross") -> float:
    """Condition number of the tangent kernel.

        lambda_max(K) / lambda_min(K)

    The authors' code computes in float32, where rounding may make the smallest eigenvalue negative.
    The condition number is then negative too, and ranks best. We compute in float64 and report a
    singular kernel as a failure.
    """
    return condition_number(probe.kernel("label", "layers", reading).gram())


@register_proxy
@proxy(
    paper=PAPER,
    higher_is_better=False,
    aspects="generalisation",
    needs=NEEDS,
    samples=64,
    cost=3,
    layers=LAYERS,
)
def hnas(
    probe: Probe,
    metric: Metric = "trace",
    mu: float = 0.0,
    nu: float = 0.0,
    variant: Variant = "default",
) -> float:
    """The bound on the generalisation error that HNAS minimises.

        kappa / M + mu F(M^2 - nu),   F(x) = |x|                                             (Eq. 7)

    M is one of the metrics (the absolute value of GraSP), kappa is `ntk_condition`. Bayesian
    optimisation finds mu and nu with a few short trainings; with mu = 0, the bound is kappa / M.
    The text of the paper defines F(x) = x^2t with t = 1, a square: `variant=square`. The authors'
    code uses the absolute value, and so do we, because with a square the few networks with a very
    large M would dominate. With `variant=published`, the formula is exactly that of their code:
    kappa / (M + 1e-6) + mu |M^2 - nu^2|.
    """
    M = abs(PROXIES[metric](probe))
    kappa = ntk_condition(probe)
    return float(bound(M, kappa, mu, nu, variant))


FloatOrArray = TypeVar("FloatOrArray", float, NDArray[np.float64])


def bound(
    M: FloatOrArray, kappa: FloatOrArray | float, mu: float, nu: float, variant: str = "default"
) -> FloatOrArray:
    """Eq. 7 of one architecture, or of many as arrays; lower is better"""
    if variant == "published":
        return kappa / (M + 1e-6) + mu * abs(M**2 - nu**2)
    if variant == "square":
        return kappa / M + mu * (M**2 - nu) ** 2
    return kappa / M + mu * abs(M**2 - nu)


def choose_mu_and_nu(
    M: NDArray[np.float64],
    kappa: NDArray[np.float64] | float,
    share: float,
    quantile: float,
    variant: str = "default",
) -> tuple[float, float]:
    """Choose mu and nu of Eq. 7 independently of the units of M and kappa.

    Args:
        M: Metric of many architectures, NaN where it is missing.
        kappa: Their condition numbers.
        share: Size of the second term of Eq. 7 relative to the first, both as medians.
        quantile: The quantile of M^2 that nu is set to.
        variant: Formula of the second term. The published one squares nu, so pass it the square
            root of the returned nu.

    Returns:
        mu and nu.
    """
    nu = float(np.nanquantile(M**2, quantile))
    power = 2 if variant == "square" else 1
    # If most architectures have the same M, the median is 0; 1 avoids a division by zero.
    distance = float(np.nanmedian(abs(M**2 - nu) ** power)) or 1.0
    mu = share * float(np.nanmedian(abs(kappa / M))) / distance
    return mu, nu
