"""Compare the one command with networks written by hand that get the same time.

    python benchmarks/one_command.py --shared ../shared/data --work runs/one-command --time 5m

For every data set and limit, `untrained search --data ... --max-params ... --time ... --export`
delivers a model. Every known design of the space `convnet` (ResNet, MobileNetV2, ...), scaled to
the same limit, gets the same time on the same machine: a quarter for choosing one of three learning
rates, the rest for training on all samples, with the same recipe. All models are evaluated on the
same test pictures, which nobody saw before.

Results are written to `results.json` in the work folder as they come, and the same command resumes.
`--variant` switches a part of the command off: `ranking` (candidates in random order), `contest`
(the first of the ranking is trained), `space` (NAS-Bench-201 instead of `convnet`).
"""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from untrained.config import ComputeConfig, Limits
from untrained.data import DataSource, load_data
from untrained.data.parts import ImagePart
from untrained.data.registry import belongs_to_user
from untrained.files import write_atomically
from untrained.quantities import parse_duration
from untrained.reports.contest_result import ContestEntry
from untrained.runs.winner import read_winner
from untrained.spaces import load_space
from untrained.strategies.limits import ConstrainedSpace
from untrained.training.adaptation import adapt_recipe
from untrained.training.checkpoint import WEIGHTS_FILE, load_tensors
from untrained.training.recipes import get_default_recipe_name, load_recipe
from untrained.training.result import TrainingResult
from untrained.types import Arch
from untrained.workflows.contest import (
    RATE_FACTORS,
    ContestSettings,
    get_weights_path,
    run_contest,
)
from untrained.workflows.final_training import MAX_EPOCHS, estimate_epoch_seconds
from untrained.workflows.train import train

SPACE = "convnet"
TRAIN_COUNT = 2000
TEST_COUNT = 1000
RATE_SHARE = 0.25  # of the time of a known design, for choosing its learning rate
VARIANTS = {
    "": [],
    "ranking": ["--proxy", "random"],
    "contest": ["--no-confirm"],
    "space": ["--space", "nasbench201"],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, required=True, help="Folder of the data sets.")
    parser.add_argument("--work", type=Path, required=True, help="Folder of runs and results.")
    parser.add_argument("--sets", default="cifar10,fashion_mnist,mnist,digits,cifar100,tiny")
    parser.add_argument("--limits", default="100k,500k")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--time", default="5m")
    parser.add_argument("--variant", default="", choices=list(VARIANTS))
    parser.add_argument("--without-designs", action="store_true", help="Run the command only.")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = Results(options.work / "results.json")
    for seed in range(options.seeds):
        for name in options.sets.split(","):
            data = write_pictures(name, options.shared, options.work)
            for limit in options.limits.split(","):
                case = Case(name, data, limit, seed, options.time, options.variant, options.work)
                results.add(case.key, "command", case.run_command)
                if not options.without_designs and not options.variant:
                    for design, arch in case.list_designs().items():
                        run_design = case.make_design_runner(design, arch)
                        results.add(case.key, design, run_design)
    results.print_table()


class Results:
    """Results by case and network, in a file that is written after every network."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cases: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self._cases = json.loads(path.read_text())

    def add(self, case: str, network: str, run: Any) -> None:
        """Run a network unless its result is in the file."""
        rows = self._cases.setdefault(case, {})
        if network in rows:
            return
        start = perf_counter()
        row = run()
        row["seconds"] = round(perf_counter() - start, 1)
        row["date"] = str(date.today())
        rows[network] = row
        write_atomically(self._path, json.dumps(self._cases, indent=1) + "\n")
        print(f"{case}: {network}: {row}", flush=True)

    def print_table(self) -> None:
        """Print one line per case: the command, and the best known design."""
        print("| case | command | best known design | difference |")
        print("|---|---|---|---|")
        for case, rows in self._cases.items():
            designs = {name: row["accuracy"] for name, row in rows.items() if name != "command"}
            if "command" not in rows or not designs:
                continue
            accuracy = rows["command"]["accuracy"]
            best = max(designs, key=lambda name: designs[name])
            difference = accuracy - designs[best]
            print(
                f"| {case} | {100 * accuracy:.1f} | {best} {100 * designs[best]:.1f} | "
                f"{100 * difference:+.1f} |"
            )


def write_pictures(name: str, shared: Path, work: Path) -> Path:
    """Write the training and the test pictures of a data set as two npz files; return the first."""
    path = work / f"{name}.npz"
    if path.is_file():
        return path
    x, y, x_test, y_test = read_pictures(name, shared)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(x))[:TRAIN_COUNT]
    test_rows = rng.permutation(len(x_test))[:TEST_COUNT]
    np.savez(work / f"{name}-test.npz", x=x_test[test_rows], y=y_test[test_rows])
    np.savez(path, x=x[rows], y=y[rows])
    return path


def read_pictures(name: str, shared: Path) -> tuple[np.ndarray, ...]:
    """Return training pictures, labels, test pictures and labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        pictures = (digits.images * 255 / 16).round().astype(np.uint8)
        rows = np.random.default_rng(1).permutation(len(pictures))
        test_rows = rows[:500]
        train_rows = rows[500:]
        return (
            pictures[train_rows],
            digits.target[train_rows],
            pictures[test_rows],
            digits.target[test_rows],
        )
    files = {
        "cifar10": "cifar10/subset_2000_1000.npz",
        "cifar100": "cifar100_partial/cifar100_first_images.npz",
        "fashion_mnist": "fashion_mnist/fashion_mnist_10k_2k.npz",
        "mnist": "mnist/mnist.npz",
        "tiny": "tiny_imagenet16/subset_2000_1000.npz",
    }
    with np.load(shared / files[name]) as arrays:
        return tuple(arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))


