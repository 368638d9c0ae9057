"""The ResNet space of ZenNAS against its official code."""

import pytest

from tests.golden import zennas
from tests.golden.spaces import golden
from tests.golden.zennas import entries
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.zen_resnet import INITIAL, WALK

space = load_space("zen_resnet")
NAME = "zen_resnet"
HEAVY = 4e9  # multiply-adds


@pytest.mark.data
def test_the_networks_are_the_official_ones():
    light = [entry for entry in entries(NAME) if entry["macs"] < HEAVY]
    assert len(light) == 11
    for entry in light:
        zennas.check_network(space, entry)


@pytest.mark.slow
@pytest.mark.data
def test_the_heavy_networks_are_the_official_ones():
    heavy = [entry for entry in entries(NAME) if entry["macs"] >= HEAVY]
    assert len(heavy) == 3
    for entry in heavy:
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


@pytest.mark.data
def test_official_steps_are_ours_and_long_blocks_are_split():
    chain = [entry for entry in entries(NAME) if "parent" in entry]
    assert len(chain) == 5
    for entry in chain:
        zennas.check_step(WALK, entry["parent"], entry["structure"])
    for entry in entries(NAME):
        zennas.check_split(WALK, entry)


@pytest.mark.data
def test_initial_structures_are_the_published_ones_but_for_the_repair():
    imagenet, cifar = entries(NAME)[:2]
    assert INITIAL["imagenet"] == imagenet["structure"]
    assert INITIAL["cifar"] == cifar["structure"]
    with pytest.raises(UsageError, match=r"expected 512 \(channels in\)"):
        space.parse(imagenet["published_structure_as_written_cannot_run"])


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
def test_published_networks(structure, classes, params):
    """SPACES.md: ZenNAS' README says 0.5 M, 49.7 M and 180 M. The other published ones are in the golden file."""
    assert zennas.params_on_meta(space, structure, classes) == params
