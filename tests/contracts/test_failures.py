"""Failures of proxies have the right kind: disconnected networks, NaN, and missing layers."""

from math import isfinite

import pytest
import torch
from torch import Tensor, nn

from tests.contracts.models import (
    NAMES,
    REASONS,
    SelfAttention,
    make_batch,
    make_model,
    make_nasbench201,
    score_or_reason,
)
from tests.contracts.trace import capture_state, list_changes
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies import PROXIES, load_proxy
from untrained.types import Batch

DISCONNECTED = {
    "all none": "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    "output cut off": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|none~0|none~1|none~2|",
    "dead node": "|none~0|+|none~0|nor_conv_3x3~1|+|none~0|skip_connect~1|nor_conv_1x1~2|",
}
SIZES = {"params", "flops", "depth", "l2_norm", "random"}  # they score any network


def read_kind(result: float | str) -> str:
    """Return "score", or the kind of a failure."""
    return "score" if isinstance(result, float) else result.partition(":")[0]


@pytest.mark.parametrize("cell", DISCONNECTED)
def test_a_disconnected_cell_is_a_failure_of_all_proxies_but_sizes(cell):
    """`dss` fails before, because there is no attention."""
    probe = Probe(make_nasbench201(DISCONNECTED[cell]), make_batch("nasbench201"))
    results = {name: score_or_reason(name, probe) for name in NAMES}
    expected = dict.fromkeys(NAMES, "disconnected")
    expected |= dict.fromkeys(SIZES, "score")
    expected["dss"] = "unsupported"
    assert {name: read_kind(result) for name, result in results.items()} == expected
    assert all(isfinite(results[name]) for name in SIZES)


@pytest.mark.parametrize("samples", [1, 2])
def test_a_disconnected_network_is_recognised_with_one_or_two_samples(samples):
    """Batch norm, condition numbers and comparisons of batches have little data then."""
    model = make_nasbench201(DISCONNECTED["output cut off"])
    for name in (
        "dextr",
        "dextr_conditions",
        "meco",
        "naswot",
        "swap",
        "grad_norm",
        "synflow",
        "zen",
        "jacob_cov",
    ):
        probe = Probe(model, make_batch("nasbench201", samples))
        assert read_kind(score_or_reason(name, probe)) == "disconnected", name


