"""A search with a contest, from the ranking to the trained winner."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import untrained as ut
from untrained.cli.terminal.search_result import show_search_result
from untrained.config import SearchConfig
from untrained.proxies import load_proxy
from untrained.reports.contest_result import TOO_SLOW, Contest
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Ranking, Standing
from untrained.runs.winner import RunRanking
from untrained.training.checkpoint import load_tensors, save_tensors
from untrained.training.result import AnotherTrainingError, TrainingResult
from untrained.types import Arch, Record, ScoreRequest, Task
from untrained.workflows import contest_entrants, contest_rounds
from untrained.workflows import search as search_module
from untrained.workflows.contest_state import get_weights_path
from untrained.workflows.final_training import plan_final_training
from untrained.workflows.report import summarise_run
from untrained.workflows.search import SearchResult, run_search
from untrained.workflows.time_plan import TimePlan
from untrained.workflows.winner_export import WinnerExportOptions, train_winner


def search_images(folder: Path) -> SearchResult:
    return ut.search(
        "convnet",
        "flops",
        data=f"npz:{folder / 'images.npz'}",
        budget=6,
        limits={"params": "50k"},
        input_size=16,
        confirm=1,
        workers=1,
        run=folder / "run",
    )


@pytest.fixture(autouse=True, scope="module")
def short_trainings():
    """Let the trainings of a contest be short, although the data are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest_rounds, "ENOUGH_STEPS", (4, 12, 36))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Bright, grey and dark images."""
    folder = tmp_path_factory.mktemp("contest")
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    images = (60 + 70 * labels)[:, None, None, None] + generator.integers(-30, 30, (120, 16, 16, 3))
    np.savez(folder / "images.npz", x=images.astype(np.uint8), y=labels)
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> SearchResult:
    return search_images(folder)


def test_known_designs_compete_and_the_winner_of_the_contest_is_the_best(result):
    contest = result.contest
    assert contest is not None
    assert str(result.best) == contest.winner
    selections = [text for entry in contest.entries for text in entry.selections]
    assert any("known design" in text for text in selections)
    assert any("best by flops" in text for text in selections)
    assert all(0 < entry.params <= 50_000 for entry in contest.entries)
    assert contest.winner_number in contest.tied
    assert Contest.read(RunFolder.read(result.run.folder)) == contest


def test_a_refit_continues_with_the_weights_and_the_rate_of_the_contest(result):
    run = result.run.folder
    contest = result.contest
    trained = ut.train(run, epochs=1)
    assert trained.key.refit
    assert trained.key.start
    assert trained.key.recipe["rate"] == contest.winning_entry.rate
    assert trained.key.recipe["name"] == "photos"
    # All samples except a tenth for the test.
    assert trained.samples == {"train": 108, "test": 12}
    # The same call returns the same training, and so does the plan of `search --export`.
    assert ut.train(run).made_on == trained.made_on
    plan = plan_final_training(run, seconds=1e6)
    assert plan is not None
    assert plan.start == get_weights_path(run, contest.winner_number)
    again = ut.train(run, recipe=plan.recipe, refit=True, start=plan.start)
    assert again.made_on == trained.made_on


def test_a_recipe_of_the_user_is_another_training(result):
    ut.train(result.run.folder, epochs=1)
    with pytest.raises(AnotherTrainingError):
        ut.train(result.run.folder, recipe="quick(epochs=1)")


def test_another_contest_with_the_same_winner_replaces_the_training(result, tmp_path, monkeypatch):
    monkeypatch.setattr("untrained.workflows.final_training.MAX_EPOCHS", 1)
    monkeypatch.setattr("untrained.workflows.final_training.MAX_SMALL_DATA_EPOCHS", 1)
    run = tmp_path / "run"
    shutil.copytree(result.run.folder, run)
    options = WinnerExportOptions(
        run, tmp_path / "model", space="convnet", recipe=None, device="cpu", seconds=9.0
    )
    first = train_winner(options)
    assert train_winner(options).made_on == first.made_on
    # A longer contest leaves other weights of the same network.
    path = get_weights_path(run, result.contest.winner_number)
    weights = load_tensors(path)
    save_tensors(path, {name: 1.5 * tensor for name, tensor in weights.items()})
    second = train_winner(options)
    assert second.key.start != first.key.start
    assert second.key.arch == first.key.arch
    assert TrainingResult.read(run / "former-1").key == first.key


def test_the_same_search_reads_the_contest_again(folder, result):
    again = search_images(folder)
    assert again.contest == result.contest


def test_with_a_finished_contest_no_time_goes_into_scoring(folder, tmp_path):
    """A session scores at least one network, so a repeated search scores one more."""

    def search_in_time() -> SearchResult:
        return ut.search(
            "convnet",
            "flops",
            data=f"npz:{folder / 'images.npz'}",
            limits={"params": "50k"},
            input_size=16,
            confirm=1,
            workers=1,
            time="20s",
            run=tmp_path / "run",
        )

    first = search_in_time()
    assert first.contest is not None
    again = search_in_time()
    assert again.contest == first.contest
    assert len(again.frame()) <= len(first.frame()) + 1


def test_a_repeated_search_says_that_the_contest_is_reused(folder, result, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(result.run.folder, run)
    (run / "train.json").unlink(missing_ok=True)
    config = replace(RunFolder.read(run).config, run=run)
    plans: list[str] = []
    run_search(config, on_plan=plans.append)
    assert plans == ["the finished contest of this run is reused"]
    # With a training that follows, only this phase has time.
    plans.clear()
    time_plan = TimePlan.begin(600.0, has_contest=True, has_training=True)
    run_search(config, on_plan=plans.append, time_plan=time_plan)
    assert plans == ["the finished contest of this run is reused; the training continues"]
    # Another setting may change the contest.
    plans.clear()
    run_search(replace(config, budget=7), on_plan=plans.append)
    assert len(plans) == 1
    assert "reused" not in plans[0]


def test_the_next_of_the_ranking_replace_slow_ones_within_the_latency_limit(
    folder, tmp_path, monkeypatch
):
    def search_in_time(run: str) -> SearchResult:
        return ut.search(
            "convnet",
            "flops",
            data=f"npz:{folder / 'images.npz'}",
            budget=10,
            limits={"params": "50k", "latency": "10s"},
            input_size=16,
            confirm=1,
            workers=1,
            time="5m",
            run=tmp_path / run,
        )

    slow: set[str] = set()

    def measure_step_seconds(setup, settings, part):
        return 1e3 if setup.arch in slow else 1e-3

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    with monkeypatch.context() as patch:
        patch.setattr(search_module, "run_contest", lambda *arguments: None)
        ranking = search_in_time("ranking").ranking
    ranked = [str(standing.arch) for standing in ranking.standings]
    slow.update(ranked[:2])
    result = search_in_time("slow")
    assert [str(standing.arch) for standing in result.ranking.standings] == ranked
    contest = result.contest
    assert contest is not None
    by_score = {}
    for entry in contest.entries:
        if "best by flops" in entry.selections and not entry.is_copy:
            by_score[entry.arch] = entry
    # The best two by score are too slow, so the next two of the ranking take part.
    assert set(by_score) == set(ranked[:4])
    assert [by_score[arch].error for arch in ranked[:4]] == [TOO_SLOW, TOO_SLOW, "", ""]
    assert all(by_score[arch].rounds for arch in ranked[2:4])
    assert all(by_score[arch].latency for arch in ranked[2:4])
    assert (contest.passed_over, contest.replacements) == (2, 2)
    # The same command reads the same contest.
    assert search_in_time("slow").contest == contest


def test_confirm_is_recommended_only_if_nothing_was_trained(result, capsys, tmp_path):
    """The proxies of a consensus that hardly agree, with a contest and without one."""
    facts = {
        "label": "consensus",
        "weights": {"flops": 0.6, "swap": 0.4},
        "left_out": {},
        "agreement": 0.2,
        "explained_by_size": None,
        "reference_size": 64,
    }
    run = replace(result.run, aggregates=[facts])
    trained = replace(result, run=run)
    show_search_result(trained, tmp_path / "report.html")
    text = " ".join(capsys.readouterr().out.split())
    assert "0.20 with each other, which is low. " in text
    assert "--confirm" not in text
    show_search_result(replace(trained, contest=None), tmp_path / "report.html")
    text = " ".join(capsys.readouterr().out.split())
    assert "which is low: check the ranking with --confirm." in text
    # The report says the same.
    ranked = RunRanking(result.records, result.ranking)
    assert "--confirm" not in summarise_run(run, ranked).consensus[0].description
    untrained_run = replace(run, folder=tmp_path)
    assert "--confirm" in summarise_run(untrained_run, ranked).consensus[0].description


@pytest.mark.parametrize(
    ("count", "largest"), [(1, [1]), (3, [3]), (8, [8, 7]), (40, [40, 39, 38])]
)
def test_at_most_a_quarter_of_the_networks_are_called_the_largest(count, largest):
    """The network of width w has w parameters; FLOPs prefer narrow ones."""
    measure = load_proxy("params").measure
    archs = {}
    records = []
    for width in range(1, count + 1):
        archs[width] = Arch("toy", (("width", width),), f"width={width}")
        request = ScoreRequest(archs[width], measure, Task("noise", (3, 8, 8), 10), 0)
        records.append(Record.of(request, float(width)))
    standings = []
    for width in range(1, count + 1):
        standings.append(Standing(archs[width], -float(width), None, 1, None))
    run = RunFolder("run", SearchConfig("s", "flops", confirm=3), "flops@1", True, "")
    groups = search_module._choose_contest_groups(Ranking(tuple(standings), ()), records, run)
    assert groups["params"] == [archs[width] for width in largest]
