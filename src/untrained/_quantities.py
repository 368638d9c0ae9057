"""Durations and shares as people type them."""

import re

from untrained.errors import UsageError

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m`, `2d` -> seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not parts or "".join(a + b for a, b in parts) != re.sub(r"\s", "", text.lower()):
        raise UsageError(f"impossible duration {text!r}; write 90s, 10m or 1h30m")
    try:
        total = sum(float(amount) * _UNITS[unit or "s"] for amount, unit in parts)
    except KeyError as unit:
        raise UsageError(f"no unit of time is called {unit}; there are: {', '.join(_UNITS)}") from unit
    if not total > 0:
        raise UsageError(f"a duration must be more than nothing, not {text!r}")
    return total


def share(text: str) -> float:
    """`20%` or `0.2` -> 0.2."""
    stripped = text.strip()
    try:
        value = float(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except ValueError as error:
        raise UsageError(f"impossible share {text!r}; write 20% or 0.2") from error
    if not 0 < value <= 1:
        raise UsageError(f"a share is more than nothing and at most 100%, not {text!r}")
    return value
