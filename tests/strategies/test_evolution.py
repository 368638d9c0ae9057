"""Evolution, local search and NSGA-II on toy spaces whose best is known."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from tests.strategies.toys import best, drive, fitness, record, ten, total, twelve
from untrained.errors import UsageError
from untrained.strategies.evolution import PRESETS, Evolution, Plan
from untrained.strategies.local import LocalSearch
from untrained.strategies.nsga2 import NSGA2, crowding, fronts, pareto_front
from untrained.strategies.random import RandomSearch

SEEDS = range(20)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rugged(arch) -> float:
    """The sum of the choices, less 2 for every neighbouring pair that differs: climbing alone gets stuck."""
    values = [int(value) for _, value in arch.genes]
    return sum(values) - 2.0 * sum(a != b for a, b in pairwise(values))


# ------------------------------------------------------------------------------------------- better than random


@pytest.mark.parametrize("answer", [total, rugged])
@pytest.mark.parametrize("made", [Evolution, LocalSearch, NSGA2])
def test_learning_beats_random_search_of_the_same_budget(made, answer):
    learned = [best(drive(made(ten, rng(seed), fitness), answer, 200)) for seed in SEEDS]
    chance = [best(drive(RandomSearch(ten, rng(seed)), answer, 200)) for seed in SEEDS]
    assert mannwhitneyu(learned, chance, alternative="greater").pvalue < 0.01
    assert np.mean(learned) > np.mean(chance) + 2


def test_without_a_signal_learning_is_no_better_than_random_search():
    """The reverse of the test above: its statistics can say no."""
    noise = {}

    def answer(arch):
        return noise.setdefault(arch, float(rng(len(noise)).random()))

    learned = [best(drive(Evolution(ten, rng(seed), fitness), answer, 200)) for seed in SEEDS]
    chance = [best(drive(RandomSearch(ten, rng(seed)), answer, 200)) for seed in SEEDS]
    assert mannwhitneyu(learned, chance, alternative="greater").pvalue > 0.01


# ------------------------------------------------------------------------------------------------------ evolution


def test_a_generation_begins_with_a_population_and_goes_on_with_children_of_one_parent():
    strategy = Evolution(ten, rng(), fitness, population=6, tournament=6, children=3)
    first = strategy.ask(100)
    assert len(first) == 6
    assert strategy.ask(1) == []  # nothing to go on with before it is told
    strategy.tell([record(arch, total(arch)) for arch in first])
    parent = max(first, key=total)  # the whole population is in the tournament
    for child in strategy.ask(100):
        assert sum(a != b for a, b in zip(child.genes, parent.genes, strict=True)) == 1
    assert len(strategy.population) == 6


def test_the_oldest_die_and_so_does_the_best_when_it_is_old():
    strategy = Evolution(ten, rng(), fitness, population=4, tournament=4, children=2)
    first = strategy.ask(4)
    strategy.tell([record(arch, 100.0 - i) for i, arch in enumerate(first)])
    assert list(strategy.population) == first
    children = strategy.ask(9)
    strategy.tell([record(arch, 0.0) for arch in children])
    assert list(strategy.population) == first[2:] + children
    moment = strategy.trace[-1]
    assert (moment.parent, moment.alive, moment.best, moment.middle, moment.worst) == (first[0], 4, 98.0, 48.5, 0.0)


def test_the_worst_dies_where_that_is_asked_for():
    strategy = Evolution(ten, rng(), fitness, population=3, tournament=1, children=1, dies="worst")
    first = strategy.ask(3)
    strategy.tell([record(arch, value) for arch, value in zip(first, (1.0, 5.0, 3.0), strict=True)])
    child = strategy.ask(3)
    strategy.tell([record(child[0], 2.0)])
    assert list(strategy.population) == [first[1], first[2], *child]
    strategy.tell([record(strategy.ask(1)[0], 0.5)])
    assert list(strategy.population) == [first[1], first[2], *child]


def test_a_tournament_of_one_takes_any_parent_and_a_full_one_the_best():
    for tournament, expected in ((1, 8), (8, 1)):
        parents = set()
        for seed in range(100):
            strategy = Evolution(ten, rng(seed), fitness, population=8, tournament=tournament, children=1)
            first = strategy.ask(8)
            strategy.tell([record(arch, float(i)) for i, arch in enumerate(first)])
            strategy.tell([record(arch, 0.0) for arch in strategy.ask(1)])
            parents.add(first.index(strategy.trace[-1].parent))
        assert len(parents) == expected
    assert parents == {7}


def test_what_failed_is_never_a_parent():
    strategy = Evolution(ten, rng(), fitness, population=10, tournament=2, children=4)
    found = drive(strategy, lambda arch: total(arch) if total(arch) % 2 else None, 150)
    assert all(value is None or value % 2 for value in found.values())
    assert all(moment.parent is None or total(moment.parent) % 2 for moment in strategy.trace)
    assert all(total(arch) % 2 for arch in strategy.population)


def test_if_all_fail_it_goes_on_at_random():
    strategy = Evolution(ten, rng(), fitness, population=5)
    assert len(drive(strategy, lambda arch: None, 30)) == 30
    assert strategy.trace == []


def test_the_presets_are_the_published_numbers():
    sigeo, zennas = PRESETS["sigeo"], PRESETS["zennas"]
    assert (sigeo.population, sigeo.tournament, sigeo.children, sigeo.generations) == (128, 64, 8, 240)
    assert (zennas.population, zennas.generations, zennas.dies, zennas.tournament) == (1024, 100_000, "worst", 1)
    # (240 - g) // 48 + 1
    assert [sigeo.mutations(g) for g in (0, 1, 48, 49, 192, 193, 239)] == [6, 5, 5, 4, 2, 1, 1]
    assert {zennas.mutations(g) for g in (0, 50_000, 99_999)} == {1}
    strategy = Evolution(ten, rng(), fitness, preset="sigeo", population=5, tournament=3, generations=2)
    assert len(drive(strategy, total, 1000)) == 5 + 2 * 8  # then it ends
    assert strategy.ask(1) == []


def test_wrong_options_are_named():
    for options, message in (
        ({"preset": "sigoe"}, "did you mean sigeo"),
        ({"popluation": 3}, "did you mean population"),
        ({"population": 0}, "from 1 up"),
        ({"dies": "young"}, "dies=oldest or dies=worst"),
        ({"cooling": True}, "generations=240"),
    ):
        with pytest.raises(UsageError, match=message):
            Evolution(ten, rng(), fitness, **options)
    assert Plan().mutations(5) == 1


# --------------------------------------------------------------------------------------------------- local search


def test_the_climber_moves_to_the_best_neighbour_and_starts_anew_after_its_patience():
    strategy = LocalSearch(ten, rng(), fitness, neighbours=3, patience=2)
    (start,) = strategy.ask(9)
    strategy.tell([record(start, 5.0)])
    around = strategy.ask(9)
    strategy.tell([record(arch, value) for arch, value in zip(around, (6.0, 8.0, 7.0), strict=True)])
    assert [(step.arch, step.value, step.restarted) for step in strategy.trace] == [
        (start, 5.0, True),
        (around[1], 8.0, False),
    ]
    for _ in range(2):
        near = strategy.ask(9)
        assert all(sum(a != b for a, b in zip(n.genes, around[1].genes, strict=True)) == 1 for n in near)
        strategy.tell([record(arch, 8.0) for arch in near])  # no better
    (again,) = strategy.ask(9)
    strategy.tell([record(again, 1.0)])
    assert (strategy.trace[-1].arch, strategy.trace[-1].restarted) == (again, True)


def test_local_search_climbs_to_the_top_of_a_hill():
    assert best(drive(LocalSearch(ten, rng(), fitness), total, 400)) == 30


# -------------------------------------------------------------------------------------------------------- NSGA-II


def test_fronts_worked_out_by_hand():
    points = [(1.0, 5.0), (3.0, 3.0), (5.0, 1.0), (2.0, 2.0), (1.0, 1.0), (3.0, 3.0), (0.0, 5.0)]
    assert fronts(points) == [[0, 1, 2, 5], [3, 6], [4]]
    assert pareto_front(points) == [0, 1, 2, 5]
    assert (fronts([]), pareto_front([])) == ([], [])
    assert fronts([(2.0,), (7.0,), (2.0,)]) == [[1], [0, 2]]
    assert pareto_front([(1.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]) == [0, 1]


def test_fronts_are_those_of_the_definition():
    points = [tuple(p) for p in rng(3).integers(0, 6, (60, 3)).astype(float).tolist()]

    def dominated(i: int, among: list[int]) -> bool:
        return any(
            all(a >= b for a, b in zip(points[j], points[i], strict=True)) and points[j] != points[i] for j in among
        )

    left, expected = list(range(60)), []
    while left:
        expected.append([i for i in left if not dominated(i, left)])
        left = [i for i in left if i not in expected[-1]]
    assert len(expected) > 3
    assert fronts(points) == expected


def test_crowding_worked_out_by_hand():
    """Four points on a line: the extent is 10 in both; the second has neighbours 0 and 4, the third 1 and 10."""
    points = [(0.0, 10.0), (1.0, 9.0), (4.0, 6.0), (10.0, 0.0)]
    assert crowding(points) == [inf, pytest.approx(0.4 + 0.4), pytest.approx(0.9 + 0.9), inf]
    assert crowding([(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)])[1] == 0  # no extent
    assert crowding([(3.0, 1.0)]) == [inf]


def test_nsga2_finds_the_front_of_two_objectives():
    """f = the sum of the first five choices, g = -(the sum of all): a point is on the front if the last five are 0, so
    the front has 16 points (s, -s)."""

    def f(records):
        return float(sum(v for _, v in records[0].arch.genes[:5]))

    def g(records):
        return -total(records[0].arch)

    strategy = NSGA2(ten, rng(), f, beside=[g], population=32)
    drive(strategy, total, 1500)
    front = strategy.trace[-1]
    assert set(front.points) == {(float(s), -float(s)) for s in range(16)}
    assert all(not any(v for _, v in arch.genes[5:]) for arch in front.archs)
    chance = drive(RandomSearch(ten, rng()), total, 1500)
    points = [(f([record(arch, 0.0)]), g([record(arch, 0.0)])) for arch in chance]
    assert len({points[i] for i in pareto_front(points)} & set(front.points)) < 8


def test_the_ends_of_a_front_survive_and_the_crowded_die():
    def a(records):
        return records[0].value

    def b(records):
        return -(records[0].value ** 2)

    strategy = NSGA2(ten, rng(), a, beside=[b], population=4)
    first = strategy.ask(9)
    strategy.tell([record(arch, value) for arch, value in zip(first, (0.0, 1.0, 9.0, 10.0), strict=True)])
    second = strategy.ask(9)
    strategy.tell([record(arch, value) for arch, value in zip(second, (5.0, 0.5, 9.5, 9.2), strict=True)])
    # all lie on one front; the box around 1 is (4.5 + 24.75 %), that around 9 is (4.2 + 59.64 %)
    assert {value for value, _ in strategy.population.values()} == {0.0, 10.0, 5.0, 9.0}


def test_what_lacks_an_objective_is_left_out():
    strategy = NSGA2(ten, rng(), fitness, beside=[lambda rs: None if total(rs[0].arch) % 2 else 1.0], population=8)
    drive(strategy, total, 60)
    assert strategy.population
    assert all(total(arch) % 2 == 0 for arch in strategy.population)
    with pytest.raises(UsageError, match="at most three objectives"):
        NSGA2(ten, rng(), fitness, beside=[fitness] * 3)


@pytest.mark.parametrize("made", [Evolution, LocalSearch, NSGA2])
def test_a_small_space_is_exhausted(made):
    found = drive(made(twelve, rng(), fitness), lambda arch: float(arch["width"]), 100)
    assert set(found) == set(twelve)
