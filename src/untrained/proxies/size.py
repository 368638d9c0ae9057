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
    """The longest chain of weight matrices from input to output."""
    return probe.depth


@register_proxy
@proxy(aspects="nothing", needs=(), cost=0)
def random(probe: Probe) -> float:
    """A random number between 0 and 1: no useful proxy should rank worse.

    Drawn from the seed and the network's weights, so the same network always gets the same number
    and other networks get other numbers.
    """
    content = sha256()
    for name, parameter in probe.model.named_parameters():
        # The first few values are enough to tell two networks apart.
        values = parameter.detach().flatten()[:16].cpu().numpy()
        content.update(f"{name}{tuple(parameter.shape)}".encode() + values.tobytes())
    return float(make_generator("random", probe.seed, content.hexdigest()).random())
