"""CPU and GPU agree: every registered proxy, on two networks, float32 on both.

Tolerance 1e-3 relative: a convolution rounds differently on another machine, and a ReLU near zero may fall on the other
side. Proxies that count sides, or divide by small differences, are given more, and the reason.
"""

import pytest
import torch

from tests.contracts.test_proxies import MODELS, batch_for, made
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import PROXIES, load_proxy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
LOOSER = {
    "zico": (1e-2, "two batches: divides by |g1 - g2| / 2, which may be rounding"),
    "harmonic_mean": (1e-2, "holds zico"),
    "ntk_condition": (1e-2, "the smallest eigenvalue of a kernel"),
    "te_nas_condition": (1e-2, "the smallest eigenvalue of a kernel"),
    "hnas": (1e-2, "holds ntk_condition"),
    "plain": (2e-2, "positive and negative terms cancel"),
    "swap": (1e-2, "counts signs"),
    "swap_reg": (1e-2, "counts signs"),
    "gradsign": (1e-2, "counts signs"),
}


def outcome(name: str, kind: str, device: str) -> float | str:
    proxy, model = load_proxy(name), made(kind).to(device)
    try:
        return proxy(Probe(model, batch_for(kind, proxy).to(device)))
    except Unscorable as reason:
        return reason.kind


@pytest.mark.parametrize("kind", ["nasbench201", "transformer"])
@pytest.mark.parametrize("name", PROXIES)
def test_cpu_and_gpu_agree(name, kind):
    assert kind in MODELS
    here, there = outcome(name, kind, "cpu"), outcome(name, kind, "cuda")
    tolerance, _ = LOOSER.get(name, (1e-3, ""))
    assert there == (pytest.approx(here, rel=tolerance) if isinstance(here, float) else here)
