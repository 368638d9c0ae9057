"""One contract for every registered strategy: the seed and the answers decide the questions, however they are portioned
and in whatever order answers come; nothing is asked twice; limits and failures are respected; a strategy that was
killed asks the same again; any space will do, unless it needs a supernet, and then it says so.

A new strategy is under this contract as soon as it is registered. Answers are made up, so that nothing is built; at the
end every strategy goes through `search`, on small networks.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import untrained
from tests.strategies.toys import TASK, drive, fitness, record, ten, twelve
from untrained import Probe, search
from untrained.data import load
from untrained.errors import UsageError
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.strategies import STRATEGIES, Result, Strategy
from untrained.strategies.limits import Feasible, Limits, Size
from untrained.types import Arch, Record

ON_SUPERNETS = ("nasi", "zerocost_pt")
SMALL: dict[str, dict[str, Any]] = {  # options that make a strategy quick
    "evolution": {"population": 8, "tournament": 4, "children": 4},
    "nsga2": {"population": 8},
    "nasi": {"steps": 1, "batch": 2, "nu0": 1e9},
    "zerocost_pt": {"proposals": 2, "operations": "naswot(samples=4)"},
    "hnas": {"pool": 30, "more": 5},
    "screen": {"pool": 60, "top": 40},
}
contract = pytest.mark.parametrize("name", STRATEGIES)
budgets = {name: 2 if name in ON_SUPERNETS else 40 for name in STRATEGIES}
shared_net = load_space("nasbench201(channels=2,cells=1)")


def judge(archs: Sequence[Arch]) -> Any:
    for arch in archs:
        M, kappa = generator("M", arch).random() + 1, generator("kappa", arch).random() + 1
        yield [record(arch, M, "trace@1"), record(arch, kappa, "ntk_condition@1"), record(arch, M, "toy@1")]


def home(name: str) -> Space:
    return shared_net if name in ON_SUPERNETS else ten


def made(name: str, seed: int = 0, space: Any = None, **options: Any) -> Strategy:
    needs = {"source": load("noise", TASK), "judge": judge, "by": fitness, "beside": ()}
    given = {need: needs[need] for need in STRATEGIES[name].needs}
    return STRATEGIES[name](space or home(name), np.random.default_rng(seed), fitness, **given, **SMALL.get(name, {}))


def answer(arch: Arch) -> float | None:
    """Any number, the same for the same architecture; a fifth of them fail."""
    value = float(generator("answer", arch).random())
    return None if value < 0.2 else value


def asked(name: str, seed: int = 0, portion: int = 5, **options: Any) -> list[Arch]:
    return list(drive(made(name, seed, **options), answer, budgets[name], portion))


@cache
def usual(name: str) -> tuple[Arch, ...]:
    """What a strategy asks for undisturbed; worked out once, since a look at a supernet is dear."""
    return tuple(asked(name))


@contract
def test_the_seed_decides_the_questions(name):
    first = usual(name)
    assert first
    assert tuple(asked(name)) == first
    assert any(tuple(asked(name, seed)) != first for seed in range(1, 4))


@contract
def test_portions_do_not_matter(name):
    for portion in {min(portion, budgets[name]) for portion in (1, 7, 10**6)}:
        assert tuple(asked(name, portion=portion)) == usual(name)


@contract
def test_the_order_of_answers_does_not_matter(name):
    strategy, found = made(name), []
    while len(found) < budgets[name] and (archs := strategy.ask(min(5, budgets[name] - len(found)))):
        found += archs
        strategy.tell([record(arch, answer(arch)) for arch in reversed(archs)])
    assert tuple(found) == usual(name)


@contract
def test_answers_that_come_one_by_one_are_the_same_answers(name):
    strategy, found = made(name), []
    while len(found) < budgets[name] and (archs := strategy.ask(min(5, budgets[name] - len(found)))):
        found += archs
        for arch in archs:
            strategy.tell([record(arch, answer(arch))])
    assert tuple(found) == usual(name)


@contract
def test_killed_at_any_point_it_asks_the_same_again(name):
    """The store answers what was answered before; then the search goes on where it was."""
    whole = list(usual(name))
    store: dict[Arch, float | None] = {}

    class Killed(Exception):  # noqa: N818 - not an error
        pass

    def remembered(arch: Arch) -> float | None:
        if arch not in store:
            if len(store) in stops:
                stops.remove(len(store))
                raise Killed
            store[arch] = answer(arch)
        return store[arch]

    stops = {int(stop) for stop in np.random.default_rng(7).integers(0, len(whole), 3)}
    for _ in range(len(stops)):
        with pytest.raises(Killed):
            drive(made(name), remembered, budgets[name])
    assert list(drive(made(name), remembered, budgets[name])) == whole
    assert list(store) == whole


@contract
def test_nothing_is_asked_twice_and_a_small_space_ends(name):
    """The driver asserts that nothing comes twice."""
    space = shared_net if name in ON_SUPERNETS else twelve
    found = drive(made(name, space=space), lambda arch: 1.0, 8 if name == "nasi" else 10**6)
    assert 0 < len(found) <= space.size
    if name not in ON_SUPERNETS:
        assert made(name, space=space).ask(0) == []


@contract
def test_every_question_keeps_to_the_limits(name):
    space = home(name)
    free = [Size(space, arch, TASK).params for arch in usual(name)]
    limit = sorted(free)[len(free) // 2]
    limited = Feasible(space, Limits(max_params=limit), TASK)
    found = asked(name, space=limited)
    assert found
    assert all(Size(space, arch, TASK).params <= limit for arch in found)


@contract
def test_if_all_fail_it_ends_or_goes_on_but_asks_for_none_of_them_again(name):
    strategy, failed = made(name), []
    while len(failed) < budgets[name] and (archs := strategy.ask(min(5, budgets[name] - len(failed)))):
        failed += archs
        strategy.tell([record(arch, None) for arch in archs])
    assert 0 < len(failed) == len(set(failed)) <= budgets[name]


@contract
def test_it_learns_of_records_through_fitness_alone(name):
    """More records than one, of other measures and seeds, tell it nothing else."""

    def told(arch: Arch) -> list[Record]:
        return [record(arch, answer(arch)), record(arch, 1e9, "flops@1"), record(arch, None, "params@1")]

    strategy, found = made(name), []
    while len(found) < budgets[name] and (archs := strategy.ask(min(5, budgets[name] - len(found)))):
        found += archs
        strategy.tell([r for arch in archs for r in told(arch)])
    assert tuple(found) == usual(name)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ON_SUPERNETS])
def test_a_users_own_space_will_do(name):
    from tests.contracts.test_spaces import _user

    space = _user["mynet"]
    found = asked(name, space=space)
    assert all(space.parse(str(arch)) == arch for arch in found)


@pytest.mark.parametrize("name", ON_SUPERNETS)
def test_without_a_supernet_it_says_so_in_one_line(name):
    with pytest.raises(UsageError, match=f"{name} needs a supernet, and ten has none") as caught:
        made(name, space=ten).ask(1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ON_SUPERNETS])
def test_the_random_score_works_with_it(name):
    chance = {arch: float(generator("chance", arch).random()) for arch in usual(name)}
    found = drive(made(name), lambda arch: chance.get(arch, 0.5), budgets[name])
    assert len(found) >= min(budgets[name], 20)


@contract
def test_a_strategy_is_described_in_one_line(name):
    about = (STRATEGIES[name].__doc__ or "").partition("\n")[0]
    assert 20 < len(about) <= 120
    assert about.endswith(".")


# ------------------------------------------------------------------------------------------------- through `search`

SEARCHED = {"hnas": {"steps": 3, "pool": 12, "more": 2}, "screen": {"pool": 12, "top": 6}}
MORE: dict[str, dict[str, Any]] = {  # what a strategy needs beside its options
    "nsga2": {"beside": "params"},
    "hnas": {"validate": "training(epochs=1,samples=20)", "proxy": "trace"},
    "screen": {"validate": "training(epochs=1,samples=20)"},
}
Searched = Callable[..., tuple[Result, int]]


@untrained.proxy(needs=())
def picky(probe: Probe) -> float:
    """The number of parameters; nothing for about a fifth of the networks."""
    return nan if probe.params % 5 == 0 else probe.params


def find(name: str, folder: Path, seed: int = 0, **options: Any) -> Result:
    small = SEARCHED.get(name) or SMALL.get(name, {})
    text = f"{name}({','.join(f'{option}={value}' for option, value in small.items())})"
    budget = None if name in SEARCHED else 2 if name in ON_SUPERNETS else 14
    asked = {"proxy": picky, **MORE.get(name, {}), **options}
    return search(home(name), strategy=text, budget=budget, data="noise", seed=seed, run=folder, **asked)


def found(result: Result) -> tuple[Any, ...]:
    """What must not depend on chance or clocks: records, ranking, and what the strategy believed."""
    untimed = {replace(r, build_seconds=0.0, transfer_seconds=0.0, measure_seconds=0.0) for r in result.records}
    trace = result.run.folder / "trace.json"
    return untimed, result.ranking, json.loads(trace.read_text()) if trace.exists() else None


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """A finished search, made once, and how often it told where it was."""

    def make(name: str) -> tuple[Result, int]:
        calls: list[Any] = []
        return find(name, tmp_path_factory.mktemp(name), watch=calls.append), len(calls)

    return cache(make)


@contract
def test_a_search_finds_the_same_again_and_something_else_by_another_seed(name, searched, tmp_path):
    first, _ = searched(name)
    assert found(find(name, tmp_path / "again")) == found(first)
    assert {r.arch for r in find(name, tmp_path / "other", seed=1).records} != {r.arch for r in first.records}


@contract
def test_a_search_that_was_stopped_goes_on_to_the_same_end(name, searched, tmp_path):
    whole, told = searched(name)
    half, calls = told // 2, list[int]()

    def stop(at: Any) -> None:
        calls.append(at.done)
        if len(calls) > half and at.done:
            raise KeyboardInterrupt

    stopped = find(name, tmp_path / "stopped", watch=stop)
    assert stopped.run.ended == "interrupted"
    assert len(calls) > half
    assert found(find(name, tmp_path / "stopped")) == found(whole)


@contract
def test_a_search_returns_nothing_beyond_its_limits_and_nothing_that_failed(name, searched, tmp_path):
    space = home(name)
    free = sorted(Size(space, s.arch, space.task).params for s in searched(name)[0].ranking.standings)
    limit = int(free[len(free) // 2])
    limited = find(name, tmp_path, max_params=str(limit))
    assert limited.ranking.standings
    for standing in limited.ranking.standings:
        assert Size(space, standing.arch, space.task).params <= limit
        decisive = [r for r in limited.records if r.arch == standing.arch and r.measure == limited.run.measure]
        assert decisive
        assert all(r.value is not None for r in decisive)
    (kept,) = limited.run.limits
    assert (kept["limit"], kept["value"]) == ("max_params", Size(space, limited.best, space.task).params)
    assert limited.report().is_file()
