"""DSS (Zhou et al., CVPR 2022, arXiv:2203.12217, TF-TAS): diversity of attention and saliency of MLPs. For
transformers; no data."""

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered


@registered
@proxy(
    paper="TF-TAS (Zhou et al.)", measures="expressivity, trainability", needs=("gradients",), cost=3,
    layers="attention and linear layers",
)  # fmt: skip
def dss(probe: Probe) -> float:
    """Nuclear norms of attention matrices and of their gradients, plus the saliency of all other linear layers.

        sum over attention W of ||W||_* ||dR/dW||_* + sum over other linear W of sum |W dR/dW|

    R: SynFlow's sum of the outputs of the network made positive. A linear layer belongs to attention if a module around
    it, below the root, has attention in the name of its class. The code knows AutoFormer's classes by name and pools
    the gradients of sliced matrices.
    """
    flow = probe.flow()
    attention = attention_weights(probe.model) & flow.keys()
    if not attention:
        raise Unscorable("unsupported", "dss is for transformers: no attention was found")
    linear = {name for name, W in probe.weights.items() if W.ndim == 2} - attention
    diversity = sum(_nuclear(flow[name][0]) * _nuclear(flow[name][1]) for name in attention)
    return float(diversity + sum((flow[name][0] * flow[name][1]).abs().sum() for name in linear))


def attention_weights(model: nn.Module) -> set[str]:
    """Names of the weights inside modules whose class is called after attention."""
    prefixes = [name for name, m in model.named_modules() if name and "attention" in type(m).__name__.lower()]
    return {name for name, _ in model.named_parameters() if any(name.startswith(f"{p}.") for p in prefixes)}


def _nuclear(W: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.svdvals(W).sum()
    return norm
