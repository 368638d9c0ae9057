"""Criteo, Avazu, KDD Cup 2012 and Frappe: small files in their formats, and the real samples."""

from math import log1p

import pytest

from tests.conftest import find_shared
from tests.data.logs import ANY, read_parts
from untrained.data import load_data

INTS = [f"I{i}" for i in range(1, 14)]
HEXES = [f"C{i}" for i in range(1, 27)]


def make_criteo_rows(count: int = 120) -> list[list[str]]:
    """Return rows of a label, thirteen numbers and 26 hexadecimal identifiers, some missing."""
    rows = []
    for i in range(count):
        label = str(int(i % 5 == 0))
        numbers = [str((i * k) % 17) if (i + k) % 4 else "" for k in range(1, 14)]
        identifiers = [f"{(i * k) % 7:08x}" if (i + k) % 9 else "" for k in range(1, 27)]
        rows.append([label, *numbers, *identifiers])
    return rows


def test_criteo_is_read_with_tabs_and_with_commas(tmp_path):
    rows = make_criteo_rows()
    (tmp_path / "train.txt").write_text("\n".join("\t".join(row) for row in rows))
    (tmp_path / "train.csv").write_text(
        "\n".join([",".join(["label", *INTS, *HEXES]), *(",".join(r) for r in rows)])
    )
    tabs = load_data(f"criteo:{tmp_path}/train.txt", ANY)
    commas = load_data(f"criteo:{tmp_path}/train.csv", ANY)
    assert tabs.task.input_shape == (39,)
    assert [row["column"] for row in tabs.card().rows] == INTS + HEXES
    assert tabs.card().facts == commas.card().facts
    for name, part in read_parts(tabs).items():
        assert (part == read_parts(commas)[name]).all()
        clicks = sum(int(label) for label in part[:, -1])
        assert 0 < clicks < len(part)
    assert sum(map(len, tabs.parts.values())) == 120


def test_options_of_the_user_override_those_of_the_format(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join("\t".join(row) for row in make_criteo_rows()))
    card = load_data(f"criteo:{tmp_path}/train.txt?categorical=I1&drop=C26,I2&log=none", ANY).card()
    kinds = {row["column"]: row["kind"] for row in card.rows}
    assert kinds == dict.fromkeys(INTS[2:], "dense") | dict.fromkeys(
        ["I1", *HEXES[:-1]], "identifiers"
    )
    assert not any(row["treatment"].startswith("log") for row in card.rows)


def test_columns_of_kdd_have_names_and_clicks_are_counts(tmp_path):
    """The file has no header.

    Its columns are click, impression, url, ad, advertiser, depth, position, query, keyword, title,
    description and user.
    """
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
    assert source.card().facts["label"] == "click; 66.7 % of the rows are 1"
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
    csv = load_data(f"frappe:{tmp_path}/frappe.csv", ANY)
    libfm = load_data(f"frappe:{tmp_path}/frappe.libfm", ANY)
    assert csv.task.input_shape == libfm.task.input_shape == (10,)
    assert csv.task.vocabularies == libfm.task.vocabularies == tuple(k + 3 for k in range(10))
    for name, part in read_parts(csv).items():
        assert (part[:, -1] == read_parts(libfm)[name][:, -1]).all()


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "file", "rows", "share", "dense", "identifiers"),
    [
        ("criteo", "criteo_10k.csv.gz", "10,000", "21.8 %", 13, 26),
        # All rows of Avazu's sample are of one hour, so that column is dropped.
        ("avazu", "avazu_10k.csv.gz", "9,999", "17.1 %", 0, 21),
        ("frappe", "frappe_val_test.csv.gz", "86,582", "33.0 %", 0, 10),
    ],
)
def test_the_real_samples_have_the_documented_sizes(kind, file, rows, share, dense, identifiers):
    """The numbers of rows and the shares of clicks are documented beside the files."""
    source = load_data(f"{kind}:{find_shared('data', 'ctr', file)}", ANY)
    assert source.card().facts["rows"].startswith(f"{rows} (")
    assert source.card().facts["label"].endswith(f"; {share} of the rows are 1")
    assert source.card().facts["bad rows"] == "0"
    assert len(source.task.vocabularies) == identifiers
    assert source.task.input_shape == (dense + identifiers,)


@pytest.mark.data
def test_rows_of_criteo_are_encoded_as_computed_by_hand():
    """I1 is normalised after the logarithm, with 0 if missing; each value of C1 has one number."""
    import gzip

    path = find_shared("data", "ctr", "criteo_10k.csv.gz")
    with gzip.open(path, "rt") as file:
        lines = [line.rstrip("\n").split(",") for line in file][1:]
    # A split by I2 makes the parts predictable; equal values keep the order of the file.
    source = load_data(f"criteo:{path}?time=I2&floor=1", ANY)
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
    # C1 follows the twelve dense columns without I2.
    numbers = batch.inputs[:, 12].long().tolist()
    names = [lines[i][14] for i in learned]
    assert (
        len({*zip(names, numbers, strict=True)})
        == len({*names})
        == len({*numbers})
        == source.task.vocabularies[0] - 1
    )
