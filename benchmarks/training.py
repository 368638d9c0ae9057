"""Training on a GPU: how fast the loop is, and how far a small network gets that was found without labels.

    python benchmarks/training.py --part throughput [--device cuda] [--workers 4 8 16] [--steps 150]
    python benchmarks/training.py --part cifar --stage search [--minutes 5] [--workers 2]
    python benchmarks/training.py --part cifar --stage foresee [--minutes 9] [--device cuda]
    python benchmarks/training.py --part cifar --stage train table [--only found] [--recipe "cifar(epochs=200)"]

Throughput: images a second of the recipe, and of it without its bfloat16 and its replayed steps, beside a plain loop as
people write it, in float32, whose pictures are distorted one by one on the CPU by a DataLoader, with each number of
workers. Same network, same batch, both let cuDNN choose its kernels. A ratio is to the fastest plain loop.

CIFAR: the best of a search within a limit of parameters, the largest network that it judged, and one drawn from the
space at random within the same limit, all by one recipe. Without --stage all stages are done. Each goes on where it was
stopped, by the same command and after --minutes; `--only` lets several networks be trained side by side. In --out:
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
from untrained.workflows.train_subject import TrainingSubject, resolve_subject

BAR, ACCURACY, MINUTES = 3.0, 0.94, 10.0  # what the two parts are held against
PLACES = {  # networks that are quick, so that the loop shows, and small ones that reach far
    "throughput": "nasbench201",
    "cifar": "zen_resnet(max_layers=18)",
}
CELL = "|nor_conv_3x3~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"  # 0.86 M
STRATEGY = "evolution(population=128,tournament=16,children=16,dies=worst)"
CONTENDERS = {
    "found": "the best by {proxy} of {judged:,} judged",
    "params": "the largest of the same",
    "random": "drawn from the space within the same limit",
}


def main() -> None:
    asked = arguments()
    print(
        f"torch {torch.__version__}, {machine(asked.device)}, {asked.data}, {asked.space}",
        flush=True,
    )
    for work in (
        [throughput]
        if asked.part == "throughput"
        else [STAGES[stage] for stage in asked.stage or STAGES]
    ):
        work(asked)


def arguments() -> argparse.Namespace:
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
        help="; ".join(f"{part}: {space}" for part, space in PLACES.items()),
    )
    parser.add_argument("--recipe", default="cifar")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workers", type=int, nargs="+", default=None, help="of a DataLoader, or of the search"
    )
    parser.add_argument(
        "--network", default=CELL, help="of the space, whose throughput is measured"
    )
    parser.add_argument(
        "--steps", type=int, default=150, help="that are timed, after a fifth as many that are not"
    )
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=None)
    parser.add_argument(
        "--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="train these"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=9.0,
        help="a search, and each training, until it is stopped",
    )
    parser.add_argument("--proxy", default="zen")
    parser.add_argument("--strategy", default=STRATEGY)
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--max-params", default="1M")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-training"))
    asked = parser.parse_args()
    asked.space = asked.space or PLACES[asked.part]
    return asked


def machine(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()


# ---------------------------------------------------------------------------------------------------------- throughput


def throughput(asked: argparse.Namespace) -> None:
    full = load_recipe(asked.recipe)
    chosen = resolve_subject(
        asked.network, asked.space, asked.data, full, None, asked.device, asked.data_root
    )
    size = sum(p.numel() for p in chosen.build_network("cpu", asked.seed).parameters())
    batch = min(full.batch, len(chosen.source.parts[TRAIN]))
    print(f"`{chosen.arch}`: {size:,} parameters, batches of {batch}, {asked.steps} steps timed\n")
    print(f"| loop | images/s | times the fastest plain loop |\n|{'---|' * 3}")
    with fastest_kernels(asked.device):
        hands = asked.workers or [4, 8]
        rates = [batch * pace(plain(asked, chosen, full, workers), asked) for workers in hands]
        fastest = max(rates)
        for workers, rate in zip(hands, rates, strict=True):
            print(
                f"| plain, float32, {workers} workers | {rate:,.0f} | {rate / fastest:.2f} |",
                flush=True,
            )
        for kind in (replace(full, bf16=False, graphs=False), replace(full, graphs=False), full):
            rate = batch * pace(ours(asked, chosen, kind), asked)
            print(f"| {kind.label} | {rate:,.0f} | {rate / fastest:.2f} |", flush=True)
    verdict = "reached" if rate >= BAR * fastest else "missed"
    print(
        f"\n{rate / fastest:.2f} times the fastest plain loop; at least {BAR:g} were wanted: {verdict}"
    )


def pace(steps: Iterator[None], asked: argparse.Namespace) -> float:
    """Steps a second."""

    def passed(number: int) -> float:
        for _ in islice(steps, number):
            pass
        if asked.device.startswith("cuda"):
            torch.cuda.synchronize(asked.device)
        return perf_counter()

    start = passed(max(5, asked.steps // 5))
    return int(asked.steps) / (passed(asked.steps) - start)


def ours(asked: argparse.Namespace, chosen: TrainingSubject, how: Recipe) -> Iterator[None]:
    """The steps of a training, without what lies between its epochs."""
    process = SingleProcess(asked.device)
    network = chosen.build_network(process.device, asked.seed)
    training = Training(network, chosen.source, how, chosen.source.parts, process, asked.seed)
    training.model.train()
    for epoch in count():
        for batch in training.train_loader.training_batches(epoch):
            training.train_step(batch)
            yield


def plain(
    asked: argparse.Namespace, chosen: TrainingSubject, how: Recipe, workers: int
) -> Iterator[None]:
    """The steps of a loop as people write it."""
    model, part = chosen.build_network(asked.device, asked.seed).train(), chosen.source.parts[TRAIN]
    assert isinstance(part, ImagePart)
    loader = DataLoader(
        OneByOne(part, how), min(how.batch, len(part)), shuffle=True, drop_last=True, num_workers=workers,
        pin_memory=asked.device != "cpu", persistent_workers=workers > 0, generator=make_torch_generator("plain"),
    )  # fmt: skip
    optimiser = torch.optim.SGD(
        model.parameters(), how.rate, momentum=0.9, weight_decay=how.decay, nesterov=True
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=how.smoothing)
    for _ in count():
        for images, labels in loader:
            images, labels = (
                images.to(asked.device, non_blocking=True),
                labels.to(asked.device, non_blocking=True),
            )
            loss = criterion(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            yield


class OneByOne(Dataset[tuple[Tensor, int]]):
    """Every picture is opened, shifted, flipped, made normal and blanked in a square when it is asked for."""

    def __init__(self, part: ImagePart, how: Recipe) -> None:
        self.images, self.labels, self.how = part.images.numpy(), part.labels.tolist(), how
        self.mean, self.std = part.mean.reshape(-1, 1, 1), part.std.reshape(-1, 1, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[place])
        width, height = image.size
        left, top = torch.randint(2 * self.how.crop + 1, (2,)).tolist()
        image = ImageOps.expand(image, self.how.crop).crop((left, top, left + width, top + height))
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        pixels = (pixels - self.mean) / self.std
        row, column, half = (
            int(torch.randint(height, ())),
            int(torch.randint(width, ())),
            self.how.cutout // 2,
        )
        pixels[:, max(0, row - half) : row + half, max(0, column - half) : column + half] = 0
        return pixels, self.labels[place]


# --------------------------------------------------------------------------------------------------------------- CIFAR


def find(asked: argparse.Namespace) -> None:
    """Search, or go on searching, and write down the three networks."""
    done = search(
        asked.space, asked.proxy, asked.strategy, asked.budget, asked.data, time=f"{asked.minutes}m", seed=asked.seed,
        limits={"params": asked.max_params}, workers=asked.workers and asked.workers[0], run=asked.out / "search",
        data_root=asked.data_root,
    )  # fmt: skip
    sizes = {
        record.arch: record.value
        for record in done.records
        if record.proxy == "params" and record.value
    }
    judged = {standing.arch: standing.score for standing in done.ranking.standings}
    home, draws = load_space(asked.space), make_generator("benchmark", asked.space, asked.seed)
    drawn = ConstrainedSpace(home, Limits.parse(max_params=asked.max_params)).sample(draws)
    largest = max(judged, key=lambda arch: (sizes[arch], draws.random()))  # of equal ones, any
    archs = {"found": done.best, "params": largest, "random": drawn}
    facts = {
        "space": asked.space,
        "proxy": done.run.config.proxy,
        "judged": len(judged),
        "ended": done.run.ended,
    }
    networks = {
        name: {"arch": str(arch), "score": judged.get(arch)} for name, arch in archs.items()
    }
    told = json.dumps({**facts, "seconds": done.run.wall_seconds, "networks": networks}, indent=1)
    (asked.out / "networks.json").write_text(told + "\n")
    print(told, flush=True)


def foresee(asked: argparse.Namespace) -> None:
    """How many epochs of the recipe fit into the minutes, before any is done: a fifth of the time goes to judging."""
    facts, how = json.loads((asked.out / "networks.json").read_text()), load_recipe(asked.recipe)
    print(f"| network | images/s | epochs in {asked.minutes:g} minutes |\n|{'---|' * 3}")
    for name in asked.only:
        arch = facts["networks"][name]["arch"]
        chosen = resolve_subject(
            arch, facts["space"], asked.data, how, None, asked.device, asked.data_root
        )
        with fastest_kernels(asked.device):
            rate = pace(ours(asked, chosen, how), asked) * min(
                how.batch, len(chosen.source.parts[TRAIN])
            )
        epochs = int(0.8 * 60 * asked.minutes * rate / len(chosen.source.parts[TRAIN]))
        print(f"| {name} | {rate:,.0f} | {epochs} |", flush=True)


def learn(asked: argparse.Namespace) -> None:
    """Train them one after the other; those that are trained already are not trained again."""
    facts = json.loads((asked.out / "networks.json").read_text())
    for name in asked.only:
        begun, told = perf_counter(), set[int]()

        def tell(
            now: Progress, name: str = name, begun: float = begun, told: set[int] = told
        ) -> None:
            epoch = int(now.metrics["epoch"] or 0)
            if epoch % 10 == 1 and epoch not in told:
                told.add(epoch)
                loss = now.metrics["loss"] or 0
                accuracy = now.metrics["val_accuracy"] or 0
                reached = f"loss {loss:.3f}, val {100 * accuracy:.2f} %"
                print(
                    f"{name}: epoch {epoch} of {now.metrics['epochs']}, "
                    f"{perf_counter() - begun:.0f} s, {reached}",
                    flush=True,
                )

        done = train(
            facts["networks"][name]["arch"], asked.data, asked.recipe, space=facts["space"], run=asked.out / name,
            device=asked.device, seed=asked.seed, time=f"{asked.minutes}m", data_root=asked.data_root, on_progress=tell,
        )  # fmt: skip
        print(
            f"{name}: {done.ended}, test {100 * (done.accuracy or 0):.2f} %, {done.seconds:.0f} s",
            flush=True,
        )


def tabulate(asked: argparse.Namespace) -> None:
    """What was reached, as a table and as curves."""
    facts = json.loads((asked.out / "networks.json").read_text())
    done = {
        name: TrainingResult.read(asked.out / name)
        for name in CONTENDERS
        if (asked.out / name / "train.json").is_file()
    }
    rows = [{"network": name, **row} for name, found in done.items() for row in found.curve]
    with (asked.out / "curves.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]) if rows else ["network"])
        table.writeheader()
        table.writerows(rows)
    lines = [
        "| network | chosen | parameters | test accuracy | epochs | minutes | images/s while learning |",
        "|---|---|---|---|---|---|---|",
        *(f"| {name} | {CONTENDERS[name].format(**facts)} | {told(found)} |" for name, found in done.items()),
        "", *(f"- {name}: `{facts['networks'][name]['arch']}`\n  `{found.command}`" for name, found in done.items()),
    ]  # fmt: skip
    if best := done.get("found"):
        good = (
            (best.accuracy or 0) >= ACCURACY
            and best.seconds <= 60 * MINUTES
            and best.ended == "epochs"
        )
        lines += [
            "",
            f"At least {ACCURACY:.0%} in {MINUTES:g} minutes were wanted: {'reached' if good else 'missed'}.",
        ]
    (asked.out / "results.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def told(found: TrainingResult) -> str:
    facts: list[Any] = [
        f"{found.params:,}",
        f"{100 * (found.accuracy or 0):.2f} %",
        len(found.curve),
    ]
    facts += [f"{found.seconds / 60:.1f}", f"{found.samples_per_second:,.0f}"]
    return " | ".join(map(str, facts)) + (" (not at its end)" if found.ended == "time" else "")


STAGES = {"search": find, "foresee": foresee, "train": learn, "table": tabulate}

if __name__ == "__main__":
    main()
