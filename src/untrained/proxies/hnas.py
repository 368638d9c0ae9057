"""HNAS (Shu et al., NeurIPS 2022, arXiv:2201.09785): gradient metrics are one family, bound the generalisation error,
and rank best together with the condition number of the neural tangent kernel.

K is the tangent kernel of each sample's label output over the weights and biases of convolutions and linear layers, as
in the authors' code. Its samples are coupled through batch norm; `reading` says how (see `probe/kernels.py`; `cross` is
the authors'). The family's SNIP and GraSP are `snip` and `grasp`: the authors' code takes those of zero-cost-nas.
"""

from math import sqrt
from typing import Any, Literal

import numpy as np

from untrained.probe import Probe
from untrained.probe.kernels import Reading
from untrained.proxies._proxy import PROXIES, proxy, registered
from untrained.proxies.tenas import condition

PAPER = "HNAS (Shu et al.)"
LAYERS = "convolutions, linear layers"
FAMILY = ("data", "labels", "gradients")


@registered
@proxy(paper=PAPER, measures="trainability", needs=FAMILY, samples=64, cost=3)
def grad(probe: Probe) -> float:
    """Norm of the loss gradient of one mini-batch.

        ||(1/m) sum_i g_i||_2

    Over all parameters, as in the paper. The code takes `grad_norm` of zero-cost-nas, a sum of norms a layer.
    """
    return sqrt(sum(float(g.double().square().sum()) for g in probe.gradients.values()))


@registered
@proxy(paper=PAPER, measures="trainability", needs=FAMILY, samples=64, cost=3, layers=LAYERS, averages=True)
def trace(probe: Probe, reading: Reading = "cross") -> float:
    """Root of the mean squared norm of the gradient of a sample's label output.

        sqrt(tr K / m)

    Needs labels, since one output a sample is looked at.
    """
    return sqrt(float(probe.kernel("label", "layers", reading).gram().trace()) / len(probe.batch))


@registered
@proxy(paper="KNAS (Xu et al.), HNAS form", measures="trainability", needs=FAMILY, samples=64, cost=3, layers=LAYERS)
def knas(probe: Probe, reading: Reading = "cross") -> float:
    """Root of the mean of the tangent kernel: how much the gradients of samples point one way.

        sqrt(|(1/m^2) sum_ij K_ij|)

    KNAS itself takes the mean without the root.
    """
    return sqrt(abs(float(probe.kernel("label", "layers", reading).gram().mean())))


@registered
@proxy(
    paper=PAPER, higher_is_better=False, measures="trainability, generalisation", needs=FAMILY, samples=64, cost=3,
    layers=LAYERS,
)  # fmt: skip
def ntk_condition(probe: Probe, reading: Reading = "cross") -> float:
    """Condition number of the tangent kernel.

        lambda_max(K) / lambda_min(K)

    In float32, as in the code, the smallest eigenvalue may come out negative and the condition number with it, which
    then wins the minimisation; ours is float64, and a singular kernel is a failure.
    """
    return condition(probe.kernel("label", "layers", reading).gram())


@registered
@proxy(paper=PAPER, higher_is_better=False, measures="generalisation", needs=FAMILY, samples=64, cost=3, layers=LAYERS)
def hnas(
    probe: Probe,
    metric: Literal["grad", "grad_norm", "snip", "grasp", "trace", "knas", "fisher", "synflow", "naswot"] = "trace",
    mu: float = 0.0,
    nu: float = 0.0,
    variant: Literal["default", "published"] = "default",
) -> float:
    """The bound on the generalisation error that HNAS minimises.

        kappa / M + mu |M^2 - nu|                                                                            (Eq. 7)

    M: one of the metrics (GraSP by its absolute value), kappa: `ntk_condition`. mu and nu are found by Bayesian
    optimisation on a few short trainings; with mu = 0 it is kappa / M. The code, `variant=published`, has
    kappa / (M + 1e-6) + mu |M^2 - nu^2|.
    """
    return float(bound(abs(PROXIES[metric](probe)), ntk_condition(probe), mu, nu, variant))


def bound(M: Any, kappa: Any, mu: float, nu: float, variant: str = "default") -> Any:
    """Eq. 7 of one architecture, or of many as arrays; lower is better."""
    if variant == "published":
        return kappa / (M + 1e-6) + mu * abs(M**2 - nu**2)
    return kappa / M + mu * abs(M**2 - nu)


def trade(M: Any, kappa: Any, share: float, quantile: float) -> tuple[float, float]:
    """mu and nu of Eq. 7 without units, for many architectures, NaN where something is missing: nu is this quantile of
    M^2, and mu makes the second term so large a share of the first, in the median."""
    nu = float(np.nanquantile(M**2, quantile))
    apart = float(np.nanmedian(abs(M**2 - nu))) or 1.0  # where most are equal any mu will do
    return share * float(np.nanmedian(abs(kappa / M))) / apart, nu
