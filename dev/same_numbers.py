"""Keep the numbers of a fixed set of commands, and compare them with those of another version of the package.

A change that must not move any number (a redesign, a renaming) is checked like this, on one machine:

    python dev/same_numbers.py keep before.json      # with the old version installed
    python dev/same_numbers.py keep after.json --archs before.json
    python dev/same_numbers.py compare before.json after.json

`keep` scores ten small architectures of every space with every proxy on small inputs, runs three searches, one training
and one benchmark, all through the command line, and writes every value with all its digits. It takes more than an hour
on one core and writes after every step; the same command resumes. `compare` lists every difference and exits with 1 if
there is one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Tables of known results, if they exist beside the checkout.
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ARCHS_PER_SPACE = 10
# The smallest of this many random architectures are taken: in some spaces a random one is huge.
SAMPLED_ARCHS = 60
SAMPLES = 4

# Small inputs keep the whole set affordable. Tables have no image size, so their spaces are not listed here.
INPUT_SHAPES = {
    "autoformer_tiny": "3x32x32",
    "autoformer_small": "3x32x32",
    "autoformer_base": "3x32x32",
    "mlp": "1x8x8",
    "mobilenetv2": "3x32x32",
    "transnas_micro": "3x32x32",
    "transnas_macro": "3x32x32",
}
DEFAULT_SHAPE = "3x16x16"
TABLE_SPACES = ("nasrec_small", "nasrec_full")

SEARCHES = {
    "random": ["--budget", "12", "--data", "digits", "--proxy", "dextr"],
    "evolution": [
        *("--strategy", "evolution(population=6,tournament=3,children=3)", "--budget", "15"),
        *("--proxy", "naswot(samples=8)", "--max-params", "1M", "--data", "noise", "--seeds", "2"),
    ],
    "aggregate": [
        *("--budget", "8", "--proxy", "az_nas(samples=4)", "--data", "digits", "--workers", "2"),
    ],
}
TRAINED_ARCH = (
    "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
)
TRAINING = [TRAINED_ARCH, "--data", "digits", "--recipe", "quick(epochs=2)"]
# The space is named, because the default space of `bench` is not the same in all versions.
BENCH = [
    *("--space", "nasbench201", "--samples", "10", "--data", "noise"),
    *("--proxy", "dextr,params,naswot(samples=8)"),
]


def run_command(arguments: list[str], folder: Path) -> Any:
    """Run one `untrained` command with `--json` and return its document."""
    command = [sys.executable, "-m", "untrained", *arguments, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    # Exit code 1 means that nothing could be scored, which is a result like any other here.
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} failed:\n{process.stderr}")
    return json.loads(process.stdout)


def list_proxies(folder: Path) -> list[str]:
    """Return every proxy, with few samples if it reads data."""
    proxies = []
    for row in run_command(["list", "proxies"], folder):
        name = row["name"]
        if "data" in row["needs"] and row["samples"] > SAMPLES:
            name = f"{name}(samples={SAMPLES})"
        proxies.append(name)
    return proxies


def sample_archs(space_name: str) -> list[str]:
    """Sample architectures with the installed version and return the smallest ones."""
    import numpy as np
    import torch

    import untrained

    rng = np.random.default_rng(7)
    space = untrained.load_space(space_name)
    sizes = {}
    for _ in range(SAMPLED_ARCHS):
        arch = space.sample(rng)
        with torch.device("meta"):
            network = space.build(arch)
        sizes[str(arch)] = sum(parameter.numel() for parameter in network.parameters())
    return sorted(sizes, key=lambda text: sizes[text])[:ARCHS_PER_SPACE]


def collect_values(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the values, or the texts of failures, by architecture, proxy and seed."""
    values = {}
    for row in rows:
        name = f"{row['arch']} | {row['proxy']} | seed {row['seed']}"
        if row["value"] is None:
            values[name] = f"failure: {row['error']}"
        else:
            # `repr` keeps all digits of a float.
            values[name] = repr(row["value"])
    return values


