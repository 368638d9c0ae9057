"""Scores of another machine, the duration of interrupted experiments, and the commit of the code."""

import subprocess

import numpy as np
import pandas as pd
import pytest

from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.papers import commit as commit_module
from untrained.papers.commit import COMMIT_VARIABLE, read_commit
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.recorded_scores import RecordedScores
from untrained.papers.reproduce import reproduce
from untrained.papers.samples import measure_archs
from untrained.papers.stopwatch import SECONDS_FILE, Stopwatch
from untrained.progress import Progress
from untrained.runs.store_files import export_store
from untrained.spaces import load_space

SPACE = "nasbench201(channels=4,cells=1)"


@pytest.fixture
def archs():
    space = load_space(SPACE)
    # The first cell has no path from its input to its output.
    texts = (
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|",
    )
    return [space.parse(text) for text in texts]


def measure(config, archs, names=("snip", "params")):
    source = load_data("digits", load_space(SPACE).task)
    return measure_archs(config, names, SPACE, archs, source, "test")


def test_recorded_scores_are_read_and_not_measured(tmp_path, archs):
    first = measure(ExperimentConfig(3, 2, tmp_path / "a", batch=4), archs)
    export_store(tmp_path / "a", tmp_path / "scores.parquet")
    measured = []

    def count(progress: Progress) -> None:
        measured.append(progress.measured)

    recorded = RecordedScores.read(tmp_path / "scores.parquet")
    config = ExperimentConfig(
        3,
        2,
        tmp_path / "b",
        ComputeConfig("cpu"),
        batch=4,
        recorded=recorded,
        on_progress=count,
    )
    again = measure(config, archs)
    for name in ("snip", "params"):
        assert again[name] == pytest.approx(first[name], nan_ok=True)
    assert again.failures == first.failures
    assert again.failures["snip"] == {"disconnected": 1}
    assert not measured
    assert recorded.used == 2 * 2 * 2
    assert recorded.describe_use().startswith("8 scores were read from scores.parquet (cpu, torch")


def test_a_proxy_with_a_missing_score_is_measured_for_all(tmp_path, archs):
    measure(ExperimentConfig(3, 1, tmp_path / "a", batch=4), archs[1:])
    export_store(tmp_path / "a", tmp_path / "scores.parquet")
    recorded = RecordedScores.read(tmp_path / "scores.parquet")
    config = ExperimentConfig(3, 1, tmp_path / "b", batch=4, recorded=recorded)
    measure(config, archs)
    assert recorded.used == 0
    assert "None of the scores" in recorded.describe_use()
    # Other samples are another score.
    config = ExperimentConfig(3, 1, tmp_path / "c", batch=5, recorded=recorded)
    measure(config, archs[1:], ["snip"])
    assert recorded.used == 0


def write_short_file(folder, archs, path) -> None:
    """Measure, and write a file like those in docs/results/data/scores."""
    measure(ExperimentConfig(3, 1, folder, batch=4), archs, SHORT_NAMES)
    export_store(folder, folder / "long.parquet")
    frame = pd.read_parquet(folder / "long.parquet")
    columns = ["arch", "proxy", "seed", "value", "error", "device", "torch", "measure_seconds"]
    frame[columns].to_parquet(path)


SHORT_NAMES = ("snip(samples=4)", "params")


def test_files_without_samples_are_used_by_architecture_proxy_and_seed(tmp_path, archs):
    first = measure(ExperimentConfig(3, 1, tmp_path / "a", batch=4), archs, SHORT_NAMES)
    (tmp_path / "kept").mkdir()
    write_short_file(tmp_path / "a", archs, tmp_path / "kept" / "space.parquet")
    recorded = RecordedScores.read(tmp_path / "kept")
    assert recorded.archs == {str(arch) for arch in archs}
    source = load_data("digits", load_space(SPACE).task)
    plain_archs = [load_space("nasbench201").parse(str(arch)) for arch in archs]
    config = ExperimentConfig(3, 1, tmp_path / "b", recorded=recorded, only_recorded=True)
    names = [*SHORT_NAMES, "zen"]
    read = measure_archs(config, names, "nasbench201", plain_archs, source, "test")
    for name in SHORT_NAMES:
        assert read[name] == pytest.approx(first[name], nan_ok=True)
    assert read.failures["snip(samples=4)"] == {"disconnected": 1}
    # Nothing is measured, so a proxy without scores has none.
    assert np.isnan(read["zen"]).all()
    assert read.failures["zen"] == {"not recorded": 2}
    assert recorded.used == recorded.used_reduced == 4
    assert "does not say which images" in recorded.describe_use()


def test_files_without_samples_are_not_used_for_other_networks_of_a_space(tmp_path, archs):
    write_short_file(tmp_path / "a", archs, tmp_path / "kept.parquet")
    recorded = RecordedScores.read(tmp_path / "kept.parquet")
    config = ExperimentConfig(3, 1, tmp_path / "b", recorded=recorded, only_recorded=True)
    # These architectures have four channels, and the file does not say how many its own had.
    read = measure(config, archs, SHORT_NAMES)
    assert np.isnan(read["params"]).all()
    assert recorded.used == 0


def test_a_folder_without_scores_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no Parquet files"):
        RecordedScores.read(tmp_path)


def test_only_recorded_needs_scores(tmp_path):
    with pytest.raises(UsageError, match="name it with --scores"):
        reproduce("dextr-table-1", only_recorded=True, run=tmp_path)


def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path):
    path = tmp_path / "scores.parquet"
    path.write_text("not a table")
    with pytest.raises(UsageError, match="cannot be read as recorded scores") as refused:
        RecordedScores.read(path)
    assert "\n" not in str(refused.value)


def test_a_shared_store_is_used_instead_of_the_one_in_the_folder(tmp_path, archs):
    store = tmp_path / "shared.sqlite"
    measure(ExperimentConfig(3, 1, tmp_path / "a", batch=4, store=store), archs)
    measured = []
    config = ExperimentConfig(
        3,
        1,
        tmp_path / "b",
        batch=4,
        store=store,
        on_progress=lambda progress: measured.append(progress.measured),
    )
    measure(config, archs)
    assert set(measured) == {0}
    assert not list(tmp_path.glob("[ab]/*.sqlite"))


def test_the_stopwatch_adds_interrupted_attempts(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("untrained.papers.stopwatch.perf_counter", lambda: now[0])
    first = Stopwatch(tmp_path, None)
    now[0] += 30
    # Killed after this event.
    first.report_progress(Progress("scoring", 1, 2))
    assert (tmp_path / SECONDS_FILE).read_text() == "30.0\n"
    events = []
    second = Stopwatch(tmp_path, events.append)
    now[0] += 4
    second.report_progress(Progress("scoring", 2, 2))
    assert len(events) == 1
    assert second.seconds == pytest.approx(34)
    # A damaged file is as good as none.
    (tmp_path / SECONDS_FILE).write_text("soon")
    assert Stopwatch(tmp_path, None).seconds == pytest.approx(0)


def test_the_commit_is_that_of_the_clone(tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(commit_module.untrained, "__file__", str(package / "__init__.py"))
    # A copy without .git names its commit.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv(COMMIT_VARIABLE, "abc1234")
    assert read_commit() == "abc1234"
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    clean = read_commit()
    assert len(clean) >= 7
    assert clean != "abc1234"
    (package / "__init__.py").write_text("x = 1\n")
    assert read_commit() == f"{clean}+"
