"""The Fisher information of first weights, compared with a loop over samples and classes in float64."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import D, compute_fixed, get_trainable, make_batch, randomise
from tests.probe.networks import FALLBACKS, NETWORKS, NORMED
from untrained.probe import Probe, fisher
from untrained.probe.fisher import compute_directions, draw_combinations
from untrained.types import Batch

MANY = 1000  # more than any of the networks has outputs


def compute_by_loops(model: nn.Module, data: Batch) -> Tensor:
    """Return the mean over samples of sum_c p_c s_c s_c^T, s_c the gradient of ln p_c."""
    names = list(get_trainable(model))
    total = torch.zeros(len(names), len(names), dtype=D)
    for c in range(Probe(model, data).num_outputs):

        def read_log_probability(outputs: Tensor, targets: Tensor, c: int = c) -> Tensor:
            return outputs.flatten(1).log_softmax(1)[:, c]

        def read_root(outputs: Tensor, targets: Tensor, c: int = c) -> Tensor:
            # The gradient of 2 sqrt(p) is sqrt(p) times that of ln p.
            return 2 * (read_log_probability(outputs, targets, c) / 2).exp()

        rows = compute_fixed(model, data, read_root)
        for i in range(len(data)):
            score = torch.stack([rows[name][i].flatten()[0] for name in names])
            total += torch.outer(score, score) / len(data)
    return total


@pytest.mark.parametrize("kind", [*NETWORKS, *FALLBACKS])
def test_the_fisher_information_is_that_of_a_loop_over_samples_and_classes(kind, monkeypatch):
    monkeypatch.setattr(fisher, "MAX_PASSES", MANY)
    make, shape = (NETWORKS | FALLBACKS)[kind]
    model = randomise(make())
    data = make_batch(*shape)
    expected = compute_by_loops(model, data)
    torch.testing.assert_close(Probe(model, data).fisher, expected, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("kind", NORMED)
def test_the_statistics_of_batch_norms_are_constants(kind):
    make, shape = NORMED[kind]
    model = randomise(make())
    data = make_batch(*shape)
    expected = compute_by_loops(model, data)
    torch.testing.assert_close(Probe(model, data).fisher, expected, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("kind", NETWORKS)
def test_ordinary_networks_need_one_backward_pass_per_output(kind, monkeypatch):
    monkeypatch.setattr(
        fisher,
        "_differentiate_sample_by_sample",
        lambda *_: pytest.fail("one backward pass per sample"),
    )
    make, shape = NETWORKS[kind]
    assert len(Probe(randomise(make()), make_batch(*shape)).fisher)


@pytest.mark.parametrize("loss", ["cross_entropy", "bce", "mse"])
def test_directions_are_roots_of_the_information_of_the_outputs(loss):
    """The information is the covariance of the derivative of the log likelihood by the outputs."""
    outputs = torch.randn(3, 4, dtype=D, generator=torch.Generator().manual_seed(0))
    directions = compute_directions(outputs, loss, torch.eye(4))
    for i in range(3):
        p = outputs[i].sigmoid()
        expected = {
            "cross_entropy": torch.func.hessian(lambda f: f.logsumexp(0))(outputs[i]),
            "bce": torch.diag(p * (1 - p)),
            "mse": torch.eye(4, dtype=D),
        }[loss]
        B = directions[:, i].T
        torch.testing.assert_close(B @ B.T, expected, rtol=1e-10, atol=1e-12)


def test_many_outputs_are_combined_at_random_without_bias():
    draw = torch.Generator().manual_seed(0)
    assert torch.equal(draw_combinations(16, draw), torch.eye(16))
    total = torch.zeros(40, 40)
    repetitions = 4000
    for _ in range(repetitions):
        R = draw_combinations(40, draw)
        assert R.shape == (16, 40)
        total += R.T @ R
    # The standard deviation of an entry of the mean is 1 / sqrt(16 * 4000).
    torch.testing.assert_close(total / repetitions, torch.eye(40), rtol=0, atol=0.02)


def test_labels_are_not_used():
    model = randomise(nn.Linear(4, 3))
    data = make_batch(5, 4)
    other = Batch(data.inputs, data.targets.roll(1))
    assert torch.equal(Probe(model, data).fisher, Probe(model, other).fisher)
    assert not torch.equal(F.one_hot(data.targets), F.one_hot(other.targets))
