"""The results of the repository: a JSON file beside every page, and the index of all experiments.

    python -m untrained.papers.results publish runs/reproduce-dextr-table-4 docs/results
    python -m untrained.papers.results index docs/results > docs/results/index.md
    python -m untrained.papers.results summary docs/results

`publish` adds the result of `untrained reproduce` to the JSON file beside its page, and writes the
numbers to the page between two comments; the text around the comments is kept. An experiment that
has no page gets a new one. `index` lists all 59 tables and figures, and `summary` prints the
sentences about them that the README quotes.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from untrained.errors import UsageError
from untrained.files import read_result_file, write_atomically
from untrained.papers.items import ITEMS, PAPER_TITLES, PaperItem
from untrained.reports.reproduction_result import ReproductionResult, TableLine, Verdict

MIN_FOLDED_LINES = 30  # a table with at least this many lines is folded on its page
VERDICTS: tuple[Verdict, ...] = ("at or above", "within", "below", "outside", "no value")

INDEX_INTRODUCTION = """\
# Every table and figure of the four papers

```
make docs        # writes this page from the JSON files beside the pages of results
```

{summary}

The row of an item shows one of its numbers, published and ours, and counts all of them:

- **at or above**: ours is at least as good as the published number. For a correlation or an
  accuracy this means at least as high, for an error or a log loss at least as low.
- **within**: ours is worse, and the published number is in our 95 % interval (over architectures,
  or over searches).
- **below**: ours is worse, and the published number is not in the interval, or there is none.
- **outside**: the published number is not in our interval, or there is none, and neither a higher
  nor a lower number is better, as for a number of parameters.
- **no value**: we have none, for the reason on the page.

