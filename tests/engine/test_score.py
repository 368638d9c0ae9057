"""`score` takes a model, an architecture, a string or a list, and refuses everything else."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import untrained
from tests.engine.helpers import ARCH, CONV, NONE, format_cell, get_value, make_proxy, tiny
from untrained import Probe, score
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.runs.ranking import make_record_rows
from untrained.types import Batch, Task
from untrained.workflows.network_spec import load_network_spec
from untrained.workflows.score import score_networks


def make_cnn() -> nn.Module:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers, nn.Linear(4, 5))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens).mean(1))


def make_transformer() -> nn.Module:
    torch.manual_seed(0)
    return Transformer()


@pytest.mark.parametrize(
    ("make", "shape"), [(make_cnn, (2, 3, 16, 16)), (make_transformer, (2, 5, 8))]
)
def test_the_short_form_scores_a_model_with_its_own_weights(make, shape):
    model = make()
    inputs = torch.randn(shape)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (record,) = score(model, inputs).records
    expected = load_proxy("dextr")(Probe(model, Batch(inputs[:1], torch.zeros(1))))
    assert (record.value, record.proxy) == (expected, "dextr")
    assert record.value > 0
    assert record.task.input_shape == shape[1:]
    assert record.task.num_classes == list(model.modules())[-1].out_features
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        next(model.parameters()).mul_(3)
    assert get_value(score(model, inputs).records) != expected


def test_the_parameters_of_a_transformer_are_those_counted_by_hand():
    """Attention: three 8x8 matrices in, one out; feed-forward 8x16 and 16x8; two norms; head 8x3.
    All of them have biases."""
    params = get_value(score_networks(make_transformer(), "params", torch.zeros(1, 5, 8)))
    assert params == 4 * (64 + 8) + (128 + 16) + (128 + 8) + 2 * 16 + 27


def test_a_proxy_sees_the_given_inputs_and_targets():
    model = nn.Linear(6, 4)
    inputs = torch.randn(5, 6)
    targets = torch.tensor([3, 1, 0, 2, 2])
    loss = make_proxy(lambda probe: probe.loss, samples=5, needs=("data", "labels"))
    expected = float(F.cross_entropy(model(inputs), targets).detach())
    assert get_value(score_networks(model, loss, (inputs, targets))) == pytest.approx(
        expected, rel=1e-6
    )
    assert get_value(score_networks(model, loss, (inputs, targets.flip(0)))) != pytest.approx(
        expected, rel=1e-3
    )


def test_missing_targets_are_drawn_from_the_classes_of_the_network():
    targets = []
    observer = make_proxy(
        lambda probe: targets.append(probe.batch.targets) or 1.0,
        samples=64,
        needs=("data", "labels"),
    )
    score_networks(nn.Linear(6, 3), observer, torch.randn(64, 6))
    score_networks(nn.Linear(6, 3), observer, torch.randn(64, 6))
    assert set(targets[0].tolist()) == {0, 1, 2}
    assert torch.equal(targets[0], targets[1])


def test_a_list_may_mix_everything(user_file):
    subjects = [
        nn.Sequential(nn.Flatten(), nn.Linear(3072, 2)),
        format_cell(*[NONE] * 6),
        f"{user_file}:make",
        make_cnn(),
    ]
    records = score_networks(subjects, "params", "noise", input_shape=(3, 32, 32))
    assert [str(r.arch) for r in records] == [
        "Sequential",
        format_cell(*[NONE] * 6),
        f"{user_file}:make",
        "Sequential#2",
    ]
    assert [records[i].value for i in (0, 2, 3)] == [3073 * 2, 112 + 25, 112 + 8 + 25]
    assert [r.task.num_classes for r in records] == [2, 10, 5, 5]


def test_a_model_stays_on_its_device():
    model = nn.Linear(6, 4)
    moved = load_network_spec(model, "nasbench201", "meta").build(Task("tensor", (6,), 4))
    assert {p.device.type for p in moved.parameters()} == {"meta"}
    assert {p.device.type for p in model.parameters()} == {"cpu"}


def test_an_architecture_of_a_space_of_the_user_needs_that_space():
    assert get_value(score_networks(ARCH, "params", data="noise", space=tiny)) == get_value(
        score_networks(str(ARCH), "params", data="noise", space=tiny)
    )
    with pytest.raises(UsageError, match=r"space 'tiny'; pass this space"):
        score_networks(ARCH, "params")


def test_an_architecture_object_is_built_by_its_own_space_beside_strings_of_another():
    arch = untrained.load_space("nasbench201").parse(format_cell(*[CONV] * 6))
    first, second = score_networks([arch, "width=2,kernel=3"], "params", data="noise", space=tiny)
    assert first.arch.space == "nasbench201"
    assert second.value == 572


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (None, r"the input shape of .* is unknown; add --input-shape"),
        ((), "invalid input shape"),
        ((3, 0, 8), "invalid input shape"),
        ((3, -1, 8), "invalid input shape"),
        ((3, 10**7, 10**7), "do not fit into memory"),
    ],
)
def test_impossible_input_shapes_are_refused(user_file, shape, message):
    with pytest.raises(UsageError, match=message) as caught:
        score_networks(f"{user_file}:make", "params", input_shape=shape)
    assert "\n" not in str(caught.value)


def test_input_shapes_that_the_data_do_not_have_are_refused():
    with pytest.raises(UsageError, match="channels"):
        score_networks(format_cell(*[CONV] * 6), "params", "photos", input_shape=(5, 32, 32))
    with pytest.raises(UsageError, match="channels x height x width"):
        score_networks(format_cell(*[CONV] * 6), "params", "photos", input_shape=(3, 32))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", ""])
def test_a_missing_device_is_refused(device):
    with pytest.raises(UsageError, match="cannot be used on this machine; try cpu") as caught:
        score_networks(ARCH, "params", data="noise", space=tiny, device=device)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("subject", "message"),
    [(3, "of the type int is not a network"), ([3.5], "of the type float is not a network")],
)
def test_objects_that_cannot_be_scored_are_refused(subject, message):
    with pytest.raises(UsageError, match=message):
        score_networks(subject, "params")


@pytest.mark.parametrize(("proxies", "seeds"), [((), 1), ("params", 0), ("params", -1)])
def test_no_proxy_or_no_seed_is_wrong_usage(proxies, seeds):
    with pytest.raises(UsageError, match=r"at least one|whole number from 1"):
        score_networks(ARCH, proxies, data="noise", space=tiny, seeds=seeds)


def test_the_failure_of_a_network_names_no_place_in_a_library():
    """Counting goes through a cached property: functools is not code of the user."""
    (record,) = score_networks(
        nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), "flops", torch.zeros(1, 12)
    )
    assert record.error is not None
    assert re.fullmatch(
        r"RuntimeError: mat1 and mat2 shapes cannot be multiplied [^_]*", record.error.detail
    )


def make_sequential(width: int) -> nn.Sequential:
    torch.manual_seed(width)
    layers = [nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * width, 4))


def test_networks_of_one_class_are_scored_separately():
    """Three records per proxy, with readable names, and no mean over different networks."""
    networks = [make_sequential(width) for width in (4, 8, 16)]
    images = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    records = score_networks(networks, ["params", "te_nas"], images)
    sizes = [sum(p.numel() for p in network.parameters()) for network in networks]
    params = [(str(r.arch), r.value) for r in records if r.proxy == "params"]
    assert params == list(zip(["Sequential", "Sequential#2", "Sequential#3"], sizes, strict=True))
    assert len({r.arch for r in records}) == 3
    aggregates = [r for r in records if r.proxy == "te_nas"]
    assert [str(r.arch) for r in aggregates] == ["Sequential", "Sequential#2", "Sequential#3"]
    table = {
        (row["arch"], row["proxy"]): (row["n"], row["std"]) for row in make_record_rows(records)
    }
    assert set(table.values()) == {(1, None)}


def test_the_score_of_a_network_does_not_depend_on_its_place_in_the_list():
    """`random` and `dextr` draw random numbers, which follow from the name."""
    images = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    second = score_networks([make_sequential(4), make_sequential(8)], ["random", "dextr"], images)[
        2:
    ]
    alone = score_networks(make_sequential(8), ["random", "dextr"], images)
    assert [r.value for r in second] == [r.value for r in alone]
    assert [str(r.arch) for r in second + alone] == [
        "Sequential#2",
        "Sequential#2",
        "Sequential",
        "Sequential",
    ]


def test_equal_architectures_of_a_space_have_one_name():
    arch = tiny.parse("width=2,kernel=3")
    records = score_networks([arch, arch], "params", space=tiny)
    assert [str(r.arch) for r in records] == ["width=2,kernel=3"] * 2
