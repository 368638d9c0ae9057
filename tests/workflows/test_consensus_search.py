"""Searches by `consensus`: the reference sample, its records, resumed searches, and limits."""

import json
from dataclasses import replace

import pytest

import untrained as ut
from untrained.proxies.consensus import MEMBERS, REFERENCE_SIZE
from untrained.runs.reference import FittedAggregate, describe_consensus
from untrained.runs.store import Store
from untrained.runs.winner import read_ranking
from untrained.types import Record
from untrained.workflows.search import SearchResult
from untrained.workflows.search_setup import SearchSetup

SPACE = "nasbench201(channels=2,cells=1)"


def search(folder, **options) -> SearchResult:
    defaults = {"proxy": "consensus", "budget": 6, "data": "noise", "workers": 1}
    return ut.search(SPACE, run=folder, **{**defaults, **options})


def list_consensus(records: list[Record]) -> list[Record]:
    return [record for record in records if record.proxy == "consensus"]


def read_store(result: SearchResult) -> list[Record]:
    with Store(result.run.store_path) as store:
        return list(store)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> SearchResult:
    return search(tmp_path_factory.mktemp("consensus") / "run")


def test_every_candidate_has_a_consensus_between_0_and_1(result):
    assert len(result.ranking.standings) + len(result.ranking.failed) == 6
    for standing in result.ranking.standings:
        assert 0 < standing.score < 1
    scores = [standing.score for standing in result.ranking.standings]
    assert scores == sorted(scores, reverse=True)


def test_the_reference_sample_is_stored_once_and_is_no_candidate(result):
    stored_archs = {record.arch for record in read_store(result)}
    assert len(stored_archs) == REFERENCE_SIZE
    ranked_archs = {record.arch for record in result.records}
    assert len(ranked_archs) == 6
    # Random search proposes the reference architectures first, so nothing is measured twice.
    assert ranked_archs < stored_archs


def test_a_consensus_follows_from_the_stored_records(result):
    """The records of the reference sample and of a candidate are all that is needed."""
    stored = read_store(result)
    parts = [record for record in stored if record.proxy != "consensus"]
    fitted = FittedAggregate.fit(ut.proxies.load_proxy("consensus"), parts)
    expected = {record.arch: record for record in fitted.compute_records(parts)}
    consensus_records = list_consensus(stored)
    assert len(consensus_records) == 6
    for record in consensus_records:
        assert record.value == expected[record.arch].value
        assert record.error == expected[record.arch].error


def test_the_run_file_says_what_was_learnt(result):
    document = json.loads((result.run.folder / "run.json").read_text())
    (learnt,) = document["aggregates"]
    assert learnt["reference_size"] == REFERENCE_SIZE
    assert set(learnt["weights"]) | set(learnt["left_out"]) == set(MEMBERS)
    assert sum(learnt["weights"].values()) == pytest.approx(1)
    assert -1 <= learnt["agreement"] <= 1
    assert 0 <= learnt["explained_by_size"] <= 1


def test_how_far_the_proxies_agree_is_said_before_candidates_are_scored(tmp_path):
    events = []
    result = search(tmp_path / "run", budget=2, on_progress=events.append)
    (place,) = [place for place, event in enumerate(events) if event.remark]
    (facts,) = json.loads((result.run.folder / "run.json").read_text())["aggregates"]
    assert events[place].remark == describe_consensus(facts, advice="")
    assert f"mean rank correlation of {facts['agreement']:.2f}" in events[place].remark
    # All reference networks have been scored, and no candidate.
    assert (events[place].done, events[place].total) == (REFERENCE_SIZE, REFERENCE_SIZE)
    stages_before = {event.stage for event in events[:place]}
    stages_after = {event.stage for event in events[place + 1 :]}
    assert "scoring" not in stages_before
    assert "scoring" in stages_after


def test_a_larger_budget_keeps_the_scores(result, tmp_path):
    first = {standing.arch: standing.score for standing in result.ranking.standings}
    larger = search(tmp_path / "larger", budget=9)
    second = {standing.arch: standing.score for standing in larger.ranking.standings}
    assert first.items() <= second.items()


def test_a_strategy_that_learns_can_use_it(tmp_path):
    result = search(tmp_path / "run", strategy="evolution(population=4,tournament=2)", budget=8)
    again = search(tmp_path / "run", strategy="evolution(population=4,tournament=2)", budget=8)
    assert result.best == again.best
    assert [replace(r, measure_seconds=0) for r in list_consensus(result.records)] == [
        replace(r, measure_seconds=0) for r in list_consensus(again.records)
    ]


