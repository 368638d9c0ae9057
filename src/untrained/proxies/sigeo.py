"""SiGeo (Zhou et al., arXiv:2311.13169): gradient consistency, Fisher-Rao norm and loss, before or after a warm-up.

Reads whatever weights the network has: fresh ones score zero-shot, warmed-up ones sub-one-shot.
"""

from math import log
from typing import Literal

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies._proxy import proxy, registered
from untrained.proxies.pruning import LAYERS, gradients
from untrained.proxies.zico import consistency


@registered
@proxy(
    paper="SiGeo (Zhou et al.)", measures="trainability, generalisation", needs=("data", "labels", "gradients"),
    samples=256, cost=3, layers=LAYERS,
)  # fmt: skip
def sigeo(
    probe: Probe, l1: float = 1.0, l2: float = 1.0, l3: float = 0.0, batches: int = 4,
    variant: Literal["default", "published"] = "default",
) -> float:  # fmt: skip
    """Gradient consistency, Fisher-Rao norm and loss in one number.

        l1 sum_l ln ||mu_l / sigma_l||_1 + l2 ln FR - l3 L_k,   FR = (1/k) sum_i (theta . grad L_i)^2      (Eq. 7)

    k batches; mu and sigma of |grad| as in ZiCo, which l2 = l3 = 0 gives; L_k the loss of the last batch. Weights as in
    the paper: 1, 1, 0 zero-shot; after a warm-up 1, 50, 1 in vision and 1, 1, 1 in recommendation. The authors have two
    codes. The notebook's FR, `variant=published`, is sum_l |theta_l . sum_i g_li| + 1e-5. The recommender's uses one
    coordinate a layer (`nonzero(std)[0]`), merges layers of equal shape and moves the weights between batches: an
    artefact, not offered.
    """
    parts = probe.parts(batches)
    fisher_rao = _published(parts) if variant == "published" else _fisher_rao(parts)
    if fisher_rao <= 0:
        raise Unscorable("disconnected", "the loss does not change with the scale of the weights")
    return l1 * consistency(probe, batches) + l2 * log(fisher_rao) - l3 * parts[-1].loss


def _fisher_rao(parts: tuple[Probe, ...]) -> float:
    """FR of Eq. 7."""
    products = [sum((part.weights[name] * g).double().sum() for name, g in gradients(part).items()) for part in parts]
    return float(sum(product**2 for product in products) / len(parts))


def _published(parts: tuple[Probe, ...]) -> float:
    total = 0.0
    for name in gradients(parts[0]):
        total += abs(float((parts[0].weights[name] * sum(gradients(part)[name] for part in parts)).sum()))
    return total + 1e-5
