"""Trainings of candidates and hand-made networks on a table: the winner, the parts that are read, the comparison."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from untrained import Arch, Task, export, report, search, train
from untrained.config import ComputeConfig, SearchConfig
from untrained.data import load_data
from untrained.data.tables.source import TablePart
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.reports.confirmation_result import Confirmation, DesignResult, describe_comparison
from untrained.runs.folder import RunFolder
from untrained.runs.winner import read_winner
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.training.boosting import BOOSTING, NOT_EXPORTED
from untrained.training.ctr_designs import CTR_DESIGNS, list_ctr_designs
from untrained.training.evaluation import DivergedError
from untrained.training.folder import move_training_aside
from untrained.training.loop import Training
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingResult
from untrained.workflows import confirm, design_trials
from untrained.workflows.design_limits import describe_violation, measure_design
from untrained.workflows.design_trials import (
    TableTrainer,
    choose_by_validation,
    shorten_recipe,
    thin_part,
)
from untrained.workflows.report import read_run_outcome

SMALL = "nasrec_small(blocks=1)"
DATA = "clicks:rows=600"
SOURCE = load_data(DATA, Task("any", (1,), 1))
SAME: tuple[Any, ...] = (DATA, SOURCE, 0, ComputeConfig())


@pytest.fixture
def archs() -> list[Arch]:
    draws = make_generator("references")
    return [load_space(SMALL).sample(draws) for _ in range(3)]


@pytest.fixture
def read_parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of every part of the table that is read."""
    passes = []
    batches = TablePart.batches

    def count_batches(self: TablePart, size: int, order: torch.Generator | None = None) -> Any:
        passes.extend(
            name for name, part in SOURCE.parts.items() if np.array_equal(self.values, part.values)
        )
        return batches(self, size, order)

    monkeypatch.setattr(TablePart, "batches", count_batches)
    return passes


def test_candidates_are_validated_like_a_training(archs, tmp_path, read_parts):
    results = TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs[:2])
    assert read_parts == 2 * 5 * ["train", "val"]
    whole = train(archs[0], DATA, space=load_space(SMALL), run=tmp_path / "a")
    assert results[archs[0]] == {name: whole.best[name] for name in ("loss", "auc")}


def test_finished_trainings_are_stored_and_the_others_continue_after_ctrl_c(
    archs, tmp_path, monkeypatch
):
    run = Training.run
    calls = []

    def interrupt_second(self: Training, **options: Any) -> str:
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(self, **options)

    monkeypatch.setattr(Training, "run", interrupt_second)
    with pytest.raises(
        Interrupted,
        match=r"stopped by Ctrl-C; finished trainings are in .*the same command resumes",
    ):
        TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs)
    assert len(json.loads((tmp_path / design_trials.TRAININGS_FILE).read_text())) == 1
    first = TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs)
    assert (len(first), len(calls)) == (3, 4)
    assert TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs) == first
    assert len(calls) == 4, "nothing is trained twice"
    TableTrainer(SMALL, DATA, SOURCE, 1, ComputeConfig(), tmp_path).train_candidates(archs[:1])
    assert len(calls) == 5, "another seed is another training"


@pytest.mark.parametrize(
    ("error", "stored"), [(DivergedError("no number"), 2), (MemoryError("out of memory"), 1)]
)
def test_a_diverged_training_is_stored_and_a_failure_of_the_machine_is_repeated(
    archs, tmp_path, monkeypatch, error, stored
):
    run = Training.run
    calls = []

    def fail_first(self: Training, **options: Any) -> str:
        calls.append(self)
        if len(calls) == 1:
            raise error
        return run(self, **options)

    monkeypatch.setattr(Training, "run", fail_first)
    assert list(TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs[:2])) == archs[1:2]
    assert len(json.loads((tmp_path / design_trials.TRAININGS_FILE).read_text())) == stored
    TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs[:2])
    assert len(calls) == 4 - stored


