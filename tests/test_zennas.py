"""The two spaces of ZenNAS without reference data: strings, mutations, samples, crossover, small inputs, counts."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import comb, log10, prod

import numpy as np
import pytest
import torch

from tests.golden.spaces import run_and_count
from untrained.errors import UsageError
from untrained.spaces import Space, load_space, mobilenetv2, zen_resnet
from untrained.spaces.zennas import structure
from untrained.spaces.zennas.counts import count_arch_layers, count_flops, count_params
from untrained.spaces.zennas.mutations import split_block
from untrained.spaces.zennas.network import ZenBlock, adapt_blocks
from untrained.spaces.zennas.structure import make_blocks
from untrained.types import Arch, Task

GOOD = mobilenetv2.INITIAL_STRUCTURES["imagenet"]
both = pytest.mark.parametrize("name", ["mobilenetv2", "zen_resnet"])
mobile = load_space("mobilenetv2")
resnet = load_space("zen_resnet")
MUTATIONS = {"mobilenetv2": mobilenetv2.MUTATION, "zen_resnet": zen_resnet.MUTATION}


def sample_archs(space: Space, count: int, seed: int = 0) -> list[Arch]:
    rng = np.random.default_rng(seed)
    return [space.sample(rng) for _ in range(count)]


def compute_total_stride(arch: Arch) -> int:
    return prod(block.stride for block in make_blocks(arch.genes))


def forget_input(block: ZenBlock) -> ZenBlock:
    return replace(block, cin=0)


# ---------------------------------------------------------------------------------------------------------- strings


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", 0, "SuperConvK3BNRELU and '('"),
        (GOOD[5:], 0, "SuperConvK3BNRELU"),
        (GOOD.replace("(3,8,", "(1,8,"), GOOD.index("(3,8,") + 1, "3 (channels in)"),
        (
            GOOD.replace("E6K3(8,32", "E3K3(8,32"),
            GOOD.index("SuperResIDWE6K3(8,32"),
            "SuperResIDWE1K3",
        ),
        (
            GOOD.replace("SuperResIDWE6K3(8", "SuperResK3K3(8"),
            GOOD.index("SuperResIDWE6K3(8"),
            "SuperResIDWE1K3",
        ),
        (GOOD.replace("(32,48", "(40,48"), GOOD.index("(32,48") + 1, "32 (channels in)"),
        (
            GOOD.replace("(8,32,2,8,1)", "(8,30,2,8,1)"),
            GOOD.index("(8,32,2,8,1)") + 3,
            "a multiple of 8 from 8 to 8192",
        ),
        (
            GOOD.replace("(8,32,2,8,1)", "(8,32,3,8,1)"),
            GOOD.index("(8,32,2,8,1)") + 6,
            "1 or 2 (stride)",
        ),
        (
            GOOD.replace("(8,32,2,8,1)", "(8,32,2,8,0)"),
            GOOD.index("(8,32,2,8,1)") + 10,
            "1 or more (sublayers)",
        ),
        (
            GOOD.replace("(8,32,2,8,1)", "(8,32,2,8)"),
            GOOD.index("(8,32,2,8,1)") + 9,
            "1 or more (sublayers)",
        ),
        (GOOD.replace("(8,32,2,8,1)", "(8,32,2,8,1,1)"), GOOD.index("(8,32,2,8,1)") + 11, "')'"),
        (GOOD.replace("2048,1,1)", "2048,2,1)"), GOOD.index("2048,1,1)") + 5, "1 (stride)"),
        (GOOD[: GOOD.index("SuperConvK1")], GOOD.index("SuperConvK1"), "SuperConvK1BNRELU"),
        (GOOD + " ", len(GOOD), "the end"),
        (GOOD[:-1], len(GOOD) - 1, "')'"),
        (GOOD.replace("(8,32,2", "(8,032,2"), GOOD.index("(8,32,2") + 3, "a multiple of 8"),
    ],
)
def test_an_error_marks_the_position_in_a_malformed_string(text, place, expected):
    with pytest.raises(UsageError) as caught:
        mobile.parse(text)
    assert expected in str(caught.value).split("\n")[0]
    assert f"at position {place}\n" in str(caught.value)


@both
def test_strings_survive_parsing_without_building_a_network(name):
    space = load_space(name)
    for arch in sample_archs(space, 20):
        assert space.parse(str(arch)) == arch
        numbers = [block.cin for block in make_blocks(arch.genes)[1:]]
        assert numbers == [block.cout for block in make_blocks(arch.genes)[:-1]]


def test_a_structure_of_the_other_space_is_rejected():
    with pytest.raises(UsageError, match="SuperResK1K3K1"):
        resnet.parse(GOOD)


# ------------------------------------------------------------------------------------------------------------ steps


@both
def test_a_mutation_replaces_one_block_by_a_candidate(name):
    space = load_space(name)
    mutation = MUTATIONS[name]
    rng = np.random.default_rng(1)
    for parent in sample_archs(space, 12):
        old = [forget_input(block) for block in make_blocks(parent.genes)]
        new = [forget_input(block) for block in make_blocks(space.mutate(parent, rng).genes)]
        possible_children = []
        for n, block in enumerate(old):
            for candidate in mutation.list_candidates(block):
                if candidate != block:
                    replacement = [forget_input(part) for part in split_block(candidate)]
                    possible_children.append([*old[:n], *replacement, *old[n + 1 :]])
        assert new in possible_children


def test_the_published_variant_prefers_the_types_that_it_lists_more_often():
    """Of 12 + 12 + 11 + ... + 2 = 89 entries 12 are E1K3 and 2 are E6K7.

    By default all types have the probability 1/12 (except for the block itself). With 6000 draws of a block the
    standard deviation is at most 0.005.
    """
    blocks = make_blocks(mobile.parse(GOOD).genes)
    for variant, first, last in (("default", 1 / 12, 1 / 12), ("published", 12 / 89, 2 / 89)):
        rng = np.random.default_rng(0)
        kinds = Counter[str]()
        for _ in range(6000):
            kinds[mobilenetv2.MUTATION._sample_candidate(blocks[3], variant, rng).kind] += 1
        assert kinds["SuperResIDWE1K3"] / 6000 == pytest.approx(first, abs=0.015)
        assert kinds["SuperResIDWE6K7"] / 6000 == pytest.approx(last, abs=0.015)


def test_two_replacements_change_two_blocks():
    space = mobile.with_options(replacements=2)
    rng = np.random.default_rng(0)
    parent = space.parse(GOOD)
    for _ in range(20):
        child = make_blocks(space.mutate(parent, rng).genes)
        pairs = zip(
            map(forget_input, make_blocks(parent.genes)), map(forget_input, child), strict=True
        )
        assert sum(a != b for a, b in pairs) == 2


def test_the_last_convolution_changes_in_one_space_only():
    assert {arch["last"] for arch in sample_archs(mobile, 60)} == {2048}
    assert len({arch["last"] for arch in sample_archs(resnet, 60)}) > 3


def test_widths_stay_below_the_maximum():
    wide = ZenBlock("SuperResK3K3", 8, 2048, 1, 2000, 1)
    assert max(block.cout for block in zen_resnet.MUTATION.list_candidates(wide)) == 2048
    assert max(block.inner for block in zen_resnet.MUTATION.list_candidates(wide)) == 2048
    wider = mobilenetv2.MUTATION.list_candidates(ZenBlock("SuperResIDWE6K3", 8, 2048, 1, 8, 1))
    assert max(block.cout for block in wider) == 5120  # 2.5 times 2048


@pytest.mark.parametrize("option", ["variant", "initial"])
def test_a_wrong_option_is_rejected(option):
    with pytest.raises(UsageError, match=option):
        mobile.with_options(**{option: "pubished"}).sample(np.random.default_rng(0))


# --------------------------------------------------------------------------------------- samples, crossover, limits


@pytest.mark.parametrize(
    ("name", "initial"), [(name, start) for name in MUTATIONS for start in MUTATIONS[name].initial]
)
def test_samples_and_children_keep_the_strides_of_the_initial_structure(name, initial):
    space = load_space(name).with_options(initial=initial)
    rng = np.random.default_rng(2)
    expected = compute_total_stride(space.parse(MUTATIONS[name].initial[initial]))
    archs = sample_archs(space, 30)
    children = [space.cross(a, b, rng) for a, b in pairwise(archs)]
    assert {compute_total_stride(arch) for arch in archs + children} == {expected}
    assert expected == (32 if initial == "imagenet" else 8)
    assert len(set(archs)) > 25
    assert archs == sample_archs(space, 30)


@both
def test_a_child_has_its_choices_from_its_parents(name):
    space = load_space(name)
    rng = np.random.default_rng(3)
    for a, b in pairwise(sample_archs(space, 20)):
        child = space.cross(a, b, rng)
        parent_genes = {*a.genes, *b.genes}
        assert {*child.genes} <= parent_genes
        assert space.parse(str(child)) == child


@both
def test_max_layers_limits_sampling_and_parsing(name):
    space = load_space(name).with_options(max_layers=8)
    rng = np.random.default_rng(4)
    archs = sample_archs(space, 40)
    archs += [space.mutate(arch, rng) for arch in archs] + [
        space.cross(a, b, rng) for a, b in pairwise(archs)
    ]
    assert max(map(count_arch_layers, archs)) == 8
    long = next(arch for arch in sample_archs(load_space(name), 100) if count_arch_layers(arch) > 9)
    with pytest.raises(UsageError, match="max_layers is 8"):
        space.parse(str(long))


def count_structures(kinds: int, max_layers: int, widths: int) -> int:
    """Count the structures of a space.

    The stem has two strides and any width, the last convolution any width. B blocks have any types, widths and
    bottlenecks, up to seven strides among them, and sublayers that sum up to at most max_layers - 2.
    """
    inner = max_layers - 2
    ways = (
        comb(inner, b) * sum(comb(b, k) for k in range(8)) * (kinds * widths**2) ** b
        for b in range(inner + 1)
    )
    return 2 * widths**2 * sum(ways)


@both
def test_the_sizes_stated_in_the_documentation_are_right(name, monkeypatch):
    kinds = len(MUTATIONS[name].kinds)
    monkeypatch.setattr(structure, "WIDTHS", range(8, 9, 8))
    assert len(list(load_space(name).with_options(max_layers=4))) == count_structures(
        kinds, 4, widths=1
    )
    stated = {"mobilenetv2": [(16, 110), (30, 211)], "zen_resnet": [(30, 203)]}[name]
    for most, exponent in stated:
        assert round(log10(count_structures(kinds, most, widths=1024))) == exponent
        assert f"10^{exponent}" in (
            {"mobilenetv2": mobilenetv2, "zen_resnet": zen_resnet}[name].__doc__ or ""
        )


# --------------------------------------------------------------------------------------------------------- networks


@both
@pytest.mark.parametrize("shape", [(1, 2, 2), (3, 5, 9), (4, 32, 32), (3, 33, 47)])
def test_networks_run_on_small_and_odd_inputs_and_counts_are_exact(name, shape):
    """torch's parameters and the multiply-adds of every layer that is called, against our counts."""
    space = load_space(name).with_options(initial="imagenet", max_layers=8)
    task = Task("noise", shape, 7)
    for arch in sample_archs(space, 2, seed=5):
        model = space.build(arch, task)
        # One image: a norm needs more than one pixel
        out, macs = run_and_count(model.train(), torch.randn(1, *shape))
        assert out.shape == (1, 7)
        assert out.isfinite().all()
        assert macs == count_flops(space, arch, task)
        assert sum(p.numel() for p in model.parameters()) == count_params(space, arch, task)


