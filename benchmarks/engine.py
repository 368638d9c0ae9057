"""Measure speed and memory of the engine, as ratios from one run on this machine.

    python benchmarks/engine.py [--part workers|long|store|devices ...] [--networks 200]

workers   The same NAS-Bench-201 networks, scored by dextr, in this process with one thread, in one process, in two, and
          by two Ray actors. Starting is reported separately. All records are checked to be equal.
long      One search over the whole of NAS-Bench-201 with its cheapest proxies: memory of the driver after 1,000 and
          after all 15,625 architectures, and seconds per architecture around the 100th and the 5,000th.
store     A million records: seconds to write and to look up ten thousand, in an empty store and in a full one.
devices   The same networks on the CPU and on a GPU: rank correlation and largest relative difference of each proxy,
          with the same weights moved to the GPU, and with weights drawn on the GPU, as the engine does.
"""

import argparse
import gc
import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from untrained.data import load_data
from untrained.engine import ProxyEvaluator, SeedBatches, WorkerSetup, make_inline_evaluator
from untrained.engine.executors.base import Executor, InlineExecutor
from untrained.engine.executors.pool import PoolExecutor
from untrained.engine.executors.processes import ProcessBackend
from untrained.engine.worker import BuildFunction
from untrained.names import split_names
from untrained.progress import Progress
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.strategies.random import RandomSearch
from untrained.types import Arch, Record, ScoreRequest, Task
from untrained.workflows.search import search

SPACE = load_space("nasbench201")


def main() -> None:
    options = parse_options()
    print(
        f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}, Python {platform.python_version()}"
    )
    for part in options.part:
        PARTS[part](options)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", default=["workers", "long", "store"])
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--proxies", default="dextr,params,flops,naswot")
    parser.add_argument("--data", default="digits")
    return parser.parse_args()


def sample_archs(count: int) -> list[Arch]:
    return RandomSearch(SPACE, make_generator("engine")).ask(count)


# ------------------------------------------------------------------------------------------------------------ workers


def measure_workers(options: argparse.Namespace) -> None:
    archs = sample_archs(options.networks + 8)
    proxies = [load_proxy("dextr")]
    samples = SeedBatches.for_proxies(load_data(options.data, SPACE.task), proxies, (0,))
    setup = WorkerSetup(
        "nasbench201", ("dextr",), samples.source.task, samples.draw_largest_batches()
    )
    executors: dict[str, Callable[[], Executor]] = {
        "here, one thread": lambda: InlineExecutor(setup.open_worker()),
        "one process": lambda: PoolExecutor(ProcessBackend(setup), 1),
        "two processes": lambda: PoolExecutor(ProcessBackend(setup), 2),
        "two Ray actors": lambda: open_ray(setup),
    }
    seconds = {}
    first_records = None
    for name, open_executor in executors.items():
        start = perf_counter()
        with closing(open_executor()) as executor:
            evaluate = ProxyEvaluator(samples, proxies, executor)
            list(evaluate(archs[:8]))  # until all workers have started
            ready = perf_counter()
            records = [record for arch_records in evaluate(archs[8:]) for record in arch_records]
            seconds[name] = perf_counter() - ready
        # Times differ between runs, so they are not compared.
        records = [
            replace(record, build_seconds=0, transfer_seconds=0, measure_seconds=0)
            for record in records
        ]
        first_records = first_records or records
        rate = options.networks / seconds[name]
        print(f"{name:<20} {rate:6.2f} networks / s, after {ready - start:.1f} s of starting; "
              f"records equal: {records == first_records}", flush=True)  # fmt: skip
    one = seconds["one process"]
    print(f"two processes / one: {one / seconds['two processes']:.2f}; two Ray actors / one process: "
          f"{one / seconds['two Ray actors']:.2f}")  # fmt: skip


def open_ray(setup: WorkerSetup) -> Executor:
    from untrained.engine.executors.ray import RayBackend

    return PoolExecutor(RayBackend(setup, "local", 2), 2)


# --------------------------------------------------------------------------------------------------------------- long


def measure_long_search(options: argparse.Namespace) -> None:
    size = SPACE.size or 0
    times: list[float] = []
    memory: dict[int, float] = {}

    def watch_progress(event: Progress) -> None:
        times.append(perf_counter())
        if event.done in (1000, 5000, 10_000, size):
            memory[event.done] = read_resident_memory()
            print(
                f"after {event.done:,}: {memory[event.done]:.0f} MiB, {times[-1] - times[0]:.0f} s",
                flush=True,
            )

    with tempfile.TemporaryDirectory() as folder:
        search(
            "nasbench201", "params", budget=size, run=folder, workers=2, on_progress=watch_progress
        )
    memory.setdefault(size, read_resident_memory())  # random search may give up on the last few
    # Seconds of 1,000 architectures are milliseconds of one.
    early = times[1100] - times[100]
    late = times[5000] - times[4000]
    print(f"driver: {memory[1000]:.0f} MiB after 1,000, {memory[size]:.0f} MiB after {size:,} architectures "
          f"({memory[size] / memory[1000] - 1:+.1%})")  # fmt: skip
    print(f"an architecture: {early:.2f} ms from the 100th to the 1,100th, {late:.2f} ms from the 4,000th to the "
          f"5,000th ({late / early - 1:+.1%}); all {size:,} in {times[-1] - times[0]:.0f} s")  # fmt: skip


