"""Dextr compared with the authors' code on every golden architecture.

The two halves of the published score are compared on the authors' network F. On our network A they
are compared with an independent computation: singular values by SVD of outputs, derivatives by
reverse-over-reverse autograd.
"""

from collections.abc import Callable
from math import isnan, log1p

import pytest
import torch
from torch import Tensor, nn

from tests.golden.reference import NetworkF, build_network_a, load_inputs, read_number
from tests.golden.scores import CASES, MARKS
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.circle import Motion, measure_by_reverse_mode, measure_by_taylor_mode
from untrained.probe.jets import Jet
from untrained.proxies import dextr, load_proxy
from untrained.types import Batch

pytestmark = MARKS
ids = [text for text, _ in CASES]


def make_image_batch() -> Batch:
    return Batch(load_inputs()["x"][:1], load_inputs()["y"][:1])


def load_plane(side: int) -> tuple[Tensor, Tensor]:
    basis = load_inputs()[f"basis{side}"]
    return basis[:, 0].reshape(1, 3, side, side), basis[:, 1].reshape(1, 3, side, side)


def measure_motion(
    measure: Callable[..., Motion], probe: Probe, circle: tuple[Tensor, Tensor]
) -> Motion:
    """Measure output, velocity and acceleration along a circle, by one of two modes."""
    with probe.scoring_mode():
        return measure(probe.model, *circle)


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
def test_the_sum_of_inverse_condition_numbers_equals_the_published_one(text, metrics):
    probe = Probe(NetworkF(text), make_image_batch())
    assert sum(f.calls for f in probe.features) == metrics["F.dextr.script_n_hook_calls"]
    # Disconnected networks have a number too, as in the authors' code.
    A = dextr.log_conditions(probe, "published")
    assert pytest.approx(log1p(metrics["F.dextr.script_sum_inv_cond"]), rel=1e-3) == A


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
@pytest.mark.parametrize(
    ("side", "key"), [(64, "F.dextr.script_kappa_64"), (32, "F.dextr.measure_kappa_32_b1")]
)
def test_the_curvature_equals_the_published_one(text, metrics, side, key):
    """Near the kinks of a deep ReLU network the last bit of a float32 convolution matters.

    That bit depends on the machine and its threads. So our value must always equal reverse mode on
    this machine. It must equal the published value if reverse mode, which is the authors' method,
    reproduces that value here.
    """
    probe = Probe(NetworkF(text), make_image_batch())
    expected = read_number(metrics[key])
    coordinates = load_inputs()["coords"]
    _, v, a = measure_motion(measure_by_taylor_mode, probe, load_plane(side))
    if isnan(expected):
        with pytest.raises(Unscorable, match="disconnected"):
            dextr.curvature(v[coordinates], a[coordinates])
        return
    ours = float(dextr.curvature(v[coordinates], a[coordinates]))
    _, v, a = measure_motion(measure_by_reverse_mode, probe, load_plane(side))
    reverse = float(dextr.curvature(v[coordinates], a[coordinates]))
    assert ours == pytest.approx(reverse, rel=1e-3)
    if reverse != pytest.approx(expected, rel=1e-3):
        pytest.skip("reverse mode rounds differently on this machine than on that of the authors")
    assert ours == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("text", "metrics"), CASES, ids=ids)
def test_both_halves_agree_with_independent_computations_on_our_network(text, metrics):
    model = build_network_a(text).double()
    batch = Batch(load_inputs()["x"][:1].double(), load_inputs()["y"][:1])
    probe = Probe(model, batch)
    ratios = compute_svd_ratios(model, batch.inputs)
    assert dextr.log_conditions(probe, "published") == pytest.approx(log1p(sum(ratios)), rel=1e-6)
    u1, u2 = (u.double() for u in load_plane(32))
    coordinates = [0, 4, 9]
    v, a = differentiate_twice(model, u1, u2, coordinates)
    _, ours_v, ours_a = (
        row[coordinates] for row in measure_motion(measure_by_taylor_mode, probe, (u1, u2))
    )
    torch.testing.assert_close(ours_v, v, rtol=1e-9, atol=1e-9 * float(v.norm()))
    torch.testing.assert_close(ours_a, a, rtol=1e-8, atol=1e-8 * float(a.norm()))


def compute_svd_ratios(model: nn.Module, x: Tensor) -> list[float]:
    """Return sigma_min / sigma_max of the first sample of each module's output, by SVD."""
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


def differentiate_twice(
    model: nn.Module, u1: Tensor, u2: Tensor, coordinates: list[int]
) -> tuple[Tensor, Tensor]:
    """Return velocity and acceleration of some outputs by two passes of reverse mode each."""
    t = torch.zeros((), dtype=u1.dtype, requires_grad=True)
    out = model.train()(u1 * t.cos() + u2 * t.sin()).flatten()
    first = [torch.autograd.grad(out[i], t, create_graph=True)[0] for i in coordinates]
    second = [torch.autograd.grad(d, t, retain_graph=True)[0] for d in first]
    return torch.stack(first).detach(), torch.stack(second)


def test_published_nans_are_failures_of_ours():
    disconnected = [text for text, m in CASES if isnan(read_number(m["F.dextr.script_kappa_64"]))]
    assert disconnected
    for text in disconnected:
        with pytest.raises(Unscorable, match="disconnected"):
            load_proxy("dextr")(Probe(build_network_a(text), make_image_batch()))


def test_features_are_tensors_and_not_jets():
    assert not isinstance(
        Probe(build_network_a(ids[3]), make_image_batch()).features[0].tensor, Jet
    )
