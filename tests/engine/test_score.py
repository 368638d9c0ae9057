"""`score` takes anything: a model, an architecture, a string, a list; and refuses what it cannot."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import untrained
from tests.engine.helpers import ARCH, CONV, NONE, judge, nb201, tiny, value
from untrained import Probe, score
from untrained.engine.score import subject_of
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.runs.ranking import rows
from untrained.types import Batch, Task


def cnn() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4, 5))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens).mean(1))


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return Transformer()


@pytest.mark.parametrize(("make", "shape"), [(cnn, (2, 3, 16, 16)), (transformer, (2, 5, 8))])
def test_the_short_form_judges_the_weights_a_model_has(make, shape):
    model, inputs = make(), torch.randn(shape)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (record,) = score(model, inputs)
    expected = load_proxy("dextr")(Probe(model, Batch(inputs[:1], torch.zeros(1))))
    assert (record.value, record.proxy) == (expected, "dextr")
    assert record.value > 0
    assert record.task.input_shape == shape[1:]
    assert record.task.num_classes == list(model.modules())[-1].out_features
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        next(model.parameters()).mul_(3)
    assert value(score(model, inputs)) != expected


def test_the_size_of_a_transformer_is_counted_by_hand():
    """Attention: three 8x8 matrices in, one out; feed-forward 8x16 and 16x8; two norms; head 8x3; all with biases."""
    params = value(score(transformer(), "params", torch.zeros(1, 5, 8)))
    assert params == 4 * (64 + 8) + (128 + 16) + (128 + 8) + 2 * 16 + 27


def test_inputs_and_targets_are_what_the_proxy_sees():
    model, inputs, targets = nn.Linear(6, 4), torch.randn(5, 6), torch.tensor([3, 1, 0, 2, 2])
    loss = judge(lambda probe: probe.loss, samples=5)
    expected = float(F.cross_entropy(model(inputs), targets).detach())
    assert value(score(model, loss, (inputs, targets))) == pytest.approx(expected, rel=1e-6)
    assert value(score(model, loss, (inputs, targets.flip(0)))) != pytest.approx(expected, rel=1e-3)


def test_targets_are_drawn_where_there_are_none_and_stay_within_the_outputs():
    seen = []
    judge_ = judge(lambda probe: seen.append(probe.batch.targets) or 1.0, samples=64)
    score(nn.Linear(6, 3), judge_, torch.randn(64, 6))
    score(nn.Linear(6, 3), judge_, torch.randn(64, 6))
    assert set(seen[0].tolist()) == {0, 1, 2}
    assert torch.equal(seen[0], seen[1])


def test_a_list_may_mix_everything(user_file):
    what = [nn.Sequential(nn.Flatten(), nn.Linear(3072, 2)), nb201(*[NONE] * 6), f"{user_file}:make", cnn()]
    records = score(what, "params", "noise", input_shape=(3, 32, 32))
    assert [str(r.arch) for r in records] == ["Sequential", nb201(*[NONE] * 6), f"{user_file}:make", "Sequential#2"]
    assert [records[i].value for i in (0, 2, 3)] == [3073 * 2, 112 + 25, 112 + 8 + 25]
    assert [r.task.num_classes for r in records] == [2, 10, 5, 5]


def test_a_model_stays_on_its_device():
    model = nn.Linear(6, 4)
    moved = subject_of(model, "nasbench201", "meta").build(Task("tensor", (6,), 4))
    assert {p.device.type for p in moved.parameters()} == {"meta"}
    assert {p.device.type for p in model.parameters()} == {"cpu"}


def test_an_architecture_of_the_users_own_space_needs_that_space():
    assert value(score(ARCH, "params", data="noise", space=tiny)) == value(
        score(str(ARCH), "params", data="noise", space=tiny)
    )
    with pytest.raises(UsageError, match=r"space 'tiny'; say where it is"):
        score(ARCH, "params")


def test_an_architecture_knows_its_own_space_whatever_the_strings_are():
    arch = untrained.load_space("nasbench201").parse(nb201(*[CONV] * 6))
    first, second = score([arch, "width=2,kernel=3"], "params", data="noise", space=tiny)
    assert first.arch.space == "nasbench201"
    assert second.value == 572


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (None, r"say what .* takes as input: --input-shape"),
        ((), "impossible input shape"),
        ((3, 0, 8), "impossible input shape"),
        ((3, -1, 8), "impossible input shape"),
        ((3, 10**7, 10**7), "do not fit into memory"),
    ],
)
def test_impossible_shapes(user_file, shape, wanted):
    with pytest.raises(UsageError, match=wanted) as caught:
        score(f"{user_file}:make", "params", input_shape=shape)
    assert "\n" not in str(caught.value)


def test_images_of_the_wrong_kind_for_the_data_are_refused():
    with pytest.raises(UsageError, match="channels"):
        score(nb201(*[CONV] * 6), "params", "photos", input_shape=(5, 32, 32))
    with pytest.raises(UsageError, match="channels x height x width"):
        score(nb201(*[CONV] * 6), "params", "photos", input_shape=(3, 32))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_there(device):
    with pytest.raises(UsageError, match="cannot be used on this machine; try cpu") as caught:
        score(ARCH, "params", data="noise", space=tiny, device=device)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("what", "wanted"), [(3, "cannot score a int"), ([3.5], "cannot score a float")])
def test_what_cannot_be_scored(what, wanted):
    with pytest.raises(UsageError, match=wanted):
        score(what, "params")


@pytest.mark.parametrize(("proxies", "seeds"), [((), 1), ("params", 0), ("params", -1)])
def test_nothing_to_ask_for_is_wrong_usage_and_no_empty_answer(proxies, seeds):
    with pytest.raises(UsageError, match=r"at least one|whole number from 1"):
        score(ARCH, proxies, data="noise", space=tiny, seeds=seeds)


def test_a_network_that_cannot_take_its_input_is_told_without_a_place_in_a_library():
    """Counting goes through a property that is kept: functools is no place of the user's."""
    (record,) = score(nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), "flops", torch.zeros(1, 12))
    assert record.error is not None
    assert re.fullmatch(r"RuntimeError: mat1 and mat2 shapes cannot be multiplied [^_]*", record.error.detail)


