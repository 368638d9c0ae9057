"""Per-sample gradients of whole networks and their Gram matrices, compared with the loops of `loops.py` in float64.

Without batch norm the three readings are equal: the gradient of each sample as if it were alone.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import (
    LOOPS,
    Net,
    assert_same_kernel,
    check_kernels,
    compute_alone,
    cross_entropy,
    differentiate_by_sample,
    list_norms,
    make_batch,
    randomise,
    select_labels,
    sum_outputs,
)
from tests.probe.networks import (
    FALLBACKS,
    FLAT,
    IMAGES,
    NETWORKS,
    NORMED,
    TOKENS,
    freeze,
    make_normed,
    make_standardised,
    make_transformer,
)
from untrained.errors import Unscorable
from untrained.probe import Probe, kernels
from untrained.probe.kernels import Kernel
from untrained.types import Batch

P = nn.Parameter
READINGS = ["cross", "fixed", "exact"]


@pytest.fixture
def fallbacks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one per computation sample by sample."""
    calls: list[int] = []
    usual = kernels._compute_sample_by_sample

    def count_calls(*args: Any) -> Kernel:
        calls.append(1)
        return usual(*args)

    monkeypatch.setattr(kernels, "_compute_sample_by_sample", count_calls)
    return calls


def compute_kernel(
    model: nn.Module, data: Batch, reading: str = "cross", outputs: str = "sum", over: str = "all"
) -> Kernel:
    return Probe(model, data).kernel(outputs, over, reading)


# ---------------------------------------------------------------------------------------------------- in one backward


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("case", NETWORKS)
def test_without_batch_norm_every_reading_equals_the_gradient_of_each_sample(
    case, reading, fallbacks
):
    make, shape = NETWORKS[case]
    model = randomise(make())
    data = make_batch(*shape)
    check_kernels(model, data, reading)
    assert len(fallbacks) == (2 if reading == "exact" else 0)


@pytest.mark.parametrize("padding_idx", [None, 0])
@pytest.mark.parametrize("reading", READINGS)
def test_an_embedding_may_be_tied_with_the_head(reading, padding_idx, fallbacks):
    """The padding row gets no gradient from the embedding, but one from the head."""

    def run(net: Any, x: Tensor) -> Tensor:
        return F.linear(net.table(x).cumsum(1).tanh(), net.table.weight, net.bias).sum(1)

    model = randomise(Net(run, table=nn.Embedding(7, 5, padding_idx), bias=P(torch.empty(7))))
    index = torch.tensor([[0, 3, 3], [2, 0, 5], [6, 5, 1]])
    data = Batch(index, torch.zeros(3, dtype=torch.long))
    check_kernels(model, data, reading)
    assert len(fallbacks) == (2 if reading == "exact" else 0)


def test_a_kernel_can_be_limited_to_layers():
    """Layers are convolutions, linear layers and attention, but neither norms nor positions."""
    model = randomise(make_transformer())
    data = make_batch(*TOKENS)
    rows = compute_alone(model, data)
    parts = ("self_attn.in_proj_", "self_attn.out_proj.", "linear1.", "linear2.")
    names = {f"layer.{part}{kind}" for part in parts for kind in ("weight", "bias")} | {
        "head.weight",
        "head.bias",
    }
    assert len(rows) > len(names)
    K = compute_kernel(model, data, "fixed", over="layers")
    assert_same_kernel(K, {name: rows[name] for name in names}, model)
    G = torch.cat([rows[name].flatten(1) for name in ("head.weight", "layer.linear1.bias")], 1)
    torch.testing.assert_close(K.gram({"head.weight", "layer.linear1.bias"}), G @ G.mT)


# ------------------------------------------------------------------------------------------------------------- fallback


@pytest.mark.parametrize("reading", ["cross", "fixed"])
@pytest.mark.parametrize("case", FALLBACKS)
def test_functions_without_a_rule_are_computed_sample_by_sample(case, reading, fallbacks):
    make, shape = FALLBACKS[case]
    model = randomise(make())
    data = make_batch(*shape)
    check_kernels(model, data, reading)
    assert fallbacks == [1, 1]


def test_with_batch_norm_functions_without_a_rule_are_unsupported_in_reading_cross(fallbacks):
    model = randomise(make_standardised(nn.BatchNorm2d(4)))
    data = make_batch(*IMAGES)
    with pytest.raises(
        Unscorable,
        match=r"unsupported: no per-sample gradient of a parameter used by .*(mean|__sub__)",
    ):
        compute_kernel(model, data, "cross")
    assert not fallbacks
    for reading in ("fixed", "exact"):
        check_kernels(model, data, reading, LOOPS[reading])
    assert fallbacks == [1] * 4


@pytest.mark.parametrize("reading", READINGS)
def test_an_output_that_depends_on_no_parameter_is_disconnected(reading):
    cut = randomise(Net(lambda net, x: net.a(x).detach() + x, a=nn.Linear(6, 6)))
    with pytest.raises(Unscorable, match="disconnected"):
        compute_kernel(cut, make_batch(*FLAT), reading)
    with pytest.raises(Unscorable, match="no trainable parameter"):
        compute_kernel(
            freeze(randomise(nn.Linear(6, 3)), "weight", "bias"), make_batch(*FLAT), reading
        )


# --------------------------------------------------------------------------------------------- readings of batch norm


