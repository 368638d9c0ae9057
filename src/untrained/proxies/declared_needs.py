"""A probe that refuses labels and gradients that a proxy does not declare in `needs`.

If the data have no labels, random labels are used. Without this check, a proxy that reads labels
without declaring them would silently be scored on random ones, and its entry in the list of proxies
would be wrong.
"""

from typing import Any, cast

import torch
from torch import Tensor

from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.types import Batch

# What each measurement needs besides the data. Measurements that are not listed need neither labels
# nor gradients. `blocks` is not listed, because its features need no gradients; a proxy that reads
# its `gradient_pairs` without declaring gradients is not noticed.
_NEEDS = {
    "loss": ("labels",),
    "gradients": ("labels", "gradients"),
    "channel_saliency": ("labels", "gradients"),
    "hessian_weight_products": ("labels", "gradients"),
    "responses": ("labels", "gradients"),
    "parts_with_gradient_steps": ("labels", "gradients"),
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


class _RestrictedProbe:
    """Wraps a probe and refuses measurements that the proxy does not declare."""

    def __init__(self, probe: Probe, proxy_name: str, needs: tuple[str, ...]) -> None:
        self._probe = probe
        self._proxy_name = proxy_name
        self._needs = needs

    # Every measurement has a type of its own, hence `Any`.
    def __getattr__(self, name: str) -> Any:
        self._require(f"probe.{name}", _NEEDS.get(name, ()))
        return getattr(self._probe, name)

    @property
    def batch(self) -> "Batch | _BatchWithoutLabels":
        """The batch. Its targets can be read only if labels are declared."""
        if "labels" in self._needs:
            return self._probe.batch
        return _BatchWithoutLabels(self)

    # The arguments are those of `Probe.kernel`.
    def kernel(self, outputs: Any, *args: Any, **kwargs: Any) -> object:
        """Call `Probe.kernel`, or raise if its needs are not declared."""
        self._require(f'probe.kernel("{outputs}")', _NEEDS_OF_KERNEL.get(outputs, ()))
        return self._probe.kernel(outputs, *args, **kwargs)

    def first(self, samples: int) -> Probe:
        """Return the first samples, with the same check."""
        return self._restrict(self._probe.first(samples))

    def parts(self, count: int) -> tuple[Probe, ...]:
        """Return parts of the batch, with the same check."""
        return tuple(self._restrict(part) for part in self._probe.parts(count))

    def with_inputs(self, inputs: Tensor) -> Probe:
        """Return a probe of other inputs, with the same check."""
        return self._restrict(self._probe.with_inputs(inputs))

    def with_gaussian_weights(self, generator: torch.Generator) -> Probe:
        """Return a probe of a network with random layers, with the same check."""
        return self._restrict(self._probe.with_gaussian_weights(generator))

    def _restrict(self, probe: Probe) -> Probe:
        return restrict_probe(probe, self._proxy_name, self._needs)

    def _require(self, measurement: str, needs: tuple[str, ...]) -> None:
        missing = [need for need in needs if need not in self._needs]
        if missing:
            raise self._make_error(measurement, missing)

    def _make_error(self, measurement: str, missing: list[str]) -> UsageError:
        declared = ", ".join(f'"{need}"' for need in (*self._needs, *missing))
        return UsageError(
            f"{self._proxy_name} reads {measurement}, which needs {' and '.join(missing)}; "
            f"declare it: @ut.proxy(needs=({declared}), ...)"
        )


class _BatchWithoutLabels:
    """The batch of a proxy that does not declare labels."""

    def __init__(self, declared: _RestrictedProbe) -> None:
        self._declared = declared

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def inputs(self) -> Tensor:
        """The inputs, (samples, ...)."""
        return self._declared._probe.batch.inputs

    @property
    def targets(self) -> Tensor:
        """Raise `UsageError`, because labels are not declared."""
        raise self._declared._make_error("probe.batch.targets", ["labels"])


def restrict_probe(probe: Probe, proxy_name: str, needs: tuple[str, ...]) -> Probe:
    """Wrap a probe so that it refuses measurements that the proxy does not declare.

    Args:
        probe: The probe.
        proxy_name: Name of the proxy, for the message.
        needs: What the proxy declares.

    Returns:
        An object with the attributes of the probe. Reading an undeclared measurement raises
        `UsageError`.
    """
    return cast(Probe, _RestrictedProbe(probe, proxy_name, needs))
