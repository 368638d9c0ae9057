"""Plain source: it answers as the original does where nothing of ours is, it reads well, or it is refused by name."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.exports.networks import (
    OWN,
    REFUSED,
    SPACES,
    Attention,
    Block,
    ResNet,
    Tied,
    elsewhere,
    of_space,
    reading,
)
from untrained.errors import UsageError
from untrained.exports.source import Source, rebuilt_network, source

PIXELS = (3, 8, 8)
ROOT = Path(__file__).parents[2]


@cache
def written(name: str) -> tuple[nn.Module, Source]:
    """The network of a space or of a user, and its source."""
    own = {make.__name__: make for make in OWN}
    torch.manual_seed(0)
    network = own[name]() if name in own else of_space(name)
    return network, source(network, reading(SPACES.get(name, PIXELS)), "A network.")


NAMES = [*SPACES, *(make.__name__ for make in OWN)]
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
    for training, expected in case["answers"].items():
        torch.manual_seed(3)
        with torch.no_grad():
            same.append(torch.equal(model.train(training)(case["inputs"]), expected))
    print(case["name"], *same, sep="|")
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list[str]]:
    """Whether each network answered as its original, in evaluation and in training mode, where nothing of ours is."""
    folder, cases = tmp_path_factory.mktemp("elsewhere"), []
    for place, name in enumerate(NAMES):
        network, made = written(name)
        inputs, expected = reading(SPACES.get(name, PIXELS))(4), {}
        for training in (False, True) if made.trainable else (False,):
            state = {key: value.clone() for key, value in network.state_dict().items()}
            torch.manual_seed(3)
            with torch.no_grad():
                expected[training] = network.train(training)(inputs)
            network.load_state_dict(state)  # batch norm has moved
        file = folder / f"model{place}.py"
        file.write_text(made.text)
        case = {"name": name, "file": str(file), "network": made.network, "weights": made.weights}
        cases.append(case | {"inputs": inputs, "answers": expected})
    torch.save(cases, folder / "cases.pt")
    done = elsewhere(RUN, folder, str(torch.get_num_threads()))
    assert done.returncode == 0, done.stderr
    return {line.split("|")[0]: line.split("|")[1:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", NAMES)
def test_the_source_answers_as_the_original_where_nothing_of_ours_is(answers, name):
    drops = "drop_path" in name  # paths are dropped and a tower is added in training mode: another forward pass
    assert answers[name] == ["True"] if drops else ["True", "True"]


@pytest.mark.parametrize("name", NAMES)
def test_the_source_reads_well(name, tmp_path):
    _, made = written(name)
    assert "untrained" not in made.text
    assert max(map(len, made.text.splitlines())) <= 120
    tree = ast.parse(made.text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes[-1].name == made.network
    assert all(ast.get_docstring(node) for node in classes)
    imported = {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"torch", "safetensors", "collections", "pathlib"}


def test_all_sources_are_clean(tmp_path):
    for place, name in enumerate(NAMES):
        (tmp_path / f"model{place}.py").write_text(written(name)[1].text)
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
def test_weights_keep_their_names_and_numbers(name):
    network, made = written(name)
    state = network.state_dict()
    strange = set(made.weights) - set(state)
    assert strange == {"autoformer_tiny(patch=8)": {"distances"}, "Tied": {"const", "scale"}}.get(name, set())
    lost = {key.partition(".")[0] for key in set(state) - set(made.weights)}
    assert lost == ({"auxiliary"} if "auxiliary" in name else {"unused", "many"} if name == "Odds" else set())
    for key in set(made.weights) & set(state):
        assert torch.equal(made.weights[key], state[key])


def test_equal_blocks_are_one_class_and_their_widths_its_arguments():
    text = written("nasbench201(channels=4,cells=1)")[1].text
    assert re.findall(r"^class (\w+)", text, re.MULTILINE).count("ReLUConvBN") == 1
    assert "class Cell201(nn.Module)" in text
    assert text.count("class Cell") == 1
    body = ast.unparse(next(node for node in ast.parse(text).body if getattr(node, "name", "") == "NASBench201"))
    assert "Cell201(4), ResidualBlock(4, 8), Cell201(8), ResidualBlock(8, 16), Cell201(16)" in body
    text = written("ResNet")[1].text
    assert "nn.Sequential(Block(3, 4, 1), Block2(4), Block(4, 8, 2), Block2(8))" in text
    assert '"""A residual block."""' in text


def test_what_follows_the_mode_and_the_number_of_samples_does_so_in_the_source():
    assert "F.dropout(self.layers(x), p=0.2, training=self.training)" in written("ResNet")[1].text
    text = written("Attention")[1].text
    assert "self.token.expand(x.shape[0], -1, -1)" in text
    assert "x.shape[0] * 17, 12)" in text
    assert "self.training" not in written("Odds")[1].text


def test_tied_weights_stay_tied():
    twin = rebuilt_network(written("Tied")[1])
    assert twin.b.weight is twin.a.weight is twin.c.weight
    assert twin.b.bias is not twin.a.bias
    assert len(list(twin.parameters())) == len(list(Tied().parameters()))


def test_places_in_lists_are_kept_where_something_is_not_used():
    twin = rebuilt_network(written("Odds")[1])
    assert [type(part) for part in twin.many] == [nn.Linear, nn.Identity, nn.Linear]
    assert not hasattr(twin, "unused")


@pytest.mark.parametrize(("make", "why"), REFUSED.items())
def test_what_cannot_be_written_is_refused_by_name_in_one_line(make, why):
    with pytest.raises(UsageError) as refused:
        source(make(), reading(PIXELS), "A network.")
    assert str(refused.value).startswith(f"no plain source can be written of {make.__name__}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_network_that_cannot_be_run_is_told_with_its_own_traceback():
    with pytest.raises(UsageError, match=r"(?s)Block raised when it was run.*expected input.*to have 5 channels"):
        source(Block(5, 5), reading(PIXELS), "A network.")


def test_source_that_answers_otherwise_is_not_given_out(monkeypatch):
    """A bug in the writer must not reach a user: here every ReLU would be written as GELU."""
    from untrained.exports import source as room

    page = room._page
    monkeypatch.setattr(room, "_page", lambda *told: page(*told).replace("nn.ReLU(inplace=True)", "nn.GELU()"))
    with pytest.raises(UsageError, match="ResNet: what was written answers otherwise"):
        source(ResNet(), reading(PIXELS), "A network.")


def test_the_network_and_the_random_state_are_left_alone():
    network = Attention().train()
    before, chance = {k: v.clone() for k, v in network.state_dict().items()}, torch.get_rng_state()
    source(network, reading(PIXELS), "A network.")
    assert network.training
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    assert torch.equal(chance, torch.get_rng_state())


def test_a_class_of_many_arguments_fits_its_lines():
    class Wide(nn.Module):
        def __init__(self, *sizes: int) -> None:
            super().__init__()
            self.a, self.b = (
                nn.Conv2d(3, sizes[0], sizes[1], sizes[2], sizes[3]),
                nn.Conv2d(3, sizes[4], sizes[5], sizes[6]),
            )

        def forward(self, x):
            return self.a(x).mean((2, 3)).sum(1, keepdim=True) + self.b(x).mean((2, 3)).sum(1, keepdim=True)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Wide(1, 2, 3, 0, 4, 5, 2), Wide(2, 3, 1, 1, 5, 4, 1)

        def forward(self, x):
            return self.one(x) - self.two(x) * 0.5

    text = source(Two(), reading(PIXELS), "A network.").text
    assert max(map(len, text.splitlines())) <= 120
    assert "Wide(1, 2, 3, 0, 4, 5, 2)" in text
    assert "def __init__(\n        self," in text
