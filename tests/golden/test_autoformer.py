"""AutoFormer: slices of the official supernet, networks of AZ-NAS, published counts, shared weights."""

import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.golden.spaces import (
    check_network,
    check_output,
    fill_weights,
    make_inputs,
    read_golden_file,
    run_and_count,
)
from untrained.drawings.diagrams import TransformerLayers
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.probe.circle import measure_by_reverse_mode, measure_by_taylor_mode
from untrained.spaces import Space, load_space
from untrained.spaces.autoformer.counts import count_flops
from untrained.types import Batch, Task

tiny, small, base = (load_space(f"autoformer_{size}") for size in ("tiny", "small", "base"))
SPACES = {"T": tiny, "S": small, "B": base}
MORE = (3.0, 3.5, 4.0)  # the published AutoFormer-T has 3.0
PUBLISHED_T = "(13, 3.5, 3.5, 3.0, 3.5, 3.0, 3.0, 4.0, 4.0, 3.5, 4.0, 3.5, 4.0, 3.5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 3, 3, 192)"
CIFAR = Task("cifar10", (3, 32, 24), 7)


def format_entry(entry: dict[str, Any]) -> str:
    """Return the string of the architecture of a golden entry."""
    return str((entry["depth"], *entry["mlp_ratio"], *entry["num_heads"], entry["embed_dim"]))


def find_space(entry: dict[str, Any]) -> Space:
    """Return the space of a slice, with the options in its name."""
    options: dict[str, Any] = {}
    if entry["supernet"] == "T" and 3.0 in entry["mlp_ratio"]:
        options["ratios"] = MORE
    if "no relative position" in entry["name"]:
        options["relative_position"] = False
    if "class token head" in entry["name"]:
        options["class_token"] = True
    return (
        SPACES[entry["supernet"]].with_options(**options) if options else SPACES[entry["supernet"]]
    )


@lru_cache(maxsize=1)  # the entries are sorted by supernet, and these are large
def make_supernet(space: Space) -> Any:
    return fill_weights(space.supernet())


# ------------------------------------------------------------------------------------------------ official networks


@pytest.mark.data
@pytest.mark.parametrize("index", range(18))
def test_a_slice_of_the_supernet_equals_the_official_one(index):
    entry = read_golden_file()["autoformer"]["archs"][index]
    space = find_space(entry)
    arch = space.parse(format_entry(entry))
    net = make_supernet(space)
    assert sum(p.numel() for p in net.parameters()) == entry["params_supernet_instantiated"]
    with torch.no_grad():
        check_output(net.subnet(arch)(make_inputs(entry["input_shape"])), entry["fwd"])


@pytest.mark.data
def test_all_golden_slices_are_tested():
    assert len(read_golden_file()["autoformer"]["archs"]) == 18
    assert len(read_golden_file()["autoformer_standalone"]["archs"]) == 9


@pytest.mark.data
@pytest.mark.parametrize("index", range(18))
def test_sizes_are_the_official_ones(index):
    """The sizes of the network, of the probe and of our formulas agree.

    The variant `published` reproduces the official formula, which counts wrongly.
    """
    entry = read_golden_file()["autoformer"]["archs"][index]
    space = find_space(entry)
    arch = space.parse(format_entry(entry))
    network = space.build(arch, device="meta")
    x = torch.zeros(entry["input_shape"], device="meta")
    probe = Probe(network, Batch(x, torch.zeros(1, device="meta")))
    assert probe.params == entry["params"] == entry["official_get_sampled_params_numel"]
    assert run_and_count(network, x)[1] == entry["macs"]
    assert probe.macs == entry["macs_with_attention"] == count_flops(space, arch)
    assert count_flops(space, arch, variant="published") == entry["official_get_complexity_196"]


@pytest.mark.data
@pytest.mark.parametrize("index", range(9))
def test_a_stand_alone_network_equals_that_of_aznas(index):
    """Its attention scale is (E // heads)^(-1/2). With that of AutoFormer, 1/8, it is our default."""
    entry = read_golden_file()["autoformer_standalone"]["archs"][index]
    home = next(
        space for space in (tiny, small, base) if entry["embed_dim"] in _options(space, "embed")
    )
    space = home.with_options(ratios=MORE)
    network = space.build(space.parse(format_entry(entry)))
    check_network(network, entry | {"fwd": entry["fwd_with_scale_64"]})
    aznas_space = space.with_options(attention_scale="embed")
    other = aznas_space.build(aznas_space.parse(format_entry(entry)), device="meta").eval()
    other.load_state_dict(network.state_dict(), assign=True)
    other.distances = network.distances
    with torch.no_grad():
        check_output(other(make_inputs(entry["input_shape"])), entry["fwd"])


def _options(space: Space, name: str) -> tuple[Any, ...]:
    return next(
        call.options
        for call in space.list_decisions(lambda _, options: options[0])
        if call.name == name
    )


