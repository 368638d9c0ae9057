"""What has no score fails by name: disconnected networks, NaN, and layers a proxy needs and does not find."""

from math import isfinite

import pytest
import torch
from torch import Tensor, nn

from tests.contracts.models import NAMES, REASONS, SelfAttention, answer, batch_of, made, nb201
from tests.contracts.trace import changed, state
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies import PROXIES, load_proxy
from untrained.types import Batch

DISCONNECTED = {
    "all none": "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    "output cut off": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|none~0|none~1|none~2|",
    "dead node": "|none~0|+|none~0|nor_conv_3x3~1|+|none~0|skip_connect~1|nor_conv_1x1~2|",
}
SIZES = {"params", "flops", "depth", "l2_norm", "random"}  # answer for any network


def kind_of(said: float | str) -> str:
    return "score" if isinstance(said, float) else said.partition(":")[0]


@pytest.mark.parametrize("cell", DISCONNECTED)
def test_a_disconnected_cell_is_said_to_be_one_by_all_but_sizes(cell):
    """`dss` does not get so far: it finds no attention."""
    probe = Probe(nb201(DISCONNECTED[cell]), batch_of("nasbench201"))
    said = {name: answer(name, probe) for name in NAMES}
    expected = {name: "score" if name in SIZES else "disconnected" for name in NAMES} | {
        "dss": "unsupported"
    }
    assert {name: kind_of(value) for name, value in said.items()} == expected
    assert all(isfinite(said[name]) for name in SIZES)


@pytest.mark.parametrize("samples", [1, 2])
def test_a_disconnected_network_is_one_on_very_few_samples_too(samples):
    """Where a batch norm, a condition number or a comparison of batches has little to go by."""
    model = nb201(DISCONNECTED["output cut off"])
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
        probe = Probe(model, batch_of("nasbench201", samples))
        assert kind_of(answer(name, probe)) == "disconnected", name


