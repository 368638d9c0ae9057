"""TransNAS-Bench-101 (Duan et al., CVPR 2021; arXiv:2105.11871): one encoder, several tasks.

    transnas_micro   64-41414-3_33_333   five fixed modules; cells of six edges: 4,096
    transnas_macro   64-41414-basic      residual blocks; four to six modules: 3,256

A string consists of the base channels, the modules and the cell. Each module is a digit: 1 changes
nothing, 2 doubles the channels, 3 halves the resolution, 4 does both. Between one and three modules
double the channels and between one and four halve the resolution. A cell has one digit per edge, in
groups for its nodes 1, 2 and 3: 0 none, 1 skip, 2 conv 1x1, 3 conv 3x3. (NASLib numbers the
operations of these strings differently.)

The option `head` selects the task of the benchmark, as in `transnas_micro(head=jigsaw)`. A network
has the input size and the classes of the task that it is built for, by default those of the
benchmark. The generative decoders (autoencoder, surface normals) are not implemented.
"""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from untrained.drawings.diagrams import CellGraph, Stage, StageList
from untrained.errors import UsageError, make_unknown_name_error
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.core.space import Choose, InvalidArch, NetworkBuilder, register_space, space
from untrained.spaces.transnas.network import (
    EDGES,
    NODES,
    STEM_CHANNELS,
    CellBuilder,
    Encoder,
    JigsawNetwork,
    MicroCell,
    ResidualCell,
    build_classifier,
    build_segmenter,
    doubles_channels,
    halves_resolution,
)
from untrained.types import Arch, Choice, Genes, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")  # in the order of their digits
MICRO_CODE = (4, 1, 4, 1, 4)
TASKS = {
    "scene": Task("scene", (3, 256, 256), 47),
    "object": Task("object", (3, 256, 256), 75),
    "room_layout": Task("room_layout", (3, 256, 256), 9, "mse"),
    "jigsaw": Task("jigsaw", (9, 3, 64, 64), 1000),
    "segmentation": Task("segmentation", (3, 256, 256), 17),
}
_HEADS: dict[str, Callable[[Encoder, Task], nn.Module]] = {
    "scene": build_classifier,
    "object": build_classifier,
    "room_layout": build_classifier,
    "jigsaw": JigsawNetwork,
    "segmentation": build_segmenter,
}
_EDGE_NAMES = tuple(f"{target}<-{source}" for target, source in EDGES)


def find_task(head: str = "scene") -> Task:
    """Return the task for which the benchmark trained this head."""
    if head not in TASKS:
        raise make_unknown_name_error("head of TransNAS-Bench-101", head, TASKS)
    return TASKS[head]


def _build_network(
    code: Sequence[int], build_cell: CellBuilder, task: Task, head: str
) -> nn.Module:
    # Raises an error for an unknown head. `Space.task` does the same, but only if no task is given.
    find_task(head)
    has_image = len(task.input_shape) == 3
    has_tiles = head == "jigsaw" and len(task.input_shape) == 4
    if not has_image and not has_tiles:
        shape = "x".join(map(str, task.input_shape))
        raise UsageError(
            f"the head {head!r} does not accept the shape {shape}; "
            "use channels x height x width, such as 3x256x256"
        )
    encoder = Encoder(code, build_cell, task.input_shape[-3])
    return _HEADS[head](encoder, task)


# --------------------------------------------------------------------------------------- micro

_MICRO_PREFIX = "64-41414-"
# The text after the prefix; "0" stands for any operation.
_MICRO_PATTERN = "0_00_000"


class TransnasMicroNotation:
    """`64-41414-3_33_333`: one digit per edge, an underscore between nodes."""

    def format(self, genes: Genes) -> str:
        ops = dict(genes)
        node_texts = []
        for node in NODES:
            digits = [OPS.index(str(ops[f"{node}<-{source}"])) for source in range(node)]
            node_texts.append("".join(map(str, digits)))
        return _MICRO_PREFIX + "_".join(node_texts)

    def parse(self, text: str) -> Genes:
        for position, expected in enumerate(_MICRO_PREFIX):
            if text[position : position + 1] != expected:
                raise make_parse_error(text, position, repr(expected))
        digits = []
        for position, expected in enumerate(_MICRO_PATTERN, start=len(_MICRO_PREFIX)):
            character = text[position : position + 1]
            if expected == "0":
                if character not in ("0", "1", "2", "3"):
                    raise make_parse_error(text, position, "an operation, 0 to 3")
                digits.append(int(character))
            elif character != expected:
                raise make_parse_error(text, position, repr(expected))
        length = len(_MICRO_PREFIX) + len(_MICRO_PATTERN)
        if len(text) > length:
            raise make_parse_error(text, length, "the end")
        ops = [OPS[digit] for digit in digits]
        return tuple(zip(_EDGE_NAMES, ops, strict=True))


