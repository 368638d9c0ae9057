"""Numbers as people read them: `1.07 M`, `1 min 12 s`, `1 epoch`, a column of scores that lines up.

Knows nothing of HTML, SVG or what a number stands for.
"""

from collections.abc import Callable, Sequence
from math import floor, log10
from statistics import median

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MINUS = "\u2212"


def significant(value: float, digits: int = 3) -> str:
    """`value` with that many significant digits, and a power of ten only where plain digits would not be read."""
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return _scientific(value, digits - 1)
    return _minus(format(value, f"#.{digits}g").rstrip(".")) if abs(value) < 10**digits else _minus(f"{value:.0f}")


def fixed(value: float, decimals: int) -> str:
    """`value` with that many decimals and a true minus sign."""
    return _minus(f"{value:.{decimals}f}")


def between(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """`0.893 to 0.925`, never apart; nothing where an end is missing."""
    return "" if low is None or high is None else f"{text(low)}\u00a0to\u00a0{text(high)}"


def quantity(value: float) -> str:
    """A count with three significant digits and a unit: 732, 73.3 k, 1.07 M, 154 M."""
    for scale, unit in _SCALES:
        if abs(value) >= 0.9995 * scale:
            return f"{significant(value / scale)} {unit}"
    return fixed(value, 0)


def number(value: float | None) -> str:
    """A score with six significant digits, a count with all its own: 1.23736, 1,032,352; empty where there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value == round(value, 0) and abs(value) < 1e12 else f"{value:,.6g}"


def counted(count: float, noun: str) -> str:
    """So many of a thing: 1 epoch, 2 epochs, 0.5 epochs."""
    return f"{count:,{'' if isinstance(count, int) else 'g'}} {noun if count == 1 else f'{noun}s'}"


def measured(limit: str, value: float) -> str:
    """What is limited by `max_params`, `max_memory`, `max_latency`: 732 k, 12.3 MB, 4.1 ms."""
    if limit == "max_latency":
        return f"{significant(1000 * value)} ms"
    return f"{quantity(value)}B" if limit == "max_memory" else quantity(value)


def duration(seconds: float) -> str:
    """Seconds in the two largest units that matter: 4 ms, 0.12 s, 45 s, 1 min 12 s, 2 h 5 min."""
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for size, unit, below, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {part}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def column(values: Sequence[float], digits: int = 4) -> Callable[[float], str]:
    """One format for all numbers of a column: the same decimals, so many significant digits in a middling number."""
    sizes = [abs(value) for value in values if value != 0]
    if not sizes:
        return lambda value: significant(value, digits)
    middle = median(sizes)
    if max(sizes) >= 1e7 or middle < 1e-4:
        return lambda value: _scientific(value, digits - 1)
    decimals = min(max(digits - 1 - floor(log10(middle)), 0), 7)
    return lambda value: fixed(value, decimals)


def ticks(values: Sequence[float], *, units: bool) -> list[str]:
    """Labels for the ticks of one axis, alike in unit and decimals: 0.5M, 1.0M, 1.5M or 3.0, 3.5, 4.0."""
    largest = max((abs(value) for value in values), default=0.0)
    sizes = [abs(value) for value in values if value != 0]
    if units and largest >= 1e3:
        wide = largest / min(sizes) > 1e3
        return [_with_unit(value, abs(value) if wide else largest) for value in values]
    if sizes and (largest >= 1e6 or largest < 1e-3 or largest / min(sizes) > 1e4):
        return ["0" if value == 0 else _scientific(value, 0 if _round(value) else 1) for value in values]
    decimals = max((_decimals(value) for value in values), default=0)
    return [fixed(value, decimals) for value in values]


def _with_unit(value: float, size: float) -> str:
    scale, unit = next(((scale, unit) for scale, unit in _SCALES if size >= scale), (1.0, ""))
    return _minus(f"{value / scale:.4g}{unit}") if value else "0"


def _scientific(value: float, decimals: int) -> str:
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return _minus(f"{mantissa}e{int(exponent)}")


def _round(value: float) -> bool:
    """Whether one digit says it all, as in 2e7."""
    return float(f"{value:.0e}") == float(f"{value:.6g}")


def _decimals(value: float) -> int:
    return len(f"{value:.9f}".rstrip("0").split(".")[1])


def _minus(text: str) -> str:
    """A true minus sign, and none before a zero."""
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("-")
