"""Advice on the card of a table: columns that reveal the label, number the rows, or identify."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from tests.data.logs import ANY, HEADER, format_rows, list_problems, make_log, open_table, write_csv
from untrained.data import load_data
from untrained.data.tables import advice as _advice
from untrained.data.tables import reader as _reader

LEAK = "x: predicts the label almost perfectly, so it may be a leak; to leave it out, write drop=x"
COUNTS = "x: numbers the rows; to leave it out, write drop=x"
FAR = "x: holds whole numbers far from 0; if they are identifiers, write categorical=x"


def list_hints(tmp_path, values, query=""):
    """Return the hints about a column x that is added to the log."""
    card = open_with_column(tmp_path, values, query).card()
    return [f"{name}: {text}" for name, text in card.hints if name == "x"]


def list_advice(tmp_path, values, query="", labels=None):
    """Return the advice about a column x that is added to the log."""
    card = open_with_column(tmp_path, values, query, labels).card()
    return [line for line in list_problems(card) if line.startswith("x: ")]


def open_with_column(tmp_path, values, query="", labels=None):
    """Open the log with a column x that is added to it."""
    rows = []
    for i, (label, *others) in enumerate(make_log()):
        if labels is not None:
            label = labels[i]
        rows.append((label, *others, values[i]))
    path = write_csv(tmp_path / "log.csv", format_rows(rows), HEADER + ",x")
    return open_table(path, query)


def make_values_by_label(positive, negative):
    """Return a value per row of the log, by one of two functions of the row number."""
    return [positive(i) if row[0] else negative(i) for i, row in enumerate(make_log())]


LEAKS = {
    "a number": make_values_by_label(lambda i: 2.1, lambda i: 0.1),
    "larger numbers": make_values_by_label(lambda i: 500.5 + i, lambda i: i + 0.25),
    "smaller numbers": make_values_by_label(lambda i: 0.5 - i, lambda i: i + 0.75),
    "there where it is 1": make_values_by_label(
        lambda i: f"2024-01-02 03:04:{i % 60:02d}", lambda i: ""
    ),
    "there where it is 0": make_values_by_label(lambda i: "", lambda i: f"word {i % 70}"),
    "a word": make_values_by_label(lambda i: "sold", lambda i: "kept"),
    "few words": make_values_by_label(lambda i: f"b{i % 3}", lambda i: f"a{i % 5}"),
    "a digit": make_values_by_label(lambda i: 2, lambda i: 0),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_column_that_determines_the_label_is_a_leak(tmp_path, name):
    assert list_advice(tmp_path, LEAKS[name]) == [LEAK]
    assert list_advice(tmp_path, LEAKS[name]) == [LEAK]  # also from the cache
    assert list_advice(tmp_path, LEAKS[name], "?drop=x") == ["x: dropped: named in drop"]
    shifted = [LEAKS[name][i - 1] for i in range(300)]  # each row gets the value of another row
    assert LEAK not in list_advice(tmp_path, shifted)


@pytest.mark.parametrize(
    ("positives", "negatives", "is_leak"),
    [(10, 90, True), (9, 91, False), (10, 89, False), (89, 10, False)],
)
def test_few_rows_are_not_evidence_of_a_leak(positives, negatives, is_leak):
    labels = np.repeat([1, 0], [positives, negatives])
    assert _advice.separates_labels(labels + 0.5, labels) == is_leak
    # Rows without a value do not count.
    values = np.append(np.where(labels, 3.0, 1.0), np.full(500, np.nan))
    assert _advice.separates_labels(values, np.append(labels, np.arange(500) % 2)) == is_leak


def test_the_area_under_the_curve_decides_in_both_directions():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    areas = []
    for distance in np.linspace(3, 6, 30):
        values = np.round(labels * distance + rng.normal(size=2000), 1)  # some are equal
        area = roc_auc_score(labels, values)
        assert _advice.separates_labels(values, labels) == (area > 0.999)
        assert _advice.separates_labels(-values, labels) == (area > 0.999)
        areas.append(area)
    assert min(areas) < 0.999 < max(areas)


def test_a_column_that_numbers_the_rows_is_reported(tmp_path):
    assert list_advice(tmp_path, range(300)) == [COUNTS]
    assert list_advice(tmp_path, range(10**6, 10**6 + 300)) == [COUNTS]
    assert list_advice(tmp_path, [*range(299), 300]) == []
    assert list_advice(tmp_path, [i + 0.5 for i in range(300)]) == []  # prices of the usual log


@pytest.mark.parametrize(
    ("value", "far"),
    [
        (lambda i: 900_000 + i * i % 2000, True),
        (lambda i: 900_000 + i * i % 2000 if i % 50 else 0, True),  # a few zeros for "no user"
        (lambda i: i * i % 2000, False),
        (lambda i: 900_000 + i * i * 7 % 200_000, False),
        (lambda i: 900_000.5 + i * i % 2000, False),
        (lambda i: -900_000 - i * i % 2000, False),
    ],
)
def test_whole_numbers_far_from_0_may_be_identifiers(tmp_path, value, far):
    values = [value(i) for i in range(300)]
    assert list_hints(tmp_path, values) == [FAR] * far
    assert list_advice(tmp_path, values) == [], "a hint is not a problem"
    assert list_hints(tmp_path, values, "?dense=x") == []  # the user has decided
    assert list_hints(tmp_path, values, "?categorical=x") == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (lambda i: f"about {i}.5" if i % 4 == 2 else f"{i}.5", "75 % numbers, 25 % text such as 'about 2.5' (line 4)"),
        (lambda i: f"{i}.5 m2", "100 % of the values begin with a number and are text, such as '0.5 m2' (line 2)"),
        (lambda i: f"${i}.5", "100 % of the values begin with a number and are text, such as '$0.5' (line 2)"),
        (lambda i: f"{i % 90} {'abcdefgh'[i % 8]} street", ""),
        (lambda i: f"{i % 5} rooms", ""),
        (lambda i: f"b{i % 70}", ""),
    ],
)  # fmt: skip
def test_numbers_with_text_in_them_are_a_problem(tmp_path, value, problem):
    values = [value(i) for i in range(300)]
    expected = []
    if problem:
        expected = [f"x: {problem}; clean the column, or write categorical=x or drop=x"]
    problems = list_advice(tmp_path, values)
    assert [line for line in problems if "dropped" not in line] == expected
    decided = list_advice(tmp_path, values, "?categorical=x")
    assert [line for line in decided if "dropped" not in line] == []


def test_timestamps_are_not_identifiers(tmp_path):
    hours = pa.array([3600 * (400_000 + i * i % 997) for i in range(300)], pa.timestamp("s"))
    pq.write_table(
        pa.table({"click": [row[0] for row in make_log()], "x": hours}), tmp_path / "log.parquet"
    )
    assert list_problems(load_data(f"parquet:{tmp_path}/log.parquet", ANY).card()) == []


def test_advice_comes_from_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr(_reader, "PARQUET_ROWS", 200)
    labels = [row[0] for row in make_log()]
    rng = np.random.default_rng(0)
    for first_values, advice in ((labels, [LEAK]), ([*rng.normal(size=300)], [])):
        values = pa.array([*first_values[:200], *rng.normal(size=100)], pa.float64())
        pq.write_table(pa.table({"click": labels, "x": values}), tmp_path / "log.parquet")
        assert list_problems(load_data(f"parquet:{tmp_path}/log.parquet", ANY).card()) == advice


def test_rows_without_a_label_do_not_affect_the_advice(tmp_path):
    labels = ["" if i % 20 == 0 else row[0] for i, row in enumerate(make_log())]
    values = [0.5 if label == "" else 2.5 * label for label in labels]
    assert list_advice(tmp_path, values, labels=labels) == [LEAK]


def test_the_most_important_advice_comes_first(tmp_path):
    rows = [(r[0], i, 900_000 + i * i % 2000, 2.5 * r[0]) for i, r in enumerate(make_log())]
    card = open_table(
        write_csv(tmp_path / "log.csv", format_rows(rows), "click,place,ad,sold")
    ).card()
    assert [name for name, _ in card.problems] == ["sold", "place"]
    assert [name for name, _ in card.hints] == ["ad"]
