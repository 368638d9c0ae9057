"""Zen-score (Lin et al., ICCV 2021, arXiv:2102.01063): how much a network with Gaussian weights
amplifies a small perturbation of its input. Batch norms divide by standard deviations, which hides
amplification, so their logarithms are added. No data are needed.
"""

from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.options import Count
from untrained.probe import Probe
from untrained.probe.guard import NormVariance
from untrained.proxies.base import proxy, register_proxy

# Since version 2, a network without feature maps is scored on its last hidden features even if it
# calls in-place functions; before, such a network was scored on its logits. Since version 3, the
# outputs of two ReLUs are two features if their common input was overwritten in between.
VERSION = 3


@register_proxy
@proxy(
    paper="Zen-NAS (Lin et al.)",
    aspects="expressivity",
    needs=(),
    samples=16,
    cost=2,
    layers="batch norm",
    version=VERSION,
)
def zen(
    probe: Probe,
    repeats: Count = 1,
    gamma: float = 0.01,
    variant: Literal["default", "published"] = "default",
) -> float:
    """Expressivity of a network with Gaussian weights: how far a perturbation moves its features.

        ln mean_i ||f(x_i) - f(x_i + gamma e_i)||_1 + sum_l ln sqrt(mean of var_l)
        x, e, weights ~ N(0, 1)

    f are the features before the last pooling; var_l are the variances of the channels in batch
    norm l (a norm of constant inputs is left out). The authors' code reads running variances
    instead, which after two passes of a new network are 0.81 + 0.19 var: `variant=published`. The
    score is the mean over `repeats` draws of weights and inputs. The paper uses 32 draws, and 1
    draw in its search.
    """
    generator = probe.generator("zen")
    scores = [_score_once(probe, gamma, variant, generator) for _ in range(repeats)]
    return sum(scores) / repeats


def _score_once(probe: Probe, gamma: float, variant: str, generator: torch.Generator) -> float:
    inputs = probe.batch.inputs
    if not inputs.is_floating_point():
        raise Unscorable("unsupported", "zen needs real-valued inputs")
    x, e = torch.randn(2, *inputs.shape, generator=generator).to(inputs)
    gaussian = probe.with_gaussian_weights(generator)
    return amplification(gaussian.with_inputs(x), gaussian.with_inputs(x + gamma * e), variant)


def amplification(original: Probe, perturbed: Probe, variant: str = "default") -> float:
    """The score for one pair of inputs."""
    variances = []
    if variant == "published":
        pairs = zip(original.norm_variances, perturbed.norm_variances, strict=False)
        for first, second in pairs:
            variances.append(_running_variance(first, second))
    else:
        for variance in original.norm_variances:
            variances.append(variance.per_channel.double().mean())
    difference = original.last_map - perturbed.last_map
    delta = difference.flatten(1).abs().sum(1).double().mean()
    if delta == 0:
        raise Unscorable("disconnected", "the features do not change with the input")
    # A norm of constant inputs has variance 0 and is left out.
    corrections = sum(variance.log() / 2 for variance in variances if variance > 0)
    return float(delta.log() + corrections)


def _running_variance(first: NormVariance, second: NormVariance) -> Tensor:
    """Mean over channels of the running variance after two batches.

    The running variance is 1 at first; each batch updates it with momentum 0.1 and the unbiased
    variance of the batch.
    """
    a = first.per_channel.double().mean() * first.entries / (first.entries - 1)
    b = second.per_channel.double().mean() * second.entries / (second.entries - 1)
    return 0.9 * (0.9 + 0.1 * a) + 0.1 * b
