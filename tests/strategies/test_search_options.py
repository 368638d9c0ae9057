"""Searches with every kind of option: strategy options, limits, objectives, validation and latency."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import data_root as data_root
from tests.benchmarks.conftest import load_table as load_table
from tests.records import make_record
from tests.strategies.toys import TASK, ten, twelve
from untrained import search
from untrained.errors import UsageError
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.strategies import max_latency as _max_latency
from untrained.strategies.base import STRATEGIES, StrategyInputs
from untrained.strategies.latency import LatencyTimer
from untrained.strategies.limits import NetworkSize
from untrained.strategies.parsing import StrategySpec, list_options
from untrained.types import Arch
from untrained.workflows.report import report
from untrained.workflows.search import SearchResult
from untrained.workflows.validation import TableEvaluator, TableMetric, Validation

NET = "nasbench201(channels=2,cells=1)"


def search_noise(
    folder: Path, strategy: str = "random", space: Any = ten, proxy: Any = "params", **options: Any
) -> SearchResult:
    return search(space, proxy, strategy, data="noise", run=folder, **{"budget": 12} | options)


def count_params(arch: Arch) -> int:
    """Count the parameters of an architecture of `ten`; its width is one more than the sum of the choices."""
    width = 1 + sum(int(value) for _, value in arch.genes)
    return 193 * width + 4 * (width + 1)


def read_scores(result: SearchResult, proxy: str) -> dict[Arch, float]:
    return {r.arch: r.value for r in result.records if r.proxy == proxy and r.value is not None}


# ------------------------------------------------------------------------------------------------------------ options


def test_options_are_parsed_and_passed_to_the_strategy(run_folder):
    spec = StrategySpec.parse("evolution( population=5, dies=worst )")
    assert spec.label == "evolution(population=5,dies=worst)"
    strategy = spec.make(ten, make_generator(0), lambda records: 0.0, StrategyInputs())
    assert (strategy.plan.population, strategy.plan.dies, strategy.plan.children) == (5, "worst", 8)
    assert len(strategy.ask(100)) == 5
    assert (
        search_noise(run_folder, "evolution(population=5)").run.config.strategy
        == "evolution(population=5)"
    )


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("evolutoin", "did you mean evolution"),
        ("evolution(populaton=3)", "did you mean population"),
        ("evolution(population=many)", "must be a whole number, such as population=64"),
        ("evolution(population=2.5)", "must be a whole number, such as population=64"),
        ("evolution(dies=young)", "evolution(dies=young): dies must be one of oldest, worst"),
        ("evolution(preset=dextr)", "preset must be one of sigeo, zennas"),
        ("nasi(nu0=large)", "nu0 must be a number"),
        ("best_of_pool(score_pool=me)", "no option of best_of_pool is called 'score_pool'"),
        ("evolution(population=0)", "must be at least 1"),
        ("random(5)", "name=value"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(run_folder, strategy, message):
    with pytest.raises(UsageError) as caught:
        search_noise(
            run_folder, strategy, **({"validate": "training"} if "best_of_pool" in strategy else {})
        )
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_option_is_described(name):
    for option in list_options(STRATEGIES[name]).values():
        assert str(option).startswith(f"{option.name}=")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "hnas"},
            'add --validate table:cifar10_val_12 or --validate "training(epochs=3,samples=1500)"',
        ),
        ({"strategy": "best_of_pool"}, "add --validate table:"),
        (
            {"strategy": "local", "validate": "training"},
            "--validate is for the strategies hnas and best_of_pool",
        ),
        (
            {"strategy": "best_of_pool", "validate": "guess"},
            "type --validate table:cifar10_val_12 or",
        ),
        (
            {"strategy": "best_of_pool", "validate": "table:x"},
            "there is no table of known results for ten",
        ),
        ({"strategy": "nsga2"}, "such as --also params"),
        (
            {"strategy": "evolution", "screen": "flops", "proxy": "dextr"},
            "use --strategy random, not evolution",
        ),
        (
            {"strategy": "evolution", "proxy": "az_nas"},
            "az_nas compares all candidates, and evolution needs",
        ),
        (
            {"strategy": "nsga2", "also": "az_nas"},
            "az_nas compares all candidates, and nsga2 needs",
        ),
        (
            {"strategy": "hnas", "proxy": "zico", "validate": "training"},
            "hnas ranks its pool by trace",
        ),
        ({"limits": {"params": "many"}}, "max params cannot be 'many'; write it like 2M"),
        ({"limits": {"latency": "5ms@nowhere"}}, "nowhere"),
    ],
)
def test_an_impossible_combination_is_refused_before_anything_is_written(
    run_folder, options, message
):
    with pytest.raises(UsageError) as caught:
        search_noise(run_folder, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()


def test_without_a_budget_a_search_ends_when_the_strategy_is_done(run_folder):
    result = search_noise(run_folder, "zerocost_pt(proposals=1)", NET, budget=None)
    assert (result.run.config.budget, result.run.end_reason) == (1, "budget")
    assert search_noise(run_folder / "2", space=twelve, budget=None).run.end_reason == "exhausted"


# ------------------------------------------------------------------------------------------------------------- limits


def test_rejections_are_counted_per_limit_and_compared_with_the_best(run_folder):
    result = search_noise(
        run_folder,
        "evolution(population=4)",
        limits={"params": "3100", "min_params": "2.5k", "flops": "1M"},
    )
    assert all(2500 <= count_params(s.arch) <= 3100 for s in result.ranking.standings)
    rows = {row["limit"]: row for row in result.run.limit_results}
    assert list(rows) == ["max_params", "min_params", "max_flops"]
    best = count_params(result.best)
    width = (best - 4) // 197
    assert (rows["max_params"]["value"], rows["min_params"]["value"]) == (best, best)
    assert rows["max_flops"] == {
        "limit": "max_flops",
        "text": "1M",
        "rejected": 0,
        "value": 196 * width,
    }
    assert rows["max_params"]["rejected"] > 0
    assert rows["min_params"]["rejected"] > 0
    assert json.loads((run_folder / "run.json").read_text())["limits"] == result.run.limit_results


def test_rejections_count_the_samples_of_random_search(run_folder):
    """Random search samples until it has its budget; all other samples are rejections."""
    result = search_noise(run_folder, limits={"params": "3100"}, budget=8)
    rng = make_generator("search", "random", "ten", 0)
    rejections = 0
    accepted = []
    while len(accepted) < 8:
        arch = ten.sample(rng)
        if count_params(arch) > 3100:
            rejections += 1
        elif arch not in accepted:
            accepted.append(arch)
    assert result.run.limit_results[0]["rejected"] == rejections > 0
    assert {s.arch for s in result.ranking.standings} == set(accepted)


def test_unsatisfiable_limits_are_refused_in_one_line(run_folder):
    with pytest.raises(
        UsageError, match="has 201 parameters, but --max-params allows at most 100 parameters"
    ) as caught:
        search_noise(run_folder, "local", limits={"params": "100"})
    assert "\n" not in str(caught.value)


def test_another_limit_on_the_same_folder_is_refused(run_folder):
    search_noise(run_folder, limits={"params": "3100"})
    with pytest.raises(UsageError, match=r"max_params '3100' \(now '4k'\)"):
        search_noise(run_folder, limits={"params": "4k"})
    with pytest.raises(UsageError, match=r"max_params '3100' \(now None\)"):
        search_noise(run_folder)


def test_the_report_shows_the_limits_and_their_command(run_folder):
    result = search_noise(
        run_folder, "evolution(population=4)", limits={"params": "3100", "memory": "1MB"}
    )
    page = result.report().read_text()
    assert "Rejected" in page
    assert "--strategy &#x27;evolution(population=4)&#x27;" in page
    assert "--max-params 3100 --max-memory 1MB" in page
    assert "Search progress" in page
    assert "Strategy trace" in page


# --------------------------------------------------------------------------------------------------------- objectives


def test_nsga2_trades_the_proxy_against_the_number_of_parameters(run_folder):
    result = search_noise(
        run_folder, "nsga2(population=6)", proxy="naswot(samples=8)", also="params", budget=30
    )
    scores = read_scores(result, "naswot(samples=8)")
    sizes = read_scores(result, "params")
    front = json.loads((run_folder / "trace.json").read_text())[-1]
    assert front["points"] == [
        [scores[ten.parse(arch)], -sizes[ten.parse(arch)]] for arch in front["archs"]
    ]
    points = [(scores[arch], -sizes[arch]) for arch in scores]
    pareto_points = [
        p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)
    ]
    page = result.report().read_text()
    assert (
        f"{len(pareto_points)} of 30 architectures are on the Pareto front of 2 objectives" in page
    )
    assert "params (lower is better)" in page


def test_other_objectives_on_the_same_folder_are_refused(run_folder):
    search_noise(run_folder, "nsga2(population=6)", proxy="flops", also="params")
    with pytest.raises(UsageError, match=r"objectives 'params' \(now 'depth'\)"):
        search_noise(run_folder, "nsga2(population=6)", proxy="flops", also="depth")


# --------------------------------------------------------------------------------------------------------- validation


def test_a_search_with_validation_ranks_by_the_training(run_folder):
    result = search_noise(
        run_folder,
        "best_of_pool(pool=8,top=3)",
        validate="training(epochs=1,samples=20)",
        budget=None,
    )
    sizes = read_scores(result, "params")
    assert len(sizes) == 8
    trained = read_scores(result, "accuracy(epochs=1,samples=20)")
    assert set(trained) == set(sorted(sizes, key=lambda arch: -sizes[arch])[:3])
    assert trained[result.best] == max(trained.values())
    assert [s.arch for s in result.ranking.standings] == sorted(
        trained, key=lambda arch: -trained[arch]
    )
    assert (
        "The score is <b>training(epochs=1,samples=20)</b>"
        in result.report().read_text().replace("<wbr>", "")
    )


def test_a_search_with_validation_ranks_by_the_table(run_folder, data_root, load_table):
    table = load_table("nasbench201")
    options = {"validate": "table:cifar10_val_12", "data_root": data_root, "budget": None}
    result = search_noise(run_folder, "hnas(steps=3,pool=8,pool_growth=0)", NET, "trace", **options)
    accuracies = read_scores(result, "table:cifar10_val_12")
    assert len(accuracies) == 3
    assert accuracies == {
        arch: table.read_value(str(arch), "cifar10_val_12") for arch in accuracies
    }
    assert len(read_scores(result, "trace")) <= 8
    assert [s.score for s in result.ranking.standings] == sorted(accuracies.values(), reverse=True)
    queries = json.loads((run_folder / "trace.json").read_text())
    assert [query["value"] for query in queries] == [
        accuracies[load_space(NET).parse(query["arch"])] for query in queries
    ]
    assert result.report().read_text().count('class="evaluation') == 3, (
        "the queries are drawn over the final prediction"
    )
    with pytest.raises(UsageError, match="no metric of nasbench201 is called 'cifar10_val_13'"):
        Validation.parse("table:cifar10_val_13", NET, data_root)


class RecordingTable:
    """A table that remembers which architectures were looked up; the second one is missing."""

    name = "lines"

    def __init__(self) -> None:
        self.lookups: list[Arch] = []

    def read_value(self, arch: Arch, metric: Any) -> float | None:
        self.lookups.append(arch)
        return None if len(self.lookups) == 2 else float(len(self.lookups))


def test_a_table_is_read_only_when_a_record_is_needed(tmp_path):
    archs = list(twelve)[:3]
    table = RecordingTable()
    metric = type("Metric", (), {"name": "m"})

    def evaluate_sizes(some: Any) -> Any:
        return ([make_record(arch, "params@1", TASK, 0, 1.0)] for arch in some)

    with Store(tmp_path / "store.sqlite") as store:
        evaluate = TableEvaluator(
            TableMetric(table, metric, "table:m@1"), evaluate_sizes, TASK, 5, store
        )  # type: ignore[arg-type]
        answers = evaluate(archs)
        first = next(answers)
        assert table.lookups == archs[:1]
        rest = list(answers)
        assert [r.measure for r in first] == ["table:m@1", "params@1"]
        assert (first[0].value, first[0].seed) == (1.0, 5)
        assert (rest[0][0].error.kind, rest[1][0].value) == ("missing", 3.0)
        assert [r.arch for r in store] == archs


# ------------------------------------------------------------------------------------------------------------ latency

DEEP = """
import untrained as ut
from torch import nn