def test_a_training_over_the_time_limit_is_repeated(archs, tmp_path):
    assert (
        TableTrainer(
            SMALL, DATA, SOURCE, 0, ComputeConfig(time_limit="1ms"), tmp_path
        ).train_candidates(archs[:1])
        == {}
    )
    assert not (tmp_path / design_trials.TRAININGS_FILE).exists()
    assert list(TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs[:1])) == archs[:1]


def test_the_winner_and_the_references_are_compared_on_the_test_part(archs, tmp_path, read_parts):
    winner, *others = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    assert [entry.name for entry in others] == list_ctr_designs(SOURCE.task)
    # Each network is evaluated once, and then compared row by row.
    assert read_parts.count("test") == 2 * 5
    assert read_parts.index("val") < read_parts.index("test")
    ours = TrainingResult.read(tmp_path)
    dlrm = TrainingResult.read(tmp_path / "references" / "dlrm")
    theirs = next(entry for entry in others if entry.name == "dlrm")
    assert (winner.loss, winner.quality, winner.val_loss) == (
        ours.loss,
        ours.auc,
        ours.best["loss"],
    )
    assert (theirs.loss, theirs.quality, theirs.params) == (dlrm.loss, dlrm.auc, dlrm.params)
    assert (winner.excess_loss, winner.margin) == (None, None)
    assert theirs.excess_loss == pytest.approx(dlrm.loss - ours.loss)
    model = CTR_DESIGNS["dlrm"](SOURCE.task)
    model.load_state_dict(
        torch.load(tmp_path / "references" / "dlrm" / "model.pt", weights_only=True)
    )
    (batch,) = SOURCE.parts["test"].batches(1000)
    y = batch.targets.double()
    z = model(batch.inputs).flatten().detach().double()
    network = load_space(SMALL).build(archs[0], SOURCE.task)
    network.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    x = network.eval()(batch.inputs).flatten().detach().double()
    differences = torch.where(
        y > 0, x.sigmoid().log() - z.sigmoid().log(), (-x).sigmoid().log() - (-z).sigmoid().log()
    )
    assert theirs.margin == pytest.approx(1.96 * float(differences.std()) / 60**0.5, rel=1e-4)
    assert TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0]) == (
        winner,
        *others,
    )


def test_only_the_named_references_are_trained(archs, tmp_path):
    winner, logistic = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(
        archs[0], ["logistic"]
    )
    assert (winner.name, logistic.name) == ("found", "logistic")
    assert [path.name for path in (tmp_path / "references").iterdir()] == ["logistic"]


def test_a_candidate_that_has_no_time_is_stopped_and_trained_later(archs, tmp_path):
    """The progress counts only networks that were trained, and the reason says why others were not."""
    events: list[Any] = []
    trainer = TableTrainer(SMALL, *SAME, tmp_path, events.append)
    trainings = trainer.train_candidates_within(archs[:2], 0.0)
    assert trainings.metrics == {}
    assert trainings.reasons == dict.fromkeys(archs[:2], "stopped by the time limit")
    assert (events[-1].done, events[-1].total) == (0, 2)
    later = trainer.train_candidates_within(archs[:2], 300.0)
    assert list(later.metrics) == archs[:2]
    assert later.reasons == {}
    assert (events[-1].done, events[-1].total) == (2, 2)


def test_all_candidates_have_as_many_epochs_as_there_is_time_for(archs, tmp_path, monkeypatch):
    """A network that is much slower than the first one is stopped. A repeated search trains nothing."""
    clock = {"now": 0.0}
    trained: list[tuple[str, int]] = []

    def train_slowly(
        setup: Any, recipe: Any, parts: Any, seed: Any, compute: Any, seconds: float
    ) -> dict[str, float]:
        needed = 10.0 * recipe.epochs
        if setup.name == str(archs[2]):
            needed *= 5
        clock["now"] += min(needed, seconds)
        trained.append((setup.name, recipe.epochs))
        if needed > seconds:
            raise Unscorable("timeout", "stopped by the time limit")
        return {"loss": 0.5, "auc": 0.7}

    monkeypatch.setattr(design_trials, "perf_counter", lambda: clock["now"])
    monkeypatch.setattr(design_trials, "_train_and_validate", train_slowly)
    trainer = TableTrainer(SMALL, *SAME, tmp_path)
    trainings = trainer.train_candidates_within(archs[:3], 120.0)
    assert trainings.epochs == 3, "40 s for each of them, and an epoch takes 10 s"
    assert list(trainings.metrics) == archs[:2]
    assert trainings.reasons == {archs[2]: "stopped by the time limit"}
    trained.clear()
    again = trainer.train_candidates_within(archs[:3], 100.0)
    assert trained == [(str(archs[2]), 3)]
    assert list(again.metrics) == archs[:2]


