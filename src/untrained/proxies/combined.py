"""Scores made of scores."""

from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies._proxy import PROXIES, proxy, registered


@registered
@proxy(
    paper="Dextr (Asthana et al.), Table 4",
    measures="whatever its parts measure",
    needs=("data", "labels", "gradients"),
    samples=256,
    cost=2,
)
def harmonic_mean(probe: Probe, a: str = "zen", b: str = "zico") -> float:
    """Harmonic mean of two proxies: high only where both are.

        2 a b / (a + b)

    The paper combines Zen and ZiCo so, to compare with its own combination. Both parts must be positive.
    """
    if not (PROXIES[a].higher_is_better and PROXIES[b].higher_is_better):
        raise UsageError(f"harmonic_mean needs two proxies of which more is better, not {a} and {b}")
    x, y = PROXIES[a](probe), PROXIES[b](probe)
    if min(x, y) <= 0:
        raise Unscorable("unsupported", f"a harmonic mean needs positive parts: {a} is {x:.4g}, {b} is {y:.4g}")
    return 2 * x * y / (x + y)
