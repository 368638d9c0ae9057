"""HNAS: the Gaussian process against scikit-learn's, Algorithm 1 on toy scores; best_of_pool."""

from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel

from tests.records import make_record
from tests.strategies.toys import (
    TASK,
    get_best,
    make_toy_record,
    read_fitness,
    run_toy_search,
    sum_choices,
    ten,
    twelve,
)
from untrained.errors import UsageError
from untrained.proxies.hnas import bound
from untrained.strategies.bayes import (
    ACQUISITIONS,
    LENGTHS,
    NOISES,
    fit_gaussian_process,
    suggest_point,
)
from untrained.strategies.best_of_pool import BestOfPool
from untrained.strategies.hnas import HNAS, PRESETS
from untrained.strategies.random import RandomSearch
from untrained.types import Arch, Failure


def make_rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------ Gaussian process


def test_the_gaussian_process_equals_that_of_scikit_learn():
    X = make_rng(0).random((12, 2))
    Z = make_rng(1).random((30, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 70
    ours = fit_gaussian_process(X, y)
    kernel = ours.scale**2 * Matern(ours.length, nu=2.5) + WhiteKernel(ours.scale**2 * ours.noise)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-15, normalize_y=True).fit(
        X, y
    )
    mean, std = theirs.predict(Z, return_std=True)
    np.testing.assert_allclose(ours.predict(Z)[0], mean, rtol=1e-5)
    np.testing.assert_allclose(ours.predict(Z)[1], std, rtol=1e-3)
    grid = [GaussianProcessRegressor(Matern(length, nu=2.5) + WhiteKernel(noise), optimizer=None, alpha=1e-15) for
            length in LENGTHS for noise in NOISES]  # fmt: skip
    standard = (y - y.mean()) / y.std()
    for process in grid:  # none has a larger likelihood, whatever its variance
        process.fit(X, standard)
        assert (
            compute_likelihood(X, standard, ours.length, ours.noise)
            >= compute_profile_likelihood(process, X, standard) - 1e-6
        )


def compute_profile_likelihood(process, X, y) -> float:
    """Return the likelihood of a fitted process at its best variance, from scikit-learn's L_."""
    L = process.L_
    variance = y @ np.linalg.solve(L @ L.T, y) / len(y)
    return float(-0.5 * (len(y) * np.log(variance) + 2 * np.log(np.diag(L)).sum()))


def compute_likelihood(X, y, length: float, noise: float) -> float:
    kernel = Matern(length, nu=2.5) + WhiteKernel(noise)
    return compute_profile_likelihood(
        GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-15).fit(X, y), X, y
    )


def test_acquisitions_equal_those_computed_by_hand():
    mean = np.array([1.0, 2.0])
    std = np.array([0.5, 2.0])
    top = 1.5

    def below(z: float) -> float:
        return (1 + erf(z / sqrt(2))) / 2

    for i, (m, s) in enumerate(zip(mean, std, strict=True)):
        z = (m - top) / s
        improvement = (m - top) * below(z) + s * exp(-z * z / 2) / sqrt(2 * pi)
        assert ACQUISITIONS["ei"](mean, std, top)[i] == pytest.approx(improvement)
        assert ACQUISITIONS["poi"](mean, std, top)[i] == pytest.approx(below(z))
        assert ACQUISITIONS["ucb"](mean, std, top)[i] == pytest.approx(m + 2.576 * s)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_bayesian_optimisation_finds_a_maximum(acquisition):
    """Maximise -|x - (0.3, 0.7)|^2 from the four corners; 20 random points come less close."""
    top = np.array([0.3, 0.7])
    for seed in range(3):
        X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        for _ in range(16):
            y = -((X - top) ** 2).sum(1)
            X = np.vstack([X, suggest_point(X, y, acquisition, make_rng(seed + len(X)))])
        assert np.linalg.norm(X - top, axis=1).min() < 0.08
    # All values are equal.
    assert np.isfinite(suggest_point(X, np.ones(len(X)), acquisition, make_rng())).all()


# ----------------------------------------------------------------------------------- Algorithm 1


def metric(arch: Arch) -> float:
    """Return M, from 1 to 31."""
    return 1 + sum_choices(arch)


def kappa(arch: Arch) -> float:
    return 2.0 + int(arch["c0"])


