"""Malformed tables: each is refused in one line, or read and reported on its card."""

import gzip
import subprocess
import sys
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.logs import ANY, HEADER, format_rows, list_problems, make_log, open_table, write_csv
from untrained.data import load_data
from untrained.data.tables import reader as _reader
from untrained.errors import UsageError

ROWS = format_rows(make_log())
GOOD = "\n".join([HEADER, *ROWS, ""])

REFUSED = {
    "wrong label": ("?label=user&task=binary", GOOD, "the label user holds 'u"),
    "no such label": ("?label=clik", GOOD, "no column is called 'clik'; did you mean click?"),
    "a number as label": (
        "?label=count&task=binary",
        GOOD,
        r"the label count also has the value \d+; expected 0 and 1\. .*label=count&above="
        f"{median([row[3] for row in make_log()]):.3g}'",
    ),
    "shares as label": (
        "?label=share&task=binary",
        "\n".join(["user,share", *(f"u{i % 7},{i / 300}" for i in range(300))]),
        "label=share&above=0.498';",  # 149.5 / 300 is 0.49833
    ),
    "mostly the highest number": (
        "?label=stars&task=binary",
        "\n".join(["user,stars", *(f"u{i % 7},{i % 5 + 1 if i < 100 else 5}" for i in range(300))]),
        "label=stars&above=3'",  # of 1 to 5; nothing is above the middle row
    ),
    "numbers that three digits do not tell apart": (
        "?label=stamp&task=binary",
        "\n".join(["user,stamp", *(f"u{i % 7},{1_234_567 + i % 3}" for i in range(300))]),
        "label=stamp&above=1234568'",
    ),
    "no finite label": (
        "",
        GOOD.replace("\n1,", "\ninf,"),
        r"of 300 rows of .* are bad; line \d+: .* click is 'inf'",
    ),
    "several classes": (
        "?label=kind&task=binary",
        "\n".join(["user,kind", *(f"u{i % 7},{'abc'[i % 3]}" for i in range(300))]),
        "kind holds 'a', 'b', 'c'; expected 0 and 1, .*; for more than two classes add --task classification$",
    ),
    "two other words": (
        "?label=kind&task=binary",
        "\n".join(["user,kind", *(f"u{i % 7},{['a', 'b', ''][i % 3]}" for i in range(300))]),
        "kind holds 'a', 'b', nothing; expected 0 and 1, false and true or no and yes$",
    ),
    "no label": (
        "",
        GOOD.replace("click", "bought"),
        "name the label column.* available: bought, user, price, count",
    ),
    "empty labels": (
        "",
        "\n".join([HEADER, *(row[1:] for row in ROWS)]),
        "the label click is empty in the first rows; expected 0 and 1",
    ),
    "two labels": ("", GOOD.replace("click", "label").replace("count", "target"), None),
    "three values": (
        "",
        GOOD + "2,u1,0.5,3\n",
        "the label click also has the value 2; expected 0 and 1",
    ),
    "one class": (
        "",
        "\n".join([HEADER, *("0" + row[1:] for row in ROWS)]),
        "all 300 rows of .* have the label 0",
    ),
    "text in a dense column": (
        "?dense=user",
        GOOD,
        r"100 % of the values of user are text, such as 'u.*' \(line 2\); .* write categorical=us",
    ),
    "empty": ("", "", "is empty; a table has a header and rows"),
    "blank": ("", "\n\n \n", "is empty"),
    "header only": ("", HEADER + "\n", "has a header and no rows"),
    "header without an end": ("", HEADER, "has a header and no rows"),
    "all other separators": (
        "",
        HEADER + "\n" + "\n".join(ROWS).replace(",", ";"),
        "no rows that fit it; line 2: 1 fie",
    ),
    "many other separators": (
        "",
        GOOD.replace(",u1", ";u1"),
        r"\d+ of 300 rows of .* are bad; line \d+: 3 fields",
    ),
    "duplicate header": (
        "",
        GOOD.replace("price", "user", 1),
        "has more than one column called user; rename them",
    ),
    "no header": (
        "",
        "\n".join("1,2,3" for _ in range(50)),
        "first line of .* holds numbers; it must name the columns",
    ),
    "one column": (
        "",
        "click\n0\n1\n",
        "has one column, 'click'; a table has a label and other columns, separated by comma",
    ),
    "UTF-16": ("", GOOD.encode("utf-16"), "is UTF-16; save it as UTF-8"),
    "not text": ("", bytes(range(256)) * 20, "is not a text file; csv:PATH reads lines of text"),
    "few rows": (
        "",
        "\n".join([HEADER, *ROWS[:4]]),
        "4 rows of .* are too few to train and test on",
    ),
    "a quotation mark never closed": (
        "",
        GOOD.replace(ROWS[9], '1,"u1,2.5,3'),
        r"and \d+ more lines",
    ),
    "nothing left": (
        "?drop=user,price,count",
        GOOD,
        r"no column left to learn from; dropped: user \(named in drop\)",
    ),
    "no moments": (
        "?time=user",
        GOOD,
        "time=user: 'u\\d+' is not a time; expected numbers or dates",
    ),
    "two roles": (
        "?drop=user&dense=user",
        GOOD,
        "user: each of these columns is named in two roles",
    ),
    "no such option": (
        "?lable=click",
        GOOD,
        "no option of a table is called 'lable'; did you mean label",
    ),
    "half an option": ("?label", GOOD, "label has no value; write label="),
    "no number": ("?floor=two", GOOD, "floor=two is not a whole number"),
    "no whole number": (
        "?floor=1.5",
        GOOD,
        "floor=1.5 is not a whole number; write it like floor=10",
    ),
    "no threshold": ("?above=big", GOOD, "above=big is not a number; write it like above=3.5"),
    "a threshold that is nan": ("?above=nan", GOOD, "above=nan is not a number"),
    "an option twice": ("?drop=a&drop=b", GOOD, "drop is given twice; write it once, with commas"),
    "no floor": ("?floor=0", GOOD, "floor=0 is too small"),
    "too many buckets": (
        "?hash=16777216",
        GOOD,
        "hash=16777216 is impossible; write a number from 2 to 16777215",
    ),
    "no such logarithm": ("?log=some", GOOD, "no value of log is called 'some'"),
    "no such decimal sign": (
        "?decimal=semicolon",
        GOOD,
        "no decimal sign is called 'semicolon'; .*comma",
    ),
    "a break in the header": (
        "",
        GOOD.replace("user", '"us\ner"', 1),
        "has a line break inside of a name",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(name, tmp_path):
    query, content, message = REFUSED[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if message is None:  # two columns have the name of a label, and their values decide
        assert open_table(path, query).card().facts["label"].startswith("label; ")
        return
    with pytest.raises(UsageError, match=message) as raised:
        open_table(path, query)
    assert "\n" not in str(raised.value)


def test_a_path_that_is_not_a_file_is_refused(tmp_path):
    messages = {
        "csv": "name the file: csv:PATH",
        "csv:?label=click": r"name the file: csv:PATH, such as --data csv:./clicks.csv",
        "criteo:": r"name the file: criteo:PATH, such as --data criteo:./train.txt",
        "kdd2012:": r"name the file: kdd2012:PATH, such as --data kdd2012:./training.txt",
        f"csv:{tmp_path}": "is a folder; name a file in it",
        f"csv:{tmp_path}/none.csv": "there is no file",
        f"parquet:{tmp_path}": "is a folder",
        f"parquet:{tmp_path}/none.parquet": "there is no file",
    }
    for name, message in messages.items():
        with pytest.raises(UsageError, match=message):
            load_data(name, ANY)


@pytest.mark.parametrize("content", [GOOD.encode(), gzip.compress(GOOD.encode())[:900]])
def test_a_damaged_gzip_file_is_refused(tmp_path, content):
    (tmp_path / "bad.csv.gz").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        open_table(tmp_path / "bad.csv.gz")


def test_an_invalid_or_empty_parquet_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot be read: .*not a parquet file"):
        load_data(f"parquet:{write_csv(tmp_path / 'bad.parquet', ROWS)}", ANY)
    pq.write_table(
        pa.table({"click": pa.array([], pa.int64()), "x": pa.array([], pa.int64())}),
        tmp_path / "no.parquet",
    )
    with pytest.raises(UsageError, match="no rows"):
        load_data(f"parquet:{tmp_path}/no.parquet", ANY)


def test_a_row_longer_than_a_block_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 2**10)
    rows = [*ROWS, '1,"' + "x" * 5000]
    with pytest.raises(UsageError, match="most likely a quotation mark is never closed"):
        open_table(write_csv(tmp_path / "long.csv", rows))


# --------------------------------------------------------------------------------- read, and reported on the card


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace(",", ", ").encode(),
        GOOD.replace("u1,", '"u\n1",').encode(),
        GOOD.replace("u1,", '"u,""1",').encode(),
        GOOD.replace("u1,", "\xe9t\xe9,").encode("latin-1"),
        GOOD.replace("user", "\xe9t\xe9").encode("latin-1"),
        GOOD.replace("user", "").encode(),
        b"\n\n" + GOOD.encode(),
        gzip.compress(GOOD.encode()),
    ],
    ids="BOM,CRLF,spaces,quoted breaks,quoted commas,latin,latin header,no name,blank lines,gzip".split(
        ","
    ),
)
def test_variants_of_the_csv_format_give_the_same_rows(tmp_path, content):
    path = tmp_path / ("log.csv.gz" if content.startswith(b"\x1f\x8b") else "log.csv")
    path.write_bytes(content)
    plain = open_table(write_csv(tmp_path / "plain.csv", ROWS))
    source = open_table(path)
    assert source.task.vocabularies == plain.task.vocabularies
    assert source.card().facts == plain.card().facts
    batches = source.parts["train"].batches(300)
    plain_batches = plain.parts["train"].batches(300)
    for batch, plain_batch in zip(batches, plain_batches, strict=True):
        assert (batch.inputs[:, :2] == plain_batch.inputs[:, :2]).all()
        assert (batch.targets == plain_batch.targets).all()


