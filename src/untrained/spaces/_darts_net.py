"""Networks of DARTS cells: a stem, cells of two kinds, a head.

The channels double in the reduction cells, a third and two thirds of the way. A cell reads the outputs of the two cells
before it, both brought to its width by a 1x1 convolution; where the older one is twice as large, by a factorised
reduction. Only the edges from these two have a stride. Where DARTS's code needs one input size (pooling over 7x7
positions, an auxiliary tower on 8x8 maps) we average over what is there, which is the same at that size.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import UsageError, unknown
from untrained.spaces._blocks import FactorizedReduce, ReLUConvBN, drop_path
from untrained.spaces._darts_ops import operation
from untrained.spaces._genotype import Genotype, Wiring
from untrained.spaces.block_templates import copy_from_template
from untrained.types import Task

_conv_norm = copy_from_template(ReLUConvBN)
_reduction = copy_from_template(FactorizedReduce)
STEMS = ("cifar", "tiny_imagenet", "imagenet", "imagenet_search")  # the last is Zero-Cost-PT's: wider by three


@dataclass(frozen=True)
class Plan:
    """The network around the cells: `cells` of them, the first with `channels` channels.

    The stem halves the maps not at all (`cifar`), once (`tiny_imagenet`) or three times (`imagenet`).
    `pooled` is NASI's search net: maps are halved by max pooling before a reduction cell, and no edge has a stride.
    """

    channels: int = 16
    cells: int = 8
    stem: str = "cifar"
    auxiliary: bool = False
    drop_path: float = 0.0
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.stem not in STEMS:
            raise unknown("stem", self.stem, STEMS)
        if self.channels < 2 or self.cells < 1 or not 0 <= self.drop_path < 1:
            raise UsageError("a DARTS network has at least 2 channels and 1 cell, and drop_path is from 0 to below 1")

    @property
    def imagenet(self) -> bool:
        return self.stem.startswith("imagenet")


@dataclass(frozen=True)
class Place:
    """Where a cell stands: channels of its two inputs and its own, its kind, and whether the older input is larger."""

    before: tuple[int, int]
    channels: int
    kind: str
    after_reduction: bool
    stride: int  # of the edges from its inputs


class Cell(nn.Module, ABC):
    """Two inputs, nodes, and the concatenation of some nodes; a subclass says what a node is."""

    def __init__(self, place: Place, concat: tuple[int, ...], *, search: bool = False) -> None:
        super().__init__()
        older, newer, c, affine = *place.before, place.channels, not search
        reduced = place.after_reduction
        self.preprocess0 = _reduction(older, c, affine=affine) if reduced else _conv_norm(older, c, 1, affine=affine)
        self.preprocess1 = _conv_norm(newer, c, 1, affine=affine)
        self.kind, self.concat, self.nodes = place.kind, concat, range(2, 2)

    def forward(self, older: Tensor, newer: Tensor, how: Any) -> Tensor:
        states = [self.preprocess0(older), self.preprocess1(newer)]
        for node in self.nodes:
            states.append(self.node(node, states, how))
        return torch.cat([states[i] for i in self.concat], 1)

    @abstractmethod
    def node(self, node: int, states: list[Tensor], how: Any) -> Tensor:
        """The state of a node, made of earlier states."""


class WiredCell(Cell):
    """The cell of a genotype: a node is the sum of its two edges. `how` is the probability of drop path, which spares
    identities."""

    def __init__(self, wiring: Wiring, place: Place) -> None:
        super().__init__(place, wiring.concat)
        self.nodes, self.wiring = wiring.nodes, wiring
        self.edges = nn.ModuleList(
            operation(op, place.channels, place.stride if source < 2 else 1) for op, source in wiring.edges
        )

    def node(self, node: int, states: list[Tensor], how: float) -> Tensor:
        first = 2 * (node - 2)
        a, b = (self._along(first + i, states, how) for i in range(2))
        return a + b

    def _along(self, edge: int, states: list[Tensor], how: float) -> Tensor:
        op = self.edges[edge]
        out: Tensor = op(states[self.wiring.edges[edge][1]])
        return drop_path(out, how) if how and not isinstance(op, nn.Identity) else out


class CellNetwork(nn.Module, ABC):
    """Stem, the cells that `make` makes, head. In training mode with an auxiliary tower: (auxiliary logits, logits)."""

    def __init__(self, task: Task, plan: Plan, make: Callable[[Place], Cell]) -> None:
        super().__init__()
        self.plan = plan
        self.stem, self.stem1, width = _stems(task.input_shape[0], plan)
        self.pool = nn.MaxPool2d(2, ceil_mode=True) if plan.pooled else nn.Identity()
        self.cells = nn.ModuleList()
        before, larger = (width, width), plan.imagenet
        for channels, kind in widths(plan):
            reduces = kind == "reduce" and not plan.pooled
            cell = make(Place(before, channels, kind, larger, stride=2 if reduces else 1))
            self.cells.append(cell)
            before, larger = (before[1], len(cell.concat) * channels), reduces
            if plan.auxiliary and len(self.cells) == 1 + 2 * plan.cells // 3:
                self.auxiliary = _Auxiliary(before[1], task.num_classes, imagenet=plan.imagenet)
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(before[1], task.num_classes)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        older = self.stem(x)
        newer = self.stem1(older)
        for i, cell in enumerate(self.cells):
            if cell.kind == "reduce":
                older, newer = self.pool(older), self.pool(newer)
            older, newer = newer, cell(older, newer, self.how())
            if i == 2 * self.plan.cells // 3:
                beside = newer
        logits: Tensor = self.classifier(self.global_pooling(newer).flatten(1))
        return (self.auxiliary(beside), logits) if self.plan.auxiliary and self.training else logits

    @abstractmethod
    def how(self) -> Any:
        """What the cells want to know at this moment."""


class Network(CellNetwork):
    """The network of a genotype. `drop_path` may be changed at any time: trainers raise it with the epoch."""

    def __init__(self, genotype: Genotype, task: Task, plan: Plan) -> None:
        super().__init__(task, plan, lambda place: WiredCell(genotype[place.kind], place))
        self.drop_path = plan.drop_path

    def how(self) -> float:
        return self.drop_path if self.training else 0.0


def widths(plan: Plan) -> list[tuple[int, str]]:
    """Channels and kind of every cell."""
    channels, cells = plan.channels, []
    for i in range(plan.cells):
        kind = "reduce" if i in (plan.cells // 3, 2 * plan.cells // 3) else "normal"
        channels *= 2 if kind == "reduce" else 1
        cells.append((channels, kind))
    return cells


def _stems(cin: int, plan: Plan) -> tuple[nn.Module, nn.Module, int]:
    """What makes the older of the first cell's inputs, what makes the newer of it, and their channels."""
    c = plan.channels if plan.stem == "imagenet" else 3 * plan.channels
    if not plan.imagenet:
        return nn.Sequential(*_conv_bn(cin, c, stride=2 if plan.stem == "tiny_imagenet" else 1)), nn.Identity(), c
    older = nn.Sequential(*_conv_bn(cin, c // 2, 2), nn.ReLU(), *_conv_bn(c // 2, c, 2))
    return older, nn.Sequential(nn.ReLU(), *_conv_bn(c, c, 2)), c


def _conv_bn(cin: int, cout: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(cin, cout, 3, stride, padding=1, bias=False), nn.BatchNorm2d(cout)]


class _Auxiliary(nn.Module):
    """The classifier beside the main one, for maps of 8x8 (CIFAR) or 7x7 (ImageNet). There DARTS's code leaves the
    second norm out, at first by a slip and then to stay comparable; so do we."""

    def __init__(self, channels: int, classes: int, *, imagenet: bool) -> None:
        super().__init__()
        self.relu, self.stride = nn.ReLU(), 2 if imagenet else 3
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
        small = min(x.shape[-2:]) < 5 + self.stride  # two windows do not fit
        x = self.relu(x)
        x = F.adaptive_avg_pool2d(x, 2) if small else F.avg_pool2d(x, 5, self.stride)
        logits: Tensor = self.classifier(self.features(x).flatten(1))
        return logits
