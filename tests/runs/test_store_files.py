"""Files of stores: summary, export to tables, and merging two without doubled records."""

import csv
import os
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.engine.helpers import RECORD
from tests.records import change_record
from untrained import Arch, Record
from untrained.errors import UsageError
from untrained.runs import store_files as stores
from untrained.runs.store import Store
from untrained.types import Failure

CRASHED = change_record(
    RECORD, seed=7, value=None, error=Failure("crashed", "its worker died", "a trace")
)
RECORDS = [
    change_record(RECORD, value=0.1 + 0.2),
    change_record(RECORD, seed=1, value=-1e-300, note="out of memory on 8 samples: measured on 4"),
    change_record(RECORD, seed=2, value=None, error=Failure("nan", 'say "no", never\na number')),
    change_record(
        RECORD, seed=3, value=2.0**60, device="cuda", peak_bytes=2**40, transfer_seconds=0.125
    ),
    change_record(
        RECORD, arch=Arch("tiny", (("width", 9),), "|a~0|+|b,c~1|"), measure="params@2", value=3.0
    ),
    CRASHED,
]


def write_store(path: Path, records: list[Record]) -> Path:
    with Store(path) as store:
        store.add(records)
    return path


def read_store(path: Path) -> list[Record]:
    with Store(path, must_exist=True) as store:
        return list(store)


def test_info_counts_architectures_records_and_failures(tmp_path):
    path = write_store(tmp_path / "s.sqlite", RECORDS)
    facts = stores.describe_store(path)
    assert facts.pop("bytes") == path.stat().st_size
    assert facts == {
        "store": str(path),
        "architectures": 2,
        "records": 6,
        "measures": {"mine@1": 5, "params@2": 1},
        "failures": {"nan": 1, "crashed": 1},
    }


def test_a_run_folder_stands_for_its_store(tmp_path):
    write_store(tmp_path / "run" / "records.sqlite", RECORDS)
    assert stores.describe_store(tmp_path / "run") == stores.describe_store(
        tmp_path / "run" / "records.sqlite"
    )


def test_a_folder_with_several_stores_stands_for_the_latest(tmp_path):
    for age, name in enumerate(("records-new.sqlite", "records-old.sqlite")):
        write_store(tmp_path / "run" / name, RECORDS[: 2 - age])
        os.utime(tmp_path / "run" / name, (1e9 - age, 1e9 - age))
    assert stores.describe_store(tmp_path / "run")["store"] == str(
        tmp_path / "run" / "records-new.sqlite"
    )


@pytest.mark.parametrize("where", ["absent", "absent.sqlite", "empty"])
def test_a_missing_store_is_not_created(tmp_path, where):
    (tmp_path / "empty").mkdir()
    for work in (
        lambda: stores.describe_store(tmp_path / where),
        lambda: stores.export_store(tmp_path / where, tmp_path / "o.csv"),
        lambda: stores.merge_stores(tmp_path / where, [tmp_path / "other"]),
    ):
        with pytest.raises(
            UsageError,
            match=r"there is no store at .*; a run folder holds one called records\.sqlite",
        ):
            work()
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def read_table(path: Path) -> pd.DataFrame:
    exact = {"value": lambda text: float(text) if text else None}  # pandas may round the last digit
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, converters=exact)


def is_same_cell(cell: Any, expected: Any) -> bool:
    return pd.isna(cell) if expected in (None, "") else cell == expected


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "new/folder/out.csv"])
def test_an_export_holds_the_same_values(tmp_path, name):
    assert stores.export_store(write_store(tmp_path / "s.sqlite", RECORDS), tmp_path / name) == 6
    frame = read_table(tmp_path / name)
    assert list(frame.columns) == list(RECORD.row())
    assert len(frame) == 6
    for (_, row), record in zip(frame.iterrows(), RECORDS, strict=True):
        for column, expected in record.row().items():
            if not (column in ("note", "code") and name.endswith("parquet")):
                assert is_same_cell(row[column], expected), (column, row[column], expected)
    assert frame.error[2] == 'nan: say "no", never\na number'
    assert list(frame.value.isna()) == [False, False, True, False, False, True]
    assert frame.note[1] == "out of memory on 8 samples: measured on 4"
    assert frame.value[0] == 0.1 + 0.2  # to the last bit
    assert not list(tmp_path.rglob("*.part"))


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'quoted",
    "''=1",
    "plain",
    "1=1",
    "",
    " =1",
]


