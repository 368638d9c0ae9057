"""SiGeo (Zhou et al., arXiv:2311.13169): gradient consistency, Fisher-Rao norm and loss, before or after a warm-up.

Reads whatever weights the network has: fresh ones score zero-shot, warmed-up ones (`--warm-up`) sub-one-shot.
"""

from collections.abc import Callable
from math import log
from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered
from untrained.proxies.pruning import LAYERS, gradients
from untrained.proxies.zico import consistency

PRESETS = {"zero-shot": (1.0, 1.0, 0.0), "vision": (1.0, 50.0, 1.0), "recommendation": (1.0, 1.0, 1.0)}
Parts = tuple[Probe, ...]


@registered
@proxy(
    paper="SiGeo (Zhou et al.)", measures="trainability, generalisation", needs=("data", "labels", "gradients"),
    samples=256, cost=3, layers=LAYERS, version=2,
)  # fmt: skip
def sigeo(
    probe: Probe,
    preset: Literal["zero-shot", "vision", "recommendation"] = "zero-shot",
    l1: float | None = None,
    l2: float | None = None,
    l3: float | None = None,
    batches: int = 4,
    variant: Literal["default", "notebook", "published"] = "default",
) -> float:
    """Gradient consistency, Fisher-Rao norm and loss in one number.

        l1 sum_l ln ||mu_l / sigma_l||_1 + l2 ln FR - l3 L_k,   FR = (1/k) sum_i (theta . grad L_i)^2      (Eq. 7)

    k batches; mu and sigma of |grad| as in ZiCo, which l2 = l3 = 0 gives; L_k the loss of the last batch. Presets are
    the paper's weights: 1, 1, 0 zero-shot; after a warm-up 1, 50, 1 in vision and 1, 1, 1 in recommendation; l1, l2 and
    l3 say others. The authors have two codes. The notebook's FR, `variant=notebook`, is sum_l |theta_l . sum_i g_li| +
    1e-5. The recommender's, `variant=published`, takes all parameters, but of a layer only the first coordinate that
    varies (`nonzero(std)[0]`, sigma unbiased) and merges layers that print alike; its FR is |sum_l theta_l . sum_i
    g_li| + 1e-10 with the weights of the last of such layers. It also trains between the batches, which is left out
    here: a proxy does not move what it looks at.
    """
    w1, w2, w3 = (usual if said is None else said for usual, said in zip(PRESETS[preset], (l1, l2, l3), strict=True))
    parts = probe.parts(batches)
    if variant == "published":
        ratio, fisher_rao = _literal(parts)
    else:
        ratio, fisher_rao = consistency(probe, batches), _FISHER_RAO[variant](parts) if w2 else 1.0
    if fisher_rao <= 0:
        raise Unscorable("disconnected", "the loss does not change with the scale of the weights")
    return w1 * ratio + w2 * log(fisher_rao) - w3 * parts[-1].loss


def fisher_rao(parts: Parts) -> float:
    """FR of Eq. 7."""
    products = [sum((part.weights[name] * g).double().sum() for name, g in gradients(part).items()) for part in parts]
    return float(sum(product**2 for product in products) / len(parts))


def _notebook(parts: Parts) -> float:
    total = 0.0
    for name in gradients(parts[0]):
        total += abs(float((parts[0].weights[name] * sum(gradients(part)[name] for part in parts)).sum()))
    return total + 1e-5


_FISHER_RAO: dict[str, Callable[[Parts], float]] = {"default": fisher_rao, "notebook": _notebook}


def _literal(parts: Parts) -> tuple[float, float]:
    """Both terms as the recommender's code has them: a key is the print of a module and the size of a parameter."""
    rows: dict[tuple[str, int], list[Tensor]] = {}
    theta: dict[tuple[str, int], Tensor] = {}
    for prefix, module in parts[0].model.named_modules():
        for name, p in module.named_parameters(recurse=False):
            whole = f"{prefix}.{name}" if prefix else name
            if whole in parts[0].gradients:
                key = str(module), p.numel()
                rows.setdefault(key, []).extend(part.gradients[whole].flatten() for part in parts)
                theta[key] = p.detach().flatten()  # the last one stays
    ratio = product = 0.0
    for key, found in rows.items():
        g = torch.stack(found)
        sigma = g.std(0)
        varies = sigma.nonzero()
        if not len(varies):
            raise Unscorable("disconnected", "a layer's gradient does not differ between batches")
        first = varies[0]
        ratio += float((g.abs().mean(0)[first] / sigma[first]).log())
        product += float((g.sum(0) * theta[key]).sum())
    return ratio, abs(product) + 1e-10