@ut.space(task=ut.Task("noise", (3, 32, 32), 10))
def deep(choose, task):
    layers, width = [], 3
    depth, bias = choose("depth", [1, 2, 3, 48]), choose("bias", ["yes", "no"])
    for _ in range(depth):
        layers, width = [*layers, nn.Conv2d(width, 32, 3, padding=1, bias=bias == "yes"), nn.ReLU()], 32
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes))
"""
FRESH = """
import sys
from untrained.spaces import load_space
from untrained.strategies.latency import LatencyTimer
space = load_space(sys.argv[1])
network = space.build(space.parse(sys.argv[2]))
print(LatencyTimer(threads=int(sys.argv[3]), runs_per_round=60).time_network(network, space.task.input_shape).seconds)
"""


@pytest.mark.alone
def test_a_latency_limit_is_kept_when_the_best_is_measured_in_a_fresh_process(
    tmp_path, monkeypatch
):
    """The limit is far from the latency of every network, because a busy machine is 1.5 times slower or more.

    It is four times the latency of three layers and a quarter of that of 48 layers, which have the most parameters.
    """
    monkeypatch.chdir(tmp_path)
    Path("deep.py").write_text(DEEP)
    space = load_space("./deep.py:deep")
    quick = LatencyTimer().time_network(
        space.build(space.parse("depth=3,bias=yes")), space.task.input_shape
    )
    limit = 4 * quick.seconds
    result = search_noise(
        Path("run"),
        space="./deep.py:deep",
        budget=6,
        limits={"latency": f"{1e3 * limit:.3f}ms@cpu"},
        workers=1,
    )
    (row,) = result.run.limit_results
    assert row["value"] <= limit
    assert row["rejected"] > 0
    command = [sys.executable, "-c", FRESH, "./deep.py:deep", str(result.best), str(quick.threads)]
    seconds = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert seconds <= 1.15 * limit
    assert result.best == space.parse("depth=3,bias=yes")  # the largest that keeps the limit


@pytest.fixture
def fake_latencies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Arch, int]]:
    """Replace latencies by 1 us per parameter during the search and by twice that in the final measurement.

    Returns:
        The architectures that were measured, each with the number of timed runs per round.
    """
    measured: list[tuple[Arch, int]] = []

    def time(self: Any, arch: Arch, stopwatch: LatencyTimer) -> float:
        measured.append((arch, stopwatch.runs_per_round))
        factor = 2 if stopwatch.runs_per_round == _max_latency.FINAL_RUNS else 1
        return count_params(arch) * 1e-6 * factor

    monkeypatch.setattr(_max_latency.LatencyMeter, "_time_arch", time)
    return measured


def test_a_winner_over_the_limit_is_never_returned(run_folder, fake_latencies):
    result = search_noise(run_folder, limits={"latency": "5ms"}, budget=30)
    sizes = read_scores(result, "params")
    assert all(size <= 5000 for size in sizes.values())
    assert max(sizes.values()) > 2500
    assert count_params(result.best) == max(size for size in sizes.values() if size <= 2500)
    failures = dict(result.ranking.failed)
    assert set(failures) == {arch for arch, size in sizes.items() if size > 2500}
    assert {failure.kind for failure in failures.values()} == {"latency"}
    assert result.run.limit_results[0]["value"] == pytest.approx(2e-6 * count_params(result.best))
    page = report(run_folder).read_text().replace("<wbr>", "")
    assert f">{result.best}<" in page.partition("Best architecture")[2].partition("Limits")[0]


def test_a_resumed_search_measures_no_latency_again(run_folder, fake_latencies):
    first = search_noise(run_folder, limits={"latency": "5ms"}, budget=6)
    fake_latencies.clear()
    assert search_noise(run_folder, limits={"latency": "5ms"}, budget=6).ranking == first.ranking
    assert fake_latencies == []
    longer = search_noise(run_folder, limits={"latency": "5ms"}, budget=9)
    assert not {arch for arch, runs in fake_latencies if runs == _max_latency.SEARCH_RUNS} & {
        r.arch for r in first.records
    }
    with Store(run_folder / "records.sqlite") as store:
        stored = {(r.arch, r.measure) for r in store if r.proxy.startswith("latency(")}
    assert stored == {(r.arch, r.measure) for r in longer.records if r.proxy.startswith("latency(")}


def test_a_network_that_cannot_run_is_rejected_by_a_latency_limit(run_folder, monkeypatch):
    def time(self: Any, arch: Arch, stopwatch: LatencyTimer) -> float:
        if arch["bias"] == "no":
            raise RuntimeError("no kernel for this")
        return 1e-3

    monkeypatch.setattr(_max_latency.LatencyMeter, "_time_arch", time)
    result = search_noise(run_folder, space=twelve, limits={"latency": "5ms"}, budget=6)
    assert {s.arch["bias"] for s in result.ranking.standings} == {"yes"}
    assert result.run.limit_results[0]["rejected"] > 0


def test_memory_is_counted_on_the_meta_device(run_folder):
    result = search_noise(run_folder, limits={"memory": "12kB"})
    assert all(NetworkSize(ten, s.arch, TASK).memory <= 12_000 for s in result.ranking.standings)
    assert result.run.limit_results[0]["value"] == NetworkSize(ten, result.best, TASK).memory
