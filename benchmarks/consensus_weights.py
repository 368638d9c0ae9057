"""Compare ways to combine proxies without accuracies, on scores that were measured before.

    untrained data import nasbench201 PATH
    python benchmarks/consensus_weights.py
    python benchmarks/consensus_weights.py --families chain,convnet,vit   # needs no imported table

Without `--families` it needs the tables nasbench201, nasbench101, nasbench301, darts1000, transnas and
accel_nasbench. The scores are those of docs/results/data/scores, one parquet file per family, made by
`untrained bench` and `untrained store export` (docs/results/consensus.md has the commands). Every
scheme turns scores into percentiles among all networks of a family, transforms them, and adds them
with weights that come from the same scores. Two transforms differ: robust z-scores use no percentiles,
and percentiles within bins compare a network only with networks of about its FLOPs. Accuracies only
judge the result. A network that is disconnected ranks last.

The script prints, in this order:

- the default and every single proxy, with intervals: rank correlation with accuracy per family (mean
  over its data sets), and the mean over families;
- the same at equal size, which is the partial correlation of ranks with the ranks of FLOPs and
  parameters held fixed;
- how far the default is above single proxies, for the goals that it should meet;
- other weights and transforms, sizes of the reference sample, and other members;
- leave one family out: the scheme with the best mean over the other families is judged on the family
  that was left out;
- `consensus` as the package has it, on reference samples of 64: how far its members agree, how much
  size explains, how well it ranks, and how often the order of two networks is right if drawing the
  members again hardly changes it ("told apart") and if it does. The Python code after the table belongs
  in `src/untrained/runs/benchmark_families.py`.

With `--families`, it prints only the first two. The family `chain` is made by `chain_tables.py`.

All intervals are 95 % intervals from a bootstrap over networks, the same resamples for all columns.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from untrained.benchmarks import open_table
from untrained.proxies.consensus import ANCHORS, MEMBERS, REFERENCE_SIZE, SIZE_MEMBERS, Consensus

DATA = Path(__file__).parent.parent / "docs" / "results" / "data"
SCORES = DATA / "scores"
NEAR = "near(width=128,samples=16)"
NASWOT = "naswot(samples=16)"
# Compared with the members and their combinations.
OTHERS = (
    "zico",
    "dextr",
    "near",
    "naswot",
    "wrcor",
    "vkdnw(variant=single)",
    "synflow",
    "zen",
    "depth",
    "l2_norm",
    "snip",
    "grad_norm",
    "jacob_cov",
)
# Proxies that are tried as an additional member.
ADDED = ("zico", "dextr", "near", "zen", "jacob_cov", "vkdnw(variant=single)", "wrcor")
# Benchmark or CSV file, and metrics, of each family.
TRUTHS: dict[str, tuple[str | Path, tuple[str, ...]]] = {
    "nb201": (
        "nasbench201",
        ("cifar10_test_200", "cifar100_test_200", "ImageNet16-120_test_200"),
    ),
    "nb101": ("nasbench101", ("cifar10_test_108",)),
    "nb301": ("nasbench301", ("cifar10_val",)),
    "darts": ("darts1000", ("cifar10_val_200",)),
    "transnas": ("transnas", ("class_scene_val", "class_object_val", "jigsaw_val")),
    "accel": ("accel_nasbench", ("imagenet_val",)),
    "chain": (DATA / "chains" / "residual_chain.csv", ("accuracy",)),
    "convnet": ("convnet", ("cifar10_val_10",)),
    "vit": ("vit", ("cifar10_val_10",)),
}
NAMES = {
    "nb201": "NAS-Bench-201",
    "nb101": "NAS-Bench-101",
    "nb301": "NAS-Bench-301",
    "darts": "DARTS-1000",
    "transnas": "TransNAS-Bench-101",
    "accel": "Accel-NASBench",
    "chain": "chains of residual blocks",
    "convnet": "the table convnet",
    "vit": "the table vit",
}
BOOTSTRAPS = 1000
# Largest robust z-score.
MAX_Z_SCORE = 3.0
# Number of classes of networks with about the same FLOPs.
SIZE_BINS = 10
DEFAULT = "consensus"
DEFAULT_WEIGHTS = "anchors flops, meco"

Floats = NDArray[np.float64]


# ------------------------------------------------------------------------------------- weights


@dataclass(frozen=True)
class Agreement:
    """Rank correlations between proxies on the networks of a family or of a reference sample.

    Attributes:
        plain: Spearman's correlations.
        at_equal_size: Partial correlations of ranks, with the ranks of FLOPs and parameters fixed.
    """

    plain: pd.DataFrame
    at_equal_size: pd.DataFrame

    @classmethod
    def measure(cls, scores: pd.DataFrame) -> "Agreement":
        plain = scores.corr(method="spearman").fillna(0)
        # A proxy that fails for a network ranks it last.
        ranks = scores.rank().fillna(0).to_numpy()
        residuals = remove_size(ranks, scores[list(SIZE_MEMBERS)])
        lengths = np.linalg.norm(residuals, axis=0)
        lengths[lengths < 1e-6] = np.inf
        residuals = residuals / lengths
        names = list(scores.columns)
        return cls(plain, pd.DataFrame(residuals.T @ residuals, names, names))

    def select(self, members: Sequence[str]) -> "Agreement":
        names = list(members)
        return Agreement(self.plain.loc[names, names], self.at_equal_size.loc[names, names])


Weights = Callable[[Agreement], dict[str, float]]


def remove_size(ranks: Floats, sizes: pd.DataFrame) -> Floats:
    """Return the residuals of a linear fit of columns of ranks by the ranks of the sizes."""
    design = np.column_stack([np.ones(len(sizes)), sizes.rank().to_numpy()])
    coefficients = np.linalg.lstsq(design, ranks, rcond=None)[0]
    return np.asarray(ranks - design @ coefficients, dtype=np.float64)


def weigh_equally(agreement: Agreement) -> dict[str, float]:
    return dict.fromkeys(agreement.plain.columns, 1.0)


def weigh_by_anchors(*anchors: str, power: float = 1) -> Weights:
    """Return weights by the mean rank correlation with some members; negative ones are 0.

    An anchor that is not a member is ignored.
    """

    def weigh(agreement: Agreement) -> dict[str, float]:
        available = [anchor for anchor in anchors if anchor in agreement.plain]
        means = agreement.plain[available].mean(axis=1)
        return {str(name): max(0.0, float(mean)) ** power for name, mean in means.items()}

    return weigh


def weigh_at_equal_size(*anchors: str) -> Weights:
    """Return weights by the mean partial correlation with some members, or with all others.

    The size members keep the weight that they have by default.
    """
    weigh_sizes = weigh_by_anchors(*ANCHORS)

    def weigh(agreement: Agreement) -> dict[str, float]:
        others = [name for name in agreement.plain if name not in SIZE_MEMBERS]
        available = [anchor for anchor in anchors or others if anchor in agreement.plain]
        weights = weigh_sizes(agreement)
        for name in others:
            partners = [anchor for anchor in available if anchors or anchor != name]
            mean = float(agreement.at_equal_size.loc[name, partners].mean())
            weights[str(name)] = max(0.0, mean)
        return weights

    return weigh


def weigh_by_first_component(agreement: Agreement) -> dict[str, float]:
    _, vectors = np.linalg.eigh(agreement.plain.to_numpy())
    first = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    names = agreement.plain.columns
    return {name: max(0.0, float(v)) for name, v in zip(names, first, strict=True)}


def weigh_by_rank_one_fit(agreement: Agreement) -> dict[str, float]:
    """Fit R[i, j] = v_i v_j for i != j, as the spectral meta-learner does; v are the weights."""
    R = agreement.plain.to_numpy()
    count = len(R)
    v = np.sqrt(np.maximum(1e-6, (R.sum(1) - 1) / (count - 1)))
    for _ in range(200):
        for i in range(count):
            others = np.arange(count) != i
            v[i] = R[i, others] @ v[others] / (v[others] @ v[others])
    names = agreement.plain.columns
    return {name: max(0.0, float(x)) for name, x in zip(names, v, strict=True)}


def share_among_duplicates(weigh: Weights) -> Weights:
    """Divide weights by the number of near-duplicates, the sum of R^4."""

    def weigh_shared(agreement: Agreement) -> dict[str, float]:
        copies = (agreement.plain**4).sum()
        return {name: weight / copies[name] for name, weight in weigh(agreement).items()}

    return weigh_shared


def halve_activation_codes(weigh: Weights) -> Weights:
    """Let NASWOT and SWAP, which both count activation patterns, share one vote."""

    def weigh_halved(agreement: Agreement) -> dict[str, float]:
        weights = weigh(agreement)
        for name in (NASWOT, "swap"):
            if name in weights:
                weights[name] /= 2
        return weights

    return weigh_halved


BASIC_SCHEMES: dict[str, Weights] = {
    "equal": weigh_equally,
    "anchor flops": weigh_by_anchors("flops"),
    "anchor near": weigh_by_anchors(NEAR),
    "anchor meco": weigh_by_anchors("meco_opt"),
    DEFAULT_WEIGHTS: weigh_by_anchors(*ANCHORS),
    "anchors flops, meco, squared": weigh_by_anchors(*ANCHORS, power=2),
    "anchors flops, meco, cubed": weigh_by_anchors(*ANCHORS, power=3),
    "anchors flops, near": weigh_by_anchors("flops", NEAR),
    "anchors flops, near, meco": weigh_by_anchors("flops", NEAR, "meco_opt"),
    "anchors flops, naswot, meco": weigh_by_anchors("flops", NASWOT, "meco_opt"),
    "anchors flops, params, near": weigh_by_anchors("flops", "params", NEAR),
    "rank-one fit": weigh_by_rank_one_fit,
    "first component": weigh_by_first_component,
    "equal size: near": weigh_at_equal_size(NEAR),
    "equal size: near, meco": weigh_at_equal_size(NEAR, "meco_opt"),
    "equal size: near, meco, naswot": weigh_at_equal_size(NEAR, "meco_opt", NASWOT),
    "equal size: near, meco, synflow": weigh_at_equal_size(NEAR, "meco_opt", "logsynflow"),
    "equal size: all": weigh_at_equal_size(),
}
# Schemes that are also tried with `share_among_duplicates`.
SCHEMES_TO_SHARE = ("equal", DEFAULT_WEIGHTS, "rank-one fit")
OWN_FAMILIES = ("chain", "convnet", "vit")


def list_schemes() -> dict[str, Weights]:
    schemes = dict(BASIC_SCHEMES)
    for label in SCHEMES_TO_SHARE:
        schemes[f"{label}, duplicates once"] = share_among_duplicates(BASIC_SCHEMES[label])
    for label, weigh in BASIC_SCHEMES.items():
        schemes[f"{label}, codes once"] = halve_activation_codes(weigh)
    return schemes


SCHEMES = list_schemes()


# ------------------------------------------------------------------------------------- scoring


def compute_percentiles(scores: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    percentiles = {}
    for name in scores:
        sorted_reference = np.sort(reference[name].dropna().to_numpy())
        below = np.searchsorted(sorted_reference, scores[name], "left")
        not_above = np.searchsorted(sorted_reference, scores[name], "right")
        places = ((below + not_above) / 2 + 0.5) / (len(sorted_reference) + 1)
        percentiles[name] = np.where(scores[name].isna(), np.nan, places)
    return pd.DataFrame(percentiles, index=scores.index)


def compute_robust_z_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return distances from the median in units of the spread of a normal distribution.

    The spread is estimated from the quartiles. Distances are limited, because a single member with
    a long tail, such as the number of parameters, would otherwise decide.
    """
    quartiles = scores.quantile([0.25, 0.75])
    spread = (quartiles.loc[0.75] - quartiles.loc[0.25]) / (norm.ppf(0.75) - norm.ppf(0.25))
    z_scores = (scores - scores.median()) / spread.replace(0, np.nan)
    return z_scores.clip(-MAX_Z_SCORE, MAX_Z_SCORE)


