"""The result of reproducing a table or figure of a paper: published numbers beside ours.

The page, the terminal and the files of a reproduction are made from these classes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from untrained import formatting
from untrained.files import read_result_file, write_atomically, write_result_files

RESULT_FILE = "reproduction.json"
COLUMN_TITLES = ("what", "paper", "ours", "95 %", "\u00b1 seeds", "difference", "note")

# Which numbers are better; "" if neither higher nor lower is, as for a number of parameters.
Better = Literal["higher", "lower", ""]
# How our number compares with the published one.
Verdict = Literal["at or above", "within", "below", "outside", "no value"]


@dataclass(frozen=True)
class TableLine:
    """One number of a paper beside ours.

    Attributes:
        what: What the number is about.
        published: The number in the paper; None if the paper gives none.
        ours: Our number; None if it is not defined.
        low: Lower end of our 95 % interval over architectures, or over searches.
        high: Upper end of that interval.
        spread: Standard deviation of our number over seeds.
        note: A remark, such as how many networks have no score.
        better: Which numbers are better; None counts as "higher" until `reproduce` fills in the
            default of the experiment.
        alternative: Whether this line is a variant of another line with the same published number.
            Variants have no verdict.
        stated_verdict: A verdict that replaces the computed one, for an older number whose interval
            was not kept.
    """

    what: str
    published: float | None
    ours: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    note: str = ""
    better: Better | None = None
    alternative: bool = False
    stated_verdict: Verdict | None = None

    @property
    def difference(self) -> float | None:
        """Our number minus the published one; None if one of them is missing."""
        if self.published is None or self.ours is None:
            return None
        return self.ours - self.published

    @property
    def paper_in_interval(self) -> bool | None:
        """Whether the published number is in our interval; None if one of them is missing."""
        if self.published is None or self.low is None or self.high is None:
            return None
        return self.low <= self.published <= self.high

    @property
    def verdict(self) -> Verdict | None:
        """How our number compares with the published one.

        `at or above` means at least as good, so a lower error is `at or above`. Otherwise our
        number is `within` if the published number is in our interval, else `below`; or `outside` if
        neither higher nor lower is better. None for a variant, or without a published number.
        """
        if self.published is None or self.alternative:
            return None
        if self.stated_verdict is not None:
            return self.stated_verdict
        if self.ours is None:
            return "no value"
        better = "higher" if self.better is None else self.better
        if better == "higher" and self.ours >= self.published:
            return "at or above"
        if better == "lower" and self.ours <= self.published:
            return "at or above"
        if self.paper_in_interval or self.ours == self.published:
            return "within"
        return "below" if better else "outside"

    def to_row(self) -> dict[str, Any]:
        """Return the numbers, their difference and the verdict as one row of a table."""
        return {
            "what": self.what,
            "published": self.published,
            "ours": self.ours,
            "low": self.low,
            "high": self.high,
            "spread": self.spread,
            "note": self.note,
            "difference": self.difference,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Curve:
    """A series of points in a plot."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Plot:
    """A chart of a figure.

    Attributes:
        title: Title of the chart.
        x: Title of the horizontal axis.
        y: Title of the vertical axis.
        curves: The points.
        joined: Whether lines connect the points of a curve.
    """

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    joined: bool = False


