"""Dextr against the authors' own code, on every golden architecture.

The authors' network is F; the two halves of the published score are compared there. On our network A they are compared
with an independent computation: singular values by SVD of hooked outputs, derivatives by reverse-over-reverse autograd.
"""

from collections.abc import Callable
from math import isnan, log1p

import pytest
import torch
from torch import Tensor, nn

from tests.golden.reference import NetworkF, inputs, network_a, number
from tests.golden.scores import CASES, MARKS
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.circle import Motion, measure_by_reverse_mode, measure_by_taylor_mode
from untrained.probe.jets import Jet
from untrained.proxies import dextr, load_proxy
from untrained.types import Batch

pytestmark = MARKS
ids = [text for text, _ in CASES]


def one_image() -> Batch:
    return Batch(inputs()["x"][:1], inputs()["y"][:1])


def golden_plane(side: int) -> tuple[Tensor, Tensor]:
    basis = inputs()[f"basis{side}"]
    return basis[:, 0].reshape(1, 3, side, side), basis[:, 1].reshape(1, 3, side, side)


def moved(how: Callable[..., Motion], probe: Probe, circle: tuple[Tensor, Tensor]) -> Motion:
    with probe.scoring_mode():
        return how(probe.model, *circle)


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
def test_the_sum_of_inverse_conditions_is_the_authors(text, metrics):
    probe = Probe(NetworkF(text), one_image())
    assert sum(f.calls for f in probe.features) == metrics["F.dextr.script_n_hook_calls"]
    A = dextr.log_conditions(
        probe, "published"
    )  # a number for disconnected networks too, as theirs
    assert pytest.approx(log1p(metrics["F.dextr.script_sum_inv_cond"]), rel=1e-3) == A


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
@pytest.mark.parametrize(
    ("side", "key"), [(64, "F.dextr.script_kappa_64"), (32, "F.dextr.measure_kappa_32_b1")]
)
def test_the_curvature_is_the_authors(text, metrics, side, key):
    """Near the kinks of a deep ReLU network the last bit of a float32 convolution decides, and that bit depends on the
    machine and its threads. So ours must equal reverse mode on this machine always, and the authors' value wherever
    reverse mode, which is their method, reproduces it here."""
    probe = Probe(NetworkF(text), one_image())
    expected, ten = number(metrics[key]), inputs()["coords"]
    _, v, a = moved(measure_by_taylor_mode, probe, golden_plane(side))
    if isnan(expected):
        with pytest.raises(Unscorable, match="disconnected"):
            dextr.curvature(v[ten], a[ten])
        return
    ours = float(dextr.curvature(v[ten], a[ten]))
    _, v, a = moved(measure_by_reverse_mode, probe, golden_plane(side))
    here = float(dextr.curvature(v[ten], a[ten]))
    assert ours == pytest.approx(here, rel=1e-3)
    if here != pytest.approx(expected, rel=1e-3):
        pytest.skip(
            "reverse mode itself rounds differently on this machine than where the golden value was printed"
        )
    assert ours == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
def test_on_our_network_both_halves_agree_with_independent_computations(text, metrics):
    model = network_a(text).double()
    batch = Batch(inputs()["x"][:1].double(), inputs()["y"][:1])
    probe = Probe(model, batch)
    ratios = svd_ratios(model, batch.inputs)
    assert dextr.log_conditions(probe, "published") == pytest.approx(log1p(sum(ratios)), rel=1e-6)
    u1, u2 = (u.double() for u in golden_plane(32))
    some = [0, 4, 9]
    v, a = reverse_over_reverse(model, u1, u2, some)
    _, ours_v, ours_a = (row[some] for row in moved(measure_by_taylor_mode, probe, (u1, u2)))
    torch.testing.assert_close(ours_v, v, rtol=1e-9, atol=1e-9 * float(v.norm()))
    torch.testing.assert_close(ours_a, a, rtol=1e-8, atol=1e-8 * float(a.norm()))


def svd_ratios(model: nn.Module, x: Tensor) -> list[float]:
    """sigma_min / sigma_max of the first sample of every module's output, one SVD a call."""
    ratios: list[float] = []

    def hook(module: nn.Module, args: object, output: Tensor) -> None:
        values = torch.linalg.svdvals(output[0].reshape(output.shape[1], -1))
        ratios.append(float(values[-1] / values[0]) if values[0] > 0 else 0.0)

    handles = [module.register_forward_hook(hook) for module in model.modules()]
    with torch.no_grad():
        model.train()(x)
    for handle in handles:
        handle.remove()
    return ratios


def reverse_over_reverse(
    model: nn.Module, u1: Tensor, u2: Tensor, some: list[int]
) -> tuple[Tensor, Tensor]:
    """Velocity and acceleration of some output coordinates, one after the other, the textbook way."""
    t = torch.zeros((), dtype=u1.dtype, requires_grad=True)
    out = model.train()(u1 * t.cos() + u2 * t.sin()).flatten()
    first = [torch.autograd.grad(out[i], t, create_graph=True)[0] for i in some]
    second = [torch.autograd.grad(d, t, retain_graph=True)[0] for d in first]
    return torch.stack(first).detach(), torch.stack(second)


def test_nan_cases_of_the_authors_are_failures_of_ours():
    disconnected = [text for text, m in CASES if isnan(number(m["F.dextr.script_kappa_64"]))]
    assert disconnected
    for text in disconnected:
        with pytest.raises(Unscorable, match="disconnected"):
            load_proxy("dextr")(Probe(network_a(text), one_image()))


def test_features_of_a_jet_are_never_kept():
    assert not isinstance(Probe(network_a(ids[3]), one_image()).features[0].tensor, Jet)