def test_progress_is_reported_for_every_step(archs, tmp_path):
    """A long training must not be silent."""
    events: list[Any] = []
    TableTrainer(SMALL, *SAME, tmp_path, events.append).compare_with_designs(archs[0], ["logistic"])
    epochs = len(TrainingResult.read(tmp_path).curve)
    for stage in (design_trials.DESIGNS_STAGE, design_trials.BEST_STAGE):
        done = [event.done for event in events if event.stage == stage]
        assert done == sorted(done)
        assert (done.count(0) > epochs, done.count(1)) == (True, 1)
    assert {event.total for event in events} == {1}


def test_the_winner_is_trained_on_data_from_the_folder_of_the_search(tmp_path, monkeypatch):
    """The encoded table is written below the data root of the search, and nowhere else."""

    def skip_boosting(source: Any, seconds: float | None) -> Any:
        raise Unscorable("unsupported", "not in this test")

    monkeypatch.setattr(design_trials, "train_boosting", skip_boosting)
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: ["logistic"])
    monkeypatch.setattr(design_trials, "list_learning_rates", lambda recipe: [])
    monkeypatch.setattr(TableTrainer, "recipe", load_recipe("ctr(epochs=1)"))
    monkeypatch.setenv("UNTRAINED_DATA", str(tmp_path / "default"))
    rows = [f"{i % 2},{i % 7},{i % 5}" for i in range(300)]
    (tmp_path / "table.csv").write_text("\n".join(["label,x,y", *rows]) + "\n")
    result = search(
        "mlp",
        "params",
        data=f"csv:{tmp_path / 'table.csv'}",
        budget=1,
        confirm=1,
        workers=1,
        run=tmp_path / "run",
        data_root=tmp_path / "root",
    )
    assert result.confirmation is not None
    trained = {entry.name for entry in result.confirmation.entries if not entry.error}
    assert {"found", "logistic"} <= trained
    assert (tmp_path / "root").is_dir()
    assert not (tmp_path / "default").exists()


def test_the_training_of_a_former_winner_is_moved_aside(archs, tmp_path, monkeypatch):
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: [])
    (first,) = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    (other,) = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[1])
    assert TrainingResult.read(tmp_path).loss == other.loss != first.loss
    assert TrainingResult.read(tmp_path / "former-1").loss == first.loss


def test_a_training_that_was_moved_aside_is_not_repeated(archs, tmp_path, monkeypatch):
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: [])
    (first,) = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    move_training_aside(tmp_path)
    train(archs[0], DATA, "ctr(epochs=1)", space=load_space(SMALL), run=tmp_path)
    monkeypatch.setattr(Training, "train_step", None)
    assert TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0]) == (first,)


def test_a_training_with_another_recipe_is_not_moved(archs, tmp_path, monkeypatch):
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: [])
    theirs = train(archs[0], DATA, "ctr(epochs=1)", space=load_space(SMALL), run=tmp_path)
    (result,) = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    assert TrainingResult.read(tmp_path).loss == theirs.loss
    (ours,) = (tmp_path / "references").iterdir()
    assert TrainingResult.read(ours).loss == result.loss != theirs.loss


def test_a_reference_that_diverges_has_an_error_and_no_values(archs, tmp_path, monkeypatch):
    class Wild(CTR_DESIGNS["logistic"]):  # type: ignore[misc]
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return super().forward(rows) + torch.nan

    monkeypatch.setitem(CTR_DESIGNS, "wild", Wild)
    trainer = TableTrainer(SMALL, *SAME, tmp_path)
    winner, wild = trainer.compare_with_designs(archs[0], ["wild"])
    assert winner.loss is not None
    assert (wild.loss, wild.excess_loss) == (None, None)
    assert "the training diverged" in wild.error
    assert describe_comparison((winner, wild)) == ""


