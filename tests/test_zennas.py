"""The two spaces of ZenNAS beyond the golden file: strings, steps, walks, crossover, small inputs, counts."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import comb, log10, prod

import numpy as np
import pytest
import torch

from tests.golden.spaces import run
from untrained.errors import UsageError
from untrained.spaces import Space, _structure, load_space, mobilenetv2, zen_resnet
from untrained.spaces._plainnet import Block, fitted
from untrained.spaces._plainnet_size import flops, model_size, num_layers
from untrained.spaces._structure import blocks_of
from untrained.spaces._walk import split
from untrained.types import Arch, Task

GOOD = mobilenetv2.INITIAL["imagenet"]
both = pytest.mark.parametrize("name", ["mobilenetv2", "zen_resnet"])
mobile, resnet = load_space("mobilenetv2"), load_space("zen_resnet")
WALKS = {"mobilenetv2": mobilenetv2.WALK, "zen_resnet": zen_resnet.WALK}


def samples(space: Space, count: int, seed: int = 0) -> list[Arch]:
    rng = np.random.default_rng(seed)
    return [space.sample(rng) for _ in range(count)]


def total_stride(arch: Arch) -> int:
    return prod(block.stride for block in blocks_of(arch.genes))


def unlinked(block: Block) -> Block:
    return replace(block, cin=0)


# ---------------------------------------------------------------------------------------------------------- strings


@pytest.mark.parametrize(
    ("text", "place", "wanted"),
    [
        ("", 0, "SuperConvK3BNRELU and '('"),
        (GOOD[5:], 0, "SuperConvK3BNRELU"),
        (GOOD.replace("(3,8,", "(1,8,"), GOOD.index("(3,8,") + 1, "3 (channels in)"),
        (GOOD.replace("E6K3(8,32", "E3K3(8,32"), GOOD.index("SuperResIDWE6K3(8,32"), "SuperResIDWE1K3"),
        (GOOD.replace("SuperResIDWE6K3(8", "SuperResK3K3(8"), GOOD.index("SuperResIDWE6K3(8"), "SuperResIDWE1K3"),
        (GOOD.replace("(32,48", "(40,48"), GOOD.index("(32,48") + 1, "32 (channels in)"),
        (
            GOOD.replace("(8,32,2,8,1)", "(8,30,2,8,1)"),
            GOOD.index("(8,32,2,8,1)") + 3,
            "a multiple of 8 from 8 to 8192",
        ),
        (GOOD.replace("(8,32,2,8,1)", "(8,32,3,8,1)"), GOOD.index("(8,32,2,8,1)") + 6, "1 or 2 (stride)"),
        (GOOD.replace("(8,32,2,8,1)", "(8,32,2,8,0)"), GOOD.index("(8,32,2,8,1)") + 10, "1 or more (sublayers)"),
        (GOOD.replace("(8,32,2,8,1)", "(8,32,2,8)"), GOOD.index("(8,32,2,8,1)") + 9, "1 or more (sublayers)"),
        (GOOD.replace("(8,32,2,8,1)", "(8,32,2,8,1,1)"), GOOD.index("(8,32,2,8,1)") + 11, "')'"),
        (GOOD.replace("2048,1,1)", "2048,2,1)"), GOOD.index("2048,1,1)") + 5, "1 (stride)"),
        (GOOD[: GOOD.index("SuperConvK1")], GOOD.index("SuperConvK1"), "SuperConvK1BNRELU"),
        (GOOD + " ", len(GOOD), "the end"),
        (GOOD[:-1], len(GOOD) - 1, "')'"),
        (GOOD.replace("(8,32,2", "(8,032,2"), GOOD.index("(8,32,2") + 3, "a multiple of 8"),
    ],
)
def test_a_malformed_string_is_marked_where_it_goes_wrong(text, place, wanted):
    with pytest.raises(UsageError) as caught:
        mobile.parse(text)
    assert wanted in str(caught.value).split("\n")[0]
    assert f"at position {place}\n" in str(caught.value)


@both
def test_strings_read_back_and_need_no_weights(name):
    space = load_space(name)
    for arch in samples(space, 20):
        assert space.parse(str(arch)) == arch
        numbers = [block.cin for block in blocks_of(arch.genes)[1:]]
        assert numbers == [block.cout for block in blocks_of(arch.genes)[:-1]]


def test_a_structure_of_the_other_space_is_refused():
    with pytest.raises(UsageError, match="SuperResK1K3K1"):
        resnet.parse(GOOD)


# ------------------------------------------------------------------------------------------------------------ steps


@both
def test_a_mutation_replaces_one_block_by_a_candidate(name):
    space, walk, rng = load_space(name), WALKS[name], np.random.default_rng(1)
    for parent in samples(space, 12):
        old = [unlinked(block) for block in blocks_of(parent.genes)]
        new = [unlinked(block) for block in blocks_of(space.mutate(parent, rng).genes)]
        ways = [
            [*old[:n], *map(unlinked, split(candidate)), *old[n + 1 :]]
            for n, block in enumerate(old)
            for candidate in walk.candidates(block)
            if candidate != block
        ]
        assert new in ways


def test_the_published_variant_prefers_the_types_that_it_lists_more_often():
    """Of 12 + 12 + 11 + ... + 2 = 89 entries 12 are E1K3 and 2 are E6K7; by default all have the same chance of 1/12
    (but for the block itself). 6000 draws of a block: a standard deviation of at most 0.005."""
    blocks = blocks_of(mobile.parse(GOOD).genes)
    for variant, first, last in (("default", 1 / 12, 1 / 12), ("published", 12 / 89, 2 / 89)):
        rng, seen = np.random.default_rng(0), Counter[str]()
        for _ in range(6000):
            seen[mobilenetv2.WALK._drawn(blocks[3], variant, rng).kind] += 1
        assert seen["SuperResIDWE1K3"] / 6000 == pytest.approx(first, abs=0.015)
        assert seen["SuperResIDWE6K7"] / 6000 == pytest.approx(last, abs=0.015)


def test_two_replacements_change_two_blocks():
    space, rng = mobile.configured(replacements=2), np.random.default_rng(0)
    parent = space.parse(GOOD)
    for _ in range(20):
        child = blocks_of(space.mutate(parent, rng).genes)
        pairs = zip(map(unlinked, blocks_of(parent.genes)), map(unlinked, child), strict=True)
        assert sum(a != b for a, b in pairs) == 2


def test_the_last_convolution_changes_in_one_space_only():
    assert {arch["last"] for arch in samples(mobile, 60)} == {2048}
    assert len({arch["last"] for arch in samples(resnet, 60)}) > 3


def test_widths_stay_within_the_cap():
    wide = Block("SuperResK3K3", 8, 2048, 1, 2000, 1)
    assert max(block.cout for block in zen_resnet.WALK.candidates(wide)) == 2048
    assert max(block.inner for block in zen_resnet.WALK.candidates(wide)) == 2048
    wider = mobilenetv2.WALK.candidates(Block("SuperResIDWE6K3", 8, 2048, 1, 8, 1))
    assert max(block.cout for block in wider) == 5120  # 2.5 times 2048


@pytest.mark.parametrize("option", ["variant", "initial"])
def test_a_wrong_option_is_refused(option):
    with pytest.raises(UsageError, match=option):
        mobile.configured(**{option: "pubished"}).sample(np.random.default_rng(0))


# --------------------------------------------------------------------------------------- samples, crossover, limits


@pytest.mark.parametrize(("name", "initial"), [(name, start) for name in WALKS for start in WALKS[name].initial])
def test_samples_and_children_keep_the_strides_of_the_start(name, initial):
    space, rng = load_space(name).configured(initial=initial), np.random.default_rng(2)
    wanted = total_stride(space.parse(WALKS[name].initial[initial]))
    archs = samples(space, 30)
    children = [space.crossover(a, b, rng) for a, b in pairwise(archs)]
    assert {total_stride(arch) for arch in archs + children} == {wanted}
    assert wanted == (32 if initial == "imagenet" else 8)
    assert len(set(archs)) > 25
    assert archs == samples(space, 30)


@both
def test_a_child_has_its_choices_from_its_parents(name):
    space, rng = load_space(name), np.random.default_rng(3)
    for a, b in pairwise(samples(space, 20)):
        child = space.crossover(a, b, rng)
        given = {*a.genes, *b.genes}
        assert {*child.genes} <= given
        assert space.parse(str(child)) == child


@both
def test_max_layers_limits_what_is_drawn_and_what_is_read(name):
    space, rng = load_space(name).configured(max_layers=8), np.random.default_rng(4)
    archs = samples(space, 40)
    archs += [space.mutate(arch, rng) for arch in archs] + [space.crossover(a, b, rng) for a, b in pairwise(archs)]
    assert max(map(num_layers, archs)) == 8
    long = next(arch for arch in samples(load_space(name), 100) if num_layers(arch) > 9)
    with pytest.raises(UsageError, match="max_layers is 8"):
        space.parse(str(long))


def structures(kinds: int, max_layers: int, widths: int) -> int:
    """Two strides and any width of the stem, any last width; of B blocks any types, widths and bottlenecks, up to seven
    strides among them, and sublayers that sum up to at most max_layers - 2 (a choice of B borders)."""
    inner = max_layers - 2
    ways = (comb(inner, b) * sum(comb(b, k) for k in range(8)) * (kinds * widths**2) ** b for b in range(inner + 1))
    return 2 * widths**2 * sum(ways)


@both
def test_the_stated_sizes(name, monkeypatch):
    kinds = len(WALKS[name].kinds)
    monkeypatch.setattr(_structure, "WIDTHS", range(8, 9, 8))
    assert len(list(load_space(name).configured(max_layers=4))) == structures(kinds, 4, widths=1)
    stated = {"mobilenetv2": [(16, 110), (30, 211)], "zen_resnet": [(30, 203)]}[name]
    for most, exponent in stated:
        assert round(log10(structures(kinds, most, widths=1024))) == exponent
        assert f"10^{exponent}" in ({"mobilenetv2": mobilenetv2, "zen_resnet": zen_resnet}[name].__doc__ or "")


# --------------------------------------------------------------------------------------------------------- networks


@both
@pytest.mark.parametrize("shape", [(1, 2, 2), (3, 5, 9), (4, 32, 32), (3, 33, 47)])
def test_networks_run_on_small_and_odd_inputs_and_are_counted_right(name, shape):
    """torch's parameters and the multiply-adds of every layer that is called, against our counts."""
    space, task = load_space(name).configured(initial="imagenet", max_layers=8), Task("noise", shape, 7)
    for arch in samples(space, 2, seed=5):
        model = space.build(arch, task)
        out, macs = run(model.train(), torch.randn(1, *shape))  # one image: a norm needs more than one pixel
        assert out.shape == (1, 7)
        assert out.isfinite().all()
        assert macs == flops(space, arch, task)
        assert sum(p.numel() for p in model.parameters()) == model_size(space, arch, task)


