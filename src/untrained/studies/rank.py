"""`rank(...)`: which of these networks should be trained first? Every factory in a file, or every network that a name
stands for, judged on the same data, with the sizes beside the proxy.

A factory is a public function, a partial or a class of modules that can be called without arguments; each is called
once to see whether it makes a network. Naming a file runs its code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, isclass, signature
from pathlib import Path
from types import FunctionType
from typing import Any

from torch import nn

from untrained._load import members
from untrained.engine.score import score
from untrained.engine.zoo import in_zoo, listed
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.runs.ranking import Ranking, rank_records
from untrained.types import Record

BASELINES = ("params", "flops")
_NO_FACTORY = ("main",)


@dataclass(frozen=True)
class Ranked:
    """Networks in the order in which to train them, and what could not be judged, with reasons."""

    proxies: tuple[Proxy, ...]  # the first decides
    records: tuple[Record, ...]
    left_out: tuple[tuple[str, str], ...]  # factories that made no network

    def rows(self) -> list[dict[str, Any]]:
        """One row a network, best first: its place, the mean of each proxy over the seeds, or why it has no place."""
        means = {p.label: {str(s.arch): s.score for s in self._ranking(p).standings} for p in self.proxies}
        decides = self._ranking(self.proxies[0])
        known = [(str(s.arch), place, None) for place, s in enumerate(decides.standings, 1)]
        failed = [(str(arch), None, str(why)) for arch, why in decides.failed]
        failed += [(name, None, why) for name, why in self.left_out]
        return [
            {"place": place, "arch": arch, **{label: found.get(arch) for label, found in means.items()}, "error": error}
            for arch, place, error in [*known, *failed]
        ]

    def first_by(self, proxy: Proxy) -> str | None:
        """The network that this proxy puts first."""
        standings = self._ranking(proxy).standings
        return str(standings[0].arch) if standings else None

    @property
    def caution(self) -> str:
        """What to beware of, in a line: networks that were not asked the same. Empty where they were."""
        judged = (r for r in self.records if r.proxy == self.proxies[0].label and r.value is not None)
        outputs = sorted({record.task.num_classes for record in judged})
        if len(outputs) < 2:
            return ""
        told = f"the networks have {', '.join(map(str, outputs[:-1]))} or {outputs[-1]} outputs"
        return f"{told}, and each was judged on as many classes; --classes {outputs[0]} or --data asks all the same"

    def _ranking(self, proxy: Proxy) -> Ranking:
        return rank_records(self.records, proxy.measure, proxy.higher_is_better)


def rank(
    what: Sequence[str], proxies: "Sequence[str | Proxy]" = ("dextr",), data: str | None = None, **options: Any
) -> Ranked:
    """Judge everything that `what` stands for: `./models.py`, `timm:resnet*`, or single networks as `score` takes them.
    `options` are those of `score`."""
    names: list[str] = []
    left_out: list[tuple[str, str]] = []
    for one in what:
        if in_zoo(one):
            names += listed(one)
        elif one.endswith(".py"):
            made = {f"{one}:{name}": _why_none(factory) for name, factory in _callable(Path(one)).items()}
            names += [name for name, why in made.items() if why is None]
            left_out += [(name, why) for name, why in made.items() if why]
        else:
            names.append(one)
    if not names:
        raise UsageError(f"nothing in {', '.join(what)} makes a network: write functions that return an nn.Module")
    judges = tuple(load_proxy(name) for name in dict.fromkeys((*proxies, *BASELINES)))
    return Ranked(judges, tuple(score(names, judges, data, **options)), tuple(left_out))


def _callable(path: Path) -> dict[str, Callable[[], Any]]:
    """What in a file may be a factory, in the order of the file."""
    return {name: thing for name, thing in members(path).items() if name not in _NO_FACTORY and _may_make(thing)}


def _may_make(thing: Any) -> bool:
    if not isinstance(thing, FunctionType | partial) and not (isclass(thing) and issubclass(thing, nn.Module)):
        return False
    needed = (p for p in signature(thing).parameters.values() if p.default is Parameter.empty)
    return all(p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for p in needed)


def _why_none(factory: Callable[[], Any]) -> str | None:
    """None where the factory makes a network; "" where it makes something else, which nobody called a network."""
    try:
        with random_state(0):
            return None if isinstance(factory(), nn.Module) else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
