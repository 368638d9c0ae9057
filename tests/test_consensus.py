"""The consensus of several proxies: percentiles, weights, missing members, and records."""

from dataclasses import replace
from math import exp, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from untrained.proxies import load_proxy
from untrained.proxies.base import list_members
from untrained.proxies.consensus import MEMBERS, MIN_REFERENCE, Consensus, PercentileScale
from untrained.runs.aggregates import compute_aggregates
from untrained.runs.reference import FittedAggregate, describe_consensus, describe_scale
from untrained.types import Arch, Failure, Record, ScoreRequest, Task

TASK = Task("noise", (3, 8, 8), 10)
finite = st.floats(-1e6, 1e6)


# -------------------------------------------------------------------------------- percentiles


def test_a_reference_score_has_its_rank_as_percentile():
    reference = [3.0, 1.0, 2.0, 2.0]
    scale = PercentileScale.fit(reference)
    ranks = rankdata(reference)
    for score, rank in zip(reference, ranks, strict=True):
        assert scale.compute_percentile(score) == pytest.approx(rank / 5)


def test_between_two_reference_scores_the_percentile_is_interpolated():
    scale = PercentileScale.fit([0.0, 10.0, 20.0])
    assert scale.compute_percentile(2.5) == pytest.approx(0.25 + 0.25 * 0.25)


@given(st.lists(finite, min_size=2, max_size=20), finite, finite)
def test_a_higher_score_never_has_a_lower_percentile(reference, first, second):
    scale = PercentileScale.fit(reference)
    low, high = sorted([first, second])
    assert 0 < scale.compute_percentile(low) <= scale.compute_percentile(high) < 1


def test_beyond_the_reference_the_percentile_still_grows():
    scale = PercentileScale.fit([1.0, 2.0, 3.0])
    percentiles = [scale.compute_percentile(score) for score in (-1e9, 0.0, 1.0, 3.0, 4.0, 1e9)]
    assert percentiles == sorted(set(percentiles))


def test_a_constant_reference_places_its_score_in_the_middle():
    scale = PercentileScale.fit([7.0, 7.0, 7.0])
    assert scale.compute_percentile(7.0) == pytest.approx(0.5)
    assert scale.compute_percentile(6.0) < 0.5 < scale.compute_percentile(8.0)


# ------------------------------------------------------------------------------------ weights


def make_reference(rng: np.random.Generator, count: int = 40) -> dict[str, np.ndarray]:
    size = rng.normal(size=count)
    return {
        "anchor": size,
        "copy": size + 0.01 * rng.normal(size=count),
        "related": size + rng.normal(size=count),
        "opposite": -size + 0.5 * rng.normal(size=count),
    }


def test_weights_follow_their_formula():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    names = list(reference)
    correlations = spearmanr(np.column_stack(list(reference.values()))).statistic
    expected = {}
    for j, name in enumerate(names):
        expected[name] = max(0.0, correlations[j, 0])
    total = sum(expected.values())
    for name, weight in consensus.weights.items():
        assert weight == pytest.approx(expected[name] / total)
    assert expected["opposite"] == 0
    assert set(consensus.weights) == {"anchor", "copy", "related"}
    assert "mean rank correlation of -0." in consensus.left_out["opposite"]


def test_two_anchors_count_equally():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor", "related"])
    names = list(reference)
    correlations = spearmanr(np.column_stack(list(reference.values()))).statistic
    expected = {}
    for j, name in enumerate(names):
        mean = (correlations[j, 0] + correlations[j, names.index("related")]) / 2
        expected[name] = max(0.0, mean)
    total = sum(expected.values())
    for name, weight in consensus.weights.items():
        assert weight == pytest.approx(expected[name] / total)
    assert "with anchor and related" in consensus.left_out["opposite"]


def test_the_other_anchor_decides_if_one_fails():
    reference = make_reference(np.random.default_rng(0))
    only_anchor = Consensus.fit(reference, ["anchor"])
    reference["failed"] = np.full(40, nan)
    both = Consensus.fit(reference, ["anchor", "failed"])
    assert both.weights == pytest.approx(dict(only_anchor.weights))


def test_a_constant_anchor_has_no_weight_and_no_say():
    """MeCo is 0 for every network without maps."""
    reference = make_reference(np.random.default_rng(0))
    only_anchor = Consensus.fit(reference, ["anchor"])
    reference["constant"] = np.zeros(40)
    both = Consensus.fit(reference, ["anchor", "constant"])
    assert both.weights == pytest.approx(dict(only_anchor.weights))
    assert both.agreement == pytest.approx(only_anchor.agreement)
    assert "constant" in both.left_out


