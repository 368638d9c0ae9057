"""A folder that remembers scores, and files of the user's own that change in between."""

import sys
from pathlib import Path

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


def found(folder: Path, answer: float, space: str = "./mine.py:small") -> tuple[float | None, int]:
    """The score of the network of width 2, which has 98 + 15 parameters, and how many were measured for it."""
    Path("mine.py").write_text(MINE.replace("ANSWER", str(answer)))
    judge, home, typed = (
        load_proxy("./mine.py:answer"),
        load_space(space),
        {"answer": "./mine.py:answer"},
    )
    archs, watched = [home.parse("width=2")], []
    work = (
        ComputeConfig(workers=1),
        folder / "records.sqlite",
        typed,
        lambda at: watched.append(at.measured),
    )
    (record,) = score_architectures(
        space, archs, [judge], load_data("noise", home.task), (0,), *work
    ).records
    return record.value, max(watched)


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_changed_file_is_another_method_and_is_measured_anew(tmp_path):
    assert found(tmp_path, 0.5) == (113.5, 1)
    assert found(tmp_path, 0.5) == (113.5, 0)
    assert found(tmp_path, 0.25) == (113.25, 1)
    assert found(tmp_path, 0.5) == (113.5, 0)  # and the former one is still known


def test_a_worker_that_finds_another_file_than_it_was_sent_for_says_so():
    Path("mine.py").write_text(MINE.replace("ANSWER", "1"))
    judge, home = load_proxy("./mine.py:answer"), "./mine.py:small"
    source = load_data("noise", load_space(home).task)
    samples = SeedBatches.for_proxies(source, [judge], [0])
    job = make_worker_setup(
        home, [judge], samples, ComputeConfig(), {judge.measure: "./mine.py:answer"}
    )
    assert isinstance(job, WorkerSetup)
    job.open_worker()
    Path("mine.py").write_text(MINE.replace("ANSWER", "2"))
    with pytest.raises(UsageError, match=r"mine.py:answer has changed while it was in use"):
        job.open_worker()


def test_two_of_one_name_in_two_files_are_refused():
    for name in ("one", "other"):
        Path(f"{name}.py").write_text(MINE.replace("ANSWER", f"'{name}'"))
    with pytest.raises(
        UsageError, match="two different proxies are called answer; rename one of them"
    ):
        index_proxies([load_proxy("./one.py:answer"), load_proxy("./other.py:answer")])


def test_a_fingerprint_of_the_file_is_in_the_measure_and_not_in_the_name():
    Path("mine.py").write_text(MINE.replace("ANSWER", "1"))
    judge = load_proxy("./mine.py:answer(samples=4)")
    assert judge.label == "answer(samples=4)"
    assert judge.measure.startswith("answer(samples=4)@1-")
    assert load_proxy("naswot").measure == "naswot@1"
