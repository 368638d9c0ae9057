"""The exported table.py encodes values as training does."""

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

from untrained.data import load_data
from untrained.data.tables import values as training_values
from untrained.data.tables.schema import SCHEMA, load_schema
from untrained.errors import UsageError
from untrained.exports import documents, table_template
from untrained.types import Task


def test_hashes_of_texts_equal_those_of_training():
    texts = [
        "",
        "a",
        "seven77",
        "eight888",
        "nine99999",
        "sixteen_sixteen_",
        "f\u00fcnf \u20ac",
        "x" * 300,
    ]
    expected = pd.util.hash_array(
        np.array([text.encode() for text in texts], dtype=object), categorize=False
    )
    assert [table_template.hash_text(text) for text in texts] == expected.tolist()


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), (" 2 ", 2), ("-3e2", -300), (4, 4), (2.5, 2.5)]
)
def test_numbers_are_parsed(text, value):
    assert table_template.parse_number(text) == value


# Python reads full-width and Arabic digits and no-break spaces, and training did not.
NUMBERS_OF_PYTHON = ["1_000", "\uff11\uff12", "\u0663", "5\u00a0", "\u20075"]


@pytest.mark.parametrize("text", NUMBERS_OF_PYTHON)
def test_number_that_training_did_not_read_is_text(known_hashes, text):
    values, is_text = training_values.read_numbers(pa.array(["1.5", text]))
    assert (np.isnan(values[1]), is_text[1]) == (True, True)
    assert math.isnan(table_template.parse_number(text))
    assert not table_template.is_number(text, "shown")


@pytest.mark.parametrize("text", ["", "NA", "nan", "inf", "-inf", "oops", None, math.inf])
def test_other_text_is_a_missing_number(text):
    assert math.isnan(table_template.parse_number(text))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((5, 5.0, "5", "5.0", b"5.0", np.int8(5), np.float32(5), Decimal(5)), "5"),
        ((-3.0, "-3.0", -3), "-3"),
        ((1e15, 10**15, "1000000000000000.0"), "1000000000000000"),
        ((2.5e10, "2.5e+10", "2.5E10", 25 * 10**9), "25000000000"),
        ((1e20, "1e+20", 10**20), "1" + 20 * "0"),
        (("1e20",), "1e20"),  # may be a hexadecimal hash
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
def test_text_of_a_value_is_the_same_in_training_and_in_the_export(values, text):
    assert (
        {training_values.normalise_text(value) for value in values}
        == {table_template.convert_to_text(value) for value in values}
        == {text}
    )


def test_timestamps_are_microseconds_since_1970():
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
    assert {value: table_template.parse_timestamp(value) for value in moments} == moments
    assert [
        table_template.parse_timestamp(value)
        for value in ("", "soon", None, pd.NaT, np.datetime64("NaT"), math.nan)
    ] == [None] * 6


@pytest.fixture
def known_hashes(tmp_path, monkeypatch):
    """Write the config of a table: one number (after the logarithm mean log(3) and standard
    deviation 2) and two identifiers, the first with a vocabulary, which is returned."""
    dense = [{"name": "shown", "log": True, "mean": math.log(3), "std": 2.0}]
    ids = [{"name": "user", "size": 3}, {"name": "code", "size": 10}]
    config = {
        "label": "click",
        "missing": ["", "NA"],
        "timestamps": [],
        "decimal": ".",
        "dense": dense,
        "identifiers": ids,
    }
    (tmp_path / "config.json").write_text(json.dumps({"table": config}))
    words = np.sort(pd.util.hash_array(np.array([b"u1", b""], dtype=object), categorize=False))
    np.savez(tmp_path / "vocabularies.npz", **{"0": words})
    monkeypatch.setattr(table_template, "HERE", tmp_path)
    table_template.read_table_config.cache_clear()
    yield words.tolist()
    table_template.read_table_config.cache_clear()


def test_rows_are_encoded_as_computed_by_hand(known_hashes):
    rows = [
        {"shown": "8", "user": "u1", "code": "7"},  # log(9) = 2 log(3)
        {"shown": "-8", "user": "NA", "code": 7},
        {"shown": "oops", "user": None, "code": "NA"},
        {"shown": 2, "user": "u2", "code": ""},
        {"shown": pd.NA, "user": pd.NA, "code": pd.NaT},
    ]
    positions = [known_hashes.index(table_template.hash_text(text)) + 1 for text in ("u1", "")]
    seven = table_template.hash_text("7") % 10
    missing = table_template.hash_text("") % 10
    half = math.log(3) / 2
    expected = [
        [half, positions[0], seven],
        [-3 * half, positions[1], seven],
        [0, positions[1], missing],
        [0, 0, missing],
        [0, positions[1], missing],
    ]
    encoded = table_template.encode(rows)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, expected, atol=1e-6)
    with pytest.raises(KeyError, match="user"):
        table_template.encode([{"shown": 1, "code": 2}])


