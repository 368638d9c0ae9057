"""The space of convolutional networks for pictures: sizes, shapes and blocks."""

import numpy as np
import pytest
import torch

from untrained import train
from untrained.config import LatencyLimit, Limits
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.convnet import (
    LARGE_WIDTHS,
    WIDTHS,
    BlockPlan,
    ConvNetResidualBlock,
    ConvNeXtBlock,
    build_block,
    count_stem_halvings,
    plan_blocks,
)
from untrained.spaces.convnet_designs import NAMED_NETWORKS
from untrained.strategies.limits import ConstrainedSpace
from untrained.types import Task
from untrained.workflows.network_spec import load_network_spec

space = load_space("convnet")


@pytest.mark.parametrize("side", [16, 28, 33, 64, 96])
def test_networks_take_pictures_of_any_size(side):
    task = Task("noise", (3, side, side), 7)
    for seed in range(4):
        network = space.build(space.sample(seed=seed), task)
        assert network(torch.zeros(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize(
    ("side", "halvings"),
    [(16, 0), (32, 0), (48, 0), (49, 1), (96, 1), (128, 2), (224, 3), (384, 3)],
)
def test_the_stem_brings_pictures_to_at_most_48_pixels(side, halvings):
    task = Task("noise", (3, side, side), 10)
    assert count_stem_halvings(task) == halvings
    network = space.build(space.sample(seed=0), task)
    stem_output = network.stem(torch.zeros(1, 3, side, side))
    assert 24 < stem_output.shape[-1] <= 48 or side < 25
    assert len(network.stem) == max(1, halvings)


def test_there_are_stem_convolutions_for_every_halving():
    task = Task("noise", (3, 224, 224), 10)
    network = space.build(space.sample(seed=0), task)
    assert [conv[0].stride for conv in network.stem] == [(2, 2)] * 3


@pytest.mark.parametrize("kind", ["residual", "inverted", "convnext"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("squeeze", [False, True])
def test_all_kinds_of_blocks_return_the_same_shape(kind, stride, squeeze):
    """Also for odd sides, which are halved and rounded up."""
    plan = BlockPlan(kind, 6, 10, stride, kernel=5, expansion=2, squeeze=squeeze)
    output = build_block(plan)(torch.randn(2, 6, 7, 9))
    assert output.shape == ((2, 10, 7, 9) if stride == 1 else (2, 10, 4, 5))


def test_a_residual_block_adds_its_input():
    plan = BlockPlan("residual", 4, 4, 1, kernel=3, expansion=1, squeeze=False)
    block = ConvNetResidualBlock(plan).eval()
    torch.nn.init.zeros_(block.steps[3].weight)
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(block(x), x.relu())


def test_a_convnext_block_adds_its_input():
    plan = BlockPlan("convnext", 4, 4, 1, kernel=3, expansion=2, squeeze=False)
    block = ConvNeXtBlock(plan)
    torch.nn.init.zeros_(block.steps[4].weight)
    torch.nn.init.zeros_(block.steps[4].bias)
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(block(x), x)


def test_widths_grow_from_stage_to_stage():
    arch = space.parse(
        "width=12,stages=3,kind0=residual,kernel0=3,depth0=2,se0=False,"
        "stride1=2,growth1=1.5,kind1=inverted,kernel1=5,expansion1=4,depth1=1,se1=True,"
        "stride2=1,growth2=2.0,kind2=convnext,kernel2=7,expansion2=2,depth2=1,se2=False"
    )
    stages = plan_blocks(arch)
    # 12, then 18 and 36, rounded to multiples of 4 (to even where two are equally near).
    assert [blocks[0].cout for blocks in stages] == [12, 16, 36]
    assert [len(blocks) for blocks in stages] == [2, 1, 1]
    assert [blocks[0].stride for blocks in stages] == [1, 2, 1]
    assert [blocks[0].cin for blocks in stages] == [12, 12, 16]


RESNET = (
    "width={width},stages=3,kind0=residual,kernel0=3,depth0=1,se0=False,"
    "stride1=2,growth1=2.0,kind1=residual,kernel1=3,depth1=2,se1=False,"
    "stride2=2,growth2=2.0,kind2=residual,kernel2=3,depth2=2,se2=False"
)


def count_resnet_params(width: int) -> int:
    """Parameters of a ResNet of one, two and two blocks for ten classes, without the space."""

    def count_block(cin: int, cout: int) -> int:
        convs = 9 * cin * cout + 9 * cout * cout + 4 * cout
        if cin != cout:
            convs += cin * cout + 2 * cout
        return convs

    stem = 27 * width + 2 * width
    first = count_block(width, width)
    second = count_block(width, 2 * width) + count_block(2 * width, 2 * width)
    third = count_block(2 * width, 4 * width) + count_block(4 * width, 4 * width)
    return stem + first + second + third + (4 * width + 1) * 10


@pytest.mark.parametrize("width", [10, 24, 384])
def test_narrow_and_wide_networks_are_in_the_space(width):
    """Widths above 64 are not sampled, but they may be written."""
    arch = space.parse(RESNET.format(width=width))
    counts = space.counts(arch, Task("noise", (3, 32, 32), 10))
    assert counts.params == count_resnet_params(width)
    assert [blocks[0].cout for blocks in plan_blocks(arch)] == [width, 2 * width, 4 * width]


def test_sampled_networks_are_at_most_64_wide():
    widths = {space.sample(seed=seed)["width"] for seed in range(300)}
    assert widths == set(WIDTHS)
    assert max(widths) == 64


# ------------------------------------------------------------------------------- known designs


@pytest.mark.parametrize("side", [8, 16, 28, 32, 64, 224])
def test_known_designs_are_networks_for_pictures_of_any_size(side):
    task = Task("noise", (1, side, side), 7)
    designs = space.known_designs(task)
    assert {"ResNet-12", "ResNet-20", "MobileNetV2", "ConvNeXt-like"} <= set(designs)
    for arch in designs.values():
        network = space.build(arch, task)
        features = network.blocks(network.stem(torch.zeros(1, 1, side, side)))
        assert min(features.shape[2:]) >= 4
        assert network.classifier(features.mean((2, 3))).shape == (1, 7)


def test_the_resnet_that_an_engineer_would_write_is_a_known_design():
    """Stages of 24, 48 and 96 channels and five blocks, which have at most 400 k parameters."""
    limited = ConstrainedSpace(space, Limits(max_params=400e3))
    design = limited.list_known_designs()["ResNet-12"]
    assert design == space.parse(RESNET.format(width=24))


@pytest.mark.parametrize("limit", [1e5, 5e5, 5e6])
def test_known_designs_have_the_largest_width_within_the_limit(limit):
    task = Task("noise", (3, 32, 32), 10)
    limited = ConstrainedSpace(space, Limits(max_params=limit), task)
    designs = limited.list_known_designs()
    widths = sorted(WIDTHS + LARGE_WIDTHS)
    allowed_widths = [width for width in widths if count_resnet_params(width) <= limit]
    assert designs["ResNet-12"]["width"] == allowed_widths[-1]
    for arch in designs.values():
        assert space.counts(arch, task).params <= limit


def test_known_designs_that_fit_at_no_width_are_left_out():
    """Stages of 8, 16 and 32 channels: 42,626 parameters, fewer than all other designs but one."""
    limited = ConstrainedSpace(space, Limits(max_params=count_resnet_params(8)))
    assert set(limited.list_known_designs()) == {"ResNet-12", "ConvNeXt-like"}
    assert ConstrainedSpace(space, Limits(max_params=1000)).list_known_designs() == {}


def test_known_designs_are_narrower_if_they_are_too_slow():
    """A network of width w takes w milliseconds here."""
    limits = Limits(max_params=1e6, max_latency=LatencyLimit(0.0205))
    limited = ConstrainedSpace(space, limits, latency=lambda arch: arch["width"] * 1e-3)
    designs = limited.list_known_designs()
    assert {arch["width"] for name, arch in designs.items() if name != "ResNet-18"} == {20}


def test_known_designs_without_limits_have_the_width_that_they_were_written_with():
    assert ConstrainedSpace(space).list_known_designs() == space.known_designs()
    assert space.known_designs()["ResNet-18"]["width"] == 64


# ------------------------------------------------------------------------------- named networks


def test_resnet18_has_the_published_stages():
    """He et al., table 1: two blocks each of 64, 128, 256 and 512 channels."""
    arch = space.parse(NAMED_NETWORKS["resnet18"])
    stages = plan_blocks(arch)
    assert [blocks[0].cout for blocks in stages] == [64, 128, 256, 512]
    assert [len(blocks) for blocks in stages] == [2, 2, 2, 2]
    assert [blocks[0].stride for blocks in stages] == [1, 2, 2, 2]
    # Known for ten classes and a 3x3 stem: 11,173,962 parameters.
    assert space.counts(arch).params == 11_173_962


def test_all_named_networks_are_in_the_space():
    assert {"resnet18", "resnet20", "mobilenetv2", "convnext"} <= set(NAMED_NETWORKS)
    for text in NAMED_NETWORKS.values():
        assert str(space.parse(text)) == text


def test_commands_take_the_names_of_known_networks():
    spec = load_network_spec("resnet20", "nasbench201", "cpu")
    assert spec.arch == space.parse(NAMED_NETWORKS["resnet20"])
    assert spec.space is space
    network = spec.build(Task("noise", (3, 32, 32), 7))
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_a_mistyped_name_is_answered_with_similar_ones():
    with pytest.raises(UsageError, match=r"no network is called 'resnt18'; did you mean resnet18"):
        load_network_spec("resnt18", "nasbench201", "cpu")


def test_a_known_network_can_be_trained(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", x=images, y=np.arange(40) % 4)
    result = train(
        "resnet12",
        f"npz:{tmp_path / 'mine.npz'}",
        "quick(epochs=1,batch=8)",
        input_shape=(3, 8, 8),
        run=tmp_path / "run",
    )
    assert result.key.arch == NAMED_NETWORKS["resnet12"]
    assert result.key.space == "convnet"
    # 32, 64 and 128 channels, and four classes instead of ten.
    assert result.params == count_resnet_params(32) - 6 * 129
    with pytest.raises(
        UsageError, match=r"no run folder is called resnt12, .*did you mean resnet12"
    ):
        train("resnt12", data="digits")
