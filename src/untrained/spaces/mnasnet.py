"""The MnasNet-like space of Accel-NASBench (Ahmad et al., 2023), with known ImageNet accuracies.

Stem, seven blocks of inverted residual layers, a 1x1 convolution to 1,280 channels, pooling and a
linear classifier. Each block chooses its expansion `e`, kernel `k`, number of layers `l` and
whether its layers have squeeze-and-excitation `se`; widths and strides are fixed. An architecture
is written with the keys of the published table:
`block0_e=1,block0_k=5,block0_l=2,block0_se=False,...`.

Three details of the networks were derived from the published parameter counts: an expansion of 1
has no 1x1 expansion convolution, every convolution is followed by a batch norm, and
squeeze-and-excitation reduces to a quarter of the input channels of the layer. With these details,
our parameter counts equal the published ones in all 5,138 rows of the table, which has 5,125
networks: 13 rows are second trainings. The published multiply-adds also contain batch norms (4 per
element) and pooling (1 per element and 1 per result), which ours leave out.
"""

from functools import partial
from math import prod

from torch import Tensor, nn

from untrained.drawings.diagrams import Stage, StageList
from untrained.spaces.core.counts import Counts, halve_shape
from untrained.spaces.core.inverted_residual import (
    ConvNormReLU,
    InvertedResidual,
    InvertedResidualPlan,
)
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.types import Arch, Task

STEM_WIDTH = 32
HEAD_WIDTH = 1280
WIDTHS = (16, 24, 40, 80, 112, 192, 320)
STRIDES = (1, 2, 2, 2, 1, 2, 1)
EXPANSIONS = (1, 4, 6)
KERNELS = (3, 5)
# Numbers of layers of each block. Only the sixth may have four.
LAYER_COUNTS = ((1, 2, 3),) * 5 + ((1, 2, 3, 4), (1, 2, 3))


def plan_layers(arch: Arch) -> list[InvertedResidualPlan]:
    """Return the layers of an architecture from the stem to the head."""
    plans = []
    cin = STEM_WIDTH
    for block, (cout, first_stride) in enumerate(zip(WIDTHS, STRIDES, strict=True)):
        for layer in range(int(arch[f"block{block}_l"])):
            plan = InvertedResidualPlan(
                cin=cin,
                cout=cout,
                stride=first_stride if layer == 0 else 1,
                expansion=int(arch[f"block{block}_e"]),
                kernel=int(arch[f"block{block}_k"]),
                squeeze=bool(arch[f"block{block}_se"]),
            )
            plans.append(plan)
            cin = cout
    return plans


def _draw_blocks(arch: Arch) -> StageList:
    stages = [Stage("conv 3x3", STEM_WIDTH, stride=2)]
    for block, (width, stride) in enumerate(zip(WIDTHS, STRIDES, strict=True)):
        expansion = arch[f"block{block}_e"]
        kernel = arch[f"block{block}_k"]
        label = f"inverted {kernel}x{kernel}, x{expansion}"
        if arch[f"block{block}_se"]:
            label += ", SE"
        layers = int(arch[f"block{block}_l"])
        stages.append(Stage(label, width, stride=stride, repeats=layers))
    stages.append(Stage("conv 1x1", HEAD_WIDTH))
    return StageList(tuple(stages))


def _count_network(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sum over the stem, all layers and the head."""
    # The stem and four blocks halve the resolution, rounding up.
    shape = halve_shape(task.input_shape[1:])
    pixels = prod(shape)
    weights = task.input_shape[0] * STEM_WIDTH * 9
    params = weights + 2 * STEM_WIDTH
    flops = weights * pixels
    for plan in plan_layers(arch):
        pixels_before = pixels
        if plan.stride == 2:
            shape = halve_shape(shape)
            pixels = prod(shape)
        counts = plan.count(pixels_before, pixels)
        params += counts.params
        flops += counts.flops
    if pixels < 2:
        # The network cannot run, because a batch norm would get maps of a single pixel.
        return None
    params += WIDTHS[-1] * HEAD_WIDTH + 2 * HEAD_WIDTH
    flops += WIDTHS[-1] * HEAD_WIDTH * pixels
    params += (HEAD_WIDTH + 1) * task.num_classes
    flops += HEAD_WIDTH * task.num_classes
    return Counts(params, flops)


def _compute_size() -> int:
    """Return the number of architectures: all combinations of the choices of seven blocks."""
    # The factor 2 is for squeeze-and-excitation.
    block_sizes = [len(EXPANSIONS) * len(KERNELS) * len(counts) * 2 for counts in LAYER_COUNTS]
    return prod(block_sizes)


@register_space
@space(
    task=Task("imagenet", (3, 224, 224), 1000),
    draw=_draw_blocks,
    size=_compute_size(),
    counts=_count_network,
)
def mnasnet(choose: Choose, task: Task) -> NetworkBuilder:
    """Seven blocks of inverted residual layers; 5,125 networks with known ImageNet accuracy."""
    genes = []
    for block, layer_counts in enumerate(LAYER_COUNTS):
        for key, options in (
            ("e", EXPANSIONS),
            ("k", KERNELS),
            ("l", layer_counts),
            ("se", (False, True)),
        ):
            name = f"block{block}_{key}"
            genes.append((name, choose(name, options)))
    return partial(MnasNet, Arch("mnasnet", tuple(genes)), task)


class MnasNet(nn.Module):
    """Stem, inverted residual layers, 1x1 convolution, pooling, classifier."""

    def __init__(self, arch: Arch, task: Task) -> None:
        super().__init__()
        channels = task.input_shape[0]
        self.stem = ConvNormReLU(channels, STEM_WIDTH, kernel=3, stride=2)
        self.layers = nn.Sequential(*(InvertedResidual(plan) for plan in plan_layers(arch)))
        self.head = ConvNormReLU(WIDTHS[-1], HEAD_WIDTH, kernel=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(HEAD_WIDTH, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.layers(x)
        x = self.head(x)
        x = self.pool(x).flatten(1)
        logits: Tensor = self.classifier(x)
        return logits
