"""Candidates and hand-made networks on a table: who wins, what is read when, and what is said of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from untrained import Arch, Task, report, search, train
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.data.tables.source import TablePart
from untrained.errors import UsageError
from untrained.reports.confirmation_result import Confirmation, ReferenceResult, describe_references
from untrained.runs.folder import RunFolder
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.training.ctr_references import REFERENCES
from untrained.training.evaluation import DivergedError
from untrained.training.folder import move_training_aside
from untrained.training.loop import Training
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingResult
from untrained.workflows import references
from untrained.workflows.references import TrainingTrials, shorten_recipe, thin_part

SMALL, DATA = "nasrec_small(blocks=1)", "clicks:rows=600"
SOURCE = load_data(DATA, Task("any", (1,), 1))
SAME: tuple[Any, ...] = (DATA, SOURCE, 0, ComputeConfig())


@pytest.fixture
def archs() -> list[Arch]:
    draws = make_generator("references")
    return [load_space(SMALL).sample(draws) for _ in range(3)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts of the table in the order in which they are read."""
    passes, batches = [], TablePart.batches

    def count_batches(self: TablePart, size: int, order: torch.Generator | None = None) -> Any:
        passes.extend(
            name for name, part in SOURCE.parts.items() if np.array_equal(self.values, part.values)
        )
        return batches(self, size, order)

    monkeypatch.setattr(TablePart, "batches", count_batches)
    return passes


def test_candidates_are_judged_on_the_val_part_alone_as_a_training_judges_them(
    archs, tmp_path, read
):
    found = TrainingTrials(SMALL, *SAME, tmp_path).validate(archs[:2])
    assert read == 2 * 5 * ["train", "val"]
    whole = train(archs[0], DATA, space=load_space(SMALL), run=tmp_path / "a")
    assert found[archs[0]] == {name: whole.best[name] for name in ("loss", "auc")}


def test_what_was_trained_is_known_and_the_rest_goes_on_after_ctrl_c(archs, tmp_path, monkeypatch):
    run, calls = Training.run, []

    def stopped(self: Training, **options: Any) -> str:
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(self, **options)

    monkeypatch.setattr(Training, "run", stopped)
    with pytest.raises(
        UsageError, match=r"stopped by Ctrl-C; finished trainings are in .*the same command resumes"
    ):
        TrainingTrials(SMALL, *SAME, tmp_path).validate(archs)
    assert len(json.loads((tmp_path / references.TRAININGS).read_text())) == 1
    first = TrainingTrials(SMALL, *SAME, tmp_path).validate(archs)
    assert (len(first), len(calls)) == (3, 4)
    assert TrainingTrials(SMALL, *SAME, tmp_path).validate(archs) == first
    assert len(calls) == 4, "nothing is trained twice"
    TrainingTrials(SMALL, DATA, SOURCE, 1, ComputeConfig(), tmp_path).validate(archs[:1])
    assert len(calls) == 5, "another seed is another training"


@pytest.mark.parametrize(
    ("error", "kept"), [(DivergedError("no number"), 2), (MemoryError("out of memory"), 1)]
)
def test_a_failed_training_is_left_out_and_one_of_the_machine_is_asked_again(
    archs, tmp_path, monkeypatch, error, kept
):
    run, calls = Training.run, []

    def failing(self: Training, **options: Any) -> str:
        calls.append(self)
        if len(calls) == 1:
            raise error
        return run(self, **options)

    monkeypatch.setattr(Training, "run", failing)
    assert list(TrainingTrials(SMALL, *SAME, tmp_path).validate(archs[:2])) == archs[1:2]
    assert len(json.loads((tmp_path / references.TRAININGS).read_text())) == kept
    TrainingTrials(SMALL, *SAME, tmp_path).validate(archs[:2])
    assert len(calls) == 4 - kept


def test_what_takes_too_long_is_asked_again(archs, tmp_path):
    assert (
        TrainingTrials(SMALL, DATA, SOURCE, 0, ComputeConfig(time_limit="1ms"), tmp_path).validate(
            archs[:1]
        )
        == {}
    )
    assert not (tmp_path / references.TRAININGS).exists()
    assert list(TrainingTrials(SMALL, *SAME, tmp_path).validate(archs[:1])) == archs[:1]


