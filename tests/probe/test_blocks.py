"""The trunk of a network: which modules are its blocks, how gradients pass them, and how deep it is."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.probe.loops import D, Net, copy_with_batch_statistics, make_batch, randomise
from tests.probe.networks import FLAT, IMAGES, TOKENS, freeze
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.blocks import Blocks, find_blocks, flatten_positions, measure_blocks
from untrained.probe.graph import record_graph
from untrained.proxies import load_proxy
from untrained.spaces import load_space
from untrained.types import Batch

CELL = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"


class Basic(nn.Module):
    """A residual block like that of torchvision, with in-place operations."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.down = (
            nn.Sequential(nn.Conv2d(cin, cout, 1, stride), nn.BatchNorm2d(cout))
            if stride > 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.relu(self.bn1(self.conv1(x))))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        )
        self.layer1 = nn.Sequential(Basic(4, 4), Basic(4, 4))
        self.layer2 = nn.Sequential(Basic(4, 6, 2), Basic(6, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


class PreActivated(nn.Sequential):
    """Its first function overwrites the output of the previous block."""

    def __init__(self) -> None:
        super().__init__(nn.ELU(inplace=True), nn.Conv2d(3, 3, 3, padding=1))


class Transformer(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, 0.1, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


def make_nasbench201(cells: int = 1) -> nn.Module:
    space = load_space("nasbench201").with_options(channels=4, cells=cells)
    return space.build(space.parse(CELL))


def make_plain() -> nn.Module:
    layers = [
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3),
        nn.Tanh(),
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def make_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (
            make_nasbench201(2),
            [f"cells.{i}" for i in range(8)],
        ),  # 2 cells, block, 2 cells, block, 2 cells
        (ResNet(), ["layer1.0", "layer1.1", "layer2.0", "layer2.1"]),
        (Transformer(3), [f"encoder.layers.{i}" for i in range(3)]),
        (make_plain(), ["0", "3", "7"]),
        (make_mlp(), ["0", "2", "4"]),
        (
            nn.Sequential(
                nn.Sequential(nn.Linear(6, 6)), nn.Sequential(nn.Linear(6, 6), nn.ReLU())
            ),
            ["0", "1"],
        ),
        (nn.Sequential(nn.Sequential(PreActivated(), PreActivated())), ["0.0", "0.1"]),
        (nn.Tanh(), []),
    ],
    ids=[
        "nasbench201",
        "resnet",
        "transformer",
        "plain",
        "mlp",
        "stack of stacks",
        "stack alone",
        "nothing",
    ],
)
def test_blocks_are_the_members_of_the_outermost_stacks(model, names):
    names_by_module = {module: name for name, module in model.named_modules()}
    assert [names_by_module[block] for block in find_blocks(model)] == names


# ------------------------------------------------------------------------------------------------------------ gradients


def draw_signs(feature: Tensor, place: int) -> Tensor:
    """Draw random signs, different ones at every place."""
    draw = torch.Generator().manual_seed(place)
    return (torch.randint(2, feature.shape, generator=draw) * 2 - 1).to(feature)


def measure_random_signs(model: nn.Module, data: Batch) -> Blocks:
    with Probe(model, data).scoring_mode():
        return measure_blocks(record_graph(model, model, data.inputs).trunk, draw_signs)


def run_blocks(model: nn.Module, data: Batch) -> tuple[list[nn.Module], list[Tensor]]:
    """Return the blocks of a copy, and clones of the first block's input and of every block's output."""
    copy = copy_with_batch_statistics(model)
    blocks = find_blocks(copy)
    features = []
    blocks[0].register_forward_pre_hook(lambda module, args: features.append(args[0].clone()))
    for block in blocks:
        block.register_forward_hook(lambda module, args, output: features.append(output.clone()))
    with torch.no_grad():
        copy(data.inputs.clone())
    for block in blocks:
        block._forward_hooks.clear()
        block._forward_pre_hooks.clear()
    return blocks, features


def flatten_by_position(feature: Tensor) -> Tensor:
    """Return (positions, channels) of images (n, c, h, w) or of tokens (n, t, c)."""
    if feature.ndim == 4:
        return feature.permute(0, 2, 3, 1).reshape(-1, feature.shape[1])
    return feature.reshape(-1, feature.shape[-1])


def make_doubling() -> nn.Module:
    """Make a network that overwrites its input without a layer that does so."""
    return Net(lambda net, x: net.a(x.mul_(2)) + 1, a=nn.Linear(6, 6))


NETWORKS = {
    "nasbench201": (make_nasbench201, (2, 3, 8, 8)),
    "resnet": (ResNet, (2, 3, 8, 8)),
    "overwriting": (lambda: nn.Sequential(PreActivated(), PreActivated(), PreActivated()), IMAGES),
    "doubling": (lambda: nn.Sequential(*(nn.Sequential(make_doubling()) for _ in range(3))), FLAT),
    "transformer": (Transformer, TOKENS),
    "mlp": (make_mlp, FLAT),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_features_are_the_outputs_of_blocks(case):
    make, shape = NETWORKS[case]
    model = randomise(make())
    data = make_batch(*shape)
    _, expected = run_blocks(model, data)
    features = measure_random_signs(model, data).features
    assert len(features) == len(expected)
    for ours, theirs in zip(features, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
        assert not ours.requires_grad


@pytest.mark.parametrize(
    "case", ["nasbench201", "resnet", "overwriting", "doubling", "transformer"]
)
def test_gradients_through_blocks_equal_those_of_autograd(case):
    """For each block alone, from random signs at its output to the gradient at its input."""
    make, shape = NETWORKS[case]
    model = randomise(make())
    data = make_batch(*shape)
    blocks, features = run_blocks(model, data)
    measured = measure_random_signs(model, data)
    for k, (block, pair) in enumerate(zip(blocks, measured.gradient_pairs, strict=True), start=1):
        x = features[k - 1].clone().requires_grad_()
        g_out = draw_signs(features[k], k)
        (g_in,) = torch.autograd.grad(block(x * 1), x, g_out)
        ours_in, ours_out = pair
        torch.testing.assert_close(ours_out, flatten_by_position(g_out))
        torch.testing.assert_close(
            ours_in, _pixels_as_channels(g_in, g_out), rtol=1e-10, atol=1e-12
        )


def _pixels_as_channels(g_in: Tensor, g_out: Tensor) -> Tensor:
    """If the block halves the resolution, the four input pixels per output pixel become channels.

    They are ordered by channel, then row, then column.
    """
    if g_in.ndim != 4 or g_in.shape[2:] == g_out.shape[2:]:
        return flatten_by_position(g_in)
    n, c, h, w = g_in.shape
    return (
        g_in.reshape(n, c, h // 2, 2, w // 2, 2)
        .permute(0, 2, 4, 1, 3, 5)
        .reshape(n * h * w // 4, 4 * c)
    )


def test_a_remaining_border_is_cut_off():
    """Stride 2 without padding turns 7x7 into 3x3: the last row and column of the gradient are left out."""
    model = randomise(nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Tanh(), nn.Conv2d(4, 4, 1)))
    data = make_batch(*IMAGES)
    first = measure_random_signs(model, data).gradient_pairs[0]
    x = data.inputs.clone().requires_grad_()
    out = model[0](x)
    (g_in,) = torch.autograd.grad(out, x, draw_signs(out, 1))
    torch.testing.assert_close(first[0], _pixels_as_channels(g_in[:, :, :6, :6], out))


def test_a_block_without_a_path_from_its_input_has_no_gradient():
    """The path is cut by a factor of zero, by a constant, or by a detached copy."""
    for cut, alive in ((lambda x: x * 0, True), (torch.zeros_like, False), (Tensor.detach, False)):
        middle = Net(lambda net, x, cut=cut: net.a(cut(x)), a=nn.Linear(6, 6))
        model = randomise(
            nn.Sequential(
                *(nn.Sequential(block) for block in (nn.Linear(6, 6), middle, nn.Linear(6, 6)))
            )
        )
        first, second, third = measure_random_signs(model, make_batch(*FLAT)).gradient_pairs
        assert first is not None
        assert third is not None
        assert not second[0].any() if alive else second is None


def test_a_constant_block_has_no_gradient():
    constant = Net(lambda net, x: torch.ones_like(x), a=nn.Identity())
    model = randomise(
        nn.Sequential(
            *(nn.Sequential(block) for block in (nn.Linear(6, 6), constant, nn.Linear(6, 6)))
        )
    )
    first, second, third = measure_random_signs(model, make_batch(*FLAT)).gradient_pairs
    assert first is not None
    assert second is None
    assert third is None


def test_a_block_that_raises_the_resolution_is_unsupported():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=4), nn.Conv2d(4, 4, 3)
    ).double()
    with pytest.raises(Unscorable, match="unsupported: a block raises the resolution"):
        measure_random_signs(model, make_batch(*IMAGES))


def test_pooled_features_are_not_part_of_the_trunk():
    """The trunk of a plain CNN has the two convolutions, not the classifier."""
    measured = measure_random_signs(randomise(make_plain()), make_batch(*IMAGES))
    assert [f.shape for f in measured.features] == [(4, 3, 7, 7), (4, 4, 5, 5), (4, 4, 3, 3)]
    assert len(measured.gradient_pairs) == 2


def test_a_network_without_blocks_is_unsupported():
    with pytest.raises(Unscorable, match="unsupported: the network has no block"):
        measure_random_signs(nn.Tanh(), make_batch(*FLAT))


def test_random_signs_of_a_probe_come_from_its_seed():
    model = randomise(make_mlp())
    data = make_batch(*FLAT)
    first, again, other = (
        Probe(model, data, seed=seed).blocks.gradient_pairs for seed in (0, 0, 1)
    )
    for (a_in, a_out), (b_in, b_out), (_, c_out) in zip(first, again, other, strict=True):
        assert set(a_out.unique().tolist()) == {-1.0, 1.0}
        assert torch.equal(a_in, b_in)
        assert torch.equal(a_out, b_out)
        assert not torch.equal(a_out, c_out)


def test_rows_are_positions_and_columns_channels():
    x = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert flatten_positions(x).shape == (2 * 4 * 5, 3)
    assert flatten_positions(x)[1].tolist() == x[0, :, 0, 1].tolist()
    assert flatten_positions(x[0]).tolist() == x[0].reshape(12, 5).tolist()
    assert flatten_positions(x[0, 0]).tolist() == x[0, 0].tolist()


# ------------------------------------------------------------------------------------------------------------- last map


@pytest.mark.parametrize(
    ("model", "shape", "name"),
    [
        (make_nasbench201(), (2, 3, 8, 8), "lastact"),
        (ResNet(), (2, 3, 8, 8), "layer2"),
        (Transformer(), TOKENS, "encoder"),
        (make_plain(), IMAGES, "4"),
        (make_mlp(), FLAT, "3"),
    ],
    ids=["nasbench201", "resnet", "transformer", "plain", "mlp"],
)
def test_the_last_map_is_the_one_before_pooling_and_classification(model, shape, name):
    model = randomise(model)
    data = make_batch(*shape)
    outputs = []
    ours = Probe(model, data).last_map
    copy = copy_with_batch_statistics(model)
    copy.get_submodule(name).register_forward_hook(
        lambda module, args, output: outputs.append(output.clone())
    )
    copy(data.inputs)
    torch.testing.assert_close(ours, outputs[0].detach(), rtol=1e-10, atol=1e-12)


def test_the_last_hidden_features_of_an_mlp_do_not_depend_on_functions_in_place():
    """The copies that are made for functions in place hide that a feature is the output."""
    data = make_batch(*FLAT)
    scores = []
    maps = []
    for inplace in (False, True):
        torch.manual_seed(0)
        width = data.inputs.shape[1]
        model = nn.Sequential(
            nn.Linear(width, 7), nn.BatchNorm1d(7), nn.ReLU(inplace=inplace), nn.Linear(7, 3)
        ).double()
        probe = Probe(model, data)
        maps.append(probe.last_map)
        scores.append(load_proxy("zen")(Probe(model, data)))
        # Reading the variances runs the network once more.
        assert len(probe.norm_variances) == 1
        del vars(probe)["last_map"]
        assert torch.equal(probe.last_map, maps[-1])
    assert maps[0].shape[1] == 7
    assert torch.equal(*maps)
    assert scores[0] == scores[1]


# ---------------------------------------------------------------------------------------------------------------- depth


def token_and_positions(net: Any, x: Tensor) -> Tensor:
    x = torch.cat([net.token.expand(len(x), -1, -1), x], 1) + net.positions
    return net.head(x + net.scale * net.layer(x))


@pytest.mark.parametrize(
    ("model", "shape", "depth"),
    [
        (nn.Linear(6, 3), FLAT, 1),
        (nn.Linear(6, 3, bias=False), FLAT, 1),
        (nn.Linear(6, 3), TOKENS, 1),
        (make_mlp(), FLAT, 3),
        (make_mlp(), TOKENS, 3),
        (make_plain(), IMAGES, 3),
        (nn.Conv1d(4, 3, 1), TOKENS, 1),
        (ResNet(), (2, 3, 8, 8), 1 + 2 * 2 + 2 * 2 + 1),
        (
            make_nasbench201(),
            (2, 3, 8, 8),
            1 + 3 * 3 + 2 * 2 + 1,
        ),  # a cell is a chain of three convolutions, a block of two
        (
            Transformer(),
            TOKENS,
            1 + 2 * 4 + 1,
        ),  # a layer: projection in and out, two of the feed-forward
        (Net(lambda net, x: net.a(net.a(net.a(x))), a=nn.Linear(6, 6)), FLAT, 3),
        (
            Net(
                lambda net, x: net.a(x) + net.b(net.c(x)),
                a=nn.Linear(6, 3),
                b=nn.Linear(6, 3),
                c=nn.Linear(6, 6),
            ),
            FLAT,
            2,
        ),
        (
            Net(
                lambda net, x: net.a(x, x.cos(), x)[0],
                a=nn.MultiheadAttention(6, 2, batch_first=True),
            ),
            TOKENS,
            2,
        ),
        (
            Net(
                token_and_positions,
                token=nn.Parameter(torch.zeros(1, 1, 6)),
                positions=nn.Parameter(torch.zeros(1, 5, 6)),
                scale=nn.Parameter(torch.ones(1, 1, 6)),
                layer=nn.Linear(6, 6),
                head=nn.Linear(6, 3),
            ),
            TOKENS,
            2,
        ),
        (nn.Tanh(), FLAT, 0),
    ],
)
def test_depth_is_the_longest_chain_of_weight_matrices(model, shape, depth):
    """Tied weights count once per use; positions, tokens, scales and norms do not count."""
    assert Probe(model.double(), make_batch(*shape)).depth == depth


def test_freezing_layers_does_not_make_a_network_shallower():
    model = freeze(make_mlp().to(D), "0.weight", "0.bias", "2.weight")
    assert Probe(model, make_batch(*FLAT)).depth == 3


def test_the_gates_of_squeeze_and_excitation_are_not_part_of_the_trunk():
    """A gate is a map of one pixel; its branch is inside the trunk, not a step of it."""
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1), nn.Sigmoid())

    def run(net: Net, x: Tensor) -> Tensor:
        x = net.first(x)
        return net.last(x * net.gate(x))

    model = Net(run, first=nn.Conv2d(3, 4, 3), gate=gate, last=nn.Conv2d(4, 4, 3)).double()
    measured = measure_random_signs(model, make_batch(*IMAGES))
    assert [feature.shape for feature in measured.features] == [
        (4, 3, 7, 7),
        (4, 4, 5, 5),
        (4, 4, 3, 3),
    ]
    # The gradient of the last block passes the gate too.
    first, second = measured.gradient_pairs
    assert first is not None
    assert second is not None


