"""ZiCo (Li et al., ICLR 2023, arXiv:2301.11300): large gradients that agree between batches."""

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.options import Between
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy
from untrained.proxies.pruning import LAYERS, weight_gradients

# With a single batch, no gradient has a spread between batches.
Batches = Annotated[int, Between(2, 65_536)]


@register_proxy
@proxy(
    paper="ZiCo (Li et al.)",
    aspects="trainability, generalisation",
    needs=("data", "labels", "gradients"),
    samples=128,
    cost=3,
    layers=LAYERS,
)
def zico(probe: Probe, batches: Batches = 2) -> float:
    """How large the loss gradient of each weight is compared with its spread between batches.

        sum_l ln sum (mean |g_l| / sigma_l)

    The mean and the standard deviation (biased, as in the authors' code) are over the batches.
    Entries with sigma = 0 are left out, and so are layers that have no other entries. With two
    batches sigma is |g_1 - g_2| / 2, which may be tiny, so single entries may dominate.
    """
    return gradient_consistency(probe.parts(batches))


def gradient_consistency(parts: Sequence[Probe]) -> float:
    """sum_l ln sum (mean |g_l| / sigma_l)"""
    gradients = [weight_gradients(part) for part in parts]
    ratios = []
    for name in gradients[0]:
        g = torch.stack([part_gradients[name] for part_gradients in gradients])
        ratios.append(_mean_over_spread(g))
    sums = torch.stack(ratios)
    if not bool((sums > 0).any()):
        raise Unscorable("disconnected", "no gradient differs between batches")
    return float(sums[sums > 0].log().sum())


def _mean_over_spread(g: Tensor) -> Tensor:
    """(batches, *weight) -> sum over entries of mean |g| / sigma."""
    # Biased, as in the authors' code.
    sigma = g.std(0, unbiased=False)
    varies = sigma != 0
    return (g.abs().mean(0)[varies] / sigma[varies]).double().sum()