@pytest.mark.parametrize(
    ("side", "strides"), [(224, [2] * 5), (33, [2] * 5), (32, [2, 2, 2, 2, 1]), (2, [1] * 5)]
)
def test_a_stride_that_would_leave_one_pixel_becomes_one(side, strides):
    """33 -> 17 -> 9 -> 5 -> 3 -> 2, but 32 -> 16 -> 8 -> 4 -> 2."""
    blocks = adapt_blocks(make_blocks(mobile.parse(GOOD).genes), Task("noise", (3, side, side), 10))
    assert [block.stride for block in blocks[:-1]] == strides


@both
@pytest.mark.parametrize(
    "options", [{"use_se": True}, {"no_reslink": True}, {"no_BN": True}], ids=str
)
def test_networks_with_options_have_gradients(name, options):
    space = load_space(name).with_options(initial="imagenet", **options)
    arch = space.parse(MUTATIONS[name].initial["imagenet"])
    model = space.build(arch, Task("noise", (3, 40, 40), 4))
    model(torch.randn(3, 3, 40, 40)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    task = Task("noise", (3, 40, 40), 4)
    assert sum(p.numel() for p in model.parameters()) == count_params(space, arch, task)
    assert run_and_count(model.eval(), torch.randn(1, 3, 40, 40))[1] == count_flops(
        space, arch, task
    )


@both
def test_a_diagram_lists_the_blocks(name):
    space = load_space(name)
    for arch in sample_archs(space, 5):
        stages = space.draw(arch).stages
        assert [stage.channels for stage in stages] == [
            block.cout for block in make_blocks(arch.genes)
        ]
        assert sum(stage.repeats for stage in stages) == count_arch_layers(arch)
        assert stages[0].label == "conv 3x3"