class Constant(nn.Module):
    """Has layers, nonlinearity and attention, and does not listen to any of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.attention, self.head = (
            nn.Conv2d(3, 4, 8, 8),
            SelfAttention(4, 2),
            nn.Linear(4, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        self.head(self.attention(self.stem(x).flatten(2).mT).tanh().mean(1))
        return torch.ones(len(x), 5, dtype=x.dtype)


def test_an_output_without_any_input_is_disconnected():
    probe = Probe(Constant(), batch_of("cnn"))
    said = {name: kind_of(answer(name, probe)) for name in NAMES}
    assert {kind for name, kind in said.items() if load_proxy(name).needs} == {"disconnected"}
    assert {said[name] for name in SIZES} == {"score"}


class NotANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


@pytest.mark.parametrize("place", [1, 7, 10], ids=["first feature", "pooled", "output"])
def test_a_network_of_nans_never_gets_a_number(place):
    """Also from a proxy that looks elsewhere: whoever reads data says nan, be it as a value or as a reason."""
    probe = Probe(made("cnn").insert(place, NotANumber()), batch_of("cnn"))
    for name in (name for name in NAMES if load_proxy(name).needs and name != "dss"):
        said = answer(name, probe)
        assert kind_of(said) == "nan" or (isinstance(said, float) and not isfinite(said)), (
            f"{name}: {said}"
        )


# ------------------------------------------------------------------------------------------------------ what is missing


def test_without_a_nonlinearity_only_codes_are_missing():
    missing = {name for name, kinds in REASONS.items() if "no pointwise" in kinds.get("linear", "")}
    assert {name.partition("(")[0] for name in missing} == {
        "naswot",
        "swap",
        "swap_reg",
        "te_nas_regions",
        "hnas",
    }


def test_a_network_of_norms_alone_has_no_layers_to_prune():
    model = nn.Sequential(nn.Flatten(), nn.LayerNorm(6), nn.Tanh())
    said = {name: answer(name, Probe(model, batch_of("mlp"))) for name in NAMES}
    layers = {
        name for name, value in said.items() if "no convolution and no linear layer" in str(value)
    }
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
    assert pruning <= layers
    assert all(
        isinstance(said[name], float)
        for name in ("grad", "swap", "nasi_samples", "dextr", "ntk_trace", "depth")
    )


def test_a_network_without_trainable_parameters_has_no_gradient():
    model = made("cnn").requires_grad_(False)
    said = {name: answer(name, Probe(model, batch_of("cnn"))) for name in NAMES}
    for name in ("grad", "trace", "gradsign", "te_nas_condition", "zico", "fisher", "nasi_batch"):
        assert said[name] == "unsupported: the network has no trainable parameter", name
    for name in ("dextr", "naswot", "meco", "synflow", "zen", "jacob_cov", "az_trainability"):
        assert isinstance(said[name], float), f"{name}: {said[name]}"


def test_words_have_features_and_gradients_but_no_circle():
    model = nn.Sequential(
        nn.Embedding(9, 6), nn.Linear(6, 8), nn.ReLU(), nn.Flatten(), nn.Linear(40, 5)
    )
    words = torch.randint(9, (12, 5), generator=torch.Generator().manual_seed(0))
    probe = Probe(model, Batch(words, batch_of("cnn").targets))
    said = {name: answer(name, probe) for name in NAMES}
    real = {name.partition("(")[0] for name, value in said.items() if "real-valued" in str(value)}
    circles = {
        "dextr",
        "dextr_curvature",
        "dextr_opt",
        "jacob_cov",
        "epe_nas",
        "synflow",
        "logsynflow",
        "zen",
        "dss",
    }
    assert real == circles | {
        "az_expressivity",
        "az_progressivity",
        "az_trainability",
        "harmonic_mean",
        "hnas",
    }
    others = {name: value for name, value in said.items() if name.partition("(")[0] not in real}
    assert all(isinstance(value, float) and isfinite(value) for value in others.values()), others


@pytest.mark.parametrize(
    "norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
)
def test_a_weight_made_of_others_has_a_score_or_a_reason(norm):
    """Weight norm and spectral norm: no layer has a parameter of its own to prune; outputs and gradients there are."""
    model = nn.Sequential(norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 5))
    before, probe = state(model), Probe(model, batch_of("mlp"))
    said = {name: answer(name, probe) for name in NAMES}
    assert changed(before, state(model)) == set()
    assert {kind_of(value) for value in said.values()} <= {"score", "unsupported", "singular"}
    assert all(
        isinstance(said[name], float)
        for name in ("dextr", "swap", "meco", "grad", "nasi_samples", "gradsign")
    )


@pytest.mark.parametrize(
    "options", [{"max_norm": 0.5}, {"sparse": True}, {"padding_idx": 0}], ids=str
)
def test_an_embedding_of_any_kind_is_left_as_it_was(options):
    """One with a maximal norm overwrites its table as it runs; one that is sparse has sparse gradients."""
    model = nn.Sequential(
        nn.Embedding(9, 6, **options), nn.Linear(6, 8), nn.ReLU(), nn.Flatten(), nn.Linear(40, 5)
    )
    words = torch.randint(9, (12, 5), generator=torch.Generator().manual_seed(0))
    before, probe = state(model), Probe(model, Batch(words, batch_of("cnn").targets))
    for name in NAMES:
        assert kind_of(answer(name, probe)) in ("score", "unsupported", "singular"), name
        assert changed(before, state(model)) == set(), name


def test_too_few_samples_for_batches_are_said_to_be():
    probe = Probe(made("smooth"), batch_of("smooth", 3))
    assert str(answer("sigeo", probe)) == "unsupported: 4 batches need at least 4 samples, not 3"
    assert isinstance(answer("zico", probe), float)


def test_equal_samples_have_no_kernel_of_full_rank_and_no_codes_of_their_own():
    batch = batch_of("smooth")
    probe = Probe(made("smooth"), Batch(batch.inputs[:1].repeat(12, 1, 1, 1), batch.targets))
    for name in ("naswot", "te_nas_condition", "te_nas_condition(variant=published)"):
        with pytest.raises(Unscorable) as caught:
            load_proxy(name)(probe)
        assert caught.value.kind == "singular", name
    assert load_proxy("te_nas_regions")(probe) == 1


@pytest.mark.parametrize("name", [name for name, proxy in PROXIES.items() if proxy.parts])
def test_a_score_among_candidates_is_no_score_of_one(name):
    with pytest.raises(UsageError, match="ranks candidates"):
        load_proxy(name)(Probe(made("cnn"), batch_of("cnn")))
    assert set(PROXIES[name].parts) <= set(NAMES)


@pytest.mark.parametrize("name", ["dextr", "meco", "grad_norm", "trace"])
def test_a_batch_norm_with_nothing_to_average_is_named(name):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    with pytest.raises(Unscorable, match="one value per channel: use more samples"):
        load_proxy(name)(Probe(model, Batch(torch.randn(1, 3, 32, 32), torch.zeros(1).long())))
