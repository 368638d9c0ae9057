"""Multilayer perceptrons: depth, width of every hidden layer, and one activation.

SiGeo (arXiv:2311.13169) studies networks with one hidden layer of width 2, 4, ..., 48 on MNIST:
`load_space("mlp").with_options(**SIGEO)`. Its paper says MLP-ReLU. Its notebook also applies a ReLU
to the logits and uses widths up to 50. The ReLU on the logits is off by default;
`relu_logits=True` is the network of the notebook.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

from torch import nn

from untrained.drawings.diagrams import Stage, StageList
from untrained.errors import make_unknown_name_error
from untrained.spaces.core.space import Choose, NetworkBuilder, register_space, space
from untrained.types import Arch, Task

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
DEPTHS = (1, 2, 3, 4)
WIDTHS = (16, 32, 64, 128, 256)
SIGEO = {"depths": (1,), "widths": tuple(range(2, 50, 2)), "activations": ("relu",)}


def _compute_size(
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    relu_logits: bool = False,
) -> int:
    """Return the number of architectures: sequences of widths of all depths, times activations."""
    width_combinations = sum(prod([len(widths)] * depth) for depth in depths)
    return len(activations) * width_combinations


def _draw_layers(arch: Arch) -> StageList:
    label = f"linear, {arch['activation']}"
    stages = []
    for name, value in arch.genes:
        if name.startswith("width"):
            stages.append(Stage(label, int(value)))
    return StageList(tuple(stages))


@register_space
@space(task=Task("mnist", (1, 28, 28), 10), draw=_draw_layers, size=_compute_size)
def mlp(
    choose: Choose,
    task: Task,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    *,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    relu_logits: bool = False,
) -> NetworkBuilder:
    """Multilayer perceptrons of one to four hidden layers, 16 to 256 wide, four activations."""
    depth = choose("depth", depths)
    hidden_widths = [choose(f"width{layer}", widths) for layer in range(1, depth + 1)]
    activation = choose("activation", activations)
    if activation not in ACTIVATIONS:
        raise make_unknown_name_error("activation", activation, ACTIVATIONS)
    layer_widths = [prod(task.input_shape), *hidden_widths, task.num_classes]
    return partial(_build_network, layer_widths, ACTIVATIONS[activation], relu_logits)


def _build_network(
    layer_widths: Sequence[int], activation: type[nn.Module], relu_logits: bool
) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for in_features, out_features in pairwise(layer_widths[:-1]):
        layers.append(nn.Linear(in_features, out_features))
        layers.append(activation())
    layers.append(nn.Linear(layer_widths[-2], layer_widths[-1]))
    if relu_logits:
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)