@pytest.fixture
def decimal_commas(known_hashes):
    """Change the config to numbers with a decimal comma."""
    table_template.read_table_config()["decimal"] = ","


def test_decimal_commas_are_read_if_training_had_them(decimal_commas):
    rows = [
        {"shown": shown, "user": "u1", "code": code}
        for shown, code in (("8,0", "7,0"), ("8.0", "7"), (8.0, 7.0))
    ]
    encoded = table_template.encode([*rows, {"shown": "1.234", "user": "u1", "code": "1.234"}])
    assert encoded[:3, 0] == pytest.approx([math.log(3) / 2] * 3)  # log(9) = 2 log(3)
    assert set(encoded[:3, 2]) == {table_template.hash_text("7") % 10}
    # 1.234 is ambiguous: it may be 1234.
    assert encoded[3, 0] == 0
    assert encoded[3, 2] == table_template.hash_text("1,234") % 10


@pytest.mark.parametrize(
    "text", ["3,5", " -3,5 ", "1,5e3", "3.5", "1.234", "1.234,5", "a,b", "2014-10-21 07:00,5", ""]
)
def test_commas_and_points_are_read_as_in_training(decimal_commas, text):
    assert [table_template.replace_decimal_comma(text)] == training_values.replace_decimal_comma(
        pa.array([text])
    ).to_pylist()


def write_rows(path, shown):
    path.write_text("shown;user;code\n" + "".join(f"{text};u1;7\n" for text in shown))
    return path


def test_text_among_numbers_is_reported_and_counts_as_missing(known_hashes, tmp_path, capsys):
    """Up to a tenth of the values, and any share among fewer than ten rows."""
    missing = ["", "NA", "nan", " ", "NULL", "\\N"]
    path = write_rows(tmp_path / "tenth.csv", ["oops", *map(str, range(8)), "inf", *missing])
    assert len(list(table_template.read_encoded_rows(path))) == 10 + len(missing)
    message = (
        "1 of 10 values of shown, such as 'oops', are not a number like 3.5 and count as missing\n"
    )
    assert capsys.readouterr().err == f"{path}: {message}"
    path = write_rows(tmp_path / "few.csv", ["3,5"] * 9)
    assert [row[0] for _, row in table_template.read_encoded_rows(path)] == [0] * 9
    assert "9 of 9 values of shown, such as '3,5'," in capsys.readouterr().err
    assert (
        len(list(table_template.read_encoded_rows(write_rows(tmp_path / "empty.csv", [""] * 20))))
        == 20
    )
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shown", [["oops", "1_000", *map(str, range(17))], [""] * 10 + ["8,0"]])
def test_column_with_more_than_a_tenth_of_text_is_refused_at_once(known_hashes, tmp_path, shown):
    """Two of 19 values are text, or the only one."""
    with pytest.raises(
        ValueError, match=r"of shown, such as '(oops|8,0)', are not a number like 3\.5$"
    ):
        next(table_template.read_encoded_rows(write_rows(tmp_path / "rows.csv", shown)))


def test_decimal_comma_is_not_text_if_training_had_them(decimal_commas, tmp_path, capsys):
    numbers = [
        row[0]
        for _, row in table_template.read_encoded_rows(
            write_rows(tmp_path / "euro.csv", ["8,0"] * 20)
        )
    ]
    assert numbers == pytest.approx([math.log(3) / 2] * 20)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match=r"such as '1\.234', are not a number like 3,5$"):
        next(
            table_template.read_encoded_rows(write_rows(tmp_path / "thousands.csv", ["1.234"] * 20))
        )


# ------------------------------------------------------------------- values of CSV files and of Python


def make_typed_rows() -> pd.DataFrame:
    """Make a column of each type that a parquet file may have, most with missing values."""
    draw = np.random.default_rng(0)
    rows = 400
    start = pd.Timestamp("2014-10-21 07:00:00")
    few = draw.integers(0, 4, rows)
    is_missing = draw.random(rows) < 0.1
    timestamps = pd.Series(start + pd.to_timedelta(draw.integers(0, 10**7, rows), "s"))
    return pd.DataFrame(
        {
            "click": draw.integers(0, 2, rows),
            "price": draw.normal(size=rows),
            "flag": draw.random(rows) < 0.5,
            "maybe": pd.array(np.where(is_missing, None, few > 1), "boolean"),
            "whole": few,
            "nullable": pd.array(np.where(is_missing, None, few), "Int64"),
            # pandas holds integers as floats if some are missing.
            "user_id": np.where(is_missing, np.nan, 10**14 + few),
            "small": few.astype(np.float32),
            "word": pd.Categorical(np.array(["a", "b", "3.0", "c"])[few]),
            "day": (start.normalize() + pd.to_timedelta(few, "D")).date,
            "at": timestamps.where(~is_missing),
            "local": timestamps.dt.tz_localize("Europe/Zurich"),
        }
    )


