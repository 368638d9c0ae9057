"""Run a function of choices: decide what `choose` returns and record the decisions.

The function of a space calls `choose(name, options)`, `choose.int` and `choose.float`. A *chooser*
answers these calls: at random, from the genes of an architecture, or from the genes of two parents.
It gets the options as numbers and strings (`option_names.py`) or as a range of numbers
(`ranges.py`).
`space.py` builds `Space` from this module.
"""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_stack
from typing import Any, Protocol, TypeVar

import numpy as np

from untrained.errors import UsageError
from untrained.quantities import show_value
from untrained.spaces.core.option_names import InvalidOptions, name_options
from untrained.spaces.core.ranges import FloatRange, IntRange, make_float_range, make_int_range
from untrained.types import Choice, Genes
from untrained.user_code import PACKAGE

OptionT = TypeVar("OptionT")
ResultT = TypeVar("ResultT")
PickedT = TypeVar("PickedT")


class ChooseOption(Protocol):
    """The call `choose(name, options)`; `Choose` adds ranges of numbers."""

    def __call__(
        self,
        name: str,
        options: Sequence[OptionT] | Mapping[str, OptionT],
        not_sampled: Sequence[OptionT] | Mapping[str, OptionT] = (),
    ) -> OptionT:
        """Decide one choice.

        Args:
            name: Name of the choice; each choice of an architecture needs its own.
            options: Values to sample from, of any type. A dictionary gives them names.
            not_sampled: More values that are accepted in a written architecture but never sampled.
        """
        ...


class Choose(ChooseOption, Protocol):
    """The first argument of the function of a space."""

    def int(
        self,
        name: str,
        low: builtins.int,
        high: builtins.int,
        step: builtins.int = 1,
        *,
        log: bool = False,
    ) -> builtins.int:
        """Decide a whole number from `low` to `high`, both included.

        Args:
            name: Name of the choice; each choice of an architecture needs its own.
            low: The smallest number.
            high: The largest number.
            step: The distance between neighbouring numbers.
            log: Whether to sample the logarithm, so that small numbers are as likely as large ones.
        """
        ...

    def float(
        self,
        name: str,
        low: builtins.float,
        high: builtins.float,
        step: builtins.float | None = None,
        *,
        log: bool = False,
    ) -> builtins.float:
        """Decide a number from `low` to `high`, both included.

        Args:
            name: Name of the choice; each choice of an architecture needs its own.
            low: The smallest number.
            high: The largest number.
            step: The distance between neighbouring numbers; by default all numbers are allowed.
            log: Whether to sample the logarithm, so that small numbers are as likely as large ones.
        """
        ...


class ChoiceOptions(tuple[Choice, ...]):
    """The options of one choice, or their names. Only these are sampled.

    The methods are those of `Range`.

    Attributes:
        not_sampled: More values that are accepted in a written architecture but never sampled. Some
            published architectures are outside of the space that was searched.
    """

    not_sampled: tuple[Choice, ...] = ()

    def find(self, value: object) -> Choice | None:
        """Return the option that a value denotes, or None if there is none."""
        allowed = self + self.not_sampled
        if value in allowed:
            return allowed[allowed.index(value)]
        # The text form does not distinguish the number 3 from the word "3".
        text = _remove_spaces(str(value))
        for option in allowed:
            if _remove_spaces(str(option)) == text:
                return option
        return None

    @property
    def has_alternatives(self) -> bool:
        """Whether there is more than one option."""
        return len(self) > 1

    def sample(self, rng: np.random.Generator) -> Choice:
        """Return a random option."""
        return pick_uniformly(self, rng)

    def mutate(self, value: Choice, rng: np.random.Generator) -> Choice:
        """Return another option; all are equally likely."""
        others = [option for option in self if option != value]
        return pick_uniformly(others, rng)

    def list_values(self) -> Sequence[Choice]:
        """Return all options."""
        return self

    def list_representative_values(self) -> list[Choice]:
        """Return all accepted options, including those that are never sampled."""
        return [*self, *self.not_sampled]

    def describe(self) -> str:
        """List the options for a message."""
        return f"one of {', '.join(map(str, self + self.not_sampled))}"


