"""How well does Dextr rank NAS-Bench-201, and which image should it use?

    python benchmarks/correlation.py TABLE --data cifar10 --samples 1000              one line per data set and proxy
    python benchmarks/correlation.py TABLE --data noise,photos,digits,cifar10 --samples 300 --seeds 0,1,2,3

TABLE is a CSV with columns arch_str and c10_test_200 (CIFAR-10 test accuracy after 200 epochs). The architectures are
drawn with seed 0, the same for every data set. Prints a Markdown table, which counts the architectures that failed.
"""

import argparse
import datetime
import os
import platform
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, spearmanr

from untrained.data import load_data
from untrained.engine import make_inline_evaluator
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.strategies.random import RandomSearch
from untrained.types import Arch, Record

PROXIES = ("dextr", "dextr_conditions", "dextr_curvature", "params", "flops")


def main() -> None:
    options = parse_options()
    accuracy = pd.read_csv(options.table).set_index("arch_str")["c10_test_200"]
    space = load_space("nasbench201")
    archs = RandomSearch(space, make_generator("correlation", 0)).ask(options.samples)
    print(
        f"{options.samples} architectures, seed 0; {describe_machine()}, {datetime.date.today()}\n"
    )
    print("| data | image seed | proxy | Spearman | Kendall | n | failed | s / arch |")
    print("|---|---|---|---|---|---|---|---|")
    for data in options.data.split(","):
        for seed in map(int, options.seeds.split(",")):
            source = load_data(data, space.task, options.data_root)
            proxies = [load_proxy(name) for name in PROXIES]
            build = partial(space.build, task=source.task)
            evaluate = make_inline_evaluator(build, source, proxies, (seed,), store=options.store)
            start = perf_counter()
            records = [record for arch_records in evaluate(archs) for record in arch_records]
            seconds = (perf_counter() - start) / len(archs)
            for proxy in proxies:
                proxy_records = [record for record in records if record.proxy == proxy.label]
                print_row(data, seed, proxy.label, proxy_records, accuracy, seconds)


def print_row(
    data: str,
    seed: int,
    proxy: str,
    records: list[Record],
    accuracy: "pd.Series[float]",
    seconds: float,
) -> None:
    scored: list[tuple[Arch, float]] = [(r.arch, r.value) for r in records if r.value is not None]
    truth = accuracy.loc[[str(arch) for arch, _ in scored]].to_numpy()
    scores = np.array([value for _, value in scored])
    rho = spearmanr(scores, truth).statistic
    tau = kendalltau(scores, truth).statistic
    failed = len(records) - len(scored)
    print(
        f"| {data} | {seed} | {proxy} | {rho:.3f} | {tau:.3f} | {len(scored)} | {failed} | {seconds:.2f} |",
        flush=True,
    )


def describe_machine() -> str:
    import torch

    return f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}, {torch.get_num_threads()} threads"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", help="CSV with arch_str and c10_test_200")
    parser.add_argument("--data", default="cifar10", help="data sets, separated by commas")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument(
        "--seeds", default="0", help="seeds of image and initialisation, separated by commas"
    )
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--store", type=Store, default=None, help="keep records here, and resume")
    return parser.parse_args()


if __name__ == "__main__":
    main()
