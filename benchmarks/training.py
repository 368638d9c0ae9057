"""Measure training on a GPU: the speed of the loop, and the accuracy of a small network that was found without labels.

    python benchmarks/training.py --part throughput [--device cuda] [--workers 4 8 16] [--steps 150]
    python benchmarks/training.py --part cifar --stage search [--minutes 5] [--workers 2]
    python benchmarks/training.py --part cifar --stage estimate [--minutes 9] [--device cuda]
    python benchmarks/training.py --part cifar --stage train table [--only winner] [--recipe "cifar(epochs=200)"]

Throughput: images per second of the recipe, also without bfloat16 and replayed steps, compared with a plain loop in
float32 whose images are augmented one by one on the CPU by a DataLoader, for each number of workers. Both use the same
network and batch, and let cuDNN choose its kernels. Ratios are relative to the fastest plain loop.

CIFAR: the winner of a search with a limit on parameters, the largest network that it scored, and a random network
within the same limit are trained with one recipe. Without --stage all stages run. The same command resumes a stage
that was interrupted or stopped after --minutes; with `--only` several networks can be trained in parallel. --out holds
networks.json, the folders of the trainings, curves.csv and results.md.
"""

import argparse
import csv
import json
import platform
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from untrained.config import Limits
from untrained.data.parts import TRAIN, ImagePart
from untrained.probe.guard import fastest_kernels
from untrained.progress import Progress
from untrained.seeds import make_generator, make_torch_generator
from untrained.spaces import load_space
from untrained.strategies.limits import ConstrainedSpace
from untrained.training.distributed import SingleProcess
from untrained.training.loop import Training
from untrained.training.recipes import Recipe, load_recipe
from untrained.training.result import TrainingResult
from untrained.workflows.search import search
from untrained.workflows.train import train
from untrained.workflows.training_setup import TrainingSetup, prepare_training

# Goals of the two parts.
MIN_SPEEDUP = 3.0
MIN_ACCURACY = 0.94
MAX_MINUTES = 10.0
DEFAULT_SPACES = {
    "throughput": "nasbench201",  # fast networks, so that the loop matters
    "cifar": "zen_resnet(max_layers=18)",  # small and accurate networks
}
CELL = "|nor_conv_3x3~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"  # 0.86 M
STRATEGY = "evolution(population=128,tournament=16,children=16,dies=worst)"
NETWORKS = {
    "winner": "the best by {proxy} of {scored:,} scored",
    "params": "the largest of the same",
    "random": "random within the same limit",
}


def main() -> None:
    options = parse_options()
    print(
        f"torch {torch.__version__}, {describe_machine(options.device)}, {options.data}, {options.space}",
        flush=True,
    )
    if options.part == "throughput":
        measure_throughput(options)
        return
    for stage in options.stage or STAGES:
        STAGES[stage](options)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("throughput", "cifar"), required=True)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--space",
        default=None,
        help="; ".join(f"{part}: {space}" for part, space in DEFAULT_SPACES.items()),
    )
    parser.add_argument("--recipe", default="cifar")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=None,
        help="processes of the DataLoader or of the search",
    )
    parser.add_argument("--network", default=CELL, help="architecture whose throughput is measured")
    parser.add_argument(
        "--steps", type=int, default=150, help="timed steps, after a fifth as many for warm-up"
    )
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=None)
    parser.add_argument(
        "--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="train these"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=9.0,
        help="time limit of the search and of each training",
    )
    parser.add_argument("--proxy", default="zen")
    parser.add_argument("--strategy", default=STRATEGY)
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--max-params", default="1M")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-training"))
    options = parser.parse_args()
    options.space = options.space or DEFAULT_SPACES[options.part]
    return options


