"""The published numbers in our code equal those in the text of the papers."""

import json
import re

import pytest

from tests.conftest import find_shared
from untrained.papers import (
    dextr,
    dextr_figures,
    discovered_cells,
    hnas,
    hnas_ablations,
    hnas_cells,
    hnas_searches,
    nasi,
    sigeo,
    sigeo_ctr,
    sigeo_resnet,
    sigeo_warmup,
)
from untrained.papers.hnas_cells import CELLS
from untrained.spaces import load_space

Numbers = tuple[float | None, ...]
FULL = "SiGeo @ NASRec-Full"


def read_paper(paper: str) -> str:
    return find_shared("papers", f"{paper}.txt").read_text()


def parse_numbers(line: str) -> Numbers:
    """Return all decimal numbers of a line."""
    return tuple(map(float, re.findall(r"-?\d+\.\d+", line.replace("\u2212", "-"))))


def find_numbers(paper: str, starts: str, count: int) -> list[Numbers]:
    """Return the first `count` numbers of every line that starts with a text."""
    return [
        parse_numbers(line)[:count]
        for line in read_paper(paper).splitlines()
        if line.startswith(starts)
    ]


def read_table_rows(paper: str, after: str) -> list[list[str]]:
    """Return the cells of all rows of the first HTML table after a text."""
    table = read_paper(paper).partition(after)[2].partition("</table>")[0]
    plain = (re.sub(r"<(?!/?t[dr])[^>]+>", "", row) for row in table.split("<tr>"))
    return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in plain]


def list_first_numbers(cells: list[str]) -> Numbers:
    """Return the first number of each cell."""
    return tuple(parse_numbers(cell)[0] for cell in cells)


@pytest.mark.parametrize(
    ("row", "name"),
    [("Grasp", "grasp"), ("Fisher", "fisher"), ("Grad_Norm", "grad_norm"), ("Snip", "snip"), ("Synflow", "synflow"),
     ("#params", "params"), ("ZiCo", "zico"), ("MeCo", "meco"), ("Swap_reg", "swap_reg"), ("Dextr (ours)", "dextr")],
)  # fmt: skip
def test_dextr_table_1(row, name):
    rows = {
        cells[0]: list_first_numbers(cells[1:])
        for cells in read_table_rows("dextr", "Table 1: Comparison")
        if cells
    }
    assert dextr.TABLE_1[name] == rows[row]
    assert [place.label for place in dextr.ALL_TASKS] == [
        "TNB-Object", "TNB-Scene", "TNB-Jigsaw", "NB101", "NB201-cf10", "NB201-cf100", "NB201-ImNet120", "NB301",
    ]  # fmt: skip


def test_dextr_table_4():
    rows = [
        list_first_numbers(cells[2:])
        for cells in read_table_rows("dextr", "Table 4: Comparison")
        if cells
    ]
    assert list(dextr.TABLE_4.values()) == rows


def test_dextr_table_5_and_figure_2():
    text_of_paper = read_paper("dextr")
    for place, number in dextr.TABLE_5.items():
        benchmark = {
            "NB101": "NAS-Bench-101",
            "NB201-cf10": "NAS-Bench-201",
            "NB301": "NAS-Bench-301",
        }[place.label]
        assert f"<td>{benchmark}</td>\n<td>{number} %</td>" in text_of_paper
    for accuracy, score in dextr_figures.FIGURE_2.items():
        assert re.search(
            rf"{accuracy:.2f}% accuracy\) has the \w+ (mean )?Dextr (score|value) \({score}\)",
            text_of_paper,
        )
    assert "ranging between {} and {}".format(*dextr_figures.FIGURE_2_SPREADS) in text_of_paper


def test_hnas_table_1_and_its_neighbour_table_2():
    """Both are printed side by side: the first four numbers of a line belong to Table 1."""
    for name, column in zip(("Grad", "SNIP", "GraSP", "Trace"), range(4), strict=True):
        rows = [row for row in find_numbers("hnas", f"M_{{{name}}}\t", 4) if len(row) == 4]
        for scenario, row in zip(("realizable", "non-realizable"), rows[:2], strict=True):
            expected: list[float | None] = []
            for benchmark in ("NB101", "NB201"):
                numbers = hnas.TABLE_1[f"{scenario}/{benchmark}"]
                expected += [numbers[column], numbers[column + 4]]
            assert tuple(expected) == row


def test_hnas_table_2():
    """The text has no plus-minus signs: `312` is 31 +- 2, `27 1` is 27 +- 1."""
    for name, (width, depth, trace, kappa) in hnas_cells.TABLE_2.items():
        wide = f"{width:.1f}/[45].0"
        deep = f"{depth:.0f}/[56]"
        assert re.search(
            rf"{name}\t{wide}\t{deep}\t{trace:.0f} ?\d+\t{kappa:.0f} \d+\n", read_paper("hnas")
        ), name


def test_hnas_table_4():
    rows = re.findall(r"^M _\{(\w+)\}\tM _\{(\w+)\}\t(.*)$", read_paper("hnas"), flags=re.MULTILINE)
    assert {f"{a}/{b}": parse_numbers(values) for a, b, values in rows} == hnas.TABLE_4


