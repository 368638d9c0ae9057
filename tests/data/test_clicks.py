"""The synthetic click log: its effects are in the rows, and the seed determines the rows."""

import numpy as np
import pytest
import torch

from tests.data.logs import ANY
from untrained.data import load_data
from untrained.data.clicks import DENSE_COLUMNS, TRIPLE, VOCABULARIES, generate_clicks
from untrained.errors import UsageError
from untrained.types import Task


def test_clicks_need_no_file_and_have_three_parts():
    source = load_data("clicks:rows=1000", ANY)
    assert source.task == Task(
        "clicks:rows=1000", (DENSE_COLUMNS + len(VOCABULARIES),), 1, "bce", VOCABULARIES
    )
    assert {name: len(part) for name, part in source.parts.items()} == {
        "train": 800,
        "val": 100,
        "test": 100,
    }
    inputs = source.batch(800).inputs
    for column, size in enumerate(VOCABULARIES, DENSE_COLUMNS):
        assert 0 <= inputs[:, column].min() < inputs[:, column].max() <= size - 1
    assert load_data("clicks", ANY).task.dataset == "clicks"
    assert "1,000 (800 train, 100 val, 100 test)" in source.card().facts["rows"]


def test_the_seed_determines_the_log():
    first = load_data("clicks:rows=500,seed=1", ANY).batch(50)
    same = load_data("clicks:rows=500,seed=1", ANY).batch(50)
    other = load_data("clicks:rows=500,seed=2", ANY).batch(50)
    assert torch.equal(first.inputs, same.inputs)
    assert torch.equal(first.targets, same.targets)
    assert not torch.equal(first.inputs, other.inputs)


def test_labels_follow_the_true_logits():
    """In ten groups of rows by probability, the share of clicks is within three deviations of it."""
    rows = 20_000
    _, _, logit = generate_clicks(rows)
    parts = load_data(f"clicks:rows={rows}", ANY).parts.values()
    labels = np.concatenate(
        [batch.targets.numpy() for part in parts for batch in part.batches(rows)]
    )
    truth = 1 / (1 + np.exp(-logit))
    for group in np.array_split(np.argsort(truth), 10):
        p = truth[group].mean()
        assert labels[group].mean() == pytest.approx(p, abs=3 * np.sqrt(p * (1 - p) / len(group)))


def test_three_columns_interact_beyond_their_pairs():
    """The mean logits of three interacting columns are not a sum of functions of pairs of columns.

    What such a sum does not explain is large for the interacting columns, and noise for others.
    """

    def measure_triple_effect(fields: tuple[int, ...], ids: np.ndarray, logit: np.ndarray) -> float:
        # Mean logits by the four most frequent identifiers of each of the three columns.
        cells = np.zeros((4, 4, 4))
        for place in np.ndindex(cells.shape):
            cells[place] = logit[(ids[:, fields] == place).all(1)].mean()
        for axis in range(3):
            cells -= cells.mean(axis, keepdims=True)
        return float(cells.std())

    _, ids, logit = generate_clicks(60_000)
    effect = measure_triple_effect(TRIPLE, ids, logit)
    assert effect > 3 * measure_triple_effect((0, 4, 6), ids, logit)


def test_all_blocks_of_a_log_have_the_same_effects():
    """The main effect of an identifier is the same in another block, but not in another log."""

    def compute_effects(seed: int, block: int) -> list[float]:
        _, ids, logit = generate_clicks(20_000, seed, block)
        return [float(logit[ids[:, 4] == i].mean()) for i in range(VOCABULARIES[4])]

    def correlate(a: list[float], b: list[float]) -> float:
        return float(np.corrcoef(a, b)[0, 1])

    effects = compute_effects(0, 0)
    assert correlate(effects, compute_effects(0, 1)) > 0.9
    assert abs(correlate(effects, compute_effects(1, 0))) < 0.7
    assert not np.array_equal(generate_clicks(100, 0, 0)[0], generate_clicks(100, 0, 1)[0])


@pytest.mark.parametrize(
    "argument", ["rows=3", "rows=many", "columns=3", "5000", "rows=500?label=click"]
)
def test_impossible_options_are_refused(argument):
    with pytest.raises(UsageError, match="write clicks:rows=1"):
        load_data(f"clicks:{argument}", ANY)
