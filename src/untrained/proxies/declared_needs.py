"""A probe that refuses measurements which a proxy does not declare in `needs`.

Data without labels get random ones, and tables of costs and needs are read by people who choose a
proxy. Both go wrong silently if a proxy reads more than it declares.
"""

from typing import Any, cast

from untrained.errors import UsageError
from untrained.probe import Probe

# What each measurement needs besides the data. Measurements that are not listed need neither.
_NEEDS = {
    "loss": ("labels",),
    "gradients": ("labels", "gradients"),
    "channels": ("labels", "gradients"),
    "hessian_weights": ("labels", "gradients"),
    "responses": ("labels", "gradients"),
    "moving_parts": ("labels", "gradients"),
    "jacobian": ("gradients",),
    "fisher": ("gradients",),
    "flow": ("gradients",),
}
# The same for the argument of `Probe.kernel`.
_NEEDS_OF_KERNEL = {
    "label": ("labels", "gradients"),
    "loss": ("labels", "gradients"),
    "sum": ("gradients",),
    "all": ("gradients",),
}


class _DeclaredProbe:
    """A probe of which only the declared measurements can be read."""

    def __init__(self, probe: Probe, proxy: str, needs: tuple[str, ...]) -> None:
        self._probe = probe
        self._proxy = proxy
        self._needs = needs

    # A measurement may have any type.
    def __getattr__(self, name: str) -> Any:
        self._require(f"probe.{name}", _NEEDS.get(name, ()))
        return getattr(self._probe, name)

    # The arguments are those of `Probe.kernel`.
    def kernel(self, outputs: Any, *args: Any, **kwargs: Any) -> object:
        """Return `Probe.kernel`, if what it needs is declared."""
        self._require(f'probe.kernel("{outputs}")', _NEEDS_OF_KERNEL.get(outputs, ()))
        return self._probe.kernel(outputs, *args, **kwargs)

    def first(self, samples: int) -> Probe:
        """Return the first samples, with the same check."""
        return restrict_probe(self._probe.first(samples), self._proxy, self._needs)

    def parts(self, count: int) -> tuple[Probe, ...]:
        """Return parts of the batch, with the same check."""
        parts = self._probe.parts(count)
        return tuple(restrict_probe(part, self._proxy, self._needs) for part in parts)

    def _require(self, measurement: str, needs: tuple[str, ...]) -> None:
        missing = [need for need in needs if need not in self._needs]
        if missing:
            declared = ", ".join(f'"{need}"' for need in (*self._needs, *missing))
            raise UsageError(
                f"{self._proxy} reads {measurement}, which needs {' and '.join(missing)}; "
                f"declare it: @ut.proxy(needs=({declared}), ...)"
            )


def restrict_probe(probe: Probe, proxy: str, needs: tuple[str, ...]) -> Probe:
    """Return the same probe, which refuses measurements that are not declared.

    Args:
        probe: The probe.
        proxy: Name of the proxy, for the message.
        needs: What it declares.

    Returns:
        An object with the attributes of the probe. Reading an undeclared measurement raises
        `UsageError`.
    """
    return cast(Probe, _DeclaredProbe(probe, proxy, needs))