@pytest.mark.parametrize("label", ["C10", "C100", "IN-16"])
def test_hnas_tables_5_6_and_13(label):
    scenarios = ("realizable", "trade-off", "condition", "non-realizable")
    start = read_paper("hnas").index("\nTable 5: ")
    block = read_paper("hnas")[read_paper("hnas").index(f"\n{label}\t", start) :].splitlines()[1:5]
    assert [hnas.TABLE_5[f"{how}/{label}"] for how in scenarios] == [
        parse_numbers(line) for line in block
    ]
    mean_and_deviation = [
        row for row in find_numbers("hnas", f"{label}\t", 16) if len(row) in (8, 16)
    ]
    six = [row[::2] for row in mean_and_deviation if len(row) == 8 and row[1] < 0.1]
    thirteen = [row[::2] for row in mean_and_deviation if len(row) == 16]
    both = ("realizable", "non-realizable")
    assert [hnas.TABLE_6[f"{how}/{label}"] for how in both] == six
    assert [hnas.TABLE_13[f"{how}/{label}"] for how in both] == thirteen


def test_hnas_ablations():
    for name in ("LeCun", "Xavier", "He"):
        rows = [row for row in find_numbers("hnas", f"{name} [", 8) if len(row) == 8]
        assert [
            hnas_ablations.TABLE_10[f"{how}/{name}"] for how in ("realizable", "non-realizable")
        ] == rows
    for table, sizes, before in ((hnas_ablations.TABLE_11, (4, 8, 16, 32, 64), "Table 11: "),
                                 (hnas_ablations.TABLE_12, (4, 8, 16, 32), "Table 12: ")):  # fmt: skip
        block = read_paper("hnas").partition(f"\n{before}")[2].splitlines()
        rows = [parse_numbers(line) for line in block if re.match(r"\d+\t", line)][: 2 * len(sizes)]
        assert [table[f"{which}:{size}"] for which in ("M", "kappa") for size in sizes] == rows


def read_caption_block(number: int) -> list[str]:
    """Return the lines after the caption of a table of HNAS."""
    return read_paper("hnas").partition(f"\nTable {number}: ")[2].splitlines()


def test_hnas_tables_7_and_14():
    """Tables 3, 7 and 14 have the same numbers."""
    for label, row in hnas_searches.TABLE_14.items():
        starts = (
            "Optimal" if label == "Optimal" else f"HNAS ($\\mathcal{{M}}_{{\\text{{{label}}}}}$)"
        )
        ours = tuple(value for value in row if value is not None)
        assert (
            next(parse_numbers(line) for line in read_caption_block(14) if line.startswith(starts))
            == ours
        )
        if label in ("Grad", "SNIP", "GraSP", "Trace"):
            for table in (3, 7):
                (line,) = [
                    line
                    for line in read_caption_block(table)[:30]
                    if line.startswith(f"HNAS (M _{{{label}}})")
                ]
                assert parse_numbers(line) == row
    for label, row in hnas_searches.TABLE_7.items():
        assert (
            next(parse_numbers(line) for line in read_caption_block(7) if line.startswith(label))
            == row
        )
    assert [next(line for line in read_caption_block(7) if line.startswith(name)).split()[-1] for name in ("REA", "RS")] == [
        "102", "106",
    ]  # fmt: skip


def test_hnas_tables_15_and_16():
    free = tuple(value for value in hnas_searches.TABLE_15 if value is not None)
    assert next(parse_numbers(line) for line in read_caption_block(15) if "Trace" in line) == free
    rows = [parse_numbers(line) for line in read_caption_block(16) if line.startswith("HNAS (")]
    assert list(hnas_searches.TABLE_16.values()) == rows
    hybrid = next(
        parse_numbers(line) for line in read_caption_block(15) if line.startswith("HNAS (")
    )
    assert hybrid == hnas_searches.TABLE_16["Trace/UCB"]


def test_sigeo_table_3():
    """All 80 cells. The text prints 0.50 as 0.5."""
    for name, label in (("ZiCo", "zico"), ("SiGeo", "sigeo")):
        for level in sigeo_warmup.LEVELS:
            (row,) = find_numbers("sigeo", f"{name} {level}% ", 10)
            assert sigeo_warmup.TABLE_3[f"{label}/{level}"] == row
    # Table 3 has the columns of Table 2.
    assert [label for label, _, _ in sigeo_warmup.COLUMNS] == [task.label for task in sigeo.TASKS]


def test_sigeo_table_2():
    rows = [row for row in map(parse_numbers, read_paper("sigeo").splitlines()) if len(row) == 10]
    printed_rows = rows[: len(sigeo.TABLE_2)]
    assert list(sigeo.TABLE_2.values()) == printed_rows


