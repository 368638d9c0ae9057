"""Many networks in one kernel: what it gains, where the time goes, and whether records stay the same.

    python benchmarks/population.py                      on a CPU: Dextr of 16 networks together against one by one
    python benchmarks/population.py --gpu [--part ...]   all of it on a GPU, some minutes a part

cpu      NAS-Bench-201 through the engine, 16 networks together against one by one, in seconds of the processor.
time     The same in this process on any device, by size of the population: building networks, writing tapes, playing
         them, condition numbers, telling the probes, asking the proxy. Milliseconds an architecture. `calls` are those
         a network makes, `launches` what is left of them when calls of one signature run as one.
rates    Three spaces by processes that share the GPU, together and one by one, networks a second; starting is left out.
whole    `untrained search` over all 15,625 into a store, in one command, starting and the report included.
spaces   DARTS and AutoFormer tiny, together against one at a time, as `time`.
check    Five spaces: rank correlation with networks that were alone, the largest relative difference, and whether the
         failures are the same. Then a population with members that are cut off, not finite and too large for memory.
folds    What a convolution of many networks is best made of: a grouped one, or products of matrices.

Several processes share a GPU only under NVIDIA's MPS, which is started where it is installed (--no-mps: not).
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import torch
from population_clock import Clock, profiled
from population_spaces import FAULTY, OWN
from scipy.stats import spearmanr
from torch.nn import functional as F

from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import ProxyEvaluator, SeedBatches, WorkerSetup, open_executor
from untrained.engine.threads import use_threads
from untrained.probe.batched.convolution_products import convolve_by_products
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Arch, Record, Task

CHECKED = {
    "nasbench201": (3, 32, 32),
    "darts(channels=16,cells=8)": (3, 32, 32),
    "autoformer_tiny": (3, 224, 224),
    "mobilenetv2": (3, 128, 128),
    OWN: (3, 32, 32),
}
COMPANY = {
    "nasbench201": 64,
    "darts(channels=16,cells=8)": 64,
    "autoformer_tiny": 16,
}  # with many workers


def main() -> None:
    options = arguments()
    parts = {part.__name__: part for part in (time, rates, whole, spaces, check, folds)}
    with shared(options), use_threads(1):
        said = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
        print(
            f"torch {torch.__version__}, {said}, {os.cpu_count()} cores, one thread a process, mps {options.mps}"
        )
        for part in options.part or (parts if options.gpu else ["cpu"]):
            start = perf_counter()
            (parts | {"cpu": cpu})[part](options)
            print(f"\n({part}: {perf_counter() - start:.0f} s)", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="all parts, on a GPU, with settings that are meant for it",
    )
    parser.add_argument("--part", nargs="+", default=[])
    parser.add_argument("--space", nargs="+", default=[])
    parser.add_argument(
        "--size", type=int, default=None, help="pixels of a side, instead of those of the space"
    )
    parser.add_argument("--population", type=int, nargs="+", default=[])
    parser.add_argument("--workers", type=int, nargs="+", default=[])
    parser.add_argument("--networks", type=int, default=None)
    parser.add_argument("--budget", type=int, default=15_625)
    parser.add_argument("--device", default=None)
    parser.add_argument("--no-mps", dest="mps", action="store_false")
    options = parser.parse_args()
    options.device = options.device or ("cuda" if options.gpu else "cpu")
    options.population = options.population or ([1, 16, 64, 256] if options.gpu else [1, 16])
    options.workers = options.workers or ([7, 14] if options.gpu else [1])
    return options


@contextmanager
def shared(options: argparse.Namespace) -> Iterator[None]:
    """Let the kernels of several processes run side by side on the GPU."""
    control = shutil.which("nvidia-cuda-mps-control")
    options.mps = options.mps and options.device == "cuda" and control is not None
    if not options.mps or control is None:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        subprocess.run([control, "-d"], check=True)
        try:
            yield
        finally:
            # Without a limit it would wait for its clients to end, and this process is one of them.
            subprocess.run([control], input=b"quit -t 1\n", check=False, timeout=30)


def task_of(options: argparse.Namespace, name: str) -> Task:
    shape = CHECKED.get(name) or load_space(name).task.input_shape
    return Task("noise", (3, options.size, options.size) if options.size else shape, 10)


def drawn(name: str, count: int) -> list[Arch]:
    space, rng = load_space(name), make_generator("population", name)
    return [space.sample(rng) for _ in range(count)]


def table(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


# ------------------------------------------------------------------------------------------------------- in one process


def time(options: argparse.Namespace) -> None:
    for name in options.space or ["nasbench201"]:
        compared(
            options, name, options.population, options.networks or (512 if options.gpu else 64)
        )


def spaces(options: argparse.Namespace) -> None:
    for name in [name for name in COMPANY if name != "nasbench201"]:
        together = (
            [64, 128] if options.gpu else [max(options.population)]
        )  # one process has the memory for itself
        compared(options, name, [1, *together], options.networks or 2 * max(together))


def compared(options: argparse.Namespace, name: str, sizes: Sequence[int], networks: int) -> None:
    print(f"\n{name}, {task_of(options, name)}; milliseconds an architecture")
    table("population", "networks", *Clock.PARTS, "whole", "to the first", "calls", "launches")
    first = 0.0
    for size in sizes:
        archs = drawn(name, max(size, min(networks, 24 * size)))  # one by one takes long
        clock, tally = profiled(
            load_space(name), task_of(options, name), archs, size, options.device
        )
        each = {part: 1e3 * seconds / len(archs) for part, seconds in clock.seconds.items()}
        whole = sum(each.values())
        first = first or whole
        told = f"{tally.calls / len(archs):.0f} | {tally.groups / len(archs):.1f}"
        shares = " | ".join(f"{ms:.2f}" for ms in each.values())
        print(
            f"| {size} | {len(archs)} | {shares} | {whole:.2f} | {whole / first:.3f} | {told} |",
            flush=True,
        )


# ---------------------------------------------------------------------------------------------------- in many processes


def cpu(options: argparse.Namespace) -> None:
    """What the engine makes of a population here: it may choose to look at networks one by one."""
    table("pixels", "population", "together", "ms an architecture", "to one by one")
    for side in [options.size] if options.size else [16, 32]:
        options.size, archs = side, drawn("nasbench201", options.networks or 48)
        best: dict[int, float] = {}
        for size in [1, 16] * 2:  # twice, in turns: the better time of each
            _, batched, rate = scored(options, "nasbench201", archs, size, 1, process_time)
            best[size] = max(rate, best.get(size, 0.0))
        for size, rate in best.items():
            told = batched if size > 1 else 0
            print(
                f"| {side} | {size} | {told} | {1e3 / rate:.1f} | {best[1] / rate:.3f} |",
                flush=True,
            )


def scored(
    options: argparse.Namespace,
    name: str,
    archs: Sequence[Arch],
    size: int,
    workers: int,
    clock: Callable[[], float] = perf_counter,
) -> tuple[list[Record], int, float]:
    """Records, how many networks had company, and networks a second after the first population of each worker."""
    judges, task = [load_proxy("dextr")], task_of(options, name)
    samples = SeedBatches.for_proxies(load_data("noise", task), judges, (0,))
    job = WorkerSetup(
        name, ("dextr",), task, samples.largest_batches(), options.device, networks_per_batch=size
    )
    with open_executor(job, ComputeConfig(workers=workers), len(archs)) as executor:
        evaluate = ProxyEvaluator(samples, judges, executor, options.device)
        warm = list(
            evaluate(archs[: workers * size])
        )  # everybody has started, and knows the kernels it needs
        start = clock()
        found = list(evaluate(archs[len(warm) :]))
        rate = len(found) / (clock() - start)
        records = [record for of_one in warm + found for record in of_one]
        return records, sum(cost.batched for cost in executor.costs()), rate


def rates(options: argparse.Namespace) -> None:
    """Populations and one by one with equally many workers; what is counted begins when all of them are warm."""
    table("space", "workers", "population", "networks", "networks a second", "to one by one")
    for name in options.space or COMPANY:
        for workers in options.workers:
            alone = 0.0
            for size in (1, min(COMPANY.get(name, 64), max(options.population))):
                archs = list(
                    dict.fromkeys(
                        drawn(name, options.networks or workers * (20 if size == 1 else 3 * size))
                    )
                )
                *_, rate = scored(options, name, archs, size, workers)
                alone = alone or rate
                print(
                    f"| {name} | {workers} | {size} | {len(archs)} | {rate:.1f} | {rate / alone:.2f} |",
                    flush=True,
                )


def whole(options: argparse.Namespace) -> None:
    size, workers = max(n for n in options.population if n <= 64), max(options.workers)
    with tempfile.TemporaryDirectory() as folder:
        asked = f"search --data noise --device {options.device} --budget {options.budget} --networks-per-batch {size}"
        program = [sys.executable, "-c", "from untrained.cli.app import main; main()"]
        command = [*program, *asked.split(), "--workers", str(workers), "--run", folder]
        start = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = perf_counter() - start
        run = json.loads(Path(folder, "run.json").read_text())
        with Store(Path(folder, "records.sqlite")) as store:
            records = list(store)
        begun = perf_counter()
        with Store(Path(folder, "again.sqlite")) as store:
            for i in range(0, len(records), 3):
                store.add(records[i : i + 3])
        written = perf_counter() - begun
    archs, wall = len({record.arch for record in records}), run["wall_seconds"]
    print(f"\n`untrained {asked} --workers {workers}`\n")
    failed = sum(record.error is not None for record in records)
    print(
        f"{archs:,} architectures, {len(records):,} records, {failed:,} failures: {seconds:.1f} s,"
    )
    print(
        f"{archs / seconds:.0f} a second; by its own account {wall:.1f} s, {archs / wall:.0f} a second."
    )
    table("where the time of workers went", "seconds", "ms an architecture")
    for part in ("build", "transfer", "measure", "idle"):
        spent = sum(row[part] for row in run["workers"])
        print(f"| {part} | {spent:.1f} | {1e3 * spent / archs:.2f} |")
    print(f"| the store, in the driver | {written:.1f} | {1e3 * written / archs:.2f} |")
    print(
        f"\n{sum(row['batched'] for row in run['workers']):,} networks were looked at together with others."
    )


# --------------------------------------------------------------------------------------------------------------- check


def check(options: argparse.Namespace) -> None:
    workers, size = max(options.workers), min(64, max(options.population))
    table(
        "space",
        "networks",
        "together",
        "Spearman",
        "largest relative difference",
        "failures",
        "the same",
    )
    for name in options.space or [*CHECKED, FAULTY]:
        archs = list(dict.fromkeys(drawn(name, 24 if name == FAULTY else options.networks or 500)))
        crew = 1 if name == FAULTY else workers  # all in one population
        alone, *_ = scored(options, name, archs, 1, crew)
        ours, batched, _ = scored(options, name, archs, size, crew)
        pairs = [
            (r.value, s.value)
            for r, s in zip(ours, alone, strict=True)
            if r.value is not None and s.value
        ]
        rho = spearmanr(*zip(*pairs, strict=True)).statistic
        worst = max(abs(one / other - 1) for one, other in pairs)
        kinds = [r.error and r.error.kind for r in alone]
        same = "yes" if kinds == [r.error and r.error.kind for r in ours] else "NO"
        told = (
            ", ".join(
                f"{kinds.count(kind)} {kind}" for kind in sorted({kind for kind in kinds if kind})
            )
            or "none"
        )
        short = name.rpartition(":")[2]
        print(
            f"| {short} | {len(alone)} | {batched} | {rho:.6f} | {worst:.1e} | {told} | {same} |",
            flush=True,
        )


# --------------------------------------------------------------------------------------------------------------- folds


def folds(options: argparse.Namespace) -> None:
    """Layers of NAS-Bench-201 for 64 networks, values and derivatives of a jet as three samples."""
    G, N, device = 64, 3, options.device
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    table("kernel", "channels", "pixels", "grouped convolution, ms", "products, ms")
    for kernel in (1, 3):
        for C, side in ((16, 64), (32, 32), (64, 16)):
            x = torch.randn(N, G, 1, C, side, side, device=device)
            w = torch.randn(G, C, C, kernel, kernel, device=device)
            stacked = x.flatten(1, 3), w.flatten(0, 1)
            grouped = timed(partial(F.conv2d, *stacked, None, 1, kernel // 2, 1, G), device)
            product = timed(partial(convolve_by_products, x, w, None, 1, kernel // 2, 1), device)
            print(f"| {kernel} | {C} | {side} | {grouped:.3f} | {product:.3f} |", flush=True)


def timed(work: Callable[[], object], device: str, repeats: int = 20) -> float:
    clock = Clock(device)
    for _ in range(3):
        work()
    with clock.on("play"):
        for _ in range(repeats):
            work()
    return 1e3 * clock.seconds["play"] / repeats


if __name__ == "__main__":
    main()
