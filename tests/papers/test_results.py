"""The JSON files beside the pages of results, the index, and the numbers of the README."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.papers.test_reproduce import RESULT
from untrained.errors import UsageError
from untrained.papers import EXPERIMENTS
from untrained.papers.items import ITEMS, PAPER_TITLES
from untrained.papers.results import (
    MIN_FOLDED_LINES,
    ResultsPage,
    count_verdicts,
    find_key_line,
    format_block,
    has_runs,
    main,
    publish_run,
    read_pages,
    render_index,
    summarise_pages,
)
from untrained.reports.reproduction_result import ReproductionResult, TableLine

RESULTS = Path(__file__).parents[2] / "docs" / "results"
README = RESULTS.parents[1] / "README.md"
# The files of these pages were written by scripts, in forms of their own.
OWN_FORM = ("few-trainings", "performance")
PAGES = sorted(path.stem for path in RESULTS.glob("*.md") if path.stem not in ("index", *OWN_FORM))
SUMMARY = summarise_pages(read_pages(RESULTS))
# Every item of the papers, counted in their texts: tables and figures with results.
ITEM_COUNTS = {"dextr": 14, "sigeo": 11, "nasi": 14, "hnas": 20}


def save_result(folder: Path, **changes) -> ReproductionResult:
    return replace(RESULT, folder=str(folder), **changes).save()


# --- items ---


def test_items_are_the_59_tables_and_figures():
    assert len({item.name for item in ITEMS}) == len(ITEMS) == 59
    counts = dict.fromkeys(PAPER_TITLES, 0)
    for item in ITEMS:
        counts[item.paper] += 1
    assert counts == ITEM_COUNTS


def test_every_item_has_an_experiment_or_a_reason_and_every_experiment_an_item():
    for item in ITEMS:
        assert item.experiment or item.reason, item.name
        assert not item.experiment or item.experiment in EXPERIMENTS, item.name
    of_items = {item.experiment for item in ITEMS if item.experiment}
    # Others continue the experiment of an item, such as nasi-table-4-settings.
    for name in set(EXPERIMENTS) - of_items:
        assert any(name.startswith(f"{item}-") for item in of_items), name


# --- pages ---


def test_a_published_result_is_read_as_it_was_written(tmp_path):
    result = save_result(tmp_path / "run", command="untrained reproduce dextr-table-4 --run x")
    page = publish_run(tmp_path / "run", tmp_path)
    # The folder of the run and the points of plots stay behind.
    expected = replace(result, command="untrained reproduce dextr-table-4", folder="", plots=())
    assert page.runs == (expected,)
    assert ResultsPage.read(tmp_path / "dextr-table-4.json") == page
    text = (tmp_path / "dextr-table-4.md").read_text()
    assert text.startswith("# Dextr (Asthana et al.): Two rows\n")
    assert format_block(expected) in text


def test_publishing_again_replaces_the_numbers_and_keeps_the_text_around_them(tmp_path):
    save_result(tmp_path / "run")
    publish_run(tmp_path / "run", tmp_path)
    path = tmp_path / "dextr-table-4.md"
    path.write_text(path.read_text() + "\nWhat we learned.\n")
    save_result(tmp_path / "run", lines=(TableLine("NB201-cf10, dextr", 0.90, 0.8125),))
    publish_run(tmp_path / "run", tmp_path)
    text = path.read_text()
    assert "0.812" in text
    assert "0.915" not in text
    assert text.endswith("\nWhat we learned.\n")
    assert text.count("<!-- numbers of dextr-table-4 -->") == 1


def test_a_result_goes_to_the_page_that_has_its_experiment(tmp_path):
    other = replace(RESULT, experiment="dextr-table-1", plots=())
    first = replace(RESULT, plots=(), seconds=1.0)
    ResultsPage("together", (other, first)).write(tmp_path)
    (tmp_path / "together.md").write_text("# Two tables\n")
    save_result(tmp_path / "run", seconds=2.0)
    page = publish_run(tmp_path / "run", tmp_path)
    assert page.name == "together"
    assert [(run.experiment, run.seconds) for run in page.runs] == [
        ("dextr-table-1", RESULT.seconds),
        ("dextr-table-4", 2.0),
    ]
    assert not (tmp_path / "dextr-table-4.md").exists()


def test_a_long_table_is_folded():
    lines = tuple(TableLine(f"line {n}", 0.5, 0.5) for n in range(MIN_FOLDED_LINES))
    assert "<summary>All 30 numbers</summary>" in format_block(replace(RESULT, lines=lines))
    assert "<details" not in format_block(RESULT)


def test_files_of_another_form_are_skipped_and_damaged_ones_refused(tmp_path):
    (tmp_path / "other.json").write_text("[1, 2]")
    assert read_pages(tmp_path) == []
    (tmp_path / "damaged.json").write_text('{"runs": [{"nonsense": 1}]}')
    with pytest.raises(UsageError, match=r"damaged\.json cannot be read"):
        read_pages(tmp_path)


# --- the index ---


def test_the_index_counts_what_was_run_and_how_it_compares(tmp_path):
    save_result(tmp_path / "run", commit="abc1234")
    publish_run(tmp_path / "run", tmp_path)
    # 0.915 >= 0.90; 0.33 is outside 0.15 to 0.27; ZiCo has no value; `mine` is not published.
    assert count_verdicts(RESULT.lines) == {"at or above": 1, "below": 1, "no value": 1}
    assert summarise_pages(read_pages(tmp_path)) == (
        "1 of the 59 tables and figures of the four papers were run. Of 2 published numbers that can "
        "be compared, ours are at least as good as 1; 0 more lie within our intervals."
    )
    index = render_index(tmp_path)
    assert (
        "| [dextr-table-4](dextr-table-4.md) | the two terms of Dextr beside proxies of the same "
        "kind | 0.900 | 0.915 (NB201-cf10, dextr) | 1 |  | 1 |  | 1 | 12 | 2026-01-02 | abc1234 | "
        "0.1 |" in index
    )
    assert "not run: `untrained reproduce hnas-table-5`" in index
    rows = [row for row in index.splitlines() if re.match(r"\| \[?(dextr|sigeo|nasi|hnas)-", row)]
    assert len(rows) == 59
    assert len({row.count("|") for row in rows}) == 1
    assert "## Further experiments" not in index
    save_result(tmp_path / "run", experiment="nasi-table-4-settings")
    publish_run(tmp_path / "run", tmp_path)
    assert "- [nasi-table-4-settings](nasi-table-4-settings.md): Two rows" in render_index(tmp_path)


def test_the_command_prints_the_index_and_publishes(tmp_path, capsys):
    save_result(tmp_path / "run")
    main(["publish", str(tmp_path / "run"), str(tmp_path)])
    main(["index", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'run'}: dextr-table-4\n# Every table")
    with pytest.raises(UsageError, match="write publish RUN"):
        main(["print"])


# --- the files of this repository ---


def test_the_index_is_up_to_date():
    assert (RESULTS / "index.md").read_text() == render_index(RESULTS), "run `make docs`"


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_its_numbers_beside_it(name):
    page = ResultsPage.read(RESULTS / f"{name}.json")
    assert page.runs
    for run in page.runs:
        assert run.lines, run.command
        assert run.command, name
        assert re.match(r"2026-\d\d-\d\d", run.made_on), name
        assert run.commit, name
        assert run.experiment in EXPERIMENTS or not run.experiment, run.experiment


@pytest.mark.parametrize("name", PAGES)
def test_the_numbers_on_a_page_are_those_of_its_file(name):
    """Blocks that `publish` wrote are not edited by hand."""
    text = (RESULTS / f"{name}.md").read_text()
    blocks = re.findall(r"<!-- numbers of ([\w-]+) -->", text)
    runs = {run.experiment: run for run in ResultsPage.read(RESULTS / f"{name}.json").runs}
    for experiment in blocks:
        assert format_block(runs[experiment]) in text, experiment
    # Runs whose file was kept have their block; copied ones do not.
    published = {experiment for experiment, run in runs.items() if "copied" not in run.settings}
    assert published - {""} == set(blocks)


def test_no_experiment_is_on_two_pages():
    names = []
    for page in read_pages(RESULTS):
        names += [run.experiment for run in page.runs if run.experiment]
    assert len(names) == len(set(names))


def test_every_item_that_was_run_has_its_key_line():
    runs = {}
    for page in read_pages(RESULTS):
        runs |= {run.experiment: run for run in page.runs}
    for item in ITEMS:
        if item.experiment in runs:
            assert find_key_line(item, runs[item.experiment]).what.startswith(item.line_label)


# --- the numbers of the README ---


def find_numbers(text: str) -> list[str]:
    """Return the numbers of a text, without digits of names such as H200, CIFAR-10 or kill -9."""
    decimals = r"-?\d[\d,]*\.\d+"
    whole = r"\d[\d,]*\d|\d"
    return re.findall(rf"(?<![\w.,/-])(?:{decimals}|{whole})(?![\w-]|\.\d)", text)


def read_known_numbers(name: str) -> list[float]:
    """Return all numbers in the JSON file beside a page, also those in its texts."""
    document = json.loads((RESULTS / f"{name}.json").read_text())
    numbers: list[float] = []

    def collect(value) -> None:
        if isinstance(value, dict):
            for child in value.values():
                collect(child)
        elif isinstance(value, list):
            for child in value:
                collect(child)
        elif isinstance(value, str):
            numbers.extend(float(text.replace(",", "")) for text in find_numbers(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(float(value))

    collect(document)
    return numbers


def list_readme_rows() -> list[tuple[str, list[str]]]:
    """Return the text and the linked pages of every row of the README's table of results."""
    rows = []
    for row in re.findall(r"^\| .*docs/results/.* \|$", README.read_text(), flags=re.MULTILINE):
        _, _, text, links, _ = (
            row.split(" | ") if row.count(" | ") == 4 else ("", *row.split("|")[1:])
        )
        pages = re.findall(r"docs/results/([\w-]+)\.md", links)
        # The index has no numbers of its own.
        rows.append((text, [page for page in pages if page != "index"]))
    return rows


