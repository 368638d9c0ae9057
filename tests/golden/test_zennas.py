"""The two spaces of ZenNAS equal the official code of ZenNAS and ZiCo: networks, counts, mutations."""

import json
from collections import Counter
from hashlib import sha256
from math import inf
from typing import Any

import pytest

from tests.golden.spaces import check_network, read_golden_file
from untrained.errors import UsageError
from untrained.spaces import Space, load_space, mobilenetv2, zen_resnet
from untrained.spaces.zennas.counts import count_arch_layers, count_flops, count_params
from untrained.spaces.zennas.mutations import link_widths, split_block
from untrained.spaces.zennas.network import ZenBlock
from untrained.spaces.zennas.structure import StructureNotation, list_genes
from untrained.types import Task

mobile = load_space("mobilenetv2")
resnet = load_space("zen_resnet")
MUTATIONS = {"mobilenetv2": mobilenetv2.MUTATION, "zen_resnet": zen_resnet.MUTATION}
KEYS = {"mobilenetv2": "zen_mobilenetv2", "zen_resnet": "zen_resnet"}  # of the golden file
HEAVY = 4e9  # multiply-adds
both = pytest.mark.parametrize("name", ["mobilenetv2", "zen_resnet"])


def read_official(name: str) -> dict[str, Any]:
    """Return the part of the golden file about a space."""
    return read_golden_file()[KEYS[name]]


def list_entries(name: str) -> list[dict[str, Any]]:
    return read_official(name)["archs"]


def make_task(entry: dict[str, Any]) -> Task:
    return Task("golden", tuple(entry["input_shape"][1:]), entry["num_classes"])


def make_block(kind: str, *numbers: int) -> ZenBlock:
    """Make a block from its numbers in the golden file; convolutions have no bottleneck."""
    cin, cout, stride, *rest = numbers
    return ZenBlock(kind, cin, cout, stride, *(rest if len(rest) == 2 else (0, *rest)))


def copy_input_channels(blocks: list[ZenBlock], like: list[ZenBlock]) -> list[ZenBlock]:
    """Return `blocks` with the input channels of `like`."""
    return [
        ZenBlock(b.kind, w.cin, b.cout, b.stride, b.inner, b.layers)
        for b, w in zip(blocks, like, strict=True)
    ]


def count_meta_params(space: Space, structure: str, classes: int) -> int:
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
    """The string survives parsing and has the official blocks, and the network is the official one."""
    selected = [entry for entry in list_entries(name) if least <= entry["macs"] < below]
    assert len(selected) == count
    for entry in selected:
        space = load_space(name).with_options(**entry["kw"])
        arch = space.parse(entry["structure"])
        assert str(arch) == entry["structure"]
        assert arch.genes == list_genes([make_block(*choices) for choices in entry["choices"]])
        check_network(space.build(arch, make_task(entry)), entry)


@pytest.mark.data
@both
def test_counts_equal_the_true_and_the_official_ones(name):
    """Our counts are the true ones; the variant `published` equals the official functions."""
    for entry in list_entries(name):
        space = load_space(name).with_options(**entry["kw"])
        task = make_task(entry)
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
    lists = read_official(name)["candidate_lists"]
    assert len(lists) == 6
    for candidate_list in lists:
        kind, _, numbers = candidate_list["block"].rstrip(")").partition("(")
        old = make_block(kind, *map(int, numbers.split(",")))
        fair = MUTATIONS[name].list_candidates(old)
        published = MUTATIONS[name].list_candidates(old, "published")
        names = sorted(map(str, fair))
        assert len(set(names)) == len(names) == candidate_list["n_distinct"]
        names_json = json.dumps(names, separators=(",", ":"))
        assert sha256(names_json.encode()).hexdigest() == candidate_list["sorted_distinct_sha256"]
        assert {*published} == {*fair}
        assert len(published) == candidate_list["n_flat"]
        assert Counter(candidate.kind for candidate in published) == candidate_list["by_type"]


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("mobilenetv2", 6), ("zen_resnet", 5)])
def test_official_mutations_are_possible_in_our_spaces(name, count):
    """In an official mutation one or two blocks are replaced by a candidate, and widths are linked."""
    chain = [entry for entry in list_entries(name) if "parent" in entry]
    assert len(chain) == count
    for entry in chain:
        old, new = (
            StructureNotation(MUTATIONS[name].kinds).parse_blocks(entry[which])
            for which in ("parent", "structure")
        )
        assert len(old) == len(new)  # no golden step splits a block
        changed = []
        for n, (before, after) in enumerate(zip(copy_input_channels(old, new), new, strict=True)):
            if before != after:
                changed.append(n)
        assert 1 <= len(changed) <= 2
        for n in changed:
            assert new[n] in [
                copy_input_channels([c], [new[n]])[0]
                for c in MUTATIONS[name].list_candidates(old[n])
            ]


@pytest.mark.data
@both
def test_long_blocks_are_split_like_the_official_ones(name):
    for entry in list_entries(name):
        blocks = StructureNotation(MUTATIONS[name].kinds).parse_blocks(entry["structure"])
        parts = [part for whole in link_widths(blocks) for part in split_block(whole)]
        assert "".join(map(str, parts)) == entry["official_split6"]


# ---------------------------------------------------------------------------------------------------------- MobileNetV2


@pytest.mark.data
def test_official_mutations_prefer_the_types_listed_first():
    candidate_lists = read_official("mobilenetv2")["candidate_lists"]
    assert (
        "".join(one["block"] for one in candidate_lists)
        == mobilenetv2.INITIAL_STRUCTURES["imagenet"]
    )
    candidates_per_type = 504 // 12
    by_type = candidate_lists[1]["by_type"]
    repetitions = [by_type[kind] / candidates_per_type for kind in mobilenetv2.KINDS]
    assert repetitions == [12, *range(12, 1, -1)]


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
def test_published_mobile_networks_have_the_published_sizes(name, without, with_se):
    """The README of ZenNAS says 5.7 M and 7.1 M (both without squeeze-and-excitation) and 19.4 M."""
    assert count_meta_params(mobile, ZENNET[name], 1000) == without
    assert count_meta_params(mobile.with_options(use_se=True), ZENNET[name], 1000) == with_se


# --------------------------------------------------------------------------------------------------------------- ResNet


@pytest.mark.data
def test_initial_structures_are_the_published_ones_with_one_correction():
    imagenet, cifar = list_entries("zen_resnet")[:2]
    assert zen_resnet.INITIAL_STRUCTURES["imagenet"] == imagenet["structure"]
    assert zen_resnet.INITIAL_STRUCTURES["cifar"] == cifar["structure"]
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
def test_published_residual_networks_have_the_published_sizes(structure, classes, params):
    """The README of ZenNAS says 0.5 M, 49.7 M and 180 M. Others are in the golden file."""
    assert count_meta_params(resnet, structure, classes) == params
