"""What a proxy is: a function `(Probe) -> float` that reads like its equation, with its facts beside it.

A proxy knows nothing of architectures, data or devices; the Probe measures, the proxy only combines.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import getdoc, signature
from typing import Any

from torch import Tensor

from untrained.errors import UsageError, unknown
from untrained.probe import Probe
from untrained.registry import Registry

PROXIES: Registry["Proxy"] = Registry("proxy")


@dataclass(frozen=True)
class Proxy:
    """A scoring function and the facts a user needs before trusting it."""

    name: str
    function: Callable[..., float]
    paper: str
    higher_is_better: bool
    measures: str  # expressivity, trainability, generalisation, size
    needs: tuple[str, ...]  # of: data, labels, gradients
    samples: int  # how many samples it looks at
    version: int
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, probe: Probe) -> float:
        value = self.function(probe, **dict(self.options))
        return float(value.detach() if isinstance(value, Tensor) else value)

    def configured(self, **options: Any) -> "Proxy":
        """The same proxy with other keyword arguments, such as `variant="published"`."""
        known = list(signature(self.function).parameters)[1:]
        for option in options:
            if option not in known:
                raise (
                    unknown(f"option of {self.name}", option, known)
                    if known
                    else UsageError(f"{self.name} takes no options, so {option!r} cannot be set")
                )
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    @property
    def label(self) -> str:
        """Name and options: `dextr(variant=published)`."""
        chosen = ",".join(f"{name}={value}" for name, value in self.options)
        return f"{self.name}({chosen})" if chosen else self.name

    @property
    def measure(self) -> str:
        """What a record is filed under: label and version. A change of the formula is a new version."""
        return f"{self.label}@{self.version}"

    @property
    def about(self) -> str:
        return (getdoc(self.function) or "").partition("\n")[0]


def proxy(
    *,
    paper: str = "",
    higher_is_better: bool = True,
    measures: str = "",
    needs: tuple[str, ...] = ("data",),
    samples: int = 1,
    version: int = 1,
) -> Callable[[Callable[..., float]], Proxy]:
    """Decorator: make a `Proxy` of a function `(probe, **options) -> float`. Its name is the function's name."""

    def make(function: Callable[..., float]) -> Proxy:
        return Proxy(function.__name__, function, paper, higher_is_better, measures, needs, samples, version)

    return make


def registered(member: Proxy) -> Proxy:
    """Enter one of our own proxies in the catalogue."""
    return PROXIES.add(member.name, member)