@dataclass(frozen=True)
class ReproductionResult:
    """A reproduced table or figure of a paper.

    Attributes:
        experiment: Name of the experiment, such as `dextr-table-1`.
        paper: The paper and its authors.
        title: What the table or figure is about.
        about: What the paper shows there.
        unit: Unit of the numbers, such as "Spearman" or "%".
        lines: Published numbers beside ours.
        deviations: Sentences that describe deviations from the paper.
        plots: Charts of a figure.
        command: The command that repeats the reproduction.
        settings: Samples, seeds, device.
        versions: Versions of Python, torch and this package.
        commit: Commit of the code, if it runs from a clone; it ends in "+" if files were changed.
        seconds: How long it took, with all interrupted attempts.
        made_on: Date and time.
        folder: Where it is saved.
    """

    experiment: str
    paper: str
    title: str
    about: str
    unit: str
    lines: tuple[TableLine, ...]
    deviations: tuple[str, ...]
    plots: tuple[Plot, ...] = ()
    command: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    seconds: float = 0.0
    made_on: str = ""
    folder: str = ""

    @property
    def worst_line(self) -> TableLine | None:
        """The line that differs most from the paper; None if the paper has no numbers."""
        worst = None
        largest = -1.0
        for line in self.lines:
            if line.difference is not None and abs(line.difference) > largest:
                worst = line
                largest = abs(line.difference)
        return worst

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per line."""
        return [line.to_row() for line in self.lines]

    def format_lines(self) -> list[tuple[str, ...]]:
        """Return the lines as text, in the columns of `COLUMN_TITLES`.

        All numbers of a table have the same number of decimals.
        """
        largest = 0.0
        for line in self.lines:
            for value in (line.published, line.ours):
                if value is not None:
                    largest = max(largest, abs(value))
        # Correlations and losses need three decimals, percentages two.
        decimals = 3 if largest < 10 else 2
        return [_format_line(line, decimals) for line in self.lines]

    def find_filled_columns(self) -> list[int]:
        """Return the indices of the columns of `COLUMN_TITLES` that are not empty."""
        columns = zip(*self.format_lines(), strict=True)
        return [index for index, cells in enumerate(columns) if any(cells)]

    def to_markdown(self) -> str:
        """Return the command, the numbers and the deviations as a Markdown page."""
        return f"# {self.paper}: {self.title}\n\n{self.format_body()}"

    def format_body(self) -> str:
        """Return the command, the numbers and the deviations as Markdown without a title."""
        filled_columns = self.find_filled_columns()
        table = []
        for row in [COLUMN_TITLES, ("---",) * len(COLUMN_TITLES), *self.format_lines()]:
            # A bar would end the cell of a Markdown table.
            cells = [row[column].replace("|", "\\|") for column in filled_columns]
            table.append(f"| {' | '.join(cells)} |")
        parts = [
            f"```\n{self.command}\n```",
            f"{self.about} {self._describe_run()}",
            "\n".join(table),
            "\n".join(f"- {deviation}" for deviation in self.deviations),
        ]
        return "\n\n".join(parts) + "\n"

    def _describe_run(self) -> str:
        """Return sentences on unit, date, commit, versions, size and device."""
        unit = f"Unit: {self.unit}. " if self.unit else ""
        commit = f", commit {self.commit}" if self.commit else ""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        made_on = f"Made on {self.made_on}{commit}, torch {self.versions.get('torch', '?')}"
        duration = formatting.format_duration(self.seconds)
        return f"{unit}{made_on}; {settings}; {duration}."

    def to_document(self) -> dict[str, Any]:
        """Return what `--json` prints: everything except the points of plots."""
        document = asdict(self) | {"lines": self.to_rows()}
        # A figure has thousands of points, which are in reproduction.json.
        del document["plots"]
        return document

    def save(self) -> "ReproductionResult":
        """Write `reproduction.json`, `.csv` and `.md`; each file is complete or absent."""
        path = Path(self.folder, RESULT_FILE)
        write_result_files(path, asdict(self), self.to_rows())
        write_atomically(path.with_suffix(".md"), self.to_markdown())
        return self

    @staticmethod
    def read(folder: str | Path) -> "ReproductionResult":
        """Read the result in a folder.

        Raises:
            UsageError: If the file is missing or damaged.
        """
        with read_result_file(Path(folder, RESULT_FILE)) as facts:
            return ReproductionResult.from_document(facts | {"folder": str(folder)})

    @staticmethod
    def from_document(facts: Mapping[str, Any]) -> "ReproductionResult":
        """Return the result whose fields were written as JSON."""
        # JSON has lists of dictionaries instead of tuples of objects.
        fields = dict(facts)
        fields["lines"] = tuple(TableLine(**line) for line in facts["lines"])
        fields["plots"] = tuple(_read_plot(**plot) for plot in facts["plots"])
        fields["deviations"] = tuple(facts["deviations"])
        return ReproductionResult(**fields)


def _format_line(line: TableLine, decimals: int) -> tuple[str, ...]:
    def format_number(value: float | None) -> str:
        if value is None:
            return ""
        return formatting.format_fixed(value, decimals)

    interval = ""
    if line.low is not None:
        interval = f"{format_number(line.low)} to {format_number(line.high)}"
    difference = format_number(line.difference)
    # An explicit plus sign shows the direction, as the minus sign does.
    if line.difference is not None and line.difference > 0:
        difference = f"+{difference}"
    return (
        line.what,
        format_number(line.published),
        format_number(line.ours),
        interval,
        format_number(line.spread),
        difference,
        line.note,
    )


def _read_plot(curves: list[dict[str, Any]], **facts: Any) -> Plot:
    read_curves = []
    for curve in curves:
        read_curves.append(Curve(curve["name"], tuple(curve["x"]), tuple(curve["y"])))
    return Plot(curves=tuple(read_curves), **facts)
