"""Diagrams of architectures as plain data, which `untrained.reports` renders.

`CellGraph` is a graph, `CellGraphs` are several of them (the normal and the reduction cell of
DARTS), `StageList` is a network that is a list of blocks (MobileNet, ResNet, an MLP), and
`TransformerLayers` is a transformer.
"""

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd

from untrained.errors import UsageError


@dataclass(frozen=True, slots=True)
class CellGraph:
    """A directed acyclic graph of node labels and edges (source, target, label).

    Spaces with operations on the nodes label the nodes, spaces with operations on the edges label
    the edges. An edge with an empty label is a plain connection.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class CellGraphs:
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
class StageList:
    """Stages from the input to the last one before the head."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class TransformerLayers:
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

# No diagram has a larger number.
_MAX_NUMBER = 1_000_000
# Equal blocks in a stage, or heads of a layer.
_MAX_REPEATS = 1_000


def write_diagram(diagram: Diagram) -> dict[str, object]:
    """Return a diagram as plain data for a JSON file."""
    return {"kind": type(diagram).__name__, **asdict(diagram)}


# JSON values have no static type.
def read_diagram(data: Any) -> Diagram:
    """Return the diagram that `write_diagram` wrote.

    Every value is checked, because the file may come from another user.

    Raises:
        UsageError: The data are not a diagram.
    """
    try:
        kind = data["kind"]
        if kind == "CellGraph":
            return _read_cell_graph(data)
        if kind == "CellGraphs":
            parts = []
            for name, cell in data["parts"]:
                parts.append((_check_text(name), _read_cell_graph(cell)))
            return CellGraphs(tuple(parts))
        if kind == "StageList":
            return StageList(tuple(_read_stage(stage) for stage in data["stages"]))
        if kind == "TransformerLayers":
            return _read_transformer_layers(data)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"a drawing cannot be read: {error}") from error
    raise UsageError(f"a drawing of the kind {kind!r} cannot be read")


def _read_cell_graph(data: dict[str, Any]) -> CellGraph:
    nodes = tuple(_check_text(label) for label in data["nodes"])
    last = len(nodes) - 1
    edges = []
    for source, target, label in data["edges"]:
        edges.append((_check_number(source, last), _check_number(target, last), _check_text(label)))
    return CellGraph(nodes, tuple(edges))


def _read_stage(data: dict[str, Any]) -> Stage:
    return Stage(
        label=_check_text(data["label"]),
        channels=_check_number(data["channels"]),
        stride=_check_number(data["stride"]),
        repeats=_check_number(data["repeats"], _MAX_REPEATS),
        inner=_check_number(data["inner"]),
    )


def _read_transformer_layers(data: dict[str, Any]) -> TransformerLayers:
    heads = tuple(_check_number(count, _MAX_REPEATS) for count in data["heads"])
    ratios = []
    for ratio in data["ratios"]:
        if type(ratio) not in (int, float) or not 0 < ratio < _MAX_NUMBER:
            raise ValueError(f"{ratio!r} is not a ratio")
        ratios.append(float(ratio))
    if len(heads) != len(ratios):
        raise ValueError(f"{len(heads)} layers have heads and {len(ratios)} have an MLP")
    return TransformerLayers(_check_number(data["embed"]), heads, tuple(ratios))


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _check_number(value: object, maximum: int = _MAX_NUMBER) -> int:
    # `type(...) is int` excludes True and False.
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{value!r} is not a whole number from 0 to {maximum:,}")
    return value
