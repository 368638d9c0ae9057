"""Dextr (Asthana et al.): a label-free proxy of how well feature maps are conditioned and how much
the output bends.

    r_l = sigma_min / sigma_max of the feature map of layer l, (channels x positions), one image
    kappa = (v.v)^(-3/2) sqrt((v.v)(a.a) - (v.a)^2)                                          (Eq. 5)
    Dextr = A B / (A + B),   A = ln(1 + sum_l r_l),   B = ln(1 + kappa)                      (Eq. 8)

v and a are velocity and acceleration of the output as the input moves along a circle.

Where the paper and the authors' code differ, and what we do:
* The paper defines the curvature at a point theta of the circle and does not say which point to
  use. The code takes theta = 0, and so do we.
* In the paper the radius of the circle is sqrt(N_1 q), for N_1 inputs with a mean square of q; in
  the code it is 1. Ours is 1 too. `radius=text` is that of the paper, with q = 1 as for normalised
  images.
* The code reads every module, so a container repeats the value of its last child, and it takes ten
  output coordinates, drawn with replacement. Our default reads leaf modules once per call and all
  coordinates, which ranks better (docs/results/). `variant="published"` does what the code does.
* In the code, the points of the circle are images of 64x64 pixels, whatever the size of the data.
  We do the same if the images have at least 32 pixels per side (larger images rank better) and if
  the network accepts this size. Otherwise the circle has the size of the data.
* If the curvature is undefined, or its determinant is negative in float32, the code returns A
  alone, which is on another scale. We compute the curvature in float64, clamp the determinant at
  zero, and report v = 0 as `disconnected`.
* A single output, such as the logit of a click, moves on a line. Its curvature is zero for every
  network, so we report `unsupported`.
"""

from math import prod, sqrt
from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable, is_out_of_memory
from untrained.options import Count
from untrained.probe import Probe
from untrained.probe.features import Feature, compute_inverse_conditions
from untrained.proxies.base import proxy, register_proxy
from untrained.proxies.meco import list_counted_features, sample_channels

PAPER = "Dextr (Asthana et al.)"
# Since version 2, the outputs of two ReLUs are two features if their common input was overwritten
# in between.
VERSION = 2
Variant = Literal["default", "published"]
Radius = Literal["code", "text"]
CIRCLE_SIZE = (64, 64)  # of images, as in the authors' code
SMALLEST_IMAGE = 32  # smaller images keep their own size


@register_proxy
@proxy(paper=PAPER, aspects="expressivity, trainability, generalisation", cost=13, version=VERSION)
def dextr(probe: Probe, variant: Variant = "default", radius: Radius = "code") -> float:
    """Conditioning of the feature maps and curvature of the output along a circle, in one number.

        A B / (A + B),   A = ln(1 + sum_l r_l),   B = ln(1 + kappa)                          (Eq. 8)

    By default, leaf modules are read once per call, and all output coordinates in float64. The
    authors' code reads every module, containers included, and ten random coordinates
    (`variant=published`). If kappa is undefined, their code returns A alone, while we report a
    failure. The circle has radius 1, as in their code. In the paper, the radius is the square root
    of the number of inputs (`radius=text`).
    """
    # B is computed first, because it reports a disconnected network as such.
    B = log_curvature(probe, variant, radius)
    A = log_conditions(probe, variant)
    return _combine(A, B)


@register_proxy
@proxy(paper=PAPER, aspects="trainability, generalisation", cost=3, version=VERSION)
def dextr_conditions(probe: Probe, variant: Variant = "default") -> float:
    """The condition-number half of Dextr.

        ln(1 + sum_l r_l)
        r_l: sigma_min / sigma_max of the feature map of layer l, (channels, positions)

    It reads the feature maps of the first sample and does not centre them.
    """
    return log_conditions(probe, variant)


@register_proxy
@proxy(paper=PAPER, aspects="expressivity", cost=12)
def dextr_curvature(probe: Probe, variant: Variant = "default", radius: Radius = "code") -> float:
    """The curvature half of Dextr.

        ln(1 + kappa),   kappa = (v.v)^(-3/2) sqrt((v.v)(a.a) - (v.a)^2)                     (Eq. 5)

    The paper does not say at which point of the circle; the authors' code takes theta = 0, and so
    do we.
    """
    return log_curvature(probe, variant, radius)