def test_networks_on_series_have_the_scores_of_the_same_networks_on_maps_of_one_column():
    generator = torch.Generator().manual_seed(3)
    weights = [torch.randn(8, 2, 5, generator=generator), torch.randn(8, 8, 3, generator=generator)]
    weights.append(torch.randn(8, 8, 3, generator=generator))

    def build(dimensions: int) -> nn.Module:
        conv = nn.Conv1d if dimensions == 1 else nn.Conv2d
        pool = nn.AdaptiveAvgPool1d(1) if dimensions == 1 else nn.AdaptiveAvgPool2d(1)
        blocks = []
        for weight, stride in zip(weights, (1, 2, 1), strict=True):
            length = weight.shape[2]
            kernel = length if dimensions == 1 else (length, 1)
            padding = length // 2 if dimensions == 1 else (length // 2, 0)
            steps = stride if dimensions == 1 else (stride, 1)
            layer = conv(weight.shape[1], 8, kernel, steps, padding, bias=False)
            layer.weight.data = weight if dimensions == 1 else weight[..., None]
            blocks.append(nn.Sequential(layer, nn.ReLU()))
        return nn.Sequential(nn.Sequential(*blocks), pool, nn.Flatten(), nn.Linear(8, 3))

    series = torch.randn(16, 2, 20, generator=generator)
    labels = torch.arange(16) % 3
    for name in ("az_expressivity", "az_progressivity", "az_trainability"):
        expected = load_proxy(name)(Probe(build(2), Batch(series[..., None], labels)))
        assert load_proxy(name)(Probe(build(1), Batch(series, labels))) == pytest.approx(expected)
