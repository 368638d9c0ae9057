"""Which networks of a supernet are trained in a step."""

import pytest
import torch
from torch import nn

from tests.training.helpers import TASK, WIDEST, elastic
from untrained.spaces import load_space
from untrained.training.supernet_paths import SupernetPaths, accumulate_gradients

MIXING = load_space("nasbench201(channels=2,cells=1)")
SMALL = MIXING.task


def paths(kind, steps=10, seed=0):
    return SupernetPaths(kind, elastic, TASK, elastic.supernet(TASK), seed, steps)


def widths(networks):
    return [network[1].out_features for network in networks]


def test_uniform_takes_one_architecture_a_step_and_all_of_them_in_the_end():
    drawn = [widths(paths("uniform").sample_paths(step)) for step in range(60)]
    assert all(len(step) == 1 for step in drawn)
    assert {width for [width] in drawn} == {2, 3, 4, 5, WIDEST}
    assert drawn == [widths(paths("uniform").sample_paths(step)) for step in range(60)]
    assert drawn != [widths(paths("uniform", seed=1).sample_paths(step)) for step in range(60)]


def test_a_sandwich_is_the_largest_the_smallest_and_two_others():
    made = paths("sandwich")
    for step in range(5):
        first, second, *others = widths(made.sample_paths(step))
        assert (first, second, len(others)) == (WIDEST, 2, made.paths_per_step - 2)


def test_any_takes_the_largest_for_the_whole_where_options_cannot_be_mixed():
    """The chance of the whole is 1 - 10 t / (2 * 1000) at step t of 1,000: 1 at first, 1 / 2 in the middle of the first
    fifth, none after it."""
    made = paths("any", steps=1000)
    assert widths(made.sample_paths(0)) == [WIDEST]
    drawn = [widths(made.sample_paths(step))[0] for step in range(200)]
    wide = sum(width == WIDEST for width in drawn)
    assert (
        100 - 25 < wide - 100 / 5 < 100 + 25
    )  # half of 200, and a fifth of the other half; four deviations
    later = [widths(made.sample_paths(step))[0] for step in range(200, 400)]
    assert sum(width == WIDEST for width in later) < 80  # a fifth of them, 40


def test_any_mixes_any_number_of_options_with_equal_weights():
    supernet = MIXING.supernet(SMALL)
    made = SupernetPaths("any", MIXING, SMALL, supernet, 0, 100)
    assert list(made.sample_paths(0)) == [supernet]
    assert all(weights.tolist() == [0.2] * 5 for weights in supernet.mixture.values())
    kept = []
    for step in range(50, 80):
        list(made.sample_paths(step))
        for weights in supernet.mixture.values():
            count = int((weights > 0).sum())
            torch.testing.assert_close(
                weights[weights > 0], torch.full((count,), 1 / count, dtype=torch.float64)
            )
            kept.append(count)
    assert set(kept) == {1, 2, 3, 4, 5}
    assert sum(kept) / len(kept) == pytest.approx(
        3.0, abs=0.3
    )  # a coin for each of five, one of them kept anyway


def test_gradients_of_views_are_added_to_those_of_the_whole():
    supernet = elastic.supernet(TASK)
    for width in (2, 3):
        small = supernet.subnet(elastic.parse(f"width={width}"))
        small(torch.ones(1, 1, 4, 4)).sum().backward()
        accumulate_gradients(supernet, small)
        assert small[1].weight.grad is None
    bias = supernet.body[3].bias.grad
    assert bias.tolist() == [2.0] * 10  # shared as it is: both passes reach it
    ours = supernet.body[1].bias.grad
    once = [float(w.sum()) * float(a > 0) for w, a in zip(
        supernet.body[3].weight.detach().T, supernet.body[1](torch.ones(1, 16))[0], strict=True
    )]  # fmt: skip
    expected = [2 * once[0], 2 * once[1], once[2], 0.0, 0.0, 0.0]
    assert ours.tolist() == pytest.approx(expected, abs=1e-6)


def test_parameters_in_one_storage_have_gradients_of_their_own():
    """As batch norms have them: weight and bias lie behind each other."""
    whole, path = nn.Module(), nn.Module()
    whole.weight, whole.bias = map(nn.Parameter, torch.arange(6.0).split(3))
    path.weight, path.bias = (nn.Parameter(p.detach()[:2]) for p in (whole.weight, whole.bias))
    (path.weight.sum() + 5 * path.bias.sum()).backward()
    accumulate_gradients(whole, path)
    assert whole.weight.grad.tolist() == [1.0, 1.0, 0.0]
    assert whole.bias.grad.tolist() == [5.0, 5.0, 0.0]