@register_proxy
@proxy(paper=PAPER, aspects="expressivity, trainability, generalisation", cost=13, version=VERSION)
def dextr_opt(probe: Probe, channels: Count = 8, variant: Variant = "default") -> float:
    """Dextr on a few random channels of each layer, scaled to its width.

        A B / (A + B),   A = ln(1 + sum_l (alpha_l / beta) r'_l)                            (Eq. 22)

    For spaces whose layers differ in width. r'_l is computed on beta = `channels` random channels
    of the alpha_l channels of layer l. The paper does not say how many channels it samples. Our
    default is eight, as in the code of MeCo, from which the idea comes.
    """
    B = log_curvature(probe, variant)
    generator = probe.generator("channels")
    features = []
    factors = []
    for feature, count in list_counted_features(probe, variant):
        matrix, width = sample_channels(feature, channels, generator)
        features.append(Feature(matrix[None], ""))
        factors.append(count * width / len(matrix))
    r = compute_inverse_conditions(features)
    A = float(torch.log1p(r @ torch.tensor(factors, dtype=torch.float64)))
    return _combine(A, B)


def _combine(A: float, B: float) -> float:
    """Eq. 8"""
    if A + B == 0:
        return 0.0
    return A * B / (A + B)


def log_conditions(probe: Probe, variant: Variant = "default") -> float:
    """A of Eq. 8"""
    features, counts = zip(*list_counted_features(probe, variant), strict=True)
    r = probe.inverse_conditions(features)
    return float(torch.log1p(r @ torch.tensor(counts, dtype=torch.float64)))


def log_curvature(probe: Probe, variant: Variant = "default", radius: Radius = "code") -> float:
    """B of Eq. 8"""
    v, a = _measure_velocity_and_acceleration(probe, radius)
    if len(v) == 1 and v.any():
        detail = "one output moves on a line without curvature: use sigeo or zico, or two outputs"
        raise Unscorable("unsupported", detail)
    if variant == "published":
        # With replacement, as in the authors' code.
        coordinates = torch.randint(len(v), (10,), generator=probe.generator("coordinates"))
        v = v[coordinates]
        a = a[coordinates]
    return float(torch.log1p(curvature(v, a)))


def curvature(v: Tensor, a: Tensor) -> Tensor:
    """Eq. 5 in float64; v, a of shape (outputs,)"""
    v = v.double()
    a = a.double()
    vv = v @ v
    aa = a @ a
    va = v @ a
    if vv == 0:
        raise Unscorable("disconnected", "the output does not change with the input")
    # By Cauchy-Schwarz the determinant can be negative only because of rounding.
    return vv**-1.5 * (vv * aa - va * va).clamp_min(0).sqrt()


def _measure_velocity_and_acceleration(probe: Probe, radius: Radius) -> tuple[Tensor, Tensor]:
    """Return v and a of Eq. 5 at theta = 0.

    The points of the circle are images of 64x64 pixels if the images of the data have at least 32
    pixels per side and the network accepts this size.
    """
    shape = tuple(probe.batch.inputs.shape[1:])
    is_image = len(shape) == 3
    if is_image and min(shape[1:]) >= SMALLEST_IMAGE and shape[1:] != CIRCLE_SIZE:
        large = (shape[0], *CIRCLE_SIZE)
        try:
            _, v, a = probe.circle_motion(large, compute_radius(large, radius))
            return v, a
        except (RuntimeError, ValueError, AssertionError) as error:
            # A network that does not accept this size raises one of these. Running out of memory
            # is a failure of the machine, and must not change the score.
            if is_out_of_memory(error):
                raise
    _, v, a = probe.circle_motion(shape, compute_radius(shape, radius))
    return v, a


def compute_radius(shape: tuple[int, ...], radius: Radius) -> float:
    """Return the radius of the circle: sqrt(N_1) in the paper, 1 in the authors' code."""
    if radius == "text":
        return sqrt(prod(shape))
    return 1.0
