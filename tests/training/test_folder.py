"""The folder of a run holds the training of its winner: whose, how and with which seed, and who makes room for whom."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.training.toys import archive
from untrained import search
from untrained.errors import UsageError
from untrained.runs.winner import read_winner
from untrained.training import recipes
from untrained.training.folder import move_training_aside, read_training_key
from untrained.training.result import TrainingKey, TrainingResult
from untrained.workflows.export_subject import resolve_export_subject
from untrained.workflows.report import outcome
from untrained.workflows.train import train

SPACE = "nasbench201(channels=2)"  # cells are left for a recipe to choose
ONE = "quick(epochs=1,batch=1024)"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return archive(tmp_path)


def find(run: Path, data: str, budget: int, **options: Any) -> Any:
    options = {"workers": 1, "seed": 3, **options}
    return search(f"{SPACE[:-1]},cells=1)", "params", data=data, budget=budget, run=run, **options)


def asked(folder: Path) -> TrainingKey:
    there = read_training_key(folder)
    assert there is not None
    return there


def exported(run: Path) -> Any:
    return resolve_export_subject(run, SPACE)


def test_a_former_winner_makes_room_and_is_never_exported_as_the_best(run, data):
    find(run, data, 1)
    first = train(run, recipe=ONE).key.arch
    assert exported(run).arch == first == str(read_winner(run).arch)
    best = str(find(run, data, 40).best)
    assert best != first, "a longer search finds a larger network"
    with pytest.raises(
        UsageError,
        match=rf"the training in {run} is of an earlier winner; first run untrained train {run}",
    ):
        exported(run)
    assert (outcome(run)["best"], outcome(run)["trained"], outcome(run)["weights"]) == (
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
    assert train(run, recipe=ONE).key.arch == best == exported(run).arch
    assert outcome(run)["trained"]["arch"] == best
    former = TrainingResult.read(run / "former-1")
    assert former.key.arch == first
    assert resolve_export_subject(run / "former-1", SPACE).arch == first  # it is still a training


def test_a_run_is_trained_with_its_own_seed_unless_another_is_named(run, data):
    find(run, data, 1)
    assert train(run, recipe=ONE).key.seed == 3
    assert train(run, recipe=ONE, seed=0, run=run / "other").key.seed == 0


def test_without_a_recipe_a_run_keeps_the_one_that_it_was_trained_by_and_its_network(
    run, data, monkeypatch
):
    """One that was published for a larger network of the space: here, of two cells a stage."""
    monkeypatch.setattr(recipes, "RECIPES", type(recipes.RECIPES)("recipe"))
    for name, network in (("quick", ()), ("large", (("cells", 2),))):
        recipe = recipes.Recipe(epochs=1, batch=1024, rate=0.01, space_options=network, name=name)
        recipes.RECIPES.add(name, recipe)
    search(SPACE, "params", data=data, budget=1, run=run, workers=1)
    first = train(run, recipe="large")
    assert (first.key.space, first.key.recipe["name"]) == (
        "nasbench201(channels=2,cells=2)",
        "large",
    )
    again = train(run)
    assert (again.key, again.made_on) == (first.key, first.made_on)


def test_whoever_is_killed_while_setting_aside_goes_on_into_the_same_folder(run, data, monkeypatch):
    find(run, data, 1)
    train(run, recipe=ONE)
    move = os.replace

    def killed(path: Path, to: Path) -> None:
        if path.name == "train.json":
            raise KeyboardInterrupt
        move(path, to)

    with monkeypatch.context() as dying:
        dying.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            move_training_aside(run)
    assert read_training_key(run) is not None
    assert move_training_aside(run) == run / "former-1"
    assert {path.name for path in (run / "former-1").iterdir()} == {"model.pt", "train.json"}


def test_setting_aside_leaves_the_run_and_numbers_what_it_moves(run, data):
    find(run, data, 1)
    before = {path.name for path in run.iterdir()}
    for number, rate in enumerate((0.1, 0.2), 1):
        train(run, recipe=f"quick(epochs=1,batch=1024,rate={rate})")
        former = move_training_aside(run)
        assert (former, read_training_key(run)) == (run / f"former-{number}", None)
        assert asked(former).recipe["rate"] == rate
        assert {path.name for path in run.iterdir() if not path.name.startswith("former")} == before
