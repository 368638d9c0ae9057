"""TransNAS-Bench-101 (Duan et al., CVPR 2021; arXiv:2105.11871): one encoder, several tasks on the same images.

    transnas_micro   64-41414-3_33_333   five fixed modules; the cell has six edges of four operations: 4,096
    transnas_macro   64-41414-basic      the cell is a residual block; four to six modules of four kinds: 3,256

A string is base channels, modules, cell. A module is a digit: 1 plain, 2 doubles the channels, 3 halves the
resolution, 4 does both; between them one to three double and one to four halve. A cell lists the edges into its nodes
1, 2, 3: 0 none, 1 skip, 2 conv 1x1, 3 conv 3x3. (NASLib writes its own numbering into these strings: not ours.)

The option `head` names the benchmark's task, `transnas_micro(head=jigsaw)`; sizes and classes are those of the task
one builds for, by default the benchmark's. Its generative decoders (autoencoder, surface normals) are not here.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import nn

from untrained.errors import UsageError, unknown
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Cell, Stage, Stages
from untrained.spaces._space import SPACES, Invalid, space
from untrained.spaces._transnas import EDGES, Encoder, Jigsaw, MicroCell, ResidualCell, classifier, segmenter
from untrained.types import Arch, Genes, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")  # by their digit in the string
MICRO_CODE = (4, 1, 4, 1, 4)
TASKS = {
    "scene": Task("scene", (3, 256, 256), 47),
    "object": Task("object", (3, 256, 256), 75),
    "room_layout": Task("room_layout", (3, 256, 256), 9, "mse"),
    "jigsaw": Task("jigsaw", (9, 3, 64, 64), 1000),
    "segmentation": Task("segmentation", (3, 256, 256), 17),
}
_HEADS: dict[str, Any] = dict.fromkeys(TASKS, classifier) | {"jigsaw": Jigsaw, "segmentation": segmenter}
_NAMES = tuple(f"{to}<-{source}" for to, source in EDGES)
_PREFIX = "64-41414-"


def benchmarked(head: str = "scene") -> Task:
    """The task that the benchmark trained this head for."""
    if head not in TASKS:
        raise unknown("head of TransNAS-Bench-101", head, TASKS)
    return TASKS[head]


# -------------------------------------------------------------------------------------------------------- micro


class _MicroNotation:
    """`64-41414-3_33_333`: a digit for each edge, an underscore between nodes."""

    def format(self, genes: Genes) -> str:
        ops = dict(genes)
        nodes = ("".join(str(OPS.index(str(ops[f"{to}<-{j}"]))) for j in range(to)) for to in (1, 2, 3))
        return _PREFIX + "_".join(nodes)

    def parse(self, text: str) -> Genes:
        pattern = [*_PREFIX, "0", "_", "0", "0", "_", "0", "0", "0"]  # "0" stands for any operation
        digits = []
        for at, wanted in enumerate(pattern):
            is_op = at >= len(_PREFIX) and wanted == "0"
            if text[at : at + 1] not in (("0", "1", "2", "3") if is_op else (wanted,)):
                raise malformed(text, at, "an operation, 0 to 3" if is_op else repr(wanted))
            if is_op:
                digits.append(int(text[at]))
        if len(text) > len(pattern):
            raise malformed(text, len(pattern), "the end")
        return tuple((name, OPS[digit]) for name, digit in zip(_NAMES, digits, strict=True))


def _micro_sketch(arch: Arch) -> Cell:
    edges = tuple((source, to, str(arch[name])) for name, (to, source) in zip(_NAMES, EDGES, strict=True))
    return Cell(("input", "1", "2", "output"), edges)


@space(task=benchmarked, notation=_MicroNotation(), sketch=_micro_sketch, size=len(OPS) ** len(EDGES))
def transnas_micro(choose: Any, task: Task, head: str = "scene") -> Any:
    """Cells of four nodes and six edges in a fixed network; 4,096 architectures with known results on seven tasks."""
    cell = partial(MicroCell, [choose(name, OPS) for name in _NAMES])
    return partial(_network, MICRO_CODE, cell, task, head)


def _network(code: Sequence[int], cell: Any, task: Task, head: str) -> nn.Module:
    benchmarked(head)  # complains of an unknown one
    if len(task.input_shape) != 3 and not (head == "jigsaw" and len(task.input_shape) == 4):
        shape = "x".join(map(str, task.input_shape))
        raise UsageError(f"the head {head!r} cannot look at {shape}; give channels x height x width, such as 3x256x256")
    network: nn.Module = _HEADS[head](Encoder(code, cell, task.input_shape[-3]), task)
    return network


# -------------------------------------------------------------------------------------------------------- macro


class _MacroNotation:
    """`64-41414-basic`: a digit for each module."""

    def format(self, genes: Genes) -> str:
        return f"64-{''.join(str(digit) for _, digit in genes[1:])}-basic"

    def parse(self, text: str) -> Genes:
        if not text.startswith("64-"):
            raise malformed(text, 0, "'64-'")
        code = text.removeprefix("64-").partition("-")[0]
        for at, digit in enumerate(code, start=3):
            if digit not in "1234" or at == 9:
                raise malformed(text, at, "'-basic'" if at == 9 else "a module, 1 to 4")
        if text[3 + len(code) :] != "-basic":
            raise malformed(text, 3 + len(code), "'-basic'")
        return (("modules", len(code)), *((f"module{i}", int(digit)) for i, digit in enumerate(code)))


def _macro_sketch(arch: Arch) -> Stages:
    channels, stages = 64, [Stage("conv 3x3", 32, stride=2), Stage("conv 3x3", 64, stride=2)]
    for _, digit in arch.genes[1:]:
        channels *= 2 if digit in (2, 4) else 1
        stages.append(Stage("residual", channels, stride=2 if digit in (3, 4) else 1, repeats=2))
    return Stages(tuple(stages))


@space(task=benchmarked, notation=_MacroNotation(), sketch=_macro_sketch, size=3256)
def transnas_macro(choose: Any, task: Task, head: str = "scene") -> Any:
    """Four to six modules of residual blocks, where to widen and where to shrink; 3,256 architectures."""
    code = [choose(f"module{i}", (1, 2, 3, 4)) for i in range(choose("modules", (4, 5, 6)))]
    doublings, halvings = (sum(digit in kind for digit in code) for kind in ((2, 4), (3, 4)))
    if not 1 <= doublings <= 3:
        raise Invalid(f"{doublings} modules double the channels (2, 4), but it must be 1 to 3 of them")
    if not 1 <= halvings <= 4:
        raise Invalid(f"{halvings} modules halve the resolution (3, 4), but it must be 1 to 4 of them")
    return partial(_network, code, ResidualCell, task, head)


SPACES.add("transnas_micro", transnas_micro)
SPACES.add("transnas_macro", transnas_macro)
