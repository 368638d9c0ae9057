"""Does a combination of proxies beat every single one? Asked of the scores that the tables themselves hold (those of
NAS-Bench-Suite-Zero), so nothing is measured and everybody gets the same numbers.

    python benchmarks/combinations.py [--data-root FOLDER]

For each table: the best single proxy, chosen with knowledge of the truth, and three combinations that know nothing of
it; then the difference of each from that best single, with the 95 % interval of a bootstrap over architectures.
"""

import argparse

import numpy as np

from untrained.benchmarks import BenchmarkTable, open_table
from untrained.benchmarks.aggregate import (
    choose_diverse_columns,
    compute_mean_ranks,
    compute_relative_ranks,
)
from untrained.benchmarks.statistics import Floats, spearman
from untrained.seeds import make_generator

TRUTHS = {
    "nasbench201": ("cifar10_test_200", "cifar100_test_200", "ImageNet16-120_test_200"),
    "nasbench101": ("cifar10_val_108",),
    "nasbench301": ("cifar10_val",),
    "transnas": ("class_object_val", "class_scene_val", "jigsaw_val"),
}
RESAMPLES = 1000
Columns = dict[str, Floats]  # oriented so that higher is better


def log_rank(columns: Columns) -> Floats:
    """sum_j ln(rank_j / n), as AZ-NAS adds: one very bad place weighs more than one very good one."""
    return np.asarray(
        np.sum([np.log(compute_relative_ranks(column)) for column in columns.values()], axis=0)
    )


def diverse(columns: Columns) -> Floats:
    """The mean rank of weakly correlated columns."""
    return compute_mean_ranks(
        {name: columns[name] for name in choose_diverse_columns(columns) or columns}
    )


COMBINED = {"mean rank": compute_mean_ranks, "log rank": log_rank, "diverse": diverse}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-root")
    root = parser.parse_args().data_root
    print(
        "| table | n | best single | "
        + " | ".join(COMBINED)
        + " | what is diverse |\n|"
        + "---|" * (4 + len(COMBINED))
    )
    for name, truths in TRUTHS.items():
        table = open_table(name, root)
        for said in truths:
            print(row(table, said))


def row(table: BenchmarkTable, said: str) -> str:
    metric = table.metric(said)
    columns, truth = known(table, metric.dataset, table.column(metric))
    single = {proxy: rho(scores, truth) for proxy, scores in columns.items()}
    best = max(single, key=lambda proxy: single[proxy])
    cells = [versus(combine(columns), columns[best], truth) for combine in COMBINED.values()]
    head = f"{table.name}, {metric.dataset}", f"{len(truth):,}", f"{best} {single[best]:.3f}"
    return "| " + " | ".join((*head, *cells, ", ".join(choose_diverse_columns(columns)))) + " |"


def known(table: BenchmarkTable, dataset: str, truth: Floats) -> tuple[Columns, Floats]:
    """Of each proxy the run that covers most, for the architectures that all of them were asked about. A score that is
    missing there is a failure, and shares the last place."""
    runs: Columns = {}
    for score in sorted((s for s in table.scores if s.dataset == dataset), key=table.count):
        runs[score.proxy] = table.column(score) * (1 if score.higher_is_better else -1)
    asked = ~np.isnan(runs["params"]) & ~np.isnan(truth)
    runs = {proxy: scores[asked] for proxy, scores in runs.items()}
    return {proxy: s for proxy, s in runs.items() if np.isnan(s).mean() < 0.1}, truth[asked]


def rho(scores: Floats, truth: Floats) -> float:
    return spearman(compute_relative_ranks(scores), truth) or 0.0


def versus(combined: Floats, best: Floats, truth: Floats) -> str:
    """The correlation of a combination, and how much it is above that of the best single proxy."""
    rng = make_generator("combinations")
    drawn = [rng.integers(len(truth), size=len(truth)) for _ in range(RESAMPLES)]
    gains = [rho(combined[rows], truth[rows]) - rho(best[rows], truth[rows]) for rows in drawn]
    low, high = np.quantile(gains, (0.025, 0.975))
    return f"{rho(combined, truth):.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