def test_the_winner_and_the_references_read_the_test_part_and_are_compared_row_by_row(
    archs, tmp_path, read
):
    found, *others = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    assert [entry.name for entry in others] == list(REFERENCES)
    assert (
        read.count("test") == 2 * 5
    )  # each is judged once; then the rows of weights that are chosen are compared
    assert read.index("val") < read.index("test")
    ours, dlrm = (
        TrainingResult.read(tmp_path),
        TrainingResult.read(tmp_path / "references" / "dlrm"),
    )
    theirs = next(entry for entry in others if entry.name == "dlrm")
    assert (found.loss, found.auc, found.val_loss) == (ours.loss, ours.auc, ours.best["loss"])
    assert (theirs.loss, theirs.auc, theirs.params) == (dlrm.loss, dlrm.auc, dlrm.params)
    assert (found.excess_loss, found.margin) == (None, None)
    assert theirs.excess_loss == pytest.approx(dlrm.loss - ours.loss)
    model = REFERENCES["dlrm"](SOURCE.task)
    model.load_state_dict(
        torch.load(tmp_path / "references" / "dlrm" / "model.pt", weights_only=True)
    )
    (batch,) = SOURCE.parts["test"].batches(1000)
    y, z = batch.targets.double(), model(batch.inputs).flatten().detach().double()
    network = load_space(SMALL).build(archs[0], SOURCE.task)
    network.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    x = network.eval()(batch.inputs).flatten().detach().double()
    apart = torch.where(
        y > 0, x.sigmoid().log() - z.sigmoid().log(), (-x).sigmoid().log() - (-z).sigmoid().log()
    )
    assert theirs.margin == pytest.approx(1.96 * float(apart.std()) / 60**0.5, rel=1e-4)
    assert TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0]) == (
        found,
        *others,
    )


def test_references_that_nobody_asks_for_are_not_trained(archs, tmp_path):
    found, logistic = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(
        archs[0], ["logistic"]
    )
    assert (found.name, logistic.name) == ("winner", "logistic")
    assert [path.name for path in (tmp_path / "references").iterdir()] == ["logistic"]


def test_whoever_watches_hears_of_every_step(archs, tmp_path):
    """So that a log of a long training is not silent."""
    told: list[Any] = []
    TrainingTrials(SMALL, *SAME, tmp_path, told.append).compare_with_references(
        archs[0], ["logistic"]
    )
    done = [at.done for at in told]
    assert done == sorted(done)
    epochs = len(TrainingResult.read(tmp_path).curve)
    assert (done.count(0) > epochs, done.count(1) > epochs, done.count(2)) == (True, True, 1)
    assert {(at.stage, at.total) for at in told} == {("comparing", 2)}


def test_a_former_winner_makes_room_in_the_folder(archs, tmp_path, monkeypatch):
    monkeypatch.setattr(references, "REFERENCES", {})
    (first,) = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    (other,) = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[1])
    assert TrainingResult.read(tmp_path).loss == other.loss != first.loss
    assert TrainingResult.read(tmp_path / "former-1").loss == first.loss


def test_what_made_room_for_another_recipe_is_not_trained_again(archs, tmp_path, monkeypatch):
    monkeypatch.setattr(references, "REFERENCES", {})
    (first,) = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    move_training_aside(tmp_path)
    train(archs[0], DATA, "ctr(epochs=1)", space=load_space(SMALL), run=tmp_path)
    monkeypatch.setattr(Training, "train_step", None)
    assert TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0]) == (first,)


def test_what_somebody_trained_in_the_folder_by_another_recipe_is_left_alone(
    archs, tmp_path, monkeypatch
):
    monkeypatch.setattr(references, "REFERENCES", {})
    theirs = train(archs[0], DATA, "ctr(epochs=1)", space=load_space(SMALL), run=tmp_path)
    (found,) = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    assert TrainingResult.read(tmp_path).loss == theirs.loss
    (ours,) = (tmp_path / "references").iterdir()
    assert TrainingResult.read(ours).loss == found.loss != theirs.loss


def test_a_reference_that_diverges_is_told_and_is_no_number(archs, tmp_path, monkeypatch):
    class Wild(REFERENCES["logistic"]):  # type: ignore[misc]
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return super().forward(rows) + torch.nan

    monkeypatch.setattr(references, "REFERENCES", {"wild": Wild})
    found, wild = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    assert found.loss is not None
    assert (wild.loss, wild.excess_loss) == (None, None)
    assert "the training diverged" in wild.error
    assert describe_references((found, wild)) == ""


def test_ctrl_c_while_the_references_are_trained_is_no_failure_of_one(archs, tmp_path, monkeypatch):
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "train_step", stopped)
    with pytest.raises(UsageError, match="stopped by Ctrl-C; what was trained"):
        TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])


