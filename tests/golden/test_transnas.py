"""TransNAS-Bench-101: official networks with every head, strings, published counts and sizes."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.golden.spaces import check_network, read_golden_file
from untrained.drawings.diagrams import CellGraph, Stage
from untrained.errors import UsageError
from untrained.spaces import Space, load_space
from untrained.types import Task
from untrained.workflows.score import score_networks

micro = load_space("transnas_micro")
macro = load_space("transnas_macro")
HEADS = {"class_scene": "scene", "class_object": "object", "segmentsemantic": "segmentation"}


def load_space_with_head(text: str, head: str) -> Space:
    return (macro if text.endswith("basic") else micro).with_options(head=head)


def check_entry(entry: dict[str, Any], text: str, task: str) -> None:
    head = HEADS.get(task, task)
    space = load_space_with_head(text, head)
    arch = space.parse(text)
    assert str(arch) == text
    shape = entry["input_shape"]
    classes = entry["output_shape"][0][1]
    if shape[-1] != 224:  # where the official FLOPs are counted
        assert (list(space.task.input_shape), space.task.num_classes) == (shape[1:], classes)
    check_network(space.build(arch, Task(head, tuple(shape[1:]), classes)), entry)


# --------------------------------------------------------------------------------------------------- official networks


@pytest.mark.data
@pytest.mark.parametrize("index", range(21))
def test_a_micro_network_equals_the_official_one(index):
    entry = read_golden_file()["transnas"]["micro"][index]
    check_entry(entry, entry["string"], entry["task"])


@pytest.mark.data
@pytest.mark.parametrize("index", range(12))
def test_a_macro_network_equals_the_official_one(index):
    entry = read_golden_file()["transnas"]["macro"][index]
    check_entry(entry, entry["string"], entry["task"])


@pytest.mark.data
@pytest.mark.parametrize("index", range(9))
def test_a_network_at_224_pixels_equals_the_official_one(index):
    entry = read_golden_file()["transnas"]["full"][
        index
    ]  # the last has defaults of its own: 75 classes
    check_entry(
        entry, entry.get("string", entry["name"].split(" ")[0]), entry.get("task", "class_object")
    )


@pytest.mark.data
def test_all_golden_networks_are_tested():
    networks = read_golden_file()["transnas"]
    assert [len(networks[kind]) for kind in ("micro", "macro", "full")] == [21, 12, 9]


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("64-41414-3_33_333", 41_435_727),
        ("64-41414-1_11_111", 565_071),
        ("64-41414-0_00_000", 43_599),
    ],
)
def test_networks_have_the_published_counts(text, params):
    """The counts for scene classification are in SPACES.md."""
    network = micro.build(micro.parse(text), device="meta")
    assert sum(weight.numel() for weight in network.parameters()) == params


def test_the_norms_of_shortcuts_have_the_unusual_eps_of_the_benchmark():
    """Their eps is 1; the other norms have the default of torch."""
    network = macro.build(macro.parse("64-41414-basic"))
    norms = [
        (name, m) for name, m in network.named_modules() if isinstance(m, torch.nn.BatchNorm2d)
    ]
    unusual = [name for name, norm in norms if (norm.eps, norm.momentum) == (1.0, 1.0)]
    assert len(unusual) == 3  # one shortcut per 4 in 41414
    assert all("shortcut" in name for name in unusual)
    others = {(norm.eps, norm.momentum) for name, norm in norms if name not in unusual}
    assert others == {(1e-5, 0.1)}


def test_the_encoder_has_he_initialisation_and_the_head_that_of_torch():
    """He normal with fan-out has the variance 2 / (k^2 cout).

    A linear layer of torch is uniform within 1 / sqrt(cin).
    """
    torch.manual_seed(0)
    network = micro.build(micro.parse("64-41414-3_30_303"))
    convs = [
        m for m in network.modules() if isinstance(m, torch.nn.Conv2d) and m.weight.numel() > 30_000
    ]
    assert len(convs) > 20
    for conv in convs:
        fan_out = conv.weight[0, 0].numel() * conv.out_channels
        assert conv.weight.var().item() == pytest.approx(2 / fan_out, rel=0.05)
    (linear,) = (m for m in network.modules() if isinstance(m, torch.nn.Linear))
    assert linear.weight.abs().max().item() == pytest.approx(512**-0.5, rel=0.01)
    assert all(
        torch.equal(m.running_var, torch.ones_like(m.running_var))
        for m in network.modules()
        if hasattr(m, "running_var")
    )


# --------------------------------------------------------------------------------------------------- strings and sizes


def test_there_are_4_096_cells():
    archs = [str(arch) for arch in micro]
    assert micro.size == len(set(archs)) == len(archs) == 4_096
    assert {"64-41414-0_00_000", "64-41414-3_33_333", "64-41414-0_12_321"} <= set(archs)


def test_there_are_3_256_sequences_of_modules():
    """They have 4 to 6 digits, one to three of them 2 or 4, and one to four of them 3 or 4."""
    archs = [str(arch) for arch in macro]
    assert macro.size == len(set(archs)) == len(archs) == 3_256
    assert {"64-41414-basic", "64-4443-basic", "64-334421-basic", "64-1414-basic"} <= set(archs)
    codes = [text.split("-")[1] for text in archs]
    assert {len(code) for code in codes} == {4, 5, 6}
    assert {sum(code.count(d) for d in "24") for code in codes} == {1, 2, 3}
    assert {sum(code.count(d) for d in "34") for code in codes} == {1, 2, 3, 4}


def test_the_digits_of_a_cell_are_parsed():
    """0 is none, 1 skip, 2 conv 1x1, 3 conv 3x3. Edges are sorted by target, then by source."""
    arch = micro.parse("64-41414-1_23_032")
    ops = ("skip_connect", "nor_conv_1x1", "nor_conv_3x3", "none", "nor_conv_3x3", "nor_conv_1x1")
    assert arch.genes == tuple(
        zip(("1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2"), ops, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 0),
        ("32-41414-3_33_333", 0),
        ("64-41114-3_33_333", 5),
        ("64-41414-4_33_333", 9),
        ("64-41414-3033_333", 10),
        ("64-41414-3_33_33", 16),
        ("64-41414-3_33_3333", 17),
        ("64-41414-basic", 9),
    ],
)
def test_an_error_marks_the_position_in_malformed_cells(text, column):
    with pytest.raises(UsageError) as caught:
        micro.parse(text)
    assert str(caught.value).endswith(f"\n  {text}\n  {' ' * column}^")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'64-'"),
        ("64-41514-basic", "a module, 1 to 4"),
        ("64-1414141-basic", "'-basic'"),
        ("64-1414-3_33_333", "'-basic'"),
        ("64-1414", "'-basic'"),
        ("64-141-basic", "'modules' is 3, but it can only be one of 4, 5, 6"),
        ("64-1331-basic", "0 modules double the channels"),
        ("64-4444-basic", "4 modules double the channels"),
        ("64-1221-basic", "0 modules halve the resolution"),
        ("64-334431-basic", "5 modules halve the resolution"),
    ],
)
def test_other_codes_are_rejected(text, message):
    with pytest.raises(UsageError, match=message):
        macro.parse(text)


def test_diagrams_show_cells_and_stages():
    cell = micro.draw(micro.parse("64-41414-1_23_032"))
    assert isinstance(cell, CellGraph)
    assert cell.edges[2] == (1, 2, "nor_conv_3x3")
    stages = macro.draw(macro.parse("64-13242-basic")).stages
    assert [stage.channels for stage in stages] == [32, 64, 64, 64, 128, 256, 512]
    assert stages[5] == Stage("residual", 256, stride=2, repeats=2)


# ---------------------------------------------------------------------------------------------------------- tasks


def test_a_head_determines_the_default_task():
    assert (micro.task.input_shape, micro.task.num_classes) == ((3, 256, 256), 47)
    assert micro.with_options(head="object").task.num_classes == 75
    assert load_space("transnas_macro(head=jigsaw)").task.input_shape == (9, 3, 64, 64)
    assert micro.with_options(head="room_layout").task.loss == "mse"


def test_an_unknown_head_is_rejected():
    with pytest.raises(
        UsageError, match="no head of TransNAS-Bench-101 is called 'jigsaws'; did you mean jigsaw"
    ):
        micro.with_options(head="jigsaws").task  # noqa: B018 - asking for it raises
    with pytest.raises(UsageError, match="jigsaw"):
        micro.with_options(head="jigsaws").build(
            micro.parse("64-41414-1_11_111"), Task("noise", (3, 64, 64), 3)
        )
    with pytest.raises(UsageError, match="does not accept the shape 9x3x64x64"):
        micro.build(micro.parse("64-41414-1_11_111"), Task("noise", (9, 3, 64, 64), 3))


@pytest.mark.parametrize("text", ["64-41414-0_12_321", "64-41414-1_10_001", "64-213421-basic"])
@pytest.mark.parametrize("head", ["scene", "jigsaw"])
def test_networks_accept_images_of_any_size_and_any_number_of_classes(text, head):
    space = load_space_with_head(text, head)
    task = Task("noise", (4, 75, 61), 5)
    out = space.build(space.parse(text), task)(torch.randn(2, *task.input_shape))
    assert out.shape == (2, 5)
    out.sum().backward()


def test_a_jigsaw_cuts_an_image_row_by_row():
    """An image and its nine tiles give the same logits."""
    space = micro.with_options(head="jigsaw")
    network = space.build(space.parse("64-41414-1_10_001"), Task("noise", (3, 96, 99), 5)).eval()
    image = torch.randn(2, 3, 96, 99)
    tiles = torch.stack(
        [
            image[:, :, 32 * r : 32 * r + 32, 33 * c : 33 * c + 33]
            for r in range(3)
            for c in range(3)
        ],
        1,
    )
    torch.testing.assert_close(network(image), network(tiles))


@pytest.mark.parametrize(
    ("text", "halvings"), [("64-41414-basic", 5), ("64-1242-basic", 3), ("64-3443-basic", 6)]
)
def test_a_segmentation_has_the_size_of_its_image(text, halvings):
    """The decoder, which has eight layers, doubles the resolution as often as the encoder halves it."""
    space = macro.with_options(head="segmentation")
    encoder, decoder = space.build(space.parse(text), Task("noise", (3, 64, 128), 17))
    assert sum(isinstance(m, torch.nn.ConvTranspose2d) for m in decoder.modules()) == halvings
    assert len(decoder) == 8
    assert decoder(encoder(torch.zeros(1, 3, 64, 128))).shape == (1, 17, 64, 128)


@pytest.mark.parametrize("text", ["64-41414-0_00_000", "64-41414-1_00_000", "64-41414-0_30_030"])
def test_a_cell_without_a_path_is_disconnected(text):
    (record,) = score_networks(micro.parse(text), "dextr", torch.randn(1, 3, 64, 64))
    assert str(record.error).startswith("disconnected")


def test_no_gradient_flows_through_none_between_unequal_shapes():
    """Only the head contributes to the loss: elsewhere the gradient is None, not zero."""
    network = micro.build(micro.parse("64-41414-0_00_000"), Task("noise", (3, 64, 64), 5))
    network(torch.randn(2, 3, 64, 64)).sum().backward()
    reached = {name for name, p in network.named_parameters() if p.grad is not None}
    assert reached == {"1.2.weight", "1.2.bias"}


def test_mutation_of_modules_stays_in_the_space():
    rng = np.random.default_rng(0)
    arch = macro.parse("64-1441-basic")
    for _ in range(50):
        arch = macro.mutate(arch, rng)
        assert macro.parse(str(arch)) == arch
