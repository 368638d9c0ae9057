"""Running statistics of batch norms that are measured with the final weights."""

import pytest
import torch
from torch import nn

from untrained.training.norm_statistics import SAMPLES, measure_norm_statistics
from untrained.types import Batch


def make_batches(count: int, size: int = 50) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(count):
        inputs = 3 + 2 * torch.randn(size, 4, 5, 5, generator=generator)
        batches.append(Batch(inputs, torch.zeros(size, dtype=torch.long)))
    return batches


def test_statistics_are_the_means_over_the_batches():
    norm = nn.BatchNorm2d(4)
    batches = make_batches(3)
    measure_norm_statistics(nn.Sequential(norm), batches, torch.contiguous_format)
    means = [batch.inputs.mean((0, 2, 3)) for batch in batches]
    variances = [batch.inputs.var((0, 2, 3), unbiased=True) for batch in batches]
    assert norm.running_mean.tolist() == pytest.approx(torch.stack(means).mean(0).tolist())
    assert norm.running_var.tolist() == pytest.approx(torch.stack(variances).mean(0).tolist())
    assert norm.momentum == 0.1
    assert not norm.training


def test_only_the_norms_change():
    """Dropout stays off, and weights and the random state of the caller are kept."""
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
    weights = model[0].weight.clone()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    measure_norm_statistics(model, make_batches(2), torch.channels_last)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model[0].weight, weights)
    assert not any(module.training for module in model.modules())


def test_a_network_without_norms_is_not_run():
    def fail_if_read():
        pytest.fail("a batch was read")
        yield

    measure_norm_statistics(nn.Linear(2, 2), fail_if_read(), torch.contiguous_format)


def test_enough_samples_are_read_and_no_more():
    batches = make_batches(40)
    iterator = iter(batches)
    measure_norm_statistics(nn.Sequential(nn.BatchNorm2d(4)), iterator, torch.contiguous_format)
    assert len(batches) - len(list(iterator)) == SAMPLES // 50


def test_after_a_few_steps_a_deep_network_is_no_longer_judged_by_its_initial_statistics():
    """With a tiny scale of the inputs, the initial variance of 1 would hide what was learnt."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    inputs = 0.001 * torch.randn(200, 1, 4, 4, generator=generator)
    inputs += 0.001 * labels[:, None, None, None]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm2d(1), nn.Conv2d(1, 4, 4), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2)
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def measure_accuracy() -> float:
        with torch.no_grad():
            return float((model.eval()(inputs).argmax(1) == labels).float().mean())

    before = measure_accuracy()
    measure_norm_statistics(model, [Batch(inputs, labels)], torch.contiguous_format)
    assert measure_accuracy() > before + 0.2
