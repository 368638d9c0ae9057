"""From what people type to a strategy in a search: options, limits, latency, and who has the last word."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import data_root as data_root
from tests.benchmarks.conftest import known as known
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


def find(
    folder: Path, strategy: str = "random", space: Any = ten, proxy: Any = "params", **options: Any
) -> SearchResult:
    return search(space, proxy, strategy, data="noise", run=folder, **{"budget": 12} | options)


def params(arch: Arch) -> int:
    """Of `ten`: the hidden layer is one wider than the sum of the choices."""
    width = 1 + sum(int(value) for _, value in arch.genes)
    return 193 * width + 4 * (width + 1)


def judged(found: SearchResult, proxy: str) -> dict[Arch, float]:
    return {r.arch: r.value for r in found.records if r.proxy == proxy and r.value is not None}


# ------------------------------------------------------------------------------------------------------------ options


def test_options_are_read_and_reach_the_strategy(run_folder):
    chosen = StrategySpec.parse("evolution( population=5, dies=worst )")
    assert chosen.label == "evolution(population=5,dies=worst)"
    made = chosen.make(ten, make_generator(0), lambda records: 0.0, StrategyInputs())
    assert (made.plan.population, made.plan.dies, made.plan.children) == (5, "worst", 8)
    assert len(made.ask(100)) == 5
    assert (
        find(run_folder, "evolution(population=5)").run.config.strategy == "evolution(population=5)"
    )


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("evolutoin", "did you mean evolution"),
        ("evolution(populaton=3)", "did you mean population"),
        ("evolution(population=many)", "it takes population=64"),
        ("evolution(population=2.5)", "it takes population=64"),
        ("evolution(dies=young)", "it takes dies=oldest|worst"),
        ("evolution(preset=dextr)", "it takes preset=sigeo|zennas"),
        ("nasi(nu0=large)", "it takes nu0=NUMBER"),
        ("best_of_pool(evaluate_pool=me)", "no option of best_of_pool is called 'evaluate_pool'"),
        ("evolution(population=0)", "whole numbers from 1 up"),
        ("random(5)", "name=value"),
    ],
)
def test_a_wrong_option_is_answered_in_one_line(run_folder, strategy, said):
    with pytest.raises(UsageError) as caught:
        find(
            run_folder, strategy, **({"validate": "training"} if "best_of_pool" in strategy else {})
        )
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_option_is_described(name):
    for option in list_options(STRATEGIES[name]).values():
        assert str(option).startswith(f"{option.name}=")


@pytest.mark.parametrize(
    ("options", "said"),
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
            "no table of known results is about ten",
        ),
        ({"strategy": "nsga2"}, "such as --beside params"),
        (
            {"strategy": "evolution", "screen": "flops", "proxy": "dextr"},
            "take --strategy random, not evolution",
        ),
        (
            {"strategy": "evolution", "proxy": "az_nas"},
            "az_nas compares all candidates, and evolution needs",
        ),
        (
            {"strategy": "nsga2", "beside": "az_nas"},
            "az_nas compares all candidates, and nsga2 needs",
        ),
        (
            {"strategy": "hnas", "proxy": "zico", "validate": "training"},
            "hnas judges its pool by trace",
        ),
        ({"limits": {"params": "many"}}, "'many' is not a max params; write it like 2M"),
        ({"limits": {"latency": "5ms@nowhere"}}, "nowhere"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_before_anything_is_written(
    run_folder, options, said
):
    with pytest.raises(UsageError) as caught:
        find(run_folder, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()


def test_without_a_budget_a_strategy_ends_where_it_is_done(run_folder):
    found = find(run_folder, "zerocost_pt(proposals=1)", NET, budget=None)
    assert (found.run.config.budget, found.run.ended) == (1, "budget")
    assert find(run_folder / "2", space=twelve, budget=None).run.ended == "exhausted"


# ------------------------------------------------------------------------------------------------------------- limits


def test_rejections_are_counted_by_limit_and_the_best_stands_beside_every_limit(run_folder):
    found = find(
        run_folder,
        "evolution(population=4)",
        limits={"params": "3100", "min_params": "2.5k", "flops": "1M"},
    )
    assert all(2500 <= params(s.arch) <= 3100 for s in found.ranking.standings)
    rows = {row["limit"]: row for row in found.run.limits}
    assert list(rows) == ["max_params", "min_params", "max_flops"]
    best = params(found.best)
    width = (best - 4) // 197
    assert (rows["max_params"]["value"], rows["min_params"]["value"]) == (best, best)
    assert rows["max_flops"] == {
        "limit": "max_flops",
        "asked": "1M",
        "rejected": 0,
        "value": 196 * width,
    }
    assert rows["max_params"]["rejected"] > 0
    assert rows["min_params"]["rejected"] > 0
    assert json.loads((run_folder / "run.json").read_text())["limits"] == found.run.limits


def test_rejections_are_those_of_the_draws(run_folder):
    """Random search draws until it has its budget: what it drew besides was turned down."""
    found = find(run_folder, limits={"params": "3100"}, budget=8)
    rng, turned_down, kept = make_generator("search", "random", "ten", 0), 0, []
    while len(kept) < 8:
        arch = ten.sample(rng)
        turned_down += params(arch) > 3100
        kept += [arch] if params(arch) <= 3100 and arch not in kept else []
    assert found.run.limits[0]["rejected"] == turned_down > 0
    assert {s.arch for s in found.ranking.standings} == set(kept)


def test_limits_nobody_can_keep_are_said_in_one_line(run_folder):
    with pytest.raises(
        UsageError, match="at most 100 parameters; the closest had 201 parameters"
    ) as caught:
        find(run_folder, "local", limits={"params": "100"})
    assert "\n" not in str(caught.value)


def test_another_limit_on_the_same_folder_is_refused(run_folder):
    find(run_folder, limits={"params": "3100"})
    with pytest.raises(UsageError, match=r"max_params '3100' \(now '4k'\)"):
        find(run_folder, limits={"params": "4k"})
    with pytest.raises(UsageError, match=r"max_params '3100' \(now None\)"):
        find(run_folder)


def test_the_report_shows_limits_and_the_command_that_has_them(run_folder):
    found = find(run_folder, "evolution(population=4)", limits={"params": "3100", "memory": "1MB"})
    page = found.report().read_text()
    assert "Rejected" in page
    assert "--strategy &#x27;evolution(population=4)&#x27;" in page
    assert "--max-params 3100 --max-memory 1MB" in page
    assert "Search progress" in page
    assert "Strategy trace" in page


# --------------------------------------------------------------------------------------------------------- objectives


def test_nsga2_weighs_the_proxy_against_fewer_parameters(run_folder):
    found = find(
        run_folder, "nsga2(population=6)", proxy="naswot(samples=8)", beside="params", budget=30
    )
    scores, sizes = judged(found, "naswot(samples=8)"), judged(found, "params")
    front = json.loads((run_folder / "trace.json").read_text())[-1]
    assert front["points"] == [
        [scores[ten.parse(arch)], -sizes[ten.parse(arch)]] for arch in front["archs"]
    ]
    every = [(scores[arch], -sizes[arch]) for arch in scores]
    unbeaten = [
        p for p in every if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in every)
    ]
    page = found.report().read_text()
    assert f"{len(unbeaten)} of 30 architectures are on the Pareto front of 2 objectives" in page
    assert "params (lower is better)" in page


def test_other_objectives_on_the_same_folder_are_refused(run_folder):
    find(run_folder, "nsga2(population=6)", proxy="flops", beside="params")
    with pytest.raises(UsageError, match=r"objectives 'params' \(now 'depth'\)"):
        find(run_folder, "nsga2(population=6)", proxy="flops", beside="depth")


# --------------------------------------------------------------------------------------------------------- validation


def test_a_training_has_the_last_word(run_folder):
    found = find(
        run_folder,
        "best_of_pool(pool=8,top=3)",
        validate="training(epochs=1,samples=20)",
        budget=None,
    )
    sizes = judged(found, "params")
    assert len(sizes) == 8
    trained = judged(found, "accuracy(epochs=1,samples=20)")
    assert set(trained) == set(sorted(sizes, key=lambda arch: -sizes[arch])[:3])
    assert trained[found.best] == max(trained.values())
    assert [s.arch for s in found.ranking.standings] == sorted(
        trained, key=lambda arch: -trained[arch]
    )
    assert (
        "The score is <b>training(epochs=1,samples=20)</b>"
        in found.report().read_text().replace("<wbr>", "")
    )


def test_a_table_has_the_last_word(run_folder, data_root, known):
    table = known("nasbench201")
    options = {"validate": "table:cifar10_val_12", "data_root": data_root, "budget": None}
    found = find(run_folder, "hnas(steps=3,pool=8,more=0)", NET, "trace", **options)
    told = judged(found, "table:cifar10_val_12")
    assert len(told) == 3
    assert told == {arch: table.value(str(arch), "cifar10_val_12") for arch in told}
    assert len(judged(found, "trace")) <= 8
    assert [s.score for s in found.ranking.standings] == sorted(told.values(), reverse=True)
    queries = json.loads((run_folder / "trace.json").read_text())
    assert [query["value"] for query in queries] == [
        told[load_space(NET).parse(query["arch"])] for query in queries
    ]
    assert found.report().read_text().count('class="query') == 3, (
        "drawn over what is believed in the end"
    )
    with pytest.raises(UsageError, match="no metric of nasbench201 is called 'cifar10_val_13'"):
        Validation.parse("table:cifar10_val_13", NET, data_root)


class Lines:
    """A table that remembers what it was asked."""

    name = "lines"

    def __init__(self) -> None:
        self.asked: list[Arch] = []

    def value(self, arch: Arch, metric: Any) -> float | None:
        self.asked.append(arch)
        return None if len(self.asked) == 2 else float(len(self.asked))


def test_of_a_table_only_what_is_asked_for_is_looked_up(tmp_path):
    archs = list(twelve)[:3]
    table, metric = Lines(), type("Metric", (), {"name": "m"})

    def sizes(some: Any) -> Any:
        return ([make_record(arch, "params@1", TASK, 0, 1.0)] for arch in some)

    with Store(tmp_path / "store.sqlite") as store:
        evaluate = TableEvaluator(TableMetric(table, metric, "table:m@1"), sizes, TASK, 5, store)  # type: ignore[arg-type]
        answers = evaluate(archs)
        first = next(answers)
        assert table.asked == archs[:1]
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
print(LatencyTimer(threads=int(sys.argv[3]), runs=60).time_network(network, space.task.input_shape).seconds)
"""


