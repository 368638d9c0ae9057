"""Does a combination of proxies beat every single proxy?

The scores are those of the tables themselves (NAS-Bench-Suite-Zero), so the results are reproducible.

    python benchmarks/combinations.py [--data-root FOLDER]

For each table: the best single proxy, selected with the known results, and three combinations that do not use them;
then the difference of each from that proxy, with the 95 % interval of a bootstrap over architectures.
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


def sum_log_ranks(columns: Columns) -> Floats:
    """Return sum_j ln(rank_j / n), as in AZ-NAS: a very bad rank weighs more than a very good one."""
    return np.asarray(
        np.sum([np.log(compute_relative_ranks(column)) for column in columns.values()], axis=0)
    )


def average_diverse_columns(columns: Columns) -> Floats:
    """Return the mean rank of weakly correlated columns."""
    return compute_mean_ranks(
        {name: columns[name] for name in choose_diverse_columns(columns) or columns}
    )


COMBINATIONS = {
    "mean rank": compute_mean_ranks,
    "log rank": sum_log_ranks,
    "diverse": average_diverse_columns,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-root")
    root = parser.parse_args().data_root
    heads = ["table", "n", "best single", *COMBINATIONS, "diverse columns"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, truths in TRUTHS.items():
        table = open_table(name, root)
        for metric_name in truths:
            print(format_row(table, metric_name))


def format_row(table: BenchmarkTable, metric_name: str) -> str:
    metric = table.find_metric(metric_name)
    columns, truth = read_columns(table, metric.dataset, table.read_column(metric))
    single = {proxy: correlate(scores, truth) for proxy, scores in columns.items()}
    best = max(single, key=lambda proxy: single[proxy])
    cells = [
        f"{table.name}, {metric.dataset}",
        f"{len(truth):,}",
        f"{best} {single[best]:.3f}",
    ]
    for combine in COMBINATIONS.values():
        cells.append(compare_with_best(combine(columns), columns[best], truth))
    cells.append(", ".join(choose_diverse_columns(columns)))
    return f"| {' | '.join(cells)} |"


def read_columns(table: BenchmarkTable, dataset: str, truth: Floats) -> tuple[Columns, Floats]:
    """Return the scores and the truth of the architectures that have scores.

    If the table has several runs of a proxy, that with the most scores counts. A missing score is a failure and
    shares the last rank. Proxies that fail for a tenth of the architectures or more are left out.
    """
    runs = [score for score in table.scores if score.dataset == dataset]
    columns: Columns = {}
    # The run with the most scores is the last one, so it replaces the others.
    for run in sorted(runs, key=table.count_values):
        sign = 1 if run.higher_is_better else -1
        columns[run.proxy] = sign * table.read_column(run)
    has_scores = ~np.isnan(columns["params"]) & ~np.isnan(truth)
    usable_columns = {}
    for proxy, column in columns.items():
        scores = column[has_scores]
        if np.isnan(scores).mean() < 0.1:
            usable_columns[proxy] = scores
    return usable_columns, truth[has_scores]


def correlate(scores: Floats, truth: Floats) -> float:
    return spearman(compute_relative_ranks(scores), truth) or 0.0


def compare_with_best(combined: Floats, best: Floats, truth: Floats) -> str:
    """Format the correlation of a combination and its gain over the best single proxy."""
    rng = make_generator("combinations")
    resamples = [rng.integers(len(truth), size=len(truth)) for _ in range(RESAMPLES)]
    gains = [
        correlate(combined[rows], truth[rows]) - correlate(best[rows], truth[rows])
        for rows in resamples
    ]
    low, high = np.quantile(gains, (0.025, 0.975))
    return f"{correlate(combined, truth):.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
