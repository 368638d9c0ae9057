"""Plain multilayer perceptrons: depth, the width of every hidden layer, and one activation.

SiGeo (arXiv:2311.13169) looks at two-layer networks, that is one hidden layer, of width 2, 4, ..., 48 on MNIST:
`load_space("mlp").configured(**SIGEO)`. Its paper says MLP-ReLU; its notebook puts a ReLU behind the last layer too, on
the logits, and runs widths up to 50. The ReLU is left out by default; `relu_logits=True` is the notebook's network.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

from torch import nn

from untrained.errors import unknown
from untrained.spaces._sketch import Stage, Stages
from untrained.spaces._space import SPACES, space
from untrained.types import Arch, Task

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
DEPTHS, WIDTHS = (1, 2, 3, 4), (16, 32, 64, 128, 256)
SIGEO = {"depths": (1,), "widths": tuple(range(2, 50, 2)), "activations": ("relu",)}


def _size(
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    relu_logits: bool = False,
) -> int:
    return len(activations) * sum(prod([len(widths)] * depth) for depth in depths)


def _sketch(arch: Arch) -> Stages:
    widths = [int(value) for name, value in arch.genes if name.startswith("width")]
    return Stages(tuple(Stage(f"linear, {arch['activation']}", width) for width in widths))


@space(task=Task("mnist", (1, 28, 28), 10), sketch=_sketch, size=_size)
def mlp(
    choose: Any,
    task: Task,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    *,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    relu_logits: bool = False,
) -> Any:
    """Multilayer perceptrons of one to four hidden layers, 16 to 256 wide, with one of four activations."""
    depth = choose("depth", depths)
    hidden = [choose(f"width{layer}", widths) for layer in range(1, depth + 1)]
    activation = choose("activation", activations)
    if activation not in ACTIVATIONS:
        raise unknown("activation", activation, ACTIVATIONS)
    sizes = [prod(task.input_shape), *hidden, task.num_classes]
    return partial(_network, sizes, ACTIVATIONS[activation], relu_logits)


SPACES.add("mlp", mlp)


def _network(sizes: Sequence[int], activation: type[nn.Module], relu_logits: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for cin, cout in pairwise(sizes[:-1]):
        layers += [nn.Linear(cin, cout), activation()]
    head = nn.Linear(sizes[-2], sizes[-1])
    return nn.Sequential(*layers, head, *([nn.ReLU()] if relu_logits else []))
