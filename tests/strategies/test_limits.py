"""Limits: how they are parsed, how sizes are counted, and that `ConstrainedSpace` keeps them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import untrained
import untrained.strategies.driver as driver_module
import untrained.strategies.limits as limits_module
from tests.strategies.toys import (
    TASK,
    make_toy_record,
    read_fitness,
    run_toy_search,
    ten,
    twelve,
)
from untrained.config import (
    LatencyLimit,
    Limits,
    TrainingTimeLimit,
    name_limit_option,
    parse_amount,
    parse_bytes,
    parse_latency,
)
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.seeds import make_generator
from untrained.spaces import InvalidArch, load_space
from untrained.spaces.core.ranges import IntRange
from untrained.strategies.base import NewArchSampler
from untrained.strategies.budget import Budget
from untrained.strategies.driver import run_strategy
from untrained.strategies.evolution import Evolution
from untrained.strategies.limits import MAX_ATTEMPTS, ConstrainedSpace, NetworkSize
from untrained.strategies.local import LocalSearch
from untrained.strategies.random import RandomSearch
from untrained.strategies.search_limits import SearchLimits
from untrained.types import Batch


def params(arch) -> int:
    width = 1 + sum(value for _, value in arch.genes)
    return 193 * width + 4 * (width + 1)


# --------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2M", 2e6),
        ("600M", 6e8),
        ("1.5k", 1500),
        ("2e6", 2e6),
        (" 3 G ", 3e9),
        (2e6, 2e6),
        (5, 5),
        ("0.5M", 5e5),
    ],
)
def test_amounts_are_parsed(text, value):
    assert parse_amount(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5GB", 1.5e9), ("300MB", 3e8), ("1GiB", 2**30), ("64KiB", 65536), ("7B", 7), (1e6, 1e6)],
)
def test_memory_sizes_are_parsed(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "seconds", "device"),
    [
        ("5ms", 0.005, "cpu"),
        ("5ms@cpu", 0.005, "cpu"),
        ("0.2s@cuda", 0.2, "cuda"),
        ("70us@cuda:1", 7e-5, "cuda:1"),
    ],
)
def test_latencies_are_parsed(text, seconds, device):
    limit = parse_latency(text)
    assert (limit.seconds, limit.device) == (pytest.approx(seconds), device)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("max_params", "2 million"), ("max_params", "-3"), ("max_params", "0"), ("max_params", "M"), ("max_params", ""),
        ("max_flops", "2MB"), ("max_memory", "1.5GHz"), ("max_latency", "5"), ("max_latency", "5ms@"),
        ("max_latency", "0ms"), ("max_params", "1e999"),
    ],
)  # fmt: skip
def test_an_unreadable_limit_is_quoted_with_an_example(limit, text):
    with pytest.raises(UsageError, match="write it like") as caught:
        Limits.parse(**{limit: text})
    assert repr(text) in str(caught.value)
    assert limit.replace("_", " ") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limits_are_parsed_by_name():
    limits = Limits.parse(
        max_params="2M", min_params=None, max_latency="5ms@cuda", max_memory="1GB"
    )
    assert limits == Limits(max_params=2e6, max_latency=LatencyLimit(0.005, "cuda"), max_memory=1e9)
    assert limits
    assert not Limits.parse()
    with pytest.raises(UsageError, match="did you mean max_params"):
        Limits.parse(max_param="2M")
    with pytest.raises(UsageError, match="at least 3,000 and at most 2,000"):
        Limits.parse(min_params="3k", max_params="2k")


# ----------------------------------------------------------------------------------------- sizes


def test_sizes_are_those_of_the_network():
    arch = ten.parse("c0=3,c1=1,c2=0,c3=0,c4=0,c5=0,c6=0,c7=0,c8=0,c9=0")
    size = NetworkSize(ten, arch, TASK)
    assert size.params == params(arch) == 193 * 5 + 4 * 6
    assert size.flops == 192 * 5 + 5 * 4
    # a copy of the input, and outputs of 5, 5 and 4 numbers
    assert size.memory == 4 * (params(arch) + 192 + 5 + 5 + 4)


def test_memory_counts_neither_views_nor_results_in_place():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                        nn.MaxPool2d(2), nn.Flatten())  # fmt: skip
    for device in ("cpu", "meta"):
        probe = Probe(
            net.to(device), Batch(torch.zeros(2, 3, 8, 8, device=device), torch.zeros(2).long())
        )
        # Weights, four vectors of the norm, its batch counter.
        stored_bytes = 4 * 3 * 9 * 4 + 4 * 4 * 4 + 8
        # Two inputs; one sample of convolution; norm and statistics.
        computed_bytes = 2 * 3 * 64 * 4 + 4 * 64 * 4 + (4 * 64 + 2 * 4) * 4
        pooled_bytes = 4 * 16 * (4 + 8)  # values and indices
        assert probe.memory == stored_bytes + computed_bytes + pooled_bytes
        assert probe.macs == 4 * 27 * 64


@pytest.mark.parametrize(
    "name", ["nasbench201", "darts(cells=3)", "mlp", "nasbench101", "autoformer_tiny"]
)
def test_sizes_on_the_meta_device_equal_those_of_the_real_network(name):
    space = load_space(name)
    rng = np.random.default_rng(0)
    arch = space.sample(rng)
    inputs = torch.randn(1, *space.task.input_shape)
    real = Probe(space.build(arch), Batch(inputs, torch.zeros(1).long()))
    size = NetworkSize(space, arch, space.task)
    assert (size.params, size.flops, size.memory) == (real.params, real.macs, real.memory)
    assert [op.kind for op in size.probe.operations] == [op.kind for op in real.operations]


def test_kinds_of_convolutions_are_distinguished():
    net = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 1), nn.Conv2d(8, 2, (1, 5)))
    probe = Probe(net, Batch(torch.zeros(1, 4, 8, 8), torch.zeros(1).long()))
    kinds = [op.kind for op in probe.operations if op.float_operations]
    assert kinds == ["convolution 3x3 grouped", "convolution 1x1", "convolution 1x5"]
    assert [op.float_operations for op in probe.operations if op.float_operations] == [
        2 * 36 * 4 * 9,
        2 * 36 * 32,
        2 * 12 * 80,
    ]


# ------------------------------------------------------------------------------ ConstrainedSpace

LIMITED = {
    "max_params": (Limits(max_params=2000), lambda a: params(a) <= 2000),
    "min_params": (Limits(min_params=4500), lambda a: params(a) >= 4500),
    "max_flops": (
        Limits(max_flops=196 * 12),
        lambda a: 196 * (1 + sum(v for _, v in a.genes)) <= 196 * 12,
    ),
    "max_memory": (Limits(max_memory=9000), lambda a: NetworkSize(ten, a, TASK).memory <= 9000),
}


@pytest.mark.parametrize("limit", LIMITED)
def test_samples_mutations_and_crossings_keep_the_limit(limit):
    limits, is_kept = LIMITED[limit]
    space = ConstrainedSpace(ten, limits)
    rng = np.random.default_rng(0)
    archs = [space.sample(rng) for _ in range(20)]
    for _ in range(20):
        archs.append(space.mutate(archs[-1], rng))
        archs.append(space.cross(archs[0], archs[-1], rng))
    assert all(is_kept(arch) for arch in archs)
    assert len(set(archs)) > 30
    assert space.rejected[limit] > 10
    assert set(space.rejected) == {limit}
    assert not all(is_kept(ten.sample(rng)) for _ in range(50))


def test_samples_within_a_limit_are_uniform():
    """Of 12 networks, those of width 1 and 2 have at most 2 * 193 + 4 * 2 + 4 parameters."""
    space = ConstrainedSpace(twelve, Limits(max_params=400))
    rng = np.random.default_rng(0)
    archs = Counter(str(space.sample(rng)) for _ in range(400))
    assert sorted(archs) == [f"width={w},bias={b}" for w in (1, 2) for b in ("no", "yes")]
    assert all(65 <= n <= 135 for n in archs.values())  # 100 +- 4 standard deviations of 8.7


def test_without_limits_it_behaves_like_the_space():
    space = ConstrainedSpace(ten)
    rng = np.random.default_rng(0)
    same = np.random.default_rng(0)
    assert [space.sample(rng) for _ in range(5)] == [ten.sample(same) for _ in range(5)]
    assert (
        space.name,
        space.size,
        ConstrainedSpace(ten, Limits(max_params=1e4)).size,
    ) == (
        "ten",
        4**10,
        None,
    )
    assert not space.rejected


def test_an_architecture_is_counted_once_and_on_the_meta_device():
    built = []

    @untrained.space(task=TASK)
    def watched(choose, task):
        width = choose("width", (1, 2))
        return lambda: (
            built.append(torch.get_default_device())
            or nn.Sequential(nn.Flatten(), nn.Linear(192, width))
        )

    space = ConstrainedSpace(watched, Limits(max_params=200))
    rng = np.random.default_rng(0)
    assert {space.sample(rng)["width"] for _ in range(20)} == {1}
    assert built == [torch.device("meta")] * 2


@pytest.mark.parametrize("limit", [{"max_params": 6e6}, {"max_flops": 1.6e9, "min_params": 5.5e6}])
def test_a_space_with_a_formula_builds_no_network(limit, monkeypatch):
    unlimited = load_space("autoformer_tiny")
    rng = np.random.default_rng(0)
    space = ConstrainedSpace(unlimited, Limits(**limit))
    with monkeypatch.context() as patch:
        patch.setattr(type(unlimited), "build", lambda *_, **__: pytest.fail("a network was built"))
        arch = space.mutate(space.sample(rng), rng)
    net = unlimited.build(arch, device="meta")
    assert 5.5e6 < sum(p.numel() for p in net.parameters()) < limit.get("max_params", 1e9)
    assert set(space.rejected) <= set(limit)


def test_a_strict_limit_is_reached_by_mutations():
    """A width of at most 3: 66 of 4^10 architectures, about one in 16,000."""
    space = ConstrainedSpace(ten, Limits(max_params=193 * 3 + 16))
    assert sum(v for _, v in space.sample(np.random.default_rng(0)).genes) <= 2
    assert space.rejected["max_params"] > MAX_ATTEMPTS


def test_mutations_approach_two_limits_at_once():
    """None of 200 random networks is as small as both limits ask for."""
    convnet = load_space("convnet")
    space = ConstrainedSpace(convnet, Limits(max_params=50_000, max_flops=1_000_000))
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert not space.allows(space._scale_to_limits(convnet.sample(rng)))
    size = NetworkSize(convnet, space.sample(np.random.default_rng(1)), space.task)
    assert size.params <= 50_000
    assert size.flops <= 1_000_000


def test_the_error_of_an_unsatisfiable_limit_names_the_closest():
    space = ConstrainedSpace(twelve, Limits(max_params=100))
    with pytest.raises(UsageError) as caught:
        space.sample(np.random.default_rng(0))
    # 193 weights and 4 weights.
    assert str(caught.value) == (
        f"twelve: none of {2 * MAX_ATTEMPTS} sampled architectures satisfies all limits; the "
        "closest has 197 parameters, but --max-params allows at most 100 parameters; raise "
        "--max-params"
    )
    with pytest.raises(
        UsageError,
        match=r"has 1,186 parameters, but .* allows at least 2,000 parameters; lower --min-params",
    ):
        ConstrainedSpace(twelve, Limits(min_params=2000)).sample(np.random.default_rng(0))


def test_a_mutation_without_allowed_neighbours_is_a_sample():
    @untrained.space(task=TASK)
    def apart(choose, task):
        a, b, c = (choose(name, (0, 1)) for name in "abc")
        width = 1 if a == b == c else 9
        return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width))

    space = ConstrainedSpace(apart, Limits(max_params=200))
    rng = np.random.default_rng(0)
    first = apart.parse("a=0,b=0,c=0")
    assert {str(space.mutate(first, rng)) for _ in range(20)} <= {"a=0,b=0,c=0", "a=1,b=1,c=1"}


def test_latency_is_measured_once_and_only_if_all_other_limits_are_kept():
    measured = []

    def latency(arch):
        measured.append(arch)
        return 0.001 * arch["width"]

    space = ConstrainedSpace(
        twelve, Limits.parse(max_latency="2.5ms", max_params=1000), latency=latency
    )
    rng = np.random.default_rng(0)
    assert {space.sample(rng)["width"] for _ in range(50)} == {1, 2}
    assert {arch["width"] for arch in measured} == {1, 2, 3, 4, 5}
    assert len(measured) == len(set(measured))
    assert set(space.rejected) == {"max_latency", "max_params"}
    with pytest.raises(UsageError, match="needs a function that measures latency"):
        ConstrainedSpace(twelve, Limits.parse(max_latency="5ms"))
    with pytest.raises(UsageError, match=r"has 1 ms, but --max-latency allows at most 0\.5 ms"):
        ConstrainedSpace(twelve, Limits.parse(max_latency="0.5ms"), latency=latency).sample(rng)


def test_an_architecture_that_cannot_be_counted_is_rejected():
    @untrained.space(task=TASK)
    def uncountable(choose, task):
        kernel = choose("kernel", (8, 9))
        return lambda: nn.Conv2d(3, 4, kernel)

    space = ConstrainedSpace(uncountable, Limits(max_flops=1e9))
    rng = np.random.default_rng(0)
    # A kernel of 9 is larger than the pictures, so that network cannot run.
    assert {space.sample(rng)["kernel"] for _ in range(20)} == {8}
    assert space.rejected["max_flops"] > 0


@pytest.mark.parametrize("limit", ["max_params", "min_params"])
def test_the_error_says_why_no_architecture_can_be_counted(limit):
    @untrained.space(task=TASK)
    def unsized(choose, task):
        # A lazy layer has no parameters before the first forward pass.
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(choose("width", (4, 8))))

    space = ConstrainedSpace(unsized, Limits.parse(**{limit: "10"}))
    option = name_limit_option(limit)
    message = (
        f"{option} cannot be checked, because the number of parameters could not be determined for "
        rf"any sampled architecture \(error: .*uninitialized.*\); leave out {option}$"
    )
    with pytest.raises(UsageError, match=message):
        space.sample(np.random.default_rng(0))
    assert space.rejected[limit] == 2 * MAX_ATTEMPTS


def test_the_error_does_not_call_an_unknown_latency_infinite():
    limits = Limits.parse(max_latency="5ms")
    space = ConstrainedSpace(twelve, limits, latency=lambda arch: float("inf"))
    message = (
        "the latency could not be determined for any sampled architecture; leave out --max-latency"
    )
    with pytest.raises(UsageError, match=message):
        space.sample(np.random.default_rng(0))


@untrained.space(task=TASK)
def single(choose, task):
    """One architecture, with 4 weights per input and 4 biases."""
    width = choose("width", (4,))
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width))


def test_a_space_of_one_architecture_has_its_limits_in_the_error():
    space = ConstrainedSpace(single, Limits(max_params=100))
    with pytest.raises(UsageError, match=f"the closest has {4 * 192 + 4} parameters, but"):
        space.sample(np.random.default_rng(0))


@pytest.mark.parametrize("strategy", [Evolution, LocalSearch])
def test_a_search_of_one_architecture_ends_when_it_is_scored(strategy):
    space = ConstrainedSpace(single)
    scores = run_toy_search(
        strategy(space, np.random.default_rng(0), read_fitness), lambda arch: 1.0, budget=5
    )
    assert [str(arch) for arch in scores] == ["width=4"]


# --------------------------------------------------------------------------- filling the limits


@untrained.space(task=TASK, scale="width")
def scaled(choose, task):
    """A width from 1 to 40, of which 1 to 4 are sampled, and a number of layers."""
    width = choose("width", (1, 2, 3, 4), not_sampled=tuple(range(5, 41)))
    layers = choose("layers", (1, 2, 3))

    def build():
        hidden = [nn.Linear(width, width) for _ in range(layers - 1)]
        return nn.Sequential(nn.Flatten(), nn.Linear(192, width), *hidden, nn.Linear(width, 4))

    return build


def count_scaled_params(arch) -> int:
    width = arch["width"]
    return 193 * width + (arch["layers"] - 1) * (width + 1) * width + 4 * (width + 1)


@pytest.mark.parametrize("limit", [210, 1000, 4321, 10**9])
def test_the_scale_is_the_largest_that_satisfies_the_limits(limit):
    space = ConstrainedSpace(scaled, Limits(max_params=limit))
    rng = np.random.default_rng(0)
    for _ in range(20):
        arch = space.sample(rng)
        for derived in (arch, space.mutate(arch, rng), space.cross(arch, arch, rng)):
            expected = 1
            for width in range(1, 41):
                wider = scaled.parse(f"width={width},layers={derived['layers']}")
                if count_scaled_params(wider) <= limit:
                    expected = width
            assert derived["width"] == expected


def test_mutation_changes_more_than_the_scale():
    """A new width alone is undone by the scaling, so another choice has to change."""
    space = ConstrainedSpace(scaled, Limits(max_params=2000))
    rng = np.random.default_rng(0)
    arch = space.sample(rng)
    for _ in range(30):
        assert space.mutate(arch, rng)["layers"] != arch["layers"]


def test_nothing_is_scaled_without_an_upper_limit_on_size():
    plain = ConstrainedSpace(scaled)
    above = ConstrainedSpace(scaled, Limits(min_params=1))
    fast = ConstrainedSpace(scaled, Limits(max_latency=LatencyLimit(1.0)), latency=lambda arch: 0.1)
    for space in (plain, above, fast):
        rng = np.random.default_rng(5)
        reference = np.random.default_rng(5)
        assert [space.sample(rng) for _ in range(30)] == [
            scaled.sample(reference) for _ in range(30)
        ]


def test_a_limit_below_the_smallest_scale_is_refused():
    space = ConstrainedSpace(scaled, Limits(max_params=200))
    with pytest.raises(UsageError, match=r"has 201 parameters, but .*; raise --max-params"):
        space.sample(np.random.default_rng(0))


def test_networks_that_are_too_slow_at_the_largest_scale_may_be_smaller():
    """A network of width w takes w milliseconds here, so that only widths to 3 are allowed."""
    limits = Limits(max_params=10**6, max_latency=LatencyLimit(0.003))
    space = ConstrainedSpace(scaled, limits, latency=lambda arch: arch["width"] * 1e-3)
    rng = np.random.default_rng(0)
    assert {space.sample(rng)["width"] for _ in range(50)} == {1, 2, 3}


def test_scales_that_exclude_other_choices_are_left_out():
    @untrained.space(task=TASK, scale="width")
    def grouped(choose, task):
        width = choose("width", (2, 3, 4, 5))
        groups = choose("groups", (1, 2))
        if width % groups:
            raise untrained.spaces.InvalidArch("uneven")
        return nn.Sequential(nn.Conv2d(3, width, 1), nn.Conv2d(width, width, 1, groups=groups))

    # 4 width + width^2 / groups + width: at most 41 for a width of 5 with one group.
    space = ConstrainedSpace(grouped, Limits(max_params=50))
    rng = np.random.default_rng(0)
    samples = {str(space.sample(rng)) for _ in range(40)}
    assert samples == {"width=5,groups=1", "width=4,groups=2"}


def test_a_scale_that_is_no_choice_is_refused():
    @untrained.space(task=TASK, scale="witdh")
    def mistyped(choose, task):
        return nn.Linear(192, choose("width", (1, 2)))

    space = ConstrainedSpace(mistyped, Limits(max_params=1000))
    with pytest.raises(UsageError, match=r"'witdh' is not a choice of width=.; name .*: width$"):
        space.sample(np.random.default_rng(0))


def list_designs(task):
    return {"deep": "width=2,layers=3", f"for {task.num_classes} classes": "width=3,layers=1"}


def test_a_space_of_the_user_may_have_known_designs():
    space = replace(scaled, hooks=replace(scaled.hooks, known_designs=list_designs))
    task = replace(TASK, num_classes=9)
    assert space.known_designs(task) == {
        "deep": scaled.parse("width=2,layers=3"),
        "for 9 classes": scaled.parse("width=3,layers=1"),
    }
    # The wider of 5 and 6 does not fit: 193 w + 2 (w + 1) w + 4 (w + 1) is 1266 for w = 6.
    limited = ConstrainedSpace(space, Limits(max_params=1265))
    assert str(limited.list_known_designs()["deep"]) == "width=5,layers=3"
    assert ConstrainedSpace(scaled, Limits(max_params=1265)).list_known_designs() == {}


@pytest.mark.parametrize(("seconds", "designs"), [(0.001, {"odd": "width=101"}), (1.0, {})])
def test_a_known_design_keeps_a_width_that_the_selection_of_a_long_range_lacks(seconds, designs):
    @untrained.space(task=TASK, scale="width", known_designs=lambda task: {"odd": "width=101"})
    def wide(choose, task):
        width = choose.int("width", 1, 500)
        return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width))

    limits = Limits.parse(max_latency="5ms")
    space = ConstrainedSpace(wide, limits, latency=lambda arch: seconds)
    found = {name: str(arch) for name, arch in space.list_known_designs().items()}
    assert found == designs


def test_a_scale_can_stay_if_no_number_of_the_selection_fits():
    selection = IntRange(1, 500, 1).list_representative_values()

    @untrained.space(task=TASK, scale="width")
    def between(choose, task):
        width = choose.int("width", 1, 500)
        if width in selection:
            raise InvalidArch("the width is in the selection")
        return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width))

    space = ConstrainedSpace(between, Limits(max_params=250 * 193))
    rng = np.random.default_rng(0)
    widths = {space.sample(rng)["width"] for _ in range(5)}
    assert max(widths) <= 250
    assert widths.isdisjoint(selection)


def test_known_designs_that_are_not_in_the_space_are_refused():
    hooks = replace(scaled.hooks, known_designs=lambda task: {"wrong": "width=99,layers=1"})
    space = ConstrainedSpace(replace(scaled, hooks=hooks))
    with pytest.raises(UsageError, match="width=99"):
        space.list_known_designs()


def test_known_designs_of_a_space_without_scale_keep_their_size():
    small = "c0=1," + ",".join(f"c{i}=0" for i in range(1, 10))
    large = ",".join(f"c{i}=3" for i in range(10))
    hooks = replace(ten.hooks, known_designs=lambda task: {"small": small, "large": large})
    space = ConstrainedSpace(replace(ten, hooks=hooks), Limits(max_params=500))
    # Of widths 2 and 31.
    assert {name: params(arch) for name, arch in space.list_known_designs().items()} == {
        "small": 398
    }


@pytest.mark.parametrize(
    "texts",
    [{"max_params": "500k"}, {"max_flops": "50M"}, {"max_params": "500k", "max_flops": "50M"}],
)
def test_samples_of_convnet_lie_just_below_the_limits(texts):
    convnet = load_space("convnet")
    space = ConstrainedSpace(convnet, Limits.parse(**texts))
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        arch = space.sample(rng)
        counts = convnet.counts(arch)
        shares_of_limits = []
        if "max_params" in texts:
            shares_of_limits.append(counts.params / 500e3)
        if "max_flops" in texts:
            shares_of_limits.append(counts.flops / 50e6)
        shares.append(max(shares_of_limits))
    assert max(shares) <= 1
    assert np.median(shares) >= 0.8


def test_a_space_without_scale_samples_as_before():
    """The first samples within the limits, in the order in which the space draws them."""
    space = ConstrainedSpace(ten, Limits(max_params=2500))
    rng = np.random.default_rng(3)
    reference = np.random.default_rng(3)
    for _ in range(30):
        expected = ten.sample(reference)
        while params(expected) > 2500:
            expected = ten.sample(reference)
        assert space.sample(rng) == expected


# ------------------------------------------------------------------------------------------- time


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by a second whenever the size of a network of `ten` is counted."""
    counted = []

    def count_slowly(self):
        counted.append(self._arch)
        return params(self._arch)

    monkeypatch.setattr(NetworkSize, "params", property(count_slowly))
    monkeypatch.setattr(limits_module, "perf_counter", lambda: float(len(counted)))
    monkeypatch.setattr(driver_module, "perf_counter", lambda: float(len(counted)))
    return counted


