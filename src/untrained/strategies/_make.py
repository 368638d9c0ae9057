"""From what people type, `evolution(preset=zennas,population=64)`, to a strategy.

Knows how strategies are called and what they ask of a search; knows nothing of networks, data or folders.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from untrained._load import parse_call
from untrained._options import fits
from untrained.errors import UsageError, unknown
from untrained.proxies import load_proxy
from untrained.strategies._strategy import STRATEGIES, Fitness, SpaceLike, Strategy

SUPPLIED = ("source", "device", "notes", "judge", "by", "beside")  # keywords that the search fills in, and nobody types
NEEDS = {"source": "a space with a supernet", "judge": "--validate", "beside": "--beside"}  # in the user's words


@dataclass(frozen=True)
class Chosen:
    """A strategy by name, and the options that were typed in brackets."""

    name: str
    kind: Callable[..., Strategy]
    options: dict[str, Any]

    @staticmethod
    def parse(text: str) -> "Chosen":
        name, options = parse_call(text)
        kind = STRATEGIES[name]
        known = options_of(kind)
        for option, value in options.items():
            if option not in known:
                raise unknown(f"option of {name}", option, known)
            if not fits(value, known[option].hint):
                raise UsageError(f"{name}({option}={value}): wrong kind of value; it takes {known[option]}")
        return Chosen(name, kind, options)

    @property
    def label(self) -> str:
        """What to type for it."""
        written = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({written})" if written else self.name

    @property
    def learns(self) -> bool:
        """Whether it must know what every architecture scores, before the others are judged."""
        return signature(self.kind).parameters["fitness"].default is Parameter.empty or self.needs("by")

    def needs(self, what: str) -> bool:
        return what in self.kind.needs  # type: ignore[attr-defined]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The proxies that it judges a pool by, where it does not leave that to the search."""
        own = getattr(self.kind, "metrics", None)
        return tuple(load_proxy(name).label for name in own(**self.options)) if own else ()

    def make(self, space: SpaceLike, rng: np.random.Generator, fitness: Fitness, **supplies: Any) -> Strategy:
        """The strategy, with those of the supplies that it takes."""
        taken = signature(self.kind).parameters
        given = {name: value for name, value in supplies.items() if name in taken}
        return self.kind(space, rng, fitness, **given, **self.options)


@dataclass(frozen=True)
class Option:
    """What may be typed in brackets."""

    name: str
    hint: Any
    default: Any

    def __str__(self) -> str:
        """`population=64`, `dies=oldest|worst`, `nu0=NUMBER`."""
        if get_origin(self.hint) is Literal:
            return f"{self.name}={'|'.join(str(value) for value in get_args(self.hint) if value != '')}"
        return f"{self.name}={_WORDS[_kinds(self.hint)[0]] if self.default is None else self.default}"


_WORDS = {int: "WHOLE NUMBER", float: "NUMBER", str: "NAME", bool: "True|False"}


def options_of(kind: Callable[..., Strategy]) -> dict[str, Option]:
    """By name: keywords that nobody supplies, and where a strategy has a plan, the lines of that plan."""
    hints = get_type_hints(kind.__init__)
    typed = [p for p in signature(kind).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    found = [Option(p.name, hints[p.name], p.default) for p in typed if p.name not in SUPPLIED]
    plan = getattr(kind, "planned", None)
    if plan is not None:
        lines = get_type_hints(plan)
        found += [Option(line.name, lines[line.name], line.default) for line in fields(plan)]
    return {option.name: option for option in found}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) or (hint,)