def test_networks_have_the_published_counts():
    """The numbers are in SPACES.md.

    The supernets have 11,669,224 (T), 34,790,440 (S, its largest subnet) and 80,160,360 (B)
    parameters. AutoFormer-T has 5,867,944 parameters (5,768,104 without relative positions) and
    1.34 G FLOPs by the official formula.
    """
    sizes = [
        sum(p.numel() for p in space.supernet(device="meta").parameters())
        for space in (tiny, small, base)
    ]
    assert sizes == [11_669_224, 34_790_440, 80_160_360]
    for options, params in (({}, 5_867_944), ({"relative_position": False}, 5_768_104)):
        space = tiny.with_options(ratios=MORE, **options)
        network = space.build(space.parse(PUBLISHED_T), device="meta")
        assert sum(p.numel() for p in network.parameters()) == params
    space = tiny.with_options(ratios=MORE)
    assert round(count_flops(space, space.parse(PUBLISHED_T), variant="published") / 1e9, 2) == 1.34


def test_the_parameters_follow_the_published_formula():
    """The formula in SPACES.md is a sum over layers.

    769E + E + 197E + sum [4E + 192hE + 192h + 64hE + E + 2Ef + f + E + 7680] + 2E + 1000E + 1000
    """
    for space in (tiny, small, base):
        arch = space.sample(np.random.default_rng(5))
        shape = space.draw(arch)
        E = shape.embed
        expected = 769 * E + E + 197 * E
        for h, ratio in zip(shape.heads, shape.ratios, strict=True):
            f = int(E * ratio)
            expected += 4 * E + 192 * h * E + 192 * h + 64 * h * E + E + 2 * E * f + f + E + 7680
        expected += 2 * E + 1000 * E + 1000
        assert sum(p.numel() for p in space.build(arch, device="meta").parameters()) == expected


# -------------------------------------------------------------------------------------------------------- choices


@pytest.mark.data
@pytest.mark.parametrize(("family", "seed"), [("T", 784), ("S", 783), ("B", 766)])
def test_choices_are_made_in_the_official_order(family, seed):
    """The random slices of the golden file come from Python's random module and the official sampler.

    It drew four in a row, of which the file has three.
    """
    rng = random.Random(seed)
    space = SPACES[family]
    samples = [
        str(tuple(c.value for c in space.list_decisions(lambda _, options: rng.choice(options))))
        for _ in range(4)
    ]
    entries = [
        e
        for e in read_golden_file()["autoformer"]["archs"]
        if e["name"].startswith(f"{family} random")
    ]
    assert len(entries) == 3
    for entry in entries:
        assert samples[int(entry["name"].split()[2])] == format_entry(entry)


def test_spaces_have_the_expected_sizes():
    """The number of widths times the sum over depths of (ratios x heads)^depth."""
    assert tiny.size == 3 * (4**12 + 4**13 + 4**14)
    assert small.size == 3 * (9**12 + 9**13 + 9**14)
    assert base.size == 3 * (6**14 + 6**15 + 6**16)
    assert tiny.with_options(ratios=MORE).size == 3 * (6**12 + 6**13 + 6**14)


def test_the_published_tiny_network_is_not_in_its_own_space():
    with pytest.raises(
        UsageError,
        match=r"'ratio2' is 3\.0, .* published AutoFormer-T has 3\.0 though its own space",
    ):
        tiny.parse(PUBLISHED_T)
    more = load_space("autoformer_tiny(ratios=(3.0,3.5,4.0))")
    assert str(more.parse(PUBLISHED_T)) == PUBLISHED_T
    assert load_space(more.name) == more


@pytest.mark.parametrize("space", [tiny, small, base], ids=lambda space: space.name)
def test_strings_survive_parsing_with_any_brackets_and_spaces(space):
    arch = space.sample(np.random.default_rng(0))
    assert space.parse(str(arch)) == arch
    assert str(space.parse(str(arch).replace(" ", "").replace("(", "[").replace(")", "]"))) == str(
        arch
    )


@pytest.mark.parametrize(
    ("text_form", "message"),
    [
        ("", "numbers in brackets"),
        ("(12, 3.5", "numbers in brackets"),
        ("12", "numbers in brackets"),
        ("()", r"2 numbers \(1 \+ 0 \+ 0 \+ 1\), not 0"),
        ("(2, 3.5, 4.0, 3, 192)", r"6 numbers \(1 \+ 2 \+ 2 \+ 1\), not 5"),
        ("(1, 3.5, 3, 192)", "'depth' is 1, but it can only be one of 12, 13, 14"),
        (str((12, *[4.0] * 12, *[5] * 12, 192)), "'heads0' is 5, but it can only be one of 3, 4"),
        (str((12, *[4.0] * 12, *[3] * 12, 200)), "'embed' is 200"),
    ],
)
def test_malformed_strings_are_rejected(text_form, message):
    with pytest.raises(UsageError, match=message):
        tiny.parse(text_form)


