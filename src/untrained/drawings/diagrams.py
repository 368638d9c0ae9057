"""Diagrams of architectures as plain data, which `draw.py` draws.

`CellGraph` is a graph, `CellGraphs` are several of them (the normal and the reduction cell of
DARTS), `StageList` is a network that is a list of blocks (MobileNet, ResNet, an MLP), and
`TransformerLayers` is a transformer. A notebook shows a diagram as a picture.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from torch import nn
from torch.nn.modules.conv import _ConvNd

from untrained.drawings.layout import MAX_SLOTS, count_slots
from untrained.errors import UsageError
from untrained.files import write_atomically


class DrawableDiagram:
    """Base class of diagrams, which turns them into pictures for notebooks and files."""

    __slots__ = ()

    def to_svg(self) -> str:
        """Return the picture as the content of an SVG file."""
        # Imported here because `draw` imports this module.
        from untrained.drawings.draw import draw_file

        # The diagrams of this module are the only subclasses.
        return draw_file(self)  # type: ignore[arg-type]

    def save(self, path: str | Path) -> Path:
        """Write the picture to an SVG file, which every browser shows, and return its path.

        Raises:
            UsageError: The name does not end in .svg, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise UsageError(f"a drawing cannot be saved as {path}; use a name that ends in .svg")
        try:
            write_atomically(path, self.to_svg())
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error}") from error
        return path

    def _repr_html_(self) -> str:
        # An image, because the styles of an inline drawing and of the notebook affect each other.
        content = b64encode(self.to_svg().encode()).decode()
        return f'<img alt="architecture" src="data:image/svg+xml;base64,{content}">'


@dataclass(frozen=True, slots=True)
class CellGraph(DrawableDiagram):
    """A directed acyclic graph of node labels and edges (source, target, label).

    Spaces with operations on the nodes label the nodes, spaces with operations on the edges label
    the edges. An edge with an empty label is a plain connection.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class CellGraphs(DrawableDiagram):
    """Named cells: `CellGraphs((("normal", CellGraph(...)), ("reduce", CellGraph(...))))`."""

    parts: tuple[tuple[str, CellGraph], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A block, or several equal blocks: `Stage("conv 3x3", 32, stride=2)`.

    Attributes:
        label: Description of a block.
        channels: Output channels.
        stride: Stride of the first block.
        repeats: Number of blocks.
        inner: Width of the bottleneck; 0 means that there is none.
    """

    label: str
    channels: int
    stride: int = 1
    repeats: int = 1
    inner: int = 0


