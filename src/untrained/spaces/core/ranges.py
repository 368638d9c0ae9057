"""Ranges of numbers: the options of `choose.int` and `choose.float`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, isfinite, log, log10
from numbers import Integral, Real

import numpy as np

from untrained.quantities import show_value
from untrained.spaces.core.option_names import InvalidOptions
from untrained.types import Choice

# Standard deviation of a mutation, as a fraction of the range.
_MUTATION_STEP = 0.2
# Values of a range without steps are rounded to this many digits, which keeps architectures
# readable.
_DIGITS = 4
# Larger whole numbers are not exact as floating-point numbers, in which positions are computed.
_LARGEST_WHOLE_NUMBER = 2**53
# Largest number of values that `list_representative_values` returns for a range.
_MAX_REPRESENTATIVES = 64


@dataclass(frozen=True)
class Range(ABC):
    """Numbers from `low` to `high`, both included.

    The range is mapped to positions from 0 to 1, linearly or logarithmically. All positions are
    equally likely in a sample; a mutation moves to a position nearby.

    Attributes:
        low: The smallest number.
        high: The upper end. With a step, the largest number may be smaller; see `last`.
        step: Distance between neighbouring numbers; None if all numbers are allowed.
        log: Whether positions are logarithmic, so that small numbers are as likely as large ones.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @abstractmethod
    def find(self, value: object) -> Choice | None:
        """Return the number of the range that a value denotes, or None if there is none."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many numbers the range has; None if there are infinitely many."""

    @abstractmethod
    def list_values(self) -> Sequence[Choice] | None:
        """Return all numbers in ascending order, or None if there are infinitely many."""

    @abstractmethod
    def get_position_of(self, value: float) -> float:
        """Return the position of a number, from 0 to 1."""

    @abstractmethod
    def get_number_at(self, position: float) -> Choice:
        """Return the number at a position from 0 to 1."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the numbers for a message."""

    @property
    def has_alternatives(self) -> bool:
        """Whether there is more than one number."""
        if self.count is None:
            return self.high > self.low
        return self.count > 1

    def sample(self, rng: np.random.Generator) -> Choice:
        """Return a random number of the range."""
        return self.get_number_at(rng.random())

    def mutate(self, value: Choice, rng: np.random.Generator) -> Choice:
        """Return another number of the range; near numbers are more likely than far ones."""
        start = self.get_position_of(float(value))
        while True:
            position = start + _MUTATION_STEP * rng.standard_normal()
            if not 0 <= position <= 1:
                continue
            mutant = self.get_number_at(position)
            if mutant != value:
                return mutant

    def list_representative_values(self) -> list[Choice]:
        """Return all numbers if they are few, otherwise a selection from the whole range."""
        if self.count is not None and self.count <= _MAX_REPRESENTATIVES:
            return list(self.list_values() or ())
        positions = np.linspace(0, 1, _MAX_REPRESENTATIVES).tolist()
        numbers = [self.get_number_at(position) for position in positions]
        # Different positions may be rounded to the same number.
        return list(dict.fromkeys(numbers))


class IntRange(Range):
    """Whole numbers: the options of `choose.int`."""

    @property
    def _numbers(self) -> range:
        return range(int(self.low), int(self.high) + 1, int(self.step or 1))

    @property
    def last(self) -> int:
        """The largest number that is reached in whole steps."""
        return self._numbers[-1]

    @property
    def count(self) -> int:
        return len(self._numbers)

    def find(self, value: object) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value in self._numbers:
            return value
        return None

    def list_values(self) -> Sequence[int]:
        return self._numbers

    def get_position_of(self, value: float) -> float:
        if self.log:
            low, high = self._get_log_bounds()
            return (log(value) - low) / (high - low)
        numbers = self._numbers
        return (numbers.index(int(value)) + 0.5) / len(numbers)

    def get_number_at(self, position: float) -> int:
        numbers = self._numbers
        if self.log:
            low, high = self._get_log_bounds()
            number = round(exp(low + position * (high - low)))
            return min(max(number, numbers[0]), numbers[-1])
        index = min(floor(position * len(numbers)), len(numbers) - 1)
        return numbers[index]

    def _get_log_bounds(self) -> tuple[float, float]:
        # `get_number_at` rounds, so half a number is added at both ends: otherwise the first and
        # the last number would be half as likely as they should be.
        return log(self.low - 0.5), log(self.high + 0.5)

    def describe(self) -> str:
        text = f"a whole number from {self.low:g} to {self.high:g}"
        if self.step != 1:
            text += f" in steps of {self.step:g}"
        return text


