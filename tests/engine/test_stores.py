"""Finished stores: what is in one, tables that others can read, and two put together without a double."""

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
from untrained.engine import Store, stores
from untrained.errors import UsageError
from untrained.types import Failure

CRASHED = change_record(RECORD, seed=7, value=None, error=Failure("crashed", "its worker died", "a trace"))
SEVERAL = [
    change_record(RECORD, value=0.1 + 0.2),
    change_record(RECORD, seed=1, value=-1e-300, note="out of memory on 8 samples: measured on 4"),
    change_record(RECORD, seed=2, value=None, error=Failure("nan", 'say "no", never\na number')),
    change_record(RECORD, seed=3, value=2.0**60, device="cuda", peak_bytes=2**40, transfer_seconds=0.125),
    change_record(RECORD, arch=Arch("tiny", (("width", 9),), "|a~0|+|b,c~1|"), measure="params@2", value=3.0),
    CRASHED,
]


def made(path: Path, records: list[Record]) -> Path:
    with Store(path) as store:
        store.add(records)
    return path


def contents(path: Path) -> list[Record]:
    with Store(path, existing=True) as store:
        return list(store)


def test_info_counts_what_there_is(tmp_path):
    path = made(tmp_path / "s.sqlite", SEVERAL)
    facts = stores.info(path)
    assert facts.pop("bytes") == path.stat().st_size
    assert facts == {
        "store": str(path),
        "architectures": 2,
        "records": 6,
        "measures": {"mine@1": 5, "params@2": 1},
        "failures": {"nan": 1, "crashed": 1},
    }


def test_a_run_folder_stands_for_its_store(tmp_path):
    made(tmp_path / "run" / "records.sqlite", SEVERAL)
    assert stores.info(tmp_path / "run") == stores.info(tmp_path / "run" / "records.sqlite")


def test_of_several_stores_in_a_folder_it_stands_for_the_one_that_was_written_last(tmp_path):
    for age, name in enumerate(("records-new.sqlite", "records-old.sqlite")):
        made(tmp_path / "run" / name, SEVERAL[: 2 - age])
        os.utime(tmp_path / "run" / name, (1e9 - age, 1e9 - age))
    assert stores.info(tmp_path / "run")["store"] == str(tmp_path / "run" / "records-new.sqlite")


@pytest.mark.parametrize("where", ["absent", "absent.sqlite", "empty"])
def test_what_must_exist_is_not_made(tmp_path, where):
    (tmp_path / "empty").mkdir()
    for work in (
        lambda: stores.info(tmp_path / where),
        lambda: stores.export(tmp_path / where, tmp_path / "o.csv"),
        lambda: stores.merge(tmp_path / where, [tmp_path / "other"]),
    ):
        with pytest.raises(UsageError, match=r"there is no store at .*; a run folder holds one called records\.sqlite"):
            work()
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def read(path: Path) -> pd.DataFrame:
    exact = {"value": lambda text: float(text) if text else None}  # pandas may round the last digit
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, converters=exact)


def same(found: Any, wanted: Any) -> bool:
    return pd.isna(found) if wanted in (None, "") else found == wanted


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "new/folder/out.csv"])
def test_an_export_reads_back_equal(tmp_path, name):
    assert stores.export(made(tmp_path / "s.sqlite", SEVERAL), tmp_path / name) == 6
    frame = read(tmp_path / name)
    assert list(frame.columns) == list(RECORD.row())
    assert len(frame) == 6
    for (_, found), record in zip(frame.iterrows(), SEVERAL, strict=True):
        for column, wanted in record.row().items():
            if not (column in ("note", "code") and name.endswith("parquet")):
                assert same(found[column], wanted), (column, found[column], wanted)
    assert frame.error[2] == 'nan: say "no", never\na number'
    assert list(frame.value.isna()) == [False, False, True, False, False, True]
    assert frame.note[1] == "out of memory on 8 samples: measured on 4"
    assert frame.value[0] == 0.1 + 0.2  # to the last bit
    assert not list(tmp_path.rglob("*.part"))


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'quoted", "''=1", "plain", "1=1", "", " =1"]


