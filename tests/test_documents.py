"""The code on pages runs, and pages name what exists."""

import re
from inspect import signature
from pathlib import Path

import pytest
import torch
from torch import nn

import untrained
from tests.data.pictures import write_good_images
from untrained.cli import catalogue
from untrained.cli.app import app
from untrained.data import SOURCES
from untrained.probe import Probe
from untrained.probe.flops import FlopCounter
from untrained.proxies import PROXIES, load_proxy
from untrained.runs.ranking import make_record_rows
from untrained.spaces import SPACES, load_space
from untrained.strategies import STRATEGIES
from untrained.types import FAILURE_KINDS, Arch, Batch, Record, ScoreRequest, Task

DOCS = Path(__file__).parents[1] / "docs"
CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|nor_conv_3x3~0|avg_pool_3x3~1|nor_conv_3x3~2|"


def read_code_blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language; "" for commands."""
    fenced = re.findall(
        r"^```(\w*)\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    return [content for kind, content in fenced if kind == language]


def find_missing_paths(page: str) -> list[str]:
    """Return the paths on a page that are not in the package."""
    paths = set(re.findall(r"(?<![\w./])((?:\w+/)+(?:\w+\.(?:py|css))?|\w+\.(?:py|css))", page))
    paths -= {"predict.py", "src/untrained/"}  # a file of an export, and where the paths start
    package = Path(untrained.__file__).parent
    return sorted(path for path in paths if not (package / path).exists())


def test_the_page_on_the_architecture_names_files_and_packages_that_exist():
    page = (DOCS / "architecture.md").read_text()
    package = Path(untrained.__file__).parent
    assert not find_missing_paths(page)
    packages = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    unnamed = sorted(name for name in packages if f"`{name}/`" not in page)
    assert not unnamed


def test_the_recipes_for_contributors_name_files_that_exist():
    page = (DOCS.parent / "CONTRIBUTING.md").read_text()
    recipes = page.partition("## Recipes")[2].partition("## Rules")[0]
    # Files to add, and folders of the repository.
    recipes = re.sub(
        r"\w+/NAME\.py|docs/[\w/-]+\.md|`docs/\w+/`|`tests/\w+/`|tests/[\w/]+\.py", "", recipes
    )
    assert not find_missing_paths(recipes)
    for path in re.findall(r"\b(tests/[\w/]+\.py)", page):
        assert path == "tests/test_NAME.py" or (DOCS.parent / path).is_file(), path
    folders = re.findall(r"^\| `([\w/]+/)` \|", page, flags=re.MULTILINE)
    assert len(folders) >= 5
    for folder in folders:
        assert (DOCS.parent / folder).is_dir(), folder
    # Tables in the recipe of a proxy: a name, and the test file that defines it.
    lists = re.findall(r"^ +\| `(\w+)` \| `(tests/[\w/]+\.py)` \|", page, flags=re.MULTILINE)
    assert len(lists) >= 5
    for name, path in lists:
        source = (DOCS.parent / path).read_text()
        assert re.search(rf"^ *{name}\b.* = ", source, flags=re.MULTILINE), f"{name} in {path}"
    for name in re.findall(r"`(draw_\w+|make_\w+)`", recipes):
        sources = (Path(untrained.__file__).parent / "reports").rglob("*.py")
        assert any(f"def {name}(" in source.read_text() for source in sources), name


def test_the_readme_is_short_and_does_not_exaggerate():
    """It states lower bounds, so that a new proxy does not change it."""
    readme = (DOCS.parent / "README.md").read_text()
    assert len(readme.splitlines()) <= 150
    words = " ".join(readme.split())
    assert "over 40 proxies, over 20 search spaces, eight search strategies" in words
    assert "with over 40 proxies" in (DOCS / "index.md").read_text()
    assert 40 < len(PROXIES) <= 60
    assert 20 < len(SPACES) <= 30
    assert len(STRATEGIES) == 8


def test_every_proxy_has_a_line_and_most_a_formula():
    for row in catalogue.list_proxies():
        assert row["about"].endswith("."), row["name"]
        is_explained = row["formula"] and row["notes"]  # a formula alone would lose its indentation
        assert is_explained or row["name"] in ("params", "flops", "depth", "random"), row["name"]
        assert row["paper"] or row["aspects"] in ("size", "nothing"), row["name"]


def test_the_page_on_your_own_images_works_as_written(tmp_path, monkeypatch, capsys):
    """Run its commands (with a budget of 2 instead of 20); check the sizes and shares that it states."""
    write_good_images(tmp_path / "photos", {"cats": 20, "dogs": 20})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNTRAINED_DATA", str(tmp_path / "root"))
    # Otherwise, so few pictures are trained on for hundreds of epochs.
    monkeypatch.setattr("untrained.workflows.contest_rounds.ENOUGH_STEPS", (1, 1, 1))
    monkeypatch.setattr("untrained.workflows.final_training.ENOUGH_STEPS", 1)
    for command in read_code_blocks("how-to/pictures.md", "")[2].splitlines():
        words = command.replace("--budget 20", "--budget 2 --proxy params --workers 1").split()
        assert words.pop(0) == "untrained"
        with pytest.raises(SystemExit) as exit_:
            app(words)
        assert exit_.value.code == 0, command
    shown = capsys.readouterr()
    summary = "40 pictures in 2 classes: 30 for training, 6 for validation, 4 for testing"
    assert summary in shown.out
    assert summary in shown.err
    assert "network input 48x48" in shown.err
    assert list((tmp_path / "root" / "cache" / "pictures").glob("*.npy"))
    named = set(
        re.findall(
            r"^\| `([a-z]+)[:`]", (DOCS / "how-to/pictures.md").read_text(), flags=re.MULTILINE
        )
    )
    assert {"folder", "images", "npz", "hf"} <= named <= set(SOURCES) | {"cifar"}


def test_the_page_of_records_names_every_column_and_kind_of_failure():
    page = (DOCS / "reference/records.md").read_text()
    cells = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(cells)))
    request = ScoreRequest(Arch("mlp", (("depth", 2),)), "params@1", Task("noise", (1,), 2), 0)
    (row,) = make_record_rows([Record(request, value=1.0)])
    assert named == set(row) | set(FAILURE_KINDS)


def test_the_page_of_a_run_folder_names_every_file_of_a_search_on_pictures(run_folder):
    """A search, a training and an export; other files are named in the modules that write them."""
    result = untrained.search("mlp", "params", budget=2, run=run_folder)
    result.report()
    untrained.train(run_folder, epochs=1)
    untrained.export(run_folder, run_folder / "model")
    page = (DOCS / "reference/run-folder.md").read_text()
    for path in run_folder.rglob("*.*"):
        assert f"`{path.name}`" in page, path


def test_the_tutorial_on_proxies_names_every_argument_of_the_decorator():
    page = (DOCS / "tutorials/own-proxy.md").read_text()
    table = page.partition("## All arguments of the decorator")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|.*\| `([^`]*)` \|$", table, flags=re.MULTILINE)
    defaults = {name: p.default for name, p in signature(untrained.proxy).parameters.items()}
    assert {name: eval(default) for name, default in named} == defaults


def test_every_measurement_of_a_probe_on_the_page_exists():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    probe = Probe(model, Batch(torch.randn(8, 3, 8, 8), torch.arange(8) % 3))
    named = re.findall(r"`(probe\.[^`]+)`", (DOCS / "tutorials/own-proxy.md").read_text())
    assert len(named) > 15
    for expression in named:
        assert eval(expression, {"probe": probe, "shape": (3, 8, 8)}) is not None, expression


# Taylor mode runs in inference mode, where torch's counter counts nothing; and its formula for the backward pass of a
# convolution ignores groups, which per-sample gradients use.
UNCOUNTED = """
dextr dextr_curvature dextr_opt gradsign hnas knas nasi_samples ntk_condition ntk_trace te_nas_condition trace
""".split()
COUNTED = [name for name, p in PROXIES.items() if not p.parts and name not in (*UNCOUNTED, "dss")]


@pytest.mark.parametrize("name", COUNTED)
def test_the_stated_cost_equals_the_counted_one(name):
    """Multiply-adds by torch's counter, in units of a forward pass, with a tolerance of half a pass."""
    space = load_space("nasbench201(cells=1)")
    proxy = load_proxy(name)
    torch.manual_seed(0)
    model = space.build(space.parse(CELL))
    draw = torch.Generator().manual_seed(0)
    batch = Batch(
        torch.randn(proxy.samples, 3, 32, 32, generator=draw), torch.arange(proxy.samples) % 10
    )
    counter = FlopCounter()
    with counter:
        proxy(Probe(model, batch))
    forward = 2 * Probe(model, batch).macs * proxy.samples
    assert counter.float_operations / forward == pytest.approx(proxy.cost, abs=0.55)