def compute_percentiles_in_bins(scores: pd.DataFrame, percentiles: pd.DataFrame) -> pd.DataFrame:
    """Return percentiles among the networks of the same bin of FLOPs; sizes keep theirs.

    The bins have about the same number of networks.
    """
    places = scores["flops"].rank(method="first") - 1
    bins = (places * SIZE_BINS // len(scores)).astype(int)
    in_bins = percentiles.copy()
    for name in scores:
        if name not in SIZE_MEMBERS:
            groups = scores[name].groupby(bins)
            in_bins[name] = (groups.rank() - 0.5) / groups.transform("count")
    return in_bins


Transform = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]
# From scores and their percentiles to the columns that are added.
TRANSFORMS: dict[str, Transform] = {
    "log": lambda scores, percentiles: np.log(percentiles),
    "rank": lambda scores, percentiles: percentiles,
    "probit": lambda scores, percentiles: pd.DataFrame(
        norm.ppf(percentiles), percentiles.index, percentiles.columns
    ),
    "robust z": lambda scores, percentiles: compute_robust_z_scores(scores),
    "log in size bins": lambda scores, percentiles: np.log(
        compute_percentiles_in_bins(scores, percentiles)
    ),
}


def combine(transformed: pd.DataFrame, weights: Mapping[str, float]) -> Floats:
    """Return the weighted mean over the members that a network has."""
    values = transformed.to_numpy()
    available = ~np.isnan(values) * np.array([weights[name] for name in transformed])
    weight_sums = available.sum(1)
    weighted_sums = (np.nan_to_num(values) * available).sum(1)
    has_score = weight_sums > 0
    combined: Floats = np.full(len(values), np.nan)
    combined[has_score] = weighted_sums[has_score] / weight_sums[has_score]
    return combined


