"""SiGeo (Zhou et al., arXiv:2311.13169): gradient consistency, Fisher-Rao norm and loss, before or
after a warm-up.

The proxy uses the weights that the network has: fresh weights give the zero-shot score, warmed-up
weights (`--warm-up`) the sub-one-shot score.
"""

from math import log
from typing import Annotated, Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.options import Between
from untrained.probe import Probe
from untrained.probe.layers import join_names
from untrained.proxies.base import proxy, register_proxy
from untrained.proxies.pruning import LAYERS, weight_gradients
from untrained.proxies.zico import Batches, gradient_consistency

# (l1, l2, l3) of Eq. 7
PRESETS = {
    "zero-shot": (1.0, 1.0, 0.0),
    "vision": (1.0, 50.0, 1.0),
    "recommendation": (1.0, 1.0, 1.0),
}
Parts = tuple[Probe, ...]


@register_proxy
@proxy(
    paper="SiGeo (Zhou et al.)",
    aspects="trainability, generalisation",
    needs=("data", "labels", "gradients"),
    samples=256,
    cost=3,
    layers=LAYERS,
    version=3,
)
def sigeo(
    probe: Probe,
    preset: Literal["zero-shot", "vision", "recommendation"] = "zero-shot",
    l1: float | None = None,
    l2: float | None = None,
    l3: float | None = None,
    batches: Batches = 4,
    variant: Literal["default", "frozen", "notebook", "published"] = "default",
    step: Annotated[float, Between(0, 1e6)] = 0.1,
) -> float:
    """Gradient consistency, Fisher-Rao norm and loss along a few steps of gradient descent.

        l1 sum_l ln ||mu_l / sigma_l||_1 + l2 ln FR - l3 L_k                                (Eq. 7)
        FR = (1/k) sum_i (theta_k . grad L_i(theta_i))^2                          (Definition 1)
        theta_i+1 = theta_i - step grad L_i(theta_i)

    The samples are split into k batches. mu is the mean of |grad| over the batches, and sigma the
    standard deviation of grad, as in the code of ZiCo. L_k is the loss on the last batch. After
    each batch but the last, a copy of the network takes a gradient step in all trainable
    parameters. For vision the paper states neither an optimiser nor the size of the step; 0.1 is
    our choice.

    The presets are the values of l1, l2 and l3 in the paper: 1, 1, 0 for zero-shot scores, and
    after a warm-up 1, 50, 1 for vision and 1, 1, 1 for recommendation. The options l1, l2 and l3
    override them.

    Batches have 64 samples, as the paper states for its residual networks. In the authors' code for
    recommenders they have 512: `sigeo(preset=recommendation,samples=2048)`.

    With `variant=frozen`, which was the default up to version 2, the weights are the same for all
    batches. theta . grad is then 0 for every weight before a batch norm, so FR ignores most layers
    of a convolutional network. With l2 = l3 = 0 this variant is ZiCo.

    Two more variants follow implementations of the authors, which also keep the weights.
    `variant=notebook` computes FR as sum_l |theta_l . sum_i g_li| + 1e-5. `variant=published`
    follows the code for recommenders. It uses all parameters, but only one coordinate of each
    layer: the first one whose gradient varies (`nonzero(std)[0]`, sigma unbiased). Layers with
    equal `str` count as one layer. FR is |sum_l theta_l . sum_i g_li| + 1e-10, where theta_l are
    the weights of the last of these layers. Unlike this variant, the code for recommenders also
    takes a step of Adagrad after each batch, with gradients clipped at norm 5.
    """
    weights = []
    for preset_weight, override in zip(PRESETS[preset], (l1, l2, l3), strict=True):
        weights.append(preset_weight if override is None else override)
    w1, w2, w3 = weights
    if variant == "default":
        parts = probe.parts_with_gradient_steps(batches, step)
    else:
        parts = probe.parts(batches)
    # If its weight is zero, the Fisher-Rao norm is not computed, and ln 1 = 0 stands for its term.
    fisher_norm = 1.0
    if variant == "published":
        consistency, fisher_norm = _recommender_terms(parts)
    else:
        consistency = gradient_consistency(parts)
        if w2:
            if variant == "notebook":
                fisher_norm = _notebook_fisher_rao(parts)
            else:
                fisher_norm = fisher_rao(parts)
    if fisher_norm <= 0:
        raise Unscorable("disconnected", "the loss does not change with the scale of the weights")
    return w1 * consistency + w2 * log(fisher_norm) - w3 * parts[-1].loss


def fisher_rao(parts: Parts) -> float:
    """FR of Eq. 7 with the weights of the last part"""
    theta = parts[-1].weights
    products = []
    for part in parts:
        terms = []
        for name, g in weight_gradients(part).items():
            terms.append((theta[name] * g).double().sum())
        products.append(sum(terms))
    return float(sum(product**2 for product in products) / len(parts))


def _notebook_fisher_rao(parts: Parts) -> float:
    """sum_l |theta_l . sum_i g_li| + 1e-5"""
    weights = parts[0].weights
    total = 0.0
    for name in weight_gradients(parts[0]):
        gradient_sum = sum(weight_gradients(part)[name] for part in parts)
        total += abs(float((weights[name] * gradient_sum).sum()))
    return total + 1e-5


def _recommender_terms(parts: Parts) -> tuple[float, float]:
    """Gradient consistency and FR as in the authors' code for recommenders.

    That code stores gradients in a dictionary whose key is the `str` of a module and the size of a
    parameter, so that equal layers share one entry.
    """
    gradients: dict[tuple[str, int], list[Tensor]] = {}
    theta: dict[tuple[str, int], Tensor] = {}
    for prefix, module in parts[0].model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full_name = join_names(prefix, name)
            if full_name not in parts[0].gradients:
                continue
            key = (str(module), parameter.numel())
            rows = gradients.setdefault(key, [])
            rows.extend(part.gradients[full_name].flatten() for part in parts)
            # The last of several equal layers overwrites the others.
            theta[key] = parameter.detach().flatten()
    consistency = 0.0
    product = 0.0
    for key, rows in gradients.items():
        g = torch.stack(rows)
        sigma = g.std(0)
        varying = sigma.nonzero()
        if not len(varying):
            detail = "a layer's gradient does not differ between batches"
            raise Unscorable("disconnected", detail)
        # `nonzero(std)[0]` in the authors' code is the first coordinate, not all of them.
        first = varying[0]
        consistency += float((g.abs().mean(0)[first] / sigma[first]).log())
        product += float((g.sum(0) * theta[key]).sum())
    return consistency, abs(product) + 1e-10
