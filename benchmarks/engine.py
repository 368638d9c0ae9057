"""Speed and memory of the engine, as ratios from one run on this machine.

    python benchmarks/engine.py [--part workers|long|store|devices ...] [--networks 200]

workers   The same NAS-Bench-201 networks, scored by dextr, in this process with one thread, by one process, by two, and
          by two Ray actors. Starting is left out and said apart. All records are checked to be equal.
long      One search over the whole of NAS-Bench-201 by its cheapest proxies: memory of the driver after 1,000 and after
          all 15,625 architectures, and seconds an architecture around the 100th and the 5,000th.
store     A million records: seconds to write and to look up ten thousand, in an empty store and in a full one.
devices   The same networks on the CPU and on a GPU: rank correlation and largest relative difference of each proxy,
          with the same weights moved there, and with weights drawn there, as the engine does.
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
    options = arguments()
    print(
        f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}, Python {platform.python_version()}"
    )
    for part in options.part:
        {"workers": workers, "long": long, "store": store, "devices": devices}[part](options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", default=["workers", "long", "store"])
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--proxies", default="dextr,params,flops,naswot")
    parser.add_argument("--data", default="digits")
    return parser.parse_args()


def drawn(count: int) -> list[Arch]:
    return RandomSearch(SPACE, make_generator("engine")).ask(count)


# ------------------------------------------------------------------------------------------------------------ workers


def workers(options: argparse.Namespace) -> None:
    archs, proxies = drawn(options.networks + 8), [load_proxy("dextr")]
    samples = SeedBatches.for_proxies(load_data(options.data, SPACE.task), proxies, (0,))
    job = WorkerSetup("nasbench201", ("dextr",), samples.source.task, samples.largest_batches())
    crews: dict[str, Callable[[], Executor]] = {
        "here, one thread": lambda: InlineExecutor(job.open_worker()),
        "one process": lambda: PoolExecutor(ProcessBackend(job), 1),
        "two processes": lambda: PoolExecutor(ProcessBackend(job), 2),
        "two Ray actors": lambda: _ray(job),
    }
    seconds, first = {}, None
    for name, hire in crews.items():
        start = perf_counter()
        with closing(hire()) as executor:
            evaluate = ProxyEvaluator(samples, proxies, executor)
            list(evaluate(archs[:8]))  # until everybody is at work
            ready = perf_counter()
            found = [replace(r, build_seconds=0, transfer_seconds=0, measure_seconds=0)
                     for records in evaluate(archs[8:]) for r in records]  # fmt: skip
            seconds[name] = perf_counter() - ready
        first = first or found
        rate = options.networks / seconds[name]
        print(f"{name:<20} {rate:6.2f} networks / s, after {ready - start:.1f} s of starting; "
              f"records equal: {found == first}", flush=True)  # fmt: skip
    one = seconds["one process"]
    print(f"two processes / one: {one / seconds['two processes']:.2f}; two Ray actors / one process: "
          f"{one / seconds['two Ray actors']:.2f}")  # fmt: skip


def _ray(job: WorkerSetup) -> Executor:
    from untrained.engine.executors.ray import RayBackend

    return PoolExecutor(RayBackend(job, "local", 2), 2)


# --------------------------------------------------------------------------------------------------------------- long


def long(options: argparse.Namespace) -> None:
    size = SPACE.size or 0
    times: list[float] = []
    memory: dict[int, float] = {}

    def watch(at: Progress) -> None:
        times.append(perf_counter())
        if at.done in (1000, 5000, 10_000, size):
            memory[at.done] = resident()
            print(
                f"after {at.done:,}: {memory[at.done]:.0f} MiB, {times[-1] - times[0]:.0f} s",
                flush=True,
            )

    with tempfile.TemporaryDirectory() as folder:
        search("nasbench201", "params", budget=size, run=folder, workers=2, on_progress=watch)
    memory.setdefault(size, resident())  # drawing at random may give up on the last few
    early, late = (times[stop] - times[start] for start, stop in ((100, 1100), (4000, 5000)))
    print(f"driver: {memory[1000]:.0f} MiB after 1,000, {memory[size]:.0f} MiB after {size:,} architectures "
          f"({memory[size] / memory[1000] - 1:+.1%})")  # fmt: skip
    print(f"an architecture: {early:.2f} ms from the 100th to the 1,100th, {late:.2f} ms from the 4,000th to the "
          f"5,000th ({late / early - 1:+.1%}); all {size:,} in {times[-1] - times[0]:.0f} s")  # fmt: skip


def resident() -> float:
    """Memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# -------------------------------------------------------------------------------------------------------------- store


