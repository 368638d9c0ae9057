"""Which networks of a supernet are trained in a step."""

import pytest
import torch
from torch import nn

from tests.training.helpers import TASK, WIDEST, elastic
from untrained.spaces import load_space
from untrained.training.supernet_paths import SupernetPaths, accumulate_gradients

MIXING = load_space("nasbench201(channels=2,cells=1)")
SMALL = MIXING.task


def make_paths(kind, steps=10, seed=0):
    return SupernetPaths(kind, elastic, TASK, elastic.supernet(TASK), seed, steps)


def get_widths(networks):
    return [network[1].out_features for network in networks]


def test_uniform_samples_one_architecture_per_step_and_eventually_all():
    drawn = [get_widths(make_paths("uniform").sample_paths(step)) for step in range(60)]
    assert all(len(step) == 1 for step in drawn)
    assert {width for [width] in drawn} == {2, 3, 4, 5, WIDEST}
    assert drawn == [get_widths(make_paths("uniform").sample_paths(step)) for step in range(60)]
    assert drawn != [
        get_widths(make_paths("uniform", seed=1).sample_paths(step)) for step in range(60)
    ]


def test_a_sandwich_has_the_largest_the_smallest_and_random_architectures():
    paths = make_paths("sandwich")
    for step in range(5):
        first, second, *others = get_widths(paths.sample_paths(step))
        assert (first, second, len(others)) == (WIDEST, 2, paths.paths_per_step - 2)


def test_any_uses_the_largest_network_if_options_cannot_be_mixed():
    """At step t of 1,000 the probability of the whole supernet is 1 - 10 t / (2 * 1000).

    It is 1 at first, 1/2 at step 100, and 0 from step 200.
    """
    paths = make_paths("any", steps=1000)
    assert get_widths(paths.sample_paths(0)) == [WIDEST]
    drawn_widths = [get_widths(paths.sample_paths(step))[0] for step in range(200)]
    widest_count = sum(width == WIDEST for width in drawn_widths)
    # Half of 200 plus a fifth of the other half, within four standard deviations.
    assert 100 - 25 < widest_count - 100 / 5 < 100 + 25
    later_widths = [get_widths(paths.sample_paths(step))[0] for step in range(200, 400)]
    assert sum(width == WIDEST for width in later_widths) < 80  # a fifth of them, 40


def test_any_mixes_any_number_of_options_with_equal_weights():
    supernet = MIXING.supernet(SMALL)
    paths = SupernetPaths("any", MIXING, SMALL, supernet, 0, 100)
    assert list(paths.sample_paths(0)) == [supernet]
    assert all(weights.tolist() == [0.2] * 5 for weights in supernet.mixture.values())
    option_counts = []
    for step in range(50, 80):
        list(paths.sample_paths(step))
        for weights in supernet.mixture.values():
            count = int((weights > 0).sum())
            torch.testing.assert_close(
                weights[weights > 0], torch.full((count,), 1 / count, dtype=torch.float64)
            )
            option_counts.append(count)
    assert set(option_counts) == {1, 2, 3, 4, 5}
    # Each of five options is mixed with probability 1/2, and one of them always.
    assert sum(option_counts) / len(option_counts) == pytest.approx(3.0, abs=0.3)


def test_gradients_of_subnets_are_added_to_those_of_the_supernet():
    supernet = elastic.supernet(TASK)
    for width in (2, 3):
        small = supernet.subnet(elastic.parse(f"width={width}"))
        small(torch.ones(1, 1, 4, 4)).sum().backward()
        accumulate_gradients(supernet, small)
        assert small[1].weight.grad is None
    output_bias = supernet.body[3].bias.grad
    assert output_bias.tolist() == [2.0] * 10  # shared as it is: both passes reach it
    hidden_bias = supernet.body[1].bias.grad
    # A hidden neuron that is active has the sum of its outgoing weights as gradient.
    outgoing = supernet.body[3].weight.detach().T
    activations = supernet.body[1](torch.ones(1, 16))[0]
    once = [float(w.sum()) * float(a > 0) for w, a in zip(outgoing, activations, strict=True)]
    expected = [2 * once[0], 2 * once[1], once[2], 0.0, 0.0, 0.0]
    assert hidden_bias.tolist() == pytest.approx(expected, abs=1e-6)


def test_parameters_that_share_a_storage_have_separate_gradients():
    """As in batch norms: weight and bias are neighbours in memory."""
    whole = nn.Module()
    path = nn.Module()
    whole.weight, whole.bias = map(nn.Parameter, torch.arange(6.0).split(3))
    path.weight, path.bias = (nn.Parameter(p.detach()[:2]) for p in (whole.weight, whole.bias))
    (path.weight.sum() + 5 * path.bias.sum()).backward()
    accumulate_gradients(whole, path)
    assert whole.weight.grad.tolist() == [1.0, 1.0, 0.0]
    assert whole.bias.grad.tolist() == [5.0, 5.0, 0.0]
