"""Three tables from scores that `benchmarks/scores.py` wrote, as Markdown.

    python benchmarks/proxy_tables.py BENCHMARK.csv.gz --scores rand.csv --agreement agree.csv --third-party ZC12.csv.gz

1. Rank correlation of every proxy with CIFAR-10 test accuracy.
2. HNAS, Table 4: rank correlation between any two of its metrics, the paper's beside ours.
3. Agreement with a third party's scores of the same architectures (NAS-Bench-Suite-Zero), beside the agreement between
   that party's own runs, each with its own random batch and initialisation.
"""

import argparse
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, spearmanr

from untrained.proxies import PROXIES

PAPER = {  # HNAS, Table 4, NAS-Bench-201, Spearman
    ("grad", "snip"): 1.00,
    ("grad", "grasp"): 0.92,
    ("grad", "trace"): 0.97,
    ("snip", "grasp"): 0.92,
    ("snip", "trace"): 0.96,
    ("grasp", "trace"): 0.89,
    ("grad", "knas"): 0.94,
    ("snip", "knas"): 0.94,
    ("grasp", "knas"): 0.87,
    ("trace", "knas"): 0.97,
    ("fisher", "trace"): 0.78,
    ("synflow", "trace"): 0.49,
    ("naswot", "trace"): 0.32,
}
# Names of proxies that the third party calls differently.
THEIR_NAMES = {"jacob_cov": "jacov", "naswot": "nwot"}
COLUMNS = ["arch", "proxy", "seed", "value", "error", "seconds"]


def main() -> None:
    options = parse_options()
    benchmark = pd.read_csv(options.benchmark).set_index("arch_str")
    scores = read_scores(options.scores)
    print_accuracy_table(scores, benchmark["c10_test_200"])
    print_agreement_table(scores)
    print_third_party_table(
        read_scores(options.agreement), benchmark, pd.read_csv(options.third_party)
    )


def read_scores(path: str) -> pd.DataFrame:
    """Read scores; the kind of a failure may be `nan`, which pandas must not take for a missing value."""
    return pd.read_csv(
        path, names=COLUMNS, keep_default_na=False, na_values={"value": [""], "error": [""]}
    )


def print_accuracy_table(scores: pd.DataFrame, accuracy: "pd.Series[float]") -> None:
    print(f"## With test accuracy: {scores.arch.nunique()} random architectures\n")
    print("| proxy | Spearman | Kendall | n | failed |\n|---|---|---|---|---|")
    rows = []
    for name, proxy_scores in scores.groupby("proxy"):
        scored = proxy_scores.dropna(subset=["value"])
        sign = 1 if PROXIES[str(name)].higher_is_better else -1
        truth = accuracy.loc[scored.arch].to_numpy()
        rho = sign * spearmanr(scored.value, truth).statistic
        tau = sign * kendalltau(scored.value, truth).statistic
        reasons = ", ".join(f"{n} {kind}" for kind, n in proxy_scores.error.value_counts().items())
        rows.append((rho, f"| {name} | {rho:.3f} | {tau:.3f} | {len(scored)} | {reasons} |"))
    # A constant score has no correlation and comes last.
    for _, line in sorted(rows, key=lambda row: -np.nan_to_num(row[0], nan=-1)):
        print(line)
    print()


def print_agreement_table(scores: pd.DataFrame) -> None:
    """Print the rank correlations between metrics.

    GraSP is taken as its absolute value, as in HNAS. `grad` is over all parameters; in the code of HNAS it is
    a sum of norms per layer, which is our `grad_norm`.
    """
    table = scores.pivot(index="arch", columns="proxy", values="value")
    table["grasp"] = table["grasp"].abs()
    print("## HNAS, Table 4: Spearman between two metrics, NAS-Bench-201\n")
    print("| | | ours | ours, grad_norm for grad | paper |\n|---|---|---|---|---|")
    for (a, b), paper in PAPER.items():
        ours = correlate(table[a], table[b])
        layered = f"{correlate(table['grad_norm'], table[b]):.2f}" if a == "grad" else ""
        print(f"| {a} | {b} | {ours:.2f} | {layered} | {paper:.2f} |")
    print()


def print_third_party_table(
    ours: pd.DataFrame, benchmark: pd.DataFrame, theirs: pd.DataFrame
) -> None:
    theirs = theirs[theirs.task == "cifar10"].replace(-1e8, np.nan)
    table = ours.pivot(index="arch", columns="proxy", values="value")
    table.index = benchmark.loc[table.index, "index"]
    print(f"## With a third party's scores: {len(table)} architectures\n")
    print(
        "| proxy | ours with theirs | n | theirs with themselves | n | gap |\n|---|---|---|---|---|---|"
    )
    for name in table:
        column = THEIR_NAMES.get(str(name), str(name))
        their_scores = theirs[["index", "run", column]].dropna()
        ours_and_theirs = their_scores.merge(
            table[name].rename("ours"), left_on="index", right_index=True
        ).dropna()
        runs = their_scores.pivot_table(index="index", columns="run", values=column)
        pairs = pd.concat(
            [runs[[a, b]].dropna().set_axis(["x", "y"], axis=1) for a, b in combinations(runs, 2)]
        )
        with_ours = correlate(ours_and_theirs.ours, ours_and_theirs[column])
        with_themselves = correlate(pairs.x, pairs.y)
        print(
            f"| {name} | {with_ours:.3f} | {len(ours_and_theirs)} | {with_themselves:.3f} | "
            f"{len(pairs)} | {with_themselves - with_ours:+.3f} |"
        )


def correlate(x: "pd.Series[float]", y: "pd.Series[float]") -> float:
    return float(spearmanr(x, y, nan_policy="omit").statistic)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benchmark", help="CSV with arch_str, index, c10_test_200")
    for name in ("scores", "agreement", "third-party"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
