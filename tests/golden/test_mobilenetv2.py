"""The MobileNetV2 space against the official code of ZenNAS and ZiCo."""

import pytest

from tests.golden import zennas
from tests.golden.spaces import golden
from tests.golden.zennas import entries
from untrained.spaces import load_space
from untrained.spaces.mobilenetv2 import INITIAL, KINDS, WALK

space = load_space("mobilenetv2")
NAME = "zen_mobilenetv2"


@pytest.mark.data
def test_the_networks_are_the_official_ones():
    assert len(entries(NAME)) == 18
    for entry in entries(NAME):
        zennas.check_network(space, entry)


@pytest.mark.data
def test_true_and_official_counts():
    for entry in entries(NAME):
        zennas.check_sizes(space, entry)


@pytest.mark.data
def test_candidates_are_the_official_ones_and_so_is_their_bias():
    listed = golden()[NAME]["candidate_lists"]
    assert len(listed) == 6
    for one in listed:
        zennas.check_candidates(WALK, one)
    assert "".join(one["block"] for one in listed) == INITIAL["imagenet"]
    every = 504 // 12  # candidates of a type
    assert [listed[1]["by_type"][kind] / every for kind in KINDS] == [12, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]


@pytest.mark.data
def test_official_steps_are_ours_and_long_blocks_are_split():
    chain = [entry for entry in entries(NAME) if "parent" in entry]
    assert len(chain) == 6
    for entry in chain:
        zennas.check_step(WALK, entry["parent"], entry["structure"])
    for entry in entries(NAME):
        zennas.check_split(WALK, entry)


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
    [("400M", 5_698_208, 7_466_024), ("600M", 7_125_944, 11_311_664), ("900M", 13_300_208, 19_351_644)],
)
def test_published_networks(name, without, with_se):
    """SPACES.md: ZenNAS' README says 5.7 M, 7.1 M (both without squeeze-and-excitation) and 19.4 M (with it)."""
    assert zennas.params_on_meta(space, ZENNET[name], 1000) == without
    assert zennas.params_on_meta(space.configured(use_se=True), ZENNET[name], 1000) == with_se
