"""One contract for every registered proxy and each of its choices: a finite score or a stated reason, the same twice,
whatever else was asked, and no trace. What has no score is in `test_failures.py`."""

import random
from contextlib import suppress
from copy import deepcopy
from functools import cache
from math import isfinite

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from tests.contracts.models import (
    MODELS,
    NAMES,
    REASONS,
    answer,
    answers,
    batch_for,
    batch_of,
    made,
)
from tests.contracts.trace import bits, changed, state
from untrained.probe import Probe
from untrained.probe.circle import draw_plane
from untrained.proxies import PROXIES, Proxy, load_proxy
from untrained.types import Batch


@cache
def known(kind: str) -> dict[str, float | str]:
    """What all proxies say of a model; read only."""
    return answers(kind, made(kind))


# ------------------------------------------------------------------------------------------------------------ the score


@pytest.mark.parametrize("name", NAMES)
def test_every_model_gets_a_finite_score_or_the_stated_reason(name):
    for kind in MODELS:
        said, reason = known(kind)[name], REASONS.get(name, {}).get(kind)
        if reason is None:
            assert isinstance(said, float), f"{kind}: {said}"
            assert isfinite(said), kind
        else:
            assert str(said).startswith(reason), kind


def test_reasons_are_of_proxies_and_models_that_exist():
    assert set(REASONS) <= set(NAMES)
    assert {kind for kinds in REASONS.values() for kind in kinds} <= set(MODELS)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n != "te_nas_regions"]
)  # which counts a region a sample on all of them
def test_a_proxy_tells_models_apart(name):
    """One that returned a constant would keep every other promise here."""
    scores = {known(kind)[name] for kind in MODELS if kind not in REASONS.get(name, {})}
    assert len(scores) > 1


# ------------------------------------------------------------------------------------------------------------ the trace


def test_the_trace_would_be_seen():
    """The looking glass itself: an ordinary forward and backward pass of a network in train mode changes all this."""
    model = made("cnn")
    before = state(model)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    random.random()
    np.random.rand()  # noqa: NPY002
    model[0].register_forward_hook(lambda *_: None)
    model[3].eval()
    seen = changed(before, state(model))
    assert {"torch", "numpy", "python", "0: hooks", "3: mode", "0.weight: gradient"} <= seen
    assert {"1.running_mean: tensor", "1.num_batches_tracked: tensor"} <= seen
    assert "0.weight: tensor" not in seen


@pytest.mark.parametrize("kind", MODELS)
def test_a_proxy_leaves_no_trace(kind):
    model, batch = made(kind), batch_of(kind)
    before, data = state(model), (bits(batch.inputs), bits(batch.targets))
    probe = Probe(model, batch)
    for name in NAMES:
        answer(name, probe)
        assert changed(before, state(model)) == set(), name
        assert (bits(batch.inputs), bits(batch.targets)) == data, name


class Boom(Exception):  # noqa: N818 - no error of ours
    pass


