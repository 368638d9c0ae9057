"""Training on clicks: the hand-made references, the recipe for tables, and what validation and test say."""

import json
import shutil

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

from tests.conftest import shared
from tests.training.toys import same, weights
from untrained.data import load_data
from untrained.data.tables.source import TablePart, make_table_source
from untrained.errors import UsageError
from untrained.training import checkpoint as checkpoint_module
from untrained.training.ctr_references import (
    REFERENCES,
    DeepFm,
    Dlrm,
    Embeddings,
    Logistic,
    multiply_pairs,
)
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingResult
from untrained.types import Task
from untrained.workflows.train import train

ANY = Task("any", (1,), 1)
MIXED, ALL_IDS, ALL_DENSE = (
    Task("t", (5,), 1, "bce", (7, 3)),
    Task("t", (2,), 1, "bce", (7, 3)),
    Task("t", (5,), 1, "bce"),
)


def rows(task: Task, count: int = 6) -> torch.Tensor:
    return load_data("noise", task).batch(count).inputs


# ----------------------------------------------------------------------------------------------------------- references


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("task", [MIXED, ALL_IDS, ALL_DENSE], ids=["mixed", "identifiers", "dense"])
def test_a_reference_gives_one_logit_a_row_and_learns_with_all_its_weights(name, task):
    torch.manual_seed(0)
    model = REFERENCES[name](task)
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_()
    outputs = model(rows(task, 64))
    assert outputs.shape == (64, 1)
    assert outputs.std() > 0
    outputs.square().sum().backward()
    unused = {
        n for n, p in model.named_parameters() if p.numel() and (p.grad is None or not p.grad.any())
    }
    assert not unused or (
        task is ALL_DENSE and all(name.endswith("table.weight") for name in unused)
    )


def test_a_logistic_regression_is_one_weight_an_identifier():
    model = Logistic(MIXED)
    with torch.no_grad():
        model.weights.table.weight[:, 0] = torch.arange(
            10.0
        )  # 7 of the first column, then 3 of the second
        model.slopes[:, 0] = torch.tensor([1.0, 10.0, 100.0])
        model.bias[:] = 1000
    row = torch.tensor([[0.1, 0.2, 0.3, 6.0, 2.0]])
    assert model(row).item() == pytest.approx(0.1 + 2 + 30 + 6 + 9 + 1000)


def test_pairs_are_each_dot_product_once():
    vectors = torch.tensor([[[1.0, 0], [2, 1], [0, 3]]])
    assert multiply_pairs(vectors).tolist() == [[2.0, 0.0, 3.0]]


def test_the_second_order_of_deepfm_is_the_sum_of_pairs():
    model = DeepFm(ALL_IDS)
    nn.init.zeros_(model.deep[-1].weight)
    nn.init.zeros_(model.deep[-1].bias)
    table = model.embed.table.weight.detach()
    assert model(torch.tensor([[4.0, 1.0]])).item() == pytest.approx(
        float(table[4] @ table[7 + 1]), rel=1e-5
    )


def test_embeddings_of_two_columns_do_not_overlap():
    embed = Embeddings(MIXED)
    _, vectors = embed(torch.tensor([[0, 0, 0, 6.0, 0.0], [0, 0, 0, 0.0, 2.0]]))
    assert torch.equal(vectors[0], embed.table.weight[[6, 7]])
    assert torch.equal(vectors[1], embed.table.weight[[0, 9]])


def test_embeddings_begin_as_those_of_the_space_they_are_compared_with():
    """Glorot's deviation, sqrt(2 / (identifiers + 16)), column by column."""
    torch.manual_seed(0)
    sizes = (100, 2000)
    columns = Embeddings(Task("t", (2,), 1, "bce", sizes)).table.weight.detach().split(sizes)
    for size, column in zip(sizes, columns, strict=True):
        assert float(column.std()) == pytest.approx((2 / (size + 16)) ** 0.5, rel=0.06)


# ------------------------------------------------------------------------------------------------------------- training

CLICKS = "clicks:rows=600"


