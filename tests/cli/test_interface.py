"""The interface that scripts depend on: commands, options, public names, help and light imports."""

import json
import os
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
from untrained.cli.app import app

GROUPS = {"What", "Limits", "Budget", "Data", "Output", "Compute"}
PUBLIC_NAMES = "score rank search bench calibrate reproduce train export report load_space space proxy Probe Arch Record Task"


def collect_commands(group: Any = None, prefix: str = "") -> dict[str, Any]:
    """Return every command by what is typed, such as "search" or "data card"."""
    if group is None:
        group = get_command(app)
    commands = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            commands |= collect_commands(command, f"{name} ")
        else:
            commands[prefix + name] = command
    return commands


def test_commands_and_options_keep_their_names():
    """Scripts depend on them: an option may be added (also here), but not renamed or removed."""
    options: dict[str, set[str]] = {}
    for name, command in collect_commands().items():
        options[name] = set()
        for parameter in command.params:
            options[name].update(parameter.opts)
    assert options == {name: set(text.split()) for name, text in COMMANDS.items()}


def test_public_names_keep_their_names_and_can_be_imported():
    assert set(untrained.__all__) == set(PUBLIC_NAMES.split())
    assert len(untrained.__all__) <= 16
    for name in untrained.__all__:
        assert getattr(untrained, name).__name__ == name
        assert name in dir(untrained)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = untrained.nonsense


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_a_command_and_shows_valid_examples(run_cli, name):
    code, out, _ = run_cli(*name.split(), "--help")
    assert code == 0
    text = " ".join(out.split())
    for option in COMMANDS[name].split():
        assert option in text
    examples = re.findall(rf"Example: untrained {name} (.*?)(?= Example:| ╭)", text)
    assert len(examples) == text.count("Example:") >= 1
    for example in examples:
        assert set(re.findall(r"--[a-z-]+", example)) <= set(COMMANDS[name].split())
    assert " " + collect_commands()[name].help.partition(".")[0] in " " + text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_a_group_of_the_help(name):
    for parameter in collect_commands()[name].params:
        is_argument = not parameter.opts[0].startswith("--")
        if is_argument or "--help" in parameter.opts:
            continue
        assert parameter.rich_help_panel in GROUPS, parameter.name


def test_help_fills_the_width_of_the_terminal(run_cli, monkeypatch):
    """The line breaks of the docstring are not printed."""
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = run_cli("search", "--help")
    lines = [line.strip() for line in out.splitlines()]
    (paragraph,) = [line for line in lines if line.startswith("Without options")]
    assert paragraph.endswith("even with a different number of workers.")


def test_help_shows_defaults_that_are_not_plain_values(run_cli):
    """Rich reads square brackets as markup, so a default that contains them would vanish."""
    text = " ".join(run_cli("score", "--help")[1].replace("│", " ").split())
    assert re.search(r"npz:PATH\. \[default: \(\w+", text)
    assert "[default: ($UNTRAINED_DATA or the cache)]" in text
    assert "[default: (number of outputs)]" in text


RUN_MAIN = "import sys; sys.argv = ['untrained', '{}']\ntry:\n import untrained.cli.app; untrained.cli.app.main()\nfinally: "
PRINT_MODULES = "print(*sys.modules, file=sys.stderr)"


HEAVY_PACKAGES = {"torch", "numpy", "pandas", "scipy", "sklearn", "PIL"}


@pytest.mark.parametrize(
    "code", ["import sys, untrained; ", RUN_MAIN.format("--help"), RUN_MAIN.format("--version")]
)
def test_importing_and_help_load_no_heavy_package(code):
    done = subprocess.run(
        [sys.executable, "-c", code + PRINT_MODULES], capture_output=True, text=True, check=True
    )
    modules = set(done.stderr.split())
    assert "untrained" in modules
    assert not modules & HEAVY_PACKAGES


