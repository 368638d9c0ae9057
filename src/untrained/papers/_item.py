"""What a reproduction is: published numbers, ours beside them, and what was done differently, as plain facts.

Knows nothing of networks, tables or how anything was measured.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from inspect import cleandoc
from pathlib import Path
from typing import Any

from untrained import _numbers
from untrained._files import reading_study, write_study, write_whole
from untrained.registry import Registry
from untrained.strategies.search import Watcher
from untrained.studies._scores import Crew

FILE = "reproduction.json"
HEAD = ("what", "paper", "ours", "95 %", "\u00b1 seeds", "difference", "note")


@dataclass(frozen=True)
class Line:
    """One number of a paper and ours: its 95 % interval over architectures, its standard deviation over seeds."""

    what: str
    published: float | None  # None where the paper shows a picture, or says nothing
    ours: float | None  # None where it is not defined
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.published is None or self.ours is None else self.ours - self.published

    @property
    def inside(self) -> bool | None:
        """Whether the paper's number lies within our interval; None where one of them is missing."""
        if self.published is None or self.low is None or self.high is None:
            return None
        return self.low <= self.published <= self.high

    def row(self) -> dict[str, Any]:
        return asdict(self) | {"difference": self.difference}


@dataclass(frozen=True)
class Curve:
    """Points of a picture; joined by a line where the picture says so."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Picture:
    """What a figure draws."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    joined: bool = False


@dataclass(frozen=True)
class Findings:
    """What an experiment brings home."""

    lines: tuple[Line, ...]
    deviations: tuple[str, ...]  # sentences
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper, done again."""

    item: str
    paper: str
    title: str
    about: str  # what the paper shows
    unit: str  # of the numbers: Spearman, %
    lines: tuple[Line, ...]
    deviations: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()
    command: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    made_on: str = ""
    folder: str = ""

    @property
    def furthest(self) -> Line | None:
        """The line that differs most from the paper; None where the paper has no numbers."""
        compared = [line for line in self.lines if line.difference is not None]
        return max(compared, key=lambda line: abs(line.difference or 0.0), default=None)

    def rows(self) -> list[dict[str, Any]]:
        return [line.row() for line in self.lines]

    def written(self) -> list[tuple[str, ...]]:
        """The lines as people read them, under `HEAD`; numbers of one table have the same decimals."""
        numbers = [value for line in self.lines for value in (line.published, line.ours) if value is not None]
        decimals = 3 if max(map(abs, numbers), default=0) < 10 else 2
        return [_written(line, decimals) for line in self.lines]

    def filled(self) -> list[int]:
        """The places of those columns of `HEAD` that a line fills."""
        return [place for place, cells in enumerate(zip(*self.written(), strict=True)) if any(cells)]

    def markdown(self) -> str:
        """What to paste into a page of text: the command, the numbers, what was done differently."""
        rows = [HEAD, ("---",) * len(HEAD), *self.written()]
        cells = [[row[place].replace("|", "\\|") for place in self.filled()] for row in rows]
        lines = "\n".join(f"| {' | '.join(row)} |" for row in cells)
        unlike = "\n".join(f"- {said}" for said in self.deviations)
        about = f"{self.about} Numbers: {self.unit}. Made on {self.made_on}, torch {self.versions.get('torch', '?')}."
        return f"# {self.paper}: {self.title}\n\n```\n{self.command}\n```\n\n{about}\n\n{lines}\n\n{unlike}\n"

    def document(self) -> dict[str, Any]:
        """What `--json` prints: everything but the points of pictures."""
        told = asdict(self) | {"lines": self.rows()}
        del told["pictures"]
        return told

    def save(self) -> "Reproduction":
        """Write `reproduction.json`, whole or not at all, the lines as `reproduction.csv` and `reproduction.md`."""
        path = Path(self.folder, FILE)
        write_study(path, asdict(self), self.rows())
        write_whole(path.with_suffix(".md"), self.markdown())
        return self

    @staticmethod
    def read(folder: str | Path) -> "Reproduction":
        with reading_study(Path(folder, FILE)) as facts:
            lines = tuple(Line(**line) for line in facts["lines"])
            pictures = tuple(_picture(**picture) for picture in facts["pictures"])
            told = {"lines": lines, "pictures": pictures, "deviations": tuple(facts["deviations"])}
            return Reproduction(**facts | told | {"folder": str(folder)})


def _written(line: Line, decimals: int) -> tuple[str, ...]:
    def shown(value: float | None) -> str:
        return "" if value is None else _numbers.fixed(value, decimals)

    between = f"{shown(line.low)} to {shown(line.high)}" if line.low is not None else ""
    sign = "+" if line.difference is not None and line.difference > 0 else ""
    apart = f"{sign}{shown(line.difference)}"
    return line.what, shown(line.published), shown(line.ours), between, shown(line.spread), apart, line.note


def _picture(curves: list[dict[str, Any]], **facts: Any) -> Picture:
    return Picture(curves=tuple(Curve(c["name"], tuple(c["x"]), tuple(c["y"])) for c in curves), **facts)


@dataclass(frozen=True)
class Effort:
    """How much is done, where, and by whom."""

    samples: int  # architectures of a table
    seeds: int  # initialisations and batches
    folder: Path  # remembers what was measured
    crew: Crew = field(default_factory=Crew)
    batch: int | None = None  # at most so many samples are shown to a network, to try things out
    data_root: str | Path | None = None
    watch: Watcher | None = None


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper as an experiment."""

    name: str
    paper: str
    title: str
    unit: str
    about: str
    needs: tuple[str, ...]  # tables of known results
    run: Callable[[Effort], Findings]
    samples: int = 1000
    seeds: int = 1


ITEMS: Registry[Item] = Registry("table or figure")


def item(
    name: str,
    paper: str,
    title: str,
    unit: str,
    needs: tuple[str, ...] = ("nasbench201",),
    samples: int = 1000,
    seeds: int = 1,
) -> Callable[[Callable[[Effort], Findings]], Callable[[Effort], Findings]]:
    """Decorator: enter an experiment in the catalogue. Its docstring says what the paper shows."""

    def register(run: Callable[[Effort], Findings]) -> Callable[[Effort], Findings]:
        about = " ".join(cleandoc(run.__doc__ or "").split())
        ITEMS.add(name, Item(name, paper, title, unit, about, needs, run, samples, seeds))
        return run

    return register
