"""Small vision transformers for pictures of 16 to 64 pixels.

A network turns a picture into a grid of tokens, adds positions, and applies equal layers of
attention and MLP. The choices are the stem, the number of tokens, their width, the depth, the
number of heads, the width of the MLPs, the kind of positions, and the input of the classifier (the
mean of the tokens or a class token). This space is our own; it is not taken from a paper.

Legend: N tokens, E width of the tokens, f inner width of the MLP.
"""

from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.drawings.diagrams import Stage, StageList
from untrained.spaces.core.counts import Counts, halve_shape
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.types import Arch, Task

STEMS = ("patch", "conv")
# Largest number of tokens along the shorter side of a picture.
GRIDS = (4, 8)
WIDTHS = (32, 40, 48, 56, 64, 80, 96, 112, 128)
DEPTHS = (2, 3, 4, 5, 6, 8)
HEADS = (1, 2, 4)
# Inner width of the MLP divided by the width of the tokens.
RATIOS = (1, 2, 4)
POSITIONS = ("none", "learned", "conv")
POOLS = ("mean", "class")
# Narrowest convolution of a stem.
_MIN_STEM_WIDTH = 8


@dataclass(frozen=True)
class TransformerPlan:
    """Sizes of a network for a task.

    Attributes:
        stem_widths: Output channels of the convolutions of the stem.
        stem_kernel: Side of their kernels.
        stem_stride: Stride of each of them.
        rows: Rows of tokens.
        columns: Columns of tokens.
        width: Width of a token.
        depth: Number of layers.
        heads: Heads of each attention.
        inner_width: Inner width of each MLP.
        position: One of `POSITIONS`.
        has_class_token: Whether the classifier reads a class token instead of the mean of all.
    """

    stem_widths: tuple[int, ...]
    stem_kernel: int
    stem_stride: int
    rows: int
    columns: int
    width: int
    depth: int
    heads: int
    inner_width: int
    position: str
    has_class_token: bool

    @classmethod
    def make(cls, arch: Arch, task: Task) -> "TransformerPlan":
        """Return the sizes of an architecture for the pictures of a task."""
        width = int(arch["width"])
        shape = task.input_shape[1:]
        halvings = count_halvings(shape, int(arch["grid"]))
        if arch["stem"] == "patch":
            stem_widths = [width]
            kernel = 2**halvings
            stride = kernel
            rows = shape[0] // stride
            columns = shape[1] // stride
        else:
            # The stem has at least one convolution, even if the picture is not halved.
            stem_widths = []
            # The last convolution has the full width, the one before it half of that, and so on.
            for later_convs in reversed(range(max(1, halvings))):
                stem_widths.append(max(_MIN_STEM_WIDTH, width // 2**later_convs))
            kernel = 3
            stride = 1
            if halvings > 0:
                stride = 2
            for _ in range(halvings):
                shape = halve_shape(shape)
            rows, columns = shape
        return cls(
            stem_widths=tuple(stem_widths),
            stem_kernel=kernel,
            stem_stride=stride,
            rows=rows,
            columns=columns,
            width=width,
            depth=int(arch["depth"]),
            heads=int(arch["heads"]),
            inner_width=width * int(arch["ratio"]),
            position=str(arch["position"]),
            has_class_token=arch["pool"] == "class",
        )


def count_halvings(shape: tuple[int, ...], grid: int) -> int:
    """Return how often a picture is halved until its shorter side has at most `grid` tokens."""
    halvings = 0
    while min(shape) > grid:
        shape = halve_shape(shape)
        halvings += 1
    return halvings


def _draw_layers(arch: Arch) -> StageList:
    grid = arch["grid"]
    width = int(arch["width"])
    stem = Stage(f"{arch['stem']} stem, {grid}x{grid} tokens", width)
    label = f"attention, {arch['heads']} heads, MLP x{arch['ratio']}"
    return StageList((stem, Stage(label, width, repeats=int(arch["depth"]))))


def _count_network(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sum over the stem, the positions, all layers and the classifier."""
    plan = TransformerPlan.make(arch, task)
    E = plan.width
    f = plan.inner_width
    N = plan.rows * plan.columns
    params = 0
    flops = 0
    cin = task.input_shape[0]
    shape = task.input_shape[1:]
    for cout in plan.stem_widths:
        weights = cin * cout * plan.stem_kernel**2
        if arch["stem"] == "patch":
            params += weights + cout
            flops += weights * N
        else:
            # No bias, but a batch norm.
            params += weights + 2 * cout
            if plan.stem_stride == 2:
                shape = halve_shape(shape)
            flops += weights * prod(shape)
        cin = cout
    if plan.position == "learned":
        params += N * E
    elif plan.position == "conv":
        # A depthwise 3x3 convolution with bias.
        params += 10 * E
        flops += 9 * E * N
    if plan.has_class_token:
        params += E
        N += 1
    norm_params = 2 * E
    attention_params = (E + 1) * 3 * E + (E + 1) * E
    mlp_params = (E + 1) * f + (f + 1) * E
    params += plan.depth * (2 * norm_params + attention_params + mlp_params)
    # Four linear layers (queries, keys, values and output), then queries times keys and attention
    # weights times values.
    attention_flops = 4 * E * E * N + 2 * N * N * E
    mlp_flops = 2 * E * f * N
    flops += plan.depth * (attention_flops + mlp_flops)
    params += norm_params + (E + 1) * task.num_classes
    flops += E * task.num_classes
    return Counts(params, flops)


def _compute_size() -> int:
    """Return the number of architectures."""
    count = 1
    for options in (STEMS, GRIDS, WIDTHS, DEPTHS, HEADS, RATIOS, POSITIONS, POOLS):
        count *= len(options)
    return count


@register_space
@space(
    task=Task("cifar10", (3, 32, 32), 10),
    draw=_draw_layers,
    size=_compute_size(),
    counts=_count_network,
    scale="width",
)
def vit(choose: Choose, task: Task) -> NetworkBuilder:
    """Small vision transformers for pictures of 16 to 64 pixels: 16 or 64 tokens, 2 to 8 layers."""
    genes = (
        ("stem", choose("stem", STEMS)),
        ("grid", choose("grid", GRIDS)),
        ("width", choose("width", WIDTHS)),
        ("depth", choose("depth", DEPTHS)),
        ("heads", choose("heads", HEADS)),
        ("ratio", choose("ratio", RATIOS)),
        ("position", choose("position", POSITIONS)),
        ("pool", choose("pool", POOLS)),
    )
    return partial(SmallTransformer, Arch("vit", genes), task)


class SmallTransformer(nn.Module):
    """Stem, positions, pre-norm layers, norm, classifier."""

    def __init__(self, arch: Arch, task: Task) -> None:
        super().__init__()
        plan = TransformerPlan.make(arch, task)
        channels = task.input_shape[0]
        width = plan.width
        if arch["stem"] == "patch":
            self.stem: nn.Module = nn.Conv2d(channels, width, plan.stem_kernel, plan.stem_stride)
        else:
            self.stem = build_conv_stem(channels, plan)
        self.position: nn.Module = nn.Identity()
        if plan.position == "learned":
            self.position = LearnedPositions(width, plan.rows, plan.columns)
        elif plan.position == "conv":
            self.position = ConvPositions(width)
        self.class_token: nn.Parameter | None = None
        if plan.has_class_token:
            self.class_token = nn.Parameter(torch.empty(1, 1, width))
            nn.init.normal_(self.class_token, std=0.02)
        layers = []
        for _ in range(plan.depth):
            layers.append(TransformerLayer(width, plan.heads, plan.inner_width))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.position(self.stem(x))
        tokens = maps.flatten(2).transpose(1, 2)
        if self.class_token is not None:
            class_tokens = self.class_token.expand(len(x), -1, -1)
            tokens = torch.cat([class_tokens, tokens], 1)
        tokens = self.norm(self.layers(tokens))
        if self.class_token is not None:
            features = tokens[:, 0]
        else:
            features = tokens.mean(1)
        logits: Tensor = self.classifier(features)
        return logits


def build_conv_stem(channels: int, plan: TransformerPlan) -> nn.Sequential:
    """Build convolutions with batch norms; the last of them has no ReLU."""
    steps: list[nn.Module] = []
    cin = channels
    for cout in plan.stem_widths:
        if steps:
            steps.append(nn.ReLU())
        conv = nn.Conv2d(cin, cout, plan.stem_kernel, plan.stem_stride, padding=1, bias=False)
        steps += [conv, nn.BatchNorm2d(cout)]
        cin = cout
    return nn.Sequential(*steps)


class LearnedPositions(nn.Module):
    """Add one parameter per channel and position."""

    def __init__(self, width: int, rows: int, columns: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(1, width, rows, columns))
        nn.init.normal_(self.embedding, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.embedding


class ConvPositions(nn.Module):
    """Add a depthwise convolution of the tokens (Chu et al., arXiv:2102.10882).

    Near the border, the zero padding changes the result, and so encodes the position.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.conv(x)
        return out


class TransformerLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int, inner_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, inner_width), nn.GELU(), nn.Linear(inner_width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(self.attention_norm(x))
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out

    def _attend(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value)
        joined_heads = attended.transpose(1, 2).reshape(batch, tokens, width)
        projected: Tensor = self.projection(joined_heads)
        return projected
