"""Multilayer perceptrons: number of networks, and SiGeo's networks of one hidden layer."""

import pytest
import torch
from torch import nn

from untrained.drawings.diagrams import Stage
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.mlp import SIGEO
from untrained.types import Task
from untrained.workflows.search_checks import check_data

mlp = load_space("mlp")


def test_the_size_is_the_number_of_networks():
    """Four activations, and five widths for each of one to four layers."""
    assert mlp.size == len(set(mlp)) == 4 * (5 + 5**2 + 5**3 + 5**4)


def test_sigeos_networks_have_one_hidden_layer():
    """One hidden layer of h: 784 h + h + 10 h + 10 parameters."""
    space = mlp.with_options(**SIGEO)
    widths = []
    for arch in space:
        model = space.build(arch)
        h = int(arch["width1"])
        widths.append(h)
        assert [type(layer) for layer in model] == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]
        assert sum(p.numel() for p in model.parameters()) == 795 * h + 10
    assert widths == list(range(2, 49, 2))
    assert space.size == 24
    assert isinstance(mlp.with_options(**SIGEO, relu_logits=True).build(arch)[-1], nn.ReLU)


def test_options_are_part_of_the_name():
    space = load_space("mlp(depths=(2,),widths=(3,5),activations=('tanh',))")
    arch = space.parse("depth=2,width1=3,width2=5,activation=tanh")
    assert load_space(arch.space).parse(str(arch)) == arch
    assert load_space(arch.space).size == len(list(space)) == 4
    model = space.build(arch, Task("noise", (2, 3), 4))
    assert [tuple(layer.weight.shape) for layer in model if isinstance(layer, nn.Linear)] == [
        (3, 6),
        (5, 3),
        (4, 5),
    ]
    assert model(torch.zeros(7, 2, 3)).shape == (7, 4)
    assert space.draw(arch).stages == (Stage("linear, tanh", 3), Stage("linear, tanh", 5))


def test_the_error_for_an_unknown_activation_lists_close_names():
    with pytest.raises(UsageError, match="did you mean relu"):
        next(iter(mlp.with_options(activations=("rellu",))))


def test_networks_accept_tables_unlike_those_of_image_spaces():
    """Its networks flatten their input; those of NAS-Bench-201 begin with a convolution."""
    table = Task("csv:mine.csv", (6,), 1, "bce", (5, 5))
    check_data(mlp, table)
    check_data(load_space("nasrec_small"), table)
    with pytest.raises(
        UsageError,
        match=r"csv:mine.csv has rows of 6 columns, and networks of nasbench201 do not accept them",
    ):
        check_data(load_space("nasbench201"), table)