def read_resident_memory() -> float:
    """Return the memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# -------------------------------------------------------------------------------------------------------------- store


def measure_store(options: argparse.Namespace) -> None:
    batch_size = 10_000
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "records.sqlite") as store:
        store.add(make_records(0, batch_size))
        early = measure_look_ups(store, batch_size, before=batch_size)
        start = perf_counter()
        for first in range(batch_size, options.records, batch_size):
            store.add(make_records(first, first + batch_size))
        write_seconds = perf_counter() - start
        end = options.records + batch_size
        start = perf_counter()
        store.add(make_records(options.records, end))
        add_seconds = perf_counter() - start
        late = measure_look_ups(store, batch_size, before=options.records)
        start = perf_counter()
        store.add(make_records(end, end + 3))
        add_three_seconds = perf_counter() - start
        size = store.path.stat().st_size
    total = options.records
    print(f"{total:,} records in {write_seconds:.0f} s, {size / total:.0f} bytes each; at the end {batch_size:,} more "
          f"in {add_seconds:.2f} s, three in {1000 * add_three_seconds:.1f} ms")  # fmt: skip
    print(
        f"a look-up: {1e6 * early / batch_size:.0f} us among {batch_size:,}, {1e6 * late / batch_size:.0f} us among {total:,}"
    )


def make_records(start: int, stop: int) -> list[Record]:
    """Make the records with numbers from `start` to `stop`; every architecture has four."""
    task = Task("digits", (3, 32, 32), 10)
    measures = ("dextr@1", "params@1", "flops@1", "naswot@1")
    text = "x" * 60  # about as long as an architecture of NAS-Bench-201
    archs = {}
    for number in range(start // 4, stop // 4 + 1):
        archs[number] = Arch("s", (("n", number), ("text", text)), f"{number}:{text}")
    records = []
    for i in range(start, stop):
        request = ScoreRequest(archs[i // 4], measures[i % 4], task, 0, data="0123456789abcdef")
        records.append(Record(request, float(i)))
    return records


def measure_look_ups(store: Store, count: int, before: int) -> float:
    """Return the seconds to look up `count` records, spread over all `before` records."""
    keys = [make_records(i, i + 1)[0].key for i in range(0, before, before // count)]
    start = perf_counter()
    records = [store.get(key) for key in keys]
    seconds = perf_counter() - start
    assert len(records) == count
    assert None not in records
    return seconds


# ------------------------------------------------------------------------------------------------------------ devices


def compare_devices(options: argparse.Namespace) -> None:
    from scipy.stats import spearmanr

    archs = sample_archs(options.networks)
    proxies = [load_proxy(name) for name in split_names(options.proxies)]
    source = load_data(options.data, SPACE.task)

    def score_archs(build: BuildFunction, device: str) -> dict[str, list[float | None]]:
        evaluate = make_inline_evaluator(build, source, proxies, device=device)
        rows = list(evaluate(archs))
        return {p.label: [row[i].value for row in rows] for i, p in enumerate(proxies)}

    on_cpu = score_archs(lambda arch: SPACE.build(arch), "cpu")
    moved_to_gpu = score_archs(lambda arch: SPACE.build(arch), "cuda")
    built_on_gpu = score_archs(lambda arch: SPACE.build(arch, device="cuda"), "cuda")
    print(
        "| proxy | networks | same weights: Spearman | largest relative difference | weights drawn on the GPU: Spearman |"
    )
    print("|---|---|---|---|---|")
    for name in on_cpu:
        cpu_scores = []
        moved_scores = []
        built_scores = []
        for cpu, moved, built in zip(
            on_cpu[name], moved_to_gpu[name], built_on_gpu[name], strict=True
        ):
            if cpu is None:
                continue
            assert moved is not None, "a failure on the GPU only"
            assert built is not None, "a failure on the GPU only"
            cpu_scores.append(cpu)
            moved_scores.append(moved)
            built_scores.append(built)
        pairs = zip(cpu_scores, moved_scores, strict=True)
        largest_difference = max(abs(cpu - moved) / abs(cpu) for cpu, moved in pairs)
        same_weights = spearmanr(cpu_scores, moved_scores).statistic
        other_weights = spearmanr(cpu_scores, built_scores).statistic
        print(
            f"| {name} | {len(cpu_scores)} | {same_weights:.4f} | {largest_difference:.1e} | "
            f"{other_weights:.4f} |",
            flush=True,
        )


PARTS = {
    "workers": measure_workers,
    "long": measure_long_search,
    "store": measure_store,
    "devices": compare_devices,
}

if __name__ == "__main__":
    main()
