"""The memory format of images, and training with it on a GPU."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.training.toys import get_weights, train_toy, write_archive
from untrained.training.evaluation import apply_memory_format
from untrained.training.network import (
    OverlappingPoolDetector,
    choose_memory_format,
    has_overlapping_pools,
)
from untrained.types import Batch

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Functional(nn.Module):
    """Pools with a function instead of a module."""

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
def test_average_pools_with_overlapping_windows_are_detected(model, overlap):
    with OverlappingPoolDetector() as pools:
        model(torch.zeros(1, 1, 6, 6))
    assert pools.detected == overlap


def test_the_detector_runs_the_training_mode_and_changes_nothing():
    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(1)
            self.pool = nn.AvgPool2d(3, stride=2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(x)
            return self.pool(F.dropout(x)) if self.training else x

    tower = Tower()
    state = torch.get_rng_state()
    assert has_overlapping_pools(tower, torch.ones(2, 1, 6, 6))
    assert torch.equal(tower.norm.running_mean, torch.zeros(1))
    assert not tower.training
    assert torch.equal(torch.get_rng_state(), state)
    assert not has_overlapping_pools(
        nn.Sequential(nn.Dropout(), nn.AvgPool2d(2)), torch.ones(2, 1, 6, 6)
    )


def test_images_on_a_cpu_are_channels_last():
    images = Batch(torch.zeros(2, 3, 4, 4), torch.zeros(2))
    assert choose_memory_format(nn.Identity(), images) == torch.channels_last
    assert choose_memory_format(nn.AvgPool2d(3, 1), images) == torch.channels_last
    vectors = Batch(torch.zeros(2, 3), torch.zeros(2))
    assert choose_memory_format(nn.Identity(), vectors) == torch.contiguous_format


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.Conv2d(8, 8, 5, padding=2, groups=8),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2),
        nn.Conv2d(8, 32, 1),
        nn.BatchNorm2d(8),
        nn.GroupNorm(2, 8),
        nn.AvgPool2d(2),
        # A GPU computes the gradients of these two wrongly.
        nn.AvgPool2d(3, stride=1, padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.AdaptiveAvgPool2d(3),
        nn.Hardswish(),
    ],
    ids=str,
)
def test_gradients_on_a_cpu_do_not_depend_on_the_memory_format(layer):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 8, 9, 9, generator=generator)
    output_gradient = torch.randn(layer(images).shape, generator=generator)
    gradients = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        layer.to(memory_format=memory_format)
        inputs = images.clone(memory_format=memory_format).requires_grad_()
        outputs = layer(inputs)
        gradients.append(
            torch.autograd.grad(outputs, [inputs, *layer.parameters()], output_gradient)
        )
    for contiguous, channels_last in zip(*gradients, strict=True):
        torch.testing.assert_close(channels_last, contiguous, rtol=1e-5, atol=1e-4)


def test_a_trained_network_has_the_usual_memory_format(tmp_path: Path):
    """A network of two channels, because one channel is contiguous in both formats."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten(), nn.Linear(8, 3)
    )
    data = write_archive(tmp_path)
    result = train_toy(tmp_path / "a", data, "quick(epochs=1,batch=10)", what=net)
    for tensor in get_weights(result).values():
        assert tensor.is_contiguous()


def test_rows_have_no_memory_format_and_images_get_the_format():
    rows = torch.zeros(4, 3).t()
    assert apply_memory_format(rows, torch.channels_last) is rows
    images = torch.zeros(2, 4, 4, 3).permute(0, 3, 1, 2)
    assert apply_memory_format(images, torch.contiguous_format).is_contiguous()
    assert apply_memory_format(images, torch.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )


@pytest.mark.gpu
@GPU
def test_a_gpu_reaches_the_weights_of_a_cpu_and_resumes(tmp_path: Path):
    """Convolutions on a GPU add in another order, possibly a different one each time: a tolerance of 1e-2."""
    data = write_archive(tmp_path)
    plain = "quick(epochs=3,batch=10,crop=0,average=0.9)"
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )
    here = get_weights(train_toy(tmp_path / "cpu", data, plain, what=net))
    there = get_weights(train_toy(tmp_path / "gpu", data, plain, what=net, device="cuda"))
    train_toy(tmp_path / "stopped", data, plain, what=net, device="cuda", time="1ms")
    resumed = get_weights(train_toy(tmp_path / "stopped", data, plain, what=net, device="cuda"))
    for name, tensor in here.items():
        torch.testing.assert_close(there[name].cpu(), tensor, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(resumed[name].cpu(), tensor, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@GPU
def test_every_option_of_a_recipe_runs_on_a_gpu(tmp_path: Path):
    recipe = "cifar(epochs=2,batch=10,cutout=2,mixup=0.4,crop=1)"
    result = train_toy(tmp_path / "a", write_archive(tmp_path), recipe, device="cuda")
    assert result.end_reason == "epochs"
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
