"""Convolutional networks for pictures of any size, made of stages of common blocks.

A network is a stem, two to four stages, pooling and a linear classifier. Each stage chooses its
kind of block (residual as in ResNet, inverted residual as in MobileNetV2 and EfficientNet,
ConvNeXt), its kernel, expansion, depth and width, whether it halves the resolution, and
squeeze-and-excitation.

The stem halves large pictures until their shorter side is at most 48 pixels, so that the same
choices suit pictures of 16 and of 384 pixels. This space is our own; it is not taken from a paper.
"""

from dataclasses import dataclass
from functools import partial
from math import prod

from torch import Tensor, nn

from untrained.drawings.diagrams import Stage, StageList
from untrained.spaces.convnet_designs import format_designs
from untrained.spaces.core.counts import (
    BYTES_PER_NUMBER,
    Counts,
    count_map_memory,
    count_norm_memory,
    count_squeeze_memory,
    halve_shape,
)
from untrained.spaces.core.inverted_residual import (
    ConvNormReLU,
    InvertedResidual,
    InvertedResidualPlan,
    count_conv_norm_relu_memory,
)
from untrained.spaces.core.layers import SqueezeExcitation
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.types import Arch, Choice, Genes, Task

STAGES = (2, 3, 4)
KINDS = ("residual", "inverted", "convnext")
# A residual block with a kernel of 7 would have more weights than all other blocks together.
KERNELS = {"residual": (3, 5), "inverted": (3, 5, 7), "convnext": (3, 5, 7)}
EXPANSIONS = {"inverted": (2, 4, 6), "convnext": (2, 4)}
DEPTHS = (1, 2, 3, 4, 5)
# Widths of the first stage; those of later stages are derived from it. The steps are small, so that
# a network can come close to a limit on its size.
WIDTHS = (8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 56, 64)
# Used only if the limits of a search leave room for them. Without limits they would make it slow.
LARGE_WIDTHS = (72, 80, 88, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384)
# Width of a stage divided by the width of the stage before.
GROWTHS = (1.0, 1.5, 2.0)
STRIDES = (1, 2)
# The stem halves the picture until its shorter side is at most this.
MAX_STEM_SIDE = 48
_WIDTH_STEP = 4
_SE_REDUCTION = 4


