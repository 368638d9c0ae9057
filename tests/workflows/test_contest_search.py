"""A search with a contest, from the ranking to the trained winner."""

from pathlib import Path

import numpy as np
import pytest

import untrained as ut
from untrained.reports.contest_result import Contest
from untrained.runs.folder import RunFolder
from untrained.training.result import AnotherTrainingError
from untrained.workflows.contest import get_weights_path
from untrained.workflows.final_training import plan_final_training
from untrained.workflows.search import SearchResult


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


def test_the_same_search_reads_the_contest_again(folder, result):
    again = search_images(folder)
    assert again.contest == result.contest