@pytest.mark.parametrize(("side", "strides"), [(224, [2] * 5), (33, [2] * 5), (32, [2, 2, 2, 2, 1]), (2, [1] * 5)])
def test_a_stride_that_would_leave_one_pixel_is_not_taken(side, strides):
    """33 -> 17 -> 9 -> 5 -> 3 -> 2, but 32 -> 16 -> 8 -> 4 -> 2."""
    blocks = fitted(blocks_of(mobile.parse(GOOD).genes), Task("noise", (3, side, side), 10))
    assert [block.stride for block in blocks[:-1]] == strides


@both
@pytest.mark.parametrize("options", [{"use_se": True}, {"no_reslink": True}, {"no_BN": True}], ids=str)
def test_options_build_and_learn(name, options):
    space = load_space(name).configured(initial="imagenet", **options)
    arch = space.parse(WALKS[name].initial["imagenet"])
    model = space.build(arch, Task("noise", (3, 40, 40), 4))
    model(torch.randn(3, 3, 40, 40)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    task = Task("noise", (3, 40, 40), 4)
    assert sum(p.numel() for p in model.parameters()) == model_size(space, arch, task)
    assert run(model.eval(), torch.randn(1, 3, 40, 40))[1] == flops(space, arch, task)


@both
def test_a_sketch_lists_the_blocks(name):
    space = load_space(name)
    for arch in samples(space, 5):
        assert space.sketch is not None
        stages = space.sketch(arch).stages
        assert [stage.channels for stage in stages] == [block.cout for block in blocks_of(arch.genes)]
        assert sum(stage.repeats for stage in stages) == num_layers(arch)
        assert stages[0].label == "conv 3x3"
