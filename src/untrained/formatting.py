"""Write numbers and times as people read them: `1.07 M`, `1 min 12 s`, columns that line up.

The functions return plain text, without HTML or SVG.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from math import floor, log10
from statistics import median

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# Seconds of a unit, its name, seconds of the next smaller unit, its name.
_LONG_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_MINUS = "\u2212"
_NO_BREAK_SPACE = "\u00a0"


def format_significant(value: float, digits: int = 3) -> str:
    """Format a number with some significant digits; very large and small ones get an exponent."""
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return _format_scientific(value, digits - 1)
    # Rounding may add a digit, as for 999.9, which the format `g` would write as 1.00e+03.
    rounded = float(f"{value:.{digits - 1}e}")
    if abs(rounded) < 10**digits:
        return _use_minus_sign(format(value, f"#.{digits}g").rstrip("."))
    return _use_minus_sign(f"{value:.0f}")


def format_measured(value: float) -> str:
    """Format a number in the unit of the user's data with four significant digits.

    Numbers from 1,000 to 10 million are written out, because prices and counts are read that way.

    Example:
        >>> format_measured(14408.7)
        '14,410'
        >>> format_measured(0.98765)
        '0.9877'
    """
    rounded = float(f"{value:.3e}")
    if 1e3 <= abs(rounded) < 1e7:
        return f"{rounded:,.0f}"
    return f"{value:.4g}"


def format_fixed(value: float, decimals: int) -> str:
    """Format a number with a fixed number of decimals and a typographic minus sign."""
    return _use_minus_sign(f"{value:.{decimals}f}")


def format_interval(
    low: float | None, high: float | None, format_bound: Callable[[float], str]
) -> str:
    """Format an interval as `0.893 to 0.925` without line breaks; empty if a bound is missing."""
    if low is None or high is None:
        return ""
    return _NO_BREAK_SPACE.join((format_bound(low), "to", format_bound(high)))


def format_quantity(value: float) -> str:
    """Format a count with three significant digits and a unit: 732, 73.3 k, 1.07 M, 154 M."""
    for scale, unit in _SCALES:
        # 999,600 is rounded to 1.00 M, not to 1000 k.
        if abs(value) >= 0.9995 * scale:
            return f"{format_significant(value / scale)} {unit}"
    return format_fixed(value, 0)


def format_number(value: float | None) -> str:
    """Format a score with six significant digits and a count with all its digits.

    Returns:
        A text such as `1.23736` or `1,032,352`; empty for None.
    """
    if value is None:
        return ""
    if value == round(value, 0) and abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:,.6g}"


def format_percent(fraction: float, decimals: int = 1) -> str:
    """Format a fraction in per cent, the only form in which shares and accuracies are shown.

    Example:
        >>> format_percent(0.744)
        '74.4 %'
        >>> format_percent(0.22, 0)
        '22 %'
    """
    return f"{format_fixed(100 * fraction, decimals)} %"


def format_count(count: float, noun: str) -> str:
    """Format a count with its noun: 1 epoch, 2 epochs, 0.5 epochs, 2 passes."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:,g}"
    if count == 1:
        return f"{number} {noun}"
    if noun.endswith("s"):
        return f"{number} {noun}es"
    return f"{number} {noun}s"


def join_words(words: Sequence[str]) -> str:
    """Join words as in a sentence: "a", "a and b", "a, b and c"."""
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def format_progress(done: int, total: int | None, is_percentage: bool = False) -> str:
    """Format the progress of a stage: 1,200, 12 of 100, or 12 % if the units are per cent."""
    if is_percentage:
        return f"{done} %"
    if total is None:
        return f"{done:,}"
    return f"{done:,} of {total:,}"


def format_limited_value(limit: str, value: float) -> str:
    """Format the value that a limit is about, in the unit of the limit: 732 k, 12.3 MB, 4.1 ms.

    Args:
        limit: Name of the limit, such as `max_params`, `max_memory` or `max_latency`.
        value: Parameters, bytes or seconds.
    """
    if limit == "max_latency":
        return f"{format_significant(1000 * value)} ms"
    if limit == "max_memory":
        return f"{format_quantity(value)}B"
    return format_quantity(value)


