"""Training on clicks: the hand-made references, the recipe, early stopping, and failures as values."""

from dataclasses import replace
from math import cos, pi

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

from tests.conftest import shared
from untrained.data import load
from untrained.data._table import Rows
from untrained.training.ctr import Settings, fit, judge, share
from untrained.training.ctr_references import REFERENCES, DeepFm, Dlrm, Embeddings, Logistic, pairs
from untrained.types import Task

ANY = Task("any", (1,), 1)
MIXED, ALL_IDS, ALL_DENSE = (
    Task("t", (5,), 1, "bce", (7, 3)),
    Task("t", (2,), 1, "bce", (7, 3)),
    Task("t", (5,), 1, "bce"),
)


def rows(task: Task, count: int = 6) -> torch.Tensor:
    return load("noise", task).batch(count).inputs


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
    unused = {n for n, p in model.named_parameters() if p.numel() and (p.grad is None or not p.grad.any())}
    assert not unused or (task is ALL_DENSE and all(name.endswith("table.weight") for name in unused))


def test_a_logistic_regression_is_one_weight_an_identifier():
    model = Logistic(MIXED)
    with torch.no_grad():
        model.weights.table.weight[:, 0] = torch.arange(10.0)  # 7 of the first column, then 3 of the second
        model.slopes[:, 0] = torch.tensor([1.0, 10.0, 100.0])
        model.bias[:] = 1000
    row = torch.tensor([[0.1, 0.2, 0.3, 6.0, 2.0]])
    assert model(row).item() == pytest.approx(0.1 + 2 + 30 + 6 + 9 + 1000)


def test_pairs_are_each_dot_product_once():
    vectors = torch.tensor([[[1.0, 0], [2, 1], [0, 3]]])
    assert pairs(vectors).tolist() == [[2.0, 0.0, 3.0]]


def test_the_second_order_of_deepfm_is_the_sum_of_pairs():
    model = DeepFm(ALL_IDS)
    nn.init.zeros_(model.deep[-1].weight)
    nn.init.zeros_(model.deep[-1].bias)
    table = model.embed.table.weight.detach()
    assert model(torch.tensor([[4.0, 1.0]])).item() == pytest.approx(float(table[4] @ table[7 + 1]), rel=1e-5)


def test_embeddings_of_two_columns_do_not_overlap():
    embed = Embeddings(MIXED)
    _, vectors = embed(torch.tensor([[0, 0, 0, 6.0, 0.0], [0, 0, 0, 0.0, 2.0]]))
    assert torch.equal(vectors[0], embed.table.weight[[6, 7]])
    assert torch.equal(vectors[1], embed.table.weight[[0, 9]])


# ------------------------------------------------------------------------------------------------------------- training


def test_the_rate_rises_over_a_tenth_and_falls_along_a_cosine():
    rates = [share(step, 100, 0.1) for step in range(101)]
    assert rates[:10] == pytest.approx([(k + 1) / 11 for k in range(10)])
    assert rates[10] == 1
    assert rates[55] == pytest.approx((1 + cos(pi / 2)) / 2)
    assert rates[100] == pytest.approx(0)
    assert share(0, 1, 0.0) == 1


def test_a_step_by_hand():
    """All weights are zero, so the bias has the gradient g = 1/2 - share of clicks; Adagrad takes g / (|g| + 0.01)."""
    values = np.array([[0, 1], [1, 0], [2, 0], [0, 0]], np.float32)
    model = Logistic(Task("t", (1,), 1, "bce", (3,)))
    fit(model, {"train": Rows(values), "val": Rows(values)}, Settings(rate=0.5, batch=4))
    g = 1 / 2 - 1 / 4
    assert model.bias.item() == pytest.approx(-0.5 * share(0, 1, 0.1) * g / (abs(g) + 0.01), rel=1e-5)


def test_gradients_are_clipped(clicks):
    model, _ = trained(clicks, Settings(clip=1e-3), Dlrm)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-2)


@pytest.fixture(scope="module")
def clicks():
    return load("clicks:rows=2000", ANY)


