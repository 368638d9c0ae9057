"""The two spaces of ZenNAS against the official code of ZenNAS and ZiCo: networks, counts, candidates, steps."""

import json
from collections import Counter
from hashlib import sha256
from math import inf
from typing import Any

import pytest

from tests.golden.spaces import check, golden
from untrained.errors import UsageError
from untrained.spaces import Space, load_space, mobilenetv2, zen_resnet
from untrained.spaces.zennas.counts import count_arch_layers, count_flops, count_params
from untrained.spaces.zennas.mutations import link_widths, split_block
from untrained.spaces.zennas.network import ZenBlock
from untrained.spaces.zennas.structure import StructureNotation, list_genes
from untrained.types import Task

mobile, resnet = load_space("mobilenetv2"), load_space("zen_resnet")
MUTATIONS = {"mobilenetv2": mobilenetv2.MUTATION, "zen_resnet": zen_resnet.MUTATION}
KEYS = {"mobilenetv2": "zen_mobilenetv2", "zen_resnet": "zen_resnet"}  # of the golden file
HEAVY = 4e9  # multiply-adds
both = pytest.mark.parametrize("name", ["mobilenetv2", "zen_resnet"])


def official(name: str) -> dict[str, Any]:
    """Return the part of the golden file about a space."""
    return golden()[KEYS[name]]


def entries(name: str) -> list[dict[str, Any]]:
    return official(name)["archs"]


def task_of(entry: dict[str, Any]) -> Task:
    return Task("golden", tuple(entry["input_shape"][1:]), entry["num_classes"])


def block(kind: str, *numbers: int) -> ZenBlock:
    """A block of the golden file; convolutions have no bottleneck."""
    cin, cout, stride, *rest = numbers
    return ZenBlock(kind, cin, cout, stride, *(rest if len(rest) == 2 else (0, *rest)))


def copy_input_channels(blocks: list[ZenBlock], like: list[ZenBlock]) -> list[ZenBlock]:
    """Return `blocks` with the input channels of `like`."""
    return [
        ZenBlock(b.kind, w.cin, b.cout, b.stride, b.inner, b.layers)
        for b, w in zip(blocks, like, strict=True)
    ]


def params_on_meta(space: Space, structure: str, classes: int) -> int:
    """Return the number of parameters that torch counts."""
    task = Task("count", (3, 224, 224), classes)
    return sum(
        p.numel() for p in space.build(space.parse(structure), task, device="meta").parameters()
    )


# ---------------------------------------------------------------------------------------------------------- both spaces


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "least", "below", "count"),
    [
        pytest.param("mobilenetv2", 0, inf, 18, id="mobilenetv2"),
        pytest.param("zen_resnet", 0, HEAVY, 11, id="zen_resnet, light"),
        pytest.param("zen_resnet", HEAVY, inf, 3, id="zen_resnet, heavy", marks=pytest.mark.slow),
    ],
)
def test_networks_equal_the_official_ones(name, least, below, count):
    """The string has the same blocks as in the official code, survives parsing, and the network is the official one."""
    selected = [entry for entry in entries(name) if least <= entry["macs"] < below]
    assert len(selected) == count
    for entry in selected:
        space = load_space(name).with_options(**entry["kw"])
        arch = space.parse(entry["structure"])
        assert str(arch) == entry["structure"]
        assert arch.genes == list_genes([block(*choices) for choices in entry["choices"]])
        check(space.build(arch, task_of(entry)), entry)


@pytest.mark.data
@both
def test_true_and_official_counts(name):
    """Our counts equal the true ones, and the published variant the official functions'."""
    for entry in entries(name):
        space, task = load_space(name).with_options(**entry["kw"]), task_of(entry)
        arch = space.parse(entry["structure"])
        assert count_params(space, arch, task) == entry["params"]
        assert count_flops(space, arch, task) == entry["macs"]
        assert (
            count_params(space, arch, task, variant="published") == entry["official_get_model_size"]
        )
        assert count_flops(space, arch, task, variant="published") == entry["official_get_FLOPs"]
        assert count_arch_layers(arch) == entry["official_get_num_layers"]


@pytest.mark.data
@both
def test_candidates_are_the_official_ones_and_so_is_their_bias(name):
    """The candidates of a block, and how often the official list contains each type."""
    lists = official(name)["candidate_lists"]
    assert len(lists) == 6
    for candidate_list in lists:
        kind, _, numbers = candidate_list["block"].rstrip(")").partition("(")
        old = block(kind, *map(int, numbers.split(",")))
        fair, published = (
            MUTATIONS[name].list_candidates(old),
            MUTATIONS[name].list_candidates(old, "published"),
        )
        names = sorted(map(str, fair))
        assert len(set(names)) == len(names) == candidate_list["n_distinct"]
        names_json = json.dumps(names, separators=(",", ":"))
        assert sha256(names_json.encode()).hexdigest() == candidate_list["sorted_distinct_sha256"]
        assert {*published} == {*fair}
        assert len(published) == candidate_list["n_flat"]
        assert Counter(candidate.kind for candidate in published) == candidate_list["by_type"]


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("mobilenetv2", 6), ("zen_resnet", 5)])
def test_official_mutations_are_possible_here(name, count):
    """In an official step from parent to child one or two blocks become a candidate, and widths are linked."""
    chain = [entry for entry in entries(name) if "parent" in entry]
    assert len(chain) == count
    for entry in chain:
        old, new = (
            StructureNotation(MUTATIONS[name].kinds).parse_blocks(entry[which])
            for which in ("parent", "structure")
        )
        assert len(old) == len(new)  # no golden step splits a block
        changed = [
            n
            for n, (a, b) in enumerate(zip(copy_input_channels(old, new), new, strict=True))
            if a != b
        ]
        assert 1 <= len(changed) <= 2
        for n in changed:
            assert new[n] in [
                copy_input_channels([c], [new[n]])[0]
                for c in MUTATIONS[name].list_candidates(old[n])
            ]


