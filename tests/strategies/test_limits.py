"""Limits: how they are written, what is counted, and that nothing leaves a `Feasible` space that breaks one."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import untrained
from tests.strategies.toys import TASK, ten, twelve
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.strategies.limits import TRIES, Feasible, Limits, Pace, Size, number, pace, size
from untrained.types import Batch


def params(arch) -> int:
    width = 1 + sum(value for _, value in arch.genes)
    return 193 * width + 4 * (width + 1)


# ------------------------------------------------------------------------------------------------- as people write


@pytest.mark.parametrize(
    ("said", "value"),
    [("2M", 2e6), ("600M", 6e8), ("1.5k", 1500), ("2e6", 2e6), (" 3 G ", 3e9), (2e6, 2e6), (5, 5), ("0.5M", 5e5)],
)
def test_numbers_as_people_write_them(said, value):
    assert number(said) == value


@pytest.mark.parametrize(
    ("said", "value"), [("1.5GB", 1.5e9), ("300MB", 3e8), ("1GiB", 2**30), ("64KiB", 65536), ("7B", 7), (1e6, 1e6)]
)
def test_sizes_as_people_write_them(said, value):
    assert size(said) == value


@pytest.mark.parametrize(
    ("said", "seconds", "device"),
    [("5ms", 0.005, "cpu"), ("5ms@cpu", 0.005, "cpu"), ("0.2s@cuda", 0.2, "cuda"), ("70us@cuda:1", 7e-5, "cuda:1")],
)
def test_latencies_as_people_write_them(said, seconds, device):
    found = pace(said)
    assert (found.seconds, found.device) == (pytest.approx(seconds), device)
    assert pace(found) is found


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("max_params", "2 million"), ("max_params", "-3"), ("max_params", "0"), ("max_params", "M"), ("max_params", ""),
        ("max_flops", "2MB"), ("max_memory", "1.5GHz"), ("max_latency", "5"), ("max_latency", "5ms@"),
        ("max_latency", "0ms"), ("max_params", "1e999"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_quoted_with_an_example(limit, said):
    with pytest.raises(UsageError, match="write it like") as caught:
        Limits.read(**{limit: said})
    assert repr(said) in str(caught.value)
    assert limit.replace("_", " ") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limits_are_read_by_name():
    read = Limits.read(max_params="2M", min_params=None, max_latency="5ms@cuda", max_memory="1GB")
    assert read == Limits(max_params=2e6, max_latency=Pace(0.005, "cuda"), max_memory=1e9)
    assert read
    assert not Limits.read()
    with pytest.raises(UsageError, match="did you mean max_params"):
        Limits.read(max_param="2M")
    with pytest.raises(UsageError, match="at least 3,000 and at most 2,000"):
        Limits.read(min_params="3k", max_params="2k")


# -------------------------------------------------------------------------------------------------- what is counted


def test_sizes_are_those_of_the_network():
    arch = ten.parse("c0=3,c1=1,c2=0,c3=0,c4=0,c5=0,c6=0,c7=0,c8=0,c9=0")
    counted = Size(ten, arch, TASK)
    assert counted.params == params(arch) == 193 * 5 + 4 * 6
    assert counted.flops == 192 * 5 + 5 * 4
    # the input is copied, three layers answer 5, 5 and 4 numbers
    assert counted.memory == 4 * (params(arch) + 192 + 5 + 5 + 4)


def test_memory_counts_what_is_made_and_neither_views_nor_what_is_written_in_place():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                        nn.MaxPool2d(2), nn.Flatten())  # fmt: skip
    for device in ("cpu", "meta"):
        probe = Probe(net.to(device), Batch(torch.zeros(2, 3, 8, 8, device=device), torch.zeros(2).long()))
        held = 4 * 3 * 9 * 4 + 4 * 4 * 4 + 8  # weights; four vectors of the norm; a long that counts its batches
        made = 2 * 3 * 64 * 4 + 4 * 64 * 4 + (4 * 64 + 2 * 4) * 4  # both inputs; the convolution; norm and statistics
        pooled = 4 * 16 * (4 + 8)  # values and places
        assert probe.memory == held + made + pooled
        assert probe.macs == 4 * 27 * 64


@pytest.mark.parametrize("name", ["nasbench201", "darts(cells=3)", "mlp", "nasbench101", "autoformer_tiny"])
def test_a_count_without_memory_is_the_count_of_the_real_network(name):
    space, rng = load_space(name), np.random.default_rng(0)
    arch = space.sample(rng)
    inputs = torch.randn(1, *space.task.input_shape)
    real, counted = Probe(space.build(arch), Batch(inputs, torch.zeros(1).long())), Size(space, arch, space.task)
    assert (counted.params, counted.flops, counted.memory) == (real.params, real.macs, real.memory)
    assert [op.kind for op in counted.probe.operations] == [op.kind for op in real.operations]


def test_kinds_of_convolutions_are_told_apart():
    net = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 1), nn.Conv2d(8, 2, (1, 5)))
    probe = Probe(net, Batch(torch.zeros(1, 4, 8, 8), torch.zeros(1).long()))
    kinds = [op.kind for op in probe.operations if op.flops]
    assert kinds == ["convolution 3x3 grouped", "convolution 1x1", "convolution 1x5"]
    assert [op.flops for op in probe.operations if op.flops] == [2 * 36 * 4 * 9, 2 * 36 * 32, 2 * 12 * 80]


# ------------------------------------------------------------------------------------------------------- Feasible

LIMITED = {
    "max_params": (Limits(max_params=2000), lambda a: params(a) <= 2000),
    "min_params": (Limits(min_params=4500), lambda a: params(a) >= 4500),
    "max_flops": (Limits(max_flops=196 * 12), lambda a: 196 * (1 + sum(v for _, v in a.genes)) <= 196 * 12),
    "max_memory": (Limits(max_memory=9000), lambda a: Size(ten, a, TASK).memory <= 9000),
}


@pytest.mark.parametrize("limit", LIMITED)
def test_whatever_is_drawn_mutated_or_crossed_keeps_to_the_limit(limit):
    limits, keeps = LIMITED[limit]
    space, rng = Feasible(ten, limits), np.random.default_rng(0)
    found = [space.sample(rng) for _ in range(20)]
    for _ in range(20):
        found.append(space.mutate(found[-1], rng))
        found.append(space.cross(found[0], found[-1], rng))
    assert all(keeps(arch) for arch in found)
    assert len(set(found)) > 30
    assert space.rejected[limit] > 10
    assert set(space.rejected) == {limit}
    assert not all(keeps(ten.sample(rng)) for _ in range(50))


def test_samples_within_a_limit_are_uniform():
    """Of 12 networks, those of width 1 and 2 have at most 2 * 193 + 4 * 2 + 4 parameters."""
    space, rng = Feasible(twelve, Limits(max_params=400)), np.random.default_rng(0)
    found = Counter(str(space.sample(rng)) for _ in range(400))
    assert sorted(found) == [f"width={w},bias={b}" for w in (1, 2) for b in ("no", "yes")]
    assert all(65 <= n <= 135 for n in found.values())  # 100 +- 8.7: four standard deviations


def test_without_limits_it_is_the_space_and_nothing_is_counted():
    space, rng, same = Feasible(ten), np.random.default_rng(0), np.random.default_rng(0)
    assert [space.sample(rng) for _ in range(5)] == [ten.sample(same) for _ in range(5)]
    assert (space.name, space.size, Feasible(ten, Limits(max_params=1e4)).size) == ("ten", 4**10, None)
    assert not space.rejected


def test_an_architecture_is_counted_once_and_on_the_meta_device():
    built = []

    @untrained.space(task=TASK)
    def watched(choose, task):
        width = choose("width", (1, 2))
        return lambda: built.append(torch.get_default_device()) or nn.Sequential(nn.Flatten(), nn.Linear(192, width))

    space, rng = Feasible(watched, Limits(max_params=200)), np.random.default_rng(0)
    assert {space.sample(rng)["width"] for _ in range(20)} == {1}
    assert built == [torch.device("meta")] * 2


@pytest.mark.parametrize("limit", [{"max_params": 6e6}, {"max_flops": 1.6e9, "min_params": 5.5e6}])
def test_where_a_space_has_a_formula_nothing_is_built(limit, monkeypatch):
    home, rng = load_space("autoformer_tiny"), np.random.default_rng(0)
    space = Feasible(home, Limits(**limit))
    with monkeypatch.context() as patch:
        patch.setattr(type(home), "build", lambda *_, **__: pytest.fail("a network was built"))
        arch = space.mutate(space.sample(rng), rng)
    net = home.build(arch, device="meta")
    assert 5.5e6 < sum(p.numel() for p in net.parameters()) < limit.get("max_params", 1e9)
    assert set(space.rejected) <= set(limit)


def test_a_limit_that_hardly_any_sample_keeps_is_walked_towards():
    """A width of at most 3: 66 of 4^10, one in 16,000."""
    space = Feasible(ten, Limits(max_params=193 * 3 + 16))
    assert sum(v for _, v in space.sample(np.random.default_rng(0)).genes) <= 2
    assert space.rejected["max_params"] > TRIES


def test_an_unsatisfiable_limit_names_the_closest():
    space = Feasible(twelve, Limits(max_params=100))
    with pytest.raises(UsageError) as caught:
        space.sample(np.random.default_rng(0))
    wanted = "at most 100 parameters; the closest had 197 parameters; raise max_params"  # 193 and four weights
    assert str(caught.value) == f"twelve: none of {2 * TRIES} drawn keeps to {wanted}"
    with pytest.raises(UsageError, match=r"at least 2,000 parameters; the closest had 1,186 .*; lower min_params"):
        Feasible(twelve, Limits(min_params=2000)).sample(np.random.default_rng(0))


def test_where_no_neighbour_is_feasible_something_else_is():
    @untrained.space(task=TASK)
    def apart(choose, task):
        a, b, c = (choose(name, (0, 1)) for name in "abc")
        width = 1 if a == b == c else 9
        return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width))

    space, rng = Feasible(apart, Limits(max_params=200)), np.random.default_rng(0)
    first = apart.parse("a=0,b=0,c=0")
    assert {str(space.mutate(first, rng)) for _ in range(20)} <= {"a=0,b=0,c=0", "a=1,b=1,c=1"}


def test_latency_is_asked_of_whoever_knows_it_and_only_where_the_rest_is_kept():
    asked = []

    def latency(arch):
        asked.append(arch)
        return 0.001 * arch["width"]

    space = Feasible(twelve, Limits.read(max_latency="2.5ms", max_params=1000), latency=latency)
    rng = np.random.default_rng(0)
    assert {space.sample(rng)["width"] for _ in range(50)} == {1, 2}
    assert {arch["width"] for arch in asked} == {1, 2, 3, 4, 5}
    assert len(asked) == len(set(asked))
    assert set(space.rejected) == {"max_latency", "max_params"}
    with pytest.raises(UsageError, match="LatencyModel"):
        Feasible(twelve, Limits.read(max_latency="5ms"))
    with pytest.raises(UsageError, match=r"at most 0\.5 ms; the closest had 1 ms"):
        Feasible(twelve, Limits.read(max_latency="0.5ms"), latency=latency).sample(rng)


def test_what_cannot_be_counted_is_turned_down():
    @untrained.space(task=TASK)
    def uncountable(choose, task):
        norm = choose("norm", (True, False))
        return lambda: nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4) if norm else nn.Identity())

    space, rng = Feasible(uncountable, Limits(max_flops=1e9)), np.random.default_rng(0)
    assert {space.sample(rng)["norm"] for _ in range(20)} == {False}  # one value a channel has no statistics
    assert space.rejected["max_flops"] > 0