def find_unknown_numbers(text: str, pages: list[str]) -> list[str]:
    """Return the numbers of a text that are in no JSON file of these pages, rounded as written."""
    known = [number for page in pages for number in read_known_numbers(page)]
    # Signs are words in a sentence: "0.02 below".
    known += [-number for number in known]
    unknown = []
    # The summary is computed from all files.
    for written in find_numbers(text.replace(SUMMARY, "")):
        value = float(written.replace(",", ""))
        decimals = len(written.partition(".")[2])
        if not any(round(number, decimals) == value for number in known):
            unknown.append(written)
    return unknown


@pytest.mark.parametrize(("text", "pages"), list_readme_rows())
def test_numbers_of_the_readme_are_in_the_files_beside_the_pages_that_it_links(text, pages):
    assert not find_unknown_numbers(text, pages), f"not in the JSON files of {', '.join(pages)}"


def test_every_row_of_the_readme_is_checked():
    """Otherwise a row of another form would pass because no test sees it."""
    section = README.read_text().partition("## How far to trust it")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = list_readme_rows()
    # The header and the line below it are no rows.
    assert len(rows) == len(lines) - 2 >= 8
    number_count = 0
    for text, pages in rows:
        assert pages, text
        for page in pages:
            assert (RESULTS / f"{page}.json").is_file(), page
        number_count += len(find_numbers(text))
    assert number_count >= 40
    # The paragraph below the table has numbers, too.
    paragraph = section.replace("\n".join(lines), "").replace("bit for bit", "")
    assert not find_unknown_numbers(paragraph, ["networks-per-batch", "robustness"])


