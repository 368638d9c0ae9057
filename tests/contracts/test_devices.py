"""Every proxy gives the same score on CPU and GPU, for two networks in float32.

The relative tolerance is 1e-3, because convolutions round differently on another device, which may
change the sign of an input of a ReLU. Proxies that count signs or divide by small differences have
a larger tolerance, with the reason.
"""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from tests.contracts.models import MODELS, make_model, make_proxy_batch
from untrained.errors import Unscorable
from untrained.probe import Probe, guard
from untrained.proxies import PROXIES, load_proxy
from untrained.types import Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
TOLERANCES = {
    "zico": (5e-2, "divides by |g1 - g2| / 2, which depends on the sign at every ReLU; see below"),
    "harmonic_mean": (5e-2, "contains zico"),
    "ntk_condition": (1e-2, "the smallest eigenvalue of a kernel"),
    "te_nas_condition": (1e-2, "the smallest eigenvalue of a kernel"),
    "hnas": (1e-2, "contains ntk_condition"),
    "plain": (2e-2, "positive and negative terms cancel"),
    "swap": (1e-2, "counts signs"),
    "swap_reg": (1e-2, "counts signs"),
    "gradsign": (1e-2, "counts signs"),
}


def score_on_device(name: str, kind: str, device: str) -> float | str:
    """Return the score or the kind of the failure."""
    proxy = load_proxy(name)
    model = make_model(kind).to(device)
    try:
        return proxy(Probe(model, make_proxy_batch(kind, proxy).to(device)))
    except Unscorable as reason:
        return reason.kind


def test_average_pooling_of_channels_last_has_the_right_gradient():
    """Images of a data set of the shape (N, H, W, C) have this memory layout.

    torch 2.11 computes a wrong gradient for it on a GPU (dev/LOG.md).
    """
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.AvgPool2d(3, 1, 1),
        nn.Conv2d(3, 4, 3),
        nn.AvgPool2d(3, 1, 1),
        nn.Flatten(),
        nn.Linear(256, 5),
    )
    images = torch.randn(8, 10, 10, 3).permute(0, 3, 1, 2)
    labels = torch.arange(8) % 5
    proxy = load_proxy("grad_norm")
    on_cpu = proxy(Probe(model, Batch(images, labels)))
    gpu_batch = Batch(images.cuda(), labels.cuda())
    on_gpu = proxy(Probe(model.cuda(), gpu_batch))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-4)
    channels_last = model.to(memory_format=torch.channels_last)
    assert proxy(Probe(channels_last, gpu_batch)) == pytest.approx(on_cpu, rel=1e-4)


@pytest.mark.parametrize("kind", ["nasbench201", "transformer"])
@pytest.mark.parametrize("name", [name for name, p in PROXIES.items() if not p.parts])
def test_cpu_and_gpu_agree(name, kind):
    assert kind in MODELS
    on_cpu = score_on_device(name, kind, "cpu")
    on_gpu = score_on_device(name, kind, "cuda")
    if isinstance(on_cpu, float):
        tolerance, _ = TOLERANCES.get(name, (1e-3, ""))
        assert on_gpu == pytest.approx(on_cpu, rel=tolerance)
    else:
        assert on_gpu == on_cpu


def test_zico_agrees_closely_on_a_network_without_relu():
    """On nasbench201 even a float64 score changes by 2.5 % if the inputs change by 1e-7.

    One or two of four million ReLUs switch. A weight whose gradients agree to 1e-5 between the
    batches contributes most of the sum of its layer (dev/LOG.md).
    """
    assert score_on_device("zico", "smooth", "cuda") == pytest.approx(
        score_on_device("zico", "smooth", "cpu"), rel=1e-3
    )


def make_wide() -> nn.Module:
    """Make a network that is wide enough for TF32 kernels, without ReLU, which would switch."""
    layers = [nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.SiLU(), nn.Conv2d(64, 64, 3), nn.SiLU()]
    head = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 5)]
    return nn.Sequential(*layers, *head)


@pytest.mark.parametrize(
    "name", ["zen", "ntk_condition", "dextr_curvature", "az_trainability", "grasp"]
)
def test_scores_have_full_precision_even_if_the_user_allows_tf32(name, monkeypatch):
    """Scores equal those of float64 on the CPU. With TF32 zen would differ by 5e-4."""
    torch.manual_seed(0)
    model = make_wide()
    proxy = load_proxy(name)
    batch = Batch(torch.randn(proxy.samples, 3, 12, 12), torch.arange(proxy.samples) % 5)
    exact_batch = Batch(batch.inputs.double(), batch.targets)
    exact = pytest.approx(proxy(Probe(model.double(), exact_batch)), rel=1e-5)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    model.float().cuda()
    assert proxy(Probe(model, batch.to("cuda"))) == exact
    assert torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32
    if name == "zen" and torch.cuda.get_device_capability() >= (8, 0):
        monkeypatch.setattr(guard, "full_precision", nullcontext)
        assert proxy(Probe(model, batch.to("cuda"))) != exact