def keep_numbers(out: Path, archs_from: Path | None) -> None:
    """Run all commands and write their numbers, skipping those that the file already has."""
    numbers: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    earlier_archs = json.loads(archs_from.read_text())["archs"] if archs_from else {}
    numbers.setdefault("archs", {})

    def save(name: str, values: Any) -> None:
        numbers[name] = values
        out.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {len(values)} values", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        proxies = list_proxies(folder)
        spaces = [row["name"] for row in run_command(["list", "spaces"], folder)]
        # The most expensive spaces come last, so that an interrupted run has most of the values.
        spaces.sort(key=lambda name: name.startswith("autoformer"))
        for space in spaces:
            if earlier_archs and space not in earlier_archs:
                continue  # a space that the old version does not have
            numbers["archs"].setdefault(space, earlier_archs.get(space) or sample_archs(space))
            if f"scores of {space}" in numbers:
                continue
            arguments = ["score", *numbers["archs"][space], "--space", space]
            arguments += ["--proxy", ",".join(proxies)]
            if space in TABLE_SPACES:
                arguments += ["--data", "clicks:rows=400"]
            else:
                shape = INPUT_SHAPES.get(space, DEFAULT_SHAPE)
                arguments += ["--input-shape", shape, "--data", "noise"]
            save(f"scores of {space}", collect_values(run_command(arguments, folder)))
        for name, arguments in SEARCHES.items():
            if f"search {name}" not in numbers:
                rows = run_command(["search", *arguments, "--run", str(folder / name)], folder)
                save(f"search {name}", collect_values(rows))
                report = run_command(["report", str(folder / name)], folder)
                save(f"winner of search {name}", {"best": json.dumps(report.get("best"))})
        if "training" not in numbers:
            run_command(["train", *TRAINING, "--run", str(folder / "train")], folder)
            facts = json.loads((folder / "train" / "train.json").read_text())
            values = {"loss": repr(facts["loss"]), "accuracy": repr(facts["accuracy"])}
            for number, epoch in enumerate(facts["curve"], 1):
                values[f"epoch {number}"] = repr(
                    (epoch["loss"], epoch["val_loss"], epoch["val_accuracy"])
                )
            save("training", values)
        if "bench" not in numbers and SHARED.is_dir():
            data_root = ["--data-root", str(folder / "data")]
            table = ["nasbench201", str(SHARED / "nasbench201")]
            run_command(["data", "import", *table, *data_root], folder)
            run = ["--run", str(folder / "bench")]
            rows = run_command(["bench", *BENCH, *data_root, *run], folder)
            save("bench", {row["proxy"]: repr(row["spearman"]) for row in rows})
    print(f"kept in {out}")


def drop_detail(value: str | None) -> str | None:
    """Reduce a failure to its kind, because the two versions may word its reason differently."""
    if value is None or not value.startswith("failure: "):
        return value
    return ":".join(value.split(":")[:2])


def compare_numbers(before: Path, after: Path) -> int:
    """Print every difference and return how many there are."""
    old = json.loads(before.read_text())
    new = json.loads(after.read_text())
    differences = 0
    compared = 0
    for group in sorted(set(old) | set(new)):
        old_values = old.get(group, {})
        new_values = new.get(group, {})
        # Proxies that only the new version has are not compared.
        for name in sorted(old_values):
            if group == "archs":
                continue
            compared += 1
            old_value = drop_detail(old_values.get(name))
            new_value = drop_detail(new_values.get(name))
            if old_value != new_value:
                differences += 1
                print(f"{group}: {name}: {old_value} became {new_value}")
    print(f"{compared} values compared, {differences} differ")
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    keep_parser = commands.add_parser("keep")
    keep_parser.add_argument("out", type=Path)
    keep_parser.add_argument(
        "--archs", type=Path, help="Take the architectures from an earlier file."
    )
    compare_parser = commands.add_parser("compare")
    compare_parser.add_argument("before", type=Path)
    compare_parser.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "keep":
        keep_numbers(options.out, options.archs)
    else:
        sys.exit(1 if compare_numbers(options.before, options.after) else 0)


if __name__ == "__main__":
    main()
