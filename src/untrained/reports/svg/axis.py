"""Axes: where a value lies between the two ends, and round numbers to mark. Pure arithmetic; draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic scale from `low` to `high`."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """The value's place: 0 at the low end, 1 at the high end."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)


def axis(values: Sequence[float], *, decades: float = 1.0, count: int = 5) -> Axis:
    """A scale that holds all values, logarithmic when they are positive and span more than so many decades."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 10**decades:
        pad = (high / low) ** 0.04
        return Axis(low / pad, high * pad, True, log_ticks(low / pad, high * pad, count + 2))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = low - (abs(low) / 10 or 1.0), high + (abs(high) / 10 or 1.0)
    pad = 0.04 * (high - low)
    low, high = (low - pad if low < 0 or low - pad > 0 else 0.0), high + pad
    return Axis(low, high, False, nice_ticks(low, high, count))


def nice_ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """About `count` multiples of 1, 2 or 5 times a power of ten, all between low and high."""
    step = nice_step((high - low) / max(count, 1))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return tuple(_clean(i * step, step) for i in range(first, last + 1))


def nice_step(rough: float) -> float:
    """The smallest of 1, 2, 5, 10 times a power of ten that is not below `rough`."""
    power = 10.0 ** floor(log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def log_ticks(low: float, high: float, most: int = 7) -> tuple[float, ...]:
    """Marks at 1, 2 and 5 of each decade; at 1 and 3, at 1 alone, or at every n-th 1 where those would be too many."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high]
        if len(ticks) <= most:
            return tuple(ticks)
    return tuple(ticks[:: ceil(len(ticks) / most)])


def _clean(value: float, step: float) -> float:
    """Without the dust of binary fractions: 0.3, not 0.30000000000000004."""
    return round(value, max(0, 2 - floor(log10(step)))) + 0.0