@dataclass(frozen=True, slots=True)
class StageList(DrawableDiagram):
    """Stages from the input to the last one before the head."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class TransformerLayers(DrawableDiagram):
    """A transformer: token width, heads of each layer, and width of each MLP divided by `embed`."""

    embed: int
    heads: tuple[int, ...]
    ratios: tuple[float, ...]


Diagram = CellGraph | CellGraphs | StageList | TransformerLayers


# ------------------------------------------------------------- networks without their own diagram


def list_layers(network: nn.Module) -> StageList:
    """Return the layers with weights in the order of construction; equal neighbours are merged.

    Strides are omitted: a list of modules does not show which layers follow each other and which
    are parallel.
    """
    layers = []
    for module in network.modules():
        layer = _describe_layer(module)
        if layer is not None:
            layers.append(layer)
    stages = []
    for layer, equal_layers in groupby(layers):
        repeats = len(list(equal_layers))
        stages.append(Stage(layer.label, layer.channels, repeats=repeats))
    return StageList(tuple(stages))


def _describe_layer(module: nn.Module) -> Stage | None:
    """Return a stage for a convolution, linear or embedding layer, None for any other module."""
    if isinstance(module, _ConvNd):
        kernel = "x".join(map(str, module.kernel_size))
        label = f"conv {kernel}"
        if module.groups == module.in_channels > 1:
            label = f"depthwise {label}"
        return Stage(label, module.out_channels)
    if isinstance(module, nn.Linear):
        return Stage("linear", module.out_features)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return Stage("embedding", module.embedding_dim)
    return None


# ------------------------------------------------------------------------------------ JSON files

# A larger number in a file is an error.
_MAX_NUMBER = 1_000_000
# Nodes and edges of a graph. A file from elsewhere must not keep the layout busy for hours.
_MAX_NODES = 200
_MAX_EDGES = 500
# Equal blocks in a stage, or heads of a layer.
_MAX_REPEATS = 1_000


def serialise_diagram(diagram: Diagram) -> dict[str, object]:
    """Return a diagram as plain data for a JSON file."""
    return {"kind": type(diagram).__name__, **asdict(diagram)}


def read_diagram(data: object) -> Diagram:
    """Return the diagram that `serialise_diagram` turned into plain data.

    Every value is checked, because the file may come from another user.

    Raises:
        UsageError: The data are not a diagram.
    """
    try:
        kind = _read_field(data, "kind")
        if kind == "CellGraph":
            return _read_cell_graph(data)
        if kind == "CellGraphs":
            parts = []
            for part in _read_list(data, "parts"):
                name, cell = _check_list(part)
                parts.append((_check_text(name), _read_cell_graph(cell)))
            return CellGraphs(tuple(parts))
        if kind == "StageList":
            return StageList(tuple(_read_stage(stage) for stage in _read_list(data, "stages")))
        if kind == "TransformerLayers":
            return _read_transformer_layers(data)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"a drawing cannot be read: {error}") from error
    raise UsageError(f"a drawing of the kind {kind!r} cannot be read")


def _read_cell_graph(data: object) -> CellGraph:
    nodes = tuple(_check_text(label) for label in _read_list(data, "nodes"))
    if len(nodes) > _MAX_NODES:
        raise ValueError(f"a graph of {len(nodes):,} nodes is too large")
    last = len(nodes) - 1
    edges = []
    for edge in _read_list(data, "edges"):
        source, target, label = _check_list(edge)
        edges.append((_check_number(source, last), _check_number(target, last), _check_text(label)))
    if len(edges) > _MAX_EDGES or count_slots(len(nodes), edges) > MAX_SLOTS:
        raise ValueError(f"a graph of {len(nodes)} nodes and {len(edges):,} edges is too large")
    return CellGraph(nodes, tuple(edges))


def _read_stage(data: object) -> Stage:
    return Stage(
        label=_check_text(_read_field(data, "label")),
        channels=_check_number(_read_field(data, "channels")),
        stride=_check_number(_read_field(data, "stride")),
        repeats=_check_number(_read_field(data, "repeats"), _MAX_REPEATS),
        inner=_check_number(_read_field(data, "inner")),
    )


def _read_transformer_layers(data: object) -> TransformerLayers:
    heads = tuple(_check_number(count, _MAX_REPEATS) for count in _read_list(data, "heads"))
    ratios = []
    for ratio in _read_list(data, "ratios"):
        # Whole numbers are allowed, but not True and False.
        if not isinstance(ratio, int | float) or isinstance(ratio, bool):
            raise ValueError(f"{ratio!r} is not a ratio")
        if not 0 < ratio < _MAX_NUMBER:
            raise ValueError(f"{ratio!r} is not a ratio")
        ratios.append(float(ratio))
    if len(heads) != len(ratios):
        raise ValueError(f"{len(heads)} layers have heads and {len(ratios)} have an MLP")
    embed = _check_number(_read_field(data, "embed"))
    return TransformerLayers(embed, heads, tuple(ratios))


def _read_field(data: object, name: str) -> object:
    if not isinstance(data, dict):
        raise TypeError(f"{data!r} is not an object")
    return data[name]


def _read_list(data: object, name: str) -> Sequence[object]:
    return _check_list(_read_field(data, name))


def _check_list(value: object) -> Sequence[object]:
    # A diagram that was not written to a file yet has tuples.
    if not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is not a list")
    return value


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _check_number(value: object, maximum: int = _MAX_NUMBER) -> int:
    # `type(...) is int` excludes True and False.
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{value!r} is not a whole number from 0 to {maximum:,}")
    return value