def test_ctrl_c_in_a_reference_training_is_not_a_failure(archs, tmp_path, monkeypatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "train_step", interrupt)
    with pytest.raises(Interrupted, match="stopped by Ctrl-C; finished trainings are in"):
        TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])


def test_validation_selects_the_rate_of_each_network(archs, tmp_path, read_parts, monkeypatch):
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: ["dlrm"])
    entries = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    trainings = json.loads((tmp_path / design_trials.TRAININGS_FILE).read_text())
    assert len(trainings) == 2 * 3, "three rates for each"
    assert read_parts.index("test") > 3 * 5 * 2, "rates are selected before the test part is read"
    for name, entry in zip((str(archs[0]), "dlrm"), entries, strict=True):
        losses = {
            key.partition(" ")[0]: metrics["loss"]
            for key, metrics in trainings.items()
            if f" {name} " in key
        }
        best = min(losses, key=lambda label: losses[label])
        assert entry.rate == load_recipe(best).rate
        assert entry.val_loss == losses[best], (
            "the table is small, so the short training was the whole one"
        )
    assert TrainingResult.read(tmp_path).key.recipe["rate"] == entries[0].rate


def test_a_rate_that_diverges_is_not_selected(archs, tmp_path, monkeypatch):
    train_and_validate = design_trials._train_and_validate

    def diverge_at_high_rates(setup: Any, recipe: Any, *rest: Any) -> dict[str, float]:
        if recipe.rate >= 0.12:
            raise DivergedError("no number")
        return train_and_validate(setup, recipe, *rest)

    monkeypatch.setattr(design_trials, "_train_and_validate", diverge_at_high_rates)
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: [])
    (result,) = TableTrainer(SMALL, *SAME, tmp_path).compare_with_designs(archs[0])
    assert result.rate == pytest.approx(0.04)


def test_the_comparison_says_which_differences_are_significant():
    winner = DesignResult("found", 1, 0.5, 0.7, 0.5, 0.7)
    entries = [
        replace(winner, name=name, excess_loss=b, margin=0.01)
        for name, b in (("a", 0.02), ("b", 0.005), ("c", -0.03))
    ]
    assert describe_comparison((winner, *entries)) == (
        "On the test data, the winner has a lower log loss than a (by 0.0200 \u00b1 0.0100); it does "
        "not differ significantly from b (difference 0.0050 \u00b1 0.0100); it has a higher log loss "
        "than c (by 0.0300 \u00b1 0.0100)."
    )


def test_rows_of_a_large_table_are_thinned_out_evenly(monkeypatch):
    monkeypatch.setattr(design_trials, "MAX_ROWS_SEEN", 100)
    part = TablePart(np.arange(500, dtype=np.float32).reshape(250, 2))
    assert [int(row[0]) for row in thin_part(part).values] == list(range(0, 500, 6))
    assert len(thin_part(TablePart(part.values[:100]))) == 100


def test_the_number_of_epochs_falls_with_the_number_of_rows():
    """At most 100,000 rows in total and no more epochs than the recipe has; the rate rises for a tenth of the steps."""
    assert [shorten_recipe(rows).epochs for rows in (480, 20_000, 33_000, 50_001, 100_000)] == [
        5,
        5,
        3,
        1,
        1,
    ]
    assert [shorten_recipe(rows).warm_up for rows in (480, 33_000, 100_000)] == pytest.approx(
        [0.5, 0.3, 0.1]
    )


def test_candidates_of_a_large_table_are_trained_with_the_shorter_recipe(
    archs, tmp_path, read_parts, monkeypatch
):
    monkeypatch.setattr(
        design_trials, "MAX_ROWS_SEEN", 1000
    )  # the table has 480 rows to learn from
    assert len(TableTrainer(SMALL, *SAME, tmp_path).train_candidates(archs[:1])) == 1
    assert read_parts == 2 * ["train", "val"]