@pytest.mark.parametrize("origin", ["pandas CSV", "arrow CSV", "pandas rows", "arrow rows"])
def test_encoding_does_not_depend_on_the_origin_of_the_values(origin, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = make_typed_rows()
    rows.to_parquet(tmp_path / "log.parquet")
    schema = load_data(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    table = pq.read_table(tmp_path / "log.parquet")
    expected = schema.encode(table.combine_chunks().to_batches()[0])
    dense = ["price", "at", "local"]
    assert [column.name for column in schema.dense] == dense
    assert [column.name for column in schema.identifiers] == [
        n for n in rows if n not in ("click", *dense)
    ]
    assert all(len(np.unique(column)) > 1 for column in expected.T)

    schema.save_vocabularies(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"table": documents.make_table_config(schema)})
    )
    monkeypatch.setattr(table_template, "HERE", tmp_path)
    table_template.read_table_config.cache_clear()
    if origin == "pandas rows":
        encoded = table_template.encode(rows.to_dict("records"))
    elif origin == "arrow rows":
        encoded = table_template.encode(table.to_pylist())
    else:
        if origin == "pandas CSV":
            rows.to_csv(tmp_path / "log.csv", index=False)
        else:
            plain = [
                column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
                for column in table
            ]
            pcsv.write_csv(
                pa.table(dict(zip(table.column_names, plain, strict=True))), tmp_path / "log.csv"
            )
        encoded = np.stack(
            [row for _, row in table_template.read_encoded_rows(tmp_path / "log.csv")]
        )
    table_template.read_table_config.cache_clear()
    np.testing.assert_allclose(encoded, expected, atol=1e-5)


def test_csv_and_parquet_files_give_the_same_identifiers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # In a CSV file timestamps are text.
    rows = make_typed_rows().drop(columns=["day", "at", "local"])
    rows.to_parquet(tmp_path / "log.parquet")
    rows.to_csv(tmp_path / "log.csv", index=False)
    csv_source = load_data(f"csv:{tmp_path}/log.csv", Task("any", (1,), 1))
    parquet_source = load_data(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1))
    assert csv_source.task.vocabularies == parquet_source.task.vocabularies
    for name, part in parquet_source.parts.items():
        np.testing.assert_allclose(csv_source.parts[name].values, part.values, atol=1e-5)


def test_readme_says_how_timestamps_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_typed_rows().to_parquet(tmp_path / "log.parquet")
    schema = load_data(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    assert (
        "- timestamps among these: `day`, `at`, `local`; written as 2014-10-21 07:00:00, in UTC"
        in documents.describe_columns(schema)
    )


def test_text_in_a_column_of_timestamps_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = make_typed_rows()
    rows.to_parquet(tmp_path / "log.parquet")
    schema = load_data(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema
    schema.save_vocabularies(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"table": documents.make_table_config(schema)})
    )
    monkeypatch.setattr(table_template, "HERE", tmp_path)
    table_template.read_table_config.cache_clear()
    rows["at"] = ["soon", *rows["at"].astype(str)[1:]]
    rows.to_csv(tmp_path / "log.csv", index=False)
    list(table_template.read_encoded_rows(tmp_path / "log.csv"))
    table_template.read_table_config.cache_clear()
    value_count = 1 + make_typed_rows()["at"][1:].count()
    message = (
        f"1 of {value_count} values of at, such as 'soon', "
        "are not a timestamp like 2014-10-21 07:00:00"
    )
    assert message in capsys.readouterr().err


def test_readme_says_that_numbers_have_a_decimal_comma(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = "".join(f"{i % 2};{i},5\n" for i in range(100))
    (tmp_path / "log.csv").write_text(f"click;price\n{rows}")
    schema = load_data(f"csv:{tmp_path}/log.csv?decimal=comma", Task("any", (1,), 1)).schema
    assert (
        "- numbers: `price`, written with a decimal comma (3,5); a missing number is replaced by the mean"
        in documents.describe_columns(schema)
    )
    assert documents.make_table_config(schema)["decimal"] == ","


def test_schema_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_typed_rows().to_parquet(tmp_path / "log.parquet")
    load_data(f"parquet:{tmp_path}/log.parquet", Task("any", (1,), 1)).schema.save(tmp_path)
    assert load_schema(tmp_path).label == "click"
    content = json.loads((tmp_path / SCHEMA).read_text())
    (tmp_path / SCHEMA).write_text(
        json.dumps({name: value for name, value in content.items() if name != "version"})
    )
    with pytest.raises(
        UsageError, match=r"is of another version, which encoded rows in another way; train again"
    ):
        load_schema(tmp_path)