def test_unknown_variants_are_rejected():
    arch = tiny.sample(np.random.default_rng(0))
    with pytest.raises(UsageError, match="published"):
        count_flops(tiny, arch, variant="publisht")
    with pytest.raises(UsageError, match="head"):
        tiny.with_options(attention_scale="heat").build(arch, device="meta")


def test_the_diagram_shows_the_architecture():
    arch = tiny.parse(str((12, *[4.0] * 12, *[3] * 12, 216)))
    assert tiny.draw(arch) == TransformerLayers(216, (3,) * 12, (4.0,) * 12)


# ------------------------------------------------------------------------------------------- any task, shared weights


def test_networks_accept_images_of_any_size():
    """31x32 pixels in patches of 8 are 3 x 4 tokens; seven rows of pixels are not used."""
    space = tiny.with_options(patch=8)
    network = space.build(space.sample(np.random.default_rng(0)), Task("noise", (2, 31, 32), 5))
    assert network.pos_embed.shape[1] == 1 + 3 * 4
    assert network(torch.randn(2, 2, 31, 32)).shape == (2, 5)
    with pytest.raises(UsageError, match="patch=4"):
        tiny.build(tiny.sample(np.random.default_rng(0)), Task("noise", (3, 8, 8), 5))


def test_relative_positions_are_right_for_a_grid_that_is_not_square():
    """In a 2 x 3 grid the tokens (0, 0) and (1, 2) are 1 row and 2 columns apart.

    Their relative position is 30 (15 + 1) + 15 + 2.
    """
    space = tiny.with_options(patch=8)
    distances = space.build(
        space.sample(np.random.default_rng(0)), Task("noise", (3, 16, 24), 5)
    ).distances
    assert distances.shape == (7, 7)
    assert distances[1, 6] == 30 * 16 + 17
    assert distances[6, 1] == 30 * 14 + 13
    assert not distances[0].any()
    assert not distances[:, 0].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_subnet_equals_the_built_network_with_its_weights(seed):
    space = tiny.with_options(patch=8)
    arch = space.sample(np.random.default_rng(seed))
    torch.manual_seed(seed)
    net = space.supernet(CIFAR)
    for p in net.parameters():  # also the biases and norms
        nn.init.normal_(p, std=0.1)
    subnet = net.subnet(arch)
    built = space.build(arch, CIFAR)
    built.load_state_dict(subnet.state_dict())
    x = torch.randn(2, *CIFAR.input_shape)
    torch.testing.assert_close(subnet(x), built(x))


def test_training_a_subnet_trains_the_supernet():
    """Gradients reach only the weights in use: with 3 of 4 heads, the first 576 rows of qkv."""
    space = tiny.with_options(patch=8)
    net = space.supernet(CIFAR)
    arch = space.parse(str((12, *[4.0] * 12, *[3] * 12, 192)))
    net.subnet(arch)(torch.randn(2, *CIFAR.input_shape)).sum().backward()
    grad = net.blocks[0].attn.qkv.weight.grad
    assert grad[:576, :192].abs().sum(1).min() > 0
    assert not grad[576:].any()
    assert not grad[:, 192:].any()
    assert net.blocks[12].fc1.weight.grad is None
    for weight, supernet_weight in zip(
        net.subnet(arch).parameters(), net.parameters(), strict=True
    ):
        assert weight is supernet_weight


def test_an_architecture_larger_than_the_supernet_is_rejected():
    arch = small.sample(np.random.default_rng(0))
    with pytest.raises(
        UsageError, match="larger than this supernet; use the supernet of autoformer_small"
    ):
        tiny.supernet(device="meta").subnet(arch)


def test_drop_path_grows_over_the_depth_of_the_supernet_and_acts_in_training_only():
    space = tiny.with_options(patch=8, drop_path=0.13)
    network = space.build(space.parse(str((12, *[4.0] * 12, *[3] * 12, 192))), CIFAR)
    np.testing.assert_allclose(
        [block.drop_path for block in network.blocks], 0.01 * np.arange(12), atol=1e-12
    )
    x = torch.randn(64, *CIFAR.input_shape)
    with torch.no_grad():
        assert not torch.equal(network(x), network(x))
        assert torch.equal(network.eval()(x), network(x))


def test_taylor_mode_agrees_with_reverse_mode():
    """All functions of the network have Taylor rules, and they agree with reverse mode."""
    space = tiny.with_options(patch=8)
    network = space.build(space.sample(np.random.default_rng(0)), CIFAR).double()
    probe = Probe(
        network, Batch(torch.randn(1, *CIFAR.input_shape, dtype=torch.float64), torch.zeros(1))
    )
    u1, u2 = probe.plane(CIFAR.input_shape)
    with probe.scoring_mode():
        by_taylor_mode = measure_by_taylor_mode(network, u1, u2)
        by_reverse_mode = measure_by_reverse_mode(network, u1, u2)
        for value, expected in zip(by_taylor_mode, by_reverse_mode, strict=True):
            torch.testing.assert_close(value, expected)