def test_a_search_on_a_table_confirms_trains_and_compares(tmp_path, monkeypatch):
    """The winner has the lowest log loss, and everything is on one page."""
    monkeypatch.chdir(tmp_path)
    # On so few rows, a hand-designed network may win by chance.
    monkeypatch.setattr(confirm, "choose_by_validation", lambda *_: "found")
    options: dict[str, Any] = {"budget": 5, "data": DATA, "run": "run", "workers": 1, "confirm": 2}
    result = search(SMALL, "sigeo(samples=16)", **options)
    confirmation = result.confirmation
    assert confirmation is not None
    results = json.loads(Path("run", design_trials.TRAININGS_FILE).read_text())
    losses = {
        key: metrics["loss"] for key, metrics in results.items() if key.startswith("ctr nasrec")
    }
    assert confirmation.best_arch in min(losses, key=lambda key: losses[key])
    assert str(result.best) == confirmation.best_arch == TrainingResult.read("run").key.arch
    assert [entry.name for entry in confirmation.entries] == [
        "found",
        *list_ctr_designs(SOURCE.task),
        BOOSTING,
    ]
    assert Confirmation.read(RunFolder.read("run")) == confirmation
    monkeypatch.setattr(Training, "train_step", None)
    assert search(SMALL, "sigeo(samples=16)", **options).confirmation.groups == confirmation.groups
    assert train("run").auc == confirmation.entries[0].quality, "the winner is trained already"
    page = report("run").read_text()
    parts = ("Training", "Learning curves", "Calibration", "Contest: short trainings", "logistic",
             "Contest: comparison with hand-designed networks", "the lowest log loss on the validation data")  # fmt: skip
    assert all(part in page for part in parts)
    assert "On the test data, the winner" in page
    assert f"{BOOSTING}, cannot win: {NOT_EXPORTED}" in page
    assert f"{BOOSTING} (" in " ".join(confirmation.sentences)


FIRST_LOSSES = {"logistic": 0.3, "dlrm": 0.1}  # those of found networks are 0.2
SEARCH: dict[str, Any] = {
    "proxy": "params",
    "budget": 3,
    "data": DATA,
    "run": "run",
    "workers": 1,
    "confirm": 1,
}


@pytest.fixture
def fake_losses(tmp_path, monkeypatch) -> dict[str, float]:
    """Return the validation losses of full trainings, which tests may change; 0.2 for others."""
    losses = dict(FIRST_LOSSES)
    real_train = design_trials.train

    def train_with_fake_loss(network: Any, *arguments: Any, **options: Any) -> TrainingResult:
        result = real_train(network, *arguments, **options)
        loss = losses.get(result.key.arch, 0.2)
        return replace(result, best={**result.best, "loss": loss})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(design_trials, "train", train_with_fake_loss)
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: list(FIRST_LOSSES))
    return losses


