"""How architectures are written down: `Pairs` for any space, a community's own notation where there is one."""

import ast
from typing import Protocol

from untrained.errors import UsageError
from untrained.types import Choice, Genes


class Notation(Protocol):
    """`format` and `parse` are inverse to each other; `parse` raises `UsageError` with the place marked."""

    def format(self, genes: Genes) -> str: ...

    def parse(self, text: str) -> Genes: ...


class Pairs:
    """`depth=3,kernel0=5`: works for every space."""

    def format(self, genes: Genes) -> str:
        return ",".join(f"{name}={value}" for name, value in genes)

    def parse(self, text: str) -> Genes:
        genes = []
        position = 0
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise malformed(text, position, "name=value")
            genes.append((name.strip(), _value(value.strip())))
            position += len(part) + 1
        return tuple(genes)


def _value(text: str) -> Choice:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | str) else text


def malformed(text: str, position: int, wanted: str) -> UsageError:
    """The error for a string that stops making sense at `position`, with an arrow under the place."""
    return UsageError(
        f"malformed architecture: expected {wanted} at position {position}\n  {text}\n  {' ' * position}^"
    )
