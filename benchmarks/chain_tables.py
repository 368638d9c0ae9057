"""Train random networks of the two spaces of `chain_spaces.py` briefly, as a table of known results.

    python benchmarks/chain_tables.py --data-root DATA --run runs/chains

The folder gets a table per space, `mobile_chain.csv` and `residual_chain.csv`, in the form that
`untrained bench --table` reads. A line is appended per training, so the same command resumes, and
larger counts continue. Networks are drawn uniformly from a space. The recipe is that of
`own_table.py` for `convnet`, with 6 epochs instead of 10.
"""

import argparse
import csv
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import process_time

import own_table
import torch
from own_table import (  # the script beside this one
    Recipe,
    append_result,
    measure_accuracy,
    train_network,
)

from untrained.data import load_data, set_input_size
from untrained.seeds import derive_seed, make_generator, make_torch_generator
from untrained.spaces import Space, load_space
from untrained.training.memory import keep_freed_memory
from untrained.types import Arch, Batch, Task

SPACES_FILE = Path(__file__).parent / "chain_spaces.py"
EPOCHS = 6
COUNTS = {"mobile_chain": 60, "residual_chain": 90}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="Folder of the tables.")
    parser.add_argument("--data-root", type=Path, help="Folder that contains CIFAR-10.")
    for name, count in COUNTS.items():
        option = f"--{name.replace('_', '-')}s"
        parser.add_argument(option, type=int, default=count, help="Number of networks.")
    options = parser.parse_args()
    # One thread, because these networks are too small for several.
    torch.set_num_threads(1)
    keep_freed_memory()
    options.run.mkdir(parents=True, exist_ok=True)
    counts = {name: getattr(options, f"{name}s") for name in COUNTS}
    spaces = {name: load_space(f"{SPACES_FILE}:{name}") for name in COUNTS}
    task = next(iter(spaces.values())).task
    source = load_data(own_table.DATA, set_input_size(task, own_table.SIDE), options.data_root)
    samples = source.batch(own_table.TRAIN_SAMPLES + own_table.EVALUATION_SAMPLES)
    for index in range(max(counts.values())):
        for name, space in spaces.items():
            path = options.run / f"{name}.csv"
            arch = sample_network(space, name, index)
            if index < counts[name] and str(arch) not in read_archs(path):
                row = train_and_evaluate(space, name, arch, samples, source.task)
                append_result(path, row)
                print(f"{name} {index}: {row['accuracy']} %, {row['cpu_seconds']} s", flush=True)


def sample_network(space: Space, name: str, index: int) -> Arch:
    return space.sample(make_generator("chain table", name, index))


def train_and_evaluate(
    space: Space, name: str, arch: Arch, samples: Batch, task: Task
) -> dict[str, object]:
    """Train a network and return its line of the table."""
    start = process_time()
    split = own_table.TRAIN_SAMPLES
    train_samples = Batch(samples.inputs[:split], samples.targets[:split])
    evaluation_samples = Batch(samples.inputs[split:], samples.targets[split:])
    torch.manual_seed(derive_seed("chain table", "weights", name, arch))
    model = space.build(arch, task)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = make_torch_generator("chain table", "order", name, arch)
    recipe = find_recipe(name)
    train_network(model, train_samples, recipe, generator)
    return {
        "arch": str(arch),
        "accuracy": round(measure_accuracy(model, evaluation_samples), 3),
        "cpu_seconds": round(process_time() - start, 1),
        "date": date.today().isoformat(),
    }


def find_recipe(name: str) -> Recipe:
    """Return the recipe of `convnet` with fewer epochs, for another space."""
    recipes = {recipe.space: recipe for recipe in own_table.RECIPES}
    return replace(recipes["convnet"], space=name, epochs=EPOCHS)


def read_archs(path: Path) -> set[str]:
    """Return the architectures that have a result."""
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {row["arch"] for row in csv.DictReader(file)}


if __name__ == "__main__":
    main()
