"""What a space tells a draughtsman about an architecture: plain data; the drawing is done in the report room.

`Cell` for a graph, `Cells` for several of them (the normal and the reduction cell of DARTS), `Stages` for a network
that is a list of blocks (MobileNet, ResNet, an MLP), `Layers` for a transformer.
"""

from dataclasses import asdict, dataclass
from typing import Any

from untrained.errors import UsageError


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


def write_sketch(sketch: Sketch) -> dict[str, Any]:
    """A sketch as plain data for a JSON file."""
    return {"kind": type(sketch).__name__, **asdict(sketch)}


def read_sketch(facts: Any) -> Sketch:
    """The sketch that `write_sketch` wrote. Every value is checked, since the file may be somebody else's."""
    try:
        kind = facts["kind"]
        if kind == "Cell":
            return _read_cell(facts)
        if kind == "Cells":
            return Cells(tuple((_text(name), _read_cell(cell)) for name, cell in facts["parts"]))
        if kind == "Stages":
            return Stages(tuple(_read_stage(stage) for stage in facts["stages"]))
        if kind == "Layers":
            return _read_layers(facts)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"a drawing cannot be read: {error}") from error
    raise UsageError(f"a drawing of the kind {kind!r} cannot be read")


_MOST = 1_000_000  # no drawing has a larger number in it
_MOST_BLOCKS = 1_000  # in a row of equal blocks, or heads of a layer


def _read_cell(facts: dict[str, Any]) -> Cell:
    nodes = tuple(_text(label) for label in facts["nodes"])
    edges = []
    for start, end, label in facts["edges"]:
        edges.append((_number(start, len(nodes) - 1), _number(end, len(nodes) - 1), _text(label)))
    return Cell(nodes, tuple(edges))


def _read_stage(facts: dict[str, Any]) -> Stage:
    return Stage(
        label=_text(facts["label"]),
        channels=_number(facts["channels"]),
        stride=_number(facts["stride"]),
        repeats=_number(facts["repeats"], _MOST_BLOCKS),
        inner=_number(facts["inner"]),
    )


def _read_layers(facts: dict[str, Any]) -> Layers:
    heads = tuple(_number(count, _MOST_BLOCKS) for count in facts["heads"])
    ratios = []
    for ratio in facts["ratios"]:
        if type(ratio) not in (int, float) or not 0 < ratio < _MOST:
            raise ValueError(f"{ratio!r} is no ratio")
        ratios.append(float(ratio))
    if len(heads) != len(ratios):
        raise ValueError(f"{len(heads)} layers have heads and {len(ratios)} have an MLP")
    return Layers(_number(facts["embed"]), heads, tuple(ratios))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any, most: int = _MOST) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no whole number from 0 to {most:,}")
    return value
