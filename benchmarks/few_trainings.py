"""How good is the best of 500 candidates after 0, 5, 10, 20 and 40 short trainings?

    untrained data import nasbench201 PATH
    python benchmarks/few_trainings.py --out docs/results/few-trainings

It needs the tables nasbench201, nasbench101, nasbench301, darts1000, transnas and accel_nasbench.
The scores are those of docs/results/data/scores. Every repetition draws a pool of
candidates (500, or two thirds of a smaller family), and every method decides which of them are trained
briefly and which one it takes at the end. The figure of a method is the regret: the final
accuracy of the best candidate of the pool minus that of the one that was taken.

A short training is the validation accuracy after 12 epochs where the table has it (NAS-Bench-201, whose
final accuracy is the test accuracy after 200). The other tables have no short trainings. There the
order of the final accuracies is disturbed by Gaussian noise on normal scores, such that the rank
correlation of short and final accuracy is the one of NAS-Bench-201, or `--agreement`. A training of a
share s of that length, for successive halving, has 1/s times the variance of the noise. That is an
assumption.

The script prints tables, and writes OUT.json (all figures) and OUT.svg (the mean over the families).
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10, pi, sin, sqrt
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import norm, rankdata, spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV

from untrained.benchmarks import open_table
from untrained.proxies.consensus import (
    ANCHORS,
    MEMBERS,
    REFERENCE_SIZE,
    Consensus,
    PercentileScale,
)
from untrained.proxies.hnas import bound, choose_mu_and_nu
from untrained.strategies.bayes import suggest_point
from untrained.strategies.hnas import KAPPA, HNASPlan

Floats = NDArray[np.float64]
SCORES = Path(__file__).parent.parent / "docs" / "results" / "data" / "scores"
BUDGETS = (0, 5, 10, 20, 40)
BATCH = 5  # trainings between two fits of a surrogate
POOL = 500
# Benchmark, and the names of final and short accuracies; None if the table has no short training.
FAMILIES: dict[str, tuple[str, tuple[tuple[str, str | None], ...]]] = {
    "nb201": (
        "nasbench201",
        (
            ("cifar10_test_200", "cifar10_val_12"),
            ("cifar100_test_200", "cifar100_val_12"),
            ("ImageNet16-120_test_200", "ImageNet16-120_val_12"),
        ),
    ),
    "nb101": ("nasbench101", (("cifar10_test_108", None),)),
    "nb301": ("nasbench301", (("cifar10_val", None),)),
    "darts": ("darts1000", (("cifar10_val_200", None),)),
    "transnas": (
        "transnas",
        (("class_scene_val", None), ("class_object_val", None), ("jigsaw_val", None)),
    ),
    "accel": ("accel_nasbench", (("imagenet_val", None),)),
}
HNAS = HNASPlan()
# What HNAS reads. It is left out on families without these scores.
HNAS_PROXIES = (f"{HNAS.metric}(samples=16)", f"{KAPPA}(samples=16)")


# ----------------------------------------------------------------------------------- candidates


@dataclass(frozen=True)
class Family:
    """Networks of one benchmark that all members can score.

    Attributes:
        scores: One row per network, one column per proxy.
        final: Final accuracies in % by metric.
        short: Accuracies after a short training by metric, where the table has them.
    """

    scores: pd.DataFrame
    final: Mapping[str, Floats]
    short: Mapping[str, Floats]

    @classmethod
    def read(cls, name: str, folder: Path, data_root: Path | None) -> "Family":
        rows = pd.read_parquet(folder / f"{name}.parquet")
        matrix = rows[rows["value"].notna()].pivot_table(
            index="arch", columns="proxy", values="value"
        )
        matrix = matrix.reindex(columns=[*MEMBERS, "dextr", *HNAS_PROXIES])
        matrix = matrix.dropna(subset=[*MEMBERS, "dextr"])
        benchmark, metrics = FAMILIES[name]
        table = open_table(benchmark, data_root)
        archs = list(matrix.index)
        final = {}
        short = {}
        for final_name, short_name in metrics:
            final[final_name] = table.read_values(archs, table.find_metric(final_name))
            if short_name is not None:
                short[final_name] = table.read_values(archs, table.find_metric(short_name))
        return cls(matrix, final, short)


@dataclass(frozen=True)
class Pool:
    """The candidates of one repetition, with the accuracies of one metric.

    Attributes:
        scores: Scores by proxy, `consensus` included; higher is better, except for the condition
            number of HNAS.
        percentiles: Logarithms of the percentiles, one column per member.
        weights: Weights of the members in `consensus`.
        features: What a surrogate sees: percentiles, log sizes and `consensus`, standardised.
        final: Final accuracies.
        short: Accuracies after a short training.
        noise: Standard deviation of the noise of a short training on normal scores.
    """

    scores: Mapping[str, Floats]
    percentiles: Floats
    weights: Floats
    features: Floats
    final: Floats
    short: Floats
    noise: float

    @property
    def has_kernels(self) -> bool:
        """Whether the tangent kernel was measured, which HNAS needs."""
        return all(bool(np.isfinite(self.scores[proxy]).any()) for proxy in HNAS_PROXIES)

    def order(self, proxy: str) -> NDArray[np.int64]:
        """Return the candidates by a proxy, best first."""
        return np.argsort(-self.scores[proxy], kind="stable")

    def find_best_trained(self, trained: Sequence[int] | NDArray[np.int64]) -> int:
        """Return the trained candidate with the best short training."""
        indices = np.asarray(trained)
        return int(indices[np.argmax(self.short[indices])])


def disturb_order(values: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Return the same values in an order that is disturbed by Gaussian noise on normal scores."""
    normal_scores = ndtri(rankdata(values) / (len(values) + 1))
    disturbed = normal_scores + noise * rng.normal(size=len(values))
    places = np.argsort(np.argsort(disturbed))
    return np.asarray(np.sort(values)[places], dtype=np.float64)