class Family:
    """Scores of a family of networks, and their accuracies.

    Attributes:
        scores: One row per network, one column per proxy; NaN where it failed.
        transformed: The same by transform, as it is added.
        agreement: Rank correlations between the proxies.
        truths: Accuracies, one column per metric.
        is_disconnected: Whether a network is disconnected, so that `consensus` fails for it.
    """

    def __init__(self, name: str, folder: Path, data_root: Path | None) -> None:
        rows = pd.read_parquet(folder / f"{name}.parquet")
        matrix = rows[rows["value"].notna()].pivot_table(
            index="arch", columns="proxy", values="value"
        )
        benchmark, metrics = TRUTHS[name]
        if isinstance(benchmark, Path):
            truths = pd.read_csv(benchmark, index_col="arch")[list(metrics)]
        else:
            table = open_table(benchmark, data_root)
            columns = {metric: table.read_column(table.find_metric(metric)) for metric in metrics}
            truths = pd.DataFrame(columns, index=list(table.list_archs()))
        # The size members score every network, so no network is missing in the matrix.
        self.scores = matrix.reindex(columns=[*MEMBERS, *OTHERS])
        percentiles = compute_percentiles(self.scores, self.scores)
        self.transformed: dict[str, pd.DataFrame] = {}
        for label, transform in TRANSFORMS.items():
            self.transformed[label] = transform(self.scores, percentiles)
        self.agreement = Agreement.measure(self.scores)
        self.truths = truths.reindex(self.scores.index)
        failed = rows[rows["error"].fillna("").str.startswith("disconnected")]
        self.is_disconnected = self.scores.index.isin(failed["arch"])

    def rank_last(self, combined: Floats) -> Floats:
        """Return scores in which networks without a score and disconnected ones are the lowest."""
        without_score = np.isnan(combined) | self.is_disconnected
        completed = combined.copy()
        completed[without_score] = np.nanmin(combined) - 1
        return completed

    def get_column(self, proxy: str) -> Floats:
        """Return the scores of a proxy; a network without a score ranks last."""
        column: Floats = self.scores[proxy].to_numpy(dtype=np.float64, copy=True)
        column[np.isnan(column)] = np.nanmin(column) - 1
        return column

    def combine(
        self,
        members: Sequence[str] = MEMBERS,
        weights: str = DEFAULT_WEIGHTS,
        transform: str = "log",
    ) -> Floats:
        agreement = self.agreement.select(members)
        weights_by_member = SCHEMES[weights](agreement)
        if sum(weights_by_member.values()) == 0:
            # None of the anchors is a member.
            weights_by_member = weigh_equally(agreement)
        combined = combine(self.transformed[transform][list(members)], weights_by_member)
        return self.rank_last(combined)

    def judge(self, column: Floats) -> tuple[float, float]:
        """Return rank correlation and correlation at equal size, means over the metrics."""
        plain, at_equal_size = self._correlate(column[:, None], np.arange(len(column)))
        return float(plain[0]), float(at_equal_size[0])

    def bootstrap(self, columns: Mapping[str, Floats]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return both correlations of columns of scores on resampled networks.

        Each frame has one row per resample and one column per column of scores.
        """
        rng = np.random.default_rng(0)
        matrix = np.column_stack(list(columns.values()))
        count = len(matrix)
        plain_rows = []
        controlled_rows = []
        for _ in range(BOOTSTRAPS):
            plain, controlled = self._correlate(matrix, rng.integers(count, size=count))
            plain_rows.append(plain)
            controlled_rows.append(controlled)
        names = list(columns)
        return pd.DataFrame(plain_rows, columns=names), pd.DataFrame(controlled_rows, columns=names)

    def _correlate(self, matrix: Floats, indices: NDArray[np.int64]) -> tuple[Floats, Floats]:
        ranks = rankdata(matrix[indices], axis=0)
        truth_ranks = rankdata(self.truths.to_numpy()[indices], axis=0)
        sizes = self.scores[list(SIZE_MEMBERS)].iloc[indices]
        plain = correlate_columns(ranks - ranks.mean(0), truth_ranks - truth_ranks.mean(0))
        controlled = correlate_columns(remove_size(ranks, sizes), remove_size(truth_ranks, sizes))
        return plain, controlled


def correlate_columns(columns: Floats, truths: Floats) -> Floats:
    """Return the correlation of each column with the truths, as a mean over the truths.

    Columns and truths are centred.
    """
    lengths = np.linalg.norm(columns, axis=0)
    # At equal size, nothing but rounding errors remains of a size itself.
    lengths[lengths < 1e-6] = np.inf
    products = (columns / lengths).T @ (truths / np.linalg.norm(truths, axis=0))
    return np.asarray(products.mean(axis=1), dtype=np.float64)


# ------------------------------------------------------------------- the default and the others


def format_interval(values: Floats | pd.Series, sign: str = "") -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"({low:{sign}.2f} to {high:{sign}.2f})"


def resample_families(values: Sequence[float]) -> str:
    """Return the interval of a mean over families from resampled families."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(values), size=(10_000, len(values)))
    return format_interval(np.asarray(values)[draws].mean(axis=1), "+")


# Positions of the two kinds of correlations in the fields of a `Comparison`.
PLAIN = 0
AT_EQUAL_SIZE = 1


@dataclass(frozen=True)
class Comparison:
    """The default and single proxies on all families.

    Attributes:
        values: Correlation by family and proxy, plain and at equal size.
        resampled: The same on resampled networks, one frame per family.
    """

    values: tuple[pd.DataFrame, pd.DataFrame]
    resampled: tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]

    @classmethod
    def measure(cls, families: Mapping[str, Family]) -> "Comparison":
        plain: dict[str, dict[str, float]] = {}
        controlled: dict[str, dict[str, float]] = {}
        plain_draws = {}
        controlled_draws = {}
        for name, family in families.items():
            columns = {DEFAULT: family.combine()}
            for proxy in (*MEMBERS, *OTHERS):
                columns[proxy] = family.get_column(proxy)
            plain[name] = {}
            controlled[name] = {}
            for label, column in columns.items():
                plain[name][label], controlled[name][label] = family.judge(column)
            plain_draws[name], controlled_draws[name] = family.bootstrap(columns)
        frames = (pd.DataFrame(plain).T, pd.DataFrame(controlled).T)
        return cls(frames, (plain_draws, controlled_draws))

    def average_draws(self, kind: int) -> pd.DataFrame:
        """Return the mean over the families of every resample; every family counts once."""
        draws = list(self.resampled[kind].values())
        return sum(draws[1:], draws[0]) / len(draws)


