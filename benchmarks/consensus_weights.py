"""Compare ways to combine proxies without accuracies, on scores that were measured before.

    untrained data import nasbench201 PATH        # and nasbench101, nasbench301, transnas
    python benchmarks/consensus_weights.py --scores FOLDER

The folder holds the parquet files of `untrained store export`: nb201, nb101, nb301 and transnas, and
accel, which has its accuracies with it. Every scheme turns scores into percentiles among all networks
of a family, transforms them, and adds them with weights that come from the same scores. Accuracies
only judge the result. A network that is disconnected ranks last. The figures are the rank correlation
per family (mean over its data sets), the mean over families, the smallest difference to FLOPs, and
the correlation at equal size. The last table drops one member after the other, and the one before
shows how large a reference sample must be.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata, spearmanr

from untrained.benchmarks import open_table

MEMBERS = (
    "flops",
    "params",
    "naswot",
    "swap",
    "dextr_conditions",
    "meco_opt",
    "logsynflow",
    "zico",
)
# Compared with the members and their combinations.
OTHERS = ("dextr",)
# Benchmark and metrics of each family; the accuracies of the last one are in the file itself.
TRUTHS = {
    "nb201": (
        "nasbench201",
        ("cifar10_test_200", "cifar100_test_200", "ImageNet16-120_test_200"),
    ),
    "nb101": ("nasbench101", ("cifar10_test_108",)),
    "nb301": ("nasbench301", ("cifar10_val",)),
    "transnas": ("transnas", ("class_scene_val", "class_object_val", "jigsaw_val")),
    "accel": ("", ("imagenet_val_top1",)),
}
Floats = np.ndarray
Weights = Callable[[pd.DataFrame], dict[str, float]]


# ------------------------------------------------------------------------------------- weights


def correlate(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.corr(method="spearman").fillna(0)


def weigh_equally(scores: pd.DataFrame) -> dict[str, float]:
    return dict.fromkeys(scores.columns, 1.0)


def weigh_by_anchors(*anchors: str) -> Weights:
    """Return weights by the mean rank correlation with some members; negative ones are 0."""

    def weigh(scores: pd.DataFrame) -> dict[str, float]:
        agreement = correlate(scores)[list(anchors)].mean(axis=1)
        return {name: max(0.0, float(agreement[name])) for name in scores.columns}

    return weigh


def weigh_by_first_component(scores: pd.DataFrame) -> dict[str, float]:
    _, vectors = np.linalg.eigh(correlate(scores).to_numpy())
    first = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    return {name: max(0.0, float(v)) for name, v in zip(scores.columns, first, strict=True)}


def weigh_by_rank_one_fit(scores: pd.DataFrame) -> dict[str, float]:
    """Fit R[i, j] = v_i v_j for i != j, as the spectral meta-learner does; v are the weights."""
    R = correlate(scores).to_numpy()
    count = len(R)
    v = np.sqrt(np.maximum(1e-6, (R.sum(1) - 1) / (count - 1)))
    for _ in range(200):
        for i in range(count):
            others = np.arange(count) != i
            v[i] = R[i, others] @ v[others] / (v[others] @ v[others])
    return {name: max(0.0, float(x)) for name, x in zip(scores.columns, v, strict=True)}


def share_among_duplicates(weigh: Weights) -> Weights:
    """Divide weights by the number of near-duplicates, the sum of R^4."""

    def weigh_shared(scores: pd.DataFrame) -> dict[str, float]:
        copies = (correlate(scores) ** 4).sum()
        return {name: weight / copies[name] for name, weight in weigh(scores).items()}

    return weigh_shared


SCHEMES: dict[str, Weights] = {
    "equal": weigh_equally,
    "anchor flops": weigh_by_anchors("flops"),
    "anchors flops, params": weigh_by_anchors("flops", "params"),
    "anchors flops, params, naswot": weigh_by_anchors("flops", "params", "naswot"),
    "rank-one fit": weigh_by_rank_one_fit,
    "first component": weigh_by_first_component,
    "equal, duplicates once": share_among_duplicates(weigh_equally),
    "anchor flops, duplicates once": share_among_duplicates(weigh_by_anchors("flops")),
    "rank-one fit, duplicates once": share_among_duplicates(weigh_by_rank_one_fit),
}
TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {
    "log": np.log,
    "rank": lambda percentiles: percentiles,
    "probit": norm.ppf,
}


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


def combine(
    scores: pd.DataFrame, weigh: Weights, transform: str, reference: pd.DataFrame
) -> Floats:
    """Return the weighted mean over the members that a network has."""
    weights = weigh(reference)
    transformed = TRANSFORMS[transform](compute_percentiles(scores, reference).to_numpy())
    available = ~np.isnan(transformed) * np.array([weights[name] for name in scores.columns])
    weight_sums = available.sum(1)
    weighted_sums = (np.nan_to_num(transformed) * available).sum(1)
    has_score = weight_sums > 0
    combined: Floats = np.full(len(scores), np.nan)
    combined[has_score] = weighted_sums[has_score] / weight_sums[has_score]
    # A network that no member can score ranks last.
    combined[~has_score] = np.nanmin(combined) - 1
    return combined


def correlate_at_equal_size(scores: Floats, truth: Floats, sizes: Sequence[Floats]) -> float:
    """Partial rank correlation, with the ranks of the sizes held fixed."""
    design = np.column_stack([np.ones(len(truth)), *[rankdata(size) for size in sizes]])
    residuals = []
    for values in (scores, truth):
        ranks = rankdata(values)
        residuals.append(ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0])
    return float(np.corrcoef(*residuals)[0, 1])


class Family:
    """Scores of a family of networks, and their accuracies."""

    def __init__(self, name: str, folder: Path, data_root: Path | None) -> None:
        rows = pd.read_parquet(folder / f"{name}.parquet")
        matrix = rows[rows["value"].notna()].pivot_table(
            index="arch", columns="proxy", values="value"
        )
        self.scores = matrix[[*MEMBERS, *OTHERS]]
        benchmark, metrics = TRUTHS[name]
        if benchmark:
            table = open_table(benchmark, data_root)
            accuracies = {
                metric: table.read_column(table.find_metric(metric)) for metric in metrics
            }
            truths = pd.DataFrame(accuracies, index=list(table.list_archs()))
        else:
            truths = rows.groupby("arch")[list(metrics)].first()
        self.truths = truths.reindex(self.scores.index)
        # `consensus` fails for these networks, whatever the other members say.
        self.is_disconnected = np.zeros(len(self.scores), dtype=bool)
        if "error" in rows:
            failed = rows[rows["error"].fillna("").str.startswith("disconnected")]
            self.is_disconnected = self.scores.index.isin(failed["arch"])

    def judge(self, combined: Floats) -> tuple[float, float]:
        """Return rank correlation and correlation at equal size, means over the metrics."""
        correlations = []
        controlled = []
        sizes = [self.scores["flops"].to_numpy(), self.scores["params"].to_numpy()]
        for metric in self.truths:
            truth = self.truths[metric].to_numpy()
            correlations.append(float(spearmanr(combined, truth).statistic))
            controlled.append(correlate_at_equal_size(combined, truth, sizes))
        return fmean(correlations), fmean(controlled)


def judge_scheme(
    families: Mapping[str, Family],
    members: Sequence[str],
    weigh: Weights,
    transform: str = "log",
    reference_size: int | None = None,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    results = {}
    for name, family in families.items():
        scores = family.scores[list(members)]
        reference = scores
        if reference_size is not None:
            reference = scores.sample(min(reference_size, len(scores)), random_state=seed)
        combined = combine(scores, weigh, transform, reference)
        if len(members) > 1:
            combined[family.is_disconnected] = combined.min() - 1
        results[name] = family.judge(combined)
    return results


def print_row(
    label: str, results: Mapping[str, tuple[float, float]], flops: Mapping[str, float]
) -> None:
    correlations = [correlation for correlation, _ in results.values()]
    controlled = [value for _, value in results.values()]
    differences = [results[name][0] - flops[name] for name in results]
    cells = [f"{value:.2f}" for value in correlations]
    cells.append(f"{fmean(correlations):.3f}")
    cells.append(f"{min(differences):+.2f}")
    cells.append(f"{fmean(controlled):.2f} ({min(controlled):.2f})")
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


def print_head(families: Mapping[str, Family]) -> None:
    heads = ["", *families, "mean", "worst against FLOPs", "at equal size, mean (worst)"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=Path, required=True, help="Folder of parquet files.")
    parser.add_argument("--data-root", type=Path, help="Where the tables are.")
    parser.add_argument("--repeats", type=int, default=10, help="Reference samples per size.")
    options = parser.parse_args()
    families = {name: Family(name, options.scores, options.data_root) for name in TRUTHS}
    for name, family in families.items():
        print(f"- {name}: {len(family.scores)} networks, {', '.join(family.truths)}")
    flops = {
        name: family.judge(family.scores["flops"].to_numpy())[0]
        for name, family in families.items()
    }

    print_head(families)
    for member in (*MEMBERS, *OTHERS):
        print_row(f"`{member}`", judge_scheme(families, [member], weigh_equally), flops)
    for transform in TRANSFORMS:
        for label, weigh in SCHEMES.items():
            print_row(
                f"{transform}, {label}", judge_scheme(families, MEMBERS, weigh, transform), flops
            )

    chosen = SCHEMES["anchor flops, duplicates once"]
    cheap_members = [member for member in MEMBERS if member != "zico"]
    print_head(families)
    for size in (16, 32, 64, 128):
        repeats = []
        for seed in range(options.repeats):
            repeats.append(
                judge_scheme(families, cheap_members, chosen, reference_size=size, seed=seed)
            )
        means = {}
        for name in families:
            correlation = fmean(results[name][0] for results in repeats)
            controlled = fmean(results[name][1] for results in repeats)
            means[name] = (correlation, controlled)
        print_row(f"reference of {size}", means, flops)

    print_head(families)
    print_row("all eight members", judge_scheme(families, MEMBERS, chosen), flops)
    for left_out in MEMBERS[1:]:
        members = [member for member in MEMBERS if member != left_out]
        print_row(f"without {left_out}", judge_scheme(families, members, chosen), flops)


if __name__ == "__main__":
    main()