def test_bad_rows_are_counted_and_listed_with_their_line_numbers(tmp_path):
    rows = [*ROWS]
    rows[5] = "1,u1"
    rows[9] = "1,u1,0.5,3,4"
    rows[20] = ",u1,0.5,3"
    rows[30] = "maybe,u1,0.5,3"
    card = open_table(write_csv(tmp_path / "ragged.csv", rows)).card()
    assert card.facts["bad rows"] == "4, left out"
    assert card.facts["rows"].startswith("296 (")
    assert {*list_problems(card)} == {
        "line 7: 2 fields where 4 are expected: '1,u1'",
        "line 11: 5 fields where 4 are expected: '1,u1,0.5,3,4'",
        "line 22: no label",
        "line 32: the label click is 'maybe'",
    }


@pytest.mark.parametrize("unlabelled", [30, 31])
def test_rows_of_a_last_block_without_labels_are_counted(tmp_path, monkeypatch, unlabelled):
    """Up to a tenth of the rows, here 30, may be bad. All rows of the short last block are."""
    monkeypatch.setattr(_reader, "PARQUET_ROWS", 300 - unlabelled)
    labels = [row[0] for row in make_log()[:-unlabelled]] + [None] * unlabelled
    pq.write_table(
        pa.table({"click": labels, "price": [row[2] for row in make_log()]}),
        tmp_path / "log.parquet",
    )
    if unlabelled == 30:
        card = load_data(f"parquet:{tmp_path}/log.parquet", ANY).card()
        assert card.facts["bad rows"] == "30, left out"
        assert list_problems(card)[0] == "line 271: no label"
    else:
        with pytest.raises(UsageError, match=r"31 of 300 rows of .* are bad; line 270: no label"):
            load_data(f"parquet:{tmp_path}/log.parquet", ANY)


