"""Pooling by shifted copies has the bits of torch's kernels, up to the second derivative."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from untrained.probe import Probe
from untrained.probe.guard import scoring_mode
from untrained.probe.pooling import average_pool, maximum_pool
from untrained.types import Batch

IMAGE = (4, 8, 16, 18)  # at least MIN_ENTRIES


def make_images(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(IMAGE, generator=draw, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("counts_padding", [True, False])
@pytest.mark.parametrize(
    ("kernel", "padding"), [(3, 1), (3, 0), (2, 1), (5, 2), ((3, 5), (0, 2)), ([3], [1])]
)
def test_averages_have_the_bits_of_torch(kernel, padding, counts_padding, dtype):
    def differentiate_twice(pool):
        x = make_images(dtype).requires_grad_()
        pooled = pool(x, kernel, 1, padding, count_include_pad=counts_padding)
        g = pooled.detach().sin().requires_grad_()
        (by_x,) = torch.autograd.grad(pooled, x, g, create_graph=True)
        (by_g,) = torch.autograd.grad(by_x, g, by_x.detach().cos())
        with torch.no_grad():
            without_graph = pool(x, kernel, 1, padding, count_include_pad=counts_padding)
        return pooled, by_x, by_g, without_graph

    ours = differentiate_twice(average_pool)
    for result, expected in zip(ours, differentiate_twice(F.avg_pool2d), strict=True):
        assert torch.equal(result, expected)
        assert result.is_contiguous()


@pytest.mark.parametrize(("kernel", "padding"), [(3, 1), (2, 0), (5, 2), ((1, 3), (0, 1))])
def test_maxima_have_the_bits_of_torch(kernel, padding):
    x = make_images()
    x[0, 0, 3, 4] = torch.nan
    x[1, 2] = -torch.inf
    expected = F.max_pool2d(x, kernel, 1, padding)
    pooled = maximum_pool(x, kernel, 1, padding)
    assert pooled is not None
    torch.testing.assert_close(pooled, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("pool", "arguments"),
    [
        (average_pool, {"kernel_size": 3, "stride": 2, "padding": 1}),
        (average_pool, {"kernel_size": 3}),  # moves by its size
        (average_pool, {"kernel_size": 3, "stride": 1, "divisor_override": 2}),
        (maximum_pool, {"kernel_size": 3, "stride": 1, "dilation": 2}),
        (maximum_pool, {"kernel_size": 3, "stride": 1, "return_indices": True}),
    ],
)
def test_other_windows_are_left_to_torch(pool, arguments):
    assert pool(make_images(), **arguments) is None


def test_images_in_another_layout_are_left_to_torch():
    images = make_images().contiguous(memory_format=torch.channels_last)
    assert average_pool(images, 3, 1, 1) is None
    assert average_pool(make_images()[:, :, :2], 3, 1, 1) is None  # small
    assert average_pool(make_images().half(), 3, 1, 1) is None
    with pytest.raises(RuntimeError, match="pad"), scoring_mode(torch.nn.Identity()):
        F.avg_pool2d(make_images(), 3, 1, 2)  # torch's own message


def test_a_gradient_of_a_maximum_is_left_to_torch():
    assert maximum_pool(make_images().requires_grad_(), 3, 1, 1) is None


class CallRecorder(TorchDispatchMode):
    """Records the names of the kernels that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("pool", [torch.nn.AvgPool2d, torch.nn.MaxPool2d])
def test_a_measured_network_pools_by_shifted_copies(pool):
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 1), pool(3, 1, 1))
    batch = Batch(torch.randn(4, 3, 16, 16), torch.zeros(4, dtype=torch.long))
    with CallRecorder() as plain, torch.no_grad():
        expected = network(batch.inputs)
    with CallRecorder() as measured:
        outputs = Probe(network, batch).outputs
    assert any("pool" in name for name in plain.names)
    assert not any("pool" in name for name in measured.names)
    assert torch.equal(outputs, expected)
