"""Compare the first estimate that a command prints with the time that it takes.

    python benchmarks/estimates.py [--work runs/estimates] [--only NAME ...]

Ten commands of different kinds run one after another, as a user types them. Each prints how long it will take
(`about 20 s for 100 architectures`, or a plan such as `at most 1 min: about 5 s scoring, ...`). The first of these
estimates is compared with the seconds from the start of the command to its end, including the time before the
estimate was printed. The goal is a factor of at most 1.5 in either direction.

Results are written after each command to `estimates.json` in the folder, and commands with a result are not
repeated. Nothing else should run on the machine.
"""

import argparse
import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits, make_classification

MAX_FACTOR = 1.5
# The commands, without the name of the program. `{work}` is the folder with the data.
COMMANDS = {
    "demo": "search",
    "search, few networks": "search --space convnet --data digits --budget 40 --confirm 0",
    "search, one proxy": "search --space nasbench201 --proxy naswot --budget 200",
    "search, evolution": "search --strategy evolution --proxy dextr --budget 100",
    "search, large networks": "search --space darts --proxy dextr --budget 40",
    "benchmark": "bench",
    "calibration": "calibrate --space convnet --data digits --trainings 10",
    "pictures, 1 minute": (
        "search --data npz:{work}/digits.npz --max-params 50k --time 1m --export {work}/model-1"
    ),
    "pictures, 3 minutes": (
        "search --data npz:{work}/digits.npz --max-params 200k --time 3m --export {work}/model-2"
    ),
    "table, 1 minute": (
        "search --data csv:{work}/table.csv --label label --time 1m --export {work}/model-3"
    ),
}
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
DURATION = r"[\d.]+ (?:ms|s|min|h)(?: \d+ (?:s|min))?"
ESTIMATE = re.compile(rf"^(?:about|at most) ({DURATION})\b")


@dataclass(frozen=True)
class Comparison:
    """The estimate of a command, and how long it really took.

    Attributes:
        command: The command, as a user types it.
        line: The line with the first estimate; empty if there was none.
        estimated_seconds: The estimate; None if there was none.
        printed_after: Seconds from the start of the command to this line.
        seconds: Seconds from the start of the command to its end.
        date: Day of the run.
    """

    command: str
    line: str
    estimated_seconds: float | None
    printed_after: float | None
    seconds: float
    date: str

    @property
    def factor(self) -> float | None:
        """Measured seconds divided by estimated seconds."""
        if not self.estimated_seconds:
            return None
        return self.seconds / self.estimated_seconds


def main() -> None:
    options = parse_options()
    options.work.mkdir(parents=True, exist_ok=True)
    write_data(options.work)
    results_path = options.work / "estimates.json"
    results: dict[str, dict[str, object]] = {}
    if results_path.exists():
        results = json.loads(results_path.read_text())
    for name in options.only or COMMANDS:
        if name not in results:
            results[name] = asdict(run_command(name, options.work))
            results_path.write_text(json.dumps(results, indent=1) + "\n")
        print(describe_comparison(name, Comparison(**results[name])), flush=True)  # type: ignore[arg-type]
    factors = [Comparison(**row).factor for row in results.values()]  # type: ignore[arg-type]
    good = [f for f in factors if f is not None and 1 / MAX_FACTOR <= f <= MAX_FACTOR]
    print(f"{len(good)} of {len(factors)} estimates are within a factor of {MAX_FACTOR}")


def run_command(name: str, work: Path) -> Comparison:
    """Run a command, and note when it prints the first estimate.

    Raises:
        SystemExit: The command failed.
    """
    words = shlex.split(COMMANDS[name].format(work=work))
    command = shlex.join(["untrained", *shlex.split(COMMANDS[name].format(work="DATA"))])
    run = work / "runs" / name.replace(" ", "-").replace(",", "")
    # An earlier run would be resumed.
    shutil.rmtree(run, ignore_errors=True)
    words += ["--run", str(run)]
    code = "from untrained.cli.app import main; main()"
    start = perf_counter()
    line = ""
    printed_after = None
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    messages = []
    for message in process.stderr:
        messages.append(message)
        if not line and ESTIMATE.match(message):
            line = message.strip()
            printed_after = perf_counter() - start
    if process.wait() != 0:
        raise SystemExit("".join([*messages, f"{command}: exit code {process.returncode}"]))
    seconds = perf_counter() - start
    estimated = parse_estimate(line) if line else None
    return Comparison(command, line, estimated, printed_after, seconds, date.today().isoformat())


def parse_estimate(line: str) -> float:
    """Return the seconds of the first duration of a line."""
    match = ESTIMATE.match(line)
    if match is None:
        raise ValueError(f"no estimate in {line!r}")
    words = match[1].split()
    seconds = 0.0
    for number, unit in zip(words[::2], words[1::2], strict=True):
        seconds += float(number) * SECONDS_PER_UNIT[unit]
    return seconds


def describe_comparison(name: str, comparison: Comparison) -> str:
    """Return a row of a Markdown table."""
    if comparison.factor is None:
        return f"| {name} | `{comparison.command}` | none | {comparison.seconds:.0f} s | |"
    return (
        f"| {name} | `{comparison.command}` | {comparison.estimated_seconds:.0f} s after "
        f"{comparison.printed_after:.0f} s | {comparison.seconds:.0f} s | {comparison.factor:.2f} |"
    )


def write_data(work: Path) -> None:
    """Write the digits of scikit-learn as pictures, and a table of two classes."""
    digits = load_digits()
    images = np.uint8(digits.images * 15.9)
    np.savez_compressed(work / "digits.npz", x=images, y=digits.target)
    values, labels = make_classification(n_samples=3000, n_features=10, random_state=0)
    with (work / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"value{i}" for i in range(values.shape[1])), "label"])
        for row, label in zip(values, labels, strict=True):
            writer.writerow([*(f"{value:.4f}" for value in row), int(label)])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/estimates"))
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), help="default: all commands")
    return parser.parse_args()


if __name__ == "__main__":
    main()
