"""Options in brackets, such as `nasbench201(channels=32)`, checked against the type hints of what they configure.

Spaces, proxies and strategies declare an option as a keyword argument. Its hint says which values are allowed:
`int`, `float`, `bool`, `str`, `Literal["a", "b"]`, `int | None`, a sequence of these, or one of them with limits,
`Annotated[int, Between(1, 64)]`. Anything goes for an option without a hint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from untrained._quantities import show_value
from untrained.errors import UsageError


@dataclass(frozen=True)
class Between:
    """The smallest and the largest value of an option, both allowed."""

    least: float
    most: float = inf


Count = Annotated[int, Between(1, 65_536)]  # of channels, cells, epochs, samples in a batch
Positive = Annotated[float, Between(1e-12, 1e6)]
Probability = Annotated[float, Between(0, 1)]
_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a word", NoneType: "None"}


def option_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Type hints of a function's arguments; none where a user's annotations cannot be evaluated."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # annotations are the user's own code, and may raise anything
        return {}


def check_option(owner: str, name: str, value: object, hint: Any, example: object = None) -> None:
    """Refuse a value that the hint of an option does not allow.

    Args:
        owner: What the option belongs to, such as `nasbench201`.
        name: The option.
        value: What was given.
        hint: The type hint of the option.
        example: A value that is allowed.

    Raises:
        UsageError: One line with the values that are allowed.
    """
    if fits(value, hint):
        return
    such = f", such as {name}={example}" if fits(example, hint) and example is not None else ""
    raise UsageError(f"{owner}({name}={_shown(value)}): {name} is {describe(hint)}{such}")


def fits(value: object, hint: Any) -> bool:
    """Whether a hint allows a value. A whole number is a number; `True` is neither."""
    kind = get_origin(hint)
    if kind is Annotated:
        base, *limits = get_args(hint)
        return fits(value, base) and all(_within(value, limit) for limit in limits)
    if kind is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if kind in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        parts = get_args(hint)[:1] or (Any,)
        return _is_list(value) and all(fits(entry, parts[0]) for entry in value)  # type: ignore[attr-defined]
    if hint is float:
        return type(value) in (int, float) and isfinite(value)  # type: ignore[arg-type]
    if hint in (int, bool, str, NoneType):
        return type(value) is hint
    return True


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) > 0


def describe(hint: Any) -> str:
    """The values that a hint allows, in words."""
    kind = get_origin(hint)
    if kind is Annotated:
        base, *limits = get_args(hint)
        return describe(base) + "".join(_describe_limits(limit) for limit in limits)
    if kind is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(hint) if choice != "")
    if kind in (Union, UnionType):
        return " or ".join(describe(part) for part in get_args(hint))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return f"a list [...], each entry {describe((get_args(hint) or (Any,))[0])}"
    return _KINDS.get(hint, "something else")


def _within(value: object, limit: object) -> bool:
    if not isinstance(limit, Between) or not isinstance(value, int | float):
        return True
    return limit.least <= value <= limit.most


def _describe_limits(limit: object) -> str:
    if not isinstance(limit, Between):
        return ""
    if limit.most == inf:
        return f" of {limit.least:,g} or more"
    return f" from {limit.least:,g} to {limit.most:,g}"


def _shown(value: object) -> str:
    """As it was typed: text without quotation marks."""
    return show_value(value)[1:-1] if isinstance(value, str) and len(value) < 50 else show_value(value)
