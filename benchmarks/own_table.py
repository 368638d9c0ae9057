"""Train random networks of `convnet` and `vit` briefly, for the tables of known results of the package.

    python benchmarks/own_table.py train --data-root DATA --run runs/own-table
    python benchmarks/own_table.py build --run runs/own-table

`train` appends a line per training to `results.csv` in the run folder, so that a stopped run loses
at most one training. The same command resumes, and larger counts continue. `build` writes the tables
of the package. `export --run FOLDER` writes `results.csv` from the tables of the package, so that
`train` can add networks to them. `report` prints the tables of docs/results/own-table.md; with
`--bench FOLDER`, also how proxies rank the networks. That folder contains the runs of `untrained bench`,
one per space and data set, such as `convnet-cifar10`.

Recipe: CIFAR-10, reduced to 16 pixels; 10 epochs on 4,000 pictures with random flips, in batches of
100; the rate rises during the first epoch and then falls to zero with a cosine. The result is the
accuracy on 5,000 other pictures of the training part. Convolutional networks are trained with SGD
(Nesterov 0.9, rate 0.1, decay 5e-4), transformers with AdamW (rate 3e-3, decay 0.05). The networks
are sampled such that the logarithms of their multiply-adds are spread evenly: otherwise most of them
would be nearly as large as the limit permits.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from math import cos, exp, log, pi
from pathlib import Path
from statistics import fmean
from time import process_time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.benchmarks import BENCHMARKS, BenchmarkTable, Metric, open_table
from untrained.benchmarks.noise_ceiling import measure_noise_ceiling
from untrained.benchmarks.parquet import write_table_file
from untrained.benchmarks.result import BenchmarkResult, Estimate
from untrained.benchmarks.table import make_table_header
from untrained.benchmarks.table_builder import TableBuilder
from untrained.data import load_data, set_input_size
from untrained.seeds import derive_seed, make_generator, make_torch_generator
from untrained.spaces import Space, load_space
from untrained.training.memory import keep_freed_memory
from untrained.types import Arch, Batch, Task

RESULTS = "results.csv"
DATA = "cifar10"
SIDE = 16
TRAIN_SAMPLES = 4_000
EVALUATION_SAMPLES = 5_000
EPOCHS = 10
BATCH = 100
MAX_GRADIENT_NORM = 5.0
# Multiply-adds are divided into this many classes, equally wide on a logarithmic scale. Network
# number i comes from class i modulo this number.
SIZE_CLASSES = 9
# Every fifth network is trained with all seeds. The number has no common divisor with the number of
# classes, so that networks of all sizes are among them.
REPEATED_EVERY = 5
# What the networks see in the comparison of proxies.
BENCH_DATA = (DATA, "digits", "photos", "noise")

SOURCE = "untrained"
PARAMS = Metric("params", "", higher_is_better=False, source=SOURCE)
FLOPS = Metric(
    "flops", "", higher_is_better=False, about=f"multiply-adds, {SIDE} pixels", source=SOURCE
)


@dataclass(frozen=True)
class Recipe:
    """How the networks of a space are sampled and trained.

    Attributes:
        space: Name of the space.
        min_flops: Smallest number of multiply-adds.
        max_flops: Largest number of multiply-adds.
        optimiser: "sgd" or "adamw".
        rate: Largest learning rate.
        decay: Weight decay.
        epochs: Number of epochs.
    """

    space: str
    min_flops: float
    max_flops: float
    optimiser: str
    rate: float
    decay: float
    epochs: int = EPOCHS


RECIPES = (
    Recipe("convnet", 0.3e6, 5e6, "sgd", 0.1, 5e-4),
    Recipe("vit", 0.3e6, 5e6, "adamw", 3e-3, 0.05),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="Train networks, or continue.")
    train.add_argument("--run", type=Path, required=True, help="Folder of results.csv.")
    train.add_argument("--data-root", type=Path, help="Folder that contains CIFAR-10.")
    train.add_argument("--convnets", type=int, default=150, help="Number of networks.")
    train.add_argument("--vits", type=int, default=100, help="Number of networks.")
    train.add_argument("--repeated", type=int, default=20, help="Networks with several seeds.")
    train.add_argument("--seeds", type=int, default=2, help="Seeds of the repeated networks.")
    build = commands.add_parser("build", help="Write the tables of the package.")
    build.add_argument("--run", type=Path, required=True, help="Folder of results.csv.")
    export = commands.add_parser("export", help="Write results.csv from the tables.")
    export.add_argument("--run", type=Path, required=True, help="Folder of results.csv.")
    report = commands.add_parser("report", help="Print what the tables of the package contain.")
    report.add_argument("--bench", type=Path, help="Folder of runs of `untrained bench`.")
    options = parser.parse_args()
    if options.command == "train":
        train_networks(options)
    elif options.command == "build":
        build_tables(options.run / RESULTS)
    elif options.command == "export":
        export_tables(options.run / RESULTS)
    else:
        print_facts()
        if options.bench is not None:
            for recipe in RECIPES:
                print_ranking(recipe.space, options.bench)


# ------------------------------------------------------------------------------------- training


def train_networks(options: argparse.Namespace) -> None:
    """Train all networks that have no result yet, the spaces in turn."""
    # One thread per process, because these networks are too small for several.
    torch.set_num_threads(1)
    keep_freed_memory()
    options.run.mkdir(parents=True, exist_ok=True)
    results_path = options.run / RESULTS
    space_task = load_space(RECIPES[0].space).task
    source = load_data(DATA, set_input_size(space_task, SIDE), options.data_root)
    samples = source.batch(TRAIN_SAMPLES + EVALUATION_SAMPLES)
    counts = {"convnet": options.convnets, "vit": options.vits}
    samplers = {}
    for recipe in RECIPES:
        samplers[recipe.space] = NetworkSampler(recipe, source.task, read_results(results_path))
    for index in range(max(counts.values())):
        for recipe in RECIPES:
            if index >= counts[recipe.space]:
                continue
            arch = samplers[recipe.space].get_network(index)
            is_repeated = index % REPEATED_EVERY == 0
            seeds = 1
            if is_repeated and index // REPEATED_EVERY < options.repeated:
                seeds = options.seeds
            for seed in range(seeds):
                finished = {(row["arch"], int(row["seed"])) for row in read_results(results_path)}
                if (str(arch), seed) in finished:
                    continue
                row = train_and_evaluate(recipe, arch, seed, samples, source.task)
                append_result(results_path, row)
                print(f"{recipe.space} {index}, seed {seed}: {row['accuracy']} %", flush=True)


class NetworkSampler:
    """The networks of a space, by number. Those with results keep their numbers."""

    def __init__(self, recipe: Recipe, task: Task, results: list[dict[str, str]]) -> None:
        self.recipe = recipe
        self.task = task
        self.space = load_space(recipe.space)
        texts = dict.fromkeys(row["arch"] for row in results if row["space"] == recipe.space)
        self.archs = [self.space.parse(text) for text in texts]

    def get_network(self, index: int) -> Arch:
        """Return a network; those with smaller numbers must have been requested before."""
        if index == len(self.archs):
            self.archs.append(self._sample_network(index))
        return self.archs[index]

    def _sample_network(self, index: int) -> Arch:
        recipe = self.recipe
        rng = make_generator("own table", recipe.space, index)
        width = log(recipe.max_flops / recipe.min_flops) / SIZE_CLASSES
        smallest = recipe.min_flops * exp(width * (index % SIZE_CLASSES))
        largest = smallest * exp(width)
        while True:
            arch = self.space.sample(rng)
            flops = count_network(self.space, arch, self.task)["flops"]
            if smallest <= flops < largest and arch not in self.archs:
                return arch


def count_network(space: Space, arch: Arch, task: Task) -> dict[str, int]:
    """Return the parameters and multiply-adds of a network."""
    counts = space.counts(arch, task)
    if counts is None:
        raise ValueError(f"{arch} has no counts")
    return {"params": counts.params, "flops": counts.flops}


def train_and_evaluate(
    recipe: Recipe, arch: Arch, seed: int, samples: Batch, task: Task
) -> dict[str, object]:
    """Train a network and return its row of the results."""
    start = process_time()
    space = load_space(recipe.space)
    train_samples = Batch(samples.inputs[:TRAIN_SAMPLES], samples.targets[:TRAIN_SAMPLES])
    evaluation_samples = Batch(samples.inputs[TRAIN_SAMPLES:], samples.targets[TRAIN_SAMPLES:])
    torch.manual_seed(derive_seed("own table", "weights", recipe.space, arch, seed))
    model = space.build(arch, task)
    # Convolutions are faster in this format on a CPU.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = make_torch_generator("own table", "order", recipe.space, arch, seed)
    train_network(model, train_samples, recipe, generator)
    accuracy = measure_accuracy(model, evaluation_samples)
    return {
        "space": recipe.space,
        "arch": str(arch),
        "seed": seed,
        "accuracy": round(accuracy, 3),
        **count_network(space, arch, task),
        "cpu_seconds": round(process_time() - start, 1),
        "date": date.today().isoformat(),
    }


def train_network(
    model: nn.Module, samples: Batch, recipe: Recipe, generator: torch.Generator
) -> None:
    """Train a network in place."""
    optimiser = make_optimiser(model, recipe)
    steps_per_epoch = len(samples) // BATCH
    step_count = recipe.epochs * steps_per_epoch
    model.train()
    for step, indices in enumerate(iterate_batches(len(samples), recipe.epochs, generator)):
        rate = recipe.rate * compute_schedule(step, step_count, steps_per_epoch)
        for group in optimiser.param_groups:
            group["lr"] = rate
        inputs = flip_randomly(samples.inputs[indices], generator)
        loss = F.cross_entropy(model(inputs), samples.targets[indices])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimiser.step()


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the optimiser of a recipe."""
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    return torch.optim.SGD(
        model.parameters(), lr=recipe.rate, momentum=0.9, nesterov=True, weight_decay=recipe.decay
    )