def test_the_check_of_a_slow_space_ends_in_time(clock):
    # Even the smallest network has 201 parameters.
    limits = SearchLimits(ten, TASK, {"max_params": "150"})
    with pytest.raises(
        UsageError, match=r"none of 20 sampled .* at most 150 .* raise --max-params"
    ):
        limits.check()
    assert len(clock) == 20
    with pytest.raises(UsageError, match="none of 4 sampled"):
        limits.check(total_seconds=12.0)


def test_an_architecture_that_the_check_found_is_proposed_once_the_time_is_over(clock):
    limits = SearchLimits(ten, TASK, {"max_params": "2500"})
    limits.check()
    # Equal to the generator of the check, so that the first samples are those of the check.
    rng = make_generator("limits", ten.name)
    found = ConstrainedSpace(ten, Limits(max_params=2500)).sample(rng)
    limits.space.limit_sampling_time(0.0)
    assert NewArchSampler(limits.space).sample_new(5, np.random.default_rng(0)) == [found]


def test_the_error_names_the_latency_limit_if_networks_are_fast_enough_to_train():
    """Wide networks are close to the limit on the training time, but the latency is the cause."""
    limits = Limits.parse(max_latency="0.001ms")
    space = ConstrainedSpace(twelve, limits, latency=lambda arch: 0.001 * arch["width"])
    # Three quarters of the networks take slightly too long to train.
    space.limit_training_time(TrainingTimeLimit(3 * 192.0, 1.0, 0.0))
    message = (
        r"the closest has 1 ms, but --max-latency allows at most 0\.001 ms; raise --max-latency"
    )
    with pytest.raises(UsageError, match=message):
        space.sample(np.random.default_rng(0))


