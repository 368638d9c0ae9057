"""Criteo, Avazu, KDD Cup 2012 and Frappe: small files in their publishers' formats, and the real samples."""

from math import log1p

import pytest

from tests.conftest import shared
from tests.data.logs import ANY, rows_of
from untrained.data import load_data

INTS = [f"I{i}" for i in range(1, 14)]
HEXES = [f"C{i}" for i in range(1, 27)]


def criteo_rows(count: int = 120) -> list[list[str]]:
    return [
        [str(int(i % 5 == 0)), *(str((i * k) % 17) if (i + k) % 4 else "" for k in range(1, 14)),
         *(f"{(i * k) % 7:08x}" if (i + k) % 9 else "" for k in range(1, 27))]
        for i in range(count)
    ]  # fmt: skip


def test_criteo_is_read_with_tabs_and_with_commas(tmp_path):
    rows = criteo_rows()
    (tmp_path / "train.txt").write_text("\n".join("\t".join(row) for row in rows))
    (tmp_path / "train.csv").write_text(
        "\n".join([",".join(["label", *INTS, *HEXES]), *(",".join(r) for r in rows)])
    )
    one, other = (load_data(f"criteo:{tmp_path}/train.{kind}", ANY) for kind in ("txt", "csv"))
    assert one.task.input_shape == (39,)
    assert [row["column"] for row in one.card().rows] == INTS + HEXES
    assert one.card().facts == other.card().facts
    for name, part in rows_of(one).items():
        assert (part == rows_of(other)[name]).all()
        clicks = sum(int(label) for label in part[:, -1])
        assert 0 < clicks < len(part)
    assert sum(map(len, one.parts.values())) == 120


def test_options_go_on_top_of_what_is_known(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join("\t".join(row) for row in criteo_rows()))
    card = load_data(f"criteo:{tmp_path}/train.txt?categorical=I1&drop=C26,I2&log=none", ANY).card()
    kinds = {row["column"]: row["kind"] for row in card.rows}
    assert kinds == dict.fromkeys(INTS[2:], "dense") | dict.fromkeys(
        ["I1", *HEXES[:-1]], "identifiers"
    )
    assert not any(row["treatment"].startswith("log") for row in card.rows)


def test_kdd_counts_clicks_and_knows_its_columns(tmp_path):
    """click impression url ad advertiser depth position query keyword title description user, without a header."""
    rows = [[i % 3, i % 3 + 1 + i % 5, i % 7, i % 11, i % 4, i % 3, i % 2, i % 6, i % 5, i % 8, i % 9, i % 10]
            for i in range(90)]  # fmt: skip
    (tmp_path / "training.txt").write_text("\n".join("\t".join(map(str, row)) for row in rows))
    source = load_data(f"kdd2012:{tmp_path}/training.txt", ANY)
    assert source.task.input_shape == (11,)
    assert [row["column"] for row in source.card().rows][:4] == [
        "impression",
        "depth",
        "position",
        "display_url",
    ]
    assert source.card().facts["label"] == "click, 1 in 66.7% of the rows"
    sizes = dict(
        zip(
            [row["column"] for row in source.card().rows[3:]], source.task.vocabularies, strict=True
        )
    )
    assert (sizes["display_url"], sizes["advertiser_id"], sizes["user_id"]) == (8, 5, 11)


def test_frappe_is_read_with_a_header_and_as_libfm(tmp_path):
    rows = [
        [1 if i % 3 == 0 else -1, *(k * 100 + i % (k + 2) for k in range(10))] for i in range(90)
    ]
    header = ",".join(["split", "label", *(f"f{k}" for k in range(10))])
    plain = [",".join(["test", str(int(row[0] > 0)), *map(str, row[1:])]) for row in rows]
    (tmp_path / "frappe.csv").write_text("\n".join([header, *plain]))
    (tmp_path / "frappe.libfm").write_text(
        "\n".join(f"{r[0]} " + " ".join(f"{v}:1" for v in r[1:]) for r in rows)
    )
    one, other = (load_data(f"frappe:{tmp_path}/frappe.{kind}", ANY) for kind in ("csv", "libfm"))
    assert one.task.input_shape == other.task.input_shape == (10,)
    assert one.task.vocabularies == other.task.vocabularies == tuple(k + 3 for k in range(10))
    for name, part in rows_of(one).items():
        assert (part[:, -1] == rows_of(other)[name][:, -1]).all()


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "file", "rows", "share", "dense", "identifiers"),
    [
        ("criteo", "criteo_10k.csv.gz", "10,000", "21.8%", 13, 26),
        ("avazu", "avazu_10k.csv.gz", "9,999", "17.1%", 0, 21),  # of one hour, which is dropped
        ("frappe", "frappe_val_test.csv.gz", "86,582", "33.0%", 0, 10),
    ],
)
def test_the_samples_are_what_their_notes_say(kind, file, rows, share, dense, identifiers):
    """Rows and shares of clicks as written beside the files."""
    source = load_data(f"{kind}:{shared('data', 'ctr', file)}", ANY)
    assert source.card().facts["rows"].startswith(f"{rows} (")
    assert source.card().facts["label"].endswith(f"1 in {share} of the rows")
    assert source.card().facts["bad rows"] == "0"
    assert len(source.task.vocabularies) == identifiers
    assert source.task.input_shape == (dense + identifiers,)


@pytest.mark.data
def test_a_row_of_criteo_is_encoded_as_by_hand():
    """The first row of the file: I1 is 1, I2 is 1, I12 is missing; two rows of one C1 have one number."""
    import gzip

    path = shared("data", "ctr", "criteo_10k.csv.gz")
    with gzip.open(path, "rt") as file:
        lines = [line.rstrip("\n").split(",") for line in file][1:]
    source = load_data(
        f"criteo:{path}?time=I2&floor=1", ANY
    )  # so that parts are known: by I2, ties as they lie
    order = sorted(range(len(lines)), key=lambda i: float(lines[i][2] or "-inf"))
    learned = sorted(order[:8000])
    (batch,) = source.parts["train"].batches(8000)
    assert batch.targets.tolist() == [int(lines[i][0]) for i in learned]
    values = [lines[i][1] for i in learned]
    logs = [log1p(float(v)) for v in values if v]
    mean = sum(logs) / len(logs)
    std = (sum((v - mean) ** 2 for v in logs) / len(logs)) ** 0.5
    expected = [(log1p(float(v)) - mean) / std if v else 0.0 for v in values]
    assert batch.inputs[:, 0].tolist() == pytest.approx(expected, abs=1e-4)
    numbers = (
        batch.inputs[:, 12].long().tolist()
    )  # C1, after the twelve dense columns that are left
    names = [lines[i][14] for i in learned]
    assert (
        len({*zip(names, numbers, strict=True)})
        == len({*names})
        == len({*numbers})
        == source.task.vocabularies[0] - 1
    )
