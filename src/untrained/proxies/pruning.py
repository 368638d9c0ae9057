"""Pruning metrics read as architecture scores (zero-cost-nas: Abdelfattah et al., ICLR 2021, arXiv:2101.08134).

W_l are the weights of convolutions, linear layers and attention projections (no biases, no norms), g_l the gradient of
the mean loss of one mini-batch by W_l. Batch norm reads the batch. All of these share one forward and one backward.
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered

PAPER = "zero-cost-nas (Abdelfattah et al.)"
LAYERS = "convolutions, linear layers"


def gradients(probe: Probe) -> dict[str, Tensor]:
    """g_l by name of the weight."""
    found = {name: probe.gradients[name] for name in probe.weights if name in probe.gradients}
    if not any(bool(g.any()) for g in found.values()):
        raise Unscorable("disconnected", "no weight receives a gradient")
    return found


@registered
@proxy(paper=PAPER, measures="trainability", needs=("data", "labels", "gradients"), samples=64, cost=3, layers=LAYERS)
def grad_norm(probe: Probe) -> float:
    """Sum over layers of the norm of the loss gradient.

        sum_l ||g_l||_2

    A sum of norms, one a layer, not the norm of the whole gradient; that one is `grad`.
    """
    return float(sum(g.norm() for g in gradients(probe).values()))


@registered
@proxy(
    paper="SNIP (Lee et al.), zero-cost-nas form", measures="trainability", needs=("data", "labels", "gradients"),
    samples=64, cost=3, layers=LAYERS,
)  # fmt: skip
def snip(probe: Probe, variant: Literal["default", "per_sample"] = "default") -> float:
    """How much the loss would feel the removal of each weight, summed.

        sum_l sum |W_l g_l|;   per_sample: (1/m) sum_i |theta . g_i|, g_i the gradient of the loss of sample i

    `per_sample` is the form of HNAS's theorems (all parameters, batch statistics held constant); HNAS's own code takes
    the default.
    """
    if variant == "per_sample":
        return float(torch.stack(list(probe.kernel("loss", "all", "fixed").products.values())).sum(0).abs().mean())
    return float(sum((probe.weights[name] * g).abs().sum() for name, g in gradients(probe).items()))


@registered
@proxy(paper=PAPER, measures="trainability", needs=("data", "labels", "gradients"), samples=64, cost=3, layers=LAYERS)
def plain(probe: Probe) -> float:
    """Weights times their loss gradients, summed with their signs.

        sum_l sum W_l g_l

    Batch norm makes the loss nearly blind to the scale of a weight, so terms cancel to rounding and to the layers
    without a norm behind them: little of an architecture is left in the number.
    """
    return float(sum((probe.weights[name] * g).sum() for name, g in gradients(probe).items()))


@registered
@proxy(
    paper="GraSP (Wang et al.), zero-cost-nas form", measures="trainability", needs=("data", "labels", "gradients"),
    samples=64, cost=8, layers=LAYERS,
)  # fmt: skip
def grasp(probe: Probe) -> float:
    """How much the removal of each weight would change the flow of gradients, summed.

        - sum_l sum W_l (H g)_l

    Sign and temperature as in the code of zero-cost-nas (T = 1, one iteration). H is symmetric, so the sum is that of
    g_l (H W)_l, which takes fewer passes.
    """
    return -float(sum((probe.gradients[name] * HW).sum() for name, HW in probe.hessian_weights.items()))


@registered
@proxy(
    paper="Fisher pruning (Theis et al., Turner et al.), zero-cost-nas form", measures="trainability",
    needs=("data", "labels", "gradients"), samples=64, cost=3, layers=LAYERS,
)  # fmt: skip
def fisher(probe: Probe) -> float:
    """Squared product of activation and gradient of every channel, weighted by its number of weights.

        sum_l sum_c fan_in_l (1/2m) sum_i (sum over positions of a_lc dL/da_lc)^2

    The code sums over weights a value that all weights of a channel share: hence the fan-in. Its loss is the mean of
    the batch, so values scale with 1/m^2.
    """
    gradients(probe)
    return float(sum(c.fan_in * c.saliency.square().mean(0).sum() / 2 for c in probe.channels))


@registered
@proxy(paper=PAPER, measures="size", needs=(), cost=0, layers=LAYERS)
def l2_norm(probe: Probe) -> float:
    """Sum over layers of the norm of the weights.

        sum_l ||W_l||_2

    Published on a network that registers all operations of a cell, used or not, this is one constant for all of
    NAS-Bench-201. Ours sees the layers that are built.
    """
    return float(sum(W.norm() for W in probe.weights.values()))