def test_a_bad_row_may_contain_any_bytes(tmp_path):
    (tmp_path / "bytes.csv").write_bytes(GOOD.encode().replace(ROWS[5].encode(), b"1,\xe9t\xe9"))
    card = open_table(tmp_path / "bytes.csv").card()
    assert card.facts["bad rows"] == "1, left out"
    assert list_problems(card)[0].startswith("line 7: 2 fields where 4 are expected")


def test_a_character_may_span_two_blocks(tmp_path, monkeypatch):
    names = {f"u{i}": f"\u65e5\u672c{i}" for i in range(41)}
    rows = []
    for row in ROWS:
        click, user, *others = row.split(",")
        rows.append(",".join([click, names[user], *others]))
    plain = open_table(write_csv(tmp_path / "plain.csv", ROWS)).task.vocabularies
    for size in (501, 502, 503):
        monkeypatch.setattr(_reader, "BLOCK_BYTES", size)
        assert (
            open_table(write_csv(tmp_path / f"letters{size}.csv", rows)).task.vocabularies == plain
        )


def test_line_numbers_are_correct_in_later_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 700)
    rows = [*ROWS]
    rows[150] = "1,u1"
    rows[250] = "x,u1,0.5,3"
    rows[251] = "1"
    rows[290] = ",u1,0.5,3"
    problems = list_problems(open_table(write_csv(tmp_path / "ragged.csv", rows)).card())
    assert sorted(problem.partition(":")[0] for problem in problems) == [
        "line 152",
        "line 252",
        "line 253",
        "line 292",
    ]


