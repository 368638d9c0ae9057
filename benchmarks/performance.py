"""Measure the processor time of every proxy beside a forward and a backward pass of the same samples.

    python benchmarks/performance.py [--spaces nasbench201,darts] [--repeats 3]
    python benchmarks/performance.py --compare      (only print what became slower)

One typical network per space, the one with the median multiply-adds of fifteen random ones, is scored
by every proxy at its default number of samples, on noise with ten classes. Times are processor time
of one thread, the smallest of some repetitions. Other processes disturb processor time less than
wall time, and ratios to a forward pass less than both, so ratios are compared.

The result is added to docs/results/performance.json, one entry per date, and the page beside it is
rewritten. Ratios above the last entry by more than 20 % are printed, and the exit code is 1.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.passes import read_logits
from untrained.proxies import PROXIES, load_proxy
from untrained.spaces import load_space
from untrained.types import Arch, Batch, Task

FOLDER = Path(__file__).parents[1] / "docs" / "results"
# Side of the pictures: small enough that all spaces take a quarter of an hour.
SIDES = {
    "nasbench201": 32,
    "nasbench101": 16,
    "darts": 32,
    "transnas_micro": 64,
    "mnasnet": 64,
    "convnet": 32,
    "mobilenetv2": 64,
}
CLASSES = 10
CANDIDATES = 15
# A measurement is repeated until it has taken this long, at most `--repeats` times.
ENOUGH_SECONDS = 1.0
MAX_SAMPLES = 256
MAX_FORWARDS = 20
MAX_GROWTH = 1.2
# Below this time, a ratio is noise.
MIN_COMPARED_MS = 20.0
# Why a proxy may take more than MAX_FORWARDS forward passes.
REASONS = {
    "ntk_trace": (
        "exact over all outputs, so one backward pass per output; `nasi_samples` and `nasi_batch` "
        "need one"
    ),
    "vkdnw": "one backward pass per output, at most 16",
    "gradsign": "it needs every entry of the gradient of every sample, here 64 times all weights",
    "nasi_samples": "it shares the gradients of every sample with `gradsign`",
    "grasp": "a second derivative, whose convolutions have no fast kernel on a CPU",
}


@dataclass(frozen=True)
class ProxyTime:
    """Processor time of a proxy.

    Attributes:
        samples: Number of samples.
        ms: Milliseconds.
        forwards: The same in forward passes of these samples.
        trainings: The same in forward and backward passes of these samples.
        failure: Why there is no score; empty if there is one.
    """

    samples: int
    ms: float
    forwards: float
    trainings: float
    failure: str = ""


@dataclass(frozen=True)
class SpaceTimes:
    """All measurements of one network.

    Attributes:
        arch: The network.
        side: Side of the pictures.
        macs: Multiply-adds.
        params: Number of parameters.
        training_ms: Milliseconds of a forward and backward pass of 64 samples.
        together_ms: Milliseconds of all proxies together on one probe.
        consensus_ms: Milliseconds of the members of `consensus` together.
        dextr_ms: Milliseconds of `dextr`.
        proxies: Times by proxy.
    """

    arch: str
    side: int
    macs: int
    params: int
    training_ms: float
    together_ms: float
    consensus_ms: float
    dextr_ms: float
    proxies: Mapping[str, ProxyTime] = field(default_factory=dict)

    @staticmethod
    def from_document(document: dict[str, object]) -> "SpaceTimes":
        """Restore times from the dictionary that `asdict` made."""
        proxies = document["proxies"]
        assert isinstance(proxies, dict)
        times = {name: ProxyTime(**entry) for name, entry in proxies.items()}
        return SpaceTimes(**{**document, "proxies": times})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Measurement:
    """One run of this script.

    Attributes:
        date: Day of the run.
        machine: Processor, and the version of torch.
        spaces: Times by space.
    """

    date: str
    machine: str
    spaces: Mapping[str, SpaceTimes]


class Network(NamedTuple):
    arch: Arch
    model: nn.Module
    task: Task
    macs: int
    params: int


def main() -> None:
    options = parse_options()
    path = options.folder / "performance.json"
    measurements = read_measurements(path)
    if options.compare:
        before, after = measurements[-2:]
        report_growth(before, after)
        return
    torch.set_num_threads(1)
    spaces = {}
    names = options.proxies.split(",") if options.proxies else list_proxies()
    for space in options.spaces.split(","):
        spaces[space] = measure_space(space, names, options.repeats)
        # Written after every space, so that an interruption loses only the current one.
        partial_run = Measurement(str(datetime.now().date()), describe_machine(), spaces)
        write_results(options.folder, [*measurements, partial_run])
    if measurements:
        report_growth(measurements[-1], partial_run)


def describe_machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), one thread, torch {torch.__version__}"


def list_proxies() -> list[str]:
    return [name for name, proxy in PROXIES.items() if not proxy.parts]


# ------------------------------------------------------------------------------- measuring


def measure_space(name: str, proxies: list[str], repeats: int) -> SpaceTimes:
    """Measure a typical network of a space."""
    network = build_typical_network(name)
    print(f"{name}: {network.arch}, {network.macs / 1e6:.0f} M multiply-adds", flush=True)
    forward_seconds: dict[int, float] = {}
    training_seconds: dict[int, float] = {}
    times = {}
    for proxy_name in proxies:
        samples = load_proxy(proxy_name).samples
        batch = make_batch(network.task, samples)
        if samples not in forward_seconds:
            forward = partial(run_forward, network.model, batch)
            forward_seconds[samples] = measure_seconds(forward, repeats)
            training = partial(run_forward_and_backward, network.model, batch)
            training_seconds[samples] = measure_seconds(training, repeats)
        seconds, failure = measure_proxy(proxy_name, network, batch, repeats)
        times[proxy_name] = ProxyTime(
            samples,
            round(seconds * 1e3, 2),
            round(seconds / forward_seconds[samples], 2),
            round(seconds / training_seconds[samples], 2),
            failure,
        )
        print(f"  {proxy_name:<20} {times[proxy_name]}", flush=True)
    largest = make_batch(network.task, MAX_SAMPLES)
    few = make_batch(network.task, 16)
    training = partial(run_forward_and_backward, network.model, make_batch(network.task, 64))
    members = list(PROXIES["consensus"].parts)
    return SpaceTimes(
        arch=str(network.arch),
        side=network.task.input_shape[1],
        macs=network.macs,
        params=network.params,
        training_ms=measure_ms(training, repeats),
        together_ms=measure_ms(partial(apply_proxies, proxies, network, largest), 1),
        consensus_ms=measure_ms(partial(apply_proxies, members, network, few), repeats),
        dextr_ms=measure_ms(partial(apply_proxies, ["dextr"], network, few), repeats),
        proxies=times,
    )


def measure_proxy(name: str, network: Network, batch: Batch, repeats: int) -> tuple[float, str]:
    """Return the seconds of a proxy, and why it failed or an empty string."""
    failures: list[str] = []

    def score() -> None:
        failures.append(apply_proxies([name], network, batch))

    seconds = measure_seconds(score, repeats)
    return seconds, failures[0]


def build_typical_network(name: str) -> Network:
    """Build the network with the median multiply-adds of some random ones."""
    space = load_space(name)
    side = SIDES[name]
    task = Task("noise", (3, side, side), CLASSES)
    sizes = []
    for seed in range(CANDIDATES):
        arch = space.sample(seed)
        model = space.build(arch, task, device="meta")
        inputs = torch.empty(1, *task.input_shape, device="meta")
        probe = Probe(model, Batch(inputs, torch.zeros(1, device="meta").long()))
        sizes.append((probe.macs, seed))
    sizes.sort()
    macs, seed = sizes[CANDIDATES // 2]
    arch = space.sample(seed)
    torch.manual_seed(0)
    model = space.build(arch, task)
    params = sum(parameter.numel() for parameter in model.parameters())
    return Network(arch, model, task, macs, params)


def make_batch(task: Task, samples: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(MAX_SAMPLES, *task.input_shape, generator=draw)[:samples]
    return Batch(inputs, torch.arange(samples) % task.num_classes)


def apply_proxies(names: list[str], network: Network, batch: Batch) -> str:
    """Score a network on a fresh probe; return why the last proxy failed."""
    probe = Probe(network.model, batch, macs=network.macs)
    failure = ""
    for name in names:
        failure = ""
        try:
            load_proxy(name)(probe)
        except Unscorable as error:
            failure = str(error)
    return failure


def run_forward(model: nn.Module, batch: Batch) -> None:
    """Run a plain forward pass with batch norm on the statistics of the batch."""
    model.train()
    with torch.no_grad():
        model(batch.inputs)


def run_forward_and_backward(model: nn.Module, batch: Batch) -> None:
    """Run a plain forward and backward pass of the mean loss, as a step of a training."""
    model.train()
    outputs = read_logits(model(batch.inputs))
    loss = F.cross_entropy(outputs, batch.targets)
    torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def measure_ms(work: Callable[[], object], repeats: int) -> float:
    return round(measure_seconds(work, repeats) * 1e3, 2)


def measure_seconds(work: Callable[[], object], repeats: int) -> float:
    times: list[float] = []
    while len(times) < repeats and sum(times) < ENOUGH_SECONDS:
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


# ------------------------------------------------------------------------------- comparing


def find_growth(before: Measurement, after: Measurement) -> list[str]:
    """Return one line per proxy and space whose time in forward passes grew by more than 20 %."""
    lines = []
    for space, times in after.spaces.items():
        if space not in before.spaces:
            continue
        old_times = before.spaces[space].proxies
        for name, time in times.proxies.items():
            old = old_times.get(name)
            if old is None or old.samples != time.samples or time.ms < MIN_COMPARED_MS:
                continue
            if time.forwards > MAX_GROWTH * old.forwards:
                lines.append(
                    f"{space}, {name}: {time.forwards:.1f} forward passes, "
                    f"{old.forwards:.1f} on {before.date}"
                )
    return lines


def report_growth(before: Measurement, after: Measurement) -> None:
    """Print what became slower, and end with exit code 1 if anything did."""
    lines = find_growth(before, after)
    for line in lines:
        print(f"slower: {line}")
    if lines:
        sys.exit(1)
    print(f"nothing became slower by more than 20 % since {before.date}")


# ------------------------------------------------------------------------------- results


def read_measurements(path: Path) -> list[Measurement]:
    """Read all entries, the oldest first."""
    if not path.exists():
        return []
    measurements = []
    for entry in json.loads(path.read_text(encoding="utf-8"))["measurements"]:
        spaces = {}
        for space, document in entry["spaces"].items():
            spaces[space] = SpaceTimes.from_document(document)
        measurements.append(Measurement(entry["date"], entry["machine"], spaces))
    return measurements


def write_results(folder: Path, measurements: list[Measurement]) -> None:
    """Write the JSON file with one entry per date, and the page of the last one."""
    by_date = {measurement.date: measurement for measurement in measurements}
    document = {"measurements": [asdict(measurement) for measurement in by_date.values()]}
    text = json.dumps(document, indent=1)
    (folder / "performance.json").write_text(f"{text}\n", encoding="utf-8")
    page = format_page(measurements[-1])
    (folder / "performance.md").write_text(page, encoding="utf-8")


def format_page(measurement: Measurement) -> str:
    spaces = measurement.spaces
    names: list[str] = []
    for times in spaces.values():
        names.extend(name for name in times.proxies if name not in names)
    sections = [
        INTRODUCTION.format(machine=measurement.machine, date=measurement.date),
        format_summary(spaces),
        "## Forward passes per proxy\n",
        "Time of a proxy, in forward passes of the same samples. **Bold** is above "
        f"{MAX_FORWARDS}; the reason is below the table.\n",
        format_ratios(spaces, names, "forwards"),
        *format_reasons(spaces),
        "## Forward and backward passes per proxy\n",
        "The same in forward and backward passes of the same samples, the steps of a training.\n",
        format_ratios(spaces, names, "trainings"),
        "## Milliseconds\n",
        format_ratios(spaces, names, "ms"),
    ]
    return "\n".join(sections)


INTRODUCTION = """\
# Time of every proxy

