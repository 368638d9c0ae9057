"""Score many NAS-Bench-201 networks with many proxies; print one line per network and proxy as CSV.

    python benchmarks/scores.py TABLE --archs agreement --device cuda --shard 0/8 > scores_0.csv

TABLE is the benchmark's CSV with columns index and arch_str. `--archs agreement` scores the architectures whose index is
in a second CSV with a column index (`--indices`), `--archs random:500` samples with seed 0. Shards split the work among
processes.
"""

import argparse
import csv
import sys

import pandas as pd
import torch

from untrained.data import load_data
from untrained.engine import make_inline_evaluator
from untrained.proxies import PROXIES, load_proxy, split_names
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.strategies.random import RandomSearch
from untrained.types import Arch


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    space = load_space("nasbench201")
    if options.proxy == "all":
        names = [name for name in PROXIES if name != "dss"]
    else:
        names = split_names(options.proxy)
    source = load_data(options.data, space.task, options.data_root)
    evaluate = make_inline_evaluator(
        lambda arch: space.build(arch, source.task),
        source,
        [load_proxy(name) for name in names],
        seeds=[options.seed],
        device=options.device,
    )
    part, parts = map(int, options.shard.split("/"))
    out = csv.writer(sys.stdout)
    for records in evaluate(list_architectures(options)[part::parts]):
        for record in records:
            kind = None if record.error is None else record.error.kind
            seconds = round(record.measure_seconds, 4)
            row = [str(record.arch), record.proxy, record.seed, record.value, kind, seconds]
            out.writerow(row)


def list_architectures(options: argparse.Namespace) -> list[Arch]:
    """Return the architectures of the indices, or random ones."""
    space = load_space("nasbench201")
    kind, _, count = options.archs.partition(":")
    if kind == "random":
        return list(RandomSearch(space, make_generator("correlation", 0)).ask(int(count)))
    texts = pd.read_csv(options.table).set_index("index")["arch_str"]
    indices = pd.read_csv(options.indices)["index"].unique()
    return [space.parse(texts[index]) for index in sorted(indices)]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table")
    parser.add_argument("--archs", default="random:500", help="agreement, or random:N")
    parser.add_argument("--indices", help="CSV with a column index")
    parser.add_argument("--proxy", default="all")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
