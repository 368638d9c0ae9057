"""DSS (Zhou et al., CVPR 2022, arXiv:2203.12217, TF-TAS): diversity of attention and saliency of
MLPs. For transformers; no data are needed.
"""

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy


@register_proxy
@proxy(
    paper="TF-TAS (Zhou et al.)",
    aspects="expressivity, trainability",
    needs=("gradients",),
    cost=3,
    layers="attention and linear layers",
)
def dss(probe: Probe) -> float:
    """Nuclear norms of attention matrices and their gradients, plus the saliency of other layers.

        sum over attention W of ||W||_* ||dR/dW||_* + sum over other linear W of sum |W dR/dW|

    R is the sum of the outputs of the network made positive, as in SynFlow. A linear layer belongs
    to attention if a module that contains it, other than the network itself, has "attention" in its
    class name. The authors' code recognises AutoFormer's layers by the names of their classes and
    by their shapes, and also adds the saliency of the patch embedding.
    """
    flow = probe.flow()
    attention = find_attention_weights(probe.model) & flow.keys()
    if not attention:
        raise Unscorable("unsupported", "dss is for transformers: the network has no attention")
    # Sums run in the order of the parameters: the order of a set differs between processes.
    diversity = torch.zeros((), dtype=torch.float64)
    saliency = torch.zeros((), dtype=torch.float64)
    for name, (W, g) in flow.items():
        if name in attention:
            diversity = diversity + (_nuclear_norm(W) * _nuclear_norm(g)).cpu()
        elif probe.weights[name].ndim == 2:
            saliency = saliency + (W * g).abs().sum().cpu()
    return float(diversity + saliency)


def find_attention_weights(model: nn.Module) -> set[str]:
    """Return the names of parameters inside modules whose class name contains "attention"."""
    prefixes = []
    for name, module in model.named_modules():
        if name and "attention" in type(module).__name__.lower():
            prefixes.append(f"{name}.")
    return {name for name, _ in model.named_parameters() if name.startswith(tuple(prefixes))}


def _nuclear_norm(W: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.svdvals(W).sum()
    return norm
