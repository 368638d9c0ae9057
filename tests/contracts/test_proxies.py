"""One contract for every registered proxy and each of its variants.

A proxy returns a finite score or fails with a documented reason. It returns the same score every
time, whatever else is scored, and changes nothing. Failures are in `test_failures.py`.
"""

import random
import re
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache
from math import isfinite

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

import untrained as ut
from tests.contracts.models import (
    MODELS,
    NAMES,
    REASONS,
    make_batch,
    make_model,
    make_proxy_batch,
    score_all,
    score_or_reason,
)
from tests.contracts.trace import capture_state, list_changes, read_bytes
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.probe.circle import draw_plane
from untrained.proxies import PROXIES, Proxy, load_proxy
from untrained.proxies.base import list_members
from untrained.types import Batch, remove_version


@cache
def score_model(kind: str) -> dict[str, float | str]:
    """Return the results of all proxies for a model. They are shared: do not change them."""
    return score_all(kind, make_model(kind))


# --------------------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("name", NAMES)
def test_every_model_gets_a_finite_score_or_the_documented_failure(name):
    for kind in MODELS:
        result = score_model(kind)[name]
        reason = REASONS.get(name, {}).get(kind)
        if reason is None:
            assert isinstance(result, float), f"{kind}: {result}"
            assert isfinite(result), kind
        else:
            assert str(result).startswith(reason), kind


def test_documented_failures_are_of_existing_proxies_and_models():
    assert set(REASONS) <= set(NAMES)
    assert {kind for kinds in REASONS.values() for kind in kinds} <= set(MODELS)


# te_nas_regions counts one region per sample for all models.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "te_nas_regions"])
def test_a_proxy_gives_different_scores_to_different_models(name):
    """A proxy that returns a constant would pass every other test here."""
    scores = {score_model(kind)[name] for kind in MODELS if kind not in REASONS.get(name, {})}
    assert len(scores) > 1


# -------------------------------------------------------------------------------------------------------- side effects


def test_side_effects_are_detected():
    """A forward and backward pass in train mode changes the captured state."""
    model = make_model("cnn")
    before = capture_state(model)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    random.random()
    np.random.rand()  # noqa: NPY002
    model[0].register_forward_hook(lambda *_: None)
    model[3].eval()
    changes = list_changes(before, capture_state(model))
    assert {"torch", "numpy", "python", "0: hooks", "3: mode", "0.weight: gradient"} <= changes
    assert {"1.running_mean: tensor", "1.num_batches_tracked: tensor"} <= changes
    assert "0.weight: tensor" not in changes


@pytest.mark.parametrize("kind", MODELS)
def test_a_proxy_has_no_side_effects(kind):
    model = make_model(kind)
    batch = make_batch(kind)
    before = capture_state(model)
    data = (read_bytes(batch.inputs), read_bytes(batch.targets))
    probe = Probe(model, batch)
    for name in NAMES:
        score_or_reason(name, probe)
        assert list_changes(before, capture_state(model)) == set(), name
        assert (read_bytes(batch.inputs), read_bytes(batch.targets)) == data, name


NEVER_RUN = {"params", "l2_norm", "random"}  # proxies that do not run the network


class Boom(Exception):  # noqa: N818 - an exception of the user
    pass


