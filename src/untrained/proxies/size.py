"""Baselines that stand beside every proxy. Many a published correlation is parameter counting in disguise."""

from hashlib import sha256

from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered
from untrained.rng import generator


@registered
@proxy(measures="size", needs=(), cost=0)
def params(probe: Probe) -> float:
    """Number of trainable parameters."""
    return probe.params


@registered
@proxy(measures="size", needs=())
def flops(probe: Probe) -> float:
    """Multiply-adds of one forward pass of one sample, what the field calls FLOPs."""
    return probe.macs


@registered
@proxy(measures="size", needs=())
def depth(probe: Probe) -> float:
    """The longest chain of weight matrices from input to output."""
    return probe.depth


@registered
@proxy(measures="nothing", needs=(), cost=0)
def random(probe: Probe) -> float:
    """A random number between 0 and 1, the baseline that keeps everyone honest.

    Drawn from the seed and the network's weights: the same network gives the same number, another network another.
    """
    content = sha256()
    for name, p in probe.model.named_parameters():
        content.update(f"{name}{tuple(p.shape)}".encode() + p.detach().flatten()[:16].cpu().numpy().tobytes())
    return float(generator("random", probe.seed, content.hexdigest()).random())
