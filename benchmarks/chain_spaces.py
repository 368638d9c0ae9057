"""Two spaces of networks that are chains of blocks, written as a user would write them.

    untrained bench --space benchmarks/chain_spaces.py:mobile_chain --table results.csv

`mobile_chain` is a small form of the space of Su et al. (CVPR 2021, arXiv:2103.11922): eight layers
in three stages, and each layer is left out or is an inverted residual of two sizes. `residual_chain`
is a small form of the macro space of TransNAS-Bench-101 (Duan et al., CVPR 2021, arXiv:2105.11871):
four to six residual blocks, each of which may double the channels, halve the resolution, or both.
In both, size depends on where blocks are, so that parameters and multiply-adds disagree.
"""

from torch import Tensor, nn

import untrained as ut
from untrained.spaces import InvalidArch
from untrained.spaces.core.inverted_residual import (
    ConvNormReLU,
    InvertedResidual,
    InvertedResidualPlan,
)
from untrained.spaces.core.space import Choose

INPUT = ut.Task("cifar10", (3, 16, 16), 10)
MOBILE_STEM_WIDTH = 12
MOBILE_WIDTHS = (16, 32, 64)
MOBILE_STRIDES = (1, 2, 2)
MOBILE_LAYERS = (2, 3, 3)
MOBILE_HEAD_WIDTH = 128
# Expansion and kernel of each kind of layer.
MOBILE_KINDS = {"mb3_k3": (3, 3), "mb6_k5": (6, 5)}
RESIDUAL_STEM_WIDTH = 8


def build_classifier(channels: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


@ut.space(task=INPUT, size=3**8)
def mobile_chain(choose: Choose, task: ut.Task) -> nn.Module:
    """Eight layers in three stages, each left out or an inverted residual of two sizes."""
    layers: list[nn.Module] = [ConvNormReLU(task.input_shape[0], MOBILE_STEM_WIDTH, kernel=3)]
    cin = MOBILE_STEM_WIDTH
    for stage, width in enumerate(MOBILE_WIDTHS):
        for layer in range(MOBILE_LAYERS[stage]):
            stride = MOBILE_STRIDES[stage] if layer == 0 else 1
            kind = choose(f"layer{stage}{layer}", ("skip", *MOBILE_KINDS))
            if kind != "skip":
                expansion, kernel = MOBILE_KINDS[kind]
                plan = InvertedResidualPlan(cin, width, stride, expansion, kernel, squeeze=False)
                layers.append(InvertedResidual(plan))
            elif cin != width or stride != 1:
                # A layer that is left out still changes width and resolution.
                layers.append(nn.Conv2d(cin, width, 1, stride, bias=False))
                layers.append(nn.BatchNorm2d(width))
            cin = width
    layers.append(ConvNormReLU(cin, MOBILE_HEAD_WIDTH, kernel=1))
    return nn.Sequential(*layers, build_classifier(MOBILE_HEAD_WIDTH, task.num_classes))


@ut.space(task=INPUT, size=3256)
def residual_chain(choose: Choose, task: ut.Task) -> nn.Module:
    """Four to six residual blocks: which ones double the channels or halve the resolution."""
    kinds = []
    for block in range(choose("blocks", (4, 5, 6))):
        kinds.append(choose(f"block{block}", ("same", "wider", "smaller", "both")))
    doublings = sum(kind in ("wider", "both") for kind in kinds)
    halvings = sum(kind in ("smaller", "both") for kind in kinds)
    if not 1 <= doublings <= 3 or not 1 <= halvings <= 4:
        raise InvalidArch("one to three blocks double the channels, one to four the resolution")
    layers: list[nn.Module] = [ConvNormReLU(task.input_shape[0], RESIDUAL_STEM_WIDTH, kernel=3)]
    cin = RESIDUAL_STEM_WIDTH
    for kind in kinds:
        cout = 2 * cin if kind in ("wider", "both") else cin
        stride = 2 if kind in ("smaller", "both") else 1
        layers.append(ResidualBlock(cin, cout, stride))
        layers.append(ResidualBlock(cout, cout, 1))
        cin = cout
    return nn.Sequential(*layers, build_classifier(cin, task.num_classes))


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + two 3x3 convolutions with batch norms)."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            ConvNormReLU(cin, cout, kernel=3, stride=stride),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.shortcut: nn.Module = nn.Identity()
        if cin != cout or stride != 1:
            conv = nn.Conv2d(cin, cout, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(cout))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.shortcut(x) + self.steps(x))
        return out
