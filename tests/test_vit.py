"""The space of small vision transformers: tokens, positions and layers."""

import pytest
import torch

from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.spaces.vit import ConvPositions, TransformerLayer, TransformerPlan, count_halvings
from untrained.types import Batch, Task

space = load_space("vit")
ARCH = "stem={stem},grid={grid},width=32,depth=2,heads=2,ratio=2,position={position},pool={pool}"


def make_task(side: int) -> Task:
    return Task("noise", (3, side, side), 7)


def make_arch(stem="patch", grid=4, position="learned", pool="mean"):
    return space.parse(ARCH.format(stem=stem, grid=grid, position=position, pool=pool))


@pytest.mark.parametrize("side", [8, 16, 28, 33, 64])
def test_networks_take_pictures_of_any_size(side):
    for seed in range(4):
        network = space.build(space.sample(seed=seed), make_task(side))
        assert network(torch.zeros(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize(
    ("side", "grid", "halvings"),
    [(8, 8, 0), (16, 8, 1), (16, 4, 2), (28, 8, 2), (32, 8, 2), (32, 4, 3), (64, 8, 3)],
)
def test_pictures_are_halved_to_at_most_the_grid(side, grid, halvings):
    assert count_halvings((side, side), grid) == halvings


@pytest.mark.parametrize("grid", [4, 8])
def test_both_stems_make_the_same_number_of_tokens(grid):
    task = make_task(32)
    for stem in ("patch", "conv"):
        plan = TransformerPlan.make(make_arch(stem, grid), task)
        maps = space.build(make_arch(stem, grid), task).stem(torch.zeros(1, 3, 32, 32))
        assert maps.shape == (1, 32, grid, grid)
        assert (plan.rows, plan.columns) == (grid, grid)


def test_the_convolutions_of_a_stem_double_their_width():
    assert TransformerPlan.make(make_arch("conv", 4), make_task(32)).stem_widths == (8, 16, 32)
    # Narrower ones have 8 channels.
    assert TransformerPlan.make(make_arch("conv", 4), make_task(64)).stem_widths == (8, 8, 16, 32)


def test_parameters_and_multiply_adds_by_hand():
    """16 tokens of width 32, two layers with inner width 64, 7 classes, patches of 4 pixels."""
    patches = 32 * (3 * 4 * 4) + 32
    positions = 16 * 32
    norm = 2 * 32
    attention = (32 * 96 + 96) + (32 * 32 + 32)
    mlp = (32 * 64 + 64) + (64 * 32 + 32)
    head = norm + 32 * 7 + 7
    counts = space.counts(make_arch(), make_task(16))
    assert counts.params == patches + positions + 2 * (2 * norm + attention + mlp) + head
    linear = 16 * (32 * 96 + 32 * 32 + 2 * 32 * 64)
    products = 2 * 16 * 16 * 32
    assert counts.flops == 16 * 32 * 48 + 2 * (linear + products) + 32 * 7


@pytest.mark.parametrize("stem", ["patch", "conv"])
@pytest.mark.parametrize("position", ["none", "learned", "conv"])
@pytest.mark.parametrize("pool", ["mean", "class"])
def test_formulas_agree_with_the_network(stem, position, pool):
    for side in (16, 33):
        arch = make_arch(stem, 8, position, pool)
        task = make_task(side)
        batch = Batch(torch.zeros(1, 3, side, side), torch.zeros(1).long())
        probe = Probe(space.build(arch, task), batch)
        assert space.counts(arch, task)[:2] == (probe.params, probe.macs)


def test_without_positions_the_order_of_the_patches_does_not_matter():
    task = make_task(16)
    x = torch.randn(2, 3, 16, 16)
    # Exchange the left and the right half, which consist of whole patches.
    exchanged = torch.cat([x[..., 8:], x[..., :8]], -1)
    for position, is_equal in (("none", True), ("learned", False), ("conv", False)):
        torch.manual_seed(0)
        network = space.build(make_arch(position=position), task).eval()
        difference = (network(x) - network(exchanged)).abs().max().item()
        assert (difference < 1e-5) == is_equal, position


def test_positions_by_convolution_add_to_the_tokens():
    positions = ConvPositions(4)
    torch.nn.init.zeros_(positions.conv.weight)
    torch.nn.init.zeros_(positions.conv.bias)
    x = torch.randn(2, 4, 3, 3)
    torch.testing.assert_close(positions(x), x)


def test_a_layer_computes_attention_of_every_head():
    """Compare with nn.MultiheadAttention, which has the same weights in the same order."""
    layer = TransformerLayer(width=8, heads=2, inner_width=16)
    reference = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    reference.in_proj_weight.data = layer.qkv.weight.data
    reference.in_proj_bias.data = layer.qkv.bias.data
    reference.out_proj = layer.projection
    x = torch.randn(3, 5, 8)
    tokens = layer.attention_norm(x)
    attended = x + reference(tokens, tokens, tokens)[0]
    torch.testing.assert_close(layer(x), attended + layer.mlp(layer.mlp_norm(attended)))


def test_the_classifier_reads_the_class_token():
    network = space.build(make_arch(pool="class"), make_task(16))
    network.layers = torch.nn.Identity()
    network.class_token.data = torch.arange(32.0)[None, None]
    expected = network.classifier(network.norm(torch.arange(32.0)))
    torch.testing.assert_close(network(torch.randn(2, 3, 16, 16)), expected.expand(2, -1))