def format_duration(seconds: float) -> str:
    """Format seconds in the two largest units: 4 ms, 0.12 s, 45 s, 1 min 12 s, 2 h 5 min."""
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    whole_seconds = round(seconds)
    for size, unit, smaller_size, smaller_unit in _LONG_UNITS:
        if whole_seconds < size:
            continue
        text = f"{whole_seconds // size} {unit}"
        rest = whole_seconds % size // smaller_size
        if rest:
            text += f" {rest} {smaller_unit}"
        return text
    return f"{whole_seconds} s"


def format_now() -> str:
    """Return the local date and time, such as `2026-11-19 20:43 UTC`."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def choose_column_format(values: Sequence[float], digits: int = 4) -> Callable[[float], str]:
    """Choose one format for all numbers of a table column, so that they line up.

    Args:
        values: The numbers of the column.
        digits: Significant digits of a number of median size.

    Returns:
        A function that formats a number of this column.
    """
    sizes = [abs(value) for value in values if value != 0]
    if not sizes:
        return lambda value: format_significant(value, digits)
    median_size = median(sizes)
    if max(sizes) >= 1e7 or median_size < 1e-4:
        return lambda value: _format_scientific(value, digits - 1)
    decimals = min(max(digits - 1 - floor(log10(median_size)), 0), 7)
    return lambda value: format_fixed(value, decimals)


def format_ticks(values: Sequence[float], *, units: bool) -> list[str]:
    """Format the ticks of one axis with the same unit and the same number of decimals.

    Args:
        values: Positions of the ticks.
        units: Whether large numbers get a unit: 0.5M, 1.0M, 1.5M.
    """
    largest = max((abs(value) for value in values), default=0.0)
    sizes = [abs(value) for value in values if value != 0]
    if units and largest >= 1e3:
        is_logarithmic = largest / min(sizes) > 1e3
        labels = []
        for value in values:
            # On a logarithmic axis, each tick has its own unit.
            size = abs(value) if is_logarithmic else largest
            labels.append(_format_with_unit(value, size))
        return labels
    if sizes and (largest >= 1e7 or largest < 1e-3 or largest / min(sizes) > 1e4):
        return [_format_scientific_tick(value) for value in values]
    decimals = max((_count_decimals(value) for value in values), default=0)
    if decimals == 0 and largest >= 1e4:
        return [_use_minus_sign(f"{value:,.0f}") for value in values]
    return [format_fixed(value, decimals) for value in values]


def _format_with_unit(value: float, size: float) -> str:
    """Format a value in the unit that suits `size`."""
    if not value:
        return "0"
    for scale, unit in _SCALES:
        if size >= scale:
            return _use_minus_sign(f"{value / scale:.4g}{unit}")
    return _use_minus_sign(f"{value:.4g}")


def _format_scientific_tick(value: float) -> str:
    if value == 0:
        return "0"
    # 2e7 needs no decimals; 2.5e7 needs one.
    has_one_digit = float(f"{value:.0e}") == float(f"{value:.6g}")
    return _format_scientific(value, 0 if has_one_digit else 1)


def _format_scientific(value: float, decimals: int) -> str:
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return _use_minus_sign(f"{mantissa}e{int(exponent)}")


def _count_decimals(value: float) -> int:
    return len(f"{value:.9f}".rstrip("0").split(".")[1])


def _use_minus_sign(text: str) -> str:
    """Replace the hyphen by a minus sign, and remove it in front of a zero."""
    is_zero = not any(digit in text for digit in "123456789")
    if is_zero:
        return text.lstrip("-")
    return text.replace("-", _MINUS)


def format_label_name(name: str) -> str:
    """Return the name of a label in a sentence: "age", or "the label" if it has no other name."""
    if name in ("", "label"):
        return "the label"
    return name
