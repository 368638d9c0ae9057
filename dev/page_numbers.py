"""Write the JSON file beside a page of results from the tables on the page.

    python dev/page_numbers.py docs/results/engine.md --made-on 2026-11-15 --commit 43aea3b

Pages of `untrained reproduce` get their file from `python -m untrained.papers.results publish`. This script is
for pages whose numbers come from other commands and were written down by hand. Every cell with a number becomes a
line: its row, its column, its value, and a standard deviation or an interval if the cell has one. The command is
the first one on the page.

Numbers that occur only in sentences are added by hand, as lines with the note "from the text of the page". The
script keeps these lines when it is run again.
"""

import argparse
import re
from pathlib import Path

from untrained.papers.results import ResultsPage, has_runs
from untrained.reports.reproduction_result import ReproductionResult, TableLine

TEXT_NOTE = "from the text of the page"
NUMBER = r"[-\u2212+]?\d[\d,]*(?:\.\d+)?"
SPREAD = re.compile(rf"({NUMBER})\s*±\s*({NUMBER})")
INTERVAL = re.compile(rf"({NUMBER}) to ({NUMBER})")
# A value may be bold, and a unit may follow.
VALUE = re.compile(rf"^\**({NUMBER})\**(?![\w/x])")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--made-on", required=True, help="date of the measurement")
    parser.add_argument("--commit", required=True, help="commit that added the numbers")
    options = parser.parse_args()
    lines = [*read_lines(options.page.read_text()), *read_text_lines(options.page)]
    run = make_run(options.page, options.made_on, options.commit, lines)
    ResultsPage(options.page.stem, (run,)).write(options.page.parent)
    print(f"{options.page.with_suffix('.json')}: {len(lines)} lines")


def make_run(page: Path, made_on: str, commit: str, lines: list[TableLine]) -> ReproductionResult:
    text = page.read_text()
    title = re.search(r"^# (.*)$", text, flags=re.MULTILINE)
    command = re.search(r"^(?:```\n| {4})(\S.*)$", text, flags=re.MULTILINE)
    return ReproductionResult(
        experiment="",
        paper="",
        title=title[1] if title else page.stem,
        about="",
        unit="",
        lines=tuple(lines),
        deviations=(),
        command=command[1] if command else "see the page",
        settings={"copied": "from the tables on the page"},
        commit=commit,
        made_on=made_on,
    )


def read_text_lines(page: Path) -> list[TableLine]:
    """Return the lines that were added by hand to the file of a page."""
    path = page.with_suffix(".json")
    if not path.is_file() or not has_runs(path):
        return []
    lines = []
    for run in ResultsPage.read(path).runs:
        lines += [line for line in run.lines if line.note.startswith(TEXT_NOTE)]
    return lines


def read_lines(text: str) -> list[TableLine]:
    """Return a line for every cell of every table that has a number."""
    lines = []
    for table in find_tables(text):
        header, *rows = table
        for row in rows:
            label = make_row_label(row)
            for column, cell in zip(header, row, strict=False):
                line = read_cell(f"{label}, {column}".strip(", "), cell)
                if line is not None:
                    lines.append(line)
    return lines


def find_tables(text: str) -> list[list[list[str]]]:
    """Return the cells of all Markdown tables; the row of dashes is left out."""
    tables: list[list[list[str]]] = []
    is_in_table = False
    for row in text.splitlines():
        if not row.startswith("|"):
            is_in_table = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        if not is_in_table:
            tables.append([])
            is_in_table = True
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            tables[-1].append(cells)
    return tables


def make_row_label(row: list[str]) -> str:
    """Join the cells of a row that are not numbers."""
    words = [cell.replace("*", "") for cell in row if cell and not VALUE.match(cell)]
    return ", ".join(word for word in words if not re.match(NUMBER, word)) or row[0]


def read_cell(what: str, cell: str) -> TableLine | None:
    """Return the line of a cell; None without a number."""
    spread = SPREAD.search(cell)
    interval = INTERVAL.search(cell)
    value = VALUE.match(cell)
    if spread:
        return TableLine(
            what, None, parse_number(spread[1]), spread=parse_number(spread[2]), note=cell
        )
    if interval and not (value and "(" in cell):
        return TableLine(what, None, None, parse_number(interval[1]), parse_number(interval[2]))
    if not value:
        return None
    if interval:
        return TableLine(
            what, None, parse_number(value[1]), parse_number(interval[1]), parse_number(interval[2])
        )
    rest = cell[value.end() :].strip(" *")
    return TableLine(
        what, None, parse_number(value[1]), note=cell if re.search(r"\d", rest) else ""
    )


def parse_number(number: str) -> float:
    return float(number.replace(",", "").replace("\u2212", "-"))


if __name__ == "__main__":
    main()
