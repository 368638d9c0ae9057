"""Size: the baselines that stand beside every proxy. Many a published correlation is parameter counting in disguise."""

from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered


@registered
@proxy(measures="size", needs=())
def params(probe: Probe) -> float:
    """Number of trainable parameters."""
    return probe.params


@registered
@proxy(measures="size", needs=())
def flops(probe: Probe) -> float:
    """Multiply-adds of one forward pass of one sample, what the field calls FLOPs."""
    return probe.macs