def score_pool(archs):
    for arch in archs:
        yield [
            make_toy_record(arch, metric(arch), "trace@1"),
            make_toy_record(arch, kappa(arch), "ntk_condition@1"),
        ]


def accuracy(arch: Arch) -> float:
    """Return an accuracy that is best for M^2 = 400, M = 20, and slightly better for large c9."""
    return 90 - abs(metric(arch) ** 2 - 400) / 20 + int(arch["c9"]) / 10


def test_hnas_finds_the_region_of_the_best_nu():
    """With a large mu, the bound is lowest for the M^2 closest to nu, so nu = 400 is best."""
    for seed in range(5):
        strategy = HNAS(
            ten,
            make_rng(seed),
            read_fitness,
            score_pool=score_pool,
            pool=500,
            pool_growth=100,
        )
        scores = run_toy_search(strategy, accuracy, 100)
        assert len(scores) == 20
        top = max(strategy.trace, key=lambda query: query.value)
        assert abs(metric(top.arch) ** 2 - 400) <= 41, "M is 19, 20 or 21, of 1 to 31"
        later = [query.nu for query in strategy.trace[5:]]
        assert abs(np.median(later) - 400) < 100, (
            "the median of M^2 in the pool, 256, is further away"
        )


def test_with_a_scale_hnas_finds_the_best_itself():
    """nu up to 700, mu from 10^-4 to 1: both are plain numbers that do not depend on the pool."""
    for seed in range(5):
        strategy = HNAS(
            ten,
            make_rng(seed),
            read_fitness,
            score_pool=score_pool,
            pool=500,
            pool_growth=100,
            max_nu=700.0,
            min_log_mu=-4.0,
            max_log_mu=0.0,
        )
        run_toy_search(strategy, accuracy, 100)
        top = max(strategy.trace, key=lambda query: query.value)
        assert top.value >= 89.9
        assert abs(metric(top.arch) ** 2 - 400) <= 40
        later = [query for query in strategy.trace[5:] if query.mu > 1e-3]
        assert np.median([abs(query.nu - 400) for query in later]) < 0.15 * 700


def test_a_query_minimises_the_bound_among_new_architectures():
    strategy = HNAS(
        ten, make_rng(), read_fitness, score_pool=score_pool, pool=50, pool_growth=10, steps=8
    )
    proposed: list[Arch] = []
    while archs := strategy.ask(5):
        (arch,) = archs
        assert strategy.ask(5) == []  # one at a time
        strategy.tell([make_toy_record(arch, accuracy(arch))])
        query = strategy.trace[-1]
        candidates = [other for other in strategy.pool if other not in proposed]
        values = {
            other: kappa(other) / metric(other) + query.mu * abs(metric(other) ** 2 - query.nu)
            for other in candidates
        }
        assert values[arch] == pytest.approx(min(values.values()))
        assert len(strategy.pool) == 50 + 10 * len(proposed)
        proposed.append(arch)
    assert len(proposed) == 8


def test_the_first_quarter_tries_evenly_spaced_nu_at_the_middle_of_mu():
    strategy = HNAS(
        ten,
        make_rng(),
        read_fitness,
        score_pool=score_pool,
        pool=50,
        pool_growth=0,
        steps=20,
        preset="nasbench201",
    )
    run_toy_search(strategy, accuracy, 100)
    first = strategy.trace[:5]
    assert [query.nu for query in first] == pytest.approx([0, 1250, 2500, 3750, 5000])
    assert [query.mu for query in first] == pytest.approx([1e-2] * 5)
    rest = strategy.trace[5:]
    assert len({query.mu for query in rest}) == 15
    assert all(1e-4 <= query.mu <= 1 and 0 <= query.nu <= 5000 for query in rest)