def trained(folder, model=Logistic, data=CLICKS, **options):
    source = load_data(data, ANY)
    torch.manual_seed(0)
    return train(
        model(source.task), data, run=folder, input_shape=source.task.input_shape, **options
    )


def in_memory(monkeypatch, values, vocabulary=3, **others):
    """Whatever data are named, one column of identifiers and the label are trained on."""
    parts = {"train": values, "val": values, "test": values} | others
    task = Task("t", (1,), 1, "bce", (vocabulary,))
    rows = {name: TablePart(np.asarray(part, np.float32)) for name, part in parts.items()}
    monkeypatch.setattr(
        "untrained.workflows.train_subject.load_source_for",
        lambda *_: make_table_source(task, rows, None),
    )
    return task


def test_a_table_is_trained_by_its_own_recipe_and_judged_by_log_loss_auc_and_calibration(tmp_path):
    found = trained(tmp_path / "a", Dlrm)
    assert found.key.recipe == load_recipe("ctr").to_document()
    facts = json.loads((tmp_path / "a" / "train.json").read_text())
    assert TrainingResult.read(tmp_path / "a").loss == found.loss == facts["loss"]
    assert (facts["accuracy"], facts["confusion"], facts["mistakes"], facts["classes"]) == (
        None,
        [],
        [],
        [],
    )
    (batch,) = load_data(CLICKS, ANY).parts["test"].batches(60)
    with torch.no_grad():
        z, y = found.model(batch.inputs).double().flatten(), batch.targets.double()
    assert found.auc == pytest.approx(roc_auc_score(y, z))
    assert found.loss == pytest.approx(
        -float((y * z.sigmoid().log() + (1 - y) * (1 - z.sigmoid()).log()).mean())
    )
    assert sum(row["rows"] for row in found.calibration) == len(y) == 60
    observed = sum(row["observed"] * row["rows"] for row in found.calibration)
    assert observed == pytest.approx(float(y.sum()))
    best = min(found.curve, key=lambda row: row["val_loss"])
    assert (found.best["epoch"], found.best["loss"]) == (best["epoch"], best["val_loss"])
    assert found.best["auc"] == best["val_auc"]


def test_validation_chooses_by_log_loss_and_not_by_what_is_said_last(tmp_path):
    """DLRM learns 480 rows by heart; many epochs are asked for, few are taken."""
    found = trained(tmp_path / "a", Dlrm, epochs=60, patience=3)
    losses = [row["val_loss"] for row in found.curve]
    assert found.ended == "patience"
    assert len(losses) == found.best["epoch"] + 3 < 60
    assert losses[-1] > min(losses) == found.best["loss"]
    assert found.curve[-1]["loss"] < found.curve[0]["loss"]