def print_comparison(comparison: Comparison, kind: int) -> None:
    """Print a row per proxy with intervals.

    Args:
        comparison: What was measured.
        kind: `PLAIN` or `AT_EQUAL_SIZE`.
    """
    values = comparison.values[kind]
    draws = comparison.resampled[kind]
    mean_draws = comparison.average_draws(kind)
    means = values.mean()
    if kind == AT_EQUAL_SIZE:
        means = means.drop(list(SIZE_MEMBERS))
    print(f"\n|  | {' | '.join(values.index)} | mean |\n|---|{'---|' * (len(values) + 1)}")
    for proxy in means.sort_values(ascending=False).index:
        cells = []
        for name in values.index:
            interval = format_interval(draws[name][proxy])
            cells.append(f"{values.loc[name, proxy]:.2f} {interval}")
        cells.append(f"{means[proxy]:.3f} {format_interval(mean_draws[proxy])}")
        print(f"| `{proxy}` | {' | '.join(cells)} |")


def print_goals(comparison: Comparison) -> None:
    """Print how far the default is above single proxies; docs/results/consensus.md has the goals."""
    values, controlled = comparison.values
    mean_draws = comparison.average_draws(PLAIN)
    means = values.mean()
    singles = means.drop([DEFAULT])
    best_single = str(singles.idxmax())
    print("\n| default minus | " + " | ".join(values.index) + " | mean | families resampled |")
    print(f"|---|{'---|' * (len(values) + 2)}")
    for other in dict.fromkeys(["flops", "params", best_single, NEAR, "dextr"]):
        cells = []
        for name in values.index:
            draws = comparison.resampled[PLAIN][name]
            difference = values.loc[name, DEFAULT] - values.loc[name, other]
            interval = format_interval(draws[DEFAULT] - draws[other], "+")
            cells.append(f"{difference:+.2f} {interval}")
        interval = format_interval(mean_draws[DEFAULT] - mean_draws[other], "+")
        cells.append(f"{means[DEFAULT] - means[other]:+.3f} {interval}")
        cells.append(resample_families(list(values[DEFAULT] - values[other])))
        print(f"| `{other}` | {' | '.join(cells)} |")
    published = [name for name in values.index if name not in OWN_FAMILIES]
    published_means = values.loc[published].mean()
    best_published = str(published_means.drop([DEFAULT]).idxmax())
    print(f"\nBest single proxy by the mean over all families: {best_single}.")
    print(
        f"On the {len(published)} published families: the default {published_means[DEFAULT]:.3f}, "
        f"FLOPs {published_means['flops']:.3f}, "
        f"{best_published} {published_means[best_published]:.3f}."
    )
    best_per_family = values.drop(columns=[DEFAULT]).max(axis=1).mean()
    print(f"Mean of the best single proxy of each family: {best_per_family:.3f}.")
    worst = str(controlled[DEFAULT].idxmin())
    print(
        f"At equal size: {controlled[DEFAULT].mean():.4f} "
        f"{format_interval(comparison.average_draws(AT_EQUAL_SIZE)[DEFAULT])}, lowest "
        f"{controlled.loc[worst, DEFAULT]:.2f} "
        f"{format_interval(comparison.resampled[AT_EQUAL_SIZE][worst][DEFAULT])} on {worst}."
    )


