"""A run folder holds the training of its winner; earlier trainings are moved to `former-N`."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.training.toys import write_archive
from untrained import search
from untrained.errors import UsageError
from untrained.runs.winner import read_winner
from untrained.training import folder as folder_module
from untrained.training import recipes
from untrained.training.folder import move_training_aside, read_training_key
from untrained.training.result import TrainingKey, TrainingResult
from untrained.workflows.export_subject import resolve_export_subject
from untrained.workflows.report import read_run_outcome
from untrained.workflows.train import train

SPACE = "nasbench201(channels=2)"  # a recipe may set the number of cells
ONE = "quick(epochs=1,batch=1024)"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


def search_params(run: Path, data: str, budget: int, **options: Any) -> Any:
    options = {"workers": 1, "seed": 3, "confirm": 0, **options}
    return search(f"{SPACE[:-1]},cells=1)", "params", data=data, budget=budget, run=run, **options)


def read_key(folder: Path) -> TrainingKey:
    there = read_training_key(folder)
    assert there is not None
    return there


def resolve_export(run: Path) -> Any:
    return resolve_export_subject(run, SPACE)


def test_the_training_of_a_former_winner_is_moved_aside_and_not_exported(run, data):
    search_params(run, data, 1)
    first = train(run, recipe=ONE).key.arch
    assert resolve_export(run).arch == first == str(read_winner(run).arch)
    best = str(search_params(run, data, 40).best)
    assert best != first, "a longer search finds a larger network"
    with pytest.raises(
        UsageError,
        match=rf"the training in {run} is that of an earlier winner; first run untrained train {run}",
    ):
        resolve_export(run)
    assert (
        read_run_outcome(run)["best"],
        read_run_outcome(run)["trained"],
        read_run_outcome(run)["weights"],
    ) == (
        best,
        None,
        None,
    )
    other = train(run, recipe=ONE, run=run / "other")
    assert (
        resolve_export_subject(run, SPACE, weights=run / "other" / "model.pt").arch
        == best
        == other.key.arch
    )
    assert train(run, recipe=ONE).key.arch == best == resolve_export(run).arch
    assert read_run_outcome(run)["trained"]["arch"] == best
    former = TrainingResult.read(run / "former-1")
    assert former.key.arch == first
    assert resolve_export_subject(run / "former-1", SPACE).arch == first  # it is still a training


def test_a_run_is_trained_with_its_own_seed_unless_another_is_named(run, data):
    search_params(run, data, 1)
    assert train(run, recipe=ONE).key.seed == 3
    assert train(run, recipe=ONE, seed=0, run=run / "other").key.seed == 0


def test_without_a_recipe_a_run_keeps_the_recipe_and_network_of_its_training(
    run, data, monkeypatch
):
    """The recipe `large` comes with a larger network of the space: two cells per stage."""
    monkeypatch.setattr(recipes, "RECIPES", type(recipes.RECIPES)("recipe"))
    for name, network in (("quick", ()), ("large", (("cells", 2),))):
        recipe = recipes.Recipe(epochs=1, batch=1024, rate=0.01, space_options=network, name=name)
        recipes.RECIPES.add(name, recipe)
    search(SPACE, "params", data=data, budget=1, run=run, workers=1, confirm=0)
    first = train(run, recipe="large")
    assert (first.key.space, first.key.recipe["name"]) == (
        "nasbench201(channels=2,cells=2)",
        "large",
    )
    again = train(run)
    assert (again.key, again.made_on) == (first.key, first.made_on)


def test_an_interrupted_move_continues_into_the_same_folder(run, data, monkeypatch):
    search_params(run, data, 1)
    train(run, recipe=ONE)
    move = os.replace

    def interrupt_at_train_json(path: Path, to: Path) -> None:
        if path.name == "train.json":
            raise KeyboardInterrupt
        move(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt_at_train_json)
        with pytest.raises(KeyboardInterrupt):
            move_training_aside(run)
    assert read_training_key(run) is not None
    assert move_training_aside(run) == run / "former-1"
    assert {path.name for path in (run / "former-1").iterdir()} == {"model.pt", "train.json"}


def test_an_interrupted_move_of_a_training_with_a_time_limit_continues(run, data, monkeypatch):
    """It has a checkpoint besides its result, and both say which training it is."""
    search_params(run, data, 1)
    train(run, recipe="quick(epochs=2,batch=10)", time="1ms")
    assert (run / "checkpoint.pt").is_file()
    assert (run / "train.json").is_file()
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "_FILES", folder_module._FILES[:-1])
        assert move_training_aside(run) == run / "former-1"
    assert move_training_aside(run) == run / "former-1"
    names = {path.name for path in (run / "former-1").iterdir()}
    assert names == {"model.pt", "checkpoint.pt", "train.json"}
    assert read_training_key(run) is None
    # The next training is another one, although it is moved before its first result too.
    (run / "checkpoint.pt").write_bytes((run / "former-1" / "checkpoint.pt").read_bytes())
    assert move_training_aside(run) == run / "former-2"


def test_the_training_that_estimates_the_test_result_is_moved_too(run, data):
    search_params(run, data, 1)
    first = train(run, recipe=ONE, refit="all")
    assert first.estimated_by == str(run / "estimate")
    former = move_training_aside(run)
    assert not (run / "estimate").exists()
    moved = TrainingResult.read(former)
    assert moved.estimated_by == str(former / "estimate")
    assert TrainingResult.read(moved.estimated_by).key.refit is True
    assert moved.accuracy == first.accuracy


def test_trainings_are_moved_to_numbered_folders_and_the_run_stays(run, data):
    search_params(run, data, 1)
    before = {path.name for path in run.iterdir()}
    for number, rate in enumerate((0.1, 0.2), 1):
        train(run, recipe=f"quick(epochs=1,batch=1024,rate={rate})")
        former = move_training_aside(run)
        assert (former, read_training_key(run)) == (run / f"former-{number}", None)
        assert read_key(former).recipe["rate"] == rate
        assert {path.name for path in run.iterdir() if not path.name.startswith("former")} == before