def test_a_killed_training_on_a_table_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    kept, write = [], checkpoint_module.save_tensors

    def save(path, content):
        write(path, content)
        if path.name == "checkpoint.pt":
            kept.append(shutil.copy(path, tmp_path / f"{len(kept)}.pt"))

    monkeypatch.setattr(checkpoint_module, "save_tensors", save)
    whole = trained(tmp_path / "whole", DeepFm, epochs=2, checkpoint_every=1)
    assert len(kept) == 2 * (480 // 128)
    for path in kept[1:5:3]:
        folder = tmp_path / f"from-{path.stem}"
        folder.mkdir()
        shutil.copy(path, folder / "checkpoint.pt")
        again = trained(folder, DeepFm, epochs=2)
        assert same(weights(again), weights(whole)), path
        assert (again.curve, again.auc, again.calibration) == (
            whole.curve,
            whole.auc,
            whole.calibration,
        )


def test_a_step_by_hand(tmp_path, monkeypatch):
    """All weights are zero, so the bias has the gradient g = 1/2 - share of clicks; Adagrad takes g / (|g| + 0.01)."""
    task = in_memory(monkeypatch, [[0, 1], [1, 0], [2, 0], [0, 0]])
    found = train(
        Logistic(task),
        "t",
        "ctr(epochs=1,rate=0.5,warm_up=0.0)",
        run=tmp_path / "a",
        input_shape=(1,),
    )
    g = 1 / 2 - 1 / 4
    assert found.model.bias.item() == pytest.approx(-0.5 * g / (abs(g) + 0.01), rel=1e-5)


def test_clicks_that_one_identifier_decides_are_learned_whole(tmp_path, monkeypatch):
    ids = np.arange(600) % 3
    task = in_memory(monkeypatch, np.c_[ids, ids == 1])
    found = train(Logistic(task), "t", epochs=10, run=tmp_path / "a", input_shape=(1,))
    assert found.auc == 1
    assert found.normalised_entropy < 1


def test_rows_of_one_kind_have_a_log_loss_and_no_auc(tmp_path, monkeypatch):
    rows = [[0, 1], [1, 0]] * 8
    task = in_memory(monkeypatch, rows, val=[[0, 0]] * 4, test=[[1, 1]] * 4)
    found = train(Logistic(task), "t", epochs=2, run=tmp_path / "a", input_shape=(1,))
    assert (found.auc, found.normalised_entropy) == (None, None)
    assert set(found.curve[0]) == {"epoch", "rate", "loss", "val_loss"}
    assert found.loss > 0


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("training", "the loss of epoch 1 is nan"),
        ("judging", "outputs of the network are not finite"),
    ],
)
def test_a_training_that_diverges_says_so_in_one_line(tmp_path, bad, says):
    class Wild(Logistic):
        def forward(self, rows):
            nan = self.training == (bad == "training")
            return super().forward(rows) + (torch.nan if nan else 0.0)

    with pytest.raises(
        UsageError, match=f"the training diverged: .*{says}; .*--recipe 'ctr.rate=0.012.'"
    ):
        trained(tmp_path / "a", Wild)
    assert not (tmp_path / "a" / "train.json").exists()


def test_what_is_planted_beyond_single_columns_needs_more_than_a_logistic_regression(tmp_path):
    data, short = "clicks:rows=20000", "ctr(epochs=3,batch=256)"
    plain = trained(tmp_path / "a", Logistic, data, recipe=short)
    deep = trained(tmp_path / "b", DeepFm, data, recipe=short)
    assert deep.best["auc"] > plain.best["auc"] + 0.03


@pytest.mark.data
def test_a_logistic_regression_on_criteo_is_as_good_as_scikit_learns(tmp_path, monkeypatch):
    """968 test rows with some 210 clicks tell an AUC within 0.02 (one deviation); 0.70 to 0.75 is what is known of
    this sample. The same rows, one-hot, in scikit-learn's solver must not be clearly better."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = load_data(f"criteo:{shared('data', 'ctr', 'criteo_10k.csv.gz')}", ANY)
    ours = trained(
        tmp_path / "run", Logistic, f"criteo:{shared('data', 'ctr', 'criteo_10k.csv.gz')}"
    )
    assert 0.66 < ours.auc < 0.80
    assert ours.normalised_entropy < 0.95
    one_hot = {name: encoded(part, source.task) for name, part in source.parts.items()}
    theirs = LogisticRegression(C=0.1, max_iter=300).fit(*one_hot["train"])
    inputs, labels = one_hot["test"]
    assert ours.auc > roc_auc_score(labels, theirs.decision_function(inputs)) - 0.02


def encoded(part, task: Task) -> tuple[csr_matrix, np.ndarray]:
    (batch,) = part.batches(len(part))
    dense = task.input_shape[0] - len(task.vocabularies)
    offsets = np.cumsum((0, *task.vocabularies))
    places = batch.inputs[:, dense:].long().numpy() + offsets[:-1]
    which = (np.repeat(np.arange(len(part)), places.shape[1]), places.ravel())
    hot = csr_matrix((np.ones(places.size), which), shape=(len(part), offsets[-1]))
    return hstack(
        [csr_matrix(batch.inputs[:, :dense].double().numpy()), hot]
    ).tocsr(), batch.targets.numpy()
