"""What goes with a model of a table reads a value as training does."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from untrained.data import _values, load
from untrained.data._schema import SCHEMA, load_schema
from untrained.errors import UsageError
from untrained.exports import _table, page
from untrained.types import Task


def test_texts_have_the_hashes_that_training_counted_them_by():
    texts = ["", "a", "seven77", "eight888", "nine99999", "sixteen_sixteen_", "f\u00fcnf \u20ac", "x" * 300]
    expected = pd.util.hash_array(np.array([text.encode() for text in texts], dtype=object), categorize=False)
    assert [_table.hashed(text) for text in texts] == expected.tolist()


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), (" 2 ", 2), ("-3e2", -300), (4, 4), (2.5, 2.5)])
def test_a_number_is_one(text, value):
    assert _table.number(text) == value


@pytest.mark.parametrize("text", ["", "NA", "nan", "inf", "-inf", "1_000", "oops", None, math.inf])
def test_what_is_no_number_is_missing(text):
    assert math.isnan(_table.number(text))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((5, 5.0, "5", "5.0", b"5.0", np.int8(5), np.float32(5), Decimal(5)), "5"),
        ((-3.0, "-3.0", -3), "-3"),
        ((1e15, 10**15, "1000000000000000.0"), "1000000000000000"),
        ((2.5e10, "2.5e+10", "2.5E10", 25 * 10**9), "25000000000"),
        ((1e20, "1e+20", 10**20), "1" + 20 * "0"),
        (("1e20",), "1e20"),  # eight such digits may be a hash
        ((2.5, "2.5", np.float32(2.5)), "2.5"),
        ((np.float32(0.1), 0.1), "0.1"),
        ((True, "True", "TRUE", "true", np.True_), "true"),
        ((False, "False", "FALSE", "false"), "false"),
        ((None, math.nan, np.float32("nan"), pd.NA, pd.NaT, ""), ""),
        (("nan",), "nan"),  # as text it may be a name
        (("1.2.0",), "1.2.0"),
        ((".0",), ".0"),
        ((b"caf\xe9",), "caf\\xe9"),
    ],
)
def test_a_value_has_one_text_in_training_and_in_the_program(values, text):
    assert {_values.text_of(value) for value in values} == {_table.text_of(value) for value in values} == {text}


def test_a_moment_is_counted_in_microseconds_since_1970():
    day = 24 * 60 * 60 * 10**6
    moments = {
        "1970-01-02": day,
        "1970-01-02 00:00:00.000": day,
        "1970-01-02T01:00:00+01:00": day,
        "1970-01-02T00:00:00Z": day,
        date(1970, 1, 2): day,
        datetime(1970, 1, 2, tzinfo=UTC): day,
        pd.Timestamp("1970-01-02 00:00:00.000007123"): day + 7,
        np.datetime64("1970-01-02T00:00:01", "ns"): day + 10**6,
    }
    assert {value: _table.moment(value) for value in moments} == moments
    assert [_table.moment(value) for value in ("", "soon", None, pd.NaT, np.datetime64("NaT"), math.nan)] == [None] * 6


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A column of numbers with mean log(3) and deviation 2 after the logarithm, and two of identifiers."""
    dense = [{"name": "shown", "log": True, "mean": math.log(3), "std": 2.0}]
    ids = [{"name": "user", "size": 3}, {"name": "code", "size": 10}]
    told = {"label": "click", "missing": ["", "NA"], "moments": [], "dense": dense, "identifiers": ids}
    (tmp_path / "config.json").write_text(json.dumps({"table": told}))
    words = np.sort(pd.util.hash_array(np.array([b"u1", b""], dtype=object), categorize=False))
    np.savez(tmp_path / "vocabularies.npz", **{"0": words})
    monkeypatch.setattr(_table, "HERE", tmp_path)
    _table.table.cache_clear()
    yield words.tolist()
    _table.table.cache_clear()


