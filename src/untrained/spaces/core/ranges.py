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

# Standard deviation of a mutation, as a share of the range.
_MUTATION_STEP = 0.2
# A value from a range without steps has this many digits, so that architectures stay readable.
_DIGITS = 4
# Largest number of values that `list_spread` returns.
_MAX_SPREAD = 64


@dataclass(frozen=True)
class Range(ABC):
    """Numbers from `low` to `high`, both included.

    The range is mapped to positions from 0 to 1, linearly or logarithmically. All positions are
    equally likely in a sample; a mutation moves to a position nearby.

    Attributes:
        low: The smallest number.
        high: The largest number, if it is reached in whole steps.
        step: Distance between neighbouring numbers; None if all numbers are allowed.
        log: Whether small numbers are as important as large ones: positions are logarithmic.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @abstractmethod
    def find(self, value: object) -> Choice | None:
        """Return the number of the range that a value denotes, or None if there is none."""

    @abstractmethod
    def list_values(self) -> Sequence[Choice] | None:
        """Return all numbers in ascending order, or None if there are infinitely many."""

    @abstractmethod
    def find_position(self, value: float) -> float:
        """Return the position of a number, from 0 to 1."""

    @abstractmethod
    def read_position(self, position: float) -> Choice:
        """Return the number at a position from 0 to 1."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the numbers for a message."""

    @property
    def has_alternatives(self) -> bool:
        """Whether there is more than one number."""
        values = self.list_values()
        if values is None:
            return self.high > self.low
        return len(values) > 1

    def sample(self, rng: np.random.Generator) -> Choice:
        """Return a random number of the range."""
        return self.read_position(rng.random())

    def mutate(self, value: Choice, rng: np.random.Generator) -> Choice:
        """Return another number of the range, more likely a near one than a far one."""
        start = self.find_position(float(value))
        while True:
            position = start + _MUTATION_STEP * rng.standard_normal()
            if not 0 <= position <= 1:
                continue
            mutant = self.read_position(position)
            if mutant != value:
                return mutant

    def list_spread(self) -> list[Choice]:
        """Return all numbers, or some that are spread over the range if there are many."""
        values = self.list_values()
        if values is not None and len(values) <= _MAX_SPREAD:
            return list(values)
        positions = np.linspace(0, 1, _MAX_SPREAD).tolist()
        spread = [self.read_position(position) for position in positions]
        return list(dict.fromkeys(spread))


class IntRange(Range):
    """Whole numbers: the options of `choose.int`."""

    @property
    def _numbers(self) -> range:
        return range(int(self.low), int(self.high) + 1, int(self.step or 1))

    @property
    def last(self) -> int:
        """The largest number that is reached in whole steps."""
        return self._numbers[-1]

    def find(self, value: object) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value in self._numbers:
            return value
        return None

    def list_values(self) -> Sequence[int]:
        return self._numbers

    def find_position(self, value: float) -> float:
        if self.log:
            low, high = self._get_log_bounds()
            return (log(value) - low) / (high - low)
        numbers = self._numbers
        return (numbers.index(int(value)) + 0.5) / len(numbers)

    def read_position(self, position: float) -> int:
        numbers = self._numbers
        if self.log:
            low, high = self._get_log_bounds()
            number = round(exp(low + position * (high - low)))
            return min(max(number, numbers[0]), numbers[-1])
        index = min(floor(position * len(numbers)), len(numbers) - 1)
        return numbers[index]

    def _get_log_bounds(self) -> tuple[float, float]:
        # With half a number at both ends, the first and the last number get their share.
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
        return self._get_grid_value(self._count_steps() - 1)

    def find(self, value: object) -> float | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        # 3 * 0.1 is slightly more than 0.3.
        tolerance = 1e-6 * (self.step or 0.0)
        # An integer may be too large for a float, so it is compared first. NaN is in no range.
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
        return [self._get_grid_value(index) for index in range(self._count_steps())]

    def _count_steps(self) -> int:
        assert self.step is not None
        # (0.3 - 0.1) / 0.1 is slightly less than 2.
        return floor((self.high - self.low) / self.step * (1 + 1e-9) + 1e-9) + 1

    def _get_grid_value(self, index: int) -> float:
        assert self.step is not None
        return min(float(f"{self.low + index * self.step:.12g}"), self.high)

    def find_position(self, value: float) -> float:
        if self.step is not None:
            return (round((value - self.low) / self.step) + 0.5) / self._count_steps()
        if self.log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def read_position(self, position: float) -> float:
        if self.step is not None:
            count = self._count_steps()
            return self._get_grid_value(min(floor(position * count), count - 1))
        if self.high == self.low:
            return self.low
        if self.log:
            number = self.low * exp(position * log(self.high / self.low))
            number = float(f"{number:.{_DIGITS}g}")
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
    if log and distance is not None:
        raise InvalidOptions("log=True and step exclude each other; remove one of them")
    return FloatRange(smallest, largest, distance, bool(log))


def _read_whole_number(name: str, value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    raise InvalidOptions(f"{name} is {show_value(value)}, which is not a whole number")


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
