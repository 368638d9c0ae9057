"""The tutorial docs/tutorials/own-space.md, executed as written."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from untrained.cli.app import main
from untrained.config import Limits
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import Space, load_space, space
from untrained.strategies.limits import ConstrainedSpace
from untrained.types import Batch, Task

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tutorials" / "own-space.md").read_text()
MINE, TOUR, ANYTHING, STUDY, DRAWN, GROUPED, COUNTED, CHECK = re.findall(
    r"^```python[^\n]*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
)
(COMMAND,) = re.findall(r"^```bash\n(untrained .*?)\n```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def tutorial_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files of the tutorial."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "anything.py").write_text(ANYTHING)
    (tmp_path / "grouped.py").write_text(GROUPED)
    (tmp_path / "counted.py").write_text(COUNTED)
    return tmp_path


def test_the_space_has_twenty_lines_with_a_loop_and_a_branch():
    lines = [line for line in MINE.splitlines() if line.strip()]
    assert len(lines) <= 20
    assert re.search(r"^    for .* in range\(choose", MINE, re.MULTILINE)
    assert re.search(r"^        if choose", MINE, re.MULTILINE)


def test_the_command_runs_a_search(
    tutorial_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert COMMAND == "untrained search --space ./mine.py:mynet --data digits --budget 4"
    monkeypatch.setattr(sys, "argv", [*shlex.split(COMMAND), "--run", "run", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    rows = [row for row in json.loads(capsys.readouterr().out) if row["proxy"] == "consensus"]
    space: Space = load_space("./mine.py:mynet")
    assert len({space.parse(row["arch"]) for row in rows}) == len(rows) == 4
    assert all(row["value"] > 0 for row in rows)
    assert "<svg" in (tutorial_folder / "run" / "report.html").read_text()


def test_the_example_session_runs(tutorial_folder: Path, capsys: pytest.CaptureFixture[str]):
    exec(compile(TOUR, "own-space.md", "exec"), {})
    assert re.match(r"depth=\d,width0=\d+,kernel0=\d,kind0=\w+", capsys.readouterr().out)


def test_options_of_any_type_and_ranges(tutorial_folder: Path):
    space: Space = load_space("./anything.py:anything")
    (text,) = re.findall(r"`(kernel=\(3,3\),[^`]*)`", PAGE)
    arch = space.parse(text)
    assert str(arch) == text
    network = space.build(arch)
    assert [layer.kernel_size for layer in network if isinstance(layer, nn.Conv2d)] == [(3, 3)]
    assert [layer.alpha for layer in network if isinstance(layer, nn.ELU)] == [0.5]
    assert [layer.p for layer in network if isinstance(layer, nn.Dropout)] == [0.3211]
    assert network(torch.zeros(2, *space.task.input_shape)).shape == (2, space.task.num_classes)


def test_a_study_of_optuna_searches_the_space(tutorial_folder: Path):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names: dict[str, Any] = {}
    exec(compile(STUDY, "your-own-space.md", "exec"), names)
    assert len(names["study"].trials) == 5
    network = names["space"].build(names["best"])
    size = sum(parameter.numel() for parameter in network.parameters())
    assert size == names["study"].best_value


def test_the_picture_is_that_of_the_example(tutorial_folder: Path):
    exec(compile(DRAWN, "own-space.md", "exec"), {"__name__": "own-space"})
    picture = (DOCS / "pictures" / "space-draw.svg").read_text()
    assert (tutorial_folder / "space-draw.svg").read_text() == picture


def test_invalid_combinations_are_rejected(tutorial_folder: Path):
    """6 channels in 2 or 3 groups, 8 in 2 or 4."""
    space: Space = load_space("./grouped.py:grouped")
    valid = ["width=6,groups=2", "width=6,groups=3", "width=8,groups=2", "width=8,groups=4"]
    assert [str(arch) for arch in space] == valid
    rng = np.random.default_rng(0)
    assert {str(space.sample(rng)) for _ in range(50)} == set(valid)
    assert {str(space.mutate(space.parse(valid[1]), rng)) for _ in range(50)} <= set(valid) - {
        valid[1]
    }
    with pytest.raises(
        UsageError, match="width=8,groups=3 is not in grouped: 3 groups do not divide 8 channels"
    ):
        space.parse("width=8,groups=3")


def test_counts_by_formula_are_exact_and_limits_use_them(
    tutorial_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    space: Space = load_space("./counted.py:counted")
    task = Task("mine", (2, 7, 9), 3)
    for arch in space:
        probe = Probe(
            space.build(arch, task), Batch(torch.zeros(1, *task.input_shape), torch.zeros(1).long())
        )
        assert space.counts(arch, task)[:2] == (probe.params, probe.macs)
    monkeypatch.setattr(Space, "build", lambda *_, **__: pytest.fail("a network was made"))
    small = ConstrainedSpace(space, Limits.parse(max_params="10k", max_flops="4M"))
    assert [str(arch) for arch in small] == [
        "filters=8,kernel=3",
        "filters=8,kernel=5",
        "filters=64,kernel=3",
    ]


def test_an_option_of_the_function_is_an_option_of_the_space(tutorial_folder: Path):
    changed = MINE.replace("(choose, task)", "(choose, task, depth=3)").replace(
        "[1, 2, 3]", "[depth]"
    )
    (tutorial_folder / "mine.py").write_text(changed)
    space = load_space("./mine.py:mynet(depth=2)")
    assert len(list(space)) == 12**2


def test_weights_on_the_meta_device_are_not_initialised():
    """This makes it faster to enumerate a space; weights elsewhere are initialised as usual."""

    @space
    def linear(choose, task):
        width = choose.int("width", 8, 64, log=True)
        layer = nn.Linear(width, 2)
        nn.init.normal_(layer.weight, std=0.1)
        weight = nn.init.zeros_(torch.empty(2, device="cpu"))
        assert weight.tolist() == [0.0, 0.0]
        return layer

    archs = list(linear)
    assert [arch["width"] for arch in archs] == list(range(8, 65))
    assert linear.build(archs[0], device="meta").weight.is_meta
    assert 0 < float(linear.build(archs[0]).weight.detach().std()) < 0.5
