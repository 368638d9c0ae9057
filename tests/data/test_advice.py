"""What the card of a table advises: columns that tell the label, count the rows, or are identifiers in disguise."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from tests.data.logs import ANY, HEADER, lines, log, opened, said, write
from untrained.data import load_data
from untrained.data.tables import advice as _advice
from untrained.data.tables import reader as _reader

LEAK = "x: tells the label by itself, a leak? write drop=x"
COUNTS = "x: counts the rows; write drop=x"
FAR = "x: whole numbers far from 0, identifiers? write categorical=x"


def advised(tmp_path, values, query="", labels=None):
    """What is said of a column x beside those of the usual log."""
    rows = [
        (row[0] if labels is None else labels[i], *row[1:], values[i])
        for i, row in enumerate(log())
    ]
    card = opened(write(tmp_path / "log.csv", lines(rows), HEADER + ",x"), query).card()
    return [line for line in said(card) if line.startswith("x: ")]


def by_label(one, other):
    return [one(i) if row[0] else other(i) for i, row in enumerate(log())]


LEAKS = {
    "a number": by_label(lambda i: 2.1, lambda i: 0.1),
    "larger numbers": by_label(lambda i: 500.5 + i, lambda i: i + 0.25),
    "smaller numbers": by_label(lambda i: 0.5 - i, lambda i: i + 0.75),
    "there where it is 1": by_label(lambda i: f"2024-01-02 03:04:{i % 60:02d}", lambda i: ""),
    "there where it is 0": by_label(lambda i: "", lambda i: f"word {i % 70}"),
    "a word": by_label(lambda i: "sold", lambda i: "kept"),
    "few words": by_label(lambda i: f"b{i % 3}", lambda i: f"a{i % 5}"),
    "a digit": by_label(lambda i: 2, lambda i: 0),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_column_that_tells_the_label_by_itself_is_a_leak(tmp_path, name):
    assert advised(tmp_path, LEAKS[name]) == [LEAK]
    assert advised(tmp_path, LEAKS[name]) == [LEAK]  # also from the cache
    assert advised(tmp_path, LEAKS[name], "?drop=x") == ["x: dropped: named in drop"]
    honest = [LEAKS[name][i - 1] for i in range(300)]  # those of other rows
    assert LEAK not in advised(tmp_path, honest)


@pytest.mark.parametrize(
    ("clicks", "others", "told"), [(10, 90, True), (9, 91, False), (10, 89, False), (89, 10, False)]
)
def test_few_rows_tell_nothing(clicks, others, told):
    labels = np.repeat([1, 0], [clicks, others])
    assert _advice.separates_labels(labels + 0.5, labels) == told
    hidden = np.append(
        np.where(labels, 3.0, 1.0), np.full(500, np.nan)
    )  # rows without a value do not count
    assert _advice.separates_labels(hidden, np.append(labels, np.arange(500) % 2)) == told


def test_the_area_under_the_curve_decides_from_both_sides():
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 2000)
    areas = []
    for far in np.linspace(3, 6, 30):
        values = np.round(labels * far + draw.normal(size=2000), 1)  # some are equal
        areas.append(roc_auc_score(labels, values))
        assert (
            _advice.separates_labels(values, labels)
            == _advice.separates_labels(-values, labels)
            == (areas[-1] > 0.999)
        )
    assert min(areas) < 0.999 < max(areas)


def test_a_column_that_counts_the_rows_is_told(tmp_path):
    assert advised(tmp_path, range(300)) == [COUNTS]
    assert advised(tmp_path, range(10**6, 10**6 + 300)) == [COUNTS]
    assert advised(tmp_path, [*range(299), 300]) == []
    assert advised(tmp_path, [i + 0.5 for i in range(300)]) == []  # prices of the usual log


@pytest.mark.parametrize(
    ("value", "far"),
    [
        (lambda i: 900_000 + i * i % 2000, True),
        (lambda i: 900_000 + i * i % 2000 if i % 50 else 0, True),  # a few that stand for nobody
        (lambda i: i * i % 2000, False),
        (lambda i: 900_000 + i * i * 7 % 200_000, False),
        (lambda i: 900_000.5 + i * i % 2000, False),
        (lambda i: -900_000 - i * i % 2000, False),
    ],
)
def test_whole_numbers_far_from_0_may_be_identifiers(tmp_path, value, far):
    values = [value(i) for i in range(300)]
    assert advised(tmp_path, values) == [FAR] * far
    assert advised(tmp_path, values, "?dense=x") == []  # whoever says so knows
    assert FAR not in advised(tmp_path, values, "?categorical=x")


def test_moments_are_no_identifiers(tmp_path):
    hours = pa.array([3600 * (400_000 + i * i % 997) for i in range(300)], pa.timestamp("s"))
    pq.write_table(
        pa.table({"click": [row[0] for row in log()], "x": hours}), tmp_path / "log.parquet"
    )
    assert said(load_data(f"parquet:{tmp_path}/log.parquet", ANY).card()) == []


def test_advice_comes_from_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr(_reader, "PARQUET_ROWS", 200)
    labels, draw = [row[0] for row in log()], np.random.default_rng(0)
    for first, told in ((labels, [LEAK]), ([*draw.normal(size=300)], [])):
        values = pa.array([*first[:200], *draw.normal(size=100)], pa.float64())
        pq.write_table(pa.table({"click": labels, "x": values}), tmp_path / "log.parquet")
        assert said(load_data(f"parquet:{tmp_path}/log.parquet", ANY).card()) == told


def test_a_row_without_a_label_tells_nothing(tmp_path):
    labels = ["" if i % 20 == 0 else row[0] for i, row in enumerate(log())]
    assert advised(
        tmp_path, [0.5 if label == "" else 2.5 * label for label in labels], labels=labels
    ) == [LEAK]


def test_the_gravest_advice_comes_first(tmp_path):
    rows = [(r[0], i, 900_000 + i * i % 2000, 2.5 * r[0]) for i, r in enumerate(log())]
    card = opened(write(tmp_path / "log.csv", lines(rows), "click,place,ad,sold")).card()
    assert [name for name, _ in card.problems] == ["sold", "place", "ad"]