@pytest.mark.data
@both
def test_long_blocks_are_split_as_officially(name):
    for entry in entries(name):
        blocks = StructureNotation(MUTATIONS[name].kinds).parse_blocks(entry["structure"])
        parts = [part for whole in link_widths(blocks) for part in split_block(whole)]
        assert "".join(map(str, parts)) == entry["official_split6"]


# ---------------------------------------------------------------------------------------------------------- MobileNetV2


@pytest.mark.data
def test_the_bias_is_towards_the_types_listed_first():
    candidate_lists = official("mobilenetv2")["candidate_lists"]
    assert "".join(one["block"] for one in candidate_lists) == mobilenetv2.INITIAL["imagenet"]
    every = 504 // 12  # candidates of a type
    by_type = candidate_lists[1]["by_type"]
    assert [by_type[kind] / every for kind in mobilenetv2.KINDS] == [
        12,
        12,
        11,
        10,
        9,
        8,
        7,
        6,
        5,
        4,
        3,
        2,
    ]


ZENNET = {  # published structures, by their multiply-adds
    "400M": "SuperConvK3BNRELU(3,16,2,1)SuperResIDWE1K7(16,40,2,40,1)SuperResIDWE1K7(40,64,2,64,1)"
    "SuperResIDWE4K7(64,96,2,96,5)SuperResIDWE2K7(96,224,2,224,5)SuperConvK1BNRELU(224,2048,1,1)",
    "600M": "SuperConvK3BNRELU(3,24,2,1)SuperResIDWE1K7(24,48,2,48,1)SuperResIDWE2K7(48,72,2,72,1)"
    "SuperResIDWE6K7(72,96,2,88,5)SuperResIDWE4K7(96,192,2,168,5)SuperConvK1BNRELU(192,2048,1,1)",
    "900M": "SuperConvK3BNRELU(3,16,2,1)SuperResIDWE1K7(16,48,2,72,1)SuperResIDWE2K7(48,72,2,64,3)"
    "SuperResIDWE2K7(72,152,2,144,3)SuperResIDWE2K7(152,360,2,352,4)SuperResIDWE4K7(360,288,1,264,3)"
    "SuperConvK1BNRELU(288,2048,1,1)",
}


@pytest.mark.parametrize(
    ("name", "without", "with_se"),
    [
        ("400M", 5_698_208, 7_466_024),
        ("600M", 7_125_944, 11_311_664),
        ("900M", 13_300_208, 19_351_644),
    ],
)
def test_published_mobile_networks(name, without, with_se):
    """SPACES.md: ZenNAS' README says 5.7 M, 7.1 M (both without squeeze-and-excitation) and 19.4 M (with it)."""
    assert params_on_meta(mobile, ZENNET[name], 1000) == without
    assert params_on_meta(mobile.with_options(use_se=True), ZENNET[name], 1000) == with_se


# --------------------------------------------------------------------------------------------------------------- ResNet


@pytest.mark.data
def test_initial_structures_are_the_published_ones_except_for_the_correction():
    imagenet, cifar = entries("zen_resnet")[:2]
    assert zen_resnet.INITIAL["imagenet"] == imagenet["structure"]
    assert zen_resnet.INITIAL["cifar"] == cifar["structure"]
    with pytest.raises(UsageError, match=r"expected 512 \(channels in\)"):
        resnet.parse(imagenet["published_structure_as_written_cannot_run"])


@pytest.mark.parametrize(
    ("structure", "classes", "params"),
    [
        (
            "SuperConvK3BNRELU(3,64,1,1)SuperResK1K5K1(64,168,1,16,3)SuperResK1K3K1(168,80,2,32,4)"
            "SuperResK1K5K1(80,112,2,16,3)SuperResK1K5K1(112,144,1,24,3)SuperResK1K3K1(144,32,2,40,1)"
            "SuperConvK1BNRELU(32,512,1,1)",
            10,
            500_466,
        ),
        (
            "SuperConvK3BNRELU(3,24,2,1)SuperResK1K5K1(24,32,2,32,1)SuperResK1K7K1(32,104,2,64,1)"
            "SuperResK1K5K1(104,512,2,160,1)SuperResK1K5K1(512,344,1,192,1)SuperResK1K5K1(344,688,2,320,4)"
            "SuperResK1K5K1(688,680,1,304,3)SuperConvK1BNRELU(680,2552,1,1)",
            1000,
            49_681_944,
        ),
        (
            "SuperConvK3BNRELU(3,32,2,1)SuperResK1K5K1(32,80,2,32,1)SuperResK1K7K1(80,432,2,128,5)"
            "SuperResK1K7K1(432,640,2,192,3)SuperResK1K7K1(640,1008,1,160,5)SuperResK1K7K1(1008,976,1,160,4)"
            "SuperResK1K5K1(976,2304,2,384,5)SuperResK1K5K1(2304,2496,1,384,5)SuperConvK1BNRELU(2496,3072,1,1)",
            1000,
            180_593_736,
        ),
    ],
    ids=["cifar 0.5M", "0.2 ms", "1.2 ms"],
)
def test_published_residual_networks(structure, classes, params):
    """SPACES.md: ZenNAS' README says 0.5 M, 49.7 M and 180 M. The other published ones are in the golden file."""
    assert params_on_meta(resnet, structure, classes) == params