def test_the_first_sample_of_a_search_of_limited_time_ends(clock):
    space = ConstrainedSpace(ten, Limits(max_params=150))
    space.limit_sampling_time(1.0)
    with pytest.raises(UsageError, match=r"none of 20 sampled .* raise --max-params"):
        space.sample(np.random.default_rng(0))


def test_proposals_take_at_most_half_of_the_time(clock):
    """A few networks are found in half of the time, and the search ends with them."""
    # 12 % of the networks of `ten` have a width of at most 12.
    space = ConstrainedSpace(ten, Limits(max_params=12 * 193 + 4 * 13))
    strategy = RandomSearch(space, np.random.default_rng(0))

    def evaluate(archs):
        for arch in archs:
            yield [make_toy_record(arch, 0.0)]

    result = run_strategy(
        strategy,
        evaluate,
        Budget(seconds=100.0),
        read_fitness,
        limit_sampling_time=space.limit_sampling_time,
    )
    # The second half of the time is not used up by scoring, so proposals get half of it again.
    assert result.end_reason == "time"
    assert 1 <= len(result.records) < 30
    assert len(clock) <= 101


def test_limits_that_are_too_strict_for_a_table_name_smaller_spaces():
    task = load_space("nasrec_small").task
    space = ConstrainedSpace(load_space("nasrec_small"), Limits(max_params=1), task)
    with pytest.raises(UsageError, match=r'--space "mlp" or --space "nasrec_small\(blocks=2\)"'):
        space.check(np.random.default_rng(0), seconds=0.0)
