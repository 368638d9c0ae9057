"""Architectures as text: `name=value` pairs, or a published notation where one exists."""

import ast
from typing import Protocol

from untrained.errors import UsageError
from untrained.pairs import format_pairs, split_pairs
from untrained.types import Choice, Genes


class Notation(Protocol):
    """Text form of the architectures of a space. `format` and `parse` are inverse to each other."""

    def format(self, genes: Genes) -> str:
        """Write the genes as text."""
        ...

    def parse(self, text: str) -> Genes:
        """Read genes from text.

        Raises:
            UsageError: The text is malformed; the message marks the position.
        """
        ...


class PairNotation:
    """`depth=3,kernels=(3,5)`: works for every space."""

    def format(self, genes: Genes) -> str:
        return format_pairs(genes)

    def parse(self, text: str) -> Genes:
        genes = []
        for position, part in split_pairs(text):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise make_parse_error(text, position, "name=value")
            genes.append((name.strip(), _parse_value(value.strip())))
        return tuple(genes)


def _parse_value(text: str) -> Choice:
    """Read a number or a quoted string; anything else is a plain word."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        # The last two are raised for deeply nested text.
        return text
    if isinstance(value, int | float | str):
        return value
    return text


def make_parse_error(text: str, position: int, expected: str) -> UsageError:
    """Return the error for text that is malformed at `position`, with an arrow below it."""
    arrow = " " * position + "^"
    return UsageError(
        f"malformed architecture: expected {expected} at position {position}\n  {text}\n  {arrow}"
    )
