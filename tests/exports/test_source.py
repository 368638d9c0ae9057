"""Exported source reproduces the network without `untrained` and is readable, or is refused."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

import untrained as ut
from tests.exports.networks import (
    REFUSED_NETWORKS,
    SPACES,
    USER_NETWORKS,
    Attention,
    Block,
    ResNet,
    TiedWeights,
    build_from_space,
    make_input_function,
    run_without_untrained,
)
from untrained.errors import UsageError
from untrained.exports import source as source_module
from untrained.exports.source import NetworkSource, build_from_source, write_source

PIXELS = (3, 8, 8)
ROOT = Path(__file__).parents[2]


@cache
def write_cached(name: str) -> tuple[nn.Module, NetworkSource]:
    """Return a network of a space or of a user, and its source."""
    constructors = {make.__name__: make for make in USER_NETWORKS}
    torch.manual_seed(0)
    network = constructors[name]() if name in constructors else build_from_space(name)
    return network, write_source(
        network, make_input_function(SPACES.get(name, PIXELS)), "A network."
    )


NAMES = [*SPACES, *(make.__name__ for make in USER_NETWORKS)]
RUN = """
import importlib.util, torch
torch.set_num_threads(int(sys.argv[1]))
for case in torch.load("cases.pt"):
    spec = importlib.util.spec_from_file_location("model", case["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = getattr(module, case["network"])()
    model.load_state_dict(case["weights"])
    same = []
    for training, expected in case["outputs"].items():
        torch.manual_seed(3)
        with torch.no_grad():
            same.append(torch.equal(model.train(training)(case["inputs"]), expected))
    print(case["name"], *same, sep="|")
"""


@pytest.fixture(scope="module")
def is_reproduced(tmp_path_factory) -> dict[str, list[str]]:
    """Whether each written network reproduces its original, in evaluation and in training mode."""
    folder = tmp_path_factory.mktemp("without_untrained")
    cases = []
    for place, name in enumerate(NAMES):
        network, source = write_cached(name)
        inputs = make_input_function(SPACES.get(name, PIXELS))(4)
        expected = {}
        for training in (False, True) if source.is_trainable else (False,):
            state = {key: value.clone() for key, value in network.state_dict().items()}
            torch.manual_seed(3)
            with torch.no_grad():
                expected[training] = network.train(training)(inputs)
            network.load_state_dict(state)  # training mode has changed the statistics of batch norm
        file = folder / f"model{place}.py"
        file.write_text(source.text)
        case = {
            "name": name,
            "file": str(file),
            "network": source.class_name,
            "weights": source.weights,
        }
        cases.append(case | {"inputs": inputs, "outputs": expected})
    torch.save(cases, folder / "cases.pt")
    done = run_without_untrained(RUN, folder, str(torch.get_num_threads()))
    assert done.returncode == 0, done.stderr
    return {line.split("|")[0]: line.split("|")[1:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", NAMES)
def test_source_reproduces_the_network_without_untrained(is_reproduced, name):
    # With drop path and an auxiliary tower the forward pass differs in training mode, so that the
    # source covers evaluation mode only.
    expected = ["True", "True"]
    if "drop_path" in name:
        expected = ["True"]
    assert is_reproduced[name] == expected


@pytest.mark.parametrize("name", NAMES)
def test_source_is_short_documented_and_imports_only_torch(name, tmp_path):
    _, source = write_cached(name)
    assert "untrained" not in source.text
    assert max(map(len, source.text.splitlines())) <= 100
    tree = ast.parse(source.text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes[-1].name == source.class_name
    assert all(ast.get_docstring(node) for node in classes)
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imported |= {
        node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    assert imported <= {"torch", "safetensors", "collections", "pathlib"}


def test_source_passes_the_linter(tmp_path):
    for place, name in enumerate(NAMES):
        (tmp_path / f"model{place}.py").write_text(write_cached(name)[1].text)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_weights_keep_their_names_and_values(name):
    network, source = write_cached(name)
    state = network.state_dict()
    added = set(source.weights) - set(state)
    assert added == {
        "autoformer_tiny(patch=8)": {"distances"},
        "TiedWeights": {"const", "scale"},
    }.get(name, set())
    dropped = {key.partition(".")[0] for key in set(state) - set(source.weights)}
    expected = set()
    if "auxiliary" in name:
        expected = {"auxiliary"}
    elif name == "ManyKinds":
        expected = {"unused", "many"}
    assert dropped == expected
    for key in set(source.weights) & set(state):
        assert torch.equal(source.weights[key], state[key])


def test_equal_blocks_share_one_class_with_their_widths_as_arguments():
    text = write_cached("nasbench201(channels=4,cells=1)")[1].text
    assert re.findall(r"^class (\w+)", text, re.MULTILINE).count("ReLUConvBN") == 1
    assert "class Cell201(nn.Module)" in text
    assert text.count("class Cell") == 1
    body = ast.unparse(
        next(node for node in ast.parse(text).body if getattr(node, "name", "") == "NASBench201")
    )
    assert "Cell201(4), ResidualBlock(4, 8), Cell201(8), ResidualBlock(8, 16), Cell201(16)" in body
    text = write_cached("ResNet")[1].text
    assert "nn.Sequential(Block(3, 4, 1), Block2(4), Block(4, 8, 2), Block2(8))" in text
    assert '"""A residual block with an in-place sum."""' in text


def test_source_follows_the_mode_and_the_batch_size():
    assert (
        "F.dropout(self.layers(x), p=0.2, training=self.training)" in write_cached("ResNet")[1].text
    )
    text = write_cached("Attention")[1].text
    assert "self.token.expand(x.shape[0], -1, -1)" in text
    assert "x.shape[0] * 17, 12)" in text
    assert "self.training" not in write_cached("ManyKinds")[1].text


def test_tied_weights_stay_tied():
    written = build_from_source(write_cached("TiedWeights")[1])
    assert written.b.weight is written.a.weight is written.c.weight
    assert written.b.bias is not written.a.bias
    assert len(list(written.parameters())) == len(list(TiedWeights().parameters()))


def test_unused_parts_of_a_list_keep_their_positions():
    written = build_from_source(write_cached("ManyKinds")[1])
    assert [type(part) for part in written.many] == [nn.Linear, nn.Identity, nn.Linear]
    assert not hasattr(written, "unused")


@pytest.mark.parametrize(("make", "why"), REFUSED_NETWORKS.items())
def test_network_without_plain_source_is_refused_in_one_line(make, why):
    with pytest.raises(UsageError) as refused:
        write_source(make(), make_input_function(PIXELS), "A network.")
    assert str(refused.value).startswith(f"cannot write plain source for {make.__name__}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_error_of_a_network_is_shown_with_its_traceback():
    with pytest.raises(
        UsageError,
        match=r"(?s)Block raised an error when it was run.*expected input.*to have 5 channels",
    ):
        write_source(Block(5, 5), make_input_function(PIXELS), "A network.")


def test_source_with_other_outputs_is_refused(monkeypatch):
    """A bug in the writer must not reach a user. Here it writes every ReLU as GELU."""
    format_module = source_module._format_module

    def format_wrong_module(*args):
        return format_module(*args).replace("nn.ReLU(inplace=True)", "nn.GELU()")

    monkeypatch.setattr(source_module, "_format_module", format_wrong_module)
    with pytest.raises(UsageError, match="ResNet: the generated network has different outputs"):
        write_source(ResNet(), make_input_function(PIXELS), "A network.")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_network_without_finite_outputs_is_refused(value):
    network = nn.Sequential(nn.Linear(3, 2))
    nn.init.constant_(network[0].bias, float(value))
    with pytest.raises(UsageError, match="Sequential: its outputs are not finite"):
        write_source(network, make_input_function((3,)), "A network.")


def test_network_and_random_state_are_unchanged():
    network = Attention().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    random_state = torch.get_rng_state()
    write_source(network, make_input_function(PIXELS), "A network.")
    assert network.training
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    assert torch.equal(random_state, torch.get_rng_state())


def test_constructor_with_many_arguments_is_wrapped():
    class Wide(nn.Module):
        def __init__(self, *sizes: int) -> None:
            super().__init__()
            self.a = nn.Conv2d(3, sizes[0], sizes[1], sizes[2], sizes[3])
            self.b = nn.Conv2d(3, sizes[4], sizes[5], sizes[6])

        def forward(self, x):
            a = self.a(x).mean((2, 3)).sum(1, keepdim=True)
            return a + self.b(x).mean((2, 3)).sum(1, keepdim=True)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = Wide(1, 2, 3, 0, 4, 5, 2)
            self.two = Wide(2, 3, 1, 1, 5, 4, 1)

        def forward(self, x):
            return self.one(x) - self.two(x) * 0.5

    text = write_source(Two(), make_input_function(PIXELS), "A network.").text
    assert max(map(len, text.splitlines())) <= 100
    assert "Wide(1, 2, 3, 0, 4, 5, 2)" in text
    assert "def __init__(\n        self," in text


@pytest.mark.parametrize(
    ("space", "arch", "zeros"),
    [
        (
            "nasbench201",
            "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|",
            0,
        ),
        # Nodes 1 and 2 do not reach the output.
        (
            "nasbench201",
            "|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|none~1|none~2|",
            0,
        ),
        # All edges of node 2 are without an operation, so zeros reach the output.
        (
            "nasbench201",
            "|skip_connect~0|+|none~0|none~1|+|none~0|skip_connect~1|nor_conv_1x1~2|",
            1,
        ),
    ],
)
def test_source_of_cells_has_no_needless_zeros(space, arch, zeros):
    space = ut.load_space(f"{space}(channels=4,cells=1)")
    network = space.build(space.parse(arch), space.task)
    source = write_source(network, make_input_function((3, 8, 8)), "A network.")
    assert source.is_trainable
    # One class of cells serves all three stages.
    assert source.text.count("* 0.0") <= zeros
    assert ("Zero" in source.text) == bool(zeros)
    # `write_source` compares the outputs with those of the network, bit for bit.