def _remove_spaces(text: str) -> str:
    return "".join(text.split())


Options = ChoiceOptions | IntRange | FloatRange
Chooser = Callable[[str, Options], Choice]


class InvalidArch(UsageError):  # noqa: N818 - it describes a combination, not an error of the caller
    """Raised by the function of a space when allowed choices do not fit together."""


@dataclass(frozen=True)
class Decision:
    """One call of `choose`: its name, its options and the value that was decided.

    An option that is not a number or text is represented by its name.
    """

    name: str
    options: Options
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
    choose = _RecordingChoose(space_name, chooser)
    result = run(choose)
    return tuple(choose.decisions.values()), result


# Default value of a required argument. If it is missing, `choose` raises an error that names the
# choice and the line; Python would raise a `TypeError` with a long traceback.
_MISSING = object()


class _RecordingChoose:
    """The `choose` that the function of a space gets: asks a chooser and records the decisions."""

    def __init__(self, space_name: str, chooser: Chooser) -> None:
        self.decisions: dict[str, Decision] = {}
        self._space_name = space_name
        self._chooser = chooser

    # The function of a space may pass anything, hence the parameters of type `object`. An option
    # may have any type, hence the return type `Any`.
    def __call__(self, name: object, options: object = _MISSING, not_sampled: object = ()) -> Any:
        name = self._check_name(name)
        if options is _MISSING:
            raise self._make_error(name, "has no options; write them as a list after the name")
        try:
            options_by_name = name_options(options)
            not_sampled_by_name = name_options(not_sampled)
        except InvalidOptions as error:
            raise self._make_error(name, f"is invalid: {error}") from error
        if not options_by_name:
            raise self._make_error(name, "has no options; its list is empty")
        choice_options = ChoiceOptions(options_by_name)
        choice_options.not_sampled = tuple(not_sampled_by_name)
        value = self._decide(name, choice_options)
        if value in options_by_name:
            return options_by_name[value]
        return not_sampled_by_name[value]

    def int(
        self,
        name: object,
        low: object = _MISSING,
        high: object = _MISSING,
        step: object = 1,
        *,
        log: object = False,
    ) -> Any:
        return self._decide_number(name, make_int_range, low, high, step, log)

    def float(
        self,
        name: object,
        low: object = _MISSING,
        high: object = _MISSING,
        step: object = None,
        *,
        log: object = False,
    ) -> Any:
        return self._decide_number(name, make_float_range, low, high, step, log)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that do not exist.
        if name.startswith("_"):
            raise AttributeError(name)
        method = "float" if name in ("real", "uniform", "number", "double") else "int"
        raise UsageError(
            f"space {self._space_name}{_locate_call()}: choose has no {name}; did you mean "
            f"choose.{method}? choose(name, options) takes a list of options of any type"
        )

    def _decide_number(
        self,
        name: object,
        make_range: Callable[[object, object, object, object], IntRange | FloatRange],
        low: object,
        high: object,
        step: object,
        log: object,
    ) -> Choice:
        name = self._check_name(name)
        if low is _MISSING or high is _MISSING:
            raise self._make_error(name, "needs low and high; write them after the name")
        try:
            numbers = make_range(low, high, step, log)
        except InvalidOptions as error:
            raise self._make_error(name, f"is invalid: {error}") from error
        return self._decide(name, numbers)

    def _decide(self, name: str, options: Options) -> Choice:
        value = self._chooser(name, options)
        self.decisions[name] = Decision(name, options, value)
        return value

    def _check_name(self, name: object) -> str:
        """Return the name of a choice if it can be used."""
        if not isinstance(name, str):
            raise self._make_error(name, "has no name; write the name, a string, first")
        # These characters separate choices in the text of an architecture.
        if not name.strip() or set(name) & set("=,()[]{}'\"\n"):
            raise self._make_error(
                name, "cannot be written as name=value; use a name of letters and digits"
            )
        if name in self.decisions:
            raise self._make_error(name, "is made twice; give each choice its own name")
        return name

    def _make_error(self, name: object, problem: str) -> UsageError:
        return UsageError(
            f"space {self._space_name}{_locate_call()}: the choice {show_value(name)} {problem}"
        )


