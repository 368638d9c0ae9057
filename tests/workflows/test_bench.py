"""Proxies against the tables of known results."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.result import BenchmarkResult
from untrained.errors import UsageError
from untrained.runs.store import Store
from untrained.workflows.bench import bench
from untrained.workflows.ground_truth import load_ground_truth as sampled

pytestmark = pytest.mark.data


def by_name(trust: BenchmarkResult) -> dict:
    return {row.proxy: row for row in trust.proxy_results}


def test_the_size_of_networks_ranks_them_as_the_tables_own_sizes_do(
    load_table, data_root, tmp_path
):
    table = load_table("nasbench201")
    found = bench(
        "nasbench201",
        "params",
        "cifar10",
        samples=20,
        data="noise",
        run=tmp_path,
        data_root=data_root,
    )
    truth = table.values(found.archs, "cifar10_test_200")
    assert found.truth == tuple(truth)
    sizes = table.values(found.archs, "cifar10_params")
    row = by_name(found)["params"]
    assert row.statistics["spearman"].value == pytest.approx(
        stats.spearmanr(sizes, truth).statistic
    )
    assert row.statistics["regret"].value == pytest.approx(
        truth.max() - truth[sizes == sizes.max()].mean()
    )
    assert np.array(row.scores) == pytest.approx(1e6 * sizes)
    assert {"params": "baseline", "flops": "baseline", "random": "baseline"}.items() <= {
        name: row.kind for name, row in by_name(found).items()
    }.items()


def test_the_same_architectures_for_all_proxies_and_for_a_seed(load_table, data_root, tmp_path):
    load_table("nasbench201")
    ask = {"samples": 12, "data": "noise", "data_root": data_root}
    first = bench("nasbench201", "params", run=tmp_path / "a", **ask)
    assert bench("nasbench201", "depth", run=tmp_path / "b", **ask).archs == first.archs
    other = bench("nasbench201", "params", run=tmp_path / "c", seed=1, **ask)
    assert set(other.archs) != set(first.archs)
    assert len(set(first.archs)) == 12


def test_the_options_of_a_space_are_kept(load_table, data_root, tmp_path):
    load_table("nasbench201")
    ask = {"samples": 3, "data": "noise", "data_root": data_root}
    small = bench("nasbench201(channels=4)", "params", run=tmp_path / "a", **ask)
    usual = bench("nasbench201", "params", run=tmp_path / "b", **ask)
    assert small.archs == usual.archs
    pairs = zip(by_name(small)["params"].scores, by_name(usual)["params"].scores, strict=True)
    assert all(
        few < many / 8 for few, many in pairs
    )  # a quarter of the channels: about a sixteenth of the weights


def test_a_run_resumes_and_grows(load_table, data_root, tmp_path):
    load_table("nasbench201")
    ask = {"samples": 6, "data": "noise", "run": tmp_path, "data_root": data_root}
    bench("nasbench201", "params", **ask)
    with Store(tmp_path / "records.sqlite") as store:
        before = list(store)
    bench("nasbench201", "params,depth", **ask)
    with Store(tmp_path / "records.sqlite") as store:
        after = list(store)
    assert after[: len(before)] == before
    assert {r.proxy for r in after[len(before) :]} == {"depth"}


def test_a_network_that_fails_is_counted(load_table, data_root, tmp_path):
    """Cells without a path from input to output are in the table, with the accuracy of guessing."""
    load_table("nasbench201")
    samples = (sampled("nasbench201", None, None, None, 6, seed, data_root) for seed in range(100))
    seed, truth = next(
        (seed, sample) for seed, sample in enumerate(samples) if min(sample.values) < 15
    )
    found = bench(
        "nasbench201", "meco", samples=6, seed=seed, data="noise", run=tmp_path, data_root=data_root
    )
    row = by_name(found)["meco"]
    cut = [value for value, score in zip(found.truth, row.scores, strict=True) if score is None]
    assert found.truth == truth.values
    assert row.failures == {"disconnected": len(cut)}
    assert row.n == 6 - len(cut)
    assert cut
    assert max(cut) < 15


@pytest.mark.parametrize(
    ("space", "about", "unit"),
    [
        ("nasbench101", "test accuracy on cifar10 after 108 epochs, nasbench101", "%"),
        ("darts", "validation accuracy on cifar10, nasbench301", "%"),
        ("transnas_micro", "validation accuracy on class_scene, transnas", "%"),
    ],
)
def test_the_usual_truth_of_each_space(load_table, data_root, tmp_path, space, about, unit):
    load_table({"darts": "nasbench301", "transnas_micro": "transnas"}.get(space, space))
    ask = {"samples": 3, "data": "noise", "run": tmp_path, "data_root": data_root}
    found = bench(space, "params", "class_scene" if space == "transnas_micro" else None, **ask)
    assert (found.truth_about, found.truth_unit) == (about, unit)
    assert len(found.archs) == 3


def test_scores_of_others_in_the_table(load_table, data_root, tmp_path):
    table = load_table("nasbench301")
    ask = {"samples": 30, "data": "noise", "run": tmp_path, "data_root": data_root}
    found = bench("darts", "params", scores="table:synflow", **ask)
    row = by_name(found)["table:synflow"]
    assert row.kind == "other"
    runs = [table.values(found.archs, score) for score in table.scores if score.proxy == "synflow"]
    rhos = [
        stats.spearmanr(run[~np.isnan(run)], np.array(found.truth)[~np.isnan(run)]).statistic
        for run in runs
    ]
    assert row.statistics["spearman"].value == pytest.approx(
        np.mean([rho for rho in rhos if not np.isnan(rho)])
    )


def test_what_was_found_can_be_read_back(load_table, data_root, tmp_path):
    load_table("nasbench201")
    found = bench(
        "nasbench201", "params", samples=5, data="noise", run=tmp_path, data_root=data_root
    )
    assert BenchmarkResult.read(tmp_path) == found
    assert (
        (tmp_path / "trust.csv")
        .read_text()
        .splitlines()[0]
        .startswith("proxy,kind,n,failed,low,high")
    )
    (tmp_path / "trust.json").write_text("{")
    with pytest.raises(UsageError, match=r"trust.json cannot be read"):
        BenchmarkResult.read(tmp_path)


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        ({"space": "mlp"}, "there is no table of known results for mlp; there are tables for"),
        (
            {"dataset": "svhn"},
            "nasbench201 has no results on 'svhn'; available: cifar10, cifar100, ImageNet16-120",
        ),
        ({"metric": "cifar10_test_20"}, "did you mean cifar10_test_200"),
        ({"samples": 2}, "samples is 2; write a whole number from 3 to"),
        ({"scores": "table:synflo"}, "did you mean synflow"),
        ({"space": "transnas_micro", "dataset": "normal"}, "have a decoder"),
    ],
)
def test_wrong_requests_are_answered_in_one_line(load_table, data_root, tmp_path, ask, wanted):
    load_table("nasbench201"), load_table("transnas")
    usual = {
        "proxy": "params",
        "samples": 3,
        "data": "noise",
        "run": tmp_path,
        "data_root": data_root,
    }
    with pytest.raises(UsageError) as told:
        bench(**usual | ask)
    assert wanted in str(told.value)
    assert "\n" not in str(told.value)


def test_a_table_that_is_not_there_says_how_to_make_it(tmp_path):
    with pytest.raises(UsageError, match="untrained data import nasbench201 PATH"):
        bench("nasbench201", "params", data_root=tmp_path, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_that_are_not_there_are_replaced_and_that_is_said(load_table, data_root, tmp_path):
    load_table("nasbench201")
    found = bench("nasbench201", "params", samples=3, run=tmp_path, data_root=data_root)
    assert "Networks see digits, since cifar10 is not under the data root." in found.notes
    assert json.loads(Path(tmp_path, "trust.json").read_text())["settings"]["data"] == "digits"