@pytest.mark.parametrize(("text", "pages"), list_readme_rows())
def test_a_number_that_was_not_measured_is_noticed(text, pages):
    assert find_unknown_numbers(f"{text} 0.123456", pages) == ["0.123456"]


def test_most_wrong_digits_are_noticed():
    """A number of two digits occurs in a large file by chance, so not every typing error is."""
    changed = noticed = 0
    for text, pages in list_readme_rows():
        for number in find_numbers(text.replace(SUMMARY, "")):
            for step in (1, 3, 7):
                wrong = f"{number[:-1]}{(int(number[-1]) + step) % 10}"
                changed += 1
                noticed += bool(find_unknown_numbers(wrong, pages))
    assert changed > 100
    assert noticed > 0.5 * changed


@pytest.mark.parametrize("name", PAGES)
def test_the_file_of_every_page_has_numbers(name):
    """A file without numbers would make the checks of its page empty."""
    assert any(number not in (0.0, 1.0) for number in read_known_numbers(name)), name


def test_the_readme_states_the_summary_of_the_index():
    """If it does not: `python -m untrained.papers.results summary docs/results`."""
    assert SUMMARY in " ".join(README.read_text().split())


def test_other_json_files_belong_to_scripts():
    for path in RESULTS.glob("*.json"):
        assert has_runs(path) or path.stem in OWN_FORM, path.name