def store(options: argparse.Namespace) -> None:
    some = 10_000
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "records.sqlite") as kept:
        kept.add(made(0, some))
        early = look(kept, some, before=some)
        start = perf_counter()
        for first in range(some, options.records, some):
            kept.add(made(first, first + some))
        whole = perf_counter() - start
        begin = perf_counter()
        kept.add(made(options.records, options.records + some))
        added = perf_counter() - begin
        late = look(kept, some, before=options.records)
        one = timed(lambda: kept.add(made(options.records + some, options.records + some + 3)))
        size = kept.path.stat().st_size
    total = options.records
    print(f"{total:,} records in {whole:.0f} s, {size / total:.0f} bytes each; at the end {some:,} more "
          f"in {added:.2f} s, three in {1000 * one:.1f} ms")  # fmt: skip
    print(
        f"a look-up: {1e6 * early / some:.0f} us among {some:,}, {1e6 * late / some:.0f} us among {total:,}"
    )


def made(start: int, stop: int) -> list[Record]:
    """Four measures of each of many architectures."""
    task, measures = Task("digits", (3, 32, 32), 10), ("dextr@1", "params@1", "flops@1", "naswot@1")
    archs = {
        n: Arch("s", (("n", n), ("text", "x" * 60)), f"{n}:{'x' * 60}")
        for n in range(start // 4, stop // 4 + 1)
    }
    records = []
    for i in range(start, stop):
        request = ScoreRequest(archs[i // 4], measures[i % 4], task, 0, data="0123456789abcdef")
        records.append(Record(request, float(i)))
    return records


def look(kept: Store, count: int, before: int) -> float:
    """Seconds to look up so many records, spread over all that were written before."""
    keys = [made(i, i + 1)[0].key for i in range(0, before, before // count)]
    found: list[Record | None] = []
    seconds = timed(lambda: found.extend(kept.get(key) for key in keys))
    assert len(found) == count
    assert None not in found
    return seconds


def timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


# ------------------------------------------------------------------------------------------------------------ devices


def devices(options: argparse.Namespace) -> None:
    from scipy.stats import spearmanr

    archs, proxies = (
        drawn(options.networks),
        [load_proxy(name) for name in split_names(options.proxies)],
    )
    source = load_data(options.data, SPACE.task)

    def values(build: BuildFunction, device: str) -> dict[str, list[float | None]]:
        evaluate = make_inline_evaluator(build, source, proxies, device=device)
        rows = list(evaluate(archs))
        return {p.label: [row[i].value for row in rows] for i, p in enumerate(proxies)}

    here = values(lambda arch: SPACE.build(arch), "cpu")
    moved = values(lambda arch: SPACE.build(arch), "cuda")
    there = values(lambda arch: SPACE.build(arch, device="cuda"), "cuda")
    print(
        "| proxy | networks | same weights: Spearman | largest relative difference | weights drawn there: Spearman |"
    )
    print("|---|---|---|---|---|")
    for name, cpu in here.items():
        both = [
            (a, b, c)
            for a, b, c in zip(cpu, moved[name], there[name], strict=True)
            if a is not None
        ]
        assert all(b is not None and c is not None for _, b, c in both), (
            "a failure on one device only"
        )
        a, b, c = zip(*both, strict=True)
        gap = max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))
        rho, own = spearmanr(a, b).statistic, spearmanr(a, c).statistic
        print(f"| {name} | {len(both)} | {rho:.4f} | {gap:.1e} | {own:.4f} |", flush=True)


if __name__ == "__main__":
    main()