def _draw_micro(arch: Arch) -> CellGraph:
    edges = []
    for name, (target, source) in zip(_EDGE_NAMES, EDGES, strict=True):
        edges.append((source, target, str(arch[name])))
    return CellGraph(("input", "1", "2", "output"), tuple(edges))


@register_space
@space(
    task=find_task,
    notation=TransnasMicroNotation(),
    draw=_draw_micro,
    size=len(OPS) ** len(EDGES),
)
def transnas_micro(choose: Choose, task: Task, head: str = "scene") -> NetworkBuilder:
    """Cells of four nodes in a fixed network; 4,096 architectures with results on seven tasks."""
    ops = [choose(name, OPS) for name in _EDGE_NAMES]
    return partial(_build_network, MICRO_CODE, partial(MicroCell, ops), task, head)


# --------------------------------------------------------------------------------------- macro

_MACRO_PREFIX = "64-"
_MAX_MODULES = 6


class TransnasMacroNotation:
    """`64-41414-basic`: one digit per module."""

    def format(self, genes: Genes) -> str:
        digits = [str(digit) for _, digit in genes[1:]]
        return f"{_MACRO_PREFIX}{''.join(digits)}-basic"

    def parse(self, text: str) -> Genes:
        if not text.startswith(_MACRO_PREFIX):
            raise make_parse_error(text, 0, repr(_MACRO_PREFIX))
        code = text.removeprefix(_MACRO_PREFIX).partition("-")[0]
        for index, digit in enumerate(code):
            position = len(_MACRO_PREFIX) + index
            if index == _MAX_MODULES:
                raise make_parse_error(text, position, "'-basic'")
            if digit not in "1234":
                raise make_parse_error(text, position, "a module, 1 to 4")
        end = len(_MACRO_PREFIX) + len(code)
        if text[end:] != "-basic":
            raise make_parse_error(text, end, "'-basic'")
        genes: list[tuple[str, Choice]] = [("modules", len(code))]
        for index, digit in enumerate(code):
            genes.append((f"module{index}", int(digit)))
        return tuple(genes)


def _draw_macro(arch: Arch) -> StageList:
    channels = STEM_CHANNELS
    stages = [
        Stage("conv 3x3", channels // 2, stride=2),
        Stage("conv 3x3", channels, stride=2),
    ]
    for _, value in arch.genes[1:]:
        digit = int(value)
        if doubles_channels(digit):
            channels *= 2
        stride = 2 if halves_resolution(digit) else 1
        stages.append(Stage("residual", channels, stride=stride, repeats=2))
    return StageList(tuple(stages))


@register_space
@space(task=find_task, notation=TransnasMacroNotation(), draw=_draw_macro, size=3256)
def transnas_macro(choose: Choose, task: Task, head: str = "scene") -> NetworkBuilder:
    """Four to six modules of residual blocks: where to widen, where to shrink; 3,256 networks."""
    module_count = choose("modules", (4, 5, 6))
    code = [choose(f"module{index}", (1, 2, 3, 4)) for index in range(module_count)]
    doublings = sum(doubles_channels(digit) for digit in code)
    if not 1 <= doublings <= 3:
        raise InvalidArch(
            f"{doublings} modules double the channels (2, 4); "
            "an encoder needs between 1 and 3 such modules"
        )
    halvings = sum(halves_resolution(digit) for digit in code)
    if not 1 <= halvings <= 4:
        raise InvalidArch(
            f"{halvings} modules halve the resolution (3, 4); "
            "an encoder needs between 1 and 4 such modules"
        )
    return partial(_build_network, code, ResidualCell, task, head)