@pytest.mark.alone
def test_a_latency_limit_is_kept_when_the_best_is_measured_in_a_fresh_process(
    tmp_path, monkeypatch
):
    """The limit lies far from every network of the space, since a busy machine takes half as long again, or more: four
    times what three layers take, a quarter of what 48 take, which have the most parameters."""
    monkeypatch.chdir(tmp_path)
    Path("deep.py").write_text(DEEP)
    space = load_space("./deep.py:deep")
    quick = LatencyTimer().time_network(
        space.build(space.parse("depth=3,bias=yes")), space.task.input_shape
    )
    limit = 4 * quick.seconds
    found = find(
        Path("run"),
        space="./deep.py:deep",
        budget=6,
        limits={"latency": f"{1e3 * limit:.3f}ms@cpu"},
        workers=1,
    )
    (row,) = found.run.limits
    assert row["value"] <= limit
    assert row["rejected"] > 0
    asked = [sys.executable, "-c", FRESH, "./deep.py:deep", str(found.best), str(quick.threads)]
    again = float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    assert again <= 1.15 * limit
    assert found.best == space.parse("depth=3,bias=yes")  # the largest that is quick enough


@pytest.fixture
def watch_of_lies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Arch, int]]:
    """Clocks say a microsecond a parameter while searching, and twice that when they are careful."""
    measured: list[tuple[Arch, int]] = []

    def time(self: Any, arch: Arch, stopwatch: LatencyTimer) -> float:
        measured.append((arch, stopwatch.runs))
        return params(arch) * 1e-6 * (2 if stopwatch.runs == _max_latency.FINAL_RUNS else 1)

    monkeypatch.setattr(_max_latency.LatencyMeter, "_time_arch", time)
    return measured


