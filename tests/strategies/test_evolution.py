"""Evolution, local search and NSGA-II on toy spaces whose best architecture is known."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from tests.strategies.toys import (
    get_best,
    make_toy_record,
    read_fitness,
    run_toy_search,
    sum_choices,
    ten,
    twelve,
)
from untrained.errors import UsageError
from untrained.strategies.evolution import PRESETS, Evolution, EvolutionPlan
from untrained.strategies.local import LocalSearch
from untrained.strategies.nsga2 import NSGA2, find_pareto_front, measure_crowding, sort_into_fronts
from untrained.strategies.random import RandomSearch

SEEDS = range(20)


def make_rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def score_ruggedly(arch) -> float:
    """The sum of the choices, minus 2 per differing neighbouring pair: climbing alone gets stuck."""
    values = [int(value) for _, value in arch.genes]
    return sum(values) - 2.0 * sum(a != b for a, b in pairwise(values))


# ---------------------------------------------------------------------------- better than random


@pytest.mark.parametrize("answer", [sum_choices, score_ruggedly])
@pytest.mark.parametrize("strategy_class", [Evolution, LocalSearch, NSGA2])
def test_learning_beats_random_search_with_the_same_budget(strategy_class, answer):
    learned_scores = [
        get_best(run_toy_search(strategy_class(ten, make_rng(seed), read_fitness), answer, 200))
        for seed in SEEDS
    ]
    random_scores = [
        get_best(run_toy_search(RandomSearch(ten, make_rng(seed)), answer, 200)) for seed in SEEDS
    ]
    assert mannwhitneyu(learned_scores, random_scores, alternative="greater").pvalue < 0.01
    assert np.mean(learned_scores) > np.mean(random_scores) + 2


def test_without_a_signal_learning_is_no_better_than_random_search():
    """The opposite of the test above: shows that its statistics can fail."""
    noise = {}

    def answer(arch):
        return noise.setdefault(arch, float(make_rng(len(noise)).random()))

    learned_scores = [
        get_best(run_toy_search(Evolution(ten, make_rng(seed), read_fitness), answer, 200))
        for seed in SEEDS
    ]
    random_scores = [
        get_best(run_toy_search(RandomSearch(ten, make_rng(seed)), answer, 200)) for seed in SEEDS
    ]
    assert mannwhitneyu(learned_scores, random_scores, alternative="greater").pvalue > 0.01


# ------------------------------------------------------------------------------------- evolution


def test_evolution_starts_with_a_population_and_continues_with_children_of_one_parent():
    strategy = Evolution(ten, make_rng(), read_fitness, population=6, tournament=6, children=3)
    first = strategy.ask(100)
    assert len(first) == 6
    assert strategy.ask(1) == []  # it waits for the records of the first generation
    strategy.tell([make_toy_record(arch, sum_choices(arch)) for arch in first])
    parent = max(first, key=sum_choices)  # the whole population is in the tournament
    for child in strategy.ask(100):
        assert sum(a != b for a, b in zip(child.genes, parent.genes, strict=True)) == 1
    assert len(strategy.population) == 6


def test_the_oldest_members_are_removed_even_the_best():
    strategy = Evolution(ten, make_rng(), read_fitness, population=4, tournament=4, children=2)
    first = strategy.ask(4)
    strategy.tell([make_toy_record(arch, 100.0 - i) for i, arch in enumerate(first)])
    assert list(strategy.population) == first
    children = strategy.ask(9)
    strategy.tell([make_toy_record(arch, 0.0) for arch in children])
    assert list(strategy.population) == first[2:] + children
    step = strategy.trace[-1]
    assert (step.parent, step.alive, step.best, step.median, step.worst) == (
        first[0],
        4,
        98.0,
        48.5,
        0.0,
    )


def test_the_worst_member_is_removed_with_dies_worst():
    strategy = Evolution(
        ten, make_rng(), read_fitness, population=3, tournament=1, children=1, dies="worst"
    )
    first = strategy.ask(3)
    strategy.tell(
        [make_toy_record(arch, value) for arch, value in zip(first, (1.0, 5.0, 3.0), strict=True)]
    )
    child = strategy.ask(3)
    strategy.tell([make_toy_record(child[0], 2.0)])
    assert list(strategy.population) == [first[1], first[2], *child]
    strategy.tell([make_toy_record(strategy.ask(1)[0], 0.5)])
    assert list(strategy.population) == [first[1], first[2], *child]


def test_a_tournament_of_one_selects_any_parent_and_a_full_one_the_best():
    for tournament, expected in ((1, 8), (8, 1)):
        parents = set()
        for seed in range(100):
            strategy = Evolution(
                ten, make_rng(seed), read_fitness, population=8, tournament=tournament, children=1
            )
            first = strategy.ask(8)
            strategy.tell([make_toy_record(arch, float(i)) for i, arch in enumerate(first)])
            strategy.tell([make_toy_record(arch, 0.0) for arch in strategy.ask(1)])
            parents.add(first.index(strategy.trace[-1].parent))
        assert len(parents) == expected
    assert parents == {7}


def test_a_failed_architecture_is_never_a_parent():
    strategy = Evolution(ten, make_rng(), read_fitness, population=10, tournament=2, children=4)
    scores = run_toy_search(
        strategy, lambda arch: sum_choices(arch) if sum_choices(arch) % 2 else None, 150
    )
    assert all(value is None or value % 2 for value in scores.values())
    assert all(step.parent is None or sum_choices(step.parent) % 2 for step in strategy.trace)
    assert all(sum_choices(arch) % 2 for arch in strategy.population)


def test_if_all_fail_evolution_continues_at_random():
    strategy = Evolution(ten, make_rng(), read_fitness, population=5)
    assert len(run_toy_search(strategy, lambda arch: None, 30)) == 30
    assert strategy.trace == []


def test_the_presets_have_the_published_numbers():
    sigeo = PRESETS["sigeo"]
    zennas = PRESETS["zennas"]
    assert (sigeo.population, sigeo.tournament, sigeo.children, sigeo.generations) == (
        128,
        64,
        8,
        240,
    )
    assert (zennas.population, zennas.generations, zennas.dies, zennas.tournament) == (
        1024,
        100_000,
        "worst",
        1,
    )
    # (240 - g) // 48 + 1
    assert [sigeo.count_mutations(g) for g in (0, 1, 48, 49, 192, 193, 239)] == [
        6,
        5,
        5,
        4,
        2,
        1,
        1,
    ]
    assert {zennas.count_mutations(g) for g in (0, 50_000, 99_999)} == {1}
    strategy = Evolution(
        ten, make_rng(), read_fitness, preset="sigeo", population=5, tournament=3, generations=2
    )
    assert len(run_toy_search(strategy, sum_choices, 1000)) == 5 + 2 * 8  # then it ends
    assert strategy.ask(1) == []


def test_wrong_options_are_refused():
    for options, message in (
        ({"preset": "sigoe"}, "did you mean sigeo"),
        ({"popluation": 3}, "did you mean population"),
        ({"population": 0}, "must be at least 1"),
        ({"dies": "young"}, "dies must be oldest or worst"),
        ({"cooling": True}, "generations=240"),
    ):
        with pytest.raises(UsageError, match=message):
            Evolution(ten, make_rng(), read_fitness, **options)
    assert EvolutionPlan().count_mutations(5) == 1


# ---------------------------------------------------------------------------------- local search


def test_local_search_moves_to_the_best_neighbour_and_restarts_after_its_patience():
    strategy = LocalSearch(ten, make_rng(), read_fitness, neighbours=3, patience=2)
    (start,) = strategy.ask(9)
    strategy.tell([make_toy_record(start, 5.0)])
    neighbours = strategy.ask(9)
    strategy.tell(
        [
            make_toy_record(arch, value)
            for arch, value in zip(neighbours, (6.0, 8.0, 7.0), strict=True)
        ]
    )
    assert [(step.arch, step.value, step.restarted) for step in strategy.trace] == [
        (start, 5.0, True),
        (neighbours[1], 8.0, False),
    ]
    position = neighbours[1]
    for _ in range(2):
        neighbours = strategy.ask(9)
        assert all(
            sum(a != b for a, b in zip(n.genes, position.genes, strict=True)) == 1
            for n in neighbours
        )
        strategy.tell([make_toy_record(arch, 8.0) for arch in neighbours])  # no improvement
    (restart,) = strategy.ask(9)
    strategy.tell([make_toy_record(restart, 1.0)])
    assert (strategy.trace[-1].arch, strategy.trace[-1].restarted) == (restart, True)


def test_local_search_finds_the_best():
    assert (
        get_best(run_toy_search(LocalSearch(ten, make_rng(), read_fitness), sum_choices, 400)) == 30
    )


# --------------------------------------------------------------------------------------- NSGA-II


def test_fronts_equal_those_computed_by_hand():
    points = [(1.0, 5.0), (3.0, 3.0), (5.0, 1.0), (2.0, 2.0), (1.0, 1.0), (3.0, 3.0), (0.0, 5.0)]
    assert sort_into_fronts(points) == [[0, 1, 2, 5], [3, 6], [4]]
    assert find_pareto_front(points) == [0, 1, 2, 5]
    assert (sort_into_fronts([]), find_pareto_front([])) == ([], [])
    assert sort_into_fronts([(2.0,), (7.0,), (2.0,)]) == [[1], [0, 2]]
    assert find_pareto_front([(1.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]) == [0, 1]


def test_fronts_match_the_definition():
    points = [tuple(p) for p in make_rng(3).integers(0, 6, (60, 3)).astype(float).tolist()]

    def is_dominated(i: int, among: list[int]) -> bool:
        return any(
            all(a >= b for a, b in zip(points[j], points[i], strict=True))
            and points[j] != points[i]
            for j in among
        )

    remaining = list(range(60))
    expected = []
    while remaining:
        expected.append([i for i in remaining if not is_dominated(i, remaining)])
        remaining = [i for i in remaining if i not in expected[-1]]
    assert len(expected) > 3
    assert sort_into_fronts(points) == expected


def test_crowding_distances_equal_those_computed_by_hand():
    """Four points, extent 10 in both objectives; the neighbours of the second are 0 and 4."""
    points = [(0.0, 10.0), (1.0, 9.0), (4.0, 6.0), (10.0, 0.0)]
    assert measure_crowding(points) == [
        inf,
        pytest.approx(0.4 + 0.4),
        pytest.approx(0.9 + 0.9),
        inf,
    ]
    assert measure_crowding([(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)])[1] == 0  # no extent
    assert measure_crowding([(3.0, 1.0)]) == [inf]


def test_nsga2_finds_the_front_of_two_objectives():
    """f is the sum of the first five choices, g minus the sum of all ten. A point is on the front
    if the last five choices are 0, so the front has 16 points (s, -s)."""

    def f(records):
        return float(sum(v for _, v in records[0].arch.genes[:5]))

    def g(records):
        return -sum_choices(records[0].arch)

    strategy = NSGA2(ten, make_rng(), f, other_objectives=[g], population=32)
    run_toy_search(strategy, sum_choices, 1500)
    front = strategy.trace[-1]
    assert set(front.points) == {(float(s), -float(s)) for s in range(16)}
    assert all(not any(v for _, v in arch.genes[5:]) for arch in front.archs)
    random_scores = run_toy_search(RandomSearch(ten, make_rng()), sum_choices, 1500)
    points = [
        (f([make_toy_record(arch, 0.0)]), g([make_toy_record(arch, 0.0)])) for arch in random_scores
    ]
    assert len({points[i] for i in find_pareto_front(points)} & set(front.points)) < 8


def test_the_ends_of_a_front_survive_and_crowded_points_do_not():
    def a(records):
        return records[0].value

    def b(records):
        return -(records[0].value ** 2)

    strategy = NSGA2(ten, make_rng(), a, other_objectives=[b], population=4)
    first = strategy.ask(9)
    strategy.tell(
        [
            make_toy_record(arch, value)
            for arch, value in zip(first, (0.0, 1.0, 9.0, 10.0), strict=True)
        ]
    )
    second = strategy.ask(9)
    strategy.tell(
        [
            make_toy_record(arch, value)
            for arch, value in zip(second, (5.0, 0.5, 9.5, 9.2), strict=True)
        ]
    )
    # all points are on one front; d(1) is 0.45 + 0.2475, d(9) is 0.42 + 0.5964
    assert {value for value, _ in strategy.population.values()} == {0.0, 10.0, 5.0, 9.0}


def test_an_architecture_without_an_objective_is_left_out():
    strategy = NSGA2(
        ten,
        make_rng(),
        read_fitness,
        other_objectives=[lambda rs: None if sum_choices(rs[0].arch) % 2 else 1.0],
        population=8,
    )
    run_toy_search(strategy, sum_choices, 60)
    assert strategy.population
    assert all(sum_choices(arch) % 2 == 0 for arch in strategy.population)
    with pytest.raises(UsageError, match="at most three objectives"):
        NSGA2(ten, make_rng(), read_fitness, other_objectives=[read_fitness] * 3)


@pytest.mark.parametrize("strategy_class", [Evolution, LocalSearch, NSGA2])
def test_a_small_space_is_exhausted(strategy_class):
    scores = run_toy_search(
        strategy_class(twelve, make_rng(), read_fitness), lambda arch: float(arch["width"]), 100
    )
    assert set(scores) == set(twelve)


@pytest.mark.parametrize(
    "option", ["population", "tournament", "children", "initial", "generations"]
)
def test_a_number_below_1_is_refused_by_name(option):
    with pytest.raises(UsageError, match=rf"evolution\({option}=0\): {option} must be at least 1"):
        EvolutionPlan(**{option: 0})