class Raises(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error("not today")


@pytest.mark.parametrize("error", [Boom, RuntimeError, KeyboardInterrupt])
def test_a_network_that_raises_is_heard_and_left_without_a_trace(error):
    """Only who never runs the network has something to say of it."""
    model = made("mixed modes").insert(6, Raises(error))
    before, quiet = state(model), set()
    for name in NAMES:
        with suppress(error):
            load_proxy(name)(Probe(model, batch_of("cnn")))
            quiet.add(name)
        assert changed(before, state(model)) == set(), name
    assert quiet == {"params", "l2_norm", "random"}
    assert not torch_module._global_forward_hooks


# ------------------------------------------------------------------------------------------------------ the same answer


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_seed_gives_the_same_score(kind):
    """Bit for bit, whatever was drawn from the global generators in between, and whatever mode the model came in."""
    torch.rand(7)
    random.random()
    draw_plane.cache_clear()
    assert answers(kind, made(kind).eval()) == known(kind)


def test_another_seed_changes_only_what_is_drawn():
    other = answers(
        "nasbench201",
        made("nasbench201"),
        seed=1,
        names=[name for name in NAMES if "exact" not in name],
    )
    differ = {name for name, said in other.items() if said != known("nasbench201")[name]}
    drawing = {
        "dextr",
        "dextr_curvature",
        "dextr_opt",
        "meco_opt",
        "az_trainability",
        "zen",
        "harmonic_mean",
        "random",
    }
    assert {name.partition("(")[0] for name in differ} == drawing


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_proxies_on_one_probe_do_not_disturb_each_other(kind):
    """All on one probe, in both orders, as each alone on a probe with its own number of samples, bit for bit. One
    backward a sample is left to the small one."""
    proxies = {name: load_proxy(name) for name in NAMES if kind == "mlp" or "exact" not in name}
    most = max(proxy.samples for proxy in proxies.values())
    model = made(kind)
    alone = {
        name: answer(name, Probe(model, batch_for(kind, proxy))) for name, proxy in proxies.items()
    }
    for order in (1, -1):
        probe = Probe(model, batch_of(kind, most))
        assert {name: answer(name, probe) for name in list(proxies)[::order]} == alone


def test_a_caller_in_inference_mode_or_without_gradients_gets_the_same_score():
    """The batch is made in that mode too."""
    model, expected = made("in place"), known("in place")
    draw_plane.cache_clear()
    with torch.inference_mode():
        assert answers("in place", model) == expected
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        assert answers("in place", model) == expected
        assert not torch.is_grad_enabled()
    assert answers("in place", model) == expected


# ------------------------------------------------------------------------------------------------------------ precision


def test_double_precision_gives_the_same_score_twice():
    """In the precision in which the circle is kept, an in-place network must not write into it."""
    assert precise.__wrapped__("in place") == precise.__wrapped__("in place")


@cache
def precise(kind: str) -> dict[str, float | str]:
    """What all proxies say of a model in float64; read only."""
    batch = batch_of(kind)
    probe = Probe(made(kind).double(), Batch(batch.inputs.double(), batch.targets))
    return {name: answer(name, probe) for name in NAMES}


LOOSER = {  # relative difference allowed, and why
    "gradsign": (
        1e-2,
        "counts signs, some of them of gradients that are rounding: biases of the keys of attention",
    ),
    "zico": (1e-2, "two batches: divides by |g1 - g2| / 2, which may be rounding"),
    "harmonic_mean": (1e-2, "holds zico"),
}


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name != "random"]
)  # which is drawn by the bits of weights
def test_single_and_double_precision_agree(name):
    """On networks without ReLU, to 1e-4 relative: elsewhere a rounding may put a neuron on the other side."""
    tolerance, _ = LOOSER.get(name) or LOOSER.get(name.partition("(")[0], (1e-4, ""))
    for kind in ("smooth", "vit"):
        single, double = known(kind)[name], precise(kind)[name]
        assert single == (
            pytest.approx(double, rel=tolerance) if isinstance(double, float) else double
        ), kind
        assert single != 0


# -------------------------------------------------------------------------------------------------------------- samples


def test_every_proxy_looks_at_as_many_samples_as_it_says():
    """With more than it says, or with all it says, it gives the same; `samples` says otherwise."""
    model, batch = made("smooth"), batch_of("smooth", 9)
    for name in (name for name in NAMES if "smooth" not in REASONS.get(name, {})):
        proxy = load_proxy(name)
        few = proxy.configured(samples=9)
        value = few(Probe(model, batch))
        assert value == few(Probe(model, batch_of("smooth", 11))), name
        assert few.samples == 9
        assert ("samples=9" in few.label) == (proxy.samples != 9)
        if proxy.samples > 9:
            assert value == proxy(Probe(model, batch)), (
                name
            )  # asking for more than the data hold gives all of them


def test_a_number_of_samples_written_in_the_name_is_heard():
    found = load_proxy("naswot(samples=5,variant=published)")
    assert (found.samples, dict(found.options)) == (5, {"variant": "published"})
    model = made("cnn")
    assert found(Probe(model, batch_of("cnn"))) == load_proxy("naswot(variant=published)")(
        Probe(model, batch_of("cnn", 5))
    )


# ---------------------------------------------------------------------------------------------------------------- facts


@pytest.mark.parametrize("proxy", PROXIES.values(), ids=list(PROXIES))
def test_every_proxy_states_its_facts(proxy: Proxy):
    assert proxy.name == proxy.function.__name__.rstrip("_")
    assert proxy.about.endswith(".")
    assert "\n" not in proxy.about
    assert proxy.measures
    assert set(proxy.needs) <= {"data", "labels", "gradients"}
    assert proxy.samples >= 1
    assert proxy.cost >= 0
    assert proxy.layers
    assert proxy.measure == f"{proxy.name}@{proxy.version}"
    assert proxy.formula or proxy.measures in ("size", "nothing")


def test_a_proxy_that_needs_no_labels_does_not_read_them():
    """Other labels, the same score; and who says it needs them hears of it."""
    model, batch = made("cnn"), batch_of("cnn")
    other = Probe(model, Batch(batch.inputs, batch.targets.roll(1)))
    for name in NAMES:
        said = answer(name, other)
        assert (said != known("cnn")[name]) == ("labels" in load_proxy(name).needs), name


def test_copies_of_a_model_score_as_the_model():
    assert answers("vit", deepcopy(made("vit"))) == known("vit")
