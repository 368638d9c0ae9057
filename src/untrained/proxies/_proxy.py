"""What a proxy is: a function `(Probe) -> float` that reads like its equation, with its facts beside it.

A proxy knows nothing of architectures, data or devices; the Probe measures, the proxy only combines.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import getdoc, signature
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from untrained.errors import Unscorable, UsageError, unknown
from untrained.probe import Probe
from untrained.registry import Registry

PROXIES: Registry["Proxy"] = Registry("proxy")
ANY = "any"


@dataclass(frozen=True)
class Proxy:
    """A scoring function and the facts a user needs before trusting it.

    The function's docstring tells the rest: what it is in one line, its formula (the indented lines), and where the
    paper and the authors' code differ.
    """

    name: str
    function: Callable[..., float]
    paper: str
    higher_is_better: bool
    measures: str  # expressivity, trainability, generalisation, size
    needs: tuple[str, ...]  # of: data, labels, gradients
    samples: int  # how many samples it looks at
    version: int
    cost: float = 1  # multiply-adds, in forward passes of those samples (a backward pass is two)
    layers: str = ANY  # what a network must have for it to mean something
    averages: bool = False  # a mean over samples: fewer of them estimate the same number
    options: tuple[tuple[str, Any], ...] = ()
    parts: tuple[str, ...] = ()  # of an aggregate: the proxies whose ranks among candidates it combines
    code: str = ""  # a fingerprint of the user's file that it comes from
    usual: int | None = field(default=None, compare=False)  # how many samples it looks at unless asked otherwise

    def __call__(self, probe: Probe) -> float:
        """The score on the first `samples` of the probe's batch. A network cut off from its input is told apart from
        any other that has no score."""
        if self.parts:
            raise UsageError(f"{self.name} compares candidates by {', '.join(self.parts)}; one alone has no such score")
        probe = probe.first(self.samples)
        key = self.function, self.label
        if key not in probe.scores:
            probe.scores[key] = self._score(probe)
        return probe.scores[key]

    def _score(self, probe: Probe) -> float:
        try:
            value = self.function(probe, **dict(self.options))
        except (Unscorable, torch.linalg.LinAlgError) as reason:  # type: ignore[attr-defined]
            kind = getattr(reason, "kind", "")
            if kind != "unsupported":
                self._look_closer(probe, kind)
            raise
        self._require_connected(probe)
        return float(value.detach() if isinstance(value, Tensor) else value)

    def _look_closer(self, probe: Probe, kind: str) -> None:
        """Raise what is behind a failure, where that is of another kind: NaNs, or no path from input to output."""
        try:
            self._require_connected(probe)
        except Unscorable as cause:
            if cause.kind != kind:
                raise

    def _require_connected(self, probe: Probe) -> None:
        if "data" in self.needs:
            probe.require_connected()

    def configured(self, **options: Any) -> "Proxy":
        """The same proxy with other keyword arguments, such as `variant="published"`; every proxy takes `samples`."""
        samples = options.pop("samples", self.samples)
        for option, value in options.items():
            if option not in self.choices:
                known = [*self.choices, "samples"]
                raise unknown(f"option of {self.name}", option, known)
            allowed = self.choices[option]
            if allowed and value not in allowed:
                raise UsageError(f"{self.name} has no {option} {value!r}; there are: {', '.join(map(str, allowed))}")
        if not isinstance(samples, int) or samples < 1:
            raise UsageError(f"{self.name}(samples={samples}): the number of samples is a whole number from 1 up")
        chosen = {**dict(self.options), **options}
        return replace(self, options=tuple(sorted(chosen.items())), samples=samples, usual=self.usual or self.samples)

    @property
    def choices(self) -> dict[str, tuple[Any, ...]]:
        """The function's options and what each may be; empty where any value goes."""
        hints = get_type_hints(self.function)
        own = list(signature(self.function).parameters)[1:]
        return {name: get_args(hints[name]) if get_origin(hints.get(name)) is Literal else () for name in own}

    @property
    def label(self) -> str:
        """Name and options: `dextr(variant=published)`."""
        chosen = dict(self.options) | ({} if self.usual in (None, self.samples) else {"samples": self.samples})
        written = ",".join(f"{name}={value}" for name, value in chosen.items())
        return f"{self.name}({written})" if written else self.name

    @property
    def measure(self) -> str:
        """What a record is filed under: label and version. A change of the formula is a new version, and so is one of
        the user's file."""
        return f"{self.label}@{self.version}{self.code and f'-{self.code}'}"

    @property
    def about(self) -> str:
        return (getdoc(self.function) or "").partition("\n")[0]

    @property
    def formula(self) -> str:
        """The indented lines of the docstring."""
        return "\n".join(line.strip() for line in self._told(indented=True))

    @property
    def notes(self) -> str:
        """What the docstring says besides: where paper and code differ, and which we follow."""
        return " ".join(line.strip() for line in self._told(indented=False))

    def _told(self, indented: bool) -> list[str]:
        """The lines of the docstring after the first that stand further in, or those that do not."""
        lines = (getdoc(self.function) or "").splitlines()[1:]
        return [line for line in lines if line.strip() and line.startswith(" ") == indented]


def proxy(
    *,
    paper: str = "",
    higher_is_better: bool = True,
    measures: str = "",
    needs: tuple[str, ...] = ("data",),
    samples: int = 1,
    version: int = 1,
    cost: float = 1,
    layers: str = ANY,
    averages: bool = False,
) -> Callable[[Callable[..., float]], Proxy]:
    """Decorator: make a `Proxy` of a function `(probe, **options) -> float`. Its name is the function's name."""

    def make(function: Callable[..., float]) -> Proxy:
        name = function.__name__.rstrip("_")
        return Proxy(name, function, paper, higher_is_better, measures, needs, samples, version, cost, layers, averages)

    return make


def aggregate(*, parts: tuple[str, ...], paper: str, measures: str) -> Callable[[Callable[..., list[float]]], Proxy]:
    """Decorator: make a `Proxy` of a function of ranks.

    The function takes one list a part, rank / number of candidates (1 is best, ties averaged, a candidate without that
    part's score is last), and returns the score of each candidate.
    """
    members = [PROXIES[part] for part in parts]

    def make(function: Callable[..., list[float]]) -> Proxy:
        needs = tuple(dict.fromkeys(need for member in members for need in member.needs))
        samples, cost = max(member.samples for member in members), sum(member.cost for member in members)
        made = Proxy(function.__name__, function, paper, True, measures, needs, samples, 1, cost)  # type: ignore[arg-type]
        return replace(made, parts=parts)

    return make


def registered(member: Proxy) -> Proxy:
    """Enter one of our own proxies in the catalogue."""
    return PROXIES.add(member.name, member)