@dataclass(frozen=True)
class BlockPlan:
    """Sizes and settings of one block of a stage.

    Attributes:
        kind: One of `KINDS`.
        cin: Channels of the input.
        cout: Channels of the output.
        stride: 2 if the block halves the resolution.
        kernel: Side of the kernel.
        expansion: Widening inside the block; 1 for a residual block.
        squeeze: Whether the block has squeeze-and-excitation.
    """

    kind: str
    cin: int
    cout: int
    stride: int
    kernel: int
    expansion: int
    squeeze: bool

    @property
    def keeps_shape(self) -> bool:
        """Whether the input can be added to the output without a projection."""
        return self.stride == 1 and self.cin == self.cout

    @property
    def inverted_residual_plan(self) -> InvertedResidualPlan:
        """The plan of an inverted residual block."""
        return InvertedResidualPlan(
            self.cin, self.cout, self.stride, self.expansion, self.kernel, self.squeeze
        )

    def count(self, pixels_before: int, pixels_after: int) -> Counts:
        """Return parameters and multiply-adds."""
        if self.kind == "inverted":
            return self.inverted_residual_plan.count(pixels_before, pixels_after)
        if self.kind == "residual":
            return self._count_residual(pixels_after)
        return self._count_convnext(pixels_after)

    def count_memory(self, pixels_before: int, pixels_after: int) -> int:
        """Return the bytes of buffers and results of operations, without the parameters."""
        if self.kind == "inverted":
            return self.inverted_residual_plan.count_memory(pixels_before, pixels_after)
        if self.kind == "residual":
            return self._count_residual_memory(pixels_after)
        return self._count_convnext_memory(pixels_before, pixels_after)

    def _count_squeeze(self) -> Counts:
        if not self.squeeze:
            return Counts(0, 0)
        squeeze_width = _compute_squeeze_width(self.cout)
        weights = 2 * self.cout * squeeze_width
        biases = squeeze_width + self.cout
        return Counts(weights + biases, weights)

    def _count_residual(self, pixels: int) -> Counts:
        weights = (self.cin + self.cout) * self.cout * self.kernel**2
        params = weights + 4 * self.cout
        flops = weights * pixels
        if not self.keeps_shape:
            params += self.cin * self.cout + 2 * self.cout
            flops += self.cin * self.cout * pixels
        squeeze_counts = self._count_squeeze()
        return Counts(params + squeeze_counts.params, flops + squeeze_counts.flops)

    def _count_convnext(self, pixels: int) -> Counts:
        params = 0
        flops = 0
        if not self.keeps_shape:
            weights = self.cin * self.cout * self.stride**2
            params += 2 * self.cin + weights + self.cout
            flops += weights * pixels
        hidden = self.cout * self.expansion
        depthwise = self.cout * self.kernel**2
        pointwise = 2 * self.cout * hidden
        params += depthwise + self.cout + 2 * self.cout + pointwise + hidden + self.cout
        flops += (depthwise + pointwise) * pixels
        squeeze_counts = self._count_squeeze()
        return Counts(params + squeeze_counts.params, flops + squeeze_counts.flops)

    def _count_squeeze_memory(self, pixels: int) -> int:
        if not self.squeeze:
            return 0
        return count_squeeze_memory(self.cout, _compute_squeeze_width(self.cout), pixels)

    def _count_residual_memory(self, pixels: int) -> int:
        result = count_map_memory(self.cout, pixels)
        norm = count_norm_memory(self.cout, pixels)
        # Two convolutions with norms, two ReLUs, the sum.
        memory = 5 * result + 2 * norm + self._count_squeeze_memory(pixels)
        if not self.keeps_shape:
            memory += result + norm
        return memory

    def _count_convnext_memory(self, pixels_before: int, pixels_after: int) -> int:
        # A norm of one group has a mean and a deviation besides its result.
        group_statistics = 2 * BYTES_PER_NUMBER
        memory = 0
        if not self.keeps_shape:
            memory += count_map_memory(self.cin, pixels_before) + group_statistics
            if self.stride == 2:
                # The padded map.
                memory += count_map_memory(self.cin, 4 * pixels_after)
            memory += count_map_memory(self.cout, pixels_after)
        # The depthwise convolution, the norm, the narrowing convolution, the sum.
        memory += 4 * count_map_memory(self.cout, pixels_after) + group_statistics
        # The widening convolution and the GELU.
        memory += 2 * count_map_memory(self.cout * self.expansion, pixels_after)
        return memory + self._count_squeeze_memory(pixels_after)


def plan_blocks(arch: Arch) -> list[list[BlockPlan]]:
    """Return the blocks of every stage, from the stem to the head."""
    stages = []
    cin = int(arch["width"])
    for stage in range(int(arch["stages"])):
        cout = _compute_width(arch, stage)
        kind = str(arch[f"kind{stage}"])
        expansion = 1
        if kind in EXPANSIONS:
            expansion = int(arch[f"expansion{stage}"])
        blocks = []
        for block in range(int(arch[f"depth{stage}"])):
            stride = 1
            if block == 0 and stage > 0:
                stride = int(arch[f"stride{stage}"])
            plan = BlockPlan(
                kind=kind,
                cin=cin,
                cout=cout,
                stride=stride,
                kernel=int(arch[f"kernel{stage}"]),
                expansion=expansion,
                squeeze=bool(arch[f"se{stage}"]),
            )
            blocks.append(plan)
            cin = cout
        stages.append(blocks)
    return stages


def _compute_width(arch: Arch, stage: int) -> int:
    """Return the width of a stage: the first width times all growths, rounded to a multiple of 4.

    The first stage has exactly the first width.
    """
    if stage == 0:
        return int(arch["width"])
    width = float(arch["width"])
    for earlier in range(1, stage + 1):
        width *= float(arch[f"growth{earlier}"])
    return max(_WIDTH_STEP, round(width / _WIDTH_STEP) * _WIDTH_STEP)


