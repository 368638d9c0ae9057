"""Searches on an invented table of 60 architectures."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.records import make_record
from untrained.benchmarks.statistics import spearman
from untrained.papers import hnas_search_figures, hnas_searches, table_searches
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.hnas import NB201
from untrained.papers.samples import Sample
from untrained.papers.table_searches import (
    QUERIES,
    SEARCH_COUNT,
    MeasuredSpace,
    MeasuredTable,
    compare_algorithms,
    list_incumbents,
    make_accuracy_lines,
    repeat_search,
)
from untrained.proxies import load_proxy
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Arch, Failure
from untrained.workflows.ground_truth import GroundTruth

SIZE = 60
SPACE = load_space("nasbench201")
ARCHS = tuple(SPACE.sample(make_generator("test", k)) for k in range(SIZE))
NAMES = (
    "trace",
    "knas",
    "grad_norm",
    "snip",
    "grasp",
    "ntk_condition",
    "dextr",
    "fisher",
    "synflow",
    "naswot",
)
rng = np.random.default_rng(0)
SCORES = {name: rng.uniform(1, 30, (1, SIZE)) for name in NAMES}
for scores in SCORES.values():
    scores[0, 7] = np.nan  # one of them has no path
ACCURACIES = {name: rng.uniform(10, 95, SIZE) for name in (
    "cifar10_val_12", "cifar10_test_200", "cifar100_test_200", "ImageNet16-120_test_200",
)}  # fmt: skip
TESTS = np.array(list(ACCURACIES.values())[1:])
VALIDATION = ACCURACIES["cifar10_val_12"]


class Table:
    """The part of a table that a search reads, including a row that was not measured."""

    name = "made up"
    extra = SPACE.make_arch(SPACE.sample(make_generator("test", "more")).genes)

    def list_archs(self):
        return (*map(str, ARCHS), str(self.extra))

    def find_metric(self, name=None, *, dataset=None, split=None, epochs=None):
        return SimpleNamespace(name=name or f"{dataset}_{split}_{epochs}", higher_is_better=True)

    def read_value(self, arch, metric):
        return float(ACCURACIES[metric.name][ARCHS.index(arch)])

    def read_values(self, archs, metric):
        column = ACCURACIES[getattr(metric, "name", metric)]
        return np.array(
            [99.0 if arch == self.extra else column[ARCHS.index(arch)] for arch in archs]
        )


@pytest.fixture
def table() -> MeasuredTable:
    metric = SimpleNamespace(name="cifar10_test_200")
    truth = GroundTruth(
        Table(), metric, "nasbench201", "nasbench201", SPACE.task, ARCHS, tuple(TESTS[0])
    )
    proxies = {name: load_proxy(name) for name in NAMES}
    failures = {name: {"disconnected": 1} for name in NAMES}
    source = SimpleNamespace(task=SPACE.task)
    return MeasuredTable(
        Sample(
            SCORES,
            failures,
            proxies,
            task=NB201,
            truth=truth,
            source=source,
            deviations=("Made up.",),
        )
    )


@pytest.fixture
def config(table, monkeypatch, tmp_path) -> ExperimentConfig:
    monkeypatch.setattr(hnas_searches, "measure_sample", lambda config, names, place: table.sample)
    monkeypatch.setattr(table_searches, "SEARCH_COUNT", 3)
    monkeypatch.setattr(hnas_search_figures, "SEARCH_COUNT", 3)
    return ExperimentConfig(SIZE, 1, tmp_path)


def find_best(places) -> int:
    """Return the index with the best validation accuracy."""
    return max(places, key=lambda place: VALIDATION[place])


def test_measured_space_contains_only_measured_architectures():
    space = MeasuredSpace(SPACE, ARCHS[:20])
    generator = make_generator("test", "known")
    assert space.size == 20
    assert {space.sample(generator) for _ in range(400)} == set(ARCHS[:20])
    assert all(space.mutate(ARCHS[k], generator) in ARCHS[:20] for k in range(20))


def test_mutations_are_neighbours_if_these_are_measured():
    neighbour = SPACE.mutate(ARCHS[0], make_generator("test", "neighbour"))
    space = MeasuredSpace(SPACE, (ARCHS[0], neighbour, *ARCHS[30:]))
    children = [space.mutate(ARCHS[0], make_generator("test", k)) for k in range(30)]
    assert children.count(neighbour) > 20


def test_incumbents_start_with_the_first_value_and_keep_the_first_of_equals():
    values = (None, 2.0, 1.0, 2.0, None, 3.0)
    records = [
        make_record(arch, "toy@1", SPACE.task, 0, value, Failure("nan") if value is None else None)
        for arch, value in zip(ARCHS, values, strict=False)
    ]
    incumbents = list_incumbents(lambda records: records[0].value, records)
    assert [ARCHS.index(arch) for arch in incumbents] == [1, 1, 1, 1, 5]
    assert list_incumbents(lambda records: None, records) == []


def test_best_of_pool_queries_the_best_by_the_proxy(table):
    """The pool has all architectures: the 20 best by dextr (NaN last), then the best by accuracy."""
    top = np.argsort(-SCORES["dextr"][0])[:QUERIES]
    expected = [find_best(top[: k + 1]) for k in range(QUERIES)]
    for incumbents in repeat_search(table, "screen", hnas_searches.make_best_of_pool("dextr")):
        assert [ARCHS.index(arch) for arch in incumbents] == expected


def test_search_by_proxy_takes_the_best_score(table):
    """A thousand draws from sixty architectures contain all of them."""
    first = int(np.nanargmax(SCORES["dextr"][0]))
    for search in (
        hnas_searches.make_random_search_by_proxy("dextr"),
        hnas_searches.make_evolution_by_proxy("dextr"),
    ):
        for incumbents in repeat_search(table, "free", search):
            assert ARCHS.index(incumbents[-1]) == first


def test_lower_scores_win_if_lower_is_better(table):
    lowest = int(np.nanargmin(SCORES["ntk_condition"][0]))
    incumbents = table.search_by_proxy(
        hnas_searches.RandomSearch(table.space, make_generator("low")), "ntk_condition", 1000
    )
    assert ARCHS.index(incumbents[-1]) == lowest


def test_random_search_with_all_queries_finds_the_best_of_the_table(table):
    searches = repeat_search(table, "all", hnas_searches.make_random_search(SIZE))
    assert len(searches) == SEARCH_COUNT
    assert {ARCHS.index(incumbents[-1]) for incumbents in searches} == {find_best(range(SIZE))}
    assert len({tuple(incumbents) for incumbents in searches}) > 1, "every search has its own order"


def test_evolution_spends_its_queries_and_keeps_the_best(table):
    for run in range(3):
        evolution = hnas_searches.make_evolution(14)
        incumbents = evolution(table, make_generator("test", "evolution", run))
        values = [VALIDATION[ARCHS.index(arch)] for arch in incumbents]
        assert len(values) == 14
        assert values == sorted(values)


def test_hnas_chooses_the_best_of_its_queries(table):
    generator = make_generator("hnas")
    strategy = table_searches.make_hnas_strategy(table, generator, "knas", acquisition="ucb")
    incumbents = table.search_with_queries(strategy)
    queries = [ARCHS.index(query.arch) for query in strategy.trace]
    assert len(set(queries)) == QUERIES
    assert 7 not in queries, "it has no score"
    assert (strategy.plan.metric, strategy.plan.acquisition) == ("knas", "ucb")
    assert ARCHS.index(incumbents[-1]) == find_best(queries)
    assert [query.value for query in strategy.trace] == [VALIDATION[index] for index in queries]


def test_accuracy_lines_are_mean_and_deviation(table):
    first = ARCHS[3]
    second = ARCHS[4]

    def toss_coin(table: MeasuredTable, generator: np.random.Generator) -> list[Arch]:
        return [ARCHS[9], first if generator.random() < 0.5 else second]

    picked = [
        3 if make_generator("search", "coin", run).random() < 0.5 else 4
        for run in range(SEARCH_COUNT)
    ]
    lines = compare_algorithms(
        table, {"coin": toss_coin}, {"coin": (94.0, 0.1, 72.0, None, 45.0, 0.25)}
    )
    assert [line.what for line in lines] == ["coin, C10", "coin, C100", "coin, IN-16"]
    assert [line.published for line in lines] == [94.0, 72.0, 45.0]
    assert [line.note for line in lines] == ["paper: \u00b1 0.10", "", "paper: \u00b1 0.25"]
    for line, row in zip(lines, TESTS, strict=True):
        values = [row[place] for place in picked]
        mean = sum(values) / SEARCH_COUNT
        assert line.ours == pytest.approx(mean)
        assert line.spread == pytest.approx(
            (sum((v - mean) ** 2 for v in values) / (SEARCH_COUNT - 1)) ** 0.5
        )
    nothing = make_accuracy_lines("none", np.empty((3, 0)))
    assert [line.ours for line in nothing] == [None] * 3


def test_grid_lines_are_the_best_first_choice(table):
    """The expected value is computed by a loop over the grid and the architectures."""
    good = [place for place in range(SIZE) if place != 7]
    M = SCORES["snip"][0]
    kappa = SCORES["ntk_condition"][0]
    best_per_cell = set()
    for i in range(hnas_searches.GRID_SIDE):
        for j in range(hnas_searches.GRID_SIDE):
            nu = np.quantile([M[place] ** 2 for place in good], i / (hnas_searches.GRID_SIDE - 1))
            balance = np.median([kappa[place] / M[place] for place in good])
            mu = 10 ** (-2 + 3 * j / (hnas_searches.GRID_SIDE - 1)) * balance
            mu /= np.median([abs(M[place] ** 2 - nu) for place in good])
            best_per_cell.add(
                min(good, key=lambda place: kappa[place] / M[place] + mu * abs(M[place] ** 2 - nu))
            )
    lines = hnas_searches.make_grid_lines(table, {"SNIP": "snip"})
    assert [line.ours for line in lines] == pytest.approx(
        TESTS[:, find_best(best_per_cell)].tolist()
    )


def test_training_free_variant_has_the_smallest_kappa_over_trace(config):
    least = int(np.nanargmin(SCORES["ntk_condition"][0] / SCORES["trace"][0]))
    lines = {line.what: line for line in hnas_searches.table_15(config).lines}
    assert lines["kappa / M_Trace, C100"].ours == pytest.approx(TESTS[1, least])
    assert lines["kappa / M_Trace, C100"].published == 69.78
    assert lines["Best of the table, IN-16"].ours == 99.0, (
        "the whole table counts, including rows that were not measured"
    )


def test_figure_2_is_the_mean_error_of_the_incumbents(config, table):
    result = hnas_search_figures.figure_2(config)
    for picture, row in zip(result.plots, TESTS, strict=True):
        curve = next(curve for curve in picture.curves if curve.name == "RS")
        searches = repeat_search(table, "RS", hnas_searches.make_random_search(QUERIES))
        errors = []
        for k in range(QUERIES):
            incumbents = [ARCHS.index(search[k]) for search in searches]
            errors.append(np.mean([100 - row[index] for index in incumbents]))
        assert curve.y == pytest.approx(errors)
        assert curve.x == tuple(range(1, QUERIES + 1))
        assert {curve.y for curve in picture.curves if curve.name == "best of the table"} == {
            (1.0,) * QUERIES
        }
    (last,) = [line for line in result.lines if line.what == "RS, IN-16, 20 queries"]
    assert last.ours == pytest.approx(errors[-1])


def test_figure_5_uses_the_weights_of_the_best_query(config, table):
    courses = []
    for run in range(3):
        strategy = table_searches.make_hnas_strategy(
            table, make_generator("search", "HNAS (Trace)", run), "trace"
        )
        table.search_with_queries(strategy)
        course = []
        for k in range(QUERIES):
            top = max(strategy.trace[: k + 1], key=lambda query: query.value)
            places = [place for place in range(SIZE) if place != 7]
            M = SCORES["trace"][0, places]
            kappa = SCORES["ntk_condition"][0, places]
            course.append(spearman(kappa / M + top.mu * abs(M**2 - top.nu), 100 - TESTS[0, places]))
        courses.append(course)
    (picture,) = hnas_search_figures.figure_5(config).plots
    assert picture.curves[0].y == pytest.approx(np.mean(courses, axis=0).tolist())


@pytest.mark.parametrize("seeds", [1, 2])
def test_records_have_the_measured_scores(table, seeds):
    doubled = {
        name: np.concatenate([scores + seed for seed in range(seeds)])
        for name, scores in SCORES.items()
    }
    ground = MeasuredTable(replace(table.sample, scores=doubled))
    (records,) = ground.read_scores([ARCHS[2]])
    assert [(r.proxy, r.seed, r.value) for r in records if r.proxy == "snip"] == [
        ("snip", seed, pytest.approx(SCORES["snip"][0, 2] + seed)) for seed in range(seeds)
    ]
    (missing,) = ground.read_scores([ARCHS[7]])
    assert {str(record.error) for record in missing} == {"missing"}
