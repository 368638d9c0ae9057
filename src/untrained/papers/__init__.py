"""Experiments that reproduce tables and figures of four papers.

    reproduce("dextr-table-1", samples=300, device="cuda")
    EXPERIMENTS                                                 all experiments by name

An experiment decides what to measure and compares the results with the published numbers. The
workflows score and train the networks.
"""

from untrained.papers import (  # noqa: F401 - they register their experiments
    dextr,
    dextr_figures,
    dextr_searches,
    discovered_cells,
    hnas,
    hnas_ablations,
    hnas_cells,
    hnas_search_figures,
    hnas_searches,
    nasi,
    nasi_searches,
    sigeo,
    sigeo_ctr,
    sigeo_figures,
    sigeo_resnet,
    sigeo_steps,
    sigeo_warmup,
)
from untrained.papers.experiment import EXPERIMENTS as EXPERIMENTS
from untrained.papers.experiment import Experiment as Experiment
from untrained.papers.experiment import ExperimentConfig as ExperimentConfig
from untrained.papers.reproduce import list_experiments as list_experiments
from untrained.papers.reproduce import reproduce as reproduce
from untrained.reports.reproduction_result import ReproductionResult as ReproductionResult