@pytest.mark.parametrize("outputs", ["sum", "label", "loss"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("case", NORMED)
def test_with_batch_norm_each_reading_equals_its_definition(case, reading, outputs, fallbacks):
    make, shape = NORMED[case]
    model = randomise(make())
    data = make_batch(*shape)
    scalars = {"sum": sum_outputs, "label": select_labels, "loss": cross_entropy}[outputs]
    assert_same_kernel(
        compute_kernel(model, data, reading, outputs), LOOPS[reading](model, data, scalars), model
    )
    assert len(fallbacks) == (reading == "exact")


def test_the_readings_differ_where_batch_norm_couples_samples():
    """So the test above does not check the same thing three times. `fixed` leaves part of the gradient out."""
    model = randomise(make_normed())
    data = make_batch(*IMAGES)
    rows = {reading: loop(model, data) for reading, loop in LOOPS.items()}
    first = {reading: gradients["0.weight"].flatten(1) for reading, gradients in rows.items()}
    for a, b in (("cross", "fixed"), ("fixed", "exact"), ("exact", "cross")):
        assert float((first[a] - first[b]).norm() / first[a].norm()) > 1e-2
    torch.testing.assert_close(first["cross"].sum(0), first["exact"].sum(0))


def test_the_mode_of_the_network_does_not_matter():
    model = randomise(make_normed())
    data = make_batch(*IMAGES)
    for module in list_norms(model):
        module.running_mean.normal_(generator=torch.Generator().manual_seed(3))
    for reading in READINGS:
        trained, evaluated = (
            compute_kernel(model.train(mode), data, reading).gram() for mode in (True, False)
        )
        assert torch.equal(trained, evaluated)


# -------------------------------------------------------------------------------------------------------------- scalars


@pytest.mark.parametrize("reading", READINGS)
def test_all_outputs_are_the_sum_over_outputs(reading):
    model = randomise(make_normed())
    data = make_batch(*IMAGES)
    K = compute_kernel(model, data, reading, "all")
    loops = [LOOPS[reading](model, data, lambda out, _, o=o: out[:, o]) for o in range(3)]
    for name, norms in K.norms.items():
        torch.testing.assert_close(
            norms, sum(rows[name].flatten(1).square().sum(1) for rows in loops)
        )
    assert K.trace() == pytest.approx(
        sum(float(g.square().sum()) for rows in loops for g in rows.values()), rel=1e-10
    )


@pytest.mark.parametrize("reading", READINGS)
def test_agreement_counts_how_often_signs_of_loss_gradients_agree(reading):
    """sum over entries of |sum over samples of sign g|"""
    model = randomise(make_normed())
    data = make_batch(*IMAGES)
    rows = LOOPS[reading](model, data, cross_entropy)
    expected = {name: float(g.sign().sum(0).abs().sum()) for name, g in rows.items()}
    assert {
        name: float(n) for name, n in compute_kernel(model, data, reading, "loss").agreement.items()
    } == expected
    # The shares of agreeing signs differ between parameters.
    assert len({total / rows[name][0].numel() for name, total in expected.items()}) > 3
    assert compute_kernel(model, data, reading, "sum").agreement == {}


@pytest.mark.parametrize("loss", ["mse", "bce"])
def test_the_loss_of_a_sample_is_the_mean_over_its_entries(loss):
    model = randomise(nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 2)))
    data = make_batch(*FLAT)
    data = Batch(
        data.inputs,
        torch.rand(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
    )

    def scalars(out: Tensor, y: Tensor) -> Tensor:
        entries = (
            (out - y) ** 2
            if loss == "mse"
            else -(y * out.sigmoid().log() + (1 - y) * (1 - out.sigmoid()).log())
        )
        return entries.mean(1)

    assert_same_kernel(
        Probe(model, data, loss=loss).kernel("loss", "all", "fixed"),
        compute_alone(model, data, scalars),
        model,
    )


def test_a_kernel_is_computed_once():
    model = randomise(make_normed())
    data = make_batch(*IMAGES)
    probe = Probe(model, data)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    first = [probe.kernel("label", "layers", reading) for reading in READINGS]
    before = len(calls)
    assert all(
        probe.kernel("label", "layers", reading) is K
        for reading, K in zip(READINGS, first, strict=True)
    )
    assert len(calls) == before == 2  # the batch once for all readings, and a few samples


def test_the_devices_whose_random_state_is_kept_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without such a list, torch warns on a machine with several GPUs."""
    requested: list[Any] = []
    fork_rng = torch.random.fork_rng

    def record_devices(devices: Any = None, *args: Any, **kwargs: Any) -> Any:
        requested.append(devices)
        return fork_rng(devices, *args, **kwargs)

    monkeypatch.setattr(torch.random, "fork_rng", record_devices)
    probe = Probe(nn.Linear(3, 2), Batch(torch.randn(4, 3), torch.tensor([0, 1, 0, 1])))
    probe.kernel("label")
    assert requested
    assert None not in requested


def test_the_naive_loop_computes_the_jacobian():
    """Compare the naive loop with a formula: for the outputs tanh(W x), g_i = (1 - tanh^2) x_i^T."""
    W = torch.randn(2, 3, dtype=torch.float64)
    x = make_batch(4, 3).inputs
    model = nn.Linear(3, 2, bias=False, dtype=torch.float64)
    model.weight = P(W)
    rows = differentiate_by_sample(model, model(x).tanh().sum(1))["weight"]
    torch.testing.assert_close(rows, (1 - (x @ W.T).tanh() ** 2)[:, :, None] * x[:, None])
