"""Known designs as architectures of the space `convnet`: networks that an engineer would try first.

Kinds of blocks, kernels, expansions and the proportions of widths and depths are those of the
papers. The designs are for pictures of 16 to 48 pixels after the stem. Like all networks of
`convnet`, and unlike the papers, they have ReLU in inverted blocks, no layer scale, and a linear
classifier without a hidden layer.

| design | paper |
|---|---|
| ResNet-12, ResNet-14, ResNet-20 | He et al., CVPR 2016 (arXiv:1512.03385), section 4.2 |
| ResNet-18 | the same paper, table 1 |
| MobileNetV2 | Sandler et al., CVPR 2018 (arXiv:1801.04381), table 2 |
| MobileNetV3-like | Howard et al., ICCV 2019 (arXiv:1905.02244), table 1 |
| EfficientNet-like | Tan and Le, ICML 2019 (arXiv:1905.11946), table 1 |
| ConvNeXt-like | Liu et al., CVPR 2022 (arXiv:2201.03545) |
"""

from dataclasses import dataclass

from untrained.spaces.core.notation import PairNotation
from untrained.types import Choice

# Pictures are not halved below this side.
_MIN_SIDE = 4


@dataclass(frozen=True)
class DesignStage:
    """One stage of a design.

    Attributes:
        kind: Kind of block.
        depth: Number of blocks.
        growth: Width divided by that of the stage before; not used for the first stage.
        kernel: Side of the kernel.
        expansion: Widening inside the block; not used for residual blocks.
        squeeze: Whether blocks have squeeze-and-excitation.
    """

    kind: str
    depth: int
    growth: float = 2.0
    kernel: int = 3
    expansion: int = 6
    squeeze: bool = False


@dataclass(frozen=True)
class Design:
    """A known design.

    Attributes:
        name: Name in reports.
        width: Width of the first stage; a search with limits on the size changes it.
        stages: The stages.
        min_side: The design is for pictures whose side after the stem is at least this.
    """

    name: str
    width: int
    stages: tuple[DesignStage, ...]
    min_side: int = 1

    def format_arch(self, side: int) -> str:
        """Return the notation of the architecture for pictures whose side after the stem is `side`.

        Stages after the first halve the picture, as long as it stays large enough.
        """
        genes: list[tuple[str, Choice]] = [("width", self.width), ("stages", len(self.stages))]
        for index, stage in enumerate(self.stages):
            if index > 0:
                halved_side = (side + 1) // 2
                stride = 1
                if halved_side >= _MIN_SIDE:
                    stride = 2
                    side = halved_side
                genes.append((f"stride{index}", stride))
                genes.append((f"growth{index}", stage.growth))
            genes.append((f"kind{index}", stage.kind))
            genes.append((f"kernel{index}", stage.kernel))
            if stage.kind != "residual":
                genes.append((f"expansion{index}", stage.expansion))
            genes.append((f"depth{index}", stage.depth))
            genes.append((f"se{index}", stage.squeeze))
        return PairNotation().format(tuple(genes))


def _make_resnet(name: str, width: int, depths: tuple[int, ...], min_side: int = 1) -> Design:
    stages = tuple(DesignStage("residual", depth) for depth in depths)
    return Design(name, width, stages, min_side)


# A search may train only the first few, so the designs that differ most come first.
DESIGNS = (
    _make_resnet("ResNet-12", 32, (1, 2, 2)),
    Design(
        "MobileNetV2",
        24,
        (
            DesignStage("inverted", 2),
            DesignStage("inverted", 3, growth=1.5),
            DesignStage("inverted", 4),
            DesignStage("inverted", 3, growth=1.5),
        ),
    ),
    Design(
        "EfficientNet-like",
        24,
        (
            DesignStage("inverted", 2, squeeze=True),
            DesignStage("inverted", 2, growth=1.5, kernel=5, squeeze=True),
            DesignStage("inverted", 3, squeeze=True),
            DesignStage("inverted", 3, growth=1.5, kernel=5, squeeze=True),
        ),
    ),
    Design(
        "ConvNeXt-like",
        40,
        (
            DesignStage("convnext", 2, kernel=7, expansion=4),
            DesignStage("convnext", 4, kernel=7, expansion=4),
            DesignStage("convnext", 2, kernel=7, expansion=4),
        ),
    ),
    _make_resnet("ResNet-20", 16, (3, 3, 3)),
    Design(
        "MobileNetV3-like",
        24,
        (
            DesignStage("inverted", 2, expansion=4),
            DesignStage("inverted", 3, growth=1.5, kernel=5, expansion=4, squeeze=True),
            DesignStage("inverted", 4, expansion=2),
            DesignStage("inverted", 3, growth=1.5, kernel=5, squeeze=True),
        ),
    ),
    _make_resnet("ResNet-14", 32, (2, 2, 2)),
    _make_resnet("ResNet-18", 64, (2, 2, 2, 2), min_side=32),
)


# Networks that users name are built for pictures of this side, that of CIFAR.
_NAMED_SIDE = 32


def _list_named_networks() -> dict[str, str]:
    networks = {}
    for design in DESIGNS:
        name = design.name.lower().removesuffix("-like").replace("-", "")
        networks[name] = design.format_arch(_NAMED_SIDE)
    return networks


# Architectures of `convnet` that users may name, such as "resnet18", at their usual widths.
NAMED_NETWORKS = _list_named_networks()


def format_designs(side: int) -> dict[str, str]:
    """Return architectures by name, for pictures whose side after the stem is `side`."""
    designs = {}
    for design in DESIGNS:
        if side >= design.min_side:
            designs[design.name] = design.format_arch(side)
    return designs