# HNAS is not listed: it combines two proxies of its own.
STRATEGIES = {
    "random": {},
    "local": {"strategy": "local"},
    "nsga2": {"strategy": "nsga2(population=4)", "also": "params"},
    "screening": {"screen": "params", "keep": "50%"},
    "best_of_pool": {
        "strategy": "best_of_pool(pool=8,top=3)",
        "validate": "training(epochs=1,samples=20)",
        "budget": 3,
    },
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_gives_a_candidate_the_same_score(name, tmp_path):
    """A score depends on the reference sample only, so every search with it gives the same."""
    options = {"budget": 8, **STRATEGIES[name]}
    result = search(tmp_path / "run", **options)
    again = search(tmp_path / "run", **options)
    assert again.ranking == result.ranking
    stored = read_store(result)
    assert list_consensus(stored)
    # Random search has the same reference sample, but hardly any of these candidates. So the scores
    # are recomputed from the records of its reference.
    random_search = search(tmp_path / "random", budget=1)
    reference = [r for r in read_store(random_search) if r.proxy != "consensus"]
    fitted = FittedAggregate.fit(ut.proxies.load_proxy("consensus"), reference)
    expected = {record.arch: record.value for record in fitted.compute_records(stored)}
    for record in list_consensus(stored):
        assert record.value == expected[record.arch]


def test_the_reference_sample_keeps_the_limits_of_size(tmp_path):
    result = search(tmp_path / "run", limits={"params": "1600"})
    sizes = [record.value for record in read_store(result) if record.proxy == "params"]
    assert len(sizes) >= 6
    assert max(sizes) <= 1600


def test_more_seeds_share_one_reference_sample(tmp_path):
    result = search(tmp_path / "run", seeds=2, budget=3)
    stored = read_store(result)
    second_seed = {record.arch for record in stored if record.seed == 1}
    assert len(second_seed) == 3
    for standing in result.ranking.standings:
        assert standing.seeds == 2


def test_the_reference_sample_takes_at_most_half_of_the_time(tmp_path):
    """A reference that is cut short still gives scores."""
    events = []
    result = search(tmp_path / "run", budget=None, time="0.2s", on_progress=events.append)
    assert result.run.end_reason == "time"
    (learnt,) = result.run.aggregates
    size = learnt["reference_size"]
    assert 1 <= size < REFERENCE_SIZE
    (remark,) = [event.remark for event in events if event.remark]
    assert remark.startswith(
        "The time was too short for the whole reference sample: "
        f"{size} of {REFERENCE_SIZE} networks were scored."
    )
    # Both stages were cut short.
    endings = {event.stage: event.end_reason for event in events if event.end_reason}
    assert endings == {"scoring the reference sample": "time", "scoring": "time"}
    assert result.ranking.standings or result.ranking.failed


def test_a_larger_reference_of_a_resumed_search_replaces_the_scores(result, tmp_path, monkeypatch):
    """The scores by the smaller reference are no second seed: they must not be averaged."""
    sample = SearchSetup.sample_reference
    with monkeypatch.context() as patch:
        patch.setattr(SearchSetup, "sample_reference", lambda setup: sample(setup)[:3])
        few = search(tmp_path / "run")
    assert few.run.aggregates[0]["reference_size"] == 3
    resumed = search(tmp_path / "run")
    assert resumed.run.aggregates[0]["reference_size"] == REFERENCE_SIZE
    assert [standing.spread for standing in resumed.ranking.standings] == [None] * 6
    assert resumed.ranking == result.ranking
    assert read_ranking(resumed.run).ranking == result.ranking


def test_a_stopped_reference_sample_resumes(result, tmp_path):
    """Ctrl-C during the reference sample keeps its records, and the same command resumes."""
    folder = tmp_path / "run"

    def stop(progress):
        if progress.stage == "scoring the reference sample" and progress.done == 10:
            raise KeyboardInterrupt

    stopped = search(folder, on_progress=stop)
    assert stopped.run.end_reason == "interrupted"
    assert not stopped.ranking.standings
    ending = "Stopped by Ctrl-C: what was measured is kept, and the same command resumes."
    assert ending in stopped.report().read_text()
    assert len({record.arch for record in read_store(stopped)}) >= 10
    resumed = search(folder)
    assert resumed.ranking == result.ranking
