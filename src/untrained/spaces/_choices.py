"""Running a function of choices: who answers `choose`, what was asked, and all answers one after the other.

This file knows nothing of networks, names or notations; `_space.py` puts a Space together from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from untrained.errors import UsageError
from untrained.types import Choice, Genes


class Options(tuple[Choice, ...]):
    """What `choose` offers to draw from. `also` may be written as well, but is never drawn: published architectures
    that lie outside of the space that was searched."""

    also: tuple[Choice, ...] = ()


Pick = Callable[[str, Options], Choice]


class Invalid(UsageError):  # noqa: N818 - it names a state of a combination, not a mistake of a caller
    """Raised by a space's function while it chooses: these choices, each allowed, do not make a network together."""


@dataclass(frozen=True)
class Call:
    """One call of `choose`: what was asked, what could be answered, what was."""

    name: str
    options: tuple[Choice, ...]
    value: Choice


def record(where: str, pick: Pick, run: Callable[[Pick], Any]) -> tuple[tuple[Call, ...], Any]:
    """Every call of the `choose` that `run` is given, answered by `pick`, and what `run` returned."""
    calls: dict[str, Call] = {}

    def choose(name: str, options: Sequence[Choice], also: Sequence[Choice] = ()) -> Choice:
        if name in calls:
            raise UsageError(f"space {where}: the choice {name!r} is made twice; give each its own name")
        if not options:
            raise UsageError(f"space {where}: the choice {name!r} has no options")
        offer = Options(options)
        offer.also = tuple(also)
        calls[name] = Call(name, offer, pick(name, offer))
        return calls[name].value

    made = run(choose)
    return tuple(calls.values()), made


# --------------------------------------------------------------------------------------------------- who answers


def any_of(options: Sequence[Choice], rng: np.random.Generator) -> Choice:
    return options[int(rng.integers(len(options)))]


def drawn(rng: np.random.Generator) -> Pick:
    """Every option is equally likely."""
    return lambda _, options: any_of(options, rng)


def replayed(genes: Genes, said: str) -> Pick:
    """The answers in `genes`; an answer that is missing or not allowed is an error about `said`."""
    known = dict(genes)

    def pick(name: str, options: Options) -> Choice:
        if name not in known:
            raise UsageError(f"{said} does not say {name!r}; it can be one of {', '.join(map(str, options))}")
        value, allowed = known[name], options + options.also
        if value in allowed:
            return allowed[allowed.index(value)]
        for option in allowed:
            if str(option) == str(value):  # "3" is written like 3
                return option
        raise UsageError(f"{said}: {name!r} is {value!r}, but it can only be one of {', '.join(map(str, allowed))}")

    return pick


def inherited(parents: Sequence[Mapping[str, Choice]], rng: np.random.Generator) -> Pick:
    """The answer of one of the parents whose answer is allowed here, each equally likely; else any."""

    def pick(name: str, options: Options) -> Choice:
        fitting = [parent[name] for parent in parents if parent.get(name) in options + options.also]
        if len(fitting) == 1:
            return fitting[0]
        return any_of(fitting or options, rng)

    return pick


# ------------------------------------------------------------------------------------------------- all of them


def every(trace: Callable[[Pick], tuple[Call, ...]]) -> Iterator[tuple[Call, ...]]:
    """The calls of every combination, in lexicographic order of the options; an invalid one is passed over as soon as
    it is known to be."""
    prefix: list[int] = []
    while True:
        taken: list[tuple[int, int]] = []  # (index chosen, number of options) of each call

        def pick(name: str, options: Sequence[Choice], taken: list[tuple[int, int]] = taken) -> Choice:
            index = prefix[len(taken)] if len(taken) < len(prefix) else 0
            taken.append((index, len(options)))
            return options[index]

        with suppress(Invalid):  # passed over, as said
            yield trace(pick)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        prefix[:] = [index for index, _ in taken[:-1]] + [taken[-1][0] + 1]