A published number counts once: variants of a row, such as that of the authors' code, do not count.
Time is that of the whole experiment in minutes; experiments that share scores count them once. It
is followed by the device that measured the scores; "recorded" means that they were read from the
file of an earlier run. Samples are architectures, or what the page says; a few runs on a CPU have
far fewer than the paper. A commit in brackets is that of the page, from which the numbers were
copied, because the file of the run was not kept.
"""
INDEX_COLUMNS = (
    "item",
    "content",
    "published",
    "ours",
    *VERDICTS,
    "samples x seeds",
    "date",
    "commit",
    "minutes",
)


@dataclass(frozen=True)
class ResultsPage:
    """The numbers of a page of results, which are in a JSON file beside it.

    Attributes:
        name: Name of the page without its suffix.
        runs: The runs whose numbers the page shows. The run of a script has no experiment.
    """

    name: str
    runs: tuple[ReproductionResult, ...]

    @staticmethod
    def read(path: Path) -> "ResultsPage":
        """Read a JSON file of results.

        Raises:
            UsageError: The file cannot be read.
        """
        with read_result_file(path) as facts:
            runs = []
            for run in facts["runs"]:
                runs.append(ReproductionResult.from_document({"plots": []} | run))
            return ResultsPage(path.stem, tuple(runs))

    def write(self, folder: Path) -> None:
        """Write the JSON file."""
        runs = []
        for run in self.runs:
            fields = asdict(run)
            # A figure has thousands of points, and the folder of a run has no meaning elsewhere.
            del fields["plots"], fields["folder"]
            runs.append(fields)
        text = json.dumps({"page": f"{self.name}.md", "runs": runs}, indent=1, ensure_ascii=False)
        write_atomically(folder / f"{self.name}.json", text + "\n")


def read_pages(folder: Path) -> list[ResultsPage]:
    """Read all JSON files of results in a folder, sorted by name."""
    pages = []
    for path in sorted(folder.glob("*.json")):
        if has_runs(path):
            pages.append(ResultsPage.read(path))
    return pages


def has_runs(path: Path) -> bool:
    """Return whether a JSON file holds runs. Some scripts write files of another form."""
    with read_result_file(path) as facts:
        return isinstance(facts, dict) and "runs" in facts


def publish_run(run_folder: Path, folder: Path) -> ResultsPage:
    """Add the result of an experiment to the page that shows it.

    Args:
        run_folder: Folder of the experiment.
        folder: Folder of the pages of results.

    Returns:
        The page.
    """
    result = ReproductionResult.read(run_folder)
    # Folders and files outside docs/ mean nothing to a reader, so the command omits them.
    command = re.sub(r" --(run|scores) (?!docs/)\S+", "", result.command)
    result = replace(result, command=command, folder="", plots=())
    page = ResultsPage(result.experiment, ())
    for existing in read_pages(folder):
        if any(run.experiment == result.experiment for run in existing.runs):
            page = existing
    others = [run for run in page.runs if run.experiment != result.experiment]
    page = ResultsPage(page.name, (*others, result))
    page.write(folder)
    path = folder / f"{page.name}.md"
    text = f"# {result.paper}: {result.title}\n"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    write_atomically(path, insert_numbers(text, result))
    return page


def insert_numbers(text: str, result: ReproductionResult) -> str:
    """Return the text of a page with the numbers of a run, which replace those of earlier runs."""
    block = format_block(result)
    start, end = _make_comments(result.experiment)
    if start in text:
        before = text.partition(start)[0]
        after = text.partition(end)[2]
        return f"{before}{block}{after}"
    return f"{text.rstrip()}\n\n{block}\n"


def format_block(result: ReproductionResult) -> str:
    """Return the numbers of a run as they are on its page, with the comments around them."""
    start, end = _make_comments(result.experiment)
    body = result.format_body().strip()
    if len(result.lines) >= MIN_FOLDED_LINES:
        body = _fold_table(body, len(result.lines))
    return f"{start}\n\n{body}\n\n{end}"


def _make_comments(experiment: str) -> tuple[str, str]:
    """Return the comments before and after the numbers of an experiment."""
    return f"<!-- numbers of {experiment} -->", f"<!-- end of {experiment} -->"


def _fold_table(body: str, count: int) -> str:
    """Fold a long table, so that it is shown only if a reader clicks on it."""
    parts = body.split("\n\n")
    for index, part in enumerate(parts):
        if part.startswith("| "):
            # Without this attribute, the documentation site would show the Markdown of the table.
            summary = f'<details markdown="1"><summary>All {count} numbers</summary>'
            parts[index] = f"{summary}\n\n{part}\n\n</details>"
    return "\n\n".join(parts)


# -------------------------------------------------------------------------------------- the index


def render_index(folder: Path) -> str:
    """Return the page that lists all tables and figures."""
    pages = read_pages(folder)
    page_and_run_by_experiment = {}
    for page in pages:
        for run in page.runs:
            if run.experiment:
                page_and_run_by_experiment[run.experiment] = (page, run)
    command_count = sum(bool(item.experiment) for item in ITEMS)
    summary = (
        f"**{summarise_pages(pages)}** {command_count} have a command, and "
        f"{len(ITEMS) - command_count} cannot be repeated here."
    )
    sections = [INDEX_INTRODUCTION.format(summary=summary)]
    for paper, title in PAPER_TITLES.items():
        rows = [INDEX_COLUMNS, ("---",) * len(INDEX_COLUMNS)]
        for item in ITEMS:
            if item.paper == paper:
                rows.append(_make_item_row(item, page_and_run_by_experiment))
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        sections.append(f"## {title}\n\n{table}\n")
    sections += _list_further_experiments(page_and_run_by_experiment)
    return "\n".join(sections)


def _list_further_experiments(
    page_and_run_by_experiment: Mapping[str, tuple[ResultsPage, ReproductionResult]],
) -> list[str]:
    """Return a section on experiments that belong to no item; an empty list if there are none."""
    item_experiments = {item.experiment for item in ITEMS}
    entries = []
    for name, (page, run) in sorted(page_and_run_by_experiment.items()):
        if name not in item_experiments:
            entries.append(f"- [{name}]({page.name}.md): {run.title}")
    if not entries:
        return []
    return ["## Further experiments\n\n" + "\n".join(entries) + "\n"]


def summarise_pages(pages: Iterable[ResultsPage]) -> str:
    """Return the sentences of the README on how many items were run, and how they compare."""
    item_experiments = {item.experiment for item in ITEMS if item.experiment}
    run_experiments = set()
    verdicts: Counter[str] = Counter()
    for page in pages:
        for run in page.runs:
            if run.experiment in item_experiments:
                run_experiments.add(run.experiment)
                verdicts += count_verdicts(run.lines)
    reproduced_items = [item for item in ITEMS if item.experiment in run_experiments]
    compared = verdicts.total() - verdicts["no value"]
    return (
        f"{len(reproduced_items)} of the {len(ITEMS)} tables and figures of the four papers were "
        f"run. Of {compared:,} published numbers that can be compared, ours are at least as good "
        f"as {verdicts['at or above']:,}; {verdicts['within']:,} more lie within our intervals."
    )


def count_verdicts(lines: Sequence[TableLine]) -> Counter[str]:
    """Count how our numbers compare with the published ones."""
    return Counter(line.verdict for line in lines if line.verdict is not None)


def _make_item_row(
    item: PaperItem,
    page_and_run_by_experiment: Mapping[str, tuple[ResultsPage, ReproductionResult]],
) -> tuple[str, ...]:
    content = item.content
    if item.reason:
        content = f"{content} ({item.reason})"
    empty_cells = ("",) * (len(INDEX_COLUMNS) - 3)
    if not item.experiment:
        return (item.name, content, "cannot run", *empty_cells)
    if item.experiment not in page_and_run_by_experiment:
        command = f"untrained reproduce {item.experiment}"
        return (item.name, content, f"not run: `{command}`", *empty_cells)
    page, run = page_and_run_by_experiment[item.experiment]
    line = find_key_line(item, run)
    verdicts = count_verdicts(run.lines)
    counts = [str(verdicts[verdict] or "") for verdict in VERDICTS]
    settings = run.settings
    samples_and_seeds = " x ".join(
        settings[name] for name in ("samples", "seeds") if name in settings
    )
    commit = f"[{run.commit}]" if "copied" in settings else run.commit
    minutes = ""
    if run.seconds:
        minutes = f"{run.seconds / 60:.1f} {settings.get('device', '')}".strip()
    return (
        f"[{item.name}]({page.name}.md)",
        content,
        _format_value(line.published),
        f"{_format_value(line.ours)} ({line.what})",
        *counts,
        samples_and_seeds,
        run.made_on[:10],
        commit,
        minutes,
    )


def find_key_line(item: PaperItem, run: ReproductionResult) -> TableLine:
    """Return the line that the index shows: the one whose description is the label of the item.

    If there is none, the first line whose description starts with the label is returned.

    Raises:
        UsageError: The run has no such line.
    """
    for line in run.lines:
        if line.what == item.line_label:
            return line
    for line in run.lines:
        if line.what.startswith(item.line_label):
            return line
    raise UsageError(f"the run of {run.experiment} has no line {item.line_label!r}")


def _format_value(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


def main(arguments: Sequence[str]) -> None:
    """Publish run folders, or print the index."""
    command, *paths = arguments
    if command == "publish":
        *run_folders, folder = paths
        for run_folder in run_folders:
            page = publish_run(Path(run_folder), Path(folder))
            print(f"{run_folder}: {page.name}")
    elif command == "index":
        sys.stdout.write(render_index(Path(paths[0])))
    elif command == "summary":
        print(summarise_pages(read_pages(Path(paths[0]))))
    else:
        raise UsageError("write publish RUN... FOLDER, index FOLDER or summary FOLDER")


if __name__ == "__main__":
    main(sys.argv[1:])
