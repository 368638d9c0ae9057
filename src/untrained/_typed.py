"""What to type to get something again."""

from collections.abc import Callable, Mapping
from inspect import signature
from shlex import quote
from typing import Any


def options(function: Callable[..., Any], asked: Mapping[str, Any]) -> str:
    """`--budget 1000 --seeds 3`: what differs from the function's defaults. Nothing is said of None and empty texts."""
    usual = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    told = {name: value for name, value in asked.items() if value not in ("", None, usual.get(name))}
    return " ".join(f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in told.items())