class Constant(nn.Module):
    """Has layers, a nonlinearity and attention, but its output does not depend on them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 8, 8)
        self.attention = SelfAttention(4, 2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.head(self.attention(self.stem(x).flatten(2).mT).tanh().mean(1))
        return torch.ones(len(x), 5, dtype=x.dtype)


def test_a_constant_output_is_disconnected():
    probe = Probe(Constant(), make_batch("cnn"))
    results = {name: read_kind(score_or_reason(name, probe)) for name in NAMES}
    assert {kind for name, kind in results.items() if load_proxy(name).needs} == {"disconnected"}
    assert {results[name] for name in SIZES} == {"score"}


class NotANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


@pytest.mark.parametrize("place", [1, 7, 10], ids=["first feature", "pooled", "output"])
def test_a_network_with_nans_never_gets_a_finite_score(place):
    """Every proxy that reads data returns NaN or fails with the kind `nan`."""
    probe = Probe(make_model("cnn").insert(place, NotANumber()), make_batch("cnn"))
    for name in NAMES:
        if not load_proxy(name).needs or name == "dss":
            continue
        result = score_or_reason(name, probe)
        if isinstance(result, float):
            assert not isfinite(result), name
        else:
            assert read_kind(result) == "nan", f"{name}: {result}"


# ------------------------------------------------------------------------------------- missing layers and parameters


def test_without_a_nonlinearity_only_proxies_of_their_inputs_fail():
    need_nonlinearity = set()
    for name, kinds in REASONS.items():
        if "no pointwise" in kinds.get("linear", ""):
            need_nonlinearity.add(name.partition("(")[0])
    assert need_nonlinearity == {
        "naswot",
        "swap",
        "swap_reg",
        "te_nas_regions",
        "hnas",
        "wrcor",
    }


def test_a_network_of_norms_only_has_no_layers_to_prune():
    model = nn.Sequential(nn.Flatten(), nn.LayerNorm(6), nn.Tanh())
    results = {name: score_or_reason(name, Probe(model, make_batch("mlp"))) for name in NAMES}
    message = "no convolution and no linear layer"
    without_layers = {name for name, result in results.items() if message in str(result)}
    pruning = {
        "grad_norm",
        "snip",
        "plain",
        "grasp",
        "fisher",
        "l2_norm",
        "zico",
        "sigeo",
        "trace",
        "knas",
        "synflow",
    }
    assert pruning <= without_layers
    assert all(
        isinstance(results[name], float)
        for name in ("grad", "swap", "nasi_samples", "dextr", "ntk_trace", "depth")
    )


def test_a_network_without_trainable_parameters_has_no_gradient():
    model = make_model("cnn").requires_grad_(False)
    results = {name: score_or_reason(name, Probe(model, make_batch("cnn"))) for name in NAMES}
    for name in ("grad", "trace", "gradsign", "te_nas_condition", "zico", "fisher", "nasi_batch"):
        assert results[name] == "unsupported: the network has no trainable parameter", name
    for name in ("dextr", "naswot", "meco", "synflow", "zen", "jacob_cov", "az_trainability"):
        assert isinstance(results[name], float), f"{name}: {results[name]}"


def test_proxies_that_move_inputs_along_a_circle_fail_for_words():
    model = nn.Sequential(
        nn.Embedding(9, 6), nn.Linear(6, 8), nn.ReLU(), nn.Flatten(), nn.Linear(40, 5)
    )
    words = torch.randint(9, (12, 5), generator=torch.Generator().manual_seed(0))
    probe = Probe(model, Batch(words, make_batch("cnn").targets))
    results = {name: score_or_reason(name, probe) for name in NAMES}
    need_real_inputs = set()
    for name, result in results.items():
        if "real-valued" in str(result):
            need_real_inputs.add(name.partition("(")[0])
    assert need_real_inputs == {
        "dextr",
        "dextr_curvature",
        "dextr_opt",
        "jacob_cov",
        "epe_nas",
        "synflow",
        "logsynflow",
        "zen",
        "dss",
        "az_expressivity",
        "az_progressivity",
        "az_trainability",
        "harmonic_mean",
        "hnas",
    }
    for name, result in results.items():
        if name.partition("(")[0] not in need_real_inputs:
            assert isinstance(result, float), f"{name}: {result}"
            assert isfinite(result), name


@pytest.mark.parametrize(
    "norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
)
def test_parametrised_weights_give_a_score_or_a_failure(norm):
    """With weight norm and spectral norm a layer has no weight to prune, but outputs and gradients."""
    model = nn.Sequential(norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 5))
    before = capture_state(model)
    probe = Probe(model, make_batch("mlp"))
    results = {name: score_or_reason(name, probe) for name in NAMES}
    assert list_changes(before, capture_state(model)) == set()
    assert {read_kind(result) for result in results.values()} <= {
        "score",
        "unsupported",
        "singular",
    }
    assert all(
        isinstance(results[name], float)
        for name in ("dextr", "swap", "meco", "grad", "nasi_samples", "gradsign")
    )


@pytest.mark.parametrize(
    "options", [{"max_norm": 0.5}, {"sparse": True}, {"padding_idx": 0}], ids=str
)
def test_an_embedding_of_any_kind_is_unchanged(options):
    """An embedding with a maximal norm overwrites its weights in the forward pass.

    A sparse embedding has sparse gradients.
    """
    model = nn.Sequential(
        nn.Embedding(9, 6, **options), nn.Linear(6, 8), nn.ReLU(), nn.Flatten(), nn.Linear(40, 5)
    )
    words = torch.randint(9, (12, 5), generator=torch.Generator().manual_seed(0))
    before = capture_state(model)
    probe = Probe(model, Batch(words, make_batch("cnn").targets))
    for name in NAMES:
        assert read_kind(score_or_reason(name, probe)) in ("score", "unsupported", "singular"), name
        assert list_changes(before, capture_state(model)) == set(), name


def test_too_few_samples_for_several_batches_are_reported():
    probe = Probe(make_model("smooth"), make_batch("smooth", 3))
    assert (
        str(score_or_reason("sigeo", probe))
        == "unsupported: 4 batches need at least 4 samples, not 3"
    )
    assert isinstance(score_or_reason("zico", probe), float)


def test_equal_samples_have_a_singular_kernel_and_one_code():
    batch = make_batch("smooth")
    probe = Probe(make_model("smooth"), Batch(batch.inputs[:1].repeat(12, 1, 1, 1), batch.targets))
    for name in ("naswot", "te_nas_condition", "te_nas_condition(variant=published)"):
        with pytest.raises(Unscorable) as caught:
            load_proxy(name)(probe)
        assert caught.value.kind == "singular", name
    assert load_proxy("te_nas_regions")(probe) == 1


@pytest.mark.parametrize("name", [name for name, proxy in PROXIES.items() if proxy.parts])
def test_an_aggregate_refuses_a_single_network(name):
    with pytest.raises(UsageError, match="ranks candidates"):
        load_proxy(name)(Probe(make_model("cnn"), make_batch("cnn")))
    part_names = {part.partition("(")[0] for part in PROXIES[name].parts}
    assert part_names <= set(NAMES)


@pytest.mark.parametrize("name", ["dextr", "meco", "grad_norm", "trace"])
def test_a_batch_norm_with_one_value_per_channel_is_reported(name):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    with pytest.raises(Unscorable, match="one value per channel: use more samples"):
        load_proxy(name)(Probe(model, Batch(torch.randn(1, 3, 32, 32), torch.zeros(1).long())))