def test_the_published_formula():
    M = np.array([2.0, 5.0])
    k = np.array([10.0, 20.0])
    assert bound(M, k, 0.1, 3.0, "published") == pytest.approx(
        [10 / (2 + 1e-6) + 0.1 * 5, 20 / (5 + 1e-6) + 0.1 * 16]
    )
    assert bound(M, k, 0.1, 3.0) == pytest.approx([5 + 0.1 * 1, 4 + 0.1 * 22])
    assert bound(M, k, 0.1, 3.0, "square") == pytest.approx([5 + 0.1 * 1, 4 + 0.1 * 484])
    plan = PRESETS["nasbench201"]
    assert (plan.max_nu, plan.min_log_mu, plan.max_log_mu, plan.variant) == (
        5000,
        -4,
        0,
        "published",
    )
    plan = PRESETS["darts"]
    assert (plan.steps, plan.initial_steps, plan.pool, plan.pool_growth, plan.acquisition) == (
        25,
        6,
        60_000,
        0,
        "ucb",
    )
    assert (plan.max_nu, plan.min_log_mu, plan.max_log_mu, plan.variant) == (
        100,
        -4,
        1,
        "published",
    )


@pytest.mark.parametrize("variant", ["default", "square", "published"])
def test_without_a_scale_nu_is_a_quantile_and_mu_balances_both_terms(variant):
    """The first steps are at quantiles 0, 0.25, ... of M^2 and in the middle of 10^-2 to 10, so the
    second term is 10^-0.5 times the first, in the median."""
    strategy = HNAS(
        ten,
        make_rng(),
        read_fitness,
        score_pool=score_pool,
        pool=300,
        pool_growth=0,
        variant=variant,
    )
    run_toy_search(strategy, accuracy, 5)
    squares = sorted(M**2 for M, _ in strategy.pool.values())
    for step, query in enumerate(strategy.trace):
        nu = query.nu**2 if variant == "published" else query.nu
        below = sum(square < nu - 1e-9 for square in squares)
        assert below <= 299 * step / 4 <= sum(square <= nu + 1e-9 for square in squares)
        first = np.median([kappa(arch) / metric(arch) for arch in strategy.pool])
        power = 2 if variant == "square" else 1
        distances = [abs(metric(arch) ** 2 - nu) ** power for arch in strategy.pool]
        second = query.mu * np.median(distances)
        assert second == pytest.approx(10**-0.5 * first)


def test_the_units_of_the_metric_do_not_matter():
    """M times a million and kappa over a thousand: the same architectures in the same order."""

    def score_rescaled(archs):
        for arch in archs:
            yield [
                make_toy_record(arch, 1e6 * metric(arch), "trace@1"),
                make_toy_record(arch, 1e-3 * kappa(arch), "ntk_condition@1"),
            ]

    scores = [
        run_toy_search(
            HNAS(ten, make_rng(), read_fitness, score_pool=each, pool=200, pool_growth=20),
            accuracy,
            20,
        )
        for each in (score_pool, score_rescaled)
    ]
    assert list(scores[0]) == list(scores[1])


def test_a_pool_with_equal_metrics_still_has_a_result():
    def score_equally(archs):
        return (
            [
                make_toy_record(arch, 3.0, "trace@1"),
                make_toy_record(arch, kappa(arch), "ntk_condition@1"),
            ]
            for arch in archs
        )

    strategy = HNAS(
        ten, make_rng(), read_fitness, score_pool=score_equally, pool=50, pool_growth=0, steps=4
    )
    scores = run_toy_search(strategy, accuracy, 4)
    assert sorted(kappa(arch) for arch in strategy.pool)[:4] == [kappa(arch) for arch in scores]


def test_failures_are_not_in_the_pool_and_failed_queries_are_not_fitted():
    def fail_some(archs):
        for arch in archs:
            failed = make_record(arch, "ntk_condition@1", TASK, 0, error=Failure("singular"))
            yield [make_toy_record(arch, metric(arch), "trace@1"),
                   failed if int(arch["c1"]) == 3 else make_toy_record(arch, 2.0, "ntk_condition@1")]  # fmt: skip

    strategy = HNAS(
        ten, make_rng(), read_fitness, score_pool=fail_some, pool=100, pool_growth=0, steps=10
    )
    run_toy_search(strategy, lambda arch: None if int(arch["c2"]) < 2 else accuracy(arch), 100)
    assert 50 < len(strategy.pool) < 100
    assert all(int(arch["c1"]) != 3 for arch in strategy.pool)
    assert {query.value is None for query in strategy.trace} == {True, False}
    all_failed = HNAS(
        ten, make_rng(), read_fitness, score_pool=score_pool, pool=30, pool_growth=0, steps=10
    )
    assert len(run_toy_search(all_failed, lambda arch: None, 100)) == 10
    assert all_failed.predict_grid() is None