def test_if_all_anchors_are_constant_the_members_count_equally():
    reference = make_reference(np.random.default_rng(0))
    reference["anchor"] = np.zeros(40)
    consensus = Consensus.fit(reference, ["anchor"])
    assert set(consensus.weights.values()) == {1 / len(reference)}
    networks = [
        {name: float(column[row]) for name, column in reference.items()} for row in range(40)
    ]
    assert None not in [consensus.score(network) for network in networks]


def test_a_member_that_fails_on_most_reference_networks_is_left_out():
    reference = make_reference(np.random.default_rng(0))
    reference["related"][:21] = nan
    consensus = Consensus.fit(reference, ["anchor"])
    assert consensus.left_out["related"] == "failed on 21 of 40 reference networks"
    reference["related"][20] = 0.0
    assert "related" in Consensus.fit(reference, ["anchor"]).weights


def test_a_tiny_reference_gives_equal_weights():
    reference = make_reference(np.random.default_rng(0), count=MIN_REFERENCE - 1)
    consensus = Consensus.fit(reference, ["anchor"])
    assert set(consensus.weights.values()) == {0.25}


def test_agreement_is_the_mean_correlation_of_the_members_with_a_weight():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    pairs = [("anchor", "copy"), ("anchor", "related"), ("copy", "related")]
    values = [spearmanr(reference[a], reference[b]).statistic for a, b in pairs]
    assert consensus.agreement == pytest.approx(np.mean(values))


def test_size_explains_a_ranking_of_sizes_wholly():
    size = np.random.default_rng(0).normal(size=30)
    consensus = Consensus.fit({"size": size}, ["size"], ["size"])
    assert consensus.explained_by_size == pytest.approx(1)
    assert consensus.agreement is None


# ------------------------------------------------------------------------------------- scores


def test_a_score_is_the_weighted_geometric_mean_of_percentiles():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    scores = {"anchor": 0.3, "copy": -1.0, "related": 5.0, "opposite": 1.0}
    expected = 0.0
    for name, weight in consensus.weights.items():
        expected += weight * log(
            PercentileScale.fit(reference[name]).compute_percentile(scores[name])
        )
    assert consensus.score(scores) == pytest.approx(exp(expected))


def test_the_others_share_the_weight_of_a_missing_member():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    scores = {"anchor": 0.3, "related": 0.1}
    weights = consensus.weights
    percentiles = {
        name: consensus.scales[name].compute_percentile(score) for name, score in scores.items()
    }
    expected = sum(weights[name] * log(percentiles[name]) for name in scores)
    expected /= sum(weights[name] for name in scores)
    assert consensus.score(scores) == pytest.approx(exp(expected))


def test_there_is_no_score_without_half_of_the_weight():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    assert consensus.weights["anchor"] < 0.5
    assert consensus.score({"anchor": 0.3}) is None
    assert consensus.score({}) is None


def test_without_reference_networks_there_are_no_members_and_no_scores():
    consensus = Consensus.fit({"anchor": [], "other": []}, ["anchor"])
    assert set(consensus.left_out) == {"anchor", "other"}
    assert consensus.agreement is None
    assert consensus.score({"anchor": 1.0}) is None
    resampled = consensus.resample_members([{"anchor": 1.0}, {}])
    assert resampled.shape[1] == 2
    assert np.isnan(resampled).all()


def test_drawing_all_members_once_gives_the_score():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    networks = [{"anchor": 0.3, "copy": -1.0, "related": 5.0}, {"anchor": 0.3, "related": 0.1}]
    resampled = consensus.resample_members(networks)
    rng = np.random.default_rng(0)
    draws = rng.multinomial(3, [1 / 3, 1 / 3, 1 / 3], size=len(resampled))
    every_member_once = np.all(draws == 1, axis=1)
    assert every_member_once.any()
    for column, scores in enumerate(networks):
        expected = consensus.score(scores)
        assert resampled[every_member_once, column] == pytest.approx(expected)


def test_a_draw_counts_a_member_as_often_as_it_was_drawn():
    reference = make_reference(np.random.default_rng(0))
    consensus = Consensus.fit(reference, ["anchor"])
    scores = {"anchor": 0.3, "copy": -1.0, "related": 5.0}
    names = list(consensus.weights)
    rng = np.random.default_rng(3)
    draws = rng.multinomial(3, [1 / 3, 1 / 3, 1 / 3], size=5)
    resampled = consensus.resample_members([scores, {}], seed=3)
    for row, draw in enumerate(draws):
        weighted_sum = 0.0
        weight_sum = 0.0
        for name, count in zip(names, draw, strict=True):
            weight = count * consensus.weights[name]
            weighted_sum += weight * log(consensus.scales[name].compute_percentile(scores[name]))
            weight_sum += weight
        assert resampled[row, 0] == pytest.approx(exp(weighted_sum / weight_sum))
        assert np.isnan(resampled[row, 1])