def test_each_network_is_trained_by_the_rate_that_the_val_part_likes_best(
    archs, tmp_path, read, monkeypatch
):
    monkeypatch.setattr(references, "REFERENCES", {"dlrm": REFERENCES["dlrm"]})
    entries = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    asked = json.loads((tmp_path / references.TRAININGS).read_text())
    assert len(asked) == 2 * 3, "three rates for each"
    assert read.index("test") > 3 * 5 * 2, "rates are chosen before the test part is read"
    for name, entry in zip((str(archs[0]), "dlrm"), entries, strict=True):
        losses = {
            key.partition(" ")[0]: said["loss"] for key, said in asked.items() if f" {name} " in key
        }
        best = min(losses, key=lambda label: losses[label])
        assert entry.rate == load_recipe(best).rate
        assert entry.val_loss == losses[best], (
            "the table is small, so the short training was the whole one"
        )
    assert TrainingResult.read(tmp_path).key.recipe["rate"] == entries[0].rate


def test_a_rate_that_diverges_is_no_choice(archs, tmp_path, monkeypatch):
    fit = references._train_and_validate

    def wild(chosen: Any, how: Any, *rest: Any) -> dict[str, float]:
        if how.rate >= 0.12:
            raise DivergedError("no number")
        return fit(chosen, how, *rest)

    monkeypatch.setattr(references, "_train_and_validate", wild)
    monkeypatch.setattr(references, "REFERENCES", {})
    (found,) = TrainingTrials(SMALL, *SAME, tmp_path).compare_with_references(archs[0])
    assert found.rate == pytest.approx(0.04)


def test_the_verdict_is_as_sure_as_the_rows():
    found = ReferenceResult("winner", 1, 0.5, 0.7, 0.5, 0.7)
    entries = [
        replace(found, name=name, excess_loss=b, margin=0.01)
        for name, b in (("a", 0.02), ("b", 0.005), ("c", -0.03))
    ]
    assert describe_references((found, *entries)) == (
        "On the test data, the winner has a lower log loss than a (+0.0200 \u00b1 0.0100); "
        "it does not differ significantly from b (+0.0050 \u00b1 0.0100); it has a higher log loss than c (-0.0300 \u00b1 0.0100)."
    )


def test_a_candidate_learns_from_rows_of_all_over_a_large_table(monkeypatch):
    monkeypatch.setattr(references, "MAX_ROWS_SEEN", 100)
    part = TablePart(np.arange(500, dtype=np.float32).reshape(250, 2))
    assert [int(row[0]) for row in thin_part(part).values] == list(range(0, 500, 6))
    assert len(thin_part(TablePart(part.values[:100]))) == 100


def test_a_candidate_sees_few_rows_often_or_many_once():
    """At most 100,000 rows, and no more epochs than the recipe has; the rate rises in a tenth of the steps."""
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


def test_candidates_of_a_large_table_are_trained_by_the_shorter_recipe(
    archs, tmp_path, read, monkeypatch
):
    monkeypatch.setattr(references, "MAX_ROWS_SEEN", 1000)  # the table has 480 rows to learn from
    assert len(TrainingTrials(SMALL, *SAME, tmp_path).validate(archs[:1])) == 1
    assert read == 2 * ["train", "val"]


def test_the_whole_story(tmp_path, monkeypatch):
    """Search, confirm, train, compare: the winner is the one of least log loss, and everything is on one page."""
    monkeypatch.chdir(tmp_path)
    ask: dict[str, Any] = {"budget": 5, "data": DATA, "run": "run", "workers": 1, "confirm": 2}
    found = search(SMALL, "sigeo(samples=16)", **ask)
    told = found.confirmed
    assert told is not None
    trials = json.loads(Path("run", references.TRAININGS).read_text())
    losses = {key: said["loss"] for key, said in trials.items() if key.startswith("ctr nasrec")}
    assert told.winner in min(losses, key=lambda key: losses[key])
    assert str(found.best) == told.winner == TrainingResult.read("run").key.arch
    assert [entry.name for entry in told.entries] == ["winner", *REFERENCES]
    assert Confirmation.read(RunFolder.read("run")) == told
    monkeypatch.setattr(Training, "train_step", None)
    assert search(SMALL, "sigeo(samples=16)", **ask).confirmed.groups == told.groups
    assert train("run").auc == told.entries[0].auc, "the winner is trained already"
    page = report("run").read_text()
    parts = ("Training", "Learning curves", "Calibration", "Confirmation by training", "logistic",
             "Comparison with hand-designed networks", "the lowest log loss on the validation data")  # fmt: skip
    assert all(part in page for part in parts)
    assert "On the test data, the winner" in page