def test_a_hand_designed_network_that_wins_on_validation_is_delivered(fake_losses, monkeypatch):
    result = search(SMALL, **SEARCH)
    confirmation = result.confirmation
    assert confirmation is not None
    assert (confirmation.winning_design, result.winner_name) == ("dlrm", "dlrm")
    assert str(result.best) == confirmation.best_arch
    assert read_winner("run").name == "dlrm"
    assert Confirmation.read(RunFolder.read("run")) == confirmation
    found, _, dlrm, boosting = confirmation.entries
    assert (boosting.name, boosting.error) == (BOOSTING, "")
    assert boosting.excess_loss == pytest.approx(boosting.loss - dlrm.loss)
    assert boosting.violation == NOT_EXPORTED
    assert (dlrm.excess_loss, dlrm.val_loss) == (None, 0.1)
    assert found.excess_loss == pytest.approx(found.loss - dlrm.loss)
    assert "dlrm, a hand-designed network" in repr(result)
    assert "log loss on the validation data, 0.1000 instead of the 0.2000" in repr(result)

    # The run folder has its training, as a user would read it, and keeps that of the found network.
    trained = TrainingResult.read("run/references/dlrm")
    assert replace(TrainingResult.read("run"), folder=trained.folder) == trained
    assert TrainingResult.read("run/former-1").key.arch == confirmation.best_arch
    monkeypatch.setattr(Training, "train_step", None)
    again = train("run")
    assert (again.key.arch, again.loss) == ("dlrm", trained.loss)
    inputs = SOURCE.batch(8).inputs
    assert again.model is not None
    network = CTR_DESIGNS["dlrm"](SOURCE.task).eval()
    network.load_state_dict(torch.load("run/references/dlrm/model.pt", weights_only=True))
    assert torch.equal(again.model(inputs), network(inputs))
    page = report("run").read_text()
    assert "The winner is dlrm, a hand-designed network. Test log loss" in page
    assert "<b>dlrm</b>, the winner" in page
    assert "Earlier training" not in page
    outcome = read_run_outcome("run")
    assert (outcome["best"], outcome["winner"]) == (confirmation.best_arch, "dlrm")
    assert outcome["trained"]["loss"] == trained.loss

    # The same search trains nothing again. If the found network wins, it returns to the run folder.
    assert search(SMALL, **SEARCH).winner_name == "dlrm"
    fake_losses["dlrm"] = 0.4
    result = search(SMALL, **SEARCH)
    assert result.winner_name == str(result.best) == TrainingResult.read("run").key.arch
    assert (
        train("run").loss == TrainingResult.read("run").loss == result.confirmation.entries[0].loss
    )


def test_a_hand_designed_network_over_a_limit_cannot_win(fake_losses):
    result = search(SMALL, limits={"params": "10k"}, **SEARCH)
    assert result.confirmation.winning_design == ""
    size = sum(weight.numel() for weight in CTR_DESIGNS["dlrm"](SOURCE.task).parameters())
    dlrm = result.confirmation.entries[2]
    assert (dlrm.limit_values, dlrm.val_loss) == ({"max_params": size}, 0.1)
    assert dlrm.violation == f"{size / 1000:.1f} k parameters, over the limit 10k"
    assert f"dlrm, cannot win: {dlrm.violation}" in report("run").read_text()
    # Logistic regression is within the limit.
    fake_losses["logistic"] = 0.15
    result = search(SMALL, limits={"params": "10k"}, **SEARCH)
    assert result.winner_name == "logistic"
    size = sum(weight.numel() for weight in CTR_DESIGNS["logistic"](SOURCE.task).parameters())
    (limit,) = result.run.limit_results
    assert (limit["limit"], limit["value"]) == ("max_params", size)


@pytest.mark.parametrize(
    ("limits", "violation"),
    [
        ({}, ""),
        ({"params": "1k", "min_params": "100", "flops": "1M", "memory": "1MB"}, ""),
        ({"min_params": "1k"}, "199 parameters, below the limit 1k"),
        ({"memory": "100B"}, "over the limit 100B"),
        ({"latency": "0.0001ms"}, "over the limit 0.0001ms"),
        ({"latency": "10s"}, ""),
    ],
)
def test_all_limits_of_the_search_hold_for_hand_designed_networks(limits, violation):
    config = SearchConfig(data=DATA, limits=limits)
    values = measure_design("logistic", SOURCE.task, config, [])
    assert set(values) == set(config.limit_texts)
    text = describe_violation(values, config.limit_texts)
    assert text.endswith(violation) if violation else text == ""


def test_latencies_of_another_device_are_unknown():
    config = SearchConfig(data=DATA, limits={"latency": "10s"}, latency_table="pi.csv")
    values = measure_design("logistic", SOURCE.task, config, [])
    assert values == {"max_latency": None}
    text = describe_violation(values, config.limit_texts)
    assert text == "its value for --max-latency 10s is unknown"


