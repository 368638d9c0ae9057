"""Many networks per pass: the speed-up, where the time goes, and whether records stay the same.

    python benchmarks/population.py                      on a CPU: Dextr of 16 networks together and one by one
    python benchmarks/population.py --gpu [--part ...]   all parts on a GPU, some minutes per part

cpu      NAS-Bench-201 through the engine, 16 networks together and one by one, in processor time.
time     The same in this process on any device, by networks per pass: building networks, recording tapes, running
         them, condition numbers, other measurements, scoring. Milliseconds per architecture. `calls` is the number of
         calls of a network, `launches` the number that remains if calls of one signature run as one.
rates    Three spaces in processes that share the GPU, together and one by one, networks per second without start-up.
whole    `untrained search` over all 15,625 architectures into a store, with start-up and report.
spaces   DARTS and AutoFormer tiny, together and one by one, as in `time`.
check    Five spaces: rank correlation with networks scored alone, the largest relative difference, and whether the
         failures are the same. Then networks that are disconnected, not finite or too large for memory.
folds    Two implementations of a convolution of many networks: a grouped convolution and matrix products.

Several processes share a GPU only with NVIDIA's MPS, which is started if it is installed (unless --no-mps).
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
from population_clock import PurposeTimer, profile_scoring
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
# If many workers share the memory of a GPU.
NETWORKS_PER_PASS = {
    "nasbench201": 64,
    "darts(channels=16,cells=8)": 64,
    "autoformer_tiny": 16,
}


def main() -> None:
    options = parse_options()
    parts = {
        "time": profile_spaces,
        "rates": measure_rates,
        "whole": measure_whole_search,
        "spaces": compare_spaces,
        "check": check_records,
        "folds": compare_folds,
    }
    with share_gpu(options), use_threads(1):
        device_name = (
            torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
        )
        print(
            f"torch {torch.__version__}, {device_name}, {os.cpu_count()} cores, one thread per process, mps {options.mps}"
        )
        for part in options.part or (parts if options.gpu else ["cpu"]):
            start = perf_counter()
            (parts | {"cpu": measure_cpu})[part](options)
            print(f"\n({part}: {perf_counter() - start:.0f} s)", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="run all parts on a GPU, with settings for a GPU",
    )
    parser.add_argument("--part", nargs="+", default=[])
    parser.add_argument("--space", nargs="+", default=[])
    parser.add_argument(
        "--size", type=int, default=None, help="input size in pixels, instead of that of the space"
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
def share_gpu(options: argparse.Namespace) -> Iterator[None]:
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


def make_task(options: argparse.Namespace, name: str) -> Task:
    shape = CHECKED.get(name) or load_space(name).task.input_shape
    return Task("noise", (3, options.size, options.size) if options.size else shape, 10)


def sample_archs(name: str, count: int) -> list[Arch]:
    space = load_space(name)
    rng = make_generator("population", name)
    return [space.sample(rng) for _ in range(count)]


def drop_duplicates(archs: Sequence[Arch]) -> list[Arch]:
    return list(dict.fromkeys(archs))


def print_table_head(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


# ------------------------------------------------------------------------------------------------------- in one process


def profile_spaces(options: argparse.Namespace) -> None:
    for name in options.space or ["nasbench201"]:
        profile_space(
            options, name, options.population, options.networks or (512 if options.gpu else 64)
        )


def compare_spaces(options: argparse.Namespace) -> None:
    for name in [name for name in NETWORKS_PER_PASS if name != "nasbench201"]:
        # A single process has all the memory.
        together = [64, 128] if options.gpu else [max(options.population)]
        profile_space(options, name, [1, *together], options.networks or 2 * max(together))


def profile_space(
    options: argparse.Namespace, name: str, sizes: Sequence[int], networks: int
) -> None:
    print(f"\n{name}, {make_task(options, name)}; milliseconds per architecture")
    print_table_head(
        "networks per pass",
        "networks",
        *PurposeTimer.PURPOSES,
        "total",
        "relative to the first",
        "calls",
        "launches",
    )
    first_total = 0.0
    for size in sizes:
        # Scoring one by one is slow, so 24 networks are enough there.
        archs = sample_archs(name, max(size, min(networks, 24 * size)))
        timer, statistics = profile_scoring(
            load_space(name), make_task(options, name), archs, size, options.device
        )
        milliseconds = {part: 1e3 * seconds / len(archs) for part, seconds in timer.seconds.items()}
        total = sum(milliseconds.values())
        first_total = first_total or total
        counts = f"{statistics.calls / len(archs):.0f} | {statistics.groups / len(archs):.1f}"
        times = " | ".join(f"{ms:.2f}" for ms in milliseconds.values())
        print(
            f"| {size} | {len(archs)} | {times} | {total:.2f} | {total / first_total:.3f} | {counts} |",
            flush=True,
        )


# ---------------------------------------------------------------------------------------------------- in many processes


def measure_cpu(options: argparse.Namespace) -> None:
    """Measure the engine, which may decide to score networks one by one."""
    print_table_head(
        "pixels", "networks per pass", "together", "ms per architecture", "relative to one by one"
    )
    for side in [options.size] if options.size else [16, 32]:
        options.size = side
        archs = sample_archs("nasbench201", options.networks or 48)
        best: dict[int, float] = {}
        for size in [1, 16] * 2:  # alternating, the better of two times counts
            _, batched, rate = score_archs(options, "nasbench201", archs, size, 1, process_time)
            best[size] = max(rate, best.get(size, 0.0))
        for size, rate in best.items():
            batched_count = batched if size > 1 else 0
            print(
                f"| {side} | {size} | {batched_count} | {1e3 / rate:.1f} | {best[1] / rate:.3f} |",
                flush=True,
            )


def score_archs(
    options: argparse.Namespace,
    name: str,
    archs: Sequence[Arch],
    size: int,
    workers: int,
    clock: Callable[[], float] = perf_counter,
) -> tuple[list[Record], int, float]:
    """Score architectures after a warm-up of each worker.

    Returns:
        The records, the number of networks that were scored together with others, and networks per second.
    """
    proxies = [load_proxy("dextr")]
    task = make_task(options, name)
    samples = SeedBatches.for_proxies(load_data("noise", task), proxies, (0,))
    setup = WorkerSetup(
        name,
        ("dextr",),
        task,
        samples.draw_largest_batches(),
        options.device,
        networks_per_batch=size,
    )
    with open_executor(setup, ComputeConfig(workers=workers), len(archs)) as executor:
        evaluate = ProxyEvaluator(samples, proxies, executor, options.device)
        # All workers have started and selected their kernels
        warm_up_records = list(evaluate(archs[: workers * size]))
        start = clock()
        arch_records = list(evaluate(archs[len(warm_up_records) :]))
        rate = len(arch_records) / (clock() - start)
        records = [record for one_arch in warm_up_records + arch_records for record in one_arch]
        return records, sum(cost.batched_networks for cost in executor.costs()), rate


def measure_rates(options: argparse.Namespace) -> None:
    """Compare many networks per pass with one, with equally many workers, after their warm-up."""
    print_table_head(
        "space",
        "workers",
        "networks per pass",
        "networks",
        "networks per second",
        "relative to one by one",
    )
    for name in options.space or NETWORKS_PER_PASS:
        for workers in options.workers:
            largest_size = min(NETWORKS_PER_PASS.get(name, 64), max(options.population))
            rate_one_by_one = 0.0
            for size in (1, largest_size):
                count = options.networks
                if not count:
                    count = workers * (20 if size == 1 else 3 * size)
                archs = drop_duplicates(sample_archs(name, count))
                *_, rate = score_archs(options, name, archs, size, workers)
                rate_one_by_one = rate_one_by_one or rate
                print(
                    f"| {name} | {workers} | {size} | {len(archs)} | {rate:.1f} | "
                    f"{rate / rate_one_by_one:.2f} |",
                    flush=True,
                )


def measure_whole_search(options: argparse.Namespace) -> None:
    size = max(n for n in options.population if n <= 64)
    workers = max(options.workers)
    with tempfile.TemporaryDirectory() as folder:
        arguments = f"search --data noise --device {options.device} --budget {options.budget} --networks-per-batch {size}"
        program = [sys.executable, "-c", "from untrained.cli.app import main; main()"]
        command = [*program, *arguments.split(), "--workers", str(workers), "--run", folder]
        start = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = perf_counter() - start
        run = json.loads(Path(folder, "run.json").read_text())
        with Store(Path(folder, "records.sqlite")) as store:
            records = list(store)
        store_start = perf_counter()
        with Store(Path(folder, "again.sqlite")) as store:
            for i in range(0, len(records), 3):
                store.add(records[i : i + 3])
        store_seconds = perf_counter() - store_start
    archs = len({record.arch for record in records})
    wall = run["wall_seconds"]
    print(f"\n`untrained {arguments} --workers {workers}`\n")
    failed = sum(record.error is not None for record in records)
    print(
        f"{archs:,} architectures, {len(records):,} records, {failed:,} failures: {seconds:.1f} s,"
    )
    print(
        f"{archs / seconds:.0f} per second; run.json says {wall:.1f} s, {archs / wall:.0f} per second."
    )
    print_table_head("time of the workers", "seconds", "ms per architecture")
    for part in ("build", "transfer", "measure", "idle"):
        spent = sum(row[part] for row in run["workers"])
        print(f"| {part} | {spent:.1f} | {1e3 * spent / archs:.2f} |")
    print(f"| store, in the driver | {store_seconds:.1f} | {1e3 * store_seconds / archs:.2f} |")
    print(
        f"\n{sum(row['batched'] for row in run['workers']):,} networks were scored together with others."
    )


# --------------------------------------------------------------------------------------------------------------- check


def check_records(options: argparse.Namespace) -> None:
    workers = max(options.workers)
    size = min(64, max(options.population))
    print_table_head(
        "space",
        "networks",
        "together",
        "Spearman",
        "largest relative difference",
        "failures",
        "the same",
    )
    for name in options.space or [*CHECKED, FAULTY]:
        count = options.networks or 500
        worker_count = workers
        if name == FAULTY:
            # With one worker, all networks are in one pass.
            count = 24
            worker_count = 1
        archs = drop_duplicates(sample_archs(name, count))
        alone, *_ = score_archs(options, name, archs, 1, worker_count)
        together, batched, _ = score_archs(options, name, archs, size, worker_count)
        pairs = []
        for batched_record, single_record in zip(together, alone, strict=True):
            if batched_record.value is not None and single_record.value:
                pairs.append((batched_record.value, single_record.value))
        rho = spearmanr(*zip(*pairs, strict=True)).statistic
        worst = max(abs(batched_score / single - 1) for batched_score, single in pairs)
        kinds = list_failure_kinds(alone)
        same = "yes" if kinds == list_failure_kinds(together) else "NO"
        counts = []
        for kind in sorted({kind for kind in kinds if kind}):
            counts.append(f"{kinds.count(kind)} {kind}")
        failures = ", ".join(counts) or "none"
        short = name.rpartition(":")[2]
        print(
            f"| {short} | {len(alone)} | {batched} | {rho:.6f} | {worst:.1e} | {failures} | {same} |",
            flush=True,
        )


def list_failure_kinds(records: Sequence[Record]) -> list[str | None]:
    """Return the kind of failure of every record; None for a score."""
    kinds: list[str | None] = []
    for record in records:
        kinds.append(None if record.error is None else record.error.kind)
    return kinds


# --------------------------------------------------------------------------------------------------------------- folds


def compare_folds(options: argparse.Namespace) -> None:
    """Time convolutions of NAS-Bench-201 for 64 networks in one pass."""
    G = 64  # networks
    N = 3  # samples: the value and two derivatives of a jet
    device = options.device
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    print_table_head("kernel", "channels", "pixels", "grouped convolution, ms", "products, ms")
    for kernel in (1, 3):
        for C, side in ((16, 64), (32, 32), (64, 16)):
            x = torch.randn(N, G, 1, C, side, side, device=device)
            w = torch.randn(G, C, C, kernel, kernel, device=device)
            stacked = x.flatten(1, 3), w.flatten(0, 1)
            grouped = measure_milliseconds(
                partial(F.conv2d, *stacked, None, 1, kernel // 2, 1, G), device
            )
            product = measure_milliseconds(
                partial(convolve_by_products, x, w, None, 1, kernel // 2, 1), device
            )
            print(f"| {kernel} | {C} | {side} | {grouped:.3f} | {product:.3f} |", flush=True)


def measure_milliseconds(work: Callable[[], object], device: str, repeats: int = 20) -> float:
    timer = PurposeTimer(device)
    for _ in range(3):
        work()
    with timer.measure("run"):
        for _ in range(repeats):
            work()
    return 1e3 * timer.seconds["run"] / repeats


if __name__ == "__main__":
    main()
