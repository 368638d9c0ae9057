"""The tables of our own trainings that come with the package."""

import csv
import importlib.util
import sys
from dataclasses import replace
from math import log
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from untrained.benchmarks import BENCHMARKS, import_benchmark, known_benchmarks, open_table
from untrained.benchmarks.noise_ceiling import measure_noise_ceiling
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.types import Task

OWN = ("convnet", "vit")
TASK = Task("cifar10", (3, 16, 16), 10)
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "own_table.py"
own_table = pytest.mark.parametrize("name", OWN)


def test_only_our_own_tables_come_with_the_package():
    assert [name for name, benchmark in BENCHMARKS.items() if benchmark.is_packaged] == list(OWN)


@own_table
def test_an_own_table_needs_no_data_root(name, tmp_path):
    table = open_table(name, tmp_path / "missing")
    assert table.space == name
    assert len(table) >= 150
    assert table.path.parent == Path(known_benchmarks.__file__).parent / "data"


@own_table
def test_every_architecture_is_in_the_space_and_has_its_sizes(name):
    """Sizes in the table are those of today's code, so that a changed space is noticed."""
    table = open_table(name)
    space = load_space(name)
    for text in table.list_archs():
        arch = space.parse(text)
        assert str(arch) == text
        counts = space.counts(arch, TASK)
        assert table.read_value(arch, "params") == counts.params
        assert table.read_value(arch, "flops") == counts.flops


@own_table
def test_the_accuracy_is_the_mean_of_its_seeds(name):
    table = open_table(name)
    metric = table.find_metric(dataset="cifar10", split="val", epochs=10)
    seeds = [table.read_column(seed) for seed in table.list_seed_metrics(metric)]
    assert len(seeds) == 2
    np.testing.assert_allclose(table.read_column(metric), np.nanmean(seeds, axis=0))
    # Every network has the first seed, and some have the second.
    assert np.isfinite(seeds[0]).all()
    assert 30 <= np.isfinite(seeds[1]).sum() <= len(table)


@own_table
def test_networks_differ_by_more_than_the_noise(name):
    """The standard deviation between networks is several times that between seeds."""
    table = open_table(name)
    metric = table.find_metric(dataset="cifar10", split="val", epochs=10)
    first, second = (table.read_column(seed) for seed in table.list_seed_metrics(metric))
    is_repeated = np.isfinite(second)
    # The difference of two trainings has twice the variance of one.
    noise = np.sqrt(np.mean((first - second)[is_repeated] ** 2) / 2)
    assert np.std(first) > 2.5 * noise
    ceiling = measure_noise_ceiling(table, metric, table.list_archs())
    assert ceiling is not None
    assert ceiling.count == is_repeated.sum()
    assert ceiling.spearman > 0.8


@own_table
def test_an_own_table_says_how_it_was_made(name):
    origin = open_table(name).origin
    assert set(origin) >= {"command", "recipe", "trainings", "dates", "machine"}
    assert "4,000 pictures of CIFAR-10 at 16 pixels" in origin["recipe"]


def test_an_own_table_cannot_be_imported(tmp_path):
    with pytest.raises(
        UsageError, match="comes with untrained; type `untrained bench --space vit`"
    ):
        import_benchmark("vit", tmp_path)


@pytest.mark.parametrize("content", [None, b"hello"])
def test_a_broken_installation_is_reported(tmp_path, monkeypatch, content):
    monkeypatch.setattr(known_benchmarks, "_PACKAGE_FOLDER", tmp_path)
    if content is not None:
        (tmp_path / "vit.parquet").write_bytes(content)
    with pytest.raises(UsageError, match="missing or damaged; install untrained again"):
        open_table("vit")


# ---------------------------------------------------------------------------------------------- the script