def describe_machine(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()


# ---------------------------------------------------------------------------------------------------------- throughput


def measure_throughput(options: argparse.Namespace) -> None:
    recipe = load_recipe(options.recipe)
    setup = prepare_training(
        options.network,
        options.space,
        options.data,
        recipe,
        None,
        options.device,
        options.data_root,
    )
    size = sum(p.numel() for p in setup.build_network("cpu", options.seed).parameters())
    batch = min(recipe.batch, len(setup.source.parts[TRAIN]))
    print(f"`{setup.arch}`: {size:,} parameters, batches of {batch}, {options.steps} steps timed\n")
    print(f"| loop | images/s | relative to the fastest plain loop |\n|{'---|' * 3}")
    with fastest_kernels(options.device):
        worker_counts = options.workers or [4, 8]
        rates = []
        for workers in worker_counts:
            steps = run_plain_steps(options, setup, recipe, workers)
            rates.append(batch * measure_rate(steps, options))
        fastest = max(rates)
        for workers, rate in zip(worker_counts, rates, strict=True):
            print(
                f"| plain, float32, {workers} workers | {rate:,.0f} | {rate / fastest:.2f} |",
                flush=True,
            )
        for variant in (
            replace(recipe, bf16=False, graphs=False),
            replace(recipe, graphs=False),
            recipe,
        ):
            rate = batch * measure_rate(run_our_steps(options, setup, variant), options)
            print(f"| {variant.label} | {rate:,.0f} | {rate / fastest:.2f} |", flush=True)
    verdict = "reached" if rate >= MIN_SPEEDUP * fastest else "missed"
    print(
        f"\n{rate / fastest:.2f} times the fastest plain loop; at least {MIN_SPEEDUP:g} is the goal: {verdict}"
    )


def measure_rate(steps: Iterator[None], options: argparse.Namespace) -> float:
    """Return the number of steps per second."""

    def run_steps(number: int) -> float:
        """Run some steps and return the time of the clock at their end."""
        for _ in islice(steps, number):
            pass
        if options.device.startswith("cuda"):
            torch.cuda.synchronize(options.device)
        return perf_counter()

    start = run_steps(max(5, options.steps // 5))
    end = run_steps(options.steps)
    return int(options.steps) / (end - start)


def run_our_steps(
    options: argparse.Namespace, setup: TrainingSetup, recipe: Recipe
) -> Iterator[None]:
    """Run the steps of our training, without the work between epochs."""
    process = SingleProcess(options.device)
    network = setup.build_network(process.device, options.seed)
    training = Training(network, setup.source, recipe, setup.source.parts, process, options.seed)
    training.model.train()
    for epoch in count():
        for batch in training.train_loader.iterate_training_batches(epoch):
            training.train_step(batch)
            yield


def run_plain_steps(
    options: argparse.Namespace, setup: TrainingSetup, recipe: Recipe, workers: int
) -> Iterator[None]:
    """Run the steps of an ordinary training loop."""
    model = setup.build_network(options.device, options.seed).train()
    part = setup.source.parts[TRAIN]
    assert isinstance(part, ImagePart)
    loader = DataLoader(
        ImageByImage(part, recipe),
        min(recipe.batch, len(part)),
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=options.device != "cpu",
        persistent_workers=workers > 0,
        generator=make_torch_generator("plain"),
    )
    optimiser = torch.optim.SGD(
        model.parameters(), recipe.rate, momentum=0.9, weight_decay=recipe.decay, nesterov=True
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing)
    for _ in count():
        for images, labels in loader:
            images = images.to(options.device, non_blocking=True)
            labels = labels.to(options.device, non_blocking=True)
            loss = criterion(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            yield


class ImageByImage(Dataset[tuple[Tensor, int]]):
    """Opens, shifts, flips, normalises and cuts out every image when it is requested."""

    def __init__(self, part: ImagePart, recipe: Recipe) -> None:
        self.images = part.images.numpy()
        self.labels = part.labels.tolist()
        self.recipe = recipe
        self.mean = part.mean.reshape(-1, 1, 1)
        self.std = part.std.reshape(-1, 1, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[place])
        width, height = image.size
        left, top = torch.randint(2 * self.recipe.crop + 1, (2,)).tolist()
        image = ImageOps.expand(image, self.recipe.crop).crop(
            (left, top, left + width, top + height)
        )
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        pixels = (pixels - self.mean) / self.std
        row = int(torch.randint(height, ()))
        column = int(torch.randint(width, ()))
        half = self.recipe.cutout // 2
        pixels[:, max(0, row - half) : row + half, max(0, column - half) : column + half] = 0
        return pixels, self.labels[place]


# --------------------------------------------------------------------------------------------------------------- CIFAR


def search_networks(options: argparse.Namespace) -> None:
    """Search, or resume the search, and write the three networks to networks.json."""
    result = search(
        options.space,
        options.proxy,
        options.strategy,
        options.budget,
        options.data,
        time=f"{options.minutes}m",
        seed=options.seed,
        limits={"params": options.max_params},
        workers=options.workers and options.workers[0],
        run=options.out / "search",
        data_root=options.data_root,
    )
    sizes = {
        record.arch: record.value
        for record in result.records
        if record.proxy == "params" and record.value
    }
    scores = {standing.arch: standing.score for standing in result.ranking.standings}
    space = load_space(options.space)
    rng = make_generator("benchmark", options.space, options.seed)
    random_arch = ConstrainedSpace(space, Limits.parse(max_params=options.max_params)).sample(rng)
    largest = max(scores, key=lambda arch: (sizes[arch], rng.random()))  # ties are broken at random
    archs = {"winner": result.best, "params": largest, "random": random_arch}
    facts = {
        "space": options.space,
        "proxy": result.run.config.proxy,
        "scored": len(scores),
        "ended": result.run.end_reason,
    }
    networks = {
        name: {"arch": str(arch), "score": scores.get(arch)} for name, arch in archs.items()
    }
    text = json.dumps({**facts, "seconds": result.run.wall_seconds, "networks": networks}, indent=1)
    (options.out / "networks.json").write_text(text + "\n")
    print(text, flush=True)


def estimate_epochs(options: argparse.Namespace) -> None:
    """Estimate how many epochs of the recipe fit into --minutes; evaluation takes a fifth of the time."""
    facts = json.loads((options.out / "networks.json").read_text())
    recipe = load_recipe(options.recipe)
    print(f"| network | images/s | epochs in {options.minutes:g} minutes |\n|{'---|' * 3}")
    for name in options.only:
        arch = facts["networks"][name]["arch"]
        setup = prepare_training(
            arch, facts["space"], options.data, recipe, None, options.device, options.data_root
        )
        sample_count = len(setup.source.parts[TRAIN])
        with fastest_kernels(options.device):
            steps_per_second = measure_rate(run_our_steps(options, setup, recipe), options)
        rate = steps_per_second * min(recipe.batch, sample_count)
        epochs = int(0.8 * 60 * options.minutes * rate / sample_count)
        print(f"| {name} | {rate:,.0f} | {epochs} |", flush=True)


def train_networks(options: argparse.Namespace) -> None:
    """Train the networks one after the other; finished trainings are not repeated."""
    facts = json.loads((options.out / "networks.json").read_text())
    for name in options.only:
        start = perf_counter()
        printed_epochs = set[int]()

        def print_progress(
            event: Progress,
            name: str = name,
            start: float = start,
            printed_epochs: set[int] = printed_epochs,
        ) -> None:
            epoch = int(event.metrics["epoch"] or 0)
            if epoch % 10 == 1 and epoch not in printed_epochs:
                printed_epochs.add(epoch)
                loss = event.metrics["loss"] or 0
                accuracy = event.metrics["val_accuracy"] or 0
                print(
                    f"{name}: epoch {epoch} of {event.metrics['epochs']}, "
                    f"{perf_counter() - start:.0f} s, loss {loss:.3f}, val {100 * accuracy:.2f} %",
                    flush=True,
                )

        result = train(
            facts["networks"][name]["arch"],
            options.data,
            options.recipe,
            space=facts["space"],
            run=options.out / name,
            device=options.device,
            seed=options.seed,
            time=f"{options.minutes}m",
            data_root=options.data_root,
            on_progress=print_progress,
        )
        print(
            f"{name}: {result.end_reason}, test {100 * (result.accuracy or 0):.2f} %, {result.seconds:.0f} s",
            flush=True,
        )


def write_results(options: argparse.Namespace) -> None:
    """Write the results as a table and as learning curves."""
    facts = json.loads((options.out / "networks.json").read_text())
    results = {
        name: TrainingResult.read(options.out / name)
        for name in NETWORKS
        if (options.out / name / "train.json").is_file()
    }
    rows = [{"network": name, **row} for name, result in results.items() for row in result.curve]
    with (options.out / "curves.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]) if rows else ["network"])
        table.writeheader()
        table.writerows(rows)
    lines = [
        "| network | selection | parameters | test accuracy | epochs | minutes | images/s in training |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {NETWORKS[name].format(**facts)} | {format_result(result)} |"
            for name, result in results.items()
        ),
        "",
        *(
            f"- {name}: `{facts['networks'][name]['arch']}`\n  `{result.command}`"
            for name, result in results.items()
        ),
    ]
    if best := results.get("winner"):
        is_reached = (
            (best.accuracy or 0) >= MIN_ACCURACY
            and best.seconds <= 60 * MAX_MINUTES
            and best.end_reason == "epochs"
        )
        lines += [
            "",
            f"The goal of {MIN_ACCURACY:.0%} in {MAX_MINUTES:g} minutes is "
            f"{'reached' if is_reached else 'missed'}.",
        ]
    (options.out / "results.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def format_result(result: TrainingResult) -> str:
    facts: list[Any] = [
        f"{result.params:,}",
        f"{100 * (result.accuracy or 0):.2f} %",
        len(result.curve),
    ]
    facts += [f"{result.seconds / 60:.1f}", f"{result.samples_per_second:,.0f}"]
    suffix = " (stopped early)" if result.end_reason == "time" else ""
    return " | ".join(map(str, facts)) + suffix


STAGES = {
    "search": search_networks,
    "estimate": estimate_epochs,
    "train": train_networks,
    "table": write_results,
}

if __name__ == "__main__":
    main()