class Raises(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error("not today")


@pytest.mark.parametrize("error", [Boom, RuntimeError, KeyboardInterrupt])
def test_an_exception_of_a_network_is_raised_and_has_no_side_effects(error):
    """Only the proxies of `NEVER_RUN` return a score."""
    model = make_model("mixed modes").insert(6, Raises(error))
    before = capture_state(model)
    scored = set()
    for name in NAMES:
        with suppress(error):
            load_proxy(name)(Probe(model, make_batch("cnn")))
            scored.add(name)
        assert list_changes(before, capture_state(model)) == set(), name
    assert scored == NEVER_RUN
    assert not torch_module._global_forward_hooks


# ------------------------------------------------------------------------------------------------------ reproducibility


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_seed_gives_the_same_score(kind):
    """Bit for bit, whatever the global generators and the mode of the model are."""
    torch.rand(7)
    random.random()
    draw_plane.cache_clear()
    assert score_all(kind, make_model(kind).eval()) == score_model(kind)


def test_another_seed_changes_only_proxies_that_draw_random_numbers():
    other = score_all(
        "nasbench201",
        make_model("nasbench201"),
        seed=1,
        names=[name for name in NAMES if "exact" not in name],
    )
    expected = score_model("nasbench201")
    different = {name for name, result in other.items() if result != expected[name]}
    random_proxies = {
        "dextr",
        "dextr_curvature",
        "dextr_opt",
        "meco_opt",
        "az_trainability",
        "near",
        "zen",
        "harmonic_mean",
        "random",
    }
    assert {name.partition("(")[0] for name in different} == random_proxies


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_proxies_on_one_probe_do_not_affect_each_other(kind):
    """All proxies on one probe, in both orders, give the same scores as each on its own probe.

    Variants with one backward pass per sample are slow, so they run on the small network only.
    """
    proxies = {name: load_proxy(name) for name in NAMES if kind == "mlp" or "exact" not in name}
    most = max(proxy.samples for proxy in proxies.values())
    model = make_model(kind)
    alone = {
        name: score_or_reason(name, Probe(model, make_proxy_batch(kind, proxy)))
        for name, proxy in proxies.items()
    }
    for order in (1, -1):
        probe = Probe(model, make_batch(kind, most))
        assert {name: score_or_reason(name, probe) for name in list(proxies)[::order]} == alone


def test_a_caller_in_inference_mode_or_without_gradients_gets_the_same_score():
    """The batch is created in that mode too."""
    model = make_model("in place")
    expected = score_model("in place")
    draw_plane.cache_clear()
    with torch.inference_mode():
        assert score_all("in place", model) == expected
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        assert score_all("in place", model) == expected
        assert not torch.is_grad_enabled()
    assert score_all("in place", model) == expected


# ------------------------------------------------------------------------------------------------------------ precision


def test_double_precision_gives_the_same_score_twice():
    """The circle of inputs is stored in this precision, and an in-place network must not change it."""
    assert score_model_in_double.__wrapped__("in place") == score_model_in_double.__wrapped__(
        "in place"
    )


@cache
def score_model_in_double(kind: str) -> dict[str, float | str]:
    """Return the results of all proxies for a model in float64. They are shared: do not change them."""
    batch = make_batch(kind)
    probe = Probe(make_model(kind).double(), Batch(batch.inputs.double(), batch.targets))
    return {name: score_or_reason(name, probe) for name in NAMES}


TOLERANCES = {  # relative differences, and the reasons
    "gradsign": (1e-2, "counts signs of gradients; those of key biases in attention are rounding"),
    "zico": (1e-2, "two batches: divides by |g1 - g2| / 2, which may be rounding"),
    "harmonic_mean": (1e-2, "contains zico"),
}


# `random` depends on the bits of the weights.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "random"])
def test_single_and_double_precision_agree(name):
    """The networks have no ReLU, because rounding can switch one. The relative tolerance is 1e-4."""
    default = TOLERANCES.get(name.partition("(")[0], (1e-4, ""))
    tolerance, _ = TOLERANCES.get(name, default)
    for kind in ("smooth", "vit"):
        single = score_model(kind)[name]
        double = score_model_in_double(kind)[name]
        if isinstance(double, float):
            assert single == pytest.approx(double, rel=tolerance), kind
        else:
            assert single == double, kind
        assert single != 0


# -------------------------------------------------------------------------------------------------------------- samples


def test_every_proxy_reads_as_many_samples_as_configured():
    """A larger batch gives the same score."""
    model = make_model("smooth")
    batch = make_batch("smooth", 9)
    for name in NAMES:
        if "smooth" in REASONS.get(name, {}):
            continue
        proxy = load_proxy(name)
        few = proxy.with_options(samples=9)
        value = few(Probe(model, batch))
        assert value == few(Probe(model, make_batch("smooth", 11))), name
        assert few.samples == 9
        assert ("samples=9" in few.label) == (proxy.samples != 9)
        if proxy.samples > 9:
            # A proxy that wants more samples than there are reads all of them.
            assert value == proxy(Probe(model, batch)), name


def test_the_number_of_samples_can_be_part_of_the_name():
    proxy = load_proxy("naswot(samples=5,variant=published)")
    assert proxy.samples == 5
    assert dict(proxy.options) == {"variant": "published"}
    model = make_model("cnn")
    expected = load_proxy("naswot(variant=published)")(Probe(model, make_batch("cnn", 5)))
    assert proxy(Probe(model, make_batch("cnn"))) == expected


# ------------------------------------------------------------------------------------------------------------- metadata


@pytest.mark.parametrize("proxy", PROXIES.values(), ids=list(PROXIES))
def test_every_proxy_has_complete_metadata(proxy: Proxy):
    assert proxy.name == proxy.function.__name__.rstrip("_")
    assert proxy.about.endswith(".")
    assert "\n" not in proxy.about
    assert proxy.aspects
    assert set(proxy.needs) <= {"data", "labels", "gradients"}
    assert proxy.samples >= 1
    assert proxy.cost >= 0
    assert proxy.layers
    assert proxy.measure.partition("+")[0] == f"{proxy.name}@{proxy.version}"
    assert proxy.formula or proxy.aspects in ("size", "nothing")


def test_a_proxy_depends_on_labels_exactly_if_it_declares_them():
    """Other labels change the score of a proxy that needs labels, and of no other."""
    model = make_model("cnn")
    batch = make_batch("cnn")
    other = Probe(model, Batch(batch.inputs, batch.targets.roll(1)))
    for name in NAMES:
        result = score_or_reason(name, other)
        needs_labels = "labels" in load_proxy(name).needs
        assert (result != score_model("cnn")[name]) == needs_labels, name


@pytest.mark.parametrize(
    ("needs", "read", "reason"),
    [
        (("data",), lambda probe: probe.jacobian, "probe.jacobian, which needs gradients"),
        (("data", "gradients"), lambda probe: probe.loss, "probe.loss, which needs labels"),
        (("data",), lambda probe: probe.gradients, "which needs labels and gradients"),
        (("data", "gradients"), lambda probe: probe.kernel("loss"), 'kernel("loss"), which needs labels'),
        (("data",), lambda probe: probe.parts(2)[1].loss, "probe.loss, which needs labels"),
        (("data",), lambda probe: probe.batch.targets, "probe.batch.targets, which needs labels"),
        (("data",), lambda probe: probe.first(2).batch.targets, "probe.batch.targets, which needs labels"),
        (("data",), lambda probe: probe.with_inputs(probe.batch.inputs).loss, "probe.loss, which needs labels"),
        (
            ("data", "labels"),
            lambda probe: probe.with_gaussian_weights(probe.generator("test")).gradients,
            "probe.gradients, which needs gradients",
        ),
    ],
)  # fmt: skip
def test_a_measurement_that_is_not_declared_is_refused(needs, read, reason):
    @ut.proxy(needs=needs, samples=4)
    def careless(probe):
        """A score that reads more than it declares."""
        read(probe)
        return 1.0

    with pytest.raises(UsageError, match=re.escape(reason)) as caught:
        careless(Probe(make_model("cnn"), make_batch("cnn")))
    declared = ("data", *(need for need in ("labels", "gradients") if need in str(caught.value)))
    assert str(caught.value).startswith("careless reads ")
    for need in declared:
        assert f'"{need}"' in str(caught.value)


def test_the_inputs_of_a_batch_need_no_declaration():
    batch = make_batch("cnn")

    @ut.proxy(needs=("data",), samples=4)
    def mean_input(probe):
        """Mean of the inputs times their number."""
        return float(probe.batch.inputs.mean()) * len(probe.batch)

    expected = float(batch.inputs[:4].mean()) * 4
    assert mean_input(Probe(make_model("cnn"), batch)) == pytest.approx(expected)


def test_the_key_of_a_combination_contains_the_versions_of_its_parts(monkeypatch):
    """Otherwise records of an earlier version of a part would be reused."""
    assert load_proxy("harmonic_mean(a=trace,b=zico)").measure == "harmonic_mean(a=trace,b=zico)@1"
    assert (
        load_proxy("harmonic_mean(a=meco,b=zico)").measure
        == "harmonic_mean(a=meco,b=zico)@1+meco@3"
    )
    # The parts may also be defaults.
    assert load_proxy("harmonic_mean").measure == "harmonic_mean@1+zen@3"
    # A part may combine other proxies.
    nested = load_proxy("harmonic_mean(a=harmonic_mean)")
    assert nested.measure == "harmonic_mean(a=harmonic_mean)@1+zen@3"
    monkeypatch.setitem(PROXIES._members, "trace", replace(PROXIES["trace"], version=3))
    assert load_proxy("hnas").measure == "hnas@1+trace@3"
    assert load_proxy("hnas(metric=knas)").measure == "hnas(metric=knas)@1"


@pytest.mark.parametrize("name", [name for name in PROXIES if PROXIES[name].parts])
def test_the_key_of_an_aggregate_contains_the_versions_of_its_parts(name, monkeypatch):
    before = load_proxy(name).measure
    for part in list_members(PROXIES[name]):
        newer = replace(PROXIES[part.name], version=part.version + 1)
        monkeypatch.setitem(PROXIES._members, part.name, newer)
        measure = load_proxy(name).measure
        assert f"+{part.name}@{part.version + 1}" in measure
        assert remove_version(measure) == name
        assert measure != before
        before = measure


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        ("dextr@1", "dextr"),
        ("dextr(variant=published)@12", "dextr(variant=published)"),
        ("harmonic_mean(a=meco)@1+meco@2+zen@2", "harmonic_mean(a=meco)"),
        ("me@home@1-5e884898", "me@home"),
        ("loss", "loss"),
    ],
)
def test_the_name_of_a_measure_has_no_version(measure, name):
    assert remove_version(measure) == name


def test_a_copy_of_a_model_has_the_same_scores():
    assert score_all("vit", deepcopy(make_model("vit"))) == score_model("vit")