@pytest.fixture
def script(tmp_path, monkeypatch) -> ModuleType:
    """benchmarks/own_table.py with a tiny recipe on digits; tables are written below `tmp_path`."""
    spec = importlib.util.spec_from_file_location("own_table", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    monkeypatch.setitem(sys.modules, "own_table", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DATA", "digits")
    monkeypatch.setattr(module, "TRAIN_SAMPLES", 20)
    monkeypatch.setattr(module, "EVALUATION_SAMPLES", 40)
    recipes = tuple(replace(recipe, epochs=2) for recipe in module.RECIPES)
    monkeypatch.setattr(module, "RECIPES", recipes)
    monkeypatch.setattr(module, "EPOCHS", 2)
    monkeypatch.setattr(module, "BATCH", 10)
    monkeypatch.setattr(known_benchmarks, "_PACKAGE_FOLDER", tmp_path / "tables")
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)


def run_script(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["own_table.py", *words])
    script.main()


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_training_resumes_and_builds_tables(script, tmp_path, monkeypatch):
    results = tmp_path / "run" / "results.csv"
    options = ("--run", str(results.parent), "--repeated", "1", "--seeds", "2")
    run_script(script, monkeypatch, "train", *options, "--convnets", "1", "--vits", "1")
    first_rows = read_rows(results)
    assert [(row["space"], row["seed"]) for row in first_rows] == [
        ("convnet", "0"),
        ("convnet", "1"),
        ("vit", "0"),
        ("vit", "1"),
    ]
    run_script(script, monkeypatch, "train", *options, "--convnets", "3", "--vits", "1")
    rows = read_rows(results)
    assert rows[:4] == first_rows
    assert [(row["space"], row["seed"]) for row in rows[4:]] == [("convnet", "0")] * 2
    assert len({row["arch"] for row in rows}) == 4

    run_script(script, monkeypatch, "build", "--run", str(results.parent))
    table = open_table("convnet")
    expected = (float(rows[0]["accuracy"]) + float(rows[1]["accuracy"])) / 2
    assert table.read_value(rows[0]["arch"], "digits_val_2") == expected
    assert table.read_value(rows[1]["arch"], "digits_val_2_seed1") == float(rows[1]["accuracy"])
    assert table.read_value(rows[4]["arch"], "digits_val_2_seed1") is None
    assert table.origin["trainings"] == "4"

    run_script(script, monkeypatch, "export", "--run", str(tmp_path / "exported"))
    fields = ("space", "arch", "seed", "accuracy", "params", "flops")
    exported = read_rows(tmp_path / "exported" / "results.csv")
    for field in fields:
        values = sorted(str(row[field]) for row in exported)
        assert values == sorted(str(row[field]) for row in rows), field


def test_the_report_counts_networks_and_seeds(script, tmp_path, monkeypatch, capsys):
    results = tmp_path / "run" / "results.csv"
    results.parent.mkdir()
    space = load_space("vit")
    archs = {stem: [] for stem in ("conv", "patch")}
    for seed in range(100):
        arch = space.sample(seed=seed)
        archs[arch["stem"]].append(str(arch))
    convnets = [str(load_space("convnet").sample(seed=seed)) for seed in range(3)]
    rows = [
        ("vit", archs["conv"][0], 0, 44.0),
        ("vit", archs["conv"][0], 1, 46.0),
        ("vit", archs["conv"][1], 0, 45.0),
        ("vit", archs["conv"][1], 1, 45.0),
        ("vit", archs["patch"][0], 0, 37.0),
        ("vit", archs["patch"][0], 1, 43.0),
        ("vit", archs["patch"][0], 2, 40.0),
        ("convnet", convnets[0], 0, 50.0),
        ("convnet", convnets[0], 1, 51.0),
        ("convnet", convnets[1], 0, 40.0),
        ("convnet", convnets[1], 1, 41.0),
        ("convnet", convnets[2], 0, 30.0),
        ("convnet", convnets[2], 1, 31.0),
    ]
    for space_name, arch, seed, accuracy in rows:
        script.append_result(
            results,
            {
                "space": space_name,
                "arch": arch,
                "seed": seed,
                "accuracy": accuracy,
                "params": 1000,
                "flops": 2000,
                "cpu_seconds": 30,
                "date": "2026-01-01",
            },
        )
    run_script(script, monkeypatch, "build", "--run", str(results.parent))
    capsys.readouterr()
    run_script(script, monkeypatch, "report")
    lines = capsys.readouterr().out.splitlines()
    assert "| networks (with several seeds) | 3 (3) | 3 (3) |" in lines
    # Squared distances from the means: 1.5 with 3 degrees of freedom, and 20 with 4.
    assert "| standard deviation between seeds, points | 0.7 | 2.2 |" in lines
    assert "| rank correlation of two seeds (noise ceiling) | 1.00 | 0.50 |" in lines
    assert "| CPU time of all trainings | 3 minutes | 4 minutes |" in lines
    # All of the variance, because both means of `stem=conv` are 45.
    assert "explains 100% of the variance: the mean is 45.0 % with `stem=conv`, 40.0 %" in lines[-1]


def test_sizes_are_spread_evenly(script):
    """Network i is in class i of equal width on the logarithmic scale."""
    for recipe in script.RECIPES:
        sampler = script.NetworkSampler(recipe, TASK, [])
        for index in range(script.SIZE_CLASSES):
            arch = sampler.get_network(index)
            flops = load_space(recipe.space).counts(arch, TASK).flops
            share = log(flops / recipe.min_flops) / log(recipe.max_flops / recipe.min_flops)
            assert int(share * script.SIZE_CLASSES) == index


def test_the_rate_rises_and_falls_to_zero(script):
    shares = [script.compute_schedule(step, 100, 10) for step in range(100)]
    assert shares[0] == pytest.approx(0.1)
    assert shares[9] == shares[10] == 1
    # In the middle of the cosine, from step 10 to step 100.
    assert shares[55] == pytest.approx(0.5)
    assert shares[99] < 0.001


def test_about_half_of_the_pictures_are_mirrored(script):
    inputs = torch.arange(4.0).expand(400, 1, 1, 4)
    flipped = script.flip_randomly(inputs, torch.Generator().manual_seed(0))
    is_mirrored = (flipped == inputs.flip(-1)).all(-1).flatten()
    assert (is_mirrored | (flipped == inputs).all(-1).flatten()).all()
    # Four standard deviations of a fair coin.
    assert abs(is_mirrored.sum() - 200) < 40