def test_a_winner_over_the_limit_is_never_returned(run_folder, watch_of_lies):
    found = find(run_folder, limits={"latency": "5ms"}, budget=30)
    every = judged(found, "params")
    assert all(size <= 5000 for size in every.values())
    assert max(every.values()) > 2500
    assert params(found.best) == max(size for size in every.values() if size <= 2500)
    over = dict(found.ranking.failed)
    assert set(over) == {arch for arch, size in every.items() if size > 2500}
    assert {failure.kind for failure in over.values()} == {"latency"}
    assert found.run.limits[0]["value"] == pytest.approx(2e-6 * params(found.best))
    page = report(run_folder).read_text().replace("<wbr>", "")
    assert f">{found.best}<" in page.partition("Best architecture")[2].partition("Limits")[0]


def test_a_search_that_goes_on_measures_no_latency_again(run_folder, watch_of_lies):
    first = find(run_folder, limits={"latency": "5ms"}, budget=6)
    watch_of_lies.clear()
    assert find(run_folder, limits={"latency": "5ms"}, budget=6).ranking == first.ranking
    assert watch_of_lies == []
    longer = find(run_folder, limits={"latency": "5ms"}, budget=9)
    assert not {arch for arch, runs in watch_of_lies if runs == _max_latency.SEARCH_RUNS} & {
        r.arch for r in first.records
    }
    with Store(run_folder / "records.sqlite") as store:
        stored = {(r.arch, r.measure) for r in store if r.proxy.startswith("latency(")}
    assert stored == {(r.arch, r.measure) for r in longer.records if r.proxy.startswith("latency(")}


def test_what_cannot_be_run_keeps_to_no_limit_of_latency(run_folder, monkeypatch):
    def time(self: Any, arch: Arch, stopwatch: LatencyTimer) -> float:
        if arch["bias"] == "no":
            raise RuntimeError("no kernel for this")
        return 1e-3

    monkeypatch.setattr(_max_latency.LatencyMeter, "_time_arch", time)
    found = find(run_folder, space=twelve, limits={"latency": "5ms"}, budget=6)
    assert {s.arch["bias"] for s in found.ranking.standings} == {"yes"}
    assert found.run.limits[0]["rejected"] > 0


def test_memory_is_that_of_the_meta_device(run_folder):
    found = find(run_folder, limits={"memory": "12kB"})
    assert all(NetworkSize(ten, s.arch, TASK).memory <= 12_000 for s in found.ranking.standings)
    assert found.run.limits[0]["value"] == NetworkSize(ten, found.best, TASK).memory
