"""A proxy that reads two other proxies, which its options name."""

from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies.base import PROXIES, proxy, register_proxy


@register_proxy
@proxy(
    paper="Dextr (Asthana et al.), Table 4",
    aspects="those of a and b",
    needs=("data", "labels", "gradients"),
    samples=256,
    cost=2,
)
def harmonic_mean(probe: Probe, a: str = "zen", b: str = "zico") -> float:
    """Harmonic mean of two proxies: high only if both are high.

        2 a b / (a + b)

    The paper uses the harmonic mean of Zen and ZiCo as a baseline for its own formula. Both scores
    must be positive.
    """
    first = PROXIES[a]
    second = PROXIES[b]
    if not (first.higher_is_better and second.higher_is_better):
        raise UsageError(f"harmonic_mean needs two proxies where higher is better, not {a} and {b}")
    x = first(probe)
    y = second(probe)
    # For numbers with different signs, a + b may be 0, so the harmonic mean cannot rank networks.
    if min(x, y) <= 0:
        detail = f"a harmonic mean needs positive scores: {a} is {x:.4g}, {b} is {y:.4g}"
        raise Unscorable("unsupported", detail)
    return 2 * x * y / (x + y)