# ------------------------------------------------------------------------------------ records

consensus_proxy = load_proxy("consensus")
parts = list_members(consensus_proxy)


def make_arch(index: int) -> Arch:
    return Arch("toy", (("index", index),))


def make_records(
    index: int, value: float, failures: dict[str, Failure] | None = None, seed: int = 0
) -> list[Record]:
    """Records of all parts for one network; every part has the same value."""
    failures = failures or {}
    records = []
    for part in parts:
        request = ScoreRequest(make_arch(index), part.measure, TASK, seed, data="samples")
        records.append(Record.of(request, failures.get(part.label, value)))
    return records


def fit_reference(count: int = 20) -> FittedAggregate:
    reference = []
    for index in range(count):
        reference += make_records(index, float(index))
    return FittedAggregate.fit(consensus_proxy, reference)


def test_the_parts_are_the_members_with_their_own_samples():
    assert [part.label for part in parts] == list(MEMBERS)
    samples = {part.label: part.samples for part in parts}
    assert samples["swap"] == samples["naswot(samples=16)"] == 16
    assert samples["meco_opt"] == load_proxy("meco_opt").samples == 1


def test_a_record_holds_the_consensus_of_its_parts():
    (record,) = fit_reference().compute_records(make_records(99, 9.5))
    # All parts agree, so every percentile is the same: the middle between rank 10 and rank 11.
    assert record.value == pytest.approx(10.5 / 21)
    assert record.measure == consensus_proxy.measure


def test_the_score_of_a_network_does_not_depend_on_other_candidates():
    fitted = fit_reference()
    (alone,) = fitted.compute_records(make_records(99, 3.2))
    among_others = fitted.compute_records(make_records(98, 100.0) + make_records(99, 3.2))
    assert alone in among_others


def test_a_part_that_fails_drops_out():
    failure = Failure("unsupported", "no rule")
    records = make_records(99, 9.5, {"meco_opt": failure})
    (record,) = fit_reference().compute_records(records)
    assert record.value == pytest.approx(10.5 / 21)


@pytest.mark.parametrize("kind", ["disconnected", "oom", "timeout", "crashed"])
def test_a_dead_network_and_a_failing_machine_have_no_consensus(kind):
    failure = Failure(kind, "why")
    (record,) = fit_reference().compute_records(make_records(99, 9.5, {"swap": failure}))
    assert record.error == failure


def test_a_network_that_most_parts_cannot_score_has_no_consensus():
    failure = Failure("unsupported", "no rule")
    failures = dict.fromkeys([part.label for part in parts[2:]], failure)
    (record,) = fit_reference().compute_records(make_records(99, 9.5, failures))
    assert record.error == failure


def test_there_is_no_consensus_if_all_parts_were_left_out():
    """No part fails for the candidate, so there is no failure to repeat."""
    failure = Failure("unsupported", "no rule")
    failures = dict.fromkeys([part.label for part in parts], failure)
    reference = []
    for index in range(20):
        reference += make_records(index, 0.0, failures)
    fitted = FittedAggregate.fit(consensus_proxy, reference)
    assert not fitted.consensus.weights
    (record,) = fitted.compute_records(make_records(99, 9.5))
    assert record.error == Failure("unsupported", "no member of the consensus has a weight")


def test_the_key_names_the_reference_and_the_samples():
    fitted = fit_reference()
    other_reference = fit_reference(count=21)
    records = make_records(99, 9.5)
    (record,) = fitted.compute_records(records)
    (same,) = fit_reference().compute_records(records)
    (compared_with_others,) = other_reference.compute_records(records)
    resampled = []
    for part_record in records:
        request = replace(part_record.request, data="other samples")
        resampled.append(replace(part_record, request=request))
    (on_other_samples,) = fitted.compute_records(resampled)
    assert record.key == same.key
    assert len({record.key, compared_with_others.key, on_other_samples.key}) == 3


def test_seeds_are_combined_separately():
    records = make_records(99, 9.5, seed=0) + make_records(99, 1.0, seed=1)
    first, second = fit_reference().compute_records(records)
    assert (first.seed, second.seed) == (0, 1)
    assert first.value > second.value


