"""SynFlow (Tanaka et al., NeurIPS 2020, arXiv:2006.05467): flow through a network made positive.

R is the sum of the outputs for an input of ones, computed in float64, after every parameter is
replaced by its absolute value and every norm by the identity. No data are needed.
"""

from typing import Literal

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy

LAYERS = "convolutions, linear layers"


@register_proxy
@proxy(
    paper="SynFlow (Tanaka et al.)",
    aspects="expressivity",
    needs=("gradients",),
    cost=3,
    layers=LAYERS,
)
def synflow(probe: Probe, norms: Literal["identity", "kept"] = "identity") -> float:
    """The flow through each weight of the network made positive, summed.

        sum_l sum |W_l dR/dW_l|

    zero-cost-nas removes the batch norms of its NAS-Bench-201 network, except for those in the two
    residual blocks, which ignore the flag. We remove all norms. `norms=kept` is `synflow_bn` of
    zero-cost-nas.
    """
    flow = probe.flow(norms == "kept")
    total = float(sum((W * g).abs().sum() for W, g in flow.values()))
    return _require_flow(total)


@register_proxy
@proxy(
    paper="LogSynFlow (Cavagnero et al., FreeREA)",
    aspects="expressivity",
    needs=("gradients",),
    cost=3,
    layers=LAYERS,
)
def logsynflow(probe: Probe) -> float:
    """SynFlow with gradients on a logarithmic scale, so that depth does not dominate the score.

        sum_l sum |W_l| ln(1 + |dR/dW_l|)

    Norms are the identity here too.
    """
    flow = probe.flow()
    total = float(sum((W.abs() * g.abs().log1p()).sum() for W, g in flow.values()))
    return _require_flow(total)


def _require_flow(total: float) -> float:
    # All terms are non-negative, so zero means that no weight has any flow.
    if total == 0:
        raise Unscorable("disconnected", "nothing flows from input to output")
    return total