def test_a_row_is_encoded_by_hand(known):
    rows = [
        {"shown": "8", "user": "u1", "code": "7"},  # log(9) = 2 log(3)
        {"shown": "-8", "user": "NA", "code": 7},
        {"shown": "oops", "user": None, "code": "NA"},
        {"shown": 2, "user": "u2", "code": ""},
    ]
    at = [known.index(_table.hashed(text)) + 1 for text in ("u1", "")]
    seven, missing = _table.hashed("7") % 10, _table.hashed("") % 10
    half = math.log(3) / 2
    expected = [[half, at[0], seven], [-3 * half, at[1], seven], [0, at[1], missing], [0, 0, missing]]
    found = _table.encode(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(KeyError, match="user"):
        _table.encode([{"shown": 1, "code": 2}])


# ------------------------------------------------------------------------------------------ whatever holds the values


def typed_rows() -> pd.DataFrame:
    """A column of each type that a parquet file may have; most also with rows that have no value."""
    draw = np.random.default_rng(0)
    rows, start = 400, pd.Timestamp("2014-10-21 07:00:00")
    few, none = draw.integers(0, 4, rows), draw.random(rows) < 0.1
    far = pd.Series(start + pd.to_timedelta(draw.integers(0, 10**7, rows), "s"))
    return pd.DataFrame(
        {
            "click": draw.integers(0, 2, rows),
            "price": draw.normal(size=rows),
            "flag": draw.random(rows) < 0.5,
            "maybe": pd.array(np.where(none, None, few > 1), "boolean"),
            "whole": few,
            "nullable": pd.array(np.where(none, None, few), "Int64"),
            "user_id": np.where(none, np.nan, 10**14 + few),  # as pandas holds whole numbers of which some are missing
            "small": few.astype(np.float32),
            "word": pd.Categorical(np.array(["a", "b", "3.0", "c"])[few]),
            "day": (start.normalize() + pd.to_timedelta(few, "D")).date,
            "at": far.where(~none),
            "local": far.dt.tz_localize("Europe/Zurich"),
        }
    )


@pytest.mark.parametrize("holder", ["pandas CSV", "arrow CSV", "pandas rows", "arrow rows"])
def test_the_same_values_are_encoded_alike_whatever_holds_them(holder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = typed_rows()
    rows.to_parquet(tmp_path / "log.parquet")
    schema = load(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    table = pq.read_table(tmp_path / "log.parquet")
    expected = schema.encode(table.combine_chunks().to_batches()[0])
    dense = ["price", "at", "local"]
    assert [column.name for column in schema.dense] == dense
    assert [column.name for column in schema.identifiers] == [n for n in rows if n not in ("click", *dense)]
    assert all(len(np.unique(column)) > 1 for column in expected.T)

    schema.save_vocabularies(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"table": page._table(schema)}))
    monkeypatch.setattr(_table, "HERE", tmp_path)
    _table.table.cache_clear()
    if holder == "pandas rows":
        found = _table.encode(rows.to_dict("records"))
    elif holder == "arrow rows":
        found = _table.encode(table.to_pylist())
    else:
        if holder == "pandas CSV":
            rows.to_csv(tmp_path / "log.csv", index=False)
        else:
            plain = [column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table]
            pcsv.write_csv(pa.table(dict(zip(table.column_names, plain, strict=True))), tmp_path / "log.csv")
        found = np.stack([row for _, row in _table.samples(tmp_path / "log.csv")])
    _table.table.cache_clear()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_same_identifiers_are_learned_from_a_csv_and_from_a_parquet_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = typed_rows().drop(columns=["day", "at", "local"])  # in a CSV file moments are words
    rows.to_parquet(tmp_path / "log.parquet")
    rows.to_csv(tmp_path / "log.csv", index=False)
    one, other = (load(f"{kind}:{tmp_path}/log.{kind}", Task("any", (1,), 1)) for kind in ("csv", "parquet"))
    assert one.task.vocabularies == other.task.vocabularies
    for part, found in other.parts.items():
        np.testing.assert_allclose(one.parts[part].values, found.values, atol=1e-5)


def test_the_page_says_how_moments_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    typed_rows().to_parquet(tmp_path / "log.parquet")
    schema = load(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    assert "- moments among them: `day`, `at`, `local`; written as 2014-10-21 07:00:00, in UTC" in page._columns(schema)


def test_rows_that_another_version_encoded_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    typed_rows().to_parquet(tmp_path / "log.parquet")
    load(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema.save(tmp_path)
    assert load_schema(tmp_path).label == "click"
    told = json.loads((tmp_path / SCHEMA).read_text())
    (tmp_path / SCHEMA).write_text(json.dumps({name: value for name, value in told.items() if name != "version"}))
    with pytest.raises(UsageError, match=r"is of another version, which encoded rows in another way; train anew"):
        load_schema(tmp_path)
