"""Check options in brackets, such as `nasbench201(channels=32)`, against type hints.

Spaces, proxies and strategies declare an option as a keyword argument. Its type hint defines the
allowed values: `int`, `float`, `bool`, `str`, `Literal["a", "b"]`, `int | None`, a sequence of
these, or one of them with limits, `Annotated[int, Between(1, 64)]`. An option without a hint
accepts any value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from untrained.errors import UsageError
from untrained.quantities import show_value


@dataclass(frozen=True)
class Between:
    """Range of the allowed values of an option, including both ends."""

    least: float
    most: float = inf


Count = Annotated[int, Between(1, 65_536)]  # of channels, cells, epochs, samples in a batch
Positive = Annotated[float, Between(1e-12, 1e6)]
Probability = Annotated[float, Between(0, 1)]
_DESCRIPTIONS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a string",
    NoneType: "None",
}


def read_option_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type hints of a function's arguments; empty if they cannot be evaluated."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        # Evaluating annotations runs code of the user, which may raise any exception.
        return {}


def check_option(owner: str, name: str, value: object, hint: Any, example: object = None) -> None:
    """Raise an error unless the type hint of an option allows a value.

    Args:
        owner: What the option belongs to, such as `nasbench201`.
        name: Name of the option.
        value: The value.
        hint: Type hint of the option.
        example: A value that is allowed, for the message.

    Raises:
        UsageError: The value is not allowed.
    """
    if matches_hint(value, hint):
        return
    suggestion = ""
    if example is not None and matches_hint(example, hint):
        suggestion = f", such as {name}={example}"
    call = f"{owner}({name}={_format_as_typed(value)})"
    raise UsageError(f"{call}: {name} must be {describe_hint(hint)}{suggestion}")


def matches_hint(value: object, hint: Any) -> bool:
    """Return whether a type hint allows a value.

    The hint `float` also allows integers. `True` is neither an integer nor a float.
    """
    kind = get_origin(hint)
    if kind is Annotated:
        base, *limits = get_args(hint)
        return matches_hint(value, base) and all(_is_within(value, limit) for limit in limits)
    if kind is Literal:
        # `True == 1`, so types are compared as well.
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if kind in (Union, UnionType):
        return any(matches_hint(value, part) for part in get_args(hint))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        entry_hint = _get_entry_hint(hint)
        if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) == 0:
            return False
        return all(matches_hint(entry, entry_hint) for entry in value)
    if hint is float:
        return (type(value) is int or type(value) is float) and isfinite(value)
    if hint in (int, bool, str, NoneType):
        return type(value) is hint
    return True


def describe_hint(hint: Any) -> str:
    """Describe in words which values a type hint allows."""
    kind = get_origin(hint)
    if kind is Annotated:
        base, *limits = get_args(hint)
        return describe_hint(base) + "".join(_describe_limit(limit) for limit in limits)
    if kind is Literal:
        choices = [str(choice) for choice in get_args(hint) if choice != ""]
        return "one of " + ", ".join(choices)
    if kind in (Union, UnionType):
        return " or ".join(describe_hint(part) for part in get_args(hint))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return f"a list [...], each entry {describe_hint(_get_entry_hint(hint))}"
    return _DESCRIPTIONS.get(hint, "any value")


def _get_entry_hint(hint: Any) -> Any:
    """Return the hint for the entries of a sequence."""
    arguments = get_args(hint)
    if not arguments:
        return Any
    return arguments[0]


def _is_within(value: object, limit: object) -> bool:
    if not isinstance(limit, Between) or not isinstance(value, int | float):
        return True
    return limit.least <= value <= limit.most


def _describe_limit(limit: object) -> str:
    if not isinstance(limit, Between):
        return ""
    if limit.most == inf:
        return f" of {limit.least:,g} or more"
    return f" from {limit.least:,g} to {limit.most:,g}"


def _format_as_typed(value: object) -> str:
    """Format a value as the user typed it: a short text without quotation marks."""
    text = show_value(value)
    if isinstance(value, str) and len(value) < 50:
        return text[1:-1]
    return text
