"""`bench` compares proxies with tables of known results."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.result import BenchmarkResult
from untrained.errors import UsageError
from untrained.proxies import PROXIES
from untrained.runs.store import Store
from untrained.workflows.bench import (
    BASELINES,
    bench,
    load_proxies_and_baselines,
    parse_requested_proxies,
)
from untrained.workflows.ground_truth import GroundTruth
from untrained.workflows.ground_truth import load_ground_truth as load_ground_truth

pytestmark = pytest.mark.data


def index_by_proxy(result: BenchmarkResult) -> dict:
    return {row.proxy: row for row in result.proxy_results}


def test_params_rank_networks_like_the_sizes_in_the_table(load_table, data_root, tmp_path):
    table = load_table("nasbench201")
    result = bench(
        "nasbench201",
        "params",
        "cifar10",
        samples=20,
        data="noise",
        run=tmp_path,
        data_root=data_root,
    )
    truth = table.read_values(result.archs, "cifar10_test_200")
    assert result.truth == tuple(truth)
    sizes = table.read_values(result.archs, "cifar10_params")
    row = index_by_proxy(result)["params"]
    assert row.statistics["spearman"].value == pytest.approx(
        stats.spearmanr(sizes, truth).statistic
    )
    assert row.statistics["regret"].value == pytest.approx(
        truth.max() - truth[sizes == sizes.max()].mean()
    )
    assert np.array(row.scores) == pytest.approx(1e6 * sizes)
    assert {"params": "baseline", "flops": "baseline", "random": "baseline"}.items() <= {
        name: row.kind for name, row in index_by_proxy(result).items()
    }.items()


def test_architectures_depend_on_the_seed_and_not_on_the_proxy(load_table, data_root, tmp_path):
    load_table("nasbench201")
    options = {"samples": 12, "data": "noise", "data_root": data_root}
    first = bench("nasbench201", "params", run=tmp_path / "a", **options)
    assert bench("nasbench201", "depth", run=tmp_path / "b", **options).archs == first.archs
    other = bench("nasbench201", "params", run=tmp_path / "c", seed=1, **options)
    assert set(other.archs) != set(first.archs)
    assert len(set(first.archs)) == 12


def test_the_options_of_a_space_are_kept(load_table, data_root, tmp_path):
    load_table("nasbench201")
    options = {"samples": 3, "data": "noise", "data_root": data_root}
    small = bench("nasbench201(channels=4)", "params", run=tmp_path / "a", **options)
    default = bench("nasbench201", "params", run=tmp_path / "b", **options)
    assert small.archs == default.archs
    pairs = zip(
        index_by_proxy(small)["params"].scores,
        index_by_proxy(default)["params"].scores,
        strict=True,
    )
    # A quarter of the channels: about a sixteenth of the weights
    assert all(few < many / 8 for few, many in pairs)


def test_a_run_resumes_and_grows(load_table, data_root, tmp_path):
    load_table("nasbench201")
    options = {"samples": 6, "data": "noise", "run": tmp_path, "data_root": data_root}
    bench("nasbench201", "params", **options)
    with Store(tmp_path / "records.sqlite") as store:
        before = list(store)
    bench("nasbench201", "params,depth", **options)
    with Store(tmp_path / "records.sqlite") as store:
        after = list(store)
    assert after[: len(before)] == before
    assert {r.proxy for r in after[len(before) :]} == {"depth"}


def test_a_network_that_fails_is_counted(load_table, data_root, tmp_path):
    """The table contains cells without a path from input to output; their accuracy is that of guessing."""
    load_table("nasbench201")
    samples = (
        load_ground_truth("nasbench201", None, None, None, 6, seed, data_root)
        for seed in range(100)
    )
    seed, truth = next(
        (seed, sample) for seed, sample in enumerate(samples) if min(sample.values) < 15
    )
    result = bench(
        "nasbench201", "meco", samples=6, seed=seed, data="noise", run=tmp_path, data_root=data_root
    )
    row = index_by_proxy(result)["meco"]
    failed_truths = [
        value for value, score in zip(result.truth, row.scores, strict=True) if score is None
    ]
    assert result.truth == truth.values
    assert row.failures == {"disconnected": len(failed_truths)}
    assert row.n == 6 - len(failed_truths)
    assert failed_truths
    assert max(failed_truths) < 15
    # With the other rule, the same networks rank last, below the lowest score.
    last = bench(
        "nasbench201",
        "meco",
        samples=6,
        seed=seed,
        failures="last",
        data="noise",
        run=tmp_path,
        data_root=data_root,
    )
    ranked = index_by_proxy(last)["meco"]
    lowest = min(score for score in row.scores if score is not None)
    assert ranked.n == 6
    assert ranked.failures == row.failures
    for score, old_score in zip(ranked.scores, row.scores, strict=True):
        assert score == (lowest - 1 if old_score is None else old_score)
    assert "--failures last" in last.command


@pytest.mark.parametrize(
    ("space", "about", "unit"),
    [
        ("nasbench101", "test accuracy on cifar10 after 108 epochs, nasbench101", "%"),
        ("darts", "validation accuracy on cifar10, nasbench301", "%"),
        ("transnas_micro", "validation accuracy on class_scene, transnas", "%"),
    ],
)
def test_every_space_has_a_default_ground_truth(
    load_table, data_root, tmp_path, space, about, unit
):
    load_table({"darts": "nasbench301", "transnas_micro": "transnas"}.get(space, space))
    options = {"samples": 3, "data": "noise", "run": tmp_path, "data_root": data_root}
    result = bench(space, "params", "class_scene" if space == "transnas_micro" else None, **options)
    assert (result.truth_about, result.truth_unit) == (about, unit)
    assert len(result.archs) == 3


def test_scores_of_the_table_are_compared_too(load_table, data_root, tmp_path):
    table = load_table("nasbench301")
    options = {"samples": 30, "data": "noise", "run": tmp_path, "data_root": data_root}
    result = bench("darts", "params", scores="table:synflow", **options)
    row = index_by_proxy(result)["table:synflow"]
    assert row.kind == "other"
    runs = [
        table.read_values(result.archs, score) for score in table.scores if score.proxy == "synflow"
    ]
    rhos = [
        stats.spearmanr(run[~np.isnan(run)], np.array(result.truth)[~np.isnan(run)]).statistic
        for run in runs
    ]
    assert row.statistics["spearman"].value == pytest.approx(
        np.mean([rho for rho in rhos if not np.isnan(rho)])
    )


def test_a_result_can_be_read_from_its_folder(load_table, data_root, tmp_path):
    load_table("nasbench201")
    result = bench(
        "nasbench201", "params", samples=5, data="noise", run=tmp_path, data_root=data_root
    )
    assert BenchmarkResult.read(tmp_path) == result
    assert (
        (tmp_path / "benchmark.csv")
        .read_text()
        .splitlines()[0]
        .startswith("proxy,kind,n,failed,low,high")
    )
    (tmp_path / "benchmark.json").write_text("{")
    with pytest.raises(UsageError, match=r"benchmark.json cannot be read"):
        BenchmarkResult.read(tmp_path)


def test_the_size_controlled_correlation_holds_the_sizes_of_the_table_fixed(
    load_table, data_root, tmp_path
):
    table = load_table("nasbench201")
    options = {"samples": 40, "data": "noise", "run": tmp_path, "data_root": data_root}
    result = bench("nasbench201", "depth", **options)
    rows = index_by_proxy(result)
    # Parameters and FLOPs have the same order in this space, so one of them is enough.
    sizes = table.read_values(result.archs, "cifar10_params")
    columns = (rows["depth"].scores, result.truth, sizes)
    inverse = np.linalg.inv(np.corrcoef([stats.rankdata(column) for column in columns]))
    expected = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
    estimate = rows["depth"].statistics["size_controlled"]
    assert estimate.value == pytest.approx(expected)
    assert estimate.low < estimate.value < estimate.high
    assert rows["params"].statistics["size_controlled"] is None
    assert rows["flops"].statistics["size_controlled"] is None


def test_a_note_says_how_well_two_trainings_agree(load_table, data_root, tmp_path):
    table = load_table("nasbench201")
    options = {"samples": 40, "data": "noise", "data_root": data_root}
    result = bench("nasbench201", "params", run=tmp_path / "a", **options)
    seeds = [table.read_values(result.archs, f"cifar10_test_200_seed{seed}") for seed in range(3)]
    seeds = np.array(seeds)
    pairs = []
    for results in seeds.T:
        pairs.append(results[np.isfinite(results)][:2])
    pairs = np.array([pair for pair in pairs if len(pair) == 2])
    expected = stats.spearmanr(pairs[:, 0], pairs[:, 1]).statistic
    (note,) = [note for note in result.notes if note.startswith("Noise ceiling")]
    assert f"the same {len(pairs)} networks have a rank correlation of {expected:.3f}" in note
    other = bench("nasbench201", "params", "cifar100", run=tmp_path / "b", **options)
    assert not any(note.startswith("Noise ceiling") for note in other.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": "mlp"}, "there is no table of known results for mlp; there are tables for"),
        (
            {"dataset": "svhn"},
            "nasbench201 has no results on 'svhn'; available: cifar10, cifar100, ImageNet16-120",
        ),
        ({"metric": "cifar10_test_20"}, "did you mean cifar10_test_200"),
        ({"failures": "first"}, "no rule for failures is called 'first'"),
        ({"samples": 2}, "samples is 2; write a whole number from 3 to"),
        ({"scores": "table:synflo"}, "did you mean synflow"),
        ({"space": "transnas_micro", "dataset": "normal"}, "have a decoder"),
    ],
)
def test_wrong_options_are_refused_in_one_line(load_table, data_root, tmp_path, options, message):
    load_table("nasbench201")
    load_table("transnas")
    defaults = {
        "space": "nasbench201",
        "proxy": "params",
        "samples": 3,
        "data": "noise",
        "run": tmp_path,
        "data_root": data_root,
    }
    with pytest.raises(UsageError) as caught:
        bench(**defaults | options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_error_for_a_missing_table_says_how_to_import_it(tmp_path):
    with pytest.raises(UsageError, match="untrained data import nasbench201 PATH"):
        bench("nasbench201", "params", data_root=tmp_path, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_missing_data_are_replaced_with_a_note(load_table, data_root, tmp_path):
    load_table("nasbench201")
    result = bench("nasbench201", "params", samples=3, run=tmp_path, data_root=data_root)
    assert "Networks see digits, since cifar10 is not under the data root." in result.notes
    assert json.loads(Path(tmp_path, "benchmark.json").read_text())["settings"]["data"] == "digits"


def test_damaged_data_are_replaced_with_a_note_that_says_so(load_table, data_root, tmp_path):
    load_table("nasbench201")
    # The tables are under the same root as the data.
    root = tmp_path / "root"
    shutil.copytree(data_root, root)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(b"short")
    result = bench("nasbench201", "params", samples=3, run=tmp_path / "run", data_root=root)
    (note,) = [note for note in result.notes if "Networks see" in note]
    assert note.startswith("Networks see digits, since cifar10 cannot be loaded: ")
    assert "data_batch_1.bin" in note


def test_spaces_with_options_have_a_folder_of_their_own(
    load_table, data_root, tmp_path, monkeypatch
):
    load_table("nasbench201")
    monkeypatch.chdir(tmp_path)
    options = {"samples": 3, "data": "noise", "data_root": data_root, "workers": 1}
    folders = []
    for space in ("nasbench201", "nasbench201(channels=4)"):
        folders.append(bench(space, "params", **options).folder)
    assert folders == [
        "runs/bench-nasbench201-cifar10_test_200-noise",
        "runs/bench-nasbench201_channels_4-nasbench201-cifar10_test_200-noise",
    ]


def test_data_at_a_path_are_named(load_table, data_root, tmp_path):
    load_table("nasbench201")
    path = tmp_path / "images.npz"
    np.savez(path, x=np.zeros((20, 32, 32, 3), np.uint8), y=np.arange(20) % 2)
    result = bench(
        "nasbench201", "params", samples=3, data=path, run=tmp_path / "run", data_root=data_root
    )
    assert result.settings["data"] == f"npz:{path}"


def test_networks_can_be_scored_on_smaller_images(load_table, data_root, tmp_path):
    load_table("accel_nasbench")
    result = bench(
        "mnasnet",
        "consensus",
        samples=10,
        data="noise",
        input_size=32,
        data_root=data_root,
        run=tmp_path / "run",
        workers=1,
    )
    with Store(tmp_path / "run" / "records.sqlite") as store:
        assert {record.task.input_shape for record in store} == {(3, 32, 32)}
    assert "--input-size 32" in result.command
    assert index_by_proxy(result)["consensus"].n == 10


def test_all_proxies_include_the_default_of_a_search_and_each_baseline_once():
    labels = [proxy.label for proxy in load_proxies_and_baselines(parse_requested_proxies("all"))]
    assert len(labels) == len(set(labels))
    single_proxies = {name for name, proxy in PROXIES.items() if not proxy.parts}
    assert set(labels) == single_proxies | {"consensus"} | set(BASELINES)
    assert "consensus" not in [proxy.label for proxy in load_proxies_and_baselines(["dextr"])]


def test_all_means_the_same_in_a_list():
    requested = parse_requested_proxies("all")
    assert parse_requested_proxies(["all"]) == requested
    assert parse_requested_proxies([*requested[:2], "all"])[2:] == requested


def test_the_head_of_a_transnas_space_is_that_of_the_results(load_table, data_root):
    load_table("transnas")

    def load(space: str, dataset: str) -> GroundTruth:
        return load_ground_truth(space, None, dataset, None, 3, 0, data_root)

    named = load("transnas_micro(head=jigsaw)", "jigsaw")
    assert named == load("transnas_micro", "jigsaw")
    assert named.space == "transnas_micro(head=jigsaw)"
    with pytest.raises(UsageError, match="on class_scene are of networks with the head scene; "):
        load("transnas_micro(head=jigsaw)", "class_scene")