@pytest.mark.parametrize(
    ("name", "starts"),
    [("dlrm", "DLRM ["), ("autoint", "Autolnt+ ["), ("deepfm", "DeepFM ["), ("nasrec_small@1%", "(1% warm-up) SiGeo"),
     ("nasrec_full@1%", FULL)],
)  # fmt: skip
def test_sigeo_table_5(name, starts):
    """The text has no point in some numbers: `04396` is 0.4396."""
    block = read_paper("sigeo").partition("Table 5: Performance of SiGeo-NAS on CTR")[2]
    lines = [line for line in block.splitlines() if line.startswith(starts)]
    place = {"nasrec_full@1%": 1}.get(name, 0)  # the first is of 100 %
    numbers = re.findall(r"0\.?\d{4}\b", lines[place])[:4]
    assert sigeo_ctr.TABLE_5[name] == tuple(float(f"0.{digits[-4:]}") for digits in numbers)


def test_sigeo_figure_3_shows_table_5():
    """Log losses of Criteo and Avazu, of SiGeo and ZiCo without a warm-up and after 1 %."""
    block = read_paper("sigeo").partition("Table 5: Performance of SiGeo-NAS on CTR")[2]
    # The last two groups are those after 1 % and those without a warm-up.
    lines = block[block.index("NAS-crafted Arts ZiCo") :].splitlines()
    found = {}
    for row in lines:
        match = re.search(r"(ZiCo|SiGeo) @ NASRec-(Small|Full) (.*)", row)
        if match and len(found) < 8:
            numbers = re.findall(r"0\.?\d{4}\b", match[3])
            level = 1 if len(found) < 4 else 0
            name = f"nasrec_{match[2].lower()}/{match[1].lower()}/{level}"
            losses = [float(f"0.{digits[-4:]}") for digits in numbers[:4:2]]
            found[name] = tuple(losses)
    assert found == sigeo_ctr.FIGURE_3


def test_curvatures_of_dextr_figure_4_and_sizes_of_nasi_figure_5():
    text = read_paper("dextr")
    assert "has more curvature ( $1.2 \\times 10^8$ )" in text
    assert (
        "ZiCo (curvature =  $7.7 \\times 10^7$ ) and MeCo (curvature =  $5.8 \\times 10^7$ )"
        in text
    )
    assert discovered_cells.DEXTR_FIGURE_4 == {"dextr": 1.2e8, "zico": 7.7e7, "meco": 5.8e7}
    for label, (_, size) in discovered_cells.NASI_FIGURE_5.items():
        (line,) = [
            line
            for line in read_paper("nasi").splitlines()
            if line.startswith(f"NASI-{label.upper()} 2.")
        ]
        # Errors on CIFAR-10 and CIFAR-100, then the parameters of both.
        assert re.findall(r" (\d\.\d) ", line)[0] == str(size)


def test_sigeo_table_4():
    """ZiCo and SiGeo are the last two columns of eight."""
    block = read_paper("sigeo").partition("Table 4: Top-1 accuracies")[2]
    rows = [
        re.findall(r"(\d+\.\d+)%", line)
        for line in block.splitlines()
        if line.startswith("CIFAR-10")
    ][:2]
    assert [len(row) for row in rows] == [8, 8]
    for name, column in (("zico", 6), ("sigeo", 7)):
        assert sigeo_resnet.TABLE_4[name] == tuple(float(row[column]) for row in rows)


def test_nasi_table_3_7_and_figure_1():
    """S3 is left out; the text prints Spearman of S1, S2, S3, then Kendall."""
    for name, row in nasi.TABLE_3.items():
        starts = {
            "snip": "SNIP (",
            "grasp": "GraSP (",
            "synflow": "SynFlow (",
            "naswot": "NASWOT (Mellor",
        }
        (numbers,) = [
            r
            for r in find_numbers("nasi", starts.get(name, "NASI (conditioned)"), 6)
            if len(r) == 6
        ]
        assert row == (numbers[0], numbers[3], numbers[1], numbers[4])
    for name, row in nasi.TABLE_7.items():
        assert row in find_numbers("nasi", f"{name} ", 7)
    text_of_paper = read_paper("nasi")
    assert text_of_paper.count("\u00bd = 1:00") >= 2
    assert "Search Space 2 1e5Search Space 3 4 \u00bd = 0:95" in text_of_paper
    assert nasi.FIGURE_1 == {"labels": {"S1": 1.00, "S2": 1.00}, "data": {"S1": 0.94, "S2": 0.95}}


def test_cells_of_table_2_are_the_published_ones():
    golden = json.loads(find_shared("golden", "spaces_golden.json").read_text())["darts"][
        "genotypes"
    ]
    darts = load_space("darts")
    names = {
        "NASNet": "NASNet",
        "AmoebaNet": "AmoebaNet",
        "ENAS": "ENAS",
        "DARTS": "DARTS_V2",
        "SNAS": "SNAS_mild",
    }
    for name, reference in names.items():
        fields = []
        for key in ("normal", "normal_concat", "reduce", "reduce_concat"):
            value = golden[reference][key]
            if "concat" not in key:
                value = list(map(tuple, value))
            fields.append(f"{key}={value}")
        assert CELLS[name].genes == darts.parse(f"Genotype({', '.join(fields)})").genes