def trained(source, settings, model=Logistic):
    torch.manual_seed(0)
    made = model(source.task)
    return made, fit(made, source.parts, settings)


def test_the_same_settings_give_the_same_weights_and_the_seed_decides_the_order(clicks):
    settings = Settings(epochs=2, batch=128)
    one, first = trained(clicks, settings, Dlrm)
    same, second = trained(clicks, settings, Dlrm)
    other, _ = trained(clicks, replace(settings, seed=1), Dlrm)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert [e.val_loss for e in first.curve] == [e.val_loss for e in second.curve]


def test_the_best_epoch_is_kept_and_the_training_stops_when_it_becomes_no_better(clicks):
    """DLRM learns 1,600 rows by heart; many epochs are asked for, few are taken."""
    watched = []
    torch.manual_seed(0)
    model = Dlrm(clicks.task)
    found = fit(model, clicks.parts, Settings(epochs=60, batch=64, patience=3), watched.append)
    losses = [epoch.val_loss for epoch in found.curve]
    assert tuple(watched) == found.curve
    assert found.failure is None
    assert found.best.val_loss == min(losses)
    assert len(losses) == found.best.epoch + 3 < 60
    assert judge(model, clicks.parts["val"]).log_loss == pytest.approx(min(losses), rel=1e-6)
    assert found.curve[-1].train_loss < found.curve[0].train_loss


def test_the_test_part_is_not_opened(clicks):
    parts = {name: part for name, part in clicks.parts.items() if name != "test"}
    assert fit(Logistic(clicks.task), parts).failure is None


@pytest.mark.parametrize(
    ("bad", "says"), [("training", "the training diverged"), ("judging", "answers are not numbers")]
)
def test_a_training_that_diverges_is_a_failure_and_no_number(clicks, bad, says):
    class Wild(Logistic):
        def forward(self, rows):
            nan = self.training == (bad == "training")
            return super().forward(rows) + (torch.nan if nan else 0.0)

    found = fit(Wild(clicks.task), clicks.parts)
    assert (found.best, found.curve) == (None, ())
    assert str(found.failure) == f"nan: {says} in epoch 1"


def test_judging_counts_every_row_and_leaves_the_weights(clicks):
    model = Logistic(clicks.task)
    found = judge(model, clicks.parts["test"])
    assert (found.rows, found.auc) == (200, 0.5)  # all weights are zero: all are tied
    assert found.log_loss == pytest.approx(np.log(2))
    assert all(p.grad is None for p in model.parameters())


def test_what_is_planted_beyond_single_columns_needs_more_than_a_logistic_regression():
    source = load("clicks:rows=20000", ANY)
    _, plain = trained(source, Settings(epochs=3, batch=256))
    _, deep = trained(source, Settings(epochs=3, batch=256), DeepFm)
    assert deep.best.val_auc > plain.best.val_auc + 0.03


def test_a_part_in_memory_is_trained_on_like_any_other():
    """Clicks are decided by one identifier; a weight for each says it all."""
    ids = np.arange(600) % 3
    values = np.c_[ids, ids == 1].astype(np.float32)
    parts = {"train": Rows(values), "val": Rows(values), "test": Rows(values)}
    model = Logistic(Task("t", (1,), 1, "bce", (3,)))
    fit(model, parts, Settings(epochs=20, batch=64))
    assert judge(model, parts["test"]).auc == 1


@pytest.mark.data
def test_a_logistic_regression_on_criteo_is_as_good_as_scikit_learns(tmp_path, monkeypatch):
    """968 test rows with some 210 clicks tell an AUC within 0.02 (one deviation); 0.70 to 0.75 is what is known of
    this sample. The same rows, one-hot, in scikit-learn's solver must not be clearly better."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = load(f"criteo:{shared('data', 'ctr', 'criteo_10k.csv.gz')}", ANY)
    model, found = trained(source, Settings(epochs=4, batch=128))
    ours = judge(model, source.parts["test"])
    assert found.failure is None
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
    return hstack([csr_matrix(batch.inputs[:, :dense].double().numpy()), hot]).tocsr(), batch.targets.numpy()