def test_infinite_values_and_text_count_as_missing_and_text_is_reported(tmp_path):
    rows = [*ROWS]
    rows[3] = "0,u1,nan,1"
    rows[4] = "1,u1,inf,2"
    rows[5] = "1,u1,-inf,3"
    rows[6] = "1,u1,expensive,4"
    source = open_table(write_csv(tmp_path / "wild.csv", rows))
    (price,) = [row for row in source.card().rows if row["column"] == "price"]
    assert (price["kind"], price["missing"]) == ("dense", 4)
    assert "price: 1 value is text and counts as missing, such as 'expensive' (line 8)" in (
        list_problems(source.card())
    )
    for part in source.parts.values():
        for batch in part.batches(64):
            assert batch.inputs.isfinite().all()


def test_text_after_the_first_block_is_reported_too(tmp_path, monkeypatch):
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 1000)
    rows = [*ROWS]
    rows[280] = "1,u1,expensive,4"
    assert "price: 1 value is text and counts as missing, such as 'expensive' (line 282)" in (
        list_problems(open_table(write_csv(tmp_path / "late.csv", rows)).card())
    )
    late = [row if i < 200 else f"1,u1,expensive{i},4" for i, row in enumerate(ROWS)]
    with pytest.raises(
        UsageError,
        match=r"33 % of the values of price are text, such as 'expensive200' .*; clean the column, or "
        "write categorical=price or drop=price",
    ):
        open_table(write_csv(tmp_path / "later.csv", late))


def test_a_column_of_row_numbers_is_dropped(tmp_path):
    rows = [f"{row},{1000 + i}" for i, row in enumerate(ROWS)]
    card = open_table(write_csv(tmp_path / "id.csv", rows, HEADER + ",id")).card()
    assert "id: dropped: no value occurs 2 times" in list_problems(card)


def test_a_table_that_is_not_read_to_its_end_leaves_no_thread(tmp_path, monkeypatch):
    """Arrow reads ahead through our stream.

    A program that ended while Arrow was reading, as after a wrong label, was aborted.
    """
    readers = []
    open_csv = _reader.pcsv.open_csv

    def open_and_keep(*arguments):
        readers.append(open_csv(*arguments))
        return readers[-1]

    monkeypatch.setattr(_reader.pcsv, "open_csv", open_and_keep)
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 2**10)
    (tmp_path / "long.csv").write_text("click,a\n" + "1,2\n" * 50_000)
    blocks = _reader.open_csv(tmp_path / "long.csv").read_blocks(_reader.BadRows())
    rows = len(next(blocks)[0])
    blocks.close()
    assert 0 < rows < 1000
    with pytest.raises(StopIteration):
        readers[0].read_next_batch()


def test_threads_of_arrow_have_released_a_table_without_good_rows(tmp_path, monkeypatch):
    """A program that ended before, as after the error about such rows, was often aborted."""
    watched = []
    wait_until_released = _reader._ArrowObjects.wait_until_released

    def wait_and_keep(arrow_objects):
        wait_until_released(arrow_objects)
        watched.append(arrow_objects)

    monkeypatch.setattr(_reader._ArrowObjects, "wait_until_released", wait_and_keep)
    (tmp_path / "unquoted.csv").write_text("arch,accuracy\n" + "a=1,b=2,c=3,0.5\n" * 20)
    bad_rows = _reader.BadRows()
    for _ in range(10):
        assert list(_reader.open_csv(tmp_path / "unquoted.csv").read_blocks(bad_rows)) == []
    assert bad_rows.count == 200
    references = [reference for objects in watched for reference in objects._references]
    assert len(references) >= 10 * 4  # stream, handler, text, and the end of the text
    assert not any(reference() is not None for reference in references)


def test_a_program_that_ends_after_an_error_in_a_table_is_not_aborted(tmp_path):
    (tmp_path / "unquoted.csv").write_text("arch,accuracy\n" + "a=1,b=2,c=3,0.5\n" * 20)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from untrained.data.tables.reader import BadRows, open_csv\n"
        "list(open_csv(Path(sys.argv[1])).read_blocks(BadRows()))\n"
    )
    for _ in range(4):
        command = [sys.executable, "-c", code, str(tmp_path / "unquoted.csv")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