def test_without_a_reference_the_candidates_are_compared_with_each_other():
    records = []
    for index in range(12):
        records += make_records(index, float(index))
    values = [record.value for record in compute_aggregates(records, consensus_proxy)]
    assert values == pytest.approx([(index + 1) / 13 for index in range(12)])


def test_the_first_candidates_are_the_reference_of_many():
    """Later candidates do not change the scores of earlier ones."""
    size = consensus_proxy.reference_size
    first_records = []
    for index in range(size):
        first_records += make_records(index, float(index))
    later_records = make_records(size, 1e6) + make_records(size + 1, -5.0)
    alone = compute_aggregates(first_records, consensus_proxy)
    together = compute_aggregates(first_records + later_records, consensus_proxy)
    assert together[:size] == alone
    highest, lowest = together[size:]
    values = [record.value for record in alone]
    assert highest.value > max(values)
    assert lowest.value < min(values)


def test_the_description_says_how_far_members_agree():
    facts = {
        "label": "consensus",
        "reference_size": 64,
        "weights": {"flops": 0.6, "swap": 0.4},
        "left_out": {"meco_opt": "failed on 40 of 64 reference networks"},
        "agreement": 0.714,
        "explained_by_size": 0.832,
    }
    # NAS-Bench-101, TransNAS-Bench-101, the chains and the table convnet have 0.76, 0.75, 0.69
    # and 0.69.
    assert describe_consensus(facts) == (
        "2 of the 3 proxies of consensus have a mean rank correlation of 0.71 with each other. "
        "The size of the networks explains 83 % of the combined ranking. "
        "On benchmarks with a similar agreement (NAS-Bench-101, TransNAS-Bench-101, chains of "
        "residual blocks and the table convnet), the consensus has a rank correlation with accuracy "
        "of 0.61 to 0.82; FLOPs alone have 0.53 to 0.77. "
        "meco_opt is left out: it failed on 40 of 64 reference networks."
    )
    complete = describe_consensus({**facts, "left_out": {}})
    assert complete.startswith("The 2 proxies of consensus have a mean rank correlation of 0.71 ")
    disagreeing = describe_consensus({**facts, "agreement": 0.2})
    assert "check the ranking with --confirm" in disagreeing
    assert (
        "None of the 9 benchmarks has a similar agreement; theirs range from 0.41 to 0.89."
        in disagreeing
    )
    one_similar = describe_consensus({**facts, "agreement": 0.36})
    assert (
        "(Accel-NASBench), the consensus has a rank correlation with accuracy of 0.80; FLOPs alone have 0.64."
        in one_similar
    )
    own_networks = describe_consensus(facts, is_sample_of_space=False)
    assert "similar agreement" not in own_networks
    assert "similar agreement" not in describe_consensus({**facts, "label": "mine"})
    other_advice = describe_consensus({**facts, "agreement": 0.2}, "train two")
    assert "which is low: train two." in other_advice
    few_own_networks = describe_consensus({**facts, "reference_size": 12}, is_sample_of_space=False)
    assert "mean rank correlation of 0.71" in few_own_networks
    alone = {**facts, "agreement": None, "explained_by_size": None, "left_out": {}}
    assert describe_consensus(alone) == ""


def test_the_scale_of_the_scores_is_described():
    assert describe_scale({"label": "consensus", "reference_size": 64}) == (
        "A score of consensus is a geometric mean of percentiles among the 64 random reference "
        "networks, one percentile per proxy: an average network has about 0.5. If the available "
        "training time or a latency limit allows only small networks, all candidates can score "
        "below 0.5."
    )


@pytest.mark.parametrize(
    ("count", "start"),
    [(1, "1 reference network is"), (31, "31 reference networks are"), (32, None)],
)
def test_few_reference_networks_do_not_show_how_far_members_agree(count, start):
    facts = {
        "label": "consensus",
        "reference_size": count,
        "weights": {"flops": 0.5, "swap": 0.5},
        "left_out": {},
        "agreement": 0.0,
        "explained_by_size": 0.9,
    }
    text = describe_consensus(facts)
    if start is None:
        assert "mean rank correlation of 0.00" in text
        assert "too few" not in text
    else:
        assert text == f"{start} too few to tell how far the 2 proxies of consensus agree."
        text = describe_consensus({**facts, "left_out": {"meco_opt": "failed"}})
        assert text.startswith(
            f"{start} too few to tell how far 2 of the 3 proxies of consensus agree. meco_opt is "
        )
