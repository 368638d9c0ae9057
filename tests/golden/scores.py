"""Our scores of the golden architectures: all proxies of one network on one probe, and only numbers are kept.

The tests of this folder compare them with the authors' values. What takes a measurement of its own (a second input, the
authors' random signs) is taken here too, through the same door the proxy uses.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.golden.reference import NetworkF, architectures, inputs, network_a, number
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.blocks import measure_blocks
from untrained.probe.graph import record_graph
from untrained.proxies import load_proxy
from untrained.proxies.zen import amplification
from untrained.types import Batch

MARKS = [pytest.mark.data]
try:
    CASES = architectures()
except pytest.skip.Exception as absent:
    CASES = []
    MARKS.append(pytest.mark.skip(reason=str(absent)))
CUT = [
    text for text, metrics in CASES if isnan(number(metrics["F.zerocost.jacob_cov"]))
]  # off from their input
CONNECTED = [(text, metrics) for text, metrics in CASES if text not in CUT]
LARGE = 15  # million multiply-adds: beyond, all scores of one network take more than ten seconds on a slow core
QUICK = [
    text
    for text, metrics in CASES
    if metrics["A.flops_params_M_official"][0] <= LARGE or text in CUT
]


def each(cases: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
    """One test an architecture; whose network is large, is slow."""
    marked = [
        pytest.param(*case, marks=[] if case[0] in QUICK else [pytest.mark.slow], id=case[0])
        for case in cases
    ]
    return pytest.mark.parametrize(("text", "metrics"), marked)


@cache
def rounding() -> float:
    """How much looser to compare: 1 where torch's own forward pass gives the golden logits to the last bits, 30 on a
    machine whose convolutions round otherwise (without AVX512, Fisher's metric of a deep network moves by 1e-3)."""
    text, metrics = next(case for case in CASES if case[0].count("nor_conv_1x1") == 6)
    with torch.no_grad():
        logits = network_a(text).train()(inputs()["x"][:64])[0]
    theirs = torch.tensor(metrics["A.logits_first_sample_train_b64"])
    return 1 if float((logits - theirs).norm() / theirs.norm()) < 2e-6 else 30


Score = float | Unscorable
BOTH = """
grad_norm snip grasp fisher plain jacob_cov synflow synflow(norms=kept) l2_norm trace ntk_condition
""".split()
ONLY_A = """
naswot naswot(variant=published) naswot(variant=published,samples=128) te_nas_regions swap params
zico zico(batches=4,samples=256) sigeo sigeo(variant=notebook) sigeo(variant=published)
te_nas_condition(variant=published,samples=16)
""".split()
ONLY_F = ["meco(variant=published)", "meco(variant=published,samples=64)"]


@dataclass(frozen=True)
class Batches:
    """Losses and gradients of the batches of 64, all trainable parameters by name."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]


@dataclass(frozen=True)
class Scores:
    values: dict[str, Score]
    logits: Tensor  # of the first sample
    batches: Batches | None = None  # of network A


def batch(start: int, stop: int) -> Batch:
    return Batch(inputs()["x"][start:stop], inputs()["y"][start:stop])


def scores(net: str, text: str) -> Scores:
    """Everything that is compared with the authors' values of the network `net` of one architecture."""
    return {"A": _on_network_a, "F": _on_network_f}[net](text)


@cache
def _on_network_a(text: str) -> Scores:
    probe = Probe(network_a(text), _samples(text))
    values = {name: attempt(load_proxy(name), probe) for name in BOTH + ONLY_A}
    values |= _with_the_authors_randomness(probe.first(16))
    batches = Batches(
        [part.loss for part in probe.parts(4)], [part.gradients for part in probe.parts(4)]
    )
    return Scores(values, probe.first(64).outputs[0], batches)


@cache
def _on_network_f(text: str) -> Scores:
    """Without convolutions in its cells F is A in other containers: what does not look at modules is not repeated."""
    probe = Probe(NetworkF(text), _samples(text))
    shared = scores("A", text).values if "nor_conv" not in text else {}
    values = {
        name: shared[name] if name in shared else attempt(load_proxy(name), probe)
        for name in BOTH + ONLY_F
    }
    return Scores(values | _on_the_large_image(probe.model), probe.first(64).outputs[0])


def _samples(text: str) -> Batch:
    """A disconnected network is one on few samples, too."""
    return batch(0, 32 if text in CUT else 256)


def attempt(function: Callable[..., Any], *args: Any) -> Score:
    try:
        return float(function(*args))
    except Unscorable as reason:
        return reason.with_traceback(None)  # which would keep the probe alive


def _with_the_authors_randomness(probe: Probe) -> dict[str, Score]:
    """Zen with given weights and inputs; AZ-NAS with the signs that the golden file prescribes."""
    x = inputs()["x"]
    moved = probe.with_inputs(x[:16] + 0.01 * x[16:32])
    with probe.scoring_mode():
        probe.__dict__["blocks"] = measure_blocks(
            record_graph(probe.model, probe.run_network, x[:16]).trunk, GoldenSigns()
        )
    views = ("expressivity", "progressivity", "trainability")
    values = {name: attempt(load_proxy(f"az_{name}"), probe) for name in views}
    return {
        "zen": attempt(amplification, probe, moved, "published"),
        "blocks": len(probe.blocks.features),
        **values,
    }


class GoldenSigns:
    """The k-th call draws the signs `az{k}`, from the last block to the first."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, feature: Tensor, place: int) -> Tensor:
        digest = hashlib.sha256(f"refs-v1|az{self.calls}".encode()).digest()
        self.calls += 1
        draw = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))
        return torch.from_numpy(
            (draw.random(feature.numel()) < 0.5).reshape(feature.shape) * 2.0 - 1
        ).to(feature)


def _on_the_large_image(model: nn.Module) -> dict[str, Score]:
    large = Batch(inputs()["x64"], inputs()["y"][:1])
    return {"meco 64": attempt(load_proxy("meco(variant=published)"), Probe(model, large))}
