"""Compare ways to combine proxies without accuracies, on scores that were measured before.

    untrained data import nasbench201 PATH        # and nasbench101, nasbench301, transnas
    python benchmarks/consensus_weights.py --scores FOLDER

The folder holds the parquet files of `untrained store export`: nb201, nb101, nb301 and transnas, and
accel, which has its accuracies with it. Every scheme turns scores into percentiles among all networks
of a family, transforms them, and adds them with weights that come from the same scores. Accuracies
only judge the result. A network that is disconnected ranks last. The figures are the rank correlation
per family (mean over its data sets), the mean over families, the smallest difference to FLOPs, and
the correlation at equal size. The third table drops one member after the other, and the one before
shows how large a reference sample must be.

Leave one family out: the scheme with the best mean over the other families is judged on the family
that was left out, with bootstrap intervals over its networks. The last table is about `consensus` as
the package has it, on reference samples of 64: how far its members agree, how much size explains, how
well it ranks, and how often the order of two networks is right if drawing the members again hardly
changes it ("told apart") and if it does. The lines after it are those of
`src/untrained/runs/benchmark_families.py`.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata, spearmanr

from untrained.benchmarks import open_table
from untrained.proxies.consensus import ANCHOR, REFERENCE_SIZE, SIZE_MEMBERS, Consensus

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
    """Return weights by the mean rank correlation with some members; negative ones are 0.

    An anchor that is not a member is ignored.
    """

    def weigh(scores: pd.DataFrame) -> dict[str, float]:
        available = [anchor for anchor in anchors if anchor in scores]
        agreement = correlate(scores)[available].mean(axis=1)
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


# ----------------------------------------------------------------------- leave one family out

BOOTSTRAPS = 1000
NAMES = {
    "nb201": "NAS-Bench-201",
    "nb101": "NAS-Bench-101",
    "nb301": "NAS-Bench-301",
    "transnas": "TransNAS-Bench-101",
    "accel": "Accel-NASBench",
}


def list_member_sets() -> dict[str, tuple[str, ...]]:
    """All eight members, and all but one; the anchor stays."""
    member_sets: dict[str, tuple[str, ...]] = {"all members": MEMBERS}
    for left_out in MEMBERS[1:]:
        members = tuple(member for member in MEMBERS if member != left_out)
        member_sets[f"without {left_out}"] = members
    return member_sets


def combine_all_schemes(family: Family) -> dict[str, Floats]:
    """Return the combined scores of a family by every scheme, transform and set of members."""
    combinations = {}
    for set_label, members in list_member_sets().items():
        scores = family.scores[list(members)]
        for transform in TRANSFORMS:
            for label, weigh in SCHEMES.items():
                combined = combine(scores, weigh, transform, scores)
                combined[family.is_disconnected] = combined.min() - 1
                combinations[f"{transform}, {label}, {set_label}"] = combined
    return combinations


def bootstrap_correlations(family: Family, columns: Sequence[Floats]) -> Floats:
    """Return the rank correlations of columns of scores on resampled networks, mean over metrics.

    Returns:
        One row per resample and one column per column of scores.
    """
    rng = np.random.default_rng(0)
    count = len(family.scores)
    rows = []
    for _ in range(BOOTSTRAPS):
        indices = rng.integers(count, size=count)
        row = []
        for column in columns:
            ranks = rankdata(column[indices])
            correlations = []
            for metric in family.truths:
                truth_ranks = rankdata(family.truths[metric].to_numpy()[indices])
                correlations.append(float(np.corrcoef(ranks, truth_ranks)[0, 1]))
            row.append(fmean(correlations))
        rows.append(row)
    return np.array(rows)


def format_interval(values: Floats, sign: str = "") -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"({low:{sign}.2f} to {high:{sign}.2f})"


def leave_families_out(families: Mapping[str, Family]) -> None:
    """Print what the best scheme of the other families achieves on each family."""
    default = "log, anchor flops, duplicates once, without zico"
    combined = {name: combine_all_schemes(family) for name, family in families.items()}
    correlations: dict[str, dict[str, float]] = {}
    for name, family in families.items():
        correlations[name] = {}
        for label, column in combined[name].items():
            correlations[name][label] = family.judge(column)[0]
    print(
        "\n| left out | scheme that is best on the others | Spearman (95 %) | minus FLOPs (95 %) | "
        "minus the default (95 %) |\n|---|---|---|---|---|"
    )
    labels = list(next(iter(combined.values())))
    chosen_correlations = []
    default_correlations = []
    for name, family in families.items():
        others = [other for other in families if other != name]
        means = {label: fmean(correlations[o][label] for o in others) for label in labels}
        best = max(means, key=lambda label: means[label])
        columns = [combined[name][best], family.scores["flops"].to_numpy(), combined[name][default]]
        resampled = bootstrap_correlations(family, columns)
        values = [family.judge(column)[0] for column in columns]
        chosen_correlations.append(values[0])
        default_correlations.append(values[2])
        cells = [
            name,
            best,
            f"{values[0]:.2f} {format_interval(resampled[:, 0])}",
            f"{values[0] - values[1]:+.2f} "
            f"{format_interval(resampled[:, 0] - resampled[:, 1], '+')}",
            f"{values[0] - values[2]:+.3f} "
            f"{format_interval(resampled[:, 0] - resampled[:, 2], '+')}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(
        f"\nMean over the families that were left out: {fmean(chosen_correlations):.3f}; "
        f"the default {default!r} has {fmean(default_correlations):.3f} on the same families. "
        f"{len(labels)} schemes were compared."
    )


# --------------------------------------------------------------------------------- agreement


def score_networks(consensus: Consensus, family: Family, members: Sequence[str]) -> Floats:
    """Score a family by the consensus of the package; a network without a score ranks last."""
    column = []
    for row, is_disconnected in zip(
        list_scores(family, members), family.is_disconnected, strict=True
    ):
        score = consensus.score(row)
        if score is None or is_disconnected:
            score = -1.0
        column.append(score)
    return np.array(column)


def list_scores(family: Family, members: Sequence[str]) -> list[dict[str, float]]:
    rows = []
    for row in family.scores[list(members)].to_dict("records"):
        rows.append({str(name): float(value) for name, value in row.items() if value == value})
    return rows


def judge_pairs(
    family: Family,
    consensus: Consensus,
    members: Sequence[str],
    rng: np.random.Generator,
    count: int = 60,
) -> tuple[list[bool], list[bool]]:
    """Compare the order of pairs of networks with their accuracies.

    Returns:
        For pairs that the members tell apart, and for the others, whether the order is right.
    """
    scores = score_networks(consensus, family, members)
    scored = np.flatnonzero(scores >= 0)
    indices = rng.choice(scored, min(count, len(scored)), replace=False)
    rows = list_scores(family, members)
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
    members = [member for member in MEMBERS if member != "zico"]
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
            reference = {member: family.scores[member].to_numpy()[indices] for member in members}
            consensus = Consensus.fit(reference, ANCHOR, SIZE_MEMBERS)
            assert consensus.agreement is not None
            assert consensus.explained_by_size is not None
            agreements.append(consensus.agreement)
            shares.append(consensus.explained_by_size)
            correlation, at_equal_size = family.judge(score_networks(consensus, family, members))
            correlations.append(correlation)
            controlled.append(at_equal_size)
            pairs = judge_pairs(family, consensus, members, rng)
            told_apart += pairs[0]
            others += pairs[1]
        flops = family.judge(family.scores["flops"].to_numpy())[0]
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

    leave_families_out(families)
    describe_agreement(families, options.repeats)


if __name__ == "__main__":
    main()