def sequential(width: int) -> nn.Sequential:
    torch.manual_seed(width)
    layers = [nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * width, 4))


def test_networks_of_one_class_are_scored_apart():
    """Three records per proxy, with readable names, and no mean over different networks."""
    networks = [sequential(width) for width in (4, 8, 16)]
    images = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    records = untrained.score(networks, ["params", "te_nas"], images)
    sizes = [sum(p.numel() for p in network.parameters()) for network in networks]
    found = [(str(r.arch), r.value) for r in records if r.proxy == "params"]
    assert found == list(zip(["Sequential", "Sequential#2", "Sequential#3"], sizes, strict=True))
    assert len({r.arch for r in records}) == 3
    aggregates = [r for r in records if r.proxy == "te_nas"]
    assert [str(r.arch) for r in aggregates] == ["Sequential", "Sequential#2", "Sequential#3"]
    table = {(row["arch"], row["proxy"]): (row["n"], row["std"]) for row in rows(records)}
    assert set(table.values()) == {(1, None)}


def test_the_score_of_a_network_does_not_depend_on_its_place_in_the_list():
    """`random` and `dextr` draw random numbers, which follow from the name."""
    images = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    second = untrained.score([sequential(4), sequential(8)], ["random", "dextr"], images)[2:]
    alone = untrained.score(sequential(8), ["random", "dextr"], images)
    assert [r.value for r in second] == [r.value for r in alone]
    assert [str(r.arch) for r in second + alone] == ["Sequential#2", "Sequential#2", "Sequential", "Sequential"]


def test_equal_architectures_of_a_space_are_one_subject():
    arch = tiny.parse("width=2,kernel=3")
    records = untrained.score([arch, arch], "params", space=tiny)
    assert [str(r.arch) for r in records] == ["width=2,kernel=3"] * 2