def test_a_csv_file_holds_no_formulas_and_every_text_can_be_restored(tmp_path):
    records = [
        change_record(RECORD, seed=k, note=text, value=-1.5 * k) for k, text in enumerate(FORMULAS)
    ]
    path = write_store(tmp_path / "s.sqlite", records)
    stores.export_store(path, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for name, cell in row.items():
            if name != "value":
                assert cell[:1] not in set("=+-@\t\r")
    # Numbers stay numbers
    assert [float(row["value"]) for row in rows] == [record.value for record in records]
    assert [row["note"].removeprefix("'") for row in rows] == FORMULAS
    stores.export_store(path, tmp_path / "out.parquet")
    assert list(pd.read_parquet(tmp_path / "out.parquet").note) == FORMULAS


def test_a_long_store_is_exported_and_merged_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "_RECORDS_IN_MEMORY", 7)
    records = [change_record(RECORD, seed=seed, value=float(seed)) for seed in range(50)]
    path = write_store(tmp_path / "s.sqlite", records)
    assert stores.export_store(path, tmp_path / "out.parquet") == 50
    assert list(read_table(tmp_path / "out.parquet").value) == [r.value for r in records]
    assert stores.merge_stores(write_store(tmp_path / "t.sqlite", []), [path]) == 50
    assert read_store(tmp_path / "t.sqlite") == records


def test_an_empty_store_is_a_table_without_rows(tmp_path):
    path = write_store(tmp_path / "s.sqlite", [])
    for name in ("out.parquet", "out.csv"):
        assert stores.export_store(path, tmp_path / name) == 0
        assert list(read_table(tmp_path / name).columns) == list(RECORD.row())
    assert stores.describe_store(path)["records"] == 0


def test_an_export_that_fails_leaves_the_former_file(tmp_path):
    path = write_store(tmp_path / "s.sqlite", RECORDS)
    (tmp_path / "out.csv").write_text("the former file")
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE archs SET genes = '[[' WHERE id = 2")
    db.close()
    with pytest.raises(UsageError, match="malformed record"):
        stores.export_store(path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "the former file"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["out.xlsx", "out", "folder/"])
def test_the_error_for_an_export_without_a_format_lists_the_formats(tmp_path, name):
    path = write_store(tmp_path / "s.sqlite", RECORDS)
    with pytest.raises(
        UsageError, match=r"has an unknown format; use a name that ends in \.parquet or \.csv"
    ):
        stores.export_store(path, tmp_path / name)


def test_the_error_names_an_export_that_cannot_be_written(tmp_path):
    path = write_store(tmp_path / "s.sqlite", RECORDS)
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    for out in (tmp_path / "file" / "out.csv", tmp_path / "folder.csv"):
        with pytest.raises(UsageError, match="cannot be written") as caught:
            stores.export_store(path, out)
        assert str(caught.value).startswith(str(out))
        assert "\n" not in str(caught.value)


def test_two_stores_are_merged_without_doubled_records(tmp_path):
    ours = write_store(tmp_path / "a.sqlite", [RECORD, RECORDS[1]])
    theirs = write_store(tmp_path / "b.sqlite", [change_record(RECORD, value=99.0), *RECORDS[2:5]])
    before = theirs.read_bytes()
    assert stores.merge_stores(ours, [theirs]) == 3
    # Existing records stay as they are
    assert read_store(ours) == [
        RECORD,
        RECORDS[1],
        *RECORDS[2:5],
    ]
    assert theirs.read_bytes() == before
    assert stores.merge_stores(ours, [theirs, theirs]) == 0
    assert read_store(ours) == [RECORD, RECORDS[1], *RECORDS[2:5]]


def test_several_stores_are_merged_in_their_order(tmp_path):
    into = write_store(tmp_path / "a.sqlite", [])
    one = write_store(tmp_path / "b.sqlite", [RECORD])
    other = write_store(tmp_path / "c.sqlite", [change_record(RECORD, value=9.0), RECORDS[4]])
    assert stores.merge_stores(into, [one, other]) == 2
    assert read_store(into) == [RECORD, RECORDS[4]]


def test_only_failures_of_the_machine_are_replaced(tmp_path):
    repaired = change_record(CRASHED, value=5.0, error=None)
    ours = write_store(tmp_path / "a.sqlite", [CRASHED, RECORDS[2]])
    theirs = write_store(
        tmp_path / "b.sqlite", [repaired, change_record(RECORDS[2], value=1.0, error=None)]
    )
    stores.merge_stores(ours, [theirs])
    assert read_store(ours) == [repaired, RECORDS[2]]  # a failure of the network itself stays
    stores.merge_stores(ours, [write_store(tmp_path / "c.sqlite", [CRASHED])])
    assert read_store(ours) == [repaired, RECORDS[2]]  # a crash replaces no value


def test_a_store_is_not_merged_into_itself(tmp_path):
    write_store(tmp_path / "run" / "records.sqlite", RECORDS)
    with pytest.raises(UsageError, match="is the store to merge into; name a different one"):
        stores.merge_stores(tmp_path / "run", [tmp_path / "run" / ".." / "run" / "records.sqlite"])
    assert read_store(tmp_path / "run" / "records.sqlite") == RECORDS


def test_a_damaged_store_is_refused_and_the_other_is_not_changed(tmp_path):
    ours = write_store(tmp_path / "a.sqlite", RECORDS)
    theirs = tmp_path / "b.sqlite"
    theirs.write_text("not a store, " * 300)
    with pytest.raises(UsageError, match=r"b\.sqlite cannot be used as a store"):
        stores.merge_stores(ours, [theirs])
    assert read_store(ours) == RECORDS
