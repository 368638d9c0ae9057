"""Make a strategy from what a user types, such as `evolution(preset=zennas,population=64)`."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np

from untrained.errors import make_unknown_name_error
from untrained.names import parse_call
from untrained.options import check_option
from untrained.proxies import load_proxy
from untrained.strategies.base import (
    STRATEGIES,
    Fitness,
    SpaceLike,
    Strategy,
    StrategyInputs,
)

# The inputs that only some searches have, in the words of `untrained list strategies`.
NEED_TEXTS = {
    "source": "a space with a supernet",
    "score_pool": "--validate",
    "other_objectives": "--also",
}
_TYPE_TEXTS = {int: "WHOLE NUMBER", float: "NUMBER", str: "NAME", bool: "True|False"}


@dataclass(frozen=True)
class StrategySpec:
    """A strategy with options, as the user typed it.

    Attributes:
        name: Name of the strategy.
        strategy_class: Class of the strategy.
        options: The options that the user typed in brackets.
    """

    name: str
    strategy_class: type[Strategy]
    options: dict[str, object]

    @staticmethod
    def parse(text: str) -> "StrategySpec":
        """Read a strategy as the user types it.

        Raises:
            UsageError: There is no such strategy or option, or a value has the wrong type.
        """
        name, options = parse_call(text)
        strategy_class = STRATEGIES[name]
        valid_options = list_options(strategy_class)
        for option, value in options.items():
            if option not in valid_options:
                raise make_unknown_name_error(f"option of {name}", option, valid_options)
            valid_options[option].check(name, value)
        return StrategySpec(name, strategy_class, options)

    @property
    def label(self) -> str:
        """The strategy as users type it."""
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        if not options:
            return self.name
        return f"{self.name}({options})"

    @property
    def seed_name(self) -> str:
        """Name from which the seed of a search derives."""
        return self.strategy_class.seed_name or self.name

    @property
    def learns(self) -> bool:
        """Whether the strategy uses the scores of its proposals or of its pool."""
        fitness = signature(self.strategy_class).parameters["fitness"]
        is_required = fitness.default is Parameter.empty
        return is_required or "pool_fitness" in self.strategy_class.needs

    @property
    def needs_validation(self) -> bool:
        """Whether the strategy scores a pool, so that its proposals must be validated."""
        return "score_pool" in self.strategy_class.needs

    @property
    def needs_objectives(self) -> bool:
        """Whether the strategy optimises several objectives."""
        return "other_objectives" in self.strategy_class.needs

    @property
    def accepts_extra_proposals(self) -> bool:
        """Whether architectures may be added to the proposals.

        Strategies whose proposals come from a supernet or a pool do not accept others.
        """
        return not {"source", "score_pool"}.intersection(self.strategy_class.needs)

    @property
    def pool_proxy_names(self) -> tuple[str, ...]:
        """Proxies that the pool must be scored with; empty if the user chooses the proxy."""
        names = self.strategy_class.list_pool_proxies(self.options)
        return tuple(load_proxy(name).label for name in names)

    def make(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        inputs: StrategyInputs,
    ) -> Strategy:
        """Make the strategy.

        Args:
            space: The space to search.
            rng: Random generator.
            fitness: What to maximise.
            inputs: What the search supplies. The strategy gets the fields that are parameters of
                its constructor.
        """
        parameters = signature(self.strategy_class).parameters
        arguments = dict(self.options)
        for field in fields(inputs):
            if field.name in parameters:
                arguments[field.name] = getattr(inputs, field.name)
        # Constructors differ in their keyword arguments, which no common type describes.
        make_strategy: Callable[..., Strategy] = self.strategy_class
        return make_strategy(space, rng, fitness, **arguments)


@dataclass(frozen=True)
class StrategyOption:
    """An option that can be typed in brackets.

    Attributes:
        name: Name of the option.
        hint: Type hint of the option.
        default: Default value.
    """

    name: str
    hint: object  # hints such as `Literal[...]` and `float | None` have no common type
    default: object

    def check(self, strategy: str, value: object) -> None:
        """Raise an error unless the option allows a value.

        Args:
            strategy: Name of the strategy.
            value: The value.

        Raises:
            UsageError: The value has the wrong type, or is none of the possible ones.
        """
        example = self.default
        if get_origin(self.hint) is Literal:
            # The message lists all values.
            example = None
        check_option(strategy, self.name, value, self.hint, example)

    def __str__(self) -> str:
        """Return what to type, such as `population=64`, `dies=oldest|worst` or `nu0=NUMBER`."""
        if get_origin(self.hint) is Literal:
            values = [str(value) for value in get_args(self.hint) if value != ""]
            return f"{self.name}={'|'.join(values)}"
        if self.default is not None:
            return f"{self.name}={self.default}"
        # The first type of a hint such as `float | None`.
        types = get_args(self.hint) or (self.hint,)
        return f"{self.name}={_TYPE_TEXTS[types[0]]}"


def list_options(strategy_class: type[Strategy]) -> dict[str, StrategyOption]:
    """Return the options of a strategy by name.

    Options are keyword arguments of its constructor that the search does not supply, and the fields
    of its plan if it has one.
    """
    supplied = {field.name for field in fields(StrategyInputs)}
    options: dict[str, StrategyOption] = {}
    hints = get_type_hints(strategy_class.__init__)
    for name, parameter in signature(strategy_class).parameters.items():
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in supplied:
            options[name] = StrategyOption(name, hints[name], parameter.default)
    plan_class = strategy_class.plan_class
    if plan_class is not None:
        plan_hints = get_type_hints(plan_class)
        for field in fields(plan_class):
            options[field.name] = StrategyOption(field.name, plan_hints[field.name], field.default)
    return options
