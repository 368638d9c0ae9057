"""A short training, asked for like a proxy."""

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


def two_clouds(samples: int = 100) -> Batch:
    """Two classes on both sides of zero, told apart by any line near the second axis."""
    targets = torch.arange(samples) % 2
    inputs = torch.randn(samples, 2) * 0.1
    inputs[:, 0] += 2.0 * targets - 1
    return Batch(inputs, targets)


def test_what_can_be_learned_is_learned_and_judged_on_what_was_held_out():
    probe = Probe(nn.Linear(2, 2), two_clouds())
    assert accuracy(probe) == 1.0


def test_random_labels_cannot_be_learned():
    batch = Batch(torch.randn(1000, 2), torch.randint(2, (1000,)))
    assert (
        0.35 < accuracy(Probe(nn.Linear(2, 2), batch)) < 0.65
    )  # 200 held out: five standard deviations of 0.035


def test_the_model_is_left_as_it_was_and_the_same_probe_gives_the_same_number():
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = Batch(torch.randn(60, 2), torch.randint(2, (60,)))
    first = accuracy(Probe(model, batch, seed=3))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training
    assert accuracy(Probe(model, batch, seed=3)) == first


def test_one_step_is_the_step_of_nesterov():
    """With momentum buffer g, Nesterov's first step is lr (g + 0.9 g); the cosine is at its start; decay 5e-4."""
    model = nn.Linear(2, 2, bias=False)
    data = Batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    weight = model.weight.detach().clone()
    p = (weight @ data.inputs[0]).softmax(0)
    g = torch.outer(p - torch.tensor([1.0, 0.0]), data.inputs[0]) + 5e-4 * weight
    train_briefly(model, data, epochs=1, rate=0.1, batch_size=64, generator=torch.Generator())
    torch.testing.assert_close(model.weight.detach(), weight - 0.1 * 1.9 * g)


def test_the_head_is_learned_and_the_rest_is_judged():
    batch = Batch(torch.arange(10.0), torch.arange(10))
    head, rest = split_samples(batch, 0.8)
    assert (head.targets.tolist(), rest.targets.tolist()) == (list(range(8)), [8, 9])
    with pytest.raises(Unscorable, match="too few"):
        split_samples(Batch(torch.zeros(1), torch.zeros(1)), 0.8)


def test_right_answers_are_counted_batch_by_batch():
    model = nn.Identity()
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert measure_accuracy(model, Batch(logits, torch.tensor([0, 1, 1])), batch_size=2) == 2 / 3


def test_a_training_that_diverges_is_a_failure():
    model = nn.Linear(2, 2)
    model.weight.data.fill_(float("nan"))
    with pytest.raises(Unscorable, match="diverged"):
        train_briefly(
            model, two_clouds(), epochs=1, rate=0.1, batch_size=64, generator=torch.Generator()
        )


def test_it_can_be_asked_for_by_name():
    found = load_proxy(f"{SHORT_TRAINING}(epochs=1,samples=40)")
    assert (found.samples, dict(found.options)) == (40, {"epochs": 1})
    assert found.measure == "accuracy(epochs=1,samples=40)@1"


def test_yes_and_no_are_judged_by_pairs_in_the_right_order():
    """Yes at 0.9 and 0.4, no at 0.4, 0.1 and 0.5: of six pairs four are right, one is tied and one is wrong."""
    scores, yes = torch.tensor([[0.9], [0.4], [0.1], [0.4], [0.5]]), torch.tensor([1, 0, 0, 1, 0])
    assert measure_auc(nn.Identity(), Batch(scores, yes), batch_size=2) == pytest.approx(4.5 / 6)
    with pytest.raises(Unscorable, match="have the same label"):
        measure_auc(nn.Identity(), Batch(scores, torch.ones(5)), batch_size=2)


def test_a_network_of_one_output_learns_by_yes_and_no():
    clouds = two_clouds()
    probe = Probe(nn.Linear(2, 1), Batch(clouds.inputs, clouds.targets.float()), loss="bce")
    assert accuracy(probe) == 1.0
