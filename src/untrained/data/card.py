"""The card of a data set: what was found in it and what became of it, to be read before anything is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """Facts in a few words, what is said of each column (or class), and what needs attention."""

    name: str
    facts: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The card as text: facts, then the rows in columns of equal width, then the notes."""
        head = [self.name, *(f"  {name}: {text}" for name, text in self.facts.items())]
        return [*head, *_aligned(self.rows), *(f"  {note}" for note in self.notes)]

    def document(self) -> dict[str, Any]:
        """The card for JSON."""
        return {
            "name": self.name,
            "facts": dict(self.facts),
            "rows": [dict(row) for row in self.rows],
            "notes": [*self.notes],
        }


def _aligned(rows: tuple[Mapping[str, Any], ...]) -> list[str]:
    if not rows:
        return []
    cells = [[*rows[0]], *([f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
