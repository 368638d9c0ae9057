"""Every experiment from end to end, at a size for tests."""

import pytest

from untrained.papers import EXPERIMENTS, ReproductionResult, reproduce, sigeo_ctr
from untrained.papers.experiment import ExperimentConfig
from untrained.reports.confirmation_result import DesignResult
from untrained.runs.folder import STORE
from untrained.runs.store import Store
from untrained.workflows.design_trials import TableTrainer

SLOW = ("dextr-table-1", "dextr-table-4-tables", "dextr-figure-5", "sigeo-table-2")
# Published numbers of the first come from trainings that are not run; the second has none.
WITHOUT_NUMBERS = ("sigeo-table-4-search", "sigeo-table-2-steps")
PAPERS = ("dextr", "hnas", "nasi", "sigeo")
FIGURES_WITH_NUMBERS = (
    "dextr-figure-2",
    "dextr-figure-4",
    "nasi-figure-1",
    "nasi-figure-5",
    "sigeo-figure-3",
)
NAMES = """
dextr-table-1 dextr-table-4 dextr-table-5 dextr-figure-1a dextr-figure-1b dextr-figure-2 dextr-figure-3 dextr-figure-5
hnas-table-1 hnas-table-2 hnas-figure-4 hnas-table-4 hnas-table-5 hnas-table-6 hnas-table-10 hnas-table-11 hnas-table-12
hnas-table-13 hnas-table-3 hnas-table-7 hnas-table-14 hnas-table-15 hnas-table-16 hnas-figure-2 hnas-figure-5
sigeo-table-2 sigeo-table-3 sigeo-table-5 sigeo-figure-2 sigeo-figure-5 sigeo-figure-6
sigeo-figure-7 nasi-table-3 nasi-table-7 nasi-figure-1 nasi-figure-3
nasi-table-2 nasi-table-4 nasi-table-4-settings nasi-table-6 nasi-table-8 nasi-figure-2
dextr-table-2-search dextr-table-3-search dextr-table-8-search
sigeo-figure-4 sigeo-table-4-search
dextr-figure-4 nasi-figure-5 sigeo-figure-3
dextr-table-4-tables sigeo-table-2-steps
""".split()


def test_all_experiments_are_registered_and_described():
    assert sorted(EXPERIMENTS) == sorted(NAMES)
    for experiment in EXPERIMENTS.values():
        assert experiment.about.endswith("."), experiment.name
        assert experiment.name.partition("-")[0] in PAPERS


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in NAMES]
)
@pytest.mark.data
def test_experiment_runs_saves_and_resumes(name, small, data_root, run_folder):
    options = {
        "samples": 3 if name in SLOW else 4,
        "seeds": 1,
        "batch": 4,
        "run": run_folder,
        "data_root": data_root,
    }
    result = reproduce(name, **options)
    assert ReproductionResult.read(run_folder) == result
    assert (run_folder / "reproduction.csv").read_text().count("\n") > len(result.lines)
    assert result.deviations
    assert all(deviation.endswith(".") for deviation in result.deviations)
    assert any(line.ours is not None for line in result.lines)
    has_published_numbers = name in FIGURES_WITH_NUMBERS
    if "table" in name and name not in WITHOUT_NUMBERS:
        has_published_numbers = True
    assert (result.worst_line is not None) == has_published_numbers
    assert bool(result.plots) == ("figure" in name)
    with Store(run_folder / STORE) as store:
        measured = len(store)
    measured_counts = []
    again = reproduce(
        name, **options, on_progress=lambda progress: measured_counts.append(progress.measured)
    )
    assert again.lines == result.lines
    assert set(measured_counts) == {0}, "nothing is measured twice"
    with Store(run_folder / STORE) as store:
        assert len(store) == measured


@pytest.mark.data
def test_networks_made_by_hand_are_trained_once_per_table(
    small, data_root, run_folder, monkeypatch
):
    trained = []

    def return_results(trials, winner, by_hand):
        trained.append((trials.space, by_hand))
        winner_result = DesignResult("found", loss=0.5)
        if by_hand == ():
            return (winner_result,)
        return (winner_result, DesignResult("dlrm", loss=0.6))

    monkeypatch.setattr(sigeo_ctr, "TABLES", {"frappe": sigeo_ctr.TABLES["frappe"]})
    monkeypatch.setattr(TableTrainer, "compare_with_designs", return_results)
    result = reproduce("sigeo-table-5", samples=3, batch=4, run=run_folder, data_root=data_root)
    assert trained == [("nasrec_small(blocks=1)", None), ("nasrec_full(blocks=1)", ())]
    losses = [line.ours for line in result.lines if line.what.endswith("log loss")]
    assert losses == [0.5, 0.5, 0.6]


def test_networks_made_by_hand_are_compared_with_the_search_that_finished(run_folder, monkeypatch):
    """In the first space no training finished."""
    first, second = sigeo_ctr.SPACES
    finished = (
        DesignResult("found", loss=0.5),
        DesignResult("dlrm", loss=0.6, excess_loss=0.1, margin=0.02),
    )
    results = {first: (DesignResult("found", error="none"),), second: finished}
    monkeypatch.setattr(sigeo_ctr, "TABLES", {"criteo": ""})
    monkeypatch.setattr(
        sigeo_ctr, "search_and_train", lambda config, table, space, by_hand: results[space]
    )
    notes = {
        line.what: line.note for line in sigeo_ctr.table_5(ExperimentConfig(3, 1, run_folder)).lines
    }
    assert notes["criteo, sigeo in nasrec_small, log loss"] == "none"
    assert notes["criteo, dlrm, log loss"] == "+0.1000 \u00b1 0.0200 compared with nasrec_full"
