"""SiGeo (Zhou et al., arXiv:2311.13169), Figures 2, 5, 6 and 7: what gradients say of two-layer networks while they
train. The paper draws points and prints no numbers; what it claims is told in words, and ours are rank correlations.
"""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.sigeo import PAPER
from untrained.papers.sigeo_trainings import BATCH, END, FINAL, LEVELS, SETTINGS, STATISTICS, Courses, courses
from untrained.papers.table_lines import line
from untrained.reports.reproduction_facts import Curve, Plot, TableLine

NAMES = {
    "fr": "FR norm",
    "loss": "current loss",
    "gradient": "mean absolute gradient",
    "deviation": "standard deviation of gradients",
}
TEXT, CODE, BOTH = SETTINGS
UNIT = "Spearman with the final loss"
TREND = "The paper gives no numbers: the trend is what can be compared."
TRAINED = (
    f"The paper's words and its authors' notebook differ, so there are three settings. {TEXT.name}: a rate of "
    f"{TEXT.rate}, MNIST normalised by CIFAR-10's mean and deviation, as appendix F.1 has it. {CODE.name}: images from "
    f"0 to 1, a ReLU behind the last layer and a rate of {CODE.rate}, as the notebook has it. {BOTH.name}: the same at "
    f"the rate of Section 4.1, a mixture that neither of them describes."
)
ALIKE = (
    f"In all of them: batches of {BATCH}, three epochs, no momentum; networks see the same batches in the same order."
)
LOOKED = (
    "Statistics are those of the four batches that come next, for weights without biases; the loss is their mean. The "
    "notebook adds up gradients that it never empties, those of earlier levels too; that is not repeated."
)


@experiment("sigeo-figure-2", PAPER, "Statistics at three levels of warm-up against the final test loss", UNIT, (), 24)
def figure_2(effort: ExperimentConfig) -> Findings:
    """Figure 2: two-layer networks of width 2 to 48 on MNIST. With warm-up (0, 10, 40 %) the rank correlation of the FR
    norm and of the current loss with the final loss grows, that of the mean absolute gradient stays as it is."""
    return _compared(effort, (0, 10, 40), ("fr", "loss", "gradient"), ("test",))


@experiment("sigeo-figure-5", PAPER, "Four statistics without warm-up against the final losses", UNIT, (), 24)
def figure_5(effort: ExperimentConfig) -> Findings:
    """Figure 5: training and test loss of two-layer networks on MNIST against four statistics of their initial
    gradients."""
    return _compared(effort, (0,), STATISTICS, FINAL)


@experiment("sigeo-figure-6", PAPER, "Four statistics after 10 % of warm-up against the final losses", UNIT, (), 24)
def figure_6(effort: ExperimentConfig) -> Findings:
    """Figure 6: training and test loss of two-layer networks on MNIST against four statistics after 10 % of an epoch.
    The caption says 10 %, the text of the appendix 196 batches, which are 40 %; ours are after 10 %."""
    return _compared(effort, (10,), STATISTICS, FINAL)


@experiment("sigeo-figure-7", PAPER, "Statistics at six levels of warm-up against the final test loss", UNIT, (), 24)
def figure_7(effort: ExperimentConfig) -> Findings:
    """Figure 7: as Figure 2 with 0, 10, 40, 60, 80 and 100 % of an epoch: the FR norm gains nothing beyond 40 %."""
    return _compared(effort, LEVELS, ("fr", "loss", "gradient"), ("test",))


def _compared(
    effort: ExperimentConfig, levels: Sequence[int], statistics: Sequence[str], final: Sequence[str]
) -> Findings:
    found = {setting.name: courses(effort, setting) for setting in SETTINGS}
    rows = [(setting, end, statistic) for setting in found for end in final for statistic in statistics]
    lines = [
        _line(found[setting], setting, end, statistic, level) for setting, end, statistic in rows for level in levels
    ]
    pictures = [
        Plot(f"{setting}: {NAMES[statistic]} and {end} loss", NAMES[statistic], f"final {end} loss",
                tuple(_dots(found[setting], end, statistic, level) for level in levels))
        for setting, end, statistic in rows
    ]  # fmt: skip
    first = found[TEXT.name]
    few = f"{len(first.widths)} of the 24 widths are trained." if len(first.widths) < 24 else ""
    trial = f"Batches of {effort.batch}: this is a trial." if effort.batch else ""
    return Findings(tuple(lines), (TREND, TRAINED, ALIKE, LOOKED, *first.deviations, few, trial), tuple(pictures))


def _line(found: Courses, setting: str, end: str, statistic: str, level: int) -> TableLine:
    what = f"{setting}: {NAMES[statistic]} at {level} %, final {end} loss"
    return line(what, None, spearman, found.scores[statistic, level], found.scores[end, END])


def _dots(found: Courses, end: str, statistic: str, level: int) -> Curve:
    x, y = found.scores[statistic, level][0], found.scores[end, END][0]
    known = np.isfinite(x) & np.isfinite(y)
    return Curve(f"{level} %", tuple(x[known].tolist()), tuple(y[known].tolist()))