# -------------------------------------------------------------------------------- other schemes

Judgements = Mapping[str, tuple[float, float]]


def list_member_sets() -> dict[str, tuple[str, ...]]:
    """Return the members, all of them but one, all but two, and with one more."""
    member_sets: dict[str, tuple[str, ...]] = {"members": MEMBERS}
    # FLOPs stay, because they are an anchor of most schemes.
    left_out_sets: list[tuple[str, ...]] = [(member,) for member in MEMBERS[1:]]
    left_out_sets.append((NASWOT, "swap"))
    for left_out in left_out_sets:
        members = tuple(member for member in MEMBERS if member not in left_out)
        member_sets[f"without {' and '.join(left_out)}"] = members
    for added in ADDED:
        member_sets[f"with {added}"] = (*MEMBERS, added)
    return member_sets


def print_head(families: Mapping[str, Family]) -> None:
    heads = ["", *families, "mean", "worst against FLOPs", "at equal size, mean (worst)"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")


def print_row(label: str, results: Judgements, flops: Mapping[str, float]) -> None:
    correlations = [correlation for correlation, _ in results.values()]
    controlled = [value for _, value in results.values()]
    differences = [results[name][0] - flops[name] for name in results]
    cells = [f"{value:.2f}" for value in correlations]
    cells.append(f"{fmean(correlations):.3f}")
    cells.append(f"{min(differences):+.2f}")
    cells.append(f"{fmean(controlled):.2f} ({min(controlled):.2f})")
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


def print_weights(families: Mapping[str, Family], flops: Mapping[str, float]) -> None:
    """Print every scheme of weights with the members, and every transform with the default's."""
    print_head(families)
    for label in SCHEMES:
        results = {
            name: family.judge(family.combine(weights=label)) for name, family in families.items()
        }
        print_row(label, results, flops)
    for transform in TRANSFORMS:
        results = {}
        for name, family in families.items():
            results[name] = family.judge(family.combine(transform=transform))
        print_row(f"{DEFAULT_WEIGHTS}: {transform}", results, flops)


def print_members(families: Mapping[str, Family], flops: Mapping[str, float]) -> None:
    print_head(families)
    for label, members in list_member_sets().items():
        results = {name: family.judge(family.combine(members)) for name, family in families.items()}
        print_row(label, results, flops)


def print_reference_sizes(
    families: Mapping[str, Family], flops: Mapping[str, float], repeats: int
) -> None:
    """Print means over reference samples of several sizes."""
    print_head(families)
    for size in (16, 32, 64, 128):
        means = {}
        for name, family in families.items():
            judgements = []
            for seed in range(repeats):
                count = min(size, len(family.scores))
                scores = family.scores[list(MEMBERS)]
                reference = scores.sample(count, random_state=seed)
                weights = SCHEMES[DEFAULT_WEIGHTS](Agreement.measure(reference))
                combined = combine(np.log(compute_percentiles(scores, reference)), weights)
                judgements.append(family.judge(family.rank_last(combined)))
            correlation = fmean(judgement[0] for judgement in judgements)
            means[name] = (correlation, fmean(judgement[1] for judgement in judgements))
        print_row(f"reference of {size}", means, flops)


def leave_families_out(families: Mapping[str, Family]) -> None:
    """Print what the best scheme of the other families achieves on each family."""
    correlations: dict[str, dict[str, float]] = {}
    for name, family in families.items():
        correlations[name] = {}
        for set_label, members in list_member_sets().items():
            for transform in TRANSFORMS:
                for weights in SCHEMES:
                    column = family.combine(members, weights, transform)
                    label = f"{transform}; {weights}; {set_label}"
                    correlations[name][label] = family.judge(column)[0]
    print(
        "\n| left out | scheme that is best on the others | Spearman (95 %) | minus FLOPs (95 %) | "
        "minus the default (95 %) |\n|---|---|---|---|---|"
    )
    labels = list(next(iter(correlations.values())))
    member_sets = list_member_sets()
    differences = []
    chosen_correlations = []
    for name, family in families.items():
        others = [other for other in families if other != name]
        means = {label: fmean(correlations[o][label] for o in others) for label in labels}
        best = max(means, key=lambda label: means[label])
        transform, weights, set_label = best.split("; ")
        columns = {
            "best": family.combine(member_sets[set_label], weights, transform),
            "flops": family.get_column("flops"),
            DEFAULT: family.combine(),
        }
        draws, _ = family.bootstrap(columns)
        values = {label: family.judge(column)[0] for label, column in columns.items()}
        chosen_correlations.append(values["best"])
        differences.append(values["best"] - values[DEFAULT])
        cells = [
            name,
            best,
            f"{values['best']:.2f} {format_interval(draws['best'])}",
            f"{values['best'] - values['flops']:+.2f} "
            f"{format_interval(draws['best'] - draws['flops'], '+')}",
            f"{differences[-1]:+.3f} {format_interval(draws['best'] - draws[DEFAULT], '+')}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(
        f"\nMean over the families that were left out: {fmean(chosen_correlations):.3f}, minus the "
        f"default {fmean(differences):+.3f}; families resampled {resample_families(differences)}. "
        f"{len(labels)} schemes were compared."
    )
    without_last = differences[:-1]
    print(
        f"Without {list(families)[-1]}: {fmean(without_last):+.3f}, families resampled "
        f"{resample_families(without_last)}."
    )


# --------------------------------------------------------------------------------- agreement


def score_networks(consensus: Consensus, family: Family) -> Floats:
    """Score a family by the consensus of the package; a network without a score ranks last."""
    column = []
    for row, is_disconnected in zip(list_scores(family), family.is_disconnected, strict=True):
        score = consensus.score(row)
        if score is None or is_disconnected:
            score = -1.0
        column.append(score)
    return np.array(column)


def list_scores(family: Family) -> list[dict[str, float]]:
    rows = []
    for row in family.scores[list(MEMBERS)].to_dict("records"):
        rows.append({str(name): float(value) for name, value in row.items() if value == value})
    return rows


def judge_pairs(
    family: Family, consensus: Consensus, rng: np.random.Generator, count: int = 60
) -> tuple[list[bool], list[bool]]:
    """Compare the order of pairs of networks with their accuracies.

    Returns:
        For pairs that the members tell apart, and for the others, whether the order is right.
    """
    scores = score_networks(consensus, family)
    scored = np.flatnonzero(scores >= 0)
    indices = rng.choice(scored, min(count, len(scored)), replace=False)
    rows = list_scores(family)
    resampled = consensus.resample_members([rows[index] for index in indices])
    told_apart = []
    others = []
    for metric in family.truths:
        truth = family.truths[metric].to_numpy()
        for i in range(len(indices)):
            for j in range(i):
                better = i
                worse = j
                if scores[indices[i]] < scores[indices[j]]:
                    better = j
                    worse = i
                difference = truth[indices[better]] - truth[indices[worse]]
                if difference == 0:
                    continue
                changes = float(np.mean(resampled[:, worse] >= resampled[:, better]))
                if changes > 0.025:
                    others.append(bool(difference > 0))
                else:
                    told_apart.append(bool(difference > 0))
    return told_apart, others


def describe_agreement(families: Mapping[str, Family], repeats: int) -> None:
    """Print agreement, share of size and quality of `consensus` per family."""
    heads = [
        "family",
        "agreement",
        "explained by size",
        "Spearman",
        "of FLOPs",
        "at equal size",
        "pairs told apart",
        "their order is right",
        "order of the others is right",
    ]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    lines = []
    for name, family in families.items():
        rng = np.random.default_rng(0)
        agreements = []
        shares = []
        correlations = []
        controlled = []
        told_apart: list[bool] = []
        others: list[bool] = []
        for _ in range(repeats):
            indices = rng.choice(len(family.scores), REFERENCE_SIZE, replace=False)
            reference = {member: family.scores[member].to_numpy()[indices] for member in MEMBERS}
            consensus = Consensus.fit(reference, ANCHORS, SIZE_MEMBERS)
            assert consensus.agreement is not None
            assert consensus.explained_by_size is not None
            agreements.append(consensus.agreement)
            shares.append(consensus.explained_by_size)
            correlation, at_equal_size = family.judge(score_networks(consensus, family))
            correlations.append(correlation)
            controlled.append(at_equal_size)
            pairs = judge_pairs(family, consensus, rng)
            told_apart += pairs[0]
            others += pairs[1]
        flops = family.judge(family.get_column("flops"))[0]
        cells = [
            name,
            f"{fmean(agreements):.2f}",
            f"{fmean(shares):.0%}",
            f"{fmean(correlations):.2f}",
            f"{flops:.2f}",
            f"{fmean(controlled):.2f}",
            f"{len(told_apart) / (len(told_apart) + len(others)):.0%}",
            f"{fmean(told_apart):.0%}",
            f"{fmean(others):.0%}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        figures = [fmean(agreements), fmean(shares), fmean(correlations), flops]
        values = ", ".join(f"{figure:.2f}" for figure in figures)
        lines.append(f'    BenchmarkFamily("{NAMES[name]}", {values}),')
    print("\n```python\nFAMILIES = (")
    for line in lines:
        print(line)
    print(")\n```")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=Path, default=SCORES, help="Folder of parquet files.")
    parser.add_argument("--data-root", type=Path, help="Where the tables are.")
    parser.add_argument("--repeats", type=int, default=10, help="Reference samples per size.")
    parser.add_argument(
        "--families", help="Compare the proxies on these families only: chain,convnet,vit."
    )
    options = parser.parse_args()
    names = list(TRUTHS)
    if options.families:
        names = options.families.split(",")
    for name in names:
        if name not in TRUTHS:
            parser.error(f"there is no family {name!r}; choose from {', '.join(TRUTHS)}")
    families = {name: Family(name, options.scores, options.data_root) for name in names}
    for name, family in families.items():
        print(f"- {name}: {len(family.scores)} networks, {', '.join(family.truths)}")
    comparison = Comparison.measure(families)
    print_comparison(comparison, PLAIN)
    print_comparison(comparison, AT_EQUAL_SIZE)
    if options.families:
        # What follows compares the families with each other.
        return
    flops = {name: family.judge(family.get_column("flops"))[0] for name, family in families.items()}
    print_goals(comparison)
    print_weights(families, flops)
    print_reference_sizes(families, flops, options.repeats)
    print_members(families, flops)
    leave_families_out(families)
    describe_agreement(families, options.repeats)


if __name__ == "__main__":
    main()
