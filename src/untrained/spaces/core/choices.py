"""Run a function of choices: decide what `choose` returns and record the decisions.

The function of a space calls `choose(name, options)`. A *chooser* answers these calls: at random,
from the genes of an architecture, or from the genes of two parents. `space.py` builds `Space` from
this module.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np

from untrained.errors import UsageError
from untrained.types import Choice, Genes

ChoiceT = TypeVar("ChoiceT", bound=Choice)
ResultT = TypeVar("ResultT")


class Choose(Protocol):
    """The first argument of the function of a space."""

    def __call__(
        self, name: str, options: Sequence[ChoiceT], also: Sequence[ChoiceT] = ()
    ) -> ChoiceT:
        """Decide one choice.

        Args:
            name: Name of the choice; each choice of an architecture needs its own.
            options: Values to sample from.
            also: More values that are accepted in a written architecture but never sampled.
        """
        ...


class ChoiceOptions(tuple[Choice, ...]):
    """The options of one choice. Only these are sampled.

    `also` are values that may be written too, for published architectures outside of the space
    that was searched.
    """

    also: tuple[Choice, ...] = ()


Chooser = Callable[[str, ChoiceOptions], Choice]


class InvalidArch(UsageError):  # noqa: N818 - it describes a combination, not an error of the caller
    """Raised by the function of a space when choices, each of them allowed, exclude each other."""


@dataclass(frozen=True)
class Decision:
    """One call of `choose`: its name, its options and the value that was returned."""

    name: str
    options: ChoiceOptions
    value: Choice


Decisions = tuple[Decision, ...]


def record_decisions(
    space_name: str, chooser: Chooser, run: Callable[[Choose], ResultT]
) -> tuple[Decisions, ResultT]:
    """Call `run` with a `choose` that asks `chooser`.

    Args:
        space_name: Used in error messages.
        chooser: Decides the choices.
        run: The function of a space, reduced to its first argument.

    Returns:
        The decisions in the order of the calls, and the result of `run`.
    """
    decisions: dict[str, Decision] = {}

    def choose(name: str, options: Sequence[ChoiceT], also: Sequence[ChoiceT] = ()) -> ChoiceT:
        if name in decisions:
            raise UsageError(
                f"space {space_name}: the choice {name!r} is made twice; give each its own name"
            )
        if not options:
            raise UsageError(f"space {space_name}: the choice {name!r} has no options")
        choice_options = ChoiceOptions(options)
        choice_options.also = tuple(also)
        value = chooser(name, choice_options)
        decisions[name] = Decision(name, choice_options, value)
        # A chooser returns one of the options, which have the type that the caller expects.
        return cast(ChoiceT, value)

    result = run(choose)
    return tuple(decisions.values()), result


# ------------------------------------------------------------------------------------- choosers


def pick_uniformly(options: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """Return one of the options; all are equally likely."""
    index = int(rng.integers(len(options)))
    return options[index]


def make_random_chooser(rng: np.random.Generator) -> Chooser:
    """Return a chooser for which all options are equally likely."""

    def choose_at_random(name: str, options: ChoiceOptions) -> Choice:
        return pick_uniformly(options, rng)

    return choose_at_random


def make_replay_chooser(genes: Genes, label: str) -> Chooser:
    """Return a chooser that repeats the values in `genes`.

    Args:
        genes: Names and values of the choices.
        label: Name of the architecture in error messages.
    """
    values = dict(genes)

    def replay(name: str, options: ChoiceOptions) -> Choice:
        if name not in values:
            option_list = ", ".join(map(str, options))
            raise UsageError(f"{label} has no value for {name!r}; it can be one of {option_list}")
        value = values[name]
        allowed = options + options.also
        if value in allowed:
            return allowed[allowed.index(value)]
        # The text form does not distinguish the number 3 from the word "3".
        for option in allowed:
            if str(option) == str(value):
                return option
        allowed_list = ", ".join(map(str, allowed))
        raise UsageError(
            f"{label}: {name!r} is {value!r}, but it can only be one of {allowed_list}"
        )

    return replay


def make_inheriting_chooser(
    parents: Sequence[Mapping[str, Choice]], rng: np.random.Generator
) -> Chooser:
    """Return a chooser that takes each value from one of the parents.

    Parents whose value is not allowed here do not take part. If no parent is left, an option is
    sampled.
    """

    def inherit(name: str, options: ChoiceOptions) -> Choice:
        allowed = options + options.also
        candidates = [parent[name] for parent in parents if parent.get(name) in allowed]
        if len(candidates) == 1:
            return candidates[0]
        return pick_uniformly(candidates or options, rng)

    return inherit


# ---------------------------------------------------------------------------------- enumeration


def enumerate_decisions(list_decisions: Callable[[Chooser], Decisions]) -> Iterator[Decisions]:
    """Iterate over all combinations in lexicographic order of the options.

    Args:
        list_decisions: Runs the function of a space with a chooser.

    Yields:
        The decisions of every valid combination. A combination is abandoned as soon as the
        function raises `InvalidArch`, so the choices after that point are not multiplied out.
    """
    # Option indices of the first choices in the next run; all later choices take option 0.
    prefix: list[int] = []
    while True:
        indices: list[int] = []
        option_counts: list[int] = []
        chooser = _make_prefix_chooser(prefix, indices, option_counts)
        try:
            decisions = list_decisions(chooser)
        except InvalidArch:
            pass
        else:
            yield decisions
        # Count upwards like an odometer: drop the trailing choices that are at their last option,
        # then advance the choice before them.
        while indices and indices[-1] + 1 == option_counts[-1]:
            indices.pop()
            option_counts.pop()
        if not indices:
            return
        prefix = [*indices[:-1], indices[-1] + 1]


def _make_prefix_chooser(
    prefix: Sequence[int], indices: list[int], option_counts: list[int]
) -> Chooser:
    """Return a chooser that follows `prefix`, then takes first options, and records both lists."""

    def follow_prefix(name: str, options: ChoiceOptions) -> Choice:
        position = len(indices)
        index = 0
        if position < len(prefix):
            index = prefix[position]
        indices.append(index)
        option_counts.append(len(options))
        return options[index]

    return follow_prefix
