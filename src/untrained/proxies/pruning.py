"""Pruning metrics as architecture scores (zero-cost-nas: Abdelfattah et al., ICLR 2021,
arXiv:2101.08134).

W_l are the weights of convolutions, linear layers and attention projections (no biases, no norms),
g_l is the gradient of the mean loss of one mini-batch with respect to W_l. Batch norm uses the
statistics of the batch. The metrics share one forward and one backward pass; GraSP needs further
passes for second derivatives, and the per-sample form of SNIP for the gradients of samples.
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy

PAPER = "zero-cost-nas (Abdelfattah et al.)"
LAYERS = "convolutions, linear layers"
NEEDS = ("data", "labels", "gradients")


def weight_gradients(probe: Probe) -> dict[str, Tensor]:
    """g_l by name of the weight; raises `Unscorable` if all of them are zero"""
    gradients = {}
    for name in probe.weights:
        # Frozen weights have no gradient.
        if name in probe.gradients:
            gradients[name] = probe.gradients[name]
    if not any(bool(g.any()) for g in gradients.values()):
        raise Unscorable("disconnected", "no weight receives a gradient")
    return gradients


@register_proxy
@proxy(paper=PAPER, aspects="trainability", needs=NEEDS, samples=64, cost=3, layers=LAYERS)
def grad_norm(probe: Probe) -> float:
    """Sum over layers of the norm of the loss gradient.

        sum_l ||g_l||_2

    This is a sum of norms, one per layer. The norm of the whole gradient is `grad`.
    """
    return float(sum(g.norm() for g in weight_gradients(probe).values()))


@register_proxy
@proxy(
    paper="SNIP (Lee et al.), zero-cost-nas form",
    aspects="trainability",
    needs=NEEDS,
    samples=64,
    cost=3,
    layers=LAYERS,
)
def snip(probe: Probe, variant: Literal["default", "per_sample"] = "default") -> float:
    """How much the loss would change if each weight were removed, summed.

        sum_l sum |W_l g_l|
        per_sample: (1/m) sum_i |theta . g_i|,   g_i the gradient of the loss of sample i

    `per_sample` is the form of HNAS's theorems (all parameters, batch statistics held constant);
    HNAS's own code uses the default.
    """
    if variant == "per_sample":
        # theta . g_i of each parameter; their sum is theta . g_i over all parameters.
        products = probe.kernel("loss", "all", "fixed").products
        return float(torch.stack(list(products.values())).sum(0).abs().mean())
    gradients = weight_gradients(probe)
    return float(sum((probe.weights[name] * g).abs().sum() for name, g in gradients.items()))


@register_proxy
@proxy(paper=PAPER, aspects="trainability", needs=NEEDS, samples=64, cost=3, layers=LAYERS)
def plain(probe: Probe) -> float:
    """Weights times their loss gradients, summed with their signs.

        sum_l sum W_l g_l

    Batch norm makes the loss nearly independent of the scale of a weight. The terms of layers
    before a batch norm therefore cancel, except for rounding, and the score says little about an
    architecture.
    """
    gradients = weight_gradients(probe)
    return float(sum((probe.weights[name] * g).sum() for name, g in gradients.items()))


@register_proxy
@proxy(
    paper="GraSP (Wang et al.), zero-cost-nas form",
    aspects="trainability",
    needs=NEEDS,
    samples=64,
    cost=8,
    layers=LAYERS,
)
def grasp(probe: Probe) -> float:
    """How much the gradient flow would change if each weight were removed, summed.

        - sum_l sum W_l (H g)_l

    The sign and the temperature of the softmax (T = 1, one iteration) are those of zero-cost-nas. H
    is symmetric, so the sum equals that of g_l (H W)_l, which needs fewer passes.
    """
    gradients = probe.gradients
    products = probe.hessian_weight_products
    return -float(sum((gradients[name] * HW).sum() for name, HW in products.items()))


@register_proxy
@proxy(
    paper="Fisher pruning (Theis et al., Turner et al.), zero-cost-nas form",
    aspects="trainability",
    needs=NEEDS,
    samples=64,
    cost=3,
    layers=LAYERS,
)
def fisher(probe: Probe) -> float:
    """Squared product of activation and gradient of each channel, weighted by its fan-in.

        sum_l sum_c fan_in_l (1/2m) sum_i (sum over positions of a_lc dL/da_lc)^2

    zero-cost-nas gives all weights of a channel the same value and sums over the weights, hence the
    factor fan_in. Its loss is the mean over the batch, so values scale with 1/m^2.
    """
    # Called for its check that some weight receives a gradient.
    weight_gradients(probe)
    terms = []
    for layer_call in probe.channel_saliency:
        squares = layer_call.saliency.square().mean(0).sum()
        terms.append(layer_call.fan_in * squares / 2)
    return float(sum(terms))


@register_proxy
@proxy(paper=PAPER, aspects="size", needs=(), cost=0, layers=LAYERS)
def l2_norm(probe: Probe) -> float:
    """Sum over layers of the norm of the weights.

        sum_l ||W_l||_2

    The network of zero-cost-nas contains all operations of a cell, used or not, so its score is the
    same for all of NAS-Bench-201. Our networks contain only the operations of the architecture.
    """
    return float(sum(W.norm() for W in probe.weights.values()))