def _locate_call() -> str:
    """Return the file and line outside of this package that is being run, as ` (mine.py:12)`."""
    for frame in reversed(extract_stack()):
        file = Path(frame.filename)
        if not file.is_relative_to(PACKAGE):
            return f" ({file.name}:{frame.lineno})"
    return ""


# ------------------------------------------------------------------------------------- choosers


def pick_uniformly(options: Sequence[PickedT], rng: np.random.Generator) -> PickedT:
    """Return one of the options; all are equally likely."""
    index = int(rng.integers(len(options)))
    return options[index]


def make_random_chooser(rng: np.random.Generator) -> Chooser:
    """Return a chooser for which all options are equally likely."""

    def choose_at_random(name: str, options: Options) -> Choice:
        return options.sample(rng)

    return choose_at_random


def make_replay_chooser(genes: Genes, label: str) -> Chooser:
    """Return a chooser that repeats the values in `genes`.

    Args:
        genes: Names and values of the choices.
        label: Name of the architecture in error messages.
    """
    values = dict(genes)

    def replay(name: str, options: Options) -> Choice:
        if name not in values:
            raise UsageError(f"{label} has no value for {name!r}; it can be {options.describe()}")
        option = options.find(values[name])
        if option is None:
            raise UsageError(
                f"{label}: {name!r} is {values[name]!r}, but it can only be {options.describe()}"
            )
        return option

    return replay


def make_inheriting_chooser(
    parents: Sequence[Mapping[str, Choice]], rng: np.random.Generator
) -> Chooser:
    """Return a chooser that takes each value from one of the parents.

    Parents whose value is not allowed here do not take part. If no parent is left, an option is
    sampled.
    """

    def inherit(name: str, options: Options) -> Choice:
        candidates = []
        for parent in parents:
            if name not in parent:
                continue
            option = options.find(parent[name])
            if option is not None:
                candidates.append(option)
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            return pick_uniformly(candidates, rng)
        return options.sample(rng)

    return inherit


class Trial(Protocol):
    """The methods of an `optuna.Trial` that make choices. Optuna itself is an optional package."""

    def suggest_categorical(self, name: str, choices: Sequence[Choice]) -> object: ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int, log: bool) -> int: ...

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None, log: bool
    ) -> float: ...


def make_trial_chooser(trial: Trial) -> Chooser:
    """Return a chooser that asks a trial of Optuna."""

    def suggest(name: str, options: Options) -> Choice:
        value: object
        if isinstance(options, ChoiceOptions):
            value = trial.suggest_categorical(name, list(options))
        elif isinstance(options, IntRange):
            value = trial.suggest_int(
                name, int(options.low), options.last, step=int(options.step or 1), log=options.log
            )
        else:
            value = trial.suggest_float(
                name, options.low, options.last, step=options.step, log=options.log
            )
        option = options.find(value)
        if option is None:
            raise UsageError(f"the trial suggests {value!r} for {name!r}, not {options.describe()}")
        return option

    return suggest


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
    """Return a chooser that takes the options at the indices in `prefix`, then first options.

    Args:
        prefix: Option indices of the first choices.
        indices: The index of every option that is taken is appended to this list.
        option_counts: The number of options of every choice is appended to this list.
    """

    def follow_prefix(name: str, options: Options) -> Choice:
        values = options.list_values()
        if values is None:
            raise UsageError(
                f"the architectures cannot be listed, because {name!r} is {options.describe()}; "
                "give its range a step, or sample architectures"
            )
        position = len(indices)
        index = 0
        if position < len(prefix):
            index = prefix[position]
        indices.append(index)
        option_counts.append(len(values))
        return values[index]

    return follow_prefix
