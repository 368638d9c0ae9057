"""Axes of charts: positions of values, and round numbers as ticks.

This module only computes; `plot.py` draws the axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic axis from `low` to `high`.

    `low` may be the larger number: then the axis runs backwards.
    """

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def position(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)


def make_axis(values: Sequence[float], *, decades: float = 1.0, count: int = 5) -> Axis:
    """Return an axis that contains all values, with some space at both ends.

    Args:
        values: At least one number.
        decades: The axis is logarithmic if all values are positive and span more decades.
        count: Approximate number of ticks.
    """
    low = min(values)
    high = max(values)
    if low > 0 and high / low > 10**decades:
        # The same relative space at both ends.
        factor = (high / low) ** 0.04
        low /= factor
        high *= factor
        return Axis(low, high, True, choose_log_ticks(low, high, count + 2))
    low, high = widen_range(low, high)
    margin = 0.04 * (high - low)
    # An axis of positive values starts at zero rather than slightly below it.
    if low < 0 or low - margin > 0:
        low -= margin
    else:
        low = 0.0
    high += margin
    return Axis(low, high, False, choose_ticks(low, high, count))


def widen_range(low: float, high: float) -> tuple[float, float]:
    """Return the range, or a wider one around it if both ends are practically equal."""
    # On an axis with equal ends, `position` would divide by zero. The same margin on both sides
    # leaves the value in the middle.
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    return low - (abs(low) / 10 or 1.0), high + (abs(high) / 10 or 1.0)


def choose_ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Return about `count` multiples of 1, 2 or 5 times a power of ten between low and high."""
    step = choose_step((high - low) / max(count, 1))
    # The tolerance keeps a tick that equals an end up to rounding.
    first = ceil(low / step - 1e-9)
    last = floor(high / step + 1e-9)
    return tuple(_remove_rounding(i * step, step) for i in range(first, last + 1))


def choose_step(minimum: float) -> float:
    """Return the smallest of 1, 2, 5 and 10 times a power of ten that is at least `minimum`."""
    # Ticks at multiples of 1, 2 and 5 are easy to read.
    power = 10.0 ** floor(log10(minimum))
    for factor in (1, 2, 5):
        if factor * power >= minimum * (1 - 1e-9):
            return factor * power
    return 10 * power


def choose_log_ticks(low: float, high: float, limit: int = 7) -> tuple[float, ...]:
    """Return at most `limit` ticks for a logarithmic axis.

    They are at 1, 2 and 5 of each decade if these are few enough, else at 1 and 3, else at 1, else
    at every n-th power of ten.
    """
    exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = []
        for exponent in exponents:
            for factor in factors:
                tick = factor * 10.0**exponent
                if low <= tick <= high:
                    ticks.append(tick)
        if len(ticks) <= limit:
            return tuple(ticks)
    # Even whole decades are too many.
    return tuple(ticks[:: ceil(len(ticks) / limit)])


def _remove_rounding(value: float, step: float) -> float:
    """Return 0.3 instead of 0.30000000000000004, and 0.0 instead of -0.0."""
    return round(value, max(0, 2 - floor(log10(step)))) + 0.0
