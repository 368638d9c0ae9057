"""Experiments: functions that reproduce a table or a figure of a paper.

    @experiment("dextr-table-4", PAPER, "The two terms of Dextr compared with ...", "Spearman")
    def table_4(config: ExperimentConfig) -> Findings:
        "Table 4: ..."

The docstring of the function says what the paper shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path

from untrained.benchmarks.comparison import FailureRule
from untrained.config import ComputeConfig
from untrained.papers.recorded_scores import RecordedScores
from untrained.progress import ProgressCallback
from untrained.registry import Registry
from untrained.reports.reproduction_result import Better, Plot, TableLine
from untrained.runs.folder import STORE


@dataclass(frozen=True)
class ExperimentConfig:
    """How large an experiment is and where it runs.

    Attributes:
        samples: Number of architectures that are taken from a table or scored by a search.
        seeds: Number of initialisations and batches, or of searches.
        folder: Folder for all measurements, from which an interrupted experiment resumes.
        compute: Device, workers and time limit.
        batch: Largest number of samples that a network sees, for quick trials; None for no limit.
        store: SQLite file of the scores; None for the one in the folder.
        recorded: Scores of another run, which are not measured again.
        only_recorded: Whether to measure nothing: all samples are architectures with recorded
            scores, and proxies without recorded scores have no value.
        failures: Whether correlations omit architectures without a score, or rank them last.
        data_root: Folder of the tables and images.
        on_progress: Called with every progress event.
    """

    samples: int
    seeds: int
    folder: Path
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    batch: int | None = None
    store: Path | None = None
    recorded: RecordedScores | None = None
    only_recorded: bool = False
    failures: FailureRule = "omit"
    data_root: str | Path | None = None
    on_progress: ProgressCallback | None = None

    @property
    def store_path(self) -> Path:
        """The SQLite file of the scores."""
        return self.store or self.folder / STORE


@dataclass(frozen=True)
class Findings:
    """The result of an experiment.

    Attributes:
        lines: Published numbers beside ours.
        deviations: Sentences that describe deviations from the paper. Empty ones are dropped.
        plots: Charts of a figure.
    """

    lines: tuple[TableLine, ...]
    deviations: tuple[str, ...]
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be reproduced.

    Attributes:
        name: Public name, such as `dextr-table-1`.
        paper: The paper and its authors.
        title: What the table or figure is about.
        unit: Unit of its numbers.
        about: What the paper shows there, the docstring of `run`.
        needs: Benchmark tables that must be imported first.
        run: The function.
        samples: Default number of samples.
        seeds: Default number of seeds.
        better: Which numbers are better, for lines that do not state it: "higher", "lower", or ""
            if neither are, as for a number of parameters.
    """

    name: str
    paper: str
    title: str
    unit: str
    about: str
    needs: tuple[str, ...]
    run: Callable[[ExperimentConfig], Findings]
    samples: int = 1000
    seeds: int = 1
    better: Better = "higher"


EXPERIMENTS: Registry[Experiment] = Registry("table or figure")


def experiment(
    name: str,
    paper: str,
    title: str,
    unit: str,
    needs: tuple[str, ...] = ("nasbench201",),
    samples: int = 1000,
    seeds: int = 1,
    better: Better = "higher",
) -> Callable[[Callable[[ExperimentConfig], Findings]], Callable[[ExperimentConfig], Findings]]:
    """Register a function as an experiment. Its docstring says what the paper shows.

    Args:
        name: Public name, such as `dextr-table-1`.
        paper: The paper and its authors.
        title: What the table or figure is about.
        unit: Unit of its numbers; empty if they have several.
        needs: Benchmark tables that must be imported first.
        samples: Default number of samples.
        seeds: Default number of seeds.
        better: Which numbers are better, for lines that do not state it: "higher", "lower", or ""
            if neither are, as for a number of parameters.

    Returns:
        A decorator that returns the function unchanged.
    """

    def register(
        run: Callable[[ExperimentConfig], Findings],
    ) -> Callable[[ExperimentConfig], Findings]:
        # Line breaks of the docstring are not part of the text.
        about = " ".join(cleandoc(run.__doc__ or "").split())
        EXPERIMENTS.add(
            name,
            Experiment(
                name=name,
                paper=paper,
                title=title,
                unit=unit,
                about=about,
                needs=needs,
                run=run,
                samples=samples,
                seeds=seeds,
                better=better,
            ),
        )
        return run

    return register
