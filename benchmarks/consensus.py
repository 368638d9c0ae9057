"""Compare `consensus` with single proxies over families of benchmark tables, as one Markdown table.

    untrained bench --space nasbench201 --dataset cifar10 --proxy consensus,dextr --run runs/a ...
    untrained bench --space nasbench201 --dataset cifar100 --proxy consensus,dextr --run runs/b ...
    python benchmarks/consensus.py nasbench201=runs/a,runs/b nasbench101=runs/c

Every argument is a family: a name and the run folders of `untrained bench` that belong to it. The
numbers of a family are means over its folders, and every family counts once in the means. The last
columns are the mean over families, the smallest difference from FLOPs on any family, and the
size-controlled correlation. The differences between `consensus` and FLOPs, parameters and `dextr`
follow, with 95 % intervals from a bootstrap over architectures, the same resamples for both sides.
"""

import argparse
from statistics import fmean

import numpy as np

from untrained.benchmarks.result import BenchmarkResult, ProxyResult
from untrained.benchmarks.statistics import spearman
from untrained.seeds import make_generator

CONSENSUS = "consensus"
RESAMPLES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="+", help="NAME=FOLDER,FOLDER")
    options = parser.parse_args()
    families: dict[str, list[BenchmarkResult]] = {}
    for text in options.families:
        name, _, folders = text.partition("=")
        families[name] = [BenchmarkResult.read(folder) for folder in folders.split(",")]
    for name, results in families.items():
        settings = "; ".join(f"{result.title}: {len(result.archs)} networks" for result in results)
        print(f"- {name}: {settings}")
    print()
    print_table(families)
    print()
    print_differences(families)


def index_results(result: BenchmarkResult) -> dict[str, ProxyResult]:
    return {proxy_result.proxy: proxy_result for proxy_result in result.proxy_results}


def get_mean(results: list[BenchmarkResult], proxy: str, statistic: str) -> float | None:
    """Return the mean of a statistic over the folders of a family; None if one of them lacks it."""
    values = []
    for result in results:
        proxy_result = index_results(result).get(proxy)
        if proxy_result is None:
            return None
        estimate = proxy_result.statistics.get(statistic)
        if estimate is None:
            return None
        values.append(estimate.value)
    return fmean(values)


def print_table(families: dict[str, list[BenchmarkResult]]) -> None:
    first_family = next(iter(families.values()))
    proxies = [proxy_result.proxy for proxy_result in first_family[0].proxy_results]
    flops = {name: get_mean(results, "flops", "spearman") for name, results in families.items()}
    rows = []
    for proxy in proxies:
        spearmans = [get_mean(results, proxy, "spearman") for results in families.values()]
        controlled = [get_mean(results, proxy, "size_controlled") for results in families.values()]
        if None in spearmans:
            continue
        differences = []
        for value, baseline in zip(spearmans, flops.values(), strict=True):
            assert value is not None
            assert baseline is not None
            differences.append(value - baseline)
        cells = [f"{value:.2f}" for value in spearmans if value is not None]
        mean = fmean(value for value in spearmans if value is not None)
        cells.append(f"{mean:.3f}")
        cells.append(f"{min(differences):+.2f}")
        # Sizes have no correlation at equal size.
        defined = [value for value in controlled if value is not None]
        if len(defined) == len(families):
            cells.append(f"{fmean(defined):.2f} ({min(defined):.2f})")
        else:
            cells.append("")
        rows.append((mean, f"| `{proxy}` | {' | '.join(cells)} |"))
    heads = ["", *families, "mean", "worst against FLOPs", "at equal size, mean (worst)"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{'---|' * len(heads)}")
    for _, line in sorted(rows, reverse=True):
        print(line)


def print_differences(families: dict[str, list[BenchmarkResult]]) -> None:
    print(f"| {CONSENSUS} minus | {' | '.join(families)} |")
    print(f"|---|{'---|' * len(families)}")
    for other in ("flops", "params", "dextr"):
        cells = [format_difference(results, other) for results in families.values()]
        print(f"| `{other}` | {' | '.join(cells)} |")


def format_difference(results: list[BenchmarkResult], other: str) -> str:
    """Return the difference of rank correlations with its interval, on networks that both score."""
    rng = make_generator("consensus", other)
    differences = []
    resampled = []
    for result in results:
        by_proxy = index_results(result)
        if CONSENSUS not in by_proxy or other not in by_proxy:
            return ""
        rows = []
        for first, second, truth in zip(
            by_proxy[CONSENSUS].scores, by_proxy[other].scores, result.truth, strict=True
        ):
            if first is not None and second is not None:
                rows.append((first, second, truth))
        columns = np.array(rows)
        differences.append(compute_difference(columns))
        draws = []
        for _ in range(RESAMPLES):
            draws.append(compute_difference(columns[rng.integers(0, len(rows), len(rows))]))
        resampled.append(draws)
    low, high = np.quantile(np.mean(resampled, axis=0), [0.025, 0.975])
    return f"{fmean(differences):+.2f} ({low:+.2f} to {high:+.2f})"


def compute_difference(columns: np.ndarray) -> float:
    first = spearman(columns[:, 0], columns[:, 2])
    second = spearman(columns[:, 1], columns[:, 2])
    assert first is not None
    assert second is not None
    return first - second


if __name__ == "__main__":
    main()
