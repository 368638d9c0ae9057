"""The command line and the public page: frozen names, help, a light door."""

import json
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import untrained
from tests.cli.helpers import COMMANDS
from untrained.cli import app

PUBLIC = "score search bench calibrate reproduce train export report load_space space proxy Probe Arch Record Task"


def commands(group: Any = None, before: str = "") -> dict[str, Any]:
    """Every command by what is typed, those of groups too."""
    found = {}
    for name, command in (group or get_command(app)).commands.items():
        found |= commands(command, f"{name} ") if hasattr(command, "commands") else {before + name: command}
    return found


def test_the_command_line_is_frozen():
    """Scripts depend on these names: adding is fine (add it here), renaming and removing are not."""
    options = {name: {opt for p in command.params for opt in p.opts} for name, command in commands().items()}
    assert options == {name: set(text.split()) for name, text in COMMANDS.items()}


def test_the_public_page_is_frozen_and_every_name_on_it_resolves():
    assert set(untrained.__all__) == set(PUBLIC.split())
    assert len(untrained.__all__) <= 15
    for name in untrained.__all__:
        assert getattr(untrained, name).__name__ == name
        assert name in dir(untrained)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = untrained.nonsense


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_and_shows_an_example_that_can_be_typed(untrained_, name):
    code, out, _ = untrained_(*name.split(), "--help")
    assert code == 0
    text = " ".join(out.split())
    for option in COMMANDS[name].split():
        assert option in text
    examples = re.findall(rf"Example: untrained {name} (.*?)(?= Example:| ╭)", text)
    assert len(examples) == text.count("Example:") >= 1
    for example in examples:
        assert set(re.findall(r"--[a-z-]+", example)) <= set(COMMANDS[name].split())
    assert " " + commands()[name].help.partition(".")[0] in " " + text


def test_help_tells_the_defaults_that_are_not_plain_values(untrained_):
    """Square brackets are markup to the library that draws the help: a default written with them would vanish."""
    text = " ".join(untrained_("score", "--help")[1].replace("│", " ").split())
    assert re.search(r"npz:PATH\. \[default: \(\w+", text)
    assert "[default: ($UNTRAINED_DATA or the cache)]" in text
    assert "[default: (the network's outputs)]" in text


ASKED = "import sys; sys.argv = ['untrained', '{}']\ntry:\n import untrained.cli; untrained.cli.main()\nfinally: "
LOADED = "print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("code", ["import sys, untrained; ", ASKED.format("--help"), ASKED.format("--version")])
def test_the_door_is_light(code):
    """Half a second for `import untrained`, `untrained --help` and `--version`, in processor time, which other
    processes leave alone; and neither torch nor anything else that is heavy."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code + LOADED], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        loaded = set(done.stderr.split())
        assert "untrained" in loaded
        assert not loaded & {"torch", "numpy", "pandas", "scipy", "sklearn", "PIL"}
        if min(seconds) < 0.5:
            break
    assert min(seconds) < 0.5


def test_the_version_is_that_of_the_package(untrained_):
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert untrained_("--version") == (0, f"untrained {declared}\n", "")


@pytest.mark.parametrize("program", [[Path(sys.executable).parent / "untrained"], [sys.executable, "-m", "untrained"]])
def test_the_program_is_installed_and_answers(program):
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    assert all(name.split()[0] in done.stdout for name in COMMANDS)
    assert "untrained search" in done.stdout


@pytest.mark.parametrize(
    ("what", "some"),
    [
        ("spaces", {"nasbench201"}),
        ("proxies", {"dextr", "dextr_conditions", "dextr_curvature", "params", "flops"}),
        ("strategies", {"random"}),
        ("papers", {"dextr-table-1", "hnas-table-5", "nasi-table-3", "sigeo-table-2"}),
        ("benchmarks", {"nasbench201", "nasbench301", "transnas"}),
        ("recipes", {"quick", "cifar", "darts-cifar", "darts-imagenet", "autoformer", "zen-cifar", "ctr"}),
        ("datasets", {"noise", "photos", "digits", "cifar10", "cifar100", "mnist", "npz", "folder", "images", "hf"}),
        ("datasets", {"clicks", "csv", "parquet", "criteo", "avazu", "kdd2012", "frappe"}),
    ],
)
def test_list(untrained_, what, some, monkeypatch):
    code, out, _ = untrained_("list", what, "--json")
    rows = json.loads(out)
    assert (code, isinstance(rows, list)) == (0, True)
    assert some <= {row["name"] for row in rows}
    assert all(row["about"] for row in rows)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = untrained_("list", what)
    assert code == 0
    assert all(row["name"] in out for row in rows)
    heading, *lines = out.rstrip().splitlines()
    assert heading == what
    assert all(line.startswith("  ") and len(line) <= 80 for line in lines)  # also where a line goes on below
    everything = json.loads(untrained_("list", "--json")[1])
    assert everything[what] == rows


def test_a_list_of_everything_is_an_overview_that_says_how_to_read_more(untrained_, monkeypatch):
    everything = json.loads(untrained_("list", "--json")[1])
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = untrained_("list")
    assert code == 0
    assert len(out.splitlines()) <= 60  # a page: what is known of each takes ten
    for room, rows in everything.items():
        assert f"{room} ({len(rows)}); more: untrained list {room}\n" in out
        assert {row["name"] for row in rows} <= set(out.replace(",", " ").split())