def convert_agreement_to_noise(spearman: float) -> float:
    """Return the noise on normal scores that gives a rank correlation with the undisturbed ones.

    For two normal variables with the correlation r, Spearman's is 6/pi asin(r/2).
    """
    r = 2 * sin(pi * spearman / 6)
    return sqrt(1 - r * r) / r


def standardise(columns: Floats) -> Floats:
    spread = columns.std(axis=0)
    spread[spread == 0] = 1
    return np.asarray((columns - columns.mean(axis=0)) / spread, dtype=np.float64)


def draw_pools(family: Family, noise: float, rng: np.random.Generator) -> dict[str, Pool]:
    """Draw candidates, and return a pool for every metric of the family."""
    count = min(POOL, len(family.scores) * 2 // 3)
    indices = rng.choice(len(family.scores), count, replace=False)
    frame = family.scores.iloc[indices]
    reference = rng.choice(count, REFERENCE_SIZE, replace=False)
    reference_scores = {member: frame[member].to_numpy()[reference] for member in MEMBERS}
    weights_by_member = Consensus.fit(reference_scores, ANCHORS).weights
    weights = np.array([weights_by_member.get(member, 0.0) for member in MEMBERS])
    columns = []
    for member in MEMBERS:
        scale = PercentileScale.fit(reference_scores[member])
        percentiles = [scale.compute_percentile(score) for score in frame[member]]
        columns.append(np.log(percentiles))
    log_percentiles = np.column_stack(columns)
    consensus = log_percentiles @ weights
    scores = {str(name): frame[name].to_numpy() for name in frame}
    scores["consensus"] = consensus
    sizes = np.log(frame[["flops", "params"]].to_numpy())
    features = standardise(np.column_stack([log_percentiles, sizes, consensus]))
    pools = {}
    for metric, final in family.final.items():
        if metric in family.short:
            short = family.short[metric][indices]
        else:
            short = disturb_order(final[indices], noise, rng)
        pools[metric] = Pool(
            scores, log_percentiles, weights, features, final[indices], short, noise
        )
    return pools


# -------------------------------------------------------------------------------------- methods
# A method returns the candidate that it takes, by number of short trainings.

Method = Callable[[Pool, np.random.Generator], dict[int, int]]


def train_top(proxy: str) -> Method:
    """Train the best by a proxy, and take the one with the best short training."""

    def run(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
        order = pool.order(proxy)
        choices = {0: int(order[0])}
        for budget in BUDGETS[1:]:
            choices[budget] = pool.find_best_trained(order[:budget])
        return choices

    return run


def search_at_random(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    order = rng.permutation(len(pool.final))
    choices = {0: int(order[0])}
    for budget in BUDGETS[1:]:
        choices[budget] = pool.find_best_trained(order[:budget])
    return choices


def take_turns(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    """Train the best by consensus, then the best by each member in turn."""
    orders = [list(pool.order("consensus"))]
    for member in MEMBERS:
        orders.append(list(pool.order(member)))
    trained: list[int] = []
    while len(trained) < BUDGETS[-1]:
        for order in orders:
            remaining = [index for index in order if index not in trained]
            trained.append(int(remaining[0]))
    choices = {0: trained[0]}
    for budget in BUDGETS[1:]:
        choices[budget] = pool.find_best_trained(trained[:budget])
    return choices


def calibrate_first(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    """Choose a proxy by short trainings, as `untrained calibrate` does, and train its best.

    Half of the trainings are spread over the sizes. The other half are the best by the member of
    consensus, or consensus itself, with the highest rank correlation on them.
    """
    by_size = pool.order("params")
    choices = {0: int(pool.order("consensus")[0])}
    for budget in BUDGETS[1:]:
        places = np.linspace(0, len(by_size) - 1, budget // 2).round().astype(int)
        trained = [int(index) for index in by_size[places]]
        correlations = {}
        for proxy in ("consensus", *MEMBERS):
            ranks = rankdata(pool.scores[proxy][trained])
            correlation = float(np.corrcoef(ranks, rankdata(pool.short[trained]))[0, 1])
            correlations[proxy] = correlation
        # The first of equal ones is taken, so consensus comes before its members.
        best_proxy = max(correlations, key=lambda proxy: correlations[proxy])
        for index in pool.order(best_proxy):
            if len(trained) < budget and int(index) not in trained:
                trained.append(int(index))
        choices[budget] = pool.find_best_trained(trained)
    return choices


def halve_successively(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    """Train the best by consensus for a quarter, a half and the whole of a short training.

    Each of the three rounds gets a third of the budget, and the better half goes on.
    """
    order = pool.order("consensus")
    choices = {0: int(order[0])}
    for budget in BUDGETS[1:]:
        survivors = np.asarray(order[: round(4 * budget / 3)])
        for share in (0.25, 0.5):
            # The noise of the short training is already in its result, whose normal scores have the
            # variance 1 instead of 1 + noise^2.
            extra_noise = pool.noise * sqrt(1 / share - 1) / sqrt(1 + pool.noise**2)
            outcomes = disturb_order(pool.short, extra_noise, rng)[survivors]
            best_first = np.argsort(-outcomes, kind="stable")
            survivors = survivors[best_first[: max(1, len(survivors) // 2)]]
        choices[budget] = pool.find_best_trained(survivors)
    return choices


def search_by_hnas(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    """HNAS: Bayesian optimisation of the two weights of its bound, with a short training per step.

    Without a training, the candidate with the lowest bound without its second term is taken. This is
    the strategy `hnas` of the package with its own ranges, and a pool that does not grow.
    """
    M, kappa = (pool.scores[proxy] for proxy in HNAS_PROXIES)

    def order(mu: float, nu: float) -> NDArray[np.int64]:
        bounds = np.nan_to_num(bound(M, kappa, mu, nu), nan=np.inf)
        return np.argsort(bounds, kind="stable")

    choices = {0: int(order(0, 0)[0])}
    for budget in BUDGETS[1:]:
        initial_steps = max(budget // 4, 1)
        trained: list[int] = []
        points: list[Floats] = []
        for step in range(budget):
            if step < initial_steps:
                point = np.array([np.linspace(0, 1, initial_steps)[step], 0.5])
            else:
                point = suggest_point(
                    np.array(points), pool.short[trained], HNAS.acquisition, rng, candidates=500
                )
            log_share = HNAS.min_log_mu + point[1] * (HNAS.max_log_mu - HNAS.min_log_mu)
            mu, nu = choose_mu_and_nu(M, kappa, 10**log_share, float(point[0]))
            trained.append(next(int(i) for i in order(mu, nu) if i not in trained))
            points.append(point)
        choices[budget] = pool.find_best_trained(trained)
    return choices


def optimise_weights(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
    """Bayesian optimisation over the weights of the members, as RoBoT does, then a greedy search.

    The value of some weights is the short training of the network that they rank first. Half of the
    budget is for the weights; the other half trains the next best by the best weights.
    """
    choices = {0: int(pool.order("consensus")[0])}
    for budget in BUDGETS[1:]:
        trained: list[int] = []
        tried = [pool.weights / pool.weights.sum()]
        values: list[float] = []
        # Weights whose first network is trained already cost nothing, so tries are limited too.
        while len(trained) < budget / 2 and len(values) < 3 * budget:
            first = int(np.argmax(pool.percentiles @ tried[-1]))
            if first not in trained:
                trained.append(first)
            values.append(float(pool.short[first]))
            candidates = rng.dirichlet(np.ones(len(MEMBERS)), size=100)
            tried.append(propose_by_gaussian_process(np.array(tried), np.array(values), candidates))
        best_weights = tried[int(np.argmax(values))]
        for index in np.argsort(-(pool.percentiles @ best_weights), kind="stable"):
            if len(trained) >= budget:
                break
            if int(index) not in trained:
                trained.append(int(index))
        choices[budget] = pool.find_best_trained(trained)
    return choices


def propose_by_gaussian_process(X: Floats, y: Floats, candidates: Floats) -> Floats:
    """Return the candidate with the highest expected improvement.

    The kernel is exp(-|x - x'|^2 / (2 * 0.3^2)), the noise has a tenth of the variance.
    """
    spread = y.std()
    if spread == 0:
        return np.asarray(candidates[0], dtype=np.float64)
    targets = (y - y.mean()) / spread

    def compute_kernel(A: Floats, B: Floats) -> Floats:
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)[None, :]
        distances = squares - 2 * A @ B.T
        return np.asarray(np.exp(-distances / (2 * 0.3**2)), dtype=np.float64)

    K = compute_kernel(X, X) + 0.1 * np.eye(len(X))
    k = compute_kernel(candidates, X)
    inverse = np.linalg.inv(K)
    mean = k @ (inverse @ targets)
    variance = 1 - ((k @ inverse) * k).sum(axis=1)
    deviation = np.sqrt(np.maximum(variance, 1e-9))
    z = (mean - targets.max()) / deviation
    improvement = deviation * (z * norm.cdf(z) + norm.pdf(z))
    return np.asarray(candidates[int(np.argmax(improvement))], dtype=np.float64)


Predictor = Callable[[Pool, Sequence[int]], Floats]


def predict_by_ridge(pool: Pool, trained: Sequence[int]) -> Floats:
    """Ridge regression; its strength is chosen by leave-one-out cross-validation."""
    model = RidgeCV(alphas=np.logspace(-1, 4, 11))
    model.fit(pool.features[trained], pool.short[trained])
    return np.asarray(model.predict(pool.features), dtype=np.float64)


def predict_by_forest(pool: Pool, trained: Sequence[int]) -> Floats:
    model = RandomForestRegressor(20, min_samples_leaf=2, random_state=0)
    model.fit(pool.features[trained], pool.short[trained])
    return np.asarray(model.predict(pool.features), dtype=np.float64)


def predict_around_consensus(pool: Pool, trained: Sequence[int]) -> Floats:
    """Ridge regression of what consensus does not explain, so that strong shrinking leaves it.

    Targets are normal scores of the short trainings, and consensus explains 0.7 of them. The strength
    is chosen by leave-one-out cross-validation.
    """
    others = pool.features[:, :-1]
    consensus = pool.features[:, -1]
    indices = np.asarray(trained)
    targets = ndtri(rankdata(pool.short[indices]) / (len(indices) + 1))
    centred = consensus[indices] - consensus[indices].mean()
    residuals = targets - 0.7 * centred
    best_error = np.inf
    correction = np.zeros(len(consensus))
    for strength in np.logspace(0, 4, 9):
        K = others[indices] @ others[indices].T / strength
        regularised = K + np.eye(len(indices))
        H = K @ np.linalg.inv(regularised)
        errors = (residuals - H @ residuals) / (1 - np.diag(H))
        error = float(np.mean(errors**2))
        if error < best_error:
            best_error = error
            dual = np.linalg.solve(regularised, residuals)
            correction = others @ others[indices].T @ dual / strength
    return np.asarray(0.7 * consensus + correction, dtype=np.float64)


def train_by_surrogate(predict: Predictor, spread_first: bool = False) -> Method:
    """Train five, fit a surrogate, train the five others that it predicts to be best, and so on.

    Args:
        predict: Fits the surrogate and predicts all candidates.
        spread_first: Whether the first five are spread over the better half by consensus, instead
            of its best five.
    """

    def run(pool: Pool, rng: np.random.Generator) -> dict[int, int]:
        order = pool.order("consensus")
        choices = {0: int(order[0])}
        if spread_first:
            places = np.linspace(0, len(order) // 2, BATCH).round().astype(int)
            trained = [int(order[place]) for place in places]
        else:
            trained = [int(index) for index in order[:BATCH]]
        while True:
            if len(trained) in BUDGETS:
                choices[len(trained)] = pool.find_best_trained(trained)
            if len(trained) >= BUDGETS[-1]:
                return choices
            predictions = predict(pool, trained)
            predictions[trained] = -np.inf
            best_predicted = np.argsort(-predictions, kind="stable")[:BATCH]
            trained.extend(int(index) for index in best_predicted)

    return run


METHODS: dict[str, Method] = {
    "consensus": train_top("consensus"),
    "random search": search_at_random,
    "largest by FLOPs": train_top("flops"),
    "parameters": train_top("params"),
    "dextr": train_top("dextr"),
    "naswot": train_top("naswot(samples=16)"),
    "meco_opt": train_top("meco_opt"),
    "logsynflow": train_top("logsynflow"),
    "near": train_top("near(width=128,samples=16)"),
    "consensus and members in turn": take_turns,
    "proxy chosen by calibration": calibrate_first,
    "successive halving by consensus": halve_successively,
    "weights by Bayesian optimisation": optimise_weights,
    "surrogate: ridge": train_by_surrogate(predict_by_ridge),
    "surrogate: ridge, spread first": train_by_surrogate(predict_by_ridge, spread_first=True),
    "surrogate: ridge around consensus": train_by_surrogate(predict_around_consensus),
    "surrogate: forest": train_by_surrogate(predict_by_forest),
    "HNAS": search_by_hnas,
}
BASELINE = "consensus"


# -------------------------------------------------------------------------------------- results

# method -> budget -> family -> one value per repetition
Results = dict[str, dict[int, dict[str, list[float]]]]


def measure_agreement(family: Family) -> float:
    """Return the mean rank correlation of short and final accuracies."""
    correlations = []
    for metric, short in family.short.items():
        correlations.append(float(spearmanr(short, family.final[metric]).statistic))
    return fmean(correlations)


def run_methods(
    families: Mapping[str, Family], noise: float, repetitions: int
) -> tuple[Results, Results]:
    """Return the regrets and the shares of the pool that are better, means over the metrics."""
    regrets: Results = {}
    shares: Results = {}
    for number, (name, family) in enumerate(families.items()):
        for repetition in range(repetitions):
            rng = np.random.default_rng([number, repetition])
            pools = draw_pools(family, noise, rng)
            for label, method in METHODS.items():
                if method is search_by_hnas and not all(p.has_kernels for p in pools.values()):
                    continue
                own_regrets: dict[int, list[float]] = {}
                own_shares: dict[int, list[float]] = {}
                for pool in pools.values():
                    choices = method(pool, np.random.default_rng([number, repetition, 1]))
                    for budget, index in choices.items():
                        accuracy = pool.final[index]
                        own_regrets.setdefault(budget, []).append(pool.final.max() - accuracy)
                        share = float(np.mean(pool.final > accuracy))
                        own_shares.setdefault(budget, []).append(100 * share)
                for budget in BUDGETS:
                    _append(regrets, label, budget, name, fmean(own_regrets[budget]))
                    _append(shares, label, budget, name, fmean(own_shares[budget]))
        print(f"- {name}: done", flush=True)
    return regrets, shares


def _append(results: Results, label: str, budget: int, family: str, value: float) -> None:
    by_family = results.setdefault(label, {}).setdefault(budget, {})
    by_family.setdefault(family, []).append(float(value))


def average_families(by_family: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the mean over the families, repetition by repetition."""
    return [fmean(values) for values in zip(*by_family.values(), strict=True)]


def estimate(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95 % interval."""
    return fmean(values), 1.96 * stdev(values) / sqrt(len(values))


def summarise(results: Results) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return mean and half-width by method, budget and family; `mean` is over the families.

    `minus consensus` is the paired difference of the means over the families. For a method that was
    left out on some families, both means are over the others, and are called `own mean` and
    `own minus consensus`.
    """
    summary: dict[str, dict[str, dict[str, list[float]]]] = {}
    for label, by_budget in results.items():
        summary[label] = {}
        for budget, by_family in by_budget.items():
            cells = {}
            for family, values in by_family.items():
                cells[family] = [round(figure, 4) for figure in estimate(values)]
            of_baseline = results[BASELINE][budget]
            prefix = "" if len(by_family) == len(of_baseline) else "own "
            means = average_families(by_family)
            baseline = average_families({family: of_baseline[family] for family in by_family})
            differences = [x - y for x, y in zip(means, baseline, strict=True)]
            cells[f"{prefix}mean"] = [round(figure, 4) for figure in estimate(means)]
            if label != BASELINE:
                figures = [round(x, 4) for x in estimate(differences)]
                cells[f"{prefix}minus {BASELINE}"] = figures
            summary[label][str(budget)] = cells
    return summary


def print_table(
    summary: Mapping[str, Mapping[str, Mapping[str, list[float]]]], column: str, digits: int = 2
) -> None:
    """Print one row per method that has the column, and one column per number of trainings."""
    heads = ["method", *[str(budget) for budget in BUDGETS]]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for label, by_budget in summary.items():
        if column not in by_budget[str(BUDGETS[0])]:
            continue
        sign = "+" if "minus" in column else ""
        cells = [label]
        for budget in BUDGETS:
            mean, margin = by_budget[str(budget)][column]
            cells.append(f"{mean:{sign}.{digits}f} ± {margin:.{digits}f}")
        print(f"| {' | '.join(cells)} |")


# --------------------------------------------------------------------------------------- figure

SHOWN = {
    "random search": "#999999",
    "largest by FLOPs": "#e69f00",
    "dextr": "#56b4e9",
    "successive halving by consensus": "#cc79a7",
    "weights by Bayesian optimisation": "#009e73",
    "surrogate: ridge": "#d55e00",
    "consensus": "#000000",
}
WIDTH = 720
HEIGHT = 380
LEFT = 60
RIGHT = 280
TOP = 20
BOTTOM = 45


def draw_curves(
    summary: Mapping[str, Mapping[str, Mapping[str, list[float]]]], y_title: str
) -> str:
    """Draw the means over the families with their intervals, on a logarithmic axis."""
    values: list[float] = []
    for label in SHOWN:
        values.extend(cells["mean"][0] for cells in summary[label].values())
    low = log10(min(values) / 1.25)
    high = log10(max(values) * 1.25)

    def place_x(budget: int) -> float:
        step = (WIDTH - LEFT - RIGHT) / (len(BUDGETS) - 1)
        return LEFT + step * BUDGETS.index(budget)

    def place_y(value: float) -> float:
        share = (log10(max(value, 1e-9)) - low) / (high - low)
        return HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in (0.2, 0.3, 0.5, 1, 2, 3, 5, 10, 20, 50):
        if low <= log10(tick) <= high:
            y = place_y(tick)
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
    for budget in BUDGETS:
        parts.append(
            f'<text x="{place_x(budget):.1f}" y="{HEIGHT - BOTTOM + 18}" '
            f'text-anchor="middle">{budget}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">short trainings</text>')
    parts.append(
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {HEIGHT / 2})">{y_title}</text>'
    )
    for number, (label, colour) in enumerate(SHOWN.items()):
        points = []
        for budget in BUDGETS:
            mean, margin = summary[label][str(budget)]["mean"]
            x = place_x(budget)
            points.append(f"{x:.1f},{place_y(mean):.1f}")
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{place_y(mean - margin):.1f}" '
                f'y2="{place_y(mean + margin):.1f}" stroke="{colour}"/>'
            )
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        y = TOP + 18 * (number + 1)
        x = WIDTH - RIGHT + 20
        parts.append(
            f'<line x1="{x}" x2="{x + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" '
            f'stroke-width="2"/><text x="{x + 26}" y="{y}">{label}</text>'
        )
    parts.append("</svg>\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=Path, default=SCORES, help="Folder of parquet files.")
    parser.add_argument("--data-root", type=Path, help="Where the tables are.")
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument(
        "--agreement", type=float, help="Rank correlation of short and final accuracy."
    )
    parser.add_argument("--out", type=Path, help="Path of the results without its suffix.")
    options = parser.parse_args()
    families = {name: Family.read(name, options.scores, options.data_root) for name in FAMILIES}
    measured_agreement = measure_agreement(families["nb201"])
    agreement = options.agreement or measured_agreement
    print(
        f"Rank correlation of short and final accuracy on NAS-Bench-201: {measured_agreement:.2f}"
    )
    print(f"On the tables without short trainings it is set to {agreement:.2f}.")
    sizes = {}
    for name, family in families.items():
        count = len(family.scores)
        pool = min(POOL, count * 2 // 3)
        sizes[name] = [count, pool]
        print(f"- {name}: pools of {pool} of {count} networks, {', '.join(family.final)}")
    noise = convert_agreement_to_noise(agreement)
    regrets, shares = run_methods(families, noise, options.repetitions)
    regret_summary = summarise(regrets)
    share_summary = summarise(shares)
    print("\nRegret in points, mean over the families:")
    print_table(regret_summary, "mean")
    print(f"\nDifference from {BASELINE}, in points (paired):")
    print_table(regret_summary, f"minus {BASELINE}")
    print(
        f"\nRegret of methods that were left out on some families, and difference from {BASELINE}:"
    )
    print_table(regret_summary, "own mean")
    print_table(regret_summary, f"own minus {BASELINE}")
    print("\nShare of the pool that is better than the choice, in %:")
    print_table(share_summary, "mean", 1)
    for name in families:
        print(f"\nRegret in points, {name}:")
        print_table(regret_summary, name)
    if options.out is not None:
        document = {
            "repetitions": options.repetitions,
            "agreement_measured": measured_agreement,
            "agreement_used": agreement,
            "networks_and_pool": sizes,
            "regret_points": regret_summary,
            "share_better_percent": share_summary,
        }
        options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        title = f"regret in points, mean over {len(families)} families"
        figure = draw_curves(regret_summary, title)
        options.out.with_suffix(".svg").write_text(figure)


if __name__ == "__main__":
    main()
