"""What a space tells a draughtsman about an architecture: plain data; the drawing is done in the report room.

`Cell` for a graph, `Cells` for several of them (the normal and the reduction cell of DARTS), `Stages` for a network
that is a list of blocks (MobileNet, ResNet, an MLP), `Layers` for a transformer.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A directed acyclic graph: node labels, and edges (from, to, label); an empty label is a plain wire.
    Spaces whose operations sit on the nodes label nodes, those whose operations sit on the edges label edges."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """Named cells, drawn one below the other: `Cells((("normal", Cell(...)), ("reduce", Cell(...))))`."""

    parts: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A block, or equal blocks in a row: `Stage("conv 3x3", 32, stride=2)`, `Stage("E6 K3", 96, repeats=4, inner=48)`.

    `label` says what it is made of, `channels` what it puts out, `inner` the width of its bottleneck (0: none),
    `stride` that of its first block and `repeats` the number of blocks.
    """

    label: str
    channels: int
    stride: int = 1
    repeats: int = 1
    inner: int = 0


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages from the input to the last one before the head."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Layers:
    """A transformer of width `embed`: for every layer its attention heads, and its MLP's width divided by `embed`."""

    embed: int
    heads: tuple[int, ...]
    ratios: tuple[float, ...]


Sketch = Cell | Cells | Stages | Layers