def test_pool_scores_are_averaged_over_seeds():
    def score_two_seeds(archs):
        for arch in archs:
            yield [
                make_record(arch, m, TASK, s, v + s)
                for m, v in (("trace@1", 5.0), ("ntk_condition@1", 7.0))
                for s in (0, 1)
            ]

    strategy = HNAS(ten, make_rng(), read_fitness, score_pool=score_two_seeds, pool=3, steps=1)
    strategy.ask(1)
    assert set(strategy.pool.values()) == {(5.5, 7.5)}


def test_the_predicted_grid_is_plain_data():
    strategy = HNAS(ten, make_rng(), read_fitness, score_pool=score_pool, pool=300, pool_growth=0)
    run_toy_search(strategy, accuracy, 100)
    prediction = strategy.predict_grid(side=11)
    assert len(prediction.points) == len(prediction.mean) == len(prediction.std) == 121
    quantile, _ = prediction.points[int(np.argmax(prediction.mean))]
    assert abs(quantile - np.mean([M**2 <= 400 for M, _ in strategy.pool.values()])) < 0.2
    assert min(prediction.std) > 0


def test_wrong_options_are_refused():
    for options, message in (
        ({"preset": "nasbench"}, "did you mean nasbench201"),
        ({"acquisition": "thompson"}, "ei, poi, ucb"),
        ({"step": 3}, "did you mean steps"),
        ({"steps": 0}, "must be at least 1"),
        ({"variant": "publish"}, "did you mean published"),
    ):
        with pytest.raises(UsageError, match=message):
            HNAS(ten, make_rng(), read_fitness, score_pool=score_pool, **options)
    with pytest.raises(
        UsageError, match="a pool that is scored with grad; it was scored with trace, ntk_condition"
    ):
        HNAS(ten, make_rng(), read_fitness, score_pool=score_pool, metric="grad").ask(1)


# ---------------------------------------------------------------------------------- best_of_pool


def test_best_of_pool_proposes_the_top_of_a_pool_best_first():
    scored_archs = []

    def score(archs):
        scored_archs.extend(archs)
        return (
            [make_toy_record(arch, None if sum_choices(arch) == 20 else sum_choices(arch))]
            for arch in archs
        )

    strategy = BestOfPool(
        ten, make_rng(), score_pool=score, pool_fitness=read_fitness, pool=200, top=7
    )
    proposed = [*strategy.ask(3), *strategy.ask(100)]
    assert strategy.ask(1) == []
    assert len(set(scored_archs)) == 200
    usable = [arch for arch in scored_archs if sum_choices(arch) != 20]
    assert [sum_choices(arch) for arch in proposed] == sorted(
        map(sum_choices, usable), reverse=True
    )[:7]
    assert scored_archs == RandomSearch(ten, make_rng()).ask(200)
    assert list(strategy.pool)[:7] == proposed


def test_best_of_pool_by_a_noisy_proxy_beats_random_queries():
    noise = {}

    def score_noisily(archs):
        for arch in archs:
            yield [
                make_toy_record(
                    arch,
                    sum_choices(arch) + 3 * noise.setdefault(arch, make_rng(len(noise)).normal()),
                )
            ]

    for seed in range(5):
        strategy = BestOfPool(
            ten, make_rng(seed), score_pool=score_noisily, pool_fitness=read_fitness
        )
        assert get_best(run_toy_search(strategy, sum_choices, 20)) > get_best(
            run_toy_search(RandomSearch(ten, make_rng(seed)), sum_choices, 20)
        )


def test_best_of_pool_of_a_small_space_and_of_failures():
    whole_space = BestOfPool(
        twelve,
        make_rng(),
        score_pool=lambda archs: ([make_toy_record(a, 1.0)] for a in archs),
        pool_fitness=read_fitness,
        pool=50,
        top=20,
    )
    assert len(whole_space.ask(99)) == 12
    failures = BestOfPool(
        twelve,
        make_rng(),
        score_pool=lambda archs: ([make_toy_record(a, None)] for a in archs),
        pool_fitness=read_fitness,
    )
    assert failures.ask(5) == []
    with pytest.raises(UsageError, match="top must be from 1 to 10"):
        BestOfPool(twelve, make_rng(), score_pool=score_pool, pool_fitness=read_fitness, pool=10)
