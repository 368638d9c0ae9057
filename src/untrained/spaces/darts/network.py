"""Networks of DARTS cells: a stem, normal and reduction cells, a classifier.

The channels double in the two reduction cells, at one third and two thirds of the depth. A cell
reads the outputs of the two preceding cells, and a 1x1 convolution brings each of them to the width
of the cell. If the older output is twice as large as the newer one, a factorised reduction does
this instead. Only the edges from these two inputs have a stride. DARTS's code expects one
input size, because it pools over 7x7 positions and has an auxiliary tower for 8x8 maps. Our
networks average over maps of any size, which gives the same result at the size of DARTS.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import UsageError, make_unknown_name_error
from untrained.spaces.block_templates import copy_from_template
from untrained.spaces.core.layers import FactorizedReduce, ReLUConvBN, drop_path
from untrained.spaces.darts.genotype import Genotype, Wiring
from untrained.spaces.darts.operations import build_operation
from untrained.types import Task

# The additional argument of a cell in the forward pass: in a final network the probability of drop
# path, in a supernet the mixture.
ContextT = TypeVar("ContextT")

_build_relu_conv_bn = copy_from_template(ReLUConvBN)
_build_factorized_reduce = copy_from_template(FactorizedReduce)

# `imagenet_search` is the stem of Zero-Cost-PT: three times as wide as `imagenet`.
STEMS = ("cifar", "tiny_imagenet", "imagenet", "imagenet_search")


@dataclass(frozen=True)
class DartsConfig:
    """The network around the cells.

    Attributes:
        channels: Channels of the first cell.
        cells: Number of cells.
        stem: One of `STEMS`. `cifar` keeps the size of the images, `tiny_imagenet` halves it once,
            `imagenet` and `imagenet_search` halve it three times.
        auxiliary: Whether an auxiliary tower follows the second reduction cell.
        drop_path: Probability of dropping an edge in training.
        pooled: Whether maps are halved by max pooling before a reduction cell, so that no edge has
            a stride, as in NASI's search.
    """

    channels: int = 16
    cells: int = 8
    stem: str = "cifar"
    auxiliary: bool = False
    drop_path: float = 0.0
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.stem not in STEMS:
            raise make_unknown_name_error("stem", self.stem, STEMS)
        if self.channels < 2 or self.cells < 1 or not 0 <= self.drop_path < 1:
            raise UsageError(
                "a DARTS network needs at least 2 channels and 1 cell; "
                "drop_path must be at least 0 and less than 1"
            )

    @property
    def has_imagenet_stem(self) -> bool:
        return self.stem.startswith("imagenet")

    @property
    def stem_channels(self) -> int:
        if self.stem == "imagenet":
            return self.channels
        return 3 * self.channels

    @property
    def auxiliary_position(self) -> int:
        """Index of the cell that feeds the auxiliary tower: the second reduction cell."""
        return 2 * self.cells // 3


@dataclass(frozen=True)
class CellPosition:
    """The position of a cell in the network.

    Attributes:
        input_channels: Channels of the older and of the newer input.
        channels: Channels of the cell itself.
        kind: `normal` or `reduce`.
        after_reduction: Whether the older input is twice as large as the newer one.
        stride: Stride of the edges from the inputs.
    """

    input_channels: tuple[int, int]
    channels: int
    kind: str
    after_reduction: bool
    stride: int

    def get_edge_stride(self, source: int) -> int:
        """Return the stride of an edge; states 0 and 1 are the inputs."""
        if source < 2:
            return self.stride
        return 1


class DartsCell(nn.Module, ABC, Generic[ContextT]):
    """Two inputs, nodes, and the concatenation of some nodes. Subclasses compute the nodes."""

    # Set by the subclasses.
    nodes: range

    def __init__(
        self, position: CellPosition, concat: tuple[int, ...], *, search: bool = False
    ) -> None:
        super().__init__()
        older_channels, newer_channels = position.input_channels
        channels = position.channels
        affine = not search
        self.preprocess0: nn.Module
        if position.after_reduction:
            self.preprocess0 = _build_factorized_reduce(older_channels, channels, affine=affine)
        else:
            self.preprocess0 = _build_relu_conv_bn(older_channels, channels, 1, affine=affine)
        self.preprocess1 = _build_relu_conv_bn(newer_channels, channels, 1, affine=affine)
        self.kind = position.kind
        self.concat = concat

    def forward(self, older: Tensor, newer: Tensor, context: ContextT) -> Tensor:
        states = [self.preprocess0(older), self.preprocess1(newer)]
        for node in self.nodes:
            states.append(self.compute_node(node, states, context))
        return torch.cat([states[node] for node in self.concat], 1)

    @abstractmethod
    def compute_node(self, node: int, states: list[Tensor], context: ContextT) -> Tensor:
        """Return the state of a node, given the earlier states."""


class WiredCell(DartsCell[float]):
    """The cell of a genotype: a node is the sum of its two edges.

    The context is the probability of drop path, which does not apply to identities.
    """

    def __init__(self, wiring: Wiring, position: CellPosition) -> None:
        super().__init__(position, wiring.concat)
        self.nodes = wiring.nodes
        self.wiring = wiring
        self.edges = nn.ModuleList()
        for op, source in wiring.edges:
            stride = position.get_edge_stride(source)
            self.edges.append(build_operation(op, position.channels, stride))

    def compute_node(self, node: int, states: list[Tensor], context: float) -> Tensor:
        first_edge = 2 * (node - 2)
        first = self._apply_edge(first_edge, states, context)
        second = self._apply_edge(first_edge + 1, states, context)
        return first + second

    def _apply_edge(self, edge: int, states: list[Tensor], drop_probability: float) -> Tensor:
        operation = self.edges[edge]
        _, source = self.wiring.edges[edge]
        out: Tensor = operation(states[source])
        if drop_probability and not isinstance(operation, nn.Identity):
            return drop_path(out, drop_probability)
        return out


class CellNetwork(nn.Module, ABC, Generic[ContextT]):
    """Stem, cells, classifier.

    In training mode a network with an auxiliary tower returns (auxiliary logits, logits).
    """

    def __init__(
        self,
        task: Task,
        config: DartsConfig,
        build_cell: Callable[[CellPosition], DartsCell[ContextT]],
    ) -> None:
        super().__init__()
        self.config = config
        self.stem, self.stem1 = _build_stems(task.input_shape[0], config)
        self.pool: nn.Module = nn.Identity()
        if config.pooled:
            self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.cells = nn.ModuleList()
        input_channels = (config.stem_channels, config.stem_channels)
        # The second stem of ImageNet halves the maps, like a reduction cell.
        after_reduction = config.has_imagenet_stem
        for index, (channels, kind) in enumerate(list_cells(config)):
            has_stride = kind == "reduce" and not config.pooled
            stride = 2 if has_stride else 1
            cell = build_cell(CellPosition(input_channels, channels, kind, after_reduction, stride))
            self.cells.append(cell)
            input_channels = (input_channels[1], len(cell.concat) * channels)
            after_reduction = has_stride
            if config.auxiliary and index == config.auxiliary_position:
                self.auxiliary = _AuxiliaryTower(
                    input_channels[1], task.num_classes, imagenet=config.has_imagenet_stem
                )
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(input_channels[1], task.num_classes)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        older = self.stem(x)
        newer = self.stem1(older)
        for index, cell in enumerate(self.cells):
            if cell.kind == "reduce":
                older = self.pool(older)
                newer = self.pool(newer)
            out = cell(older, newer, self.make_context())
            older = newer
            newer = out
            if index == self.config.auxiliary_position:
                auxiliary_features = newer
        logits: Tensor = self.classifier(self.global_pooling(newer).flatten(1))
        if self.config.auxiliary and self.training:
            return self.auxiliary(auxiliary_features), logits
        return logits

    @abstractmethod
    def make_context(self) -> ContextT:
        """Return the additional argument of the cells for this forward pass."""


class DartsNetwork(CellNetwork[float]):
    """The network of a genotype. A training loop may change `drop_path` at any time."""

    def __init__(self, genotype: Genotype, task: Task, config: DartsConfig) -> None:
        super().__init__(
            task, config, lambda position: WiredCell(genotype[position.kind], position)
        )
        self.drop_path = config.drop_path

    def make_context(self) -> float:
        if self.training:
            return self.drop_path
        return 0.0


def list_cells(config: DartsConfig) -> list[tuple[int, str]]:
    """Return channels and kind of every cell."""
    reductions = (config.cells // 3, 2 * config.cells // 3)
    channels = config.channels
    cells = []
    for index in range(config.cells):
        kind = "normal"
        if index in reductions:
            kind = "reduce"
            channels *= 2
        cells.append((channels, kind))
    return cells


def _build_stems(cin: int, config: DartsConfig) -> tuple[nn.Module, nn.Module]:
    """Return the layers before the older input of the first cell, and those between its inputs."""
    channels = config.stem_channels
    if config.has_imagenet_stem:
        stem = nn.Sequential(
            *_list_conv_bn(cin, channels // 2, stride=2),
            nn.ReLU(),
            *_list_conv_bn(channels // 2, channels, stride=2),
        )
        stem1 = nn.Sequential(nn.ReLU(), *_list_conv_bn(channels, channels, stride=2))
        return stem, stem1
    stride = 2 if config.stem == "tiny_imagenet" else 1
    return nn.Sequential(*_list_conv_bn(cin, channels, stride)), nn.Identity()


def _list_conv_bn(cin: int, cout: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(cin, cout, 3, stride, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(cout)]


class _AuxiliaryTower(nn.Module):
    """The auxiliary classifier, for maps of 8x8 (CIFAR) or 7x7 (ImageNet).

    For ImageNet, DARTS's code has no second norm. Its authors omitted it by mistake and kept it so
    for comparability. We omit it too.
    """

    def __init__(self, channels: int, classes: int, *, imagenet: bool) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.stride = 2 if imagenet else 3
        self.features = nn.Sequential(
            nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 768, 2, bias=False),
            nn.Identity() if imagenet else nn.BatchNorm2d(768),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(768, classes)

    def forward(self, x: Tensor) -> Tensor:
        # The 2x2 convolution needs at least two pooling windows of 5 pixels per side.
        is_small = min(x.shape[-2:]) < 5 + self.stride
        x = self.relu(x)
        if is_small:
            x = F.adaptive_avg_pool2d(x, 2)
        else:
            x = F.avg_pool2d(x, 5, self.stride)
        logits: Tensor = self.classifier(self.features(x).flatten(1))
        return logits