class Case:
    """One data set with one limit, seed and time."""

    def __init__(
        self, name: str, data: Path, limit: str, seed: int, time: str, variant: str, work: Path
    ) -> None:
        self.key = f"{name}, {limit}, seed {seed}, {time}"
        if variant:
            self.key += f", without {variant}"
        self._data = f"npz:{data.resolve()}"
        self._test = data.with_name(f"{name}-test.npz")
        self._limit = limit
        self._seed = seed
        self._time = time
        self._variant = variant
        self._folder = work / self.key.replace(", ", "-").replace(" ", "")

    def run_command(self) -> dict[str, Any]:
        """Run the one command as a user does, and evaluate its model."""
        run = self._folder / "run"
        command = [sys.executable, "-m", "untrained", "search"]
        command += ["--data", self._data, "--max-params", self._limit, "--time", self._time]
        command += ["--seed", str(self._seed), "--run", str(run)]
        command += ["--export", str(self._folder / "model"), *VARIANTS[self._variant]]
        subprocess.run(command, check=True)
        winner = read_winner(run)
        row = self._evaluate(run, winner.arch, winner.space)
        contest_file = run / "contest.json"
        if contest_file.is_file():
            contest = json.loads(contest_file.read_text())
            for entry in contest["entries"]:
                if entry["number"] == contest["winner_number"]:
                    row["selections"] = entry["selections"]
        return row

    def list_designs(self) -> dict[str, Arch]:
        """Return the known designs that satisfy the limit."""
        space = load_space(SPACE)
        limits = Limits.parse(max_params=self._limit)
        return ConstrainedSpace(space, limits, self._load_source().task).list_known_designs()

    def make_design_runner(self, name: str, arch: Arch) -> Any:
        def run() -> dict[str, Any]:
            return self._run_design(name, arch)

        return run

    def _run_design(self, name: str, arch: Arch) -> dict[str, Any]:
        """Choose the learning rate of a known design, train it on all samples, and evaluate it."""
        start = perf_counter()
        seconds = parse_duration(self._time)
        source = self._load_source()
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        recipe_name = get_default_recipe_name(source.task, belongs_to_user(self._data))
        recipe = adapt_recipe(load_recipe(recipe_name), source)
        settings = ContestSettings(
            space=SPACE,
            data=self._data,
            source=source,
            recipe=recipe,
            seconds=RATE_SHARE * seconds,
            seed=self._seed,
            compute=ComputeConfig(),
            folder=folder,
            search_key=name,
        )
        entries = []
        for number, factor in enumerate((1.0, *RATE_FACTORS), 1):
            entry = ContestEntry(number, str(arch), (name,), float(f"{factor * recipe.rate:.2g}"))
            entries.append(entry)
        contest = run_contest(entries, {str(arch): arch}, settings)
        assert contest is not None
        remaining = 0.95 * seconds - (perf_counter() - start)
        epochs = int(remaining / estimate_epoch_seconds(contest))
        rate = contest.winning_entry.rate
        final = recipe.with_options(epochs=max(1, min(epochs, MAX_EPOCHS)), rate=rate)
        train(
            str(arch),
            self._data,
            final.label,
            space=SPACE,
            seed=self._seed,
            refit=True,
            start=get_weights_path(folder, contest.winner_number),
            run=folder / "training",
        )
        return self._evaluate(folder / "training", arch, SPACE)

    def _load_source(self) -> DataSource:
        return load_data(self._data, load_space(SPACE).task, None)

    def _evaluate(self, folder: Path, arch: Arch, space: str) -> dict[str, Any]:
        """Evaluate the trained network of a folder on the test pictures."""
        training = TrainingResult.read(folder)
        shape = tuple(training.task["input_shape"])
        task = replace(
            load_space(space).task, input_shape=shape, num_classes=training.task["num_classes"]
        )
        network = load_space(space).build(arch, task)
        network.load_state_dict(load_tensors(folder / WEIGHTS_FILE))
        source = load_data(f"npz:{self._test.resolve()}", task, None)
        correct = 0
        count = 0
        mean = torch.tensor(training.normalisation["mean"]).reshape(1, -1, 1, 1)
        std = torch.tensor(training.normalisation["std"]).reshape(1, -1, 1, 1)
        with torch.no_grad():
            for part in source.parts.values():
                assert isinstance(part, ImagePart)
                pixels = part.images.permute(0, 3, 1, 2).float() / 255
                logits = network.eval()((pixels - mean) / std)
                correct += int((logits.argmax(1) == part.labels).sum())
                count += len(part)
        accuracy = correct / count
        return {
            "accuracy": accuracy,
            "standard_error": (accuracy * (1 - accuracy) / count) ** 0.5,
            "params": training.params,
            "epochs": len(training.curve),
            "arch": str(arch),
        }


if __name__ == "__main__":
    main()
