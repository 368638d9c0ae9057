"""A short training behind the interface of a proxy."""

import pytest
import torch
from torch import nn

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.training.short_training import (
    SHORT_TRAINING,
    accuracy,
    measure_accuracy,
    measure_auc,
    split_samples,
    train_briefly,
)
from untrained.types import Batch


def make_two_clouds(samples: int = 100) -> Batch:
    """Make two classes on both sides of zero, separable by any line near the second axis."""
    targets = torch.arange(samples) % 2
    inputs = torch.randn(samples, 2) * 0.1
    inputs[:, 0] += 2.0 * targets - 1
    return Batch(inputs, targets)


def test_a_learnable_task_has_full_accuracy_on_held_out_samples():
    probe = Probe(nn.Linear(2, 2), make_two_clouds())
    assert accuracy(probe) == 1.0


def test_random_labels_cannot_be_learned():
    batch = Batch(torch.randn(1000, 2), torch.randint(2, (1000,)))
    # 200 held out: five standard deviations of 0.035
    assert 0.35 < accuracy(Probe(nn.Linear(2, 2), batch)) < 0.65


def test_the_model_is_unchanged_and_the_accuracy_is_reproducible():
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = Batch(torch.randn(60, 2), torch.randint(2, (60,)))
    first = accuracy(Probe(model, batch, seed=3))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training
    assert accuracy(Probe(model, batch, seed=3)) == first


def test_one_step_follows_nesterovs_formula():
    """With momentum buffer g, Nesterov's first step is lr (g + 0.9 g); the cosine is at its start; decay 5e-4."""
    model = nn.Linear(2, 2, bias=False)
    data = Batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    weight = model.weight.detach().clone()
    p = (weight @ data.inputs[0]).softmax(0)
    g = torch.outer(p - torch.tensor([1.0, 0.0]), data.inputs[0]) + 5e-4 * weight
    train_briefly(model, data, epochs=1, rate=0.1, batch_size=64, generator=torch.Generator())
    torch.testing.assert_close(model.weight.detach(), weight - 0.1 * 1.9 * g)


def test_the_first_samples_are_for_training_and_the_rest_for_evaluation():
    batch = Batch(torch.arange(10.0), torch.arange(10))
    head, rest = split_samples(batch, 0.8)
    assert (head.targets.tolist(), rest.targets.tolist()) == (list(range(8)), [8, 9])
    with pytest.raises(Unscorable, match="too few"):
        split_samples(Batch(torch.zeros(1), torch.zeros(1)), 0.8)


def test_accuracy_counts_over_batches():
    model = nn.Identity()
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert measure_accuracy(model, Batch(logits, torch.tensor([0, 1, 1])), batch_size=2) == 2 / 3


def test_a_diverged_training_is_a_failure():
    model = nn.Linear(2, 2)
    model.weight.data.fill_(float("nan"))
    with pytest.raises(Unscorable, match="diverged"):
        train_briefly(
            model, make_two_clouds(), epochs=1, rate=0.1, batch_size=64, generator=torch.Generator()
        )


def test_a_short_training_is_loaded_by_name():
    proxy = load_proxy(f"{SHORT_TRAINING}(epochs=1,samples=40)")
    assert (proxy.samples, dict(proxy.options)) == (40, {"epochs": 1})
    assert proxy.measure == "accuracy(epochs=1,samples=40)@1"


def test_binary_labels_are_evaluated_by_auc():
    """Positives score 0.9 and 0.4, negatives 0.4, 0.1 and 0.5: of six pairs four are right, one tied, one wrong."""
    scores = torch.tensor([[0.9], [0.4], [0.1], [0.4], [0.5]])
    labels = torch.tensor([1, 0, 0, 1, 0])
    assert measure_auc(nn.Identity(), Batch(scores, labels), batch_size=2) == pytest.approx(4.5 / 6)
    with pytest.raises(Unscorable, match="have the same label"):
        measure_auc(nn.Identity(), Batch(scores, torch.ones(5)), batch_size=2)


def test_a_network_with_one_output_learns_a_binary_classification():
    clouds = make_two_clouds()
    probe = Probe(nn.Linear(2, 1), Batch(clouds.inputs, clouds.targets.float()), loss="bce")
    assert accuracy(probe) == 1.0