class FloatRange(Range):
    """Real numbers: the options of `choose.float`."""

    @property
    def last(self) -> float:
        """The largest number that is reached in whole steps."""
        if self.step is None:
            return self.high
        return self._get_grid_value(self._count_steps())

    @property
    def count(self) -> int | None:
        if self.step is None:
            return None
        return self._count_steps() + 1

    def find(self, value: object) -> float | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        # 3 * 0.1 is slightly more than 0.3.
        tolerance = 1e-6 * (self.step or 0.0)
        # Compared before the conversion, because an integer may be too large for a float. NaN is
        # in no range.
        if not self.low - tolerance <= value <= self.high + tolerance:
            return None
        number = float(value)
        if self.step is None:
            return number
        nearest = self._get_grid_value(round((number - self.low) / self.step))
        if abs(nearest - number) > tolerance:
            return None
        return nearest

    def list_values(self) -> Sequence[float] | None:
        if self.step is None:
            return None
        return [self._get_grid_value(index) for index in range(self._count_steps() + 1)]

    def _count_steps(self) -> int:
        """Return how many steps lead from the smallest to the largest number."""
        assert self.step is not None
        # (0.3 - 0.1) / 0.1 is slightly less than 2.
        return floor((self.high - self.low) / self.step * (1 + 1e-9) + 1e-9)

    def _get_grid_value(self, index: int) -> float:
        assert self.step is not None
        return min(float(f"{self.low + index * self.step:.12g}"), self.high)

    def get_position_of(self, value: float) -> float:
        if self.step is not None:
            return (round((value - self.low) / self.step) + 0.5) / (self._count_steps() + 1)
        if self.log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def get_number_at(self, position: float) -> float:
        if self.step is not None:
            last_index = self._count_steps()
            index = floor(position * (last_index + 1))
            return self._get_grid_value(min(index, last_index))
        if self.high == self.low:
            return self.low
        if self.log:
            number = self.low * exp(position * log(self.high / self.low))
            # In a narrow range, all numbers would be equal after rounding to few digits.
            digits = _DIGITS + floor(log10(self.high / (self.high - self.low)))
            number = float(f"{number:.{digits}g}")
        else:
            span = self.high - self.low
            number = round(self.low + position * span, _DIGITS - ceil(log10(span)))
        return min(max(number, self.low), self.high)

    def describe(self) -> str:
        text = f"a number from {self.low:g} to {self.high:g}"
        if self.step is not None:
            text += f" in steps of {self.step:g}"
        return text


def make_int_range(low: object, high: object, step: object, log: object) -> IntRange:
    """Return the range of `choose.int`.

    Raises:
        InvalidOptions: The arguments are not such a range.
    """
    smallest = _read_whole_number("low", low)
    largest = _read_whole_number("high", high)
    distance = _read_whole_number("step", step)
    _check_bounds(smallest, largest, distance, is_log=bool(log))
    if log and distance != 1:
        raise InvalidOptions("log=True and step exclude each other; remove one of them")
    return IntRange(smallest, largest, distance, bool(log))


def make_float_range(low: object, high: object, step: object, log: object) -> FloatRange:
    """Return the range of `choose.float`.

    Raises:
        InvalidOptions: The arguments are not such a range.
    """
    smallest = _read_number("low", low)
    largest = _read_number("high", high)
    distance = None if step is None else _read_number("step", step)
    _check_bounds(smallest, largest, distance, is_log=bool(log))
    if not isfinite((largest - smallest) / (distance or 1.0)):
        raise InvalidOptions("the range is too large for floating-point numbers")
    if log and distance is not None:
        raise InvalidOptions("log=True and step exclude each other; remove one of them")
    return FloatRange(smallest, largest, distance, bool(log))


def _read_whole_number(name: str, value: object) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidOptions(f"{name} is {show_value(value)}, which is not a whole number")
    number = int(value)
    if abs(number) > _LARGEST_WHOLE_NUMBER:
        raise InvalidOptions(
            f"{name} is {show_value(number)}, which is too large; the limit is 2^53"
        )
    return number


def _read_number(name: str, value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    raise InvalidOptions(f"{name} is {show_value(value)}, which is not a number")


def _check_bounds(low: float, high: float, step: float | None, *, is_log: bool) -> None:
    if low > high:
        raise InvalidOptions(f"low is {low:g}, which is more than high, {high:g}")
    if step is not None and step <= 0:
        raise InvalidOptions(f"step is {step:g}, which is not positive")
    if is_log and low <= 0:
        raise InvalidOptions(f"low is {low:g}, but log=True needs positive numbers")