def iterate_batches(sample_count: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the indices of the samples of every step of all epochs."""
    for _ in range(epochs):
        order = torch.randperm(sample_count, generator=generator)
        for first in range(0, sample_count, BATCH):
            yield order[first : first + BATCH]


def compute_schedule(step: int, step_count: int, warm_up_steps: int) -> float:
    """Return the share of the largest rate: linear warm-up, then a cosine to zero."""
    if step < warm_up_steps:
        return (step + 1) / warm_up_steps
    finished_share = (step - warm_up_steps) / (step_count - warm_up_steps)
    return 0.5 * (1 + cos(pi * finished_share))


def flip_randomly(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror every picture with a chance of one half."""
    is_flipped = torch.rand(len(inputs), generator=generator) < 0.5
    flipped = torch.where(is_flipped[:, None, None, None], inputs.flip(-1), inputs)
    return flipped.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def measure_accuracy(model: nn.Module, samples: Batch) -> float:
    """Return the share of pictures that the network classifies correctly, in per cent."""
    model.eval()
    correct = 0
    for first in range(0, len(samples), BATCH):
        logits = model(samples.inputs[first : first + BATCH])
        correct += int((logits.argmax(1) == samples.targets[first : first + BATCH]).sum())
    return 100 * correct / len(samples)


# -------------------------------------------------------------------------------------- results


def read_results(path: Path) -> list[dict[str, str]]:
    """Read the lines of results.csv; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append_result(path: Path, row: dict[str, object]) -> None:
    """Append a line to a CSV file; a new file begins with the names of the columns."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, row)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


# --------------------------------------------------------------------------------------- tables


def build_tables(results_path: Path) -> None:
    """Write the table of each space."""
    results = read_results(results_path)
    for recipe in RECIPES:
        own_rows = [row for row in results if row["space"] == recipe.space]
        write_table(recipe, own_rows)


def write_table(recipe: Recipe, rows: list[dict[str, str]]) -> None:
    """Write the table of a space: accuracy of every seed, their mean, and sizes."""
    builder = TableBuilder()
    accuracies: dict[str, list[float]] = {}
    for row in rows:
        accuracies.setdefault(row["arch"], []).append(float(row["accuracy"]))
    mean_metric = make_accuracy_metric("")
    for arch, values in accuracies.items():
        builder.add_value(arch, mean_metric, fmean(values))
    for row in rows:
        seed_metric = make_accuracy_metric(f"seed{row['seed']}")
        builder.add_value(row["arch"], seed_metric, float(row["accuracy"]))
        builder.add_value(row["arch"], PARAMS, float(row["params"]))
        builder.add_value(row["arch"], FLOPS, float(row["flops"]))
    columns = builder.make_columns()
    counts = {column: int(np.isfinite(values).sum()) for column, values in columns.items()}
    benchmark = BENCHMARKS[recipe.space]
    header = make_table_header(
        benchmark.name, recipe.space, None, counts, [], describe_origin(recipe, rows)
    )
    columns_by_name = {column.name: values for column, values in columns.items()}
    write_table_file(benchmark.get_path(), header, builder.archs, columns_by_name)
    print(f"{benchmark.get_path()}: {len(builder.archs)} networks, {len(rows)} trainings")


def make_accuracy_metric(variant: str) -> Metric:
    """Return the accuracy of one seed, or of all seeds if there is no variant."""
    return Metric(
        "accuracy",
        "%",
        higher_is_better=True,
        dataset=DATA,
        split="val",
        epochs=EPOCHS,
        variant=variant,
        about="one training" if variant else "mean of all trainings of a network",
        source=SOURCE,
    )


def describe_origin(recipe: Recipe, rows: list[dict[str, str]]) -> dict[str, str]:
    """Describe how the trainings of a space were made."""
    dates = sorted({row["date"] for row in rows})
    optimiser = {"sgd": "SGD", "adamw": "AdamW"}[recipe.optimiser]
    return {
        "command": "python benchmarks/own_table.py train",
        "recipe": (
            f"{recipe.epochs} epochs of {optimiser} on {TRAIN_SAMPLES:,} pictures of CIFAR-10 at {SIDE} "
            f"pixels, evaluated on {EVALUATION_SAMPLES:,} others; networks of "
            f"{recipe.min_flops / 1e6:g} to {recipe.max_flops / 1e6:g} million multiply-adds"
        ),
        "trainings": str(len(rows)),
        "dates": ", ".join(dates),
        "machine": "2 CPU cores, one thread per training",
        "cpu_seconds": f"{sum(float(row['cpu_seconds']) for row in rows):.0f}",
    }


def export_tables(results_path: Path) -> None:
    """Write results.csv from the tables of the package."""
    if results_path.exists():
        raise SystemExit(f"{results_path} exists already")
    results_path.parent.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        table = open_table(recipe.space)
        mean_metric = make_accuracy_metric("")
        trainings = int(table.origin["trainings"])
        mean_seconds = float(table.origin["cpu_seconds"]) / trainings
        for arch in table.list_archs():
            for seed_metric in table.list_seed_metrics(mean_metric):
                accuracy = table.read_value(arch, seed_metric)
                if accuracy is None:
                    continue
                row = {
                    "space": recipe.space,
                    "arch": arch,
                    "seed": seed_metric.variant.removeprefix("seed"),
                    "accuracy": accuracy,
                    "params": int(table.read_value(arch, PARAMS) or 0),
                    "flops": int(table.read_value(arch, FLOPS) or 0),
                    # The table has only the sum of the seconds and the list of all dates.
                    "cpu_seconds": round(mean_seconds, 1),
                    "date": table.origin["dates"].split(", ")[0],
                }
                append_result(results_path, row)


# --------------------------------------------------------------------------------------- report


def print_facts() -> None:
    """Print a table with what the tables of the package contain."""
    columns = [describe_table(open_table(recipe.space)) for recipe in RECIPES]
    print(f"| | {' | '.join(f'`{recipe.space}`' for recipe in RECIPES)} |")
    print("|---|" + "---|" * len(RECIPES))
    for label in columns[0]:
        print(f"| {label} | {' | '.join(column[label] for column in columns)} |")
    table = open_table("vit")
    accuracies = table.read_column(make_accuracy_metric(""))
    stems = np.array([load_space("vit").parse(text)["stem"] for text in table.list_archs()])
    means = {stem: accuracies[stems == stem].mean() for stem in np.unique(stems)}
    explained = np.var([means[stem] for stem in stems]) / np.var(accuracies)
    words = ", ".join(f"{mean:.1f} % with `stem={stem}`" for stem, mean in means.items())
    print(f"\nThe stem of `vit` explains {explained:.0%} of the variance: the mean is {words}.")


def describe_table(table: BenchmarkTable) -> dict[str, str]:
    """Return facts about a table, as text by label."""
    metric = make_accuracy_metric("")
    accuracies = table.read_column(metric)
    seeds = np.array([table.read_column(seed) for seed in table.list_seed_metrics(metric)])
    counts = np.isfinite(seeds).sum(axis=0)
    squares = np.nansum((seeds - accuracies) ** 2)
    noise = float(np.sqrt(squares / (counts - 1).sum()))
    params = table.read_column(PARAMS)
    ceiling = measure_noise_ceiling(table, metric, table.list_archs())
    assert ceiling is not None
    figures = (accuracies.min(), float(np.median(accuracies)), accuracies.max())
    return {
        "networks (with several seeds)": f"{len(table)} ({(counts > 1).sum()})",
        "parameters": f"{params.min():,.0f} to {params.max():,.0f}",
        "accuracy in per cent: lowest, median, highest": ", ".join(f"{x:.1f}" for x in figures),
        "standard deviation between networks, points": f"{accuracies.std(ddof=1):.1f}",
        "standard deviation between seeds, points": f"{noise:.1f}",
        "rank correlation of two seeds (noise ceiling)": f"{ceiling.spearman:.2f}",
        "trainings": table.origin["trainings"],
        "CPU time of all trainings": f"{float(table.origin['cpu_seconds']) / 60:.0f} minutes",
        "dates": table.origin["dates"],
    }


def print_ranking(space: str, folder: Path) -> None:
    """Print how well proxies rank the networks of a space, and with which data sets.

    Args:
        space: Name of the space.
        folder: Contains a run of `untrained bench` per data set.
    """
    results = {data: BenchmarkResult.read(folder / f"{space}-{data}") for data in BENCH_DATA}
    first = results[DATA]
    print(f"\n`{space}`, {len(first.archs)} networks, {first.made_on[:10]}:\n")
    heads = ("proxy", "Spearman (95 %)", "at equal size (95 %)", "regret of the best, points")
    print(f"| {' | '.join((*heads, *BENCH_DATA[1:]))} |\n|{'---|' * (len(heads) + 3)}")
    for row in first.proxy_results:
        regret = row.statistics["regret"]
        cells = [
            f"`{row.proxy}`",
            format_estimate(row.statistics["spearman"]),
            format_estimate(row.statistics["size_controlled"]),
            "" if regret is None else f"{regret.value:.1f}",
        ]
        for data in BENCH_DATA[1:]:
            others = {other.proxy: other for other in results[data].proxy_results}
            other_value = others[row.proxy].statistics["spearman"]
            cells.append("" if other_value is None else f"{other_value.value:.2f}")
        print(f"| {' | '.join(cells)} |")
    failed = [f"`{row.proxy}` on {row.failed}" for row in first.proxy_results if row.failed]
    print(f"\nNetworks without a score: {', '.join(failed) or 'none'}.")


def format_estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


if __name__ == "__main__":
    main()
