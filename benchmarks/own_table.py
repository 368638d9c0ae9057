"""Train random networks of a space briefly, and write their accuracies as a table for `untrained bench`.

    python benchmarks/own_table.py --space convnet --data npz:cifar10.npz --input-size 16 \
        --count 150 --max-flops 4M --epochs 8 --samples 2500 --run runs/own-table --out table.csv

Every network is trained with the short training of the package (SGD, cosine schedule, no
augmentation) on the first 80 % of the samples and evaluated on the rest. The first `--repeated`
networks are trained with further seeds too, so that the table shows its own noise. Records are kept
in the run folder: the same command resumes, and a larger `--count` continues.
"""

import argparse
from pathlib import Path
from time import perf_counter

import pandas as pd

from untrained.config import ComputeConfig, Limits
from untrained.data import load_data, set_input_size
from untrained.proxies import load_proxy
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.strategies.base import NewArchSampler
from untrained.strategies.limits import ConstrainedSpace
from untrained.training.short_training import SHORT_TRAINING
from untrained.types import Arch, Record
from untrained.workflows.score_architectures import score_architectures

# Records are written in groups, so that a stopped run has a table of what is finished.
GROUP = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", default="convnet")
    parser.add_argument("--data", required=True)
    parser.add_argument("--input-size", type=int)
    parser.add_argument("--count", type=int, default=150, help="Number of networks.")
    parser.add_argument("--repeated", type=int, default=0, help="Networks with further seeds.")
    parser.add_argument("--seeds", type=int, default=2, help="Seeds of the repeated networks.")
    parser.add_argument("--max-flops", help="Largest number of multiply-adds, such as 4M.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--run", type=Path, required=True, help="Folder of the records.")
    parser.add_argument("--out", type=Path, required=True, help="The table, a CSV file.")
    options = parser.parse_args()

    space = load_space(options.space)
    source = load_data(options.data, set_input_size(space.task, options.input_size), None)
    limits = Limits.parse(max_flops=options.max_flops)
    sampler = NewArchSampler(ConstrainedSpace(space, limits, source.task))
    archs = sampler.sample_new(options.count, make_generator("own table", space.name))
    arguments = (
        f"epochs={options.epochs},samples={options.samples},"
        f"batch={options.batch},rate={options.rate}"
    )
    training_name = f"{SHORT_TRAINING}({arguments})"
    training = load_proxy(training_name)
    compute = ComputeConfig(options.device, options.workers)
    options.run.mkdir(parents=True, exist_ok=True)

    def train(some_archs: list[Arch], seeds: range) -> list[Record]:
        result = score_architectures(
            options.space,
            some_archs,
            [training],
            source,
            seeds,
            compute,
            options.run / "records.sqlite",
            {training.measure: training_name},
        )
        return result.records

    start = perf_counter()
    records: list[Record] = []
    for first in range(0, len(archs), GROUP):
        records += train(archs[first : first + GROUP], range(1))
        write_table(records, options.out)
        print(
            f"{len(records)} of {len(archs)} networks, {perf_counter() - start:.0f} s", flush=True
        )
    for seed in range(1, options.seeds):
        records += train(archs[: options.repeated], range(seed, seed + 1))
        write_table(records, options.out)


def write_table(records: list[Record], path: Path) -> None:
    """Write the accuracies in per cent, one row per training."""
    rows = []
    for record in records:
        if record.value is not None:
            accuracy = round(100 * record.value, 3)
            rows.append({"arch": str(record.arch), "seed": record.seed, "accuracy": accuracy})
    pd.DataFrame(rows).to_csv(path, index=False)


if __name__ == "__main__":
    main()
