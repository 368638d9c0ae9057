"""What a space tells a draughtsman about an architecture; the drawing itself is done in the report room."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A directed acyclic graph: node labels, and edges (from, to, label); an empty label is a plain wire.
    Spaces whose operations sit on the nodes label nodes, those whose operations sit on the edges label edges."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]


Sketch = Cell
