"""Stored scores of proxies in a user's files that change between calls."""

import hashlib
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from untrained import load_space
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import SeedBatches, WorkerSetup, make_worker_setup
from untrained.engine.worker import index_proxies
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.workflows.score_architectures import score_architectures

MINE = """
import untrained as ut
from torch import nn

@ut.space(task=ut.Task("noise", (3, 4, 4), 5))
def small(choose, task):
    width = choose("width", [2, 3])
    return nn.Sequential(nn.Flatten(), nn.Linear(48, width), nn.ReLU(), nn.Linear(width, 5))

@ut.proxy(needs=())
def answer(probe):
    return ANSWER + probe.params
"""


def score_width_2(
    folder: Path, answer: float, space: str = "./mine.py:small"
) -> tuple[float | None, int]:
    """Score the network of width 2, which has 98 + 15 parameters.

    Returns:
        Its score, and how many records were measured for it.
    """
    Path("mine.py").write_text(MINE.replace("ANSWER", str(answer)))
    proxy = load_proxy("./mine.py:answer")
    loaded_space = load_space(space)
    measured_counts = []
    (record,) = score_architectures(
        space,
        [loaded_space.parse("width=2")],
        [proxy],
        load_data("noise", loaded_space.task),
        (0,),
        ComputeConfig(workers=1),
        folder / "records.sqlite",
        {"answer": "./mine.py:answer"},
        lambda event: measured_counts.append(event.measured),
    ).records
    return record.value, max(measured_counts)


@pytest.fixture(autouse=True)
def enter_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_changed_proxy_is_measured_again(tmp_path):
    assert score_width_2(tmp_path, 0.5) == (113.5, 1)
    assert score_width_2(tmp_path, 0.5) == (113.5, 0)
    assert score_width_2(tmp_path, 0.25) == (113.25, 1)
    assert score_width_2(tmp_path, 0.5) == (113.5, 0)  # the former score is still stored


def test_a_worker_refuses_a_file_that_changed_after_its_setup():
    Path("mine.py").write_text(MINE.replace("ANSWER", "1"))
    proxy = load_proxy("./mine.py:answer")
    space = "./mine.py:small"
    source = load_data("noise", load_space(space).task)
    samples = SeedBatches.for_proxies(source, [proxy], [0])
    setup = make_worker_setup(
        space, [proxy], samples, ComputeConfig(), {proxy.measure: "./mine.py:answer"}
    )
    assert isinstance(setup, WorkerSetup)
    setup.open_worker()
    Path("mine.py").write_text(MINE.replace("ANSWER", "2"))
    with pytest.raises(UsageError, match=r"mine.py:answer has changed while it was in use"):
        setup.open_worker()


def test_two_proxies_of_the_same_name_are_refused():
    for name in ("one", "other"):
        Path(f"{name}.py").write_text(MINE.replace("ANSWER", f"'{name}'"))
    with pytest.raises(
        UsageError, match="two different proxies are called answer; rename one of them"
    ):
        index_proxies([load_proxy("./one.py:answer"), load_proxy("./other.py:answer")])


def test_the_measure_has_a_fingerprint_of_the_file_and_the_label_has_not():
    Path("mine.py").write_text(MINE.replace("ANSWER", "1"))
    proxy = load_proxy("./mine.py:answer(samples=4)")
    assert proxy.label == "answer(samples=4)"
    assert proxy.measure.startswith("answer(samples=4)@1-")
    assert load_proxy("naswot").measure == "naswot@2"


def test_an_imported_proxy_has_the_fingerprint_of_its_file(monkeypatch):
    measures = []
    for answer in ("1", "2"):
        Path("my_proxy.py").write_text(MINE.replace("ANSWER", answer))
        monkeypatch.syspath_prepend(str(Path.cwd()))
        monkeypatch.delitem(sys.modules, "my_proxy", raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        imported = importlib.import_module("my_proxy").answer
        content = Path("my_proxy.py").read_bytes()
        assert imported.measure == f"answer@1-{hashlib.sha256(content).hexdigest()[:8]}"
        assert load_proxy("./my_proxy.py:answer").measure == imported.measure
        measures.append(imported.measure)
    assert measures[0] != measures[1]


def test_a_proxy_without_a_file_has_a_fingerprint_of_its_code():
    measures = {}
    for answer in ("1", "2"):
        names: dict[str, Any] = {}
        exec(MINE.replace("ANSWER", answer), names)
        measures[answer] = names["answer"].measure
    assert measures["1"].startswith("answer@1-")
    assert measures["1"] != measures["2"]


def test_a_proxy_of_an_installed_package_has_no_fingerprint(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_proxy.py").write_text(MINE.replace("ANSWER", "1"))
    monkeypatch.syspath_prepend(str(folder))
    imported = importlib.import_module("installed_proxy").answer
    monkeypatch.delitem(sys.modules, "installed_proxy")
    assert imported.measure == "answer@1"
