"""Known designs are the first candidates of a search, and the strategy takes its own path."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import untrained
from tests.strategies.toys import (
    make_toy_record,
    read_fitness,
    run_toy_search,
    sum_choices,
    ten,
    twelve,
)
from untrained import search
from untrained.config import Limits, SearchConfig
from untrained.runs.folder import RunFolder
from untrained.spaces import Space
from untrained.strategies.evolution import Evolution
from untrained.strategies.known_designs import KnownDesignsStrategy
from untrained.strategies.limits import ConstrainedSpace
from untrained.strategies.local import LocalSearch
from untrained.strategies.parsing import StrategySpec
from untrained.strategies.random import RandomSearch
from untrained.workflows import search as search_module
from untrained.workflows.search_setup import prepare_search

FIRST = ",".join(f"c{i}=1" for i in range(10))
SECOND = ",".join(f"c{i}=2" for i in range(10))


def add_designs(space: Space, **texts: str) -> Space:
    return replace(space, hooks=replace(space.hooks, known_designs=lambda task: texts))


def make_strategy(strategy_class, space, seed=0):
    return strategy_class(space, np.random.default_rng(seed), read_fitness)


@pytest.mark.parametrize("strategy_class", [RandomSearch, Evolution, LocalSearch])
@pytest.mark.parametrize("ask_size", [1, 5, 64])
def test_designs_come_first_and_the_strategy_takes_the_same_path(strategy_class, ask_size):
    space = ConstrainedSpace(add_designs(ten, first=FIRST, second=SECOND))
    strategy = KnownDesignsStrategy(make_strategy(strategy_class, space), space)
    scores = list(run_toy_search(strategy, sum_choices, 102, ask_size))
    assert scores[:2] == [ten.parse(FIRST), ten.parse(SECOND)]
    plain = list(run_toy_search(make_strategy(strategy_class, space), sum_choices, 100, ask_size))
    assert scores[2:] == plain
    assert strategy.designs == {ten.parse(FIRST): "first", ten.parse(SECOND): "second"}


def test_a_design_that_the_strategy_proposes_is_scored_once():
    space = ConstrainedSpace(add_designs(twelve, mine="width=6,bias=yes"))
    strategy = KnownDesignsStrategy(make_strategy(RandomSearch, space), space)
    scores = run_toy_search(strategy, lambda arch: 1.0, budget=100)
    assert len(scores) == 12


@pytest.mark.parametrize("ask_size", [1, 3, 20])
def test_a_strategy_learns_from_a_design_only_if_it_proposes_it(ask_size):
    """All of a small space are designs, so the records of every generation are known before."""
    designs = {str(arch): str(arch) for arch in twelve}
    space = ConstrainedSpace(add_designs(twelve, **designs))
    learned = []

    class Spy(RandomSearch):
        def tell(self, records):
            learned.extend(record.arch for record in records)

    strategy = KnownDesignsStrategy(make_strategy(Spy, space), space)
    first_archs = strategy.ask(12)
    strategy.tell([make_toy_record(arch, 1.0) for arch in first_archs])
    assert not learned
    assert strategy.ask(ask_size) == []
    assert set(learned) == set(twelve)


def test_evolution_goes_on_after_a_generation_of_designs():
    """The first generation is one design of the space, which it must not wait for."""
    space = ConstrainedSpace(add_designs(twelve, **{str(arch): str(arch) for arch in twelve}))
    strategy = KnownDesignsStrategy(make_strategy(Evolution, space), space)
    scores = run_toy_search(strategy, lambda arch: float(arch["width"]), budget=50)
    assert len(scores) == 12


def test_at_most_max_designs_are_proposed():
    space = ConstrainedSpace(add_designs(ten, first=FIRST, second=SECOND))
    strategy = KnownDesignsStrategy(make_strategy(RandomSearch, space), space, max_designs=1)
    archs = strategy.ask(1) + strategy.ask(1)
    assert archs[0] == ten.parse(FIRST)
    assert archs[1] != ten.parse(SECOND)
    assert list(strategy.designs.values()) == ["first"]


def test_strategies_with_a_pool_or_a_supernet_get_no_designs():
    restricted = {"nasi", "zerocost_pt", "hnas", "best_of_pool"}
    for name in untrained.strategies.STRATEGIES:
        assert StrategySpec.parse(name).accepts_extra_proposals == (name not in restricted)


# ------------------------------------------------------------------------------------- searches


SIZES = {"input_size": 16, "limits": {"params": "60k"}}


def search_convnet(folder, **options):
    settings = {"proxy": "params", "budget": 12, "data": "noise", **SIZES}
    return search("convnet", run=folder, workers=1, **{**settings, **options})


@pytest.fixture
def no_training(monkeypatch):
    """Skip the trainings that follow a search with `confirm`."""
    monkeypatch.setattr(search_module, "_train_best", lambda setup, result, time_plan: result)


def list_expected_designs():
    task = replace(untrained.load_space("convnet").task, input_shape=(3, 16, 16))
    space = ConstrainedSpace(untrained.load_space("convnet"), Limits(max_params=60e3), task)
    return {str(arch): name for name, arch in space.list_known_designs().items()}


@pytest.mark.usefixtures("no_training")
def test_a_search_with_trainings_has_the_designs_among_its_candidates(tmp_path):
    data = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    np.savez(data, x=images, y=np.arange(40) % 4)
    search_mine = partial(search_convnet, tmp_path / "run", data=f"npz:{data}", confirm=1)
    result = search_mine()
    archs = {str(record.arch) for record in result.records}
    designs = RunFolder.read(tmp_path / "run").known_designs
    assert {"ResNet-12", "ConvNeXt-like"} <= set(designs.values())
    assert set(designs) < archs
    assert len(archs) == 12
    # The same call resumes: it measures nothing and says the same.
    again = search_mine()
    assert {str(record.arch) for record in again.records} == archs
    assert again.run.known_designs == designs
    # More architectures follow the same ones.
    more = search_mine(budget=20)
    assert archs < {str(record.arch) for record in more.records}


@pytest.mark.usefixtures("no_training")
def test_designs_are_screened_like_others(tmp_path):
    result = search_convnet(
        tmp_path, data="digits", proxy="naswot", screen="params", keep="50%", confirm=1
    )
    designs = list_expected_designs()
    assert result.run.known_designs == designs
    assert len({record.arch for record in result.records if record.proxy == "params"}) == 12
    assert len({record.arch for record in result.records if record.proxy == "naswot"}) == 6


def test_a_search_without_trainings_is_unchanged(tmp_path):
    result = search_convnet(tmp_path)
    assert result.run.known_designs == {}
    proposed = {record.arch for record in result.records}
    setup = prepare_search(SearchConfig("convnet", "params", data="noise", **SIZES))
    assert proposed == set(setup.strategy.ask(12))


@pytest.mark.usefixtures("no_training")
def test_designs_take_at_most_half_of_the_budget(tmp_path):
    result = search_convnet(tmp_path, data="digits", budget=3, confirm=1)
    assert list(result.run.known_designs.values()) == ["ResNet-12"]


def test_runs_of_earlier_versions_have_no_designs(tmp_path):
    search_convnet(tmp_path, budget=1)
    path = tmp_path / "run.json"
    facts = json.loads(path.read_text())
    del facts["known_designs"]
    path.write_text(json.dumps(facts))
    assert RunFolder.read(tmp_path).known_designs == {}
