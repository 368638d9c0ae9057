"""Our scores of the golden architectures, which the tests of this folder compare with published values.

All proxies of a network share one probe, and only numbers are kept. Scores that need other inputs
or the random signs of the authors are computed here too, with the same functions as the proxies.
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

from tests.golden.reference import (
    NetworkF,
    build_network_a,
    list_golden_cells,
    load_inputs,
    read_number,
)
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.blocks import measure_blocks
from untrained.probe.graph import record_graph
from untrained.proxies import load_proxy
from untrained.proxies.zen import amplification
from untrained.types import Batch

MARKS = [pytest.mark.data]
try:
    CASES = list_golden_cells()
except pytest.skip.Exception as absent:
    CASES = []
    MARKS.append(pytest.mark.skip(reason=str(absent)))
# In these cells the output does not depend on the input.
DISCONNECTED = [
    text for text, metrics in CASES if isnan(read_number(metrics["F.zerocost.jacob_cov"]))
]
CONNECTED = [(text, metrics) for text, metrics in CASES if text not in DISCONNECTED]
# Million multiply-adds. The scores of a larger network take more than ten seconds on a slow core.
LARGE = 15
QUICK = [
    text
    for text, metrics in CASES
    if metrics["A.flops_params_M_official"][0] <= LARGE or text in DISCONNECTED
]


def for_each(cases: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
    """Return a decorator that runs a test per architecture; large networks are marked as slow."""
    parameters = []
    for text, metrics in cases:
        marks = [] if text in QUICK else [pytest.mark.slow]
        parameters.append(pytest.param(text, metrics, marks=marks, id=text))
    return pytest.mark.parametrize(("text", "metrics"), parameters)


@cache
def get_rounding_factor() -> float:
    """Return the factor of all tolerances on this machine.

    It is 1 if a forward pass gives the golden logits to the last bits, and 30 if convolutions round
    differently. Without AVX512, for example, the Fisher metric of a deep network changes by 1e-3.
    """
    text, metrics = next(case for case in CASES if case[0].count("nor_conv_1x1") == 6)
    with torch.no_grad():
        logits = build_network_a(text).train()(load_inputs()["x"][:64])[0]
    published = torch.tensor(metrics["A.logits_first_sample_train_b64"])
    return 1 if float((logits - published).norm() / published.norm()) < 2e-6 else 30


Score = float | Unscorable
BOTH = """
grad_norm snip grasp fisher plain jacob_cov synflow synflow(norms=kept) l2_norm trace ntk_condition
""".split()
ONLY_A = """
naswot naswot(variant=published) naswot(variant=published,samples=128) te_nas_regions swap params
zico zico(batches=4,samples=256) sigeo(variant=frozen) sigeo(variant=notebook) sigeo(variant=published)
te_nas_condition(variant=published,samples=16)
""".split()
ONLY_F = ["meco(variant=published)", "meco(variant=published,samples=64)"]


@dataclass(frozen=True)
class Batches:
    """Losses and gradients (by name of the parameter) of the batches of 64 samples."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]


@dataclass(frozen=True)
class Scores:
    values: dict[str, Score]
    logits: Tensor  # of the first sample
    batches: Batches | None = None  # of network A


def make_batch(start: int, stop: int) -> Batch:
    return Batch(load_inputs()["x"][start:stop], load_inputs()["y"][start:stop])


def compute_scores(net: str, text: str) -> Scores:
    """Return everything that is compared with published values of network A or F of a cell."""
    return {"A": _score_network_a, "F": _score_network_f}[net](text)


@cache
def _score_network_a(text: str) -> Scores:
    probe = Probe(build_network_a(text), _make_samples(text))
    values = {name: score_or_failure(load_proxy(name), probe) for name in BOTH + ONLY_A}
    values |= _score_with_published_randomness(probe.first(16))
    losses = [part.loss for part in probe.parts(4)]
    gradients = [part.gradients for part in probe.parts(4)]
    batches = Batches(losses, gradients)
    return Scores(values, probe.first(64).outputs[0], batches)


@cache
def _score_network_f(text: str) -> Scores:
    """Score network F.

    Without convolutions in its cells, F differs from A in its containers only. Then proxies that do
    not depend on containers have the scores of A.
    """
    probe = Probe(NetworkF(text), _make_samples(text))
    known_scores = compute_scores("A", text).values if "nor_conv" not in text else {}
    values = {}
    for name in BOTH + ONLY_F:
        if name in known_scores:
            values[name] = known_scores[name]
        else:
            values[name] = score_or_failure(load_proxy(name), probe)
    return Scores(values | _score_large_image(probe.model), probe.first(64).outputs[0])


def _make_samples(text: str) -> Batch:
    """Return the first samples; a few are enough to see that a network is disconnected."""
    return make_batch(0, 32 if text in DISCONNECTED else 256)


def score_or_failure(function: Callable[..., Any], *args: Any) -> Score:
    try:
        return float(function(*args))
    except Unscorable as reason:
        return reason.with_traceback(None)  # the traceback would keep the probe alive


def _score_with_published_randomness(probe: Probe) -> dict[str, Score]:
    """Return Zen with the golden weights and inputs, and AZ-NAS with the golden signs."""
    x = load_inputs()["x"]
    perturbed = probe.with_inputs(x[:16] + 0.01 * x[16:32])
    with probe.scoring_mode():
        probe.__dict__["blocks"] = measure_blocks(
            record_graph(probe.model, probe.run_network, x[:16]).trunk, GoldenSigns()
        )
    views = ("expressivity", "progressivity", "trainability")
    values = {name: score_or_failure(load_proxy(f"az_{name}"), probe) for name in views}
    return {
        "zen": score_or_failure(amplification, probe, perturbed, "published"),
        "blocks": len(probe.blocks.features),
        **values,
    }


class GoldenSigns:
    """Returns the signs `az{k}` in the k-th call; calls go from the last block to the first."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, feature: Tensor, place: int) -> Tensor:
        digest = hashlib.sha256(f"refs-v1|az{self.calls}".encode()).digest()
        self.calls += 1
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))
        is_positive = (generator.random(feature.numel()) < 0.5).reshape(feature.shape)
        return torch.from_numpy(is_positive * 2.0 - 1).to(feature)


def _score_large_image(model: nn.Module) -> dict[str, Score]:
    large = Batch(load_inputs()["x64"], load_inputs()["y"][:1])
    return {"meco 64": score_or_failure(load_proxy("meco(variant=published)"), Probe(model, large))}
