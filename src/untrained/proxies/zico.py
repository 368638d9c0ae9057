"""ZiCo (Li et al., ICLR 2023, arXiv:2301.11300): gradients that are large and agree between mini-batches."""

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered
from untrained.proxies.pruning import LAYERS, gradients


@registered
@proxy(
    paper="ZiCo (Li et al.)", measures="trainability, generalisation", needs=("data", "labels", "gradients"),
    samples=128, cost=3, layers=LAYERS,
)  # fmt: skip
def zico(probe: Probe, batches: int = 2) -> float:
    """How large the loss gradient of each weight is against its spread between batches.

        sum_l ln sum (mean |g_l| / sigma_l)

    Mean and standard deviation over the batches (biased, as in the code); entries with sigma = 0 and layers without
    any other are left out. With two batches sigma = |g_1 - g_2| / 2, so that single entries may dominate.
    """
    return consistency(probe, batches)


def consistency(probe: Probe, batches: int) -> float:
    """sum_l ln sum (mean |g_l| / sigma_l)"""
    parts = [gradients(part) for part in probe.parts(batches)]
    sums = torch.stack([_ratio(torch.stack([part[name] for part in parts])) for name in parts[0]])
    if not bool((sums > 0).any()):
        raise Unscorable("disconnected", "no gradient differs between batches")
    return float(sums[sums > 0].log().sum())


def _ratio(g: Tensor) -> Tensor:
    """g: (batches, *weight) -> sum over entries of mean |g| / sigma."""
    sigma = g.std(0, unbiased=False)
    varies = sigma != 0
    return (g.abs().mean(0)[varies] / sigma[varies]).double().sum()
