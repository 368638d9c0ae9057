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
    told = {"label": "click", "missing": ["", "NA"], "moments": [], "decimal": ".", "dense": dense, "identifiers": ids}
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
        {"shown": pd.NA, "user": pd.NA, "code": pd.NaT},
    ]
    at = [known.index(_table.hashed(text)) + 1 for text in ("u1", "")]
    seven, missing = _table.hashed("7") % 10, _table.hashed("") % 10
    half = math.log(3) / 2
    expected = [
        [half, at[0], seven],
        [-3 * half, at[1], seven],
        [0, at[1], missing],
        [0, 0, missing],
        [0, at[1], missing],
    ]
    found = _table.encode(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(KeyError, match="user"):
        _table.encode([{"shown": 1, "code": 2}])


@pytest.fixture
def commas(known):
    """The same columns, of a table whose numbers have a decimal comma."""
    _table.table()["decimal"] = ","


def test_a_decimal_comma_is_read_where_training_read_one(commas):
    rows = [{"shown": shown, "user": "u1", "code": code} for shown, code in (("8,0", "7,0"), ("8.0", "7"), (8.0, 7.0))]
    found = _table.encode([*rows, {"shown": "1.234", "user": "u1", "code": "1.234"}])
    assert found[:3, 0] == pytest.approx([math.log(3) / 2] * 3)  # log(9) = 2 log(3)
    assert set(found[:3, 2]) == {_table.hashed("7") % 10}
    assert (found[3, 0], found[3, 2]) == (0, _table.hashed("1,234") % 10)  # nobody knows whether it is a thousand


@pytest.mark.parametrize("text", ["3,5", " -3,5 ", "1,5e3", "3.5", "1.234", "1.234,5", "a,b", "2014-10-21 07:00,5", ""])
def test_commas_and_points_are_what_they_are_in_training(commas, text):
    assert [_table.pointed(text)] == _values.pointed(pa.array([text])).to_pylist()


def rows_of(path, shown):
    path.write_text("shown;user;code\n" + "".join(f"{text};u1;7\n" for text in shown))
    return path


def test_text_among_numbers_is_told_and_counts_as_missing(known, tmp_path, capsys):
    """A tenth of the values that are there, and whatever there is among fewer than ten rows."""
    missing = ["", "NA", "nan", " ", "NULL", "\\N"]
    path = rows_of(tmp_path / "tenth.csv", ["oops", *map(str, range(8)), "inf", *missing])
    assert len(list(_table.samples(path))) == 10 + len(missing)
    told = "1 of 10 values of shown, such as 'oops', are not a number like 3.5 and count as missing\n"
    assert capsys.readouterr().err == f"{path}: {told}"
    path = rows_of(tmp_path / "few.csv", ["3,5"] * 9)
    assert [row[0] for _, row in _table.samples(path)] == [0] * 9
    assert "9 of 9 values of shown, such as '3,5'," in capsys.readouterr().err
    assert len(list(_table.samples(rows_of(tmp_path / "empty.csv", [""] * 20)))) == 20
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shown", [["oops", "1_000", *map(str, range(17))], [""] * 10 + ["8,0"]])
def test_more_text_than_a_tenth_of_a_column_is_refused_before_anything_is_said(known, tmp_path, shown):
    """Two of 19, and one of one."""
    with pytest.raises(ValueError, match=r"of shown, such as '(oops|8,0)', are not a number like 3\.5$"):
        next(_table.samples(rows_of(tmp_path / "rows.csv", shown)))


def test_a_decimal_comma_is_no_text_where_training_read_one(commas, tmp_path, capsys):
    found = [row[0] for _, row in _table.samples(rows_of(tmp_path / "euro.csv", ["8,0"] * 20))]
    assert found == pytest.approx([math.log(3) / 2] * 20)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match=r"such as '1\.234', are not a number like 3,5$"):
        next(_table.samples(rows_of(tmp_path / "thousands.csv", ["1.234"] * 20)))


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


def test_a_moment_that_is_none_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = typed_rows()
    rows.to_parquet(tmp_path / "log.parquet")
    schema = load(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    schema.save_vocabularies(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"table": page._table(schema)}))
    monkeypatch.setattr(_table, "HERE", tmp_path)
    _table.table.cache_clear()
    rows["at"] = ["soon", *rows["at"].astype(str)[1:]]
    rows.to_csv(tmp_path / "log.csv", index=False)
    list(_table.samples(tmp_path / "log.csv"))
    _table.table.cache_clear()
    there = 1 + typed_rows()["at"][1:].count()
    wanted = f"1 of {there} values of at, such as 'soon', are not a moment like 2014-10-21 07:00:00"
    assert wanted in capsys.readouterr().err


def test_the_page_says_that_numbers_have_a_decimal_comma(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = "".join(f"{i % 2};{i},5\n" for i in range(100))
    (tmp_path / "log.csv").write_text(f"click;price\n{rows}")
    schema = load(f"csv:{tmp_path}/log.csv?decimal=comma", Task("any", (1,), 1)).schema
    assert "- numbers: `price`, written like 3,5; a missing one counts as the mean" in page._columns(schema)
    assert page._table(schema)["decimal"] == ","


def test_rows_that_another_version_encoded_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    typed_rows().to_parquet(tmp_path / "log.parquet")
    load(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema.save(tmp_path)
    assert load_schema(tmp_path).label == "click"
    told = json.loads((tmp_path / SCHEMA).read_text())
    (tmp_path / SCHEMA).write_text(json.dumps({name: value for name, value in told.items() if name != "version"}))
    with pytest.raises(UsageError, match=r"is of another version, which encoded rows in another way; train anew"):
        load_schema(tmp_path)
