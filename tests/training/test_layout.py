"""How pictures lie in memory, and what a GPU does with them."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.training.toys import archive, trained, weights
from untrained.training.evaluation import apply_memory_format
from untrained.training.network import (
    OverlappingPoolDetector,
    choose_memory_format,
    has_overlapping_pools,
)
from untrained.types import Batch

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Functional(nn.Module):
    """Pools by a function that no module shows."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, stride=1)


@pytest.mark.parametrize(
    ("model", "overlap"),
    [
        (nn.AvgPool2d(3, stride=1), True),
        (nn.AvgPool2d(3, stride=2, padding=1), True),
        (nn.AvgPool2d(2), False),
        (nn.AdaptiveAvgPool2d(1), False),
        (nn.MaxPool2d(3, stride=1), False),
        (Functional(), True),
    ],
)
def test_averages_of_windows_that_overlap_are_heard(model, overlap):
    with OverlappingPoolDetector() as pools:
        model(torch.zeros(1, 1, 6, 6))
    assert pools.detected == overlap


def test_an_auxiliary_tower_that_pools_only_while_learning_is_heard_and_nothing_is_changed():
    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.pool = nn.BatchNorm2d(1), nn.AvgPool2d(3, stride=2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(x)
            return self.pool(F.dropout(x)) if self.training else x

    tower, state = Tower(), torch.get_rng_state()
    assert has_overlapping_pools(tower, torch.ones(2, 1, 6, 6))
    assert torch.equal(tower.norm.running_mean, torch.zeros(1))
    assert not tower.training
    assert torch.equal(torch.get_rng_state(), state)
    assert not has_overlapping_pools(
        nn.Sequential(nn.Dropout(), nn.AvgPool2d(2)), torch.ones(2, 1, 6, 6)
    )


def test_on_a_cpu_and_for_rows_nothing_is_laid_out_anew():
    assert (
        choose_memory_format(nn.Identity(), Batch(torch.zeros(2, 3, 4, 4), torch.zeros(2)))
        == torch.contiguous_format
    )
    rows = torch.zeros(4, 3).t()
    assert apply_memory_format(rows, torch.channels_last) is rows
    pictures = torch.zeros(2, 4, 4, 3).permute(0, 3, 1, 2)
    assert apply_memory_format(pictures, torch.contiguous_format).is_contiguous()
    assert apply_memory_format(pictures, torch.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )


@pytest.mark.gpu
@GPU
def test_a_gpu_learns_what_a_cpu_learns_and_goes_on_after_a_stop(tmp_path: Path):
    """Convolutions add in another order there, and need not add in the same one again: a tolerance of 1e-2."""
    data, plain = archive(tmp_path), "quick(epochs=3,batch=10,crop=0,average=0.9)"
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )
    here = weights(trained(tmp_path / "cpu", data, plain, what=net))
    there = weights(trained(tmp_path / "gpu", data, plain, what=net, device="cuda"))
    trained(tmp_path / "stopped", data, plain, what=net, device="cuda", time="1ms")
    resumed = weights(trained(tmp_path / "stopped", data, plain, what=net, device="cuda"))
    for name, tensor in here.items():
        torch.testing.assert_close(there[name].cpu(), tensor, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(resumed[name].cpu(), tensor, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@GPU
def test_everything_a_recipe_has_runs_on_a_gpu(tmp_path: Path):
    said = "cifar(epochs=2,batch=10,cutout=2,mixup=0.4,crop=1)"
    found = trained(tmp_path / "a", archive(tmp_path), said, device="cuda")
    assert found.ended == "epochs"
    assert all(
        tensor.device.type == "cpu"
        for tensor in torch.load(tmp_path / "a" / "model.pt", weights_only=True).values()
    )
    assert (
        choose_memory_format(
            nn.AvgPool2d(3, 1).cuda(), Batch(torch.zeros(2, 3, 8, 8).cuda(), torch.zeros(2))
        )
        == torch.contiguous_format
    )
    assert (
        choose_memory_format(
            nn.AvgPool2d(2).cuda(), Batch(torch.zeros(2, 3, 8, 8).cuda(), torch.zeros(2))
        )
        == torch.channels_last
    )
