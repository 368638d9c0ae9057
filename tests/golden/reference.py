"""The published values and the two networks that they were computed on.

Network A is that of NAS-Bench-201, which we build. Network F is that of zero-cost-nas and its
descendants. It has biases before non-affine batch norms inside cells, and more containers in its
module tree, which the published Dextr counts. F exists for these tests only; it is rebuilt here
from the number and order of hook calls in the golden file.
"""

import json
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.conftest import find_shared
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import EDGES

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")


@cache
def read_golden_file() -> dict[str, Any]:
    return json.loads(find_shared("golden", "nb201_golden.json").read_text())


@cache
def load_inputs() -> dict[str, Tensor]:
    with np.load(find_shared("golden", "nb201_inputs.npz")) as archive:
        return {name: torch.from_numpy(archive[name]) for name in archive.files}


@cache
def load_weights() -> dict[str, Tensor]:
    with np.load(find_shared("golden", "nb201_weights.npz")) as archive:
        return {name: torch.from_numpy(archive[name]) for name in archive.files}


def list_golden_cells() -> list[tuple[str, dict[str, Any]]]:
    """Return the official string and the metrics of the twenty golden architectures."""
    return [(arch["arch_str"], arch["metrics"]) for arch in read_golden_file()["archs"]]


def read_number(value: Any) -> float:
    """Convert a value of the golden file, in which NaN and Infinity are strings."""
    return float(value)


def build_network_a(text: str) -> nn.Module:
    """Build our NAS-Bench-201 network with the golden weights."""
    space = load_space("nasbench201")
    model = space.build(space.parse(text))
    cells = [module for module in model.cells if hasattr(module, "edges")]
    blocks = [module for module in model.cells if not hasattr(module, "edges")]
    with torch.no_grad():
        model.stem[0].weight.copy_(load_weights()["stem.conv.weight"])
        for k, cell in enumerate(cells):
            for e, (edge, op) in enumerate(zip(cell.edges, parse_operations(text), strict=True)):
                if op.startswith("nor_conv"):
                    edge[1].weight.copy_(load_weights()[f"cells.{k}.edge.{e}.{op}.weight"])
        for j, block in enumerate(blocks):
            block.conv_a[1].weight.copy_(load_weights()[f"red.{j}.conv_a.weight"])
            block.conv_b[1].weight.copy_(load_weights()[f"red.{j}.conv_b.weight"])
            block.downsample[1].weight.copy_(load_weights()[f"red.{j}.down.weight"])
        model.classifier.weight.copy_(load_weights()["classifier.weight"])
        model.classifier.bias.copy_(load_weights()["classifier.bias"])
    return model


def parse_operations(text: str) -> list[str]:
    """Return the operations of a cell, edge by edge."""
    edges = []
    for node in text.split("+"):
        edges += node.strip("|").split("|")
    return [edge.split("~")[0] for edge in edges]


class NetworkF(nn.Module):
    """The zero-cost-nas network with the golden weights and its containers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        ops = parse_operations(text)
        stem_norm = nn.BatchNorm2d(16)
        self.stem = nn.Sequential(
            nn.Sequential(_make_conv("stem.conv", 16, 3, 3, bias=False), stem_norm)
        )
        stages: list[nn.Module] = []
        for stage, channels in enumerate((16, 32, 64)):
            if stage:
                stages.append(_Reduction(stage - 1, channels // 2, channels))
            stages.append(nn.Sequential(*(_CellF(5 * stage + i, ops, channels) for i in range(5))))
        self.stages = nn.ModuleList(stages)
        self.top = nn.Sequential(
            nn.Sequential(nn.BatchNorm2d(64), nn.ReLU()), nn.AdaptiveAvgPool2d(1)
        )
        self.classifier = nn.Linear(64, 10)
        self.classifier.load_state_dict(
            {n: load_weights()[f"classifier.{n}"] for n in ("weight", "bias")}
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.classifier(self.top(x).flatten(1))


class _CellF(nn.Module):
    def __init__(self, k: int, ops: list[str], channels: int) -> None:
        super().__init__()
        self.edges = nn.ModuleList(
            _make_operation(f"cells.{k}.edge.{e}.{op}", op, channels) for e, op in enumerate(ops)
        )

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        for node in (1, 2, 3):
            total: Tensor | int = 0
            for edge, (target, source) in zip(self.edges, EDGES, strict=True):
                if target == node:
                    total = total + edge(nodes[source])
            nodes.append(total)
        return nodes[-1]


class _Zero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0


class _Reduction(nn.Module):
    def __init__(self, j: int, cin: int, cout: int) -> None:
        super().__init__()
        self.conv_a = _make_relu_conv_bn(
            _make_conv(f"red.{j}.conv_a", cout, cin, 3, bias=False, stride=2), nn.BatchNorm2d(cout)
        )
        self.conv_b = _make_relu_conv_bn(
            _make_conv(f"red.{j}.conv_b", cout, cout, 3, bias=False), nn.BatchNorm2d(cout)
        )
        self.down = nn.Sequential(
            nn.AvgPool2d(2), _make_conv(f"red.{j}.down", cout, cin, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_b(self.conv_a(x)) + self.down(x)


def _make_operation(name: str, op: str, channels: int) -> nn.Module:
    if op == "none":
        return _Zero()
    if op == "skip_connect":
        return nn.Identity()
    if op == "avg_pool_3x3":
        return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False))
    norm = nn.BatchNorm2d(channels, affine=False, track_running_stats=False)
    return _make_relu_conv_bn(_make_conv(name, channels, channels, int(op[-1]), bias=True), norm)


def _make_relu_conv_bn(conv: nn.Conv2d, norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.ReLU(), conv, norm))


def _make_conv(
    name: str, cout: int, cin: int, kernel: int, bias: bool, stride: int = 1
) -> nn.Conv2d:
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=bias)
    conv.load_state_dict(
        {n: load_weights()[f"{name}.{n}"] for n in ("weight", "bias") if n == "weight" or bias}
    )
    return conv