def _compute_squeeze_width(channels: int) -> int:
    return max(1, channels // _SE_REDUCTION)


def count_stem_halvings(task: Task) -> int:
    """Return how often the stem halves the pictures of a task."""
    shape = task.input_shape[1:]
    halvings = 0
    while min(shape) > MAX_STEM_SIDE:
        shape = halve_shape(shape)
        halvings += 1
    return halvings


def _list_stem_widths(arch: Arch, task: Task) -> list[int]:
    """Return the output channels of the convolutions in the stem.

    The last one has the width of the first stage, the others half of it.
    """
    width = int(arch["width"])
    return [width // 2] * (count_stem_halvings(task) - 1) + [width]


def _draw_stages(arch: Arch) -> StageList:
    stages = [Stage("conv 3x3", int(arch["width"]))]
    for blocks in plan_blocks(arch):
        first = blocks[0]
        label = f"{first.kind} {first.kernel}x{first.kernel}"
        if first.expansion > 1:
            label += f", x{first.expansion}"
        if first.squeeze:
            label += ", SE"
        stages.append(Stage(label, first.cout, stride=first.stride, repeats=len(blocks)))
    return StageList(tuple(stages))


def _count_network(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sum over the stem, all blocks and the classifier."""
    shape = task.input_shape[1:]
    halvings = count_stem_halvings(task)
    params = 0
    flops = 0
    # The network gets a copy of the input.
    memory = count_map_memory(task.input_shape[0], prod(shape))
    cin = task.input_shape[0]
    for cout in _list_stem_widths(arch, task):
        if halvings > 0:
            shape = halve_shape(shape)
        weights = cin * cout * 9
        params += weights + 2 * cout
        flops += weights * prod(shape)
        memory += count_conv_norm_relu_memory(cout, prod(shape))
        cin = cout
    for blocks in plan_blocks(arch):
        for plan in blocks:
            pixels_before = prod(shape)
            if plan.stride == 2:
                shape = halve_shape(shape)
            counts = plan.count(pixels_before, prod(shape))
            params += counts.params
            flops += counts.flops
            memory += plan.count_memory(pixels_before, prod(shape))
            cin = plan.cout
    params += (cin + 1) * task.num_classes
    flops += cin * task.num_classes
    # The means over positions, and the logits.
    memory += BYTES_PER_NUMBER * (cin + task.num_classes)
    return Counts(params, flops, memory + BYTES_PER_NUMBER * params)


def _compute_size() -> int:
    """Return the number of architectures."""
    block_count = 0
    for kind in KINDS:
        block_count += len(KERNELS[kind]) * len(EXPANSIONS.get(kind, (1,)))
    # The factor 2 is for squeeze-and-excitation.
    first_stage_count = block_count * len(DEPTHS) * 2
    later_stage_count = first_stage_count * len(STRIDES) * len(GROWTHS)
    count = 0
    for stages in STAGES:
        # The exponent is at least 1, so the power is an integer.
        count += first_stage_count * int(later_stage_count ** (stages - 1))
    return len(WIDTHS) * count


def _list_designs(task: Task) -> dict[str, str]:
    """Return the known designs for pictures of the size of a task."""
    shape = task.input_shape[1:]
    for _ in range(count_stem_halvings(task)):
        shape = halve_shape(shape)
    return format_designs(min(shape))


@register_space
@space(
    task=Task("cifar10", (3, 32, 32), 10),
    draw=_draw_stages,
    size=_compute_size(),
    counts=_count_network,
    scale="width",
    known_designs=_list_designs,
)
def convnet(choose: Choose, task: Task) -> NetworkBuilder:
    """Stages of residual, inverted residual or ConvNeXt blocks for pictures of 16 to 384 pixels."""
    genes: list[tuple[str, Choice]] = []

    def choose_gene(
        name: str, options: tuple[Choice, ...], not_sampled: tuple[Choice, ...] = ()
    ) -> Choice:
        value: Choice = choose(name, options, not_sampled)
        genes.append((name, value))
        return value

    choose_gene("width", WIDTHS, LARGE_WIDTHS)
    stages = int(choose_gene("stages", STAGES))
    for stage in range(stages):
        if stage > 0:
            choose_gene(f"stride{stage}", STRIDES)
            choose_gene(f"growth{stage}", GROWTHS)
        kind = str(choose_gene(f"kind{stage}", KINDS))
        choose_gene(f"kernel{stage}", KERNELS[kind])
        if kind in EXPANSIONS:
            choose_gene(f"expansion{stage}", EXPANSIONS[kind])
        choose_gene(f"depth{stage}", DEPTHS)
        choose_gene(f"se{stage}", (False, True))
    all_genes: Genes = tuple(genes)
    return partial(ConvNet, Arch("convnet", all_genes), task)


class ConvNet(nn.Module):
    """Stem, stages, pooling, classifier."""

    def __init__(self, arch: Arch, task: Task) -> None:
        super().__init__()
        stride = 1
        if count_stem_halvings(task) > 0:
            stride = 2
        stem = []
        cin = task.input_shape[0]
        for cout in _list_stem_widths(arch, task):
            stem.append(ConvNormReLU(cin, cout, kernel=3, stride=stride))
            cin = cout
        self.stem = nn.Sequential(*stem)
        blocks: list[nn.Module] = []
        for plans in plan_blocks(arch):
            for plan in plans:
                blocks.append(build_block(plan))
                cin = plan.cout
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(cin, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.blocks(x)
        x = self.pool(x).flatten(1)
        logits: Tensor = self.classifier(x)
        return logits


def build_block(plan: BlockPlan) -> nn.Module:
    """Build one block."""
    if plan.kind == "inverted":
        return InvertedResidual(plan.inverted_residual_plan)
    if plan.kind == "residual":
        return ConvNetResidualBlock(plan)
    return ConvNeXtBlock(plan)


class ConvNetResidualBlock(nn.Module):
    """relu(skip(x) + two convolutions with batch norms); the skip is a projection if needed."""

    def __init__(self, plan: BlockPlan) -> None:
        super().__init__()
        padding = plan.kernel // 2
        conv1 = nn.Conv2d(plan.cin, plan.cout, plan.kernel, plan.stride, padding, bias=False)
        conv2 = nn.Conv2d(plan.cout, plan.cout, plan.kernel, 1, padding, bias=False)
        steps: list[nn.Module] = [
            conv1,
            nn.BatchNorm2d(plan.cout),
            nn.ReLU(),
            conv2,
            nn.BatchNorm2d(plan.cout),
        ]
        if plan.squeeze:
            steps.append(SqueezeExcitation(plan.cout, _compute_squeeze_width(plan.cout)))
        self.steps = nn.Sequential(*steps)
        self.skip: nn.Module = nn.Identity()
        if not plan.keeps_shape:
            projection = nn.Conv2d(plan.cin, plan.cout, 1, plan.stride, bias=False)
            self.skip = nn.Sequential(projection, nn.BatchNorm2d(plan.cout))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.skip(x) + self.steps(x))
        return out


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm, 1x1 widening, GELU, 1x1 narrowing, added to the input.

    Liu et al., CVPR 2022 (arXiv:2201.03545). A block that changes the shape begins like the
    downsampling layers of the paper: with a norm and a convolution whose kernel equals its stride.
    There are two differences. Norms are over all channels and positions of a sample (one group),
    not over the channels of each position. There is no layer scale, which the paper initialises at
    1e-6: with it, blocks would have no effect at initialisation, where networks are scored.
    """

    def __init__(self, plan: BlockPlan) -> None:
        super().__init__()
        self.resize: nn.Module = nn.Identity()
        if not plan.keeps_shape:
            # Odd sides are padded as in the other blocks, so that all kinds return the same shape.
            conv = nn.Conv2d(plan.cin, plan.cout, plan.stride, plan.stride)
            steps: list[nn.Module] = [nn.GroupNorm(1, plan.cin), conv]
            if plan.stride == 2:
                steps.insert(1, PadToEven())
            self.resize = nn.Sequential(*steps)
        width = plan.cout
        hidden = width * plan.expansion
        block: list[nn.Module] = [
            nn.Conv2d(width, width, plan.kernel, padding=plan.kernel // 2, groups=width),
            nn.GroupNorm(1, width),
            nn.Conv2d(width, hidden, 1),
            nn.GELU(),
            nn.Conv2d(hidden, width, 1),
        ]
        if plan.squeeze:
            block.append(SqueezeExcitation(width, _compute_squeeze_width(width)))
        self.steps = nn.Sequential(*block)

    def forward(self, x: Tensor) -> Tensor:
        x = self.resize(x)
        out: Tensor = x + self.steps(x)
        return out


class PadToEven(nn.Module):
    """Add a row or a column of zeros where the height or the width is odd."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        return nn.functional.pad(x, (0, width % 2, 0, height % 2))