```
make bench       # measures, writes this page, and prints what became slower by more than 20 %
```

{machine}, {date}.

One network per space is measured: the one with the median multiply-adds of fifteen random ones. Its
inputs are noise with ten classes. Times are processor time of one thread, the smallest of up to three
repetitions, and do not include building the network. The machine was shared with other programs. A GPU
was not measured.

With plain passes, a proxy that reads 64 samples cannot be faster than a forward pass of 64 samples
(1.0 in the first table below), and one that reads a loss gradient cannot be faster than a forward and
backward pass (1.0 in the second table). Some numbers are below 1 because our passes replace poolings by
sums of shifted copies, which are faster. The goals are: `consensus` at most 2.5 times `dextr`, no proxy
above twenty forward passes without a reason, and all proxies together at most five forward and backward
passes of 64 samples. The tables show where they are met.
"""


def format_summary(spaces: Mapping[str, SpaceTimes]) -> str:
    rows = [
        "| space | pixels | multiply-adds (M) | parameters (M) | `dextr` (ms) | `consensus` (ms) | "
        "`consensus` / `dextr` | all proxies together (ms) | forward and backward of 64 (ms) | "
        "together / these passes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, times in spaces.items():
        cells = [
            name,
            str(times.side),
            f"{times.macs / 1e6:.1f}",
            f"{times.params / 1e6:.2f}",
            f"{times.dextr_ms:.0f}",
            f"{times.consensus_ms:.0f}",
            f"{times.consensus_ms / times.dextr_ms:.1f}",
            f"{times.together_ms:.0f}",
            f"{times.training_ms:.0f}",
            f"{times.together_ms / times.training_ms:.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def format_ratios(spaces: Mapping[str, SpaceTimes], names: list[str], quantity: str) -> str:
    rows = [f"| proxy | samples | {' | '.join(spaces)} |", "|---|---" + "|---" * len(spaces) + "|"]
    for name in names:
        cells = [f"`{name}`", str(load_proxy(name).samples)]
        for times in spaces.values():
            time = times.proxies.get(name)
            cells.append(format_cell(time, quantity))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def format_cell(time: ProxyTime | None, quantity: str) -> str:
    if time is None or time.failure:
        return ""
    if quantity == "ms":
        return f"{time.ms:,.0f}" if time.ms >= 10 else f"{time.ms:.1f}"
    if quantity == "trainings":
        return f"{time.trainings:.1f}"
    if time.forwards > MAX_FORWARDS:
        return f"**{time.forwards:.1f}**"
    return f"{time.forwards:.1f}"


def format_reasons(spaces: Mapping[str, SpaceTimes]) -> list[str]:
    """Return why proxies take more than twenty forward passes, and which do so without a reason."""
    slow: dict[str, list[str]] = {}
    for space, times in spaces.items():
        for name, time in times.proxies.items():
            if time.forwards > MAX_FORWARDS and not time.failure:
                slow.setdefault(name, []).append(space)
    lines = []
    for name, places in slow.items():
        reason = REASONS.get(name, "no reason is known, so it should become faster")
        lines.append(f"- `{name}` ({', '.join(places)}): {reason}.")
    if not lines:
        return [f"No proxy takes more than {MAX_FORWARDS} forward passes.\n"]
    return ["\n".join(lines) + "\n"]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spaces", default=",".join(SIDES))
    parser.add_argument("--proxies", default="", help="default: all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the page and its JSON file")
    parser.add_argument("--compare", action="store_true", help="compare the last two entries")
    return parser.parse_args()


if __name__ == "__main__":
    main()