def test_a_spreadsheet_finds_no_formula_in_a_csv_file_and_every_text_can_be_had_back(tmp_path):
    records = [change_record(RECORD, seed=k, note=text, value=-1.5 * k) for k, text in enumerate(FORMULAS)]
    path = made(tmp_path / "s.sqlite", records)
    stores.export(path, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert not [cell for row in rows for name, cell in row.items() if name != "value" and cell[:1] in set("=+-@\t\r")]
    assert [float(row["value"]) for row in rows] == [record.value for record in records]  # numbers stay numbers
    assert [row["note"].removeprefix("'") for row in rows] == FORMULAS
    stores.export(path, tmp_path / "out.parquet")
    assert list(pd.read_parquet(tmp_path / "out.parquet").note) == FORMULAS


def test_a_long_store_is_exported_and_merged_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "_AT_ONCE", 7)
    records = [change_record(RECORD, seed=seed, value=float(seed)) for seed in range(50)]
    path = made(tmp_path / "s.sqlite", records)
    assert stores.export(path, tmp_path / "out.parquet") == 50
    assert list(read(tmp_path / "out.parquet").value) == [r.value for r in records]
    assert stores.merge(made(tmp_path / "t.sqlite", []), [path]) == 50
    assert contents(tmp_path / "t.sqlite") == records


def test_an_empty_store_is_a_table_without_rows(tmp_path):
    path = made(tmp_path / "s.sqlite", [])
    for name in ("out.parquet", "out.csv"):
        assert stores.export(path, tmp_path / name) == 0
        assert list(read(tmp_path / name).columns) == list(RECORD.row())
    assert stores.info(path)["records"] == 0


def test_an_export_is_there_whole_or_not_at_all(tmp_path):
    path = made(tmp_path / "s.sqlite", SEVERAL)
    (tmp_path / "out.csv").write_text("what was there before")
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE archs SET genes = '[[' WHERE id = 2")
    db.close()
    with pytest.raises(UsageError, match="malformed record"):
        stores.export(path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "what was there before"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["out.xlsx", "out", "folder/"])
def test_an_export_without_a_format_says_which_there_are(tmp_path, name):
    path = made(tmp_path / "s.sqlite", SEVERAL)
    with pytest.raises(UsageError, match=r"says no format; end it in \.parquet or \.csv"):
        stores.export(path, tmp_path / name)


def test_an_export_that_cannot_be_written_is_named(tmp_path):
    path = made(tmp_path / "s.sqlite", SEVERAL)
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    for out in (tmp_path / "file" / "out.csv", tmp_path / "folder.csv"):
        with pytest.raises(UsageError, match="cannot be written") as caught:
            stores.export(path, out)
        assert str(caught.value).startswith(str(out))
        assert "\n" not in str(caught.value)


def test_two_stores_are_put_together_without_a_double(tmp_path):
    ours = made(tmp_path / "a.sqlite", [RECORD, SEVERAL[1]])
    theirs = made(tmp_path / "b.sqlite", [change_record(RECORD, value=99.0), *SEVERAL[2:5]])
    before = theirs.read_bytes()
    assert stores.merge(ours, [theirs]) == 3
    assert contents(ours) == [RECORD, SEVERAL[1], *SEVERAL[2:5]]  # what was known stays as it was
    assert theirs.read_bytes() == before
    assert stores.merge(ours, [theirs, theirs]) == 0
    assert contents(ours) == [RECORD, SEVERAL[1], *SEVERAL[2:5]]


def test_several_stores_are_read_in_their_order(tmp_path):
    into = made(tmp_path / "a.sqlite", [])
    one = made(tmp_path / "b.sqlite", [RECORD])
    other = made(tmp_path / "c.sqlite", [change_record(RECORD, value=9.0), SEVERAL[4]])
    assert stores.merge(into, [one, other]) == 2
    assert contents(into) == [RECORD, SEVERAL[4]]


def test_what_only_the_machine_had_failed_is_replaced(tmp_path):
    cured = change_record(CRASHED, value=5.0, error=None)
    ours = made(tmp_path / "a.sqlite", [CRASHED, SEVERAL[2]])
    theirs = made(tmp_path / "b.sqlite", [cured, change_record(SEVERAL[2], value=1.0, error=None)])
    stores.merge(ours, [theirs])
    assert contents(ours) == [cured, SEVERAL[2]]  # a failure of the network itself stays
    stores.merge(ours, [made(tmp_path / "c.sqlite", [CRASHED])])
    assert contents(ours) == [cured, SEVERAL[2]]  # and no value is lost to a crash


def test_a_store_is_not_merged_into_itself(tmp_path):
    made(tmp_path / "run" / "records.sqlite", SEVERAL)
    with pytest.raises(UsageError, match="is the store to merge into; name another one"):
        stores.merge(tmp_path / "run", [tmp_path / "run" / ".." / "run" / "records.sqlite"])
    assert contents(tmp_path / "run" / "records.sqlite") == SEVERAL


def test_a_damaged_store_spoils_neither(tmp_path):
    ours, theirs = made(tmp_path / "a.sqlite", SEVERAL), tmp_path / "b.sqlite"
    theirs.write_text("no store at all, " * 300)
    with pytest.raises(UsageError, match=r"b\.sqlite cannot be used as a store"):
        stores.merge(ours, [theirs])
    assert contents(ours) == SEVERAL
