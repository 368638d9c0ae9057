"""Baselines that are shown beside every proxy.

Many published correlations are largely explained by the number of parameters.
"""

from hashlib import sha256

from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy
from untrained.seeds import make_generator


@register_proxy
@proxy(aspects="size", needs=(), cost=0)
def params(probe: Probe) -> float:
    """Number of trainable parameters."""
    return probe.params


@register_proxy
@proxy(aspects="size", needs=())
def flops(probe: Probe) -> float:
    """Multiply-adds of one forward pass of one sample, which the literature calls FLOPs."""
    return probe.macs


@register_proxy
@proxy(aspects="size", needs=())
def depth(probe: Probe) -> float:
    """Number of weight matrices in the longest chain from input to output."""
    return probe.depth


@register_proxy
@proxy(aspects="nothing", needs=(), cost=0)
def random(probe: Probe) -> float:
    """A random number between 0 and 1: no useful proxy should rank worse.

    The number depends on the seed and on the weights, so a network always gets the same number, and
    other networks get other numbers.
    """
    digest = sha256()
    for name, parameter in probe.model.named_parameters():
        # The first few values are enough to tell two networks apart.
        values = parameter.detach().flatten()[:16].cpu().numpy()
        digest.update(f"{name}{tuple(parameter.shape)}".encode() + values.tobytes())
    rng = make_generator("random", probe.seed, digest.hexdigest())
    return float(rng.random())
