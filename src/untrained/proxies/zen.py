"""Zen-score (Lin et al., ICCV 2021, arXiv:2102.01063): how much a network with Gaussian weights amplifies a small
disturbance, with what batch norms divide away multiplied back. No data."""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.guard import Variance
from untrained.proxies._proxy import proxy, registered


@registered
@proxy(
    paper="Zen-NAS (Lin et al.)", measures="expressivity", needs=(), samples=16, cost=2, layers="batch norm",
)  # fmt: skip
def zen(
    probe: Probe, repeats: int = 1, gamma: float = 0.01, variant: Literal["default", "published"] = "default"
) -> float:
    """Expressivity of a network with Gaussian weights, by the size of its answer to a small disturbance.

        ln mean_i ||f(x_i) - f(x_i + gamma e_i)||_1 + sum_l ln sqrt(mean of var_l),   x, e, weights ~ N(0, 1)

    f: features before the last pooling; var_l: the variances that batch norm l divides by (a norm that sees constants
    divides nothing and is left out). The code reads running variances instead, which after two passes of a fresh
    network are 0.81 + 0.19 var: `variant=published`. Mean over repeats (32 published, 1 in the published search).
    """
    draw = probe.generator("zen")
    scores = [_once(probe, gamma, variant, draw) for _ in range(repeats)]
    return sum(scores) / repeats


def _once(probe: Probe, gamma: float, variant: str, draw: torch.Generator) -> float:
    inputs = probe.batch.inputs
    if not inputs.is_floating_point():
        raise Unscorable("unsupported", "zen needs real-valued inputs")
    x, e = torch.randn(2, *inputs.shape, generator=draw).to(inputs)
    gaussian = probe.reinitialised(draw)
    return amplification(gaussian.on(x), gaussian.on(x + gamma * e), variant)


def amplification(here: Probe, there: Probe, variant: str = "default") -> float:
    """The score of one pair of inputs."""
    norms = [v.channels.double().mean() for v in here.norm_variances]
    if variant == "published":
        norms = list(map(_running, here.norm_variances, there.norm_variances))
    delta = (here.last_map - there.last_map).flatten(1).abs().sum(1).double().mean()
    if delta == 0:
        raise Unscorable("disconnected", "the features do not move with the input")
    return float(delta.log() + sum(variance.log() / 2 for variance in norms if variance > 0))


def _running(first: Variance, second: Variance) -> Tensor:
    """Mean over channels of a running variance that starts at 1 and saw two batches with momentum 0.1 (unbiased)."""
    a, b = (v.channels.double().mean() * v.entries / (v.entries - 1) for v in (first, second))
    return 0.9 * (0.9 + 0.1 * a) + 0.1 * b
