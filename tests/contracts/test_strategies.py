"""One contract for every registered strategy.

Its proposals depend only on its seed and on the scores, not on the number per ask or on the order of
records. It proposes nothing twice, respects limits and failures, and proposes the same again after
it was killed. It works with every space, or reports that it needs a supernet.

A new strategy is tested as soon as it is registered. Scores are made up, so that no network is built;
at the end every strategy runs through `search` on small networks.
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
from tests.strategies.toys import TASK, make_toy_record, read_fitness, run_toy_search, ten, twelve
from untrained import Probe, search
from untrained.config import Limits
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.seeds import make_generator
from untrained.spaces import Space, load_space
from untrained.strategies import STRATEGIES, Strategy
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.types import Arch, Record
from untrained.workflows.search import SearchResult

ON_SUPERNETS = ("nasi", "zerocost_pt")
SMALL: dict[str, dict[str, Any]] = {  # options that make a strategy fast
    "evolution": {"population": 8, "tournament": 4, "children": 4},
    "nsga2": {"population": 8},
    "nasi": {"steps": 1, "batch": 2, "nu0": 1e9},
    "zerocost_pt": {"proposals": 2, "operations": "naswot(samples=4)"},
    "hnas": {"pool": 30, "pool_growth": 5},
    "best_of_pool": {"pool": 60, "top": 40},
}
each_strategy = pytest.mark.parametrize("name", STRATEGIES)
BUDGETS = {name: 2 if name in ON_SUPERNETS else 40 for name in STRATEGIES}
SUPERNET_SPACE = load_space("nasbench201(channels=2,cells=1)")


def score_pool(archs: Sequence[Arch]) -> Any:
    """Return random records of the metrics that HNAS reads."""
    for arch in archs:
        M = make_generator("M", arch).random() + 1
        kappa = make_generator("kappa", arch).random() + 1
        yield [
            make_toy_record(arch, M, "trace@1"),
            make_toy_record(arch, kappa, "ntk_condition@1"),
            make_toy_record(arch, M, "toy@1"),
        ]


def get_space(name: str) -> Space:
    return SUPERNET_SPACE if name in ON_SUPERNETS else ten


def make_strategy(name: str, seed: int = 0, space: Any = None, **options: Any) -> Strategy:
    """Make a small and fast strategy with everything that it needs."""
    needs = {
        "source": load_data("noise", TASK),
        "score_pool": score_pool,
        "pool_fitness": read_fitness,
        "other_objectives": (),
    }
    arguments = {need: needs[need] for need in STRATEGIES[name].needs}
    return STRATEGIES[name](
        space or get_space(name),
        np.random.default_rng(seed),
        read_fitness,
        **arguments,
        **SMALL.get(name, {}),
    )


def score_arch(arch: Arch) -> float | None:
    """Return a fixed random score per architecture; a fifth of them fail."""
    value = float(make_generator("answer", arch).random())
    return None if value < 0.2 else value


def list_proposals(name: str, seed: int = 0, ask_size: int = 5, **options: Any) -> list[Arch]:
    """Return all proposals of a search with made-up scores."""
    return list(
        run_toy_search(make_strategy(name, seed, **options), score_arch, BUDGETS[name], ask_size)
    )


@cache
def list_default_proposals(name: str) -> tuple[Arch, ...]:
    """Return the proposals of an undisturbed run; computed once, since supernets are expensive."""
    return tuple(list_proposals(name))


@each_strategy
def test_the_seed_determines_the_proposals(name):
    first = list_default_proposals(name)
    assert first
    assert tuple(list_proposals(name)) == first
    assert any(tuple(list_proposals(name, seed)) != first for seed in range(1, 4))


@each_strategy
def test_proposals_do_not_depend_on_the_number_per_ask(name):
    for ask_size in {min(ask_size, BUDGETS[name]) for ask_size in (1, 7, 10**6)}:
        assert tuple(list_proposals(name, ask_size=ask_size)) == list_default_proposals(name)


@each_strategy
def test_proposals_do_not_depend_on_the_order_of_records(name):
    strategy = make_strategy(name)
    proposals = []
    while len(proposals) < BUDGETS[name] and (
        archs := strategy.ask(min(5, BUDGETS[name] - len(proposals)))
    ):
        proposals += archs
        strategy.tell([make_toy_record(arch, score_arch(arch)) for arch in reversed(archs)])
    assert tuple(proposals) == list_default_proposals(name)


@each_strategy
def test_records_may_arrive_one_by_one(name):
    strategy = make_strategy(name)
    proposals = []
    while len(proposals) < BUDGETS[name] and (
        archs := strategy.ask(min(5, BUDGETS[name] - len(proposals)))
    ):
        proposals += archs
        for arch in archs:
            strategy.tell([make_toy_record(arch, score_arch(arch))])
    assert tuple(proposals) == list_default_proposals(name)


@each_strategy
def test_a_killed_strategy_proposes_the_same_again(name):
    """The store has the scores of earlier proposals; then the search continues."""
    whole = list(list_default_proposals(name))
    store: dict[Arch, float | None] = {}

    class Killed(Exception):  # noqa: N818 - not an error
        pass

    def score_from_store(arch: Arch) -> float | None:
        if arch not in store:
            if len(store) in stops:
                stops.remove(len(store))
                raise Killed
            store[arch] = score_arch(arch)
        return store[arch]

    stops = {int(stop) for stop in np.random.default_rng(7).integers(0, len(whole), 3)}
    for _ in range(len(stops)):
        with pytest.raises(Killed):
            run_toy_search(make_strategy(name), score_from_store, BUDGETS[name])
    assert list(run_toy_search(make_strategy(name), score_from_store, BUDGETS[name])) == whole
    assert list(store) == whole


@each_strategy
def test_nothing_is_proposed_twice_and_a_small_space_is_exhausted(name):
    """The driver asserts that nothing is proposed twice."""
    space = SUPERNET_SPACE if name in ON_SUPERNETS else twelve
    budget = 8 if name == "nasi" else 10**6
    proposals = run_toy_search(make_strategy(name, space=space), lambda arch: 1.0, budget)
    assert 0 < len(proposals) <= space.size
    if name not in ON_SUPERNETS:
        assert make_strategy(name, space=space).ask(0) == []


@each_strategy
def test_every_proposal_respects_the_limits(name):
    space = get_space(name)
    sizes = [NetworkSize(space, arch, TASK).params for arch in list_default_proposals(name)]
    limit = sorted(sizes)[len(sizes) // 2]
    limited = ConstrainedSpace(space, Limits(max_params=limit), TASK)
    proposals = list_proposals(name, space=limited)
    assert proposals
    assert all(NetworkSize(space, arch, TASK).params <= limit for arch in proposals)


@each_strategy
def test_if_all_architectures_fail_a_strategy_ends_or_proposes_others(name):
    strategy = make_strategy(name)
    failed = []
    while len(failed) < BUDGETS[name] and (
        archs := strategy.ask(min(5, BUDGETS[name] - len(failed)))
    ):
        failed += archs
        strategy.tell([make_toy_record(arch, None) for arch in archs])
    assert 0 < len(failed) == len(set(failed)) <= BUDGETS[name]


@each_strategy
def test_a_strategy_reads_records_through_the_fitness_only(name):
    """Records of other proxies change nothing."""

    def make_records(arch: Arch) -> list[Record]:
        return [
            make_toy_record(arch, score_arch(arch)),
            make_toy_record(arch, 1e9, "flops@1"),
            make_toy_record(arch, None, "params@1"),
        ]

    strategy = make_strategy(name)
    proposals = []
    while len(proposals) < BUDGETS[name] and (
        archs := strategy.ask(min(5, BUDGETS[name] - len(proposals)))
    ):
        proposals += archs
        records = []
        for arch in archs:
            records += make_records(arch)
        strategy.tell(records)
    assert tuple(proposals) == list_default_proposals(name)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ON_SUPERNETS])
def test_a_strategy_works_with_a_space_of_the_user(name):
    from tests.contracts.test_spaces import _user

    space = _user["mynet"]
    proposals = list_proposals(name, space=space)
    assert all(space.parse(str(arch)) == arch for arch in proposals)


@pytest.mark.parametrize("name", ON_SUPERNETS)
def test_a_missing_supernet_is_reported_in_one_line(name):
    with pytest.raises(UsageError, match=f"{name} needs a supernet, and ten has none") as caught:
        make_strategy(name, space=ten).ask(1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ON_SUPERNETS])
def test_a_strategy_works_with_random_scores(name):
    scores = {}
    for arch in list_default_proposals(name):
        scores[arch] = float(make_generator("chance", arch).random())
    proposals = run_toy_search(
        make_strategy(name), lambda arch: scores.get(arch, 0.5), BUDGETS[name]
    )
    assert len(proposals) >= min(BUDGETS[name], 20)


@each_strategy
def test_a_strategy_is_described_in_one_line(name):
    about = (STRATEGIES[name].__doc__ or "").partition("\n")[0]
    assert 20 < len(about) <= 120
    assert about.endswith(".")


# ------------------------------------------------------------------------------ through `search`

SEARCH_OPTIONS = {
    "hnas": {"steps": 3, "pool": 12, "pool_growth": 2},
    "best_of_pool": {"pool": 12, "top": 6},
}
SEARCH_ARGUMENTS: dict[str, dict[str, Any]] = {  # what a strategy needs besides its options
    "nsga2": {"also": "params"},
    "hnas": {"validate": "training(epochs=1,samples=20)", "proxy": "trace"},
    "best_of_pool": {"validate": "training(epochs=1,samples=20)"},
}
FinishedSearch = Callable[..., tuple[SearchResult, int]]


@untrained.proxy(needs=())
def fail_some(probe: Probe) -> float:
    """The number of parameters; no score for about a fifth of the networks."""
    return nan if probe.params % 5 == 0 else probe.params


def run_search(name: str, folder: Path, seed: int = 0, **options: Any) -> SearchResult:
    """Search with a strategy on small networks."""
    small = SEARCH_OPTIONS.get(name) or SMALL.get(name, {})
    text = f"{name}({','.join(f'{option}={value}' for option, value in small.items())})"
    if name in SEARCH_OPTIONS:
        budget = None
    else:
        budget = 2 if name in ON_SUPERNETS else 14
    request = {"proxy": fail_some, **SEARCH_ARGUMENTS.get(name, {}), **options}
    return search(
        get_space(name),
        strategy=text,
        budget=budget,
        data="noise",
        seed=seed,
        run=folder,
        **request,
    )


def summarize(result: SearchResult) -> tuple[Any, ...]:
    """Return what must be reproducible: records without times, ranking and trace."""
    untimed = {
        replace(r, build_seconds=0.0, transfer_seconds=0.0, measure_seconds=0.0)
        for r in result.records
    }
    trace = result.run.folder / "trace.json"
    content = json.loads(trace.read_text()) if trace.exists() else None
    return untimed, result.ranking, content


@pytest.fixture(scope="module")
def finished_search(tmp_path_factory: pytest.TempPathFactory) -> FinishedSearch:
    """Return a finished search, which runs once, and its number of progress calls."""

    def make(name: str) -> tuple[SearchResult, int]:
        calls: list[Any] = []
        return run_search(name, tmp_path_factory.mktemp(name), on_progress=calls.append), len(calls)

    return cache(make)


@each_strategy
def test_a_search_is_reproducible_and_depends_on_the_seed(name, finished_search, tmp_path):
    first, _ = finished_search(name)
    assert summarize(run_search(name, tmp_path / "again")) == summarize(first)
    assert {r.arch for r in run_search(name, tmp_path / "other", seed=1).records} != {
        r.arch for r in first.records
    }


@each_strategy
def test_an_interrupted_search_resumes_and_ends_the_same(name, finished_search, tmp_path):
    whole, calls_in_total = finished_search(name)
    half = calls_in_total // 2
    calls = list[int]()

    def stop(progress: Any) -> None:
        calls.append(progress.done)
        if len(calls) > half and progress.done:
            raise KeyboardInterrupt

    stopped = run_search(name, tmp_path / "stopped", on_progress=stop)
    assert stopped.run.end_reason == "interrupted"
    assert len(calls) > half
    assert summarize(run_search(name, tmp_path / "stopped")) == summarize(whole)


@each_strategy
def test_a_search_ranks_only_architectures_within_its_limits_that_have_a_score(
    name, finished_search, tmp_path
):
    space = get_space(name)
    sizes = sorted(
        NetworkSize(space, s.arch, space.task).params
        for s in finished_search(name)[0].ranking.standings
    )
    limit = int(sizes[len(sizes) // 2])
    limited = run_search(name, tmp_path, limits={"params": str(limit)})
    assert limited.ranking.standings
    for standing in limited.ranking.standings:
        assert NetworkSize(space, standing.arch, space.task).params <= limit
        decisive = [
            r
            for r in limited.records
            if r.arch == standing.arch and r.measure == limited.run.measure
        ]
        assert decisive
        assert all(r.value is not None for r in decisive)
    (limit_status,) = limited.run.limit_results
    assert (limit_status["limit"], limit_status["value"]) == (
        "max_params",
        NetworkSize(space, limited.best, space.task).params,
    )
    assert limited.report().is_file()
