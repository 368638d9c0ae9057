"""Dextr (Asthana et al.): a label-free proxy of how well feature maps are conditioned and how much the output bends.

    r_l = sigma_min / sigma_max of the feature map of layer l, (channels x positions), one image
    kappa = (v.v)^(-3/2) sqrt((v.v)(a.a) - (v.a)^2)                                                  (Eq. 5)
    Dextr = A B / (A + B),   A = ln(1 + sum_l r_l),   B = ln(1 + kappa)                              (Eq. 8)

v and a are velocity and acceleration of the output as the input runs along a circle of radius 1.

Where the paper and the authors' code differ, and what we do:
* The paper integrates the curvature over the circle; the code takes the single point theta = 0. So do we.
* The code reads every module, so containers repeat the value of their last child, and it takes ten output
  coordinates, drawn with replacement. Our default reads leaf modules once a call and all coordinates: it ranks better
  (docs/results/). `variant="published"` does what the code does.
* The code draws the circle at 64x64 whatever the size of the images. So do we for images of at least 32 pixels (a
  larger circle ranks better), unless the network takes one size only; smaller images keep their own.
* Where the curvature is undefined or its determinant comes out negative in float32, the code returns A alone, a number
  on another scale. We combine in float64, clamp the determinant at zero, and report v = 0 as `disconnected`.
"""

import torch
from torch import Tensor

from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered

PAPER = "Dextr (Asthana et al.)"
VARIANTS = ("default", "published")


@registered
@proxy(paper=PAPER, measures="expressivity, trainability, generalisation")
def dextr(probe: Probe, variant: str = "default") -> float:
    """How well the feature maps are conditioned and how much the output bends along a circle, in one number."""
    B, A = bending(probe, variant), conditions(probe, variant)  # a disconnected network is found out first
    return A * B / (A + B) if A + B else 0.0


@registered
@proxy(paper=PAPER, measures="trainability, generalisation")
def dextr_conditions(probe: Probe, variant: str = "default") -> float:
    """The condition-number half of Dextr, A = ln(1 + sum of inverse condition numbers)."""
    return conditions(probe, variant)


@registered
@proxy(paper=PAPER, measures="expressivity")
def dextr_curvature(probe: Probe, variant: str = "default") -> float:
    """The curvature half of Dextr, B = ln(1 + extrinsic curvature of the output along a circle)."""
    return bending(probe, variant)


def conditions(probe: Probe, variant: str = "default") -> float:
    """A of Eq. 8."""
    times = {f: f.leaf_calls if _checked(variant) == "default" else f.calls for f in probe.features}
    counted = [f for f in times if times[f]]
    r = probe.inverse_conditions(counted)
    return float(torch.log1p(r @ torch.tensor([times[f] for f in counted], dtype=torch.float64)))


def bending(probe: Probe, variant: str = "default") -> float:
    """B of Eq. 8."""
    _, v, a = _jet(probe)
    if _checked(variant) == "published":
        ten = torch.randint(len(v), (10,), generator=probe.generator("coordinates"))
        v, a = v[ten], a[ten]
    return float(torch.log1p(curvature(v, a)))


def curvature(v: Tensor, a: Tensor) -> Tensor:
    """Eq. 5 in float64; v, a of shape (outputs,)."""
    v, a = v.double(), a.double()
    vv, aa, va = v @ v, a @ a, v @ a
    if vv == 0:
        raise Unscorable("disconnected", "the output does not move with the input")
    return vv**-1.5 * (vv * aa - va * va).clamp_min(0).sqrt()


def _checked(variant: str) -> str:
    if variant not in VARIANTS:
        raise UsageError(f"dextr has no variant {variant!r}; there are: {', '.join(VARIANTS)}")
    return variant


def _jet(probe: Probe) -> tuple[Tensor, Tensor, Tensor]:
    """The output jet on a 64x64 circle where images are at least 32 pixels and the network takes that size."""
    shape = tuple(probe.batch.inputs.shape[1:])
    if len(shape) == 3 and min(shape[1:]) >= 32 and shape[1:] != (64, 64):
        try:
            return probe.circle_jet((shape[0], 64, 64))
        except (RuntimeError, ValueError, AssertionError):  # a network for one input size only
            return probe.circle_jet(shape)
    return probe.circle_jet(shape)
