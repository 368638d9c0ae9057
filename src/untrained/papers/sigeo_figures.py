"""SiGeo (Zhou et al., arXiv:2311.13169), Figures 2, 5, 6 and 7: gradients during training.

The paper shows scatter plots for two-layer networks and gives no numbers. The docstrings of the
experiments state what it claims, and we compute rank correlations.
"""

from collections.abc import Sequence

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.sigeo import PAPER
from untrained.papers.sigeo_trainings import (
    BATCH,
    FINAL_LEVEL,
    FINAL_LOSSES,
    LEVELS,
    SETTINGS,
    STATISTICS,
    train_networks,
)
from untrained.papers.table_lines import make_correlation_line, make_points
from untrained.reports.reproduction_result import Plot, TableLine

NAMES = {
    "fr": "FR norm",
    "loss": "current loss",
    "gradient": "mean absolute gradient",
    "deviation": "standard deviation of gradients",
}
TEXT, CODE, MIXED = SETTINGS
UNIT = "Spearman with the final loss"
WIDTHS = 24  # number of widths in the paper
TREND_NOTE = "The paper gives no numbers, so only the trend can be compared."
SETTINGS_NOTE = (
    "The paper's text and its authors' notebook differ, so there are three settings. "
    f"{TEXT.name}: a rate of {TEXT.rate}, MNIST normalised by CIFAR-10's mean and deviation, as "
    f"in appendix F.1. {CODE.name}: images from 0 to 1, a ReLU after the last layer and a rate of "
    f"{CODE.rate}, as in the notebook. {MIXED.name}: the same with the rate of Section 4.1, a "
    "combination that neither of them describes."
)
COMMON_NOTE = (
    f"All settings: batches of {BATCH}, three epochs, no momentum; networks see the same batches "
    "in the same order."
)
STATISTICS_NOTE = (
    "Statistics are those of the next four batches, for weights without biases; the loss is their "
    "mean. The notebook accumulates gradients without resetting them, even across levels; we do "
    "not."
)


@experiment(
    "sigeo-figure-2",
    PAPER,
    "Statistics at three levels of warm-up against the final test loss",
    UNIT,
    (),
    samples=WIDTHS,
)
def figure_2(config: ExperimentConfig) -> Findings:
    """Figure 2: two-layer networks of width 2 to 48 on MNIST. With warm-up (0, 10, 40 %) the rank
    correlation of the FR norm and of the current loss with the final loss grows, that of the mean
    absolute gradient stays the same."""
    return _correlate_losses(config, (0, 10, 40), ("fr", "loss", "gradient"), ("test",))


@experiment(
    "sigeo-figure-5",
    PAPER,
    "Four statistics without warm-up against the final losses",
    UNIT,
    (),
    samples=WIDTHS,
)
def figure_5(config: ExperimentConfig) -> Findings:
    """Figure 5: training and test loss of two-layer networks on MNIST against four statistics of
    their initial gradients."""
    return _correlate_losses(config, (0,), STATISTICS, FINAL_LOSSES)


@experiment(
    "sigeo-figure-6",
    PAPER,
    "Four statistics after 10 % of warm-up against the final losses",
    UNIT,
    (),
    samples=WIDTHS,
)
def figure_6(config: ExperimentConfig) -> Findings:
    """Figure 6: training and test loss of two-layer networks on MNIST against four statistics after
    10 % of an epoch. The caption says 10 %, the text of the appendix 196 batches, which are 40 %;
    ours are after 10 %."""
    return _correlate_losses(config, (10,), STATISTICS, FINAL_LOSSES)


@experiment(
    "sigeo-figure-7",
    PAPER,
    "Statistics at six levels of warm-up against the final test loss",
    UNIT,
    (),
    samples=WIDTHS,
)
def figure_7(config: ExperimentConfig) -> Findings:
    """Figure 7: as Figure 2 with 0, 10, 40, 60, 80 and 100 % of an epoch: the FR norm gains nothing
    beyond 40 %."""
    return _correlate_losses(config, LEVELS, ("fr", "loss", "gradient"), ("test",))


def _correlate_losses(
    config: ExperimentConfig,
    levels: Sequence[int],
    statistics: Sequence[str],
    final_losses: Sequence[str],
) -> Findings:
    """Correlate statistics with final losses, for every setting.

    Args:
        config: Number of networks and seeds, folder, device.
        levels: The times at which statistics are computed, in per cent of an epoch.
        statistics: The statistics.
        final_losses: "train", "test" or both.
    """
    # One training gives all statistics at once, so every setting is trained only once.
    trained = {setting.name: train_networks(config, setting) for setting in SETTINGS}
    lines: list[TableLine] = []
    plots: list[Plot] = []
    for setting, networks in trained.items():
        for loss_name in final_losses:
            losses = networks.scores[loss_name, FINAL_LEVEL]
            for statistic in statistics:
                name = NAMES[statistic]
                curves = []
                for level in levels:
                    scores = networks.scores[statistic, level]
                    what = f"{setting}: {name} at {level} %, final {loss_name} loss"
                    lines.append(make_correlation_line(what, None, spearman, scores, losses))
                    # A plot shows the first seed only; more would hide the trend.
                    curves.append(make_points(f"{level} %", scores[0], losses[0]))
                title = f"{setting}: {name} and {loss_name} loss"
                plots.append(Plot(title, name, f"final {loss_name} loss", tuple(curves)))
    # Data and widths are the same in all settings, so the deviations of one setting are enough.
    networks = trained[TEXT.name]
    width_count = len(networks.widths)
    widths_note = ""
    if width_count < WIDTHS:
        widths_note = f"{width_count} of the {WIDTHS} widths are trained."
    trial_note = ""
    if config.batch:
        trial_note = f"This is a quick trial with batches of {config.batch}."
    deviations = (
        TREND_NOTE,
        SETTINGS_NOTE,
        COMMON_NOTE,
        STATISTICS_NOTE,
        *networks.deviations,
        widths_note,
        trial_note,
    )
    return Findings(tuple(lines), deviations, tuple(plots))