def test_the_lowest_validation_loss_wins_and_the_first_of_equal_ones(archs, tmp_path):
    trainer = TableTrainer(SMALL, *SAME, tmp_path)
    (training,) = trainer.train_with_designs(archs[0], []).values()
    assert isinstance(training, TrainingResult)

    def choose(excluded: tuple[str, ...] = (), **losses: float | str) -> str:
        outcomes: dict[str, TrainingResult | str] = {}
        for name, loss in losses.items():
            if isinstance(loss, str):
                outcomes[name] = loss
            else:
                outcomes[name] = replace(training, best={"loss": loss})
        return choose_by_validation(outcomes, excluded)

    assert choose(found=0.5, logistic=0.6, dlrm=0.4) == "dlrm"
    assert choose(found=0.5, logistic=0.5) == "found"
    assert choose(("dlrm",), found=0.5, logistic=0.45, dlrm=0.4) == "logistic"
    assert choose(found="diverged", logistic=0.6) == "logistic"
    assert choose(found="diverged", logistic="diverged") == "found"


def test_a_comparison_that_was_stopped_is_resumed(fake_losses, monkeypatch):
    faked_train = design_trials.train

    def stop_at_dlrm(network: Any, *arguments: Any, **options: Any) -> TrainingResult:
        if str(network) == "dlrm":
            raise Interrupted("stopped by Ctrl-C")
        return faked_train(network, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(design_trials, "train", stop_at_dlrm)
        stopped = search(SMALL, **SEARCH)
    assert stopped.run.end_reason == "interrupted"
    assert read_winner("run").winning_design == "", "the comparison has not been finished"

    # The process dies while the training of the winner replaces that of the found network.
    def die_while_moving(folder: Path) -> None:
        (folder / "former-1").mkdir()
        (folder / "model.pt").rename(folder / "former-1" / "model.pt")
        raise MemoryError

    def die_while_copying(source: Path, target: Path) -> None:
        shutil.copyfile(source / "model.pt", target / "model.pt")
        raise MemoryError

    for name, die in (
        ("move_training_aside", die_while_moving),
        ("copy_training", die_while_copying),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(design_trials, name, die)
            with pytest.raises(MemoryError):
                search(SMALL, **SEARCH)
    monkeypatch.setattr(Training, "train_step", None)
    result = search(SMALL, **SEARCH)
    assert (result.winner_name, TrainingResult.read("run").key.arch) == ("dlrm", "dlrm")
    assert TrainingResult.read("run/former-1").key.arch == str(result.best)
    assert all(entry.error == "" for entry in result.confirmation.entries)


def test_a_confirmation_of_an_earlier_version_is_read(fake_losses):
    search(SMALL, **SEARCH)
    facts = json.loads(Path("run", "confirmed.json").read_text())
    del facts["reference"]
    for entry in facts["entries"]:
        del entry["violation"]
        del entry["limit_values"]
    facts["entries"][0]["name"] = "winner"
    Path("run", "confirmed.json").write_text(json.dumps(facts))
    confirmation = Confirmation.read(RunFolder.read("run"))
    assert confirmation is not None
    assert confirmation.winner_name == confirmation.best_arch == facts["winner"]
    assert "winner" in report("run").read_text()
    winner = read_winner("run")
    assert (winner.name, winner.winning_design) == (facts["winner"], "")


def test_a_run_folder_cannot_name_a_file_as_its_winner(fake_losses, tmp_path):
    Path("evil.py").write_text("raise SystemExit('the file was run')")
    search(SMALL, **SEARCH)
    facts = json.loads(Path("run", "confirmed.json").read_text())
    facts["reference"] = "./evil.py:make"
    Path("run", "confirmed.json").write_text(json.dumps(facts))
    for use in (train, lambda run: export(run, "model", weights="run/model.pt")):
        with pytest.raises(UsageError, match=r"network for tables.*evil"):
            use("run")


def test_a_hand_designed_network_is_trained_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = train("dlrm", DATA, "ctr(epochs=1)")
    assert result.params == sum(w.numel() for w in CTR_DESIGNS["dlrm"](SOURCE.task).parameters())
    assert Path(result.folder).name.startswith("train-dlrm")
    assert train("dlrm", DATA, "ctr(epochs=1)").loss == result.loss
    with pytest.raises(UsageError, match="dlrm reads the rows of a table"):
        train("dlrm", "digits", input_shape=(3, 32, 32))
    with pytest.raises(UsageError, match="for a network for tables use --data csv:PATH"):
        train("dlrm", "digits")
