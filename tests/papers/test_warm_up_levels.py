"""SiGeo's Table 3: weights on the way of one warm-up, and scores made of terms."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from tests.training.helpers import alone, make_layers, parse_warm_up
from untrained.errors import UsageError
from untrained.papers.measurements import MODULE_NAME
from untrained.papers.sigeo_warmup import (
    FROZEN,
    LEVELS,
    STEP,
    TERMS,
    SpaceScores,
    _make_column_lines,
)
from untrained.papers.warm_up_levels import WarmUpLevels, get_snapshot
from untrained.probe import Probe
from untrained.proxies import load_proxy

ARCH = alone.parse("width=4")


def train(share: str):
    """Return a network after a warm-up of its own."""
    model = make_layers(4)
    prepare = parse_warm_up(f"{share}(batch=16)").prepare_weights(alone, 0, "cpu")
    prepare.open(lambda: None, "cpu")(model, ARCH, 3)
    return model


@pytest.fixture
def levels():
    """A network after a warm-up of 20 % that keeps its weights at 0, 10 and 20 %."""
    candidate = parse_warm_up("20%(batch=16)").prepare_weights(alone, 0, "cpu")
    steps = {level: parse_warm_up(f"{level}%(batch=16)").steps for level in (10, 20)}
    torch.manual_seed(0)
    model = make_layers(4)
    WarmUpLevels(candidate, steps).open(lambda: None, "cpu")(model, ARCH, 3)
    return model


def test_weights_on_the_way_are_those_of_a_shorter_warm_up(levels):
    for level in (10, 20):
        torch.manual_seed(0)
        expected = train(f"{level}%").state_dict()
        snapshot = get_snapshot(levels, level)
        assert snapshot.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(snapshot[name], tensor, rtol=0, atol=0)
    assert not torch.equal(get_snapshot(levels, 10)["1.weight"], levels[1].weight)


def test_a_metric_is_measured_with_the_weights_of_its_level(levels):
    source = parse_warm_up("10%")
    batch = next(source.part.batches(16))
    probe = Probe(levels, batch)
    scores = []
    for level in (10, 20):
        torch.manual_seed(0)
        expected = load_proxy("grad_norm")(Probe(train(f"{level}%"), batch))
        score = load_proxy(f"{MODULE_NAME}:at_level(level={level},metric=grad_norm)")(probe)
        assert score == pytest.approx(expected, rel=1e-6)
        scores.append(score)
    assert scores[0] != scores[1]


def test_a_network_without_a_warm_up_has_no_levels():
    with pytest.raises(UsageError, match="no weights were kept at 10 % of the warm-up"):
        get_snapshot(make_layers(4), 10)


def make_scores(archs: int = 60) -> SpaceScores:
    rng = np.random.default_rng(0)
    zico = {level: rng.normal(size=(1, archs)) * 100 for level in LEVELS}
    terms = {}
    for level in LEVELS:
        for step in (FROZEN, STEP):
            for term in TERMS:
                terms[level, step, term] = rng.normal(size=(1, archs))
    return SpaceScores(SimpleNamespace(), zico, terms, dict.fromkeys(LEVELS, ""))


def test_sigeo_is_the_weighted_sum_of_its_terms():
    scores = make_scores()
    t = scores.terms
    # Weights 1, 1, 0 without a warm-up, and 1, 50, 1 after one (appendix E).
    zero_shot = t[0, STEP, "ratio"] + t[0, STEP, "norm"]
    assert scores.compute_sigeo(0) == pytest.approx(zero_shot)
    warm = t[40, FROZEN, "ratio"] + 50 * t[40, FROZEN, "norm"] + t[40, FROZEN, "loss"]
    assert scores.compute_sigeo(40, FROZEN) == pytest.approx(warm)
    # A term without a weight may be missing.
    t[0, STEP, "loss"][0, 0] = np.nan
    assert np.isfinite(scores.compute_sigeo(0)).all()


def test_a_column_has_both_methods_and_their_differences():
    scores = make_scores()
    accuracies = np.random.default_rng(1).normal(size=(1, 60))
    lines = {line.what: line for line in _make_column_lines("NB201-CF10", 1, scores, accuracies)}

    def rho(values):
        return spearmanr(values[0], accuracies[0]).statistic

    sigeo = scores.compute_sigeo(40)
    line = lines["NB201-CF10, sigeo, 40 %, Spearman"]
    assert (line.published, line.alternative) == (0.83, False)
    assert line.ours == pytest.approx(rho(sigeo))
    frozen = lines["NB201-CF10, sigeo frozen, 40 %, Spearman"]
    assert (frozen.published, frozen.alternative) == (0.83, True)
    assert frozen.ours == pytest.approx(rho(scores.compute_sigeo(40, FROZEN)))
    difference = lines["NB201-CF10, sigeo minus zico, 40 %, Spearman"]
    assert difference.ours == pytest.approx(rho(sigeo) - rho(scores.zico[40]))
    gain = lines["NB201-CF10, zico, 40 %, Spearman, gain over no warm-up"]
    assert gain.ours == pytest.approx(rho(scores.zico[40]) - rho(scores.zico[0]))