@pytest.mark.alone
@pytest.mark.parametrize(
    ("arguments", "max_seconds"),
    [
        (["-c", "import untrained"], 0.1),
        (["-m", "untrained", "--version"], 0.3),
        (["-m", "untrained", "--help"], 0.3),
        (["-m", "untrained", "search", "--help"], 0.3),
    ],
)
def test_importing_and_help_are_fast(tmp_path, arguments, max_seconds):
    """Processor time does not depend on other processes, and the first run writes the bytecode.

    pip writes it too when it installs a package.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if min(seconds) < max_seconds:
            break
    assert min(seconds) < max_seconds


def test_the_version_is_the_version_of_the_package(run_cli):
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "version"
    ]
    assert run_cli("--version") == (0, f"untrained {declared}\n", "")


@pytest.mark.parametrize(
    "program", [[Path(sys.executable).parent / "untrained"], [sys.executable, "-m", "untrained"]]
)
def test_the_program_is_installed(program):
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    assert all(name.split()[0] in done.stdout for name in COMMANDS)
    assert "untrained search" in done.stdout


@pytest.mark.parametrize(
    ("kind", "expected_names"),
    [
        ("spaces", {"nasbench201"}),
        ("proxies", {"dextr", "dextr_conditions", "dextr_curvature", "params", "flops"}),
        ("strategies", {"random"}),
        ("papers", {"dextr-table-1", "hnas-table-5", "nasi-table-3", "sigeo-table-2"}),
        ("benchmarks", {"nasbench201", "nasbench301", "transnas"}),
        (
            "recipes",
            {"quick", "cifar", "darts-cifar", "darts-imagenet", "autoformer", "zen-cifar", "ctr"},
        ),
        (
            "datasets",
            {
                "noise",
                "photos",
                "digits",
                "cifar10",
                "cifar100",
                "mnist",
                "npz",
                "folder",
                "images",
                "hf",
            },
        ),
        ("datasets", {"clicks", "csv", "parquet", "criteo", "avazu", "kdd2012", "frappe"}),
    ],
)
def test_list_shows_the_members_of_a_kind(run_cli, kind, expected_names, monkeypatch):
    code, out, _ = run_cli("list", kind, "--json")
    rows = json.loads(out)
    assert (code, isinstance(rows, list)) == (0, True)
    assert expected_names <= {row["name"] for row in rows}
    assert all(row["about"] for row in rows)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_cli("list", kind)
    assert code == 0
    assert all(row["name"] in out for row in rows)
    heading, *lines = out.rstrip().splitlines()
    assert heading == kind
    # Continuation lines are indented too.
    assert all(line.startswith("  ") and len(line) <= 80 for line in lines)
    everything = json.loads(run_cli("list", "--json")[1])
    assert everything[kind] == rows


def test_the_measured_cost_of_a_proxy_is_beside_its_samples_and_passes(run_cli, monkeypatch):
    measured = {"zico": 511.26, "dextr": 31.9, "dss": None}

    def measure_proxy_costs(proxies, on_progress):
        return {proxy.name: measured.get(proxy.name, 1.0) for proxy in proxies}

    monkeypatch.setattr("untrained.workflows.proxy_cost.measure_proxy_costs", measure_proxy_costs)
    code, out, _ = run_cli("list", "proxies", "--measure", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["zico"]["milliseconds"] == 511
    assert rows["dextr"]["milliseconds"] == 31.9
    # It cannot score the network that is measured.
    assert rows["dss"]["milliseconds"] is None
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run_cli("list", "proxies", "--measure")
    assert code == 0
    assert "samples: 128 · cost: 3 forward passes · milliseconds: 511" in out
    assert "samples: 1 · cost: 13 forward passes · milliseconds: 31.9" in out
    assert "Times are milliseconds for one network of nasbench201" in out


def test_list_without_a_name_is_an_overview(run_cli, monkeypatch):
    everything = json.loads(run_cli("list", "--json")[1])
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_cli("list")
    assert code == 0
    assert len(out.splitlines()) <= 60  # one page
    for kind, rows in everything.items():
        assert f"{kind} ({len(rows)}); more: untrained list {kind}\n" in out
        assert {row["name"] for row in rows} <= set(out.replace(",", " ").split())


def test_flags_have_no_type_in_the_help(run_cli):
    for words in (("--help",), ("search", "--help"), ("data", "--help")):
        _, out, _ = run_cli(*words)
        assert "--help" in out
        assert "<bool>" not in out
