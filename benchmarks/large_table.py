"""Measure the peak memory with a CSV file that may be larger than memory.

    python benchmarks/large_table.py [--megabytes 2000] [--folder DIR] [--batches 200] [--minutes 4]

The script writes a file with the columns of `clicks`, a column of ten million different identifiers and a text of
thirty letters, and reads it. The memory of this process is printed after writing the file, after both passes over it
and after some shuffled batches. Then the command line searches the table and trains the winner for some minutes, and
the memory of all its processes is watched. Two numbers are printed: their own memory, and that including the pages of
the cache file, which the system may reclaim at any time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from untrained.data import TRAIN, load_data
from untrained.data.clicks import generate_clicks
from untrained.seeds import make_generator, make_torch_generator
from untrained.types import Task

CHUNK_ROWS = 100_000  # written at once
DISTINCT = 10_000_000
MAX_MEMORY = 3 * 1024  # MiB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder for the file and its cache, which are removed at the end",
    )
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=4.0, help="time limit of the training")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = Path(folder, "clicks.csv")
        rows = write_table(path, options.megabytes * 10**6)
        print(
            f"{path.stat().st_size / 1e6:,.0f} MB, {rows:,} rows; {describe_memory('imported and written')}"
        )
        start = perf_counter()
        source = load_data(f"csv:{path}?label=click", Task("any", (1,), 1))
        print(f"both passes: {perf_counter() - start:.0f} s, {describe_memory('opened')}")
        if source.card is not None:
            print("\n".join(source.card().lines()))
        start = perf_counter()
        batches = source.parts[TRAIN].batches(512, make_torch_generator("table"))
        row_count = sum(
            len(batch) for _, batch in zip(range(options.batches), batches, strict=False)
        )
        print(
            f"{row_count:,} rows in shuffled batches: {perf_counter() - start:.1f} s, {describe_memory('read')}",
            flush=True,
        )
        run = Path(folder, "run")
        data = ("--data", f"csv:{path}", "--label", "click")
        proxy = ("--proxy", "sigeo(preset=recommendation)", "--warm-up", "1%")
        space = ("--space", "nasrec_small(blocks=2)", "--budget", "20", "--no-confirm")
        peaks = [
            run_and_watch("search", *space, *data, *proxy, "--run", str(run)),
            run_and_watch("train", str(run), "--time", f"{options.minutes}m"),
        ]
        print(f"within {MAX_MEMORY:,} MiB: {'yes' if max(peaks) <= MAX_MEMORY else 'NO'}")


def write_table(path: Path, size: int) -> int:
    """Write a file of about `size` bytes and return its number of rows."""
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            pcsv.write_csv(make_chunk(rows), file, pcsv.WriteOptions(include_header=rows == 0))
            rows += CHUNK_ROWS
    return rows


def make_chunk(start: int) -> pa.Table:
    rng = make_generator("table", start)
    values, ids, logit = generate_clicks(CHUNK_ROWS, block=start)
    columns = {f"number{i}": np.round(column, 4) for i, column in enumerate(values.T)}
    columns |= {
        f"field{i}": np.char.add(f"f{i}_", column.astype(str)) for i, column in enumerate(ids.T)
    }
    users = np.char.add("u", rng.integers(DISTINCT, size=CHUNK_ROWS).astype(str))
    texts = np.char.add("some words of no consequence ", (ids[:, 0] % 7).astype(str))
    clicks = (rng.random(CHUNK_ROWS) < 1 / (1 + np.exp(-logit))).astype(int)
    return pa.table({"click": clicks, **columns, "user": users, "words": texts})


def describe_memory(when: str) -> str:
    """Format the memory of this process: its own, in total, and the peak of the total."""
    own, whole, peak = read_memory(os.getpid())
    return f"{when}: {own:,.0f} MiB own, {whole:,.0f} MiB in total, peak {peak:,.0f} MiB"


def run_and_watch(*command: str) -> float:
    """Run our command line and return the peak of the own memory of all its processes in MiB."""
    print(f"\nuntrained {' '.join(command)}", flush=True)
    start = perf_counter()
    own = 0.0
    whole = 0.0
    program = [sys.executable, "-c", "from untrained.cli.app import main; main()", *command]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            memories = [read_memory(pid) for pid in list_processes(process.pid)]
            own = max(own, sum(memory[0] for memory in memories))
            whole = max(whole, sum(memory[1] for memory in memories))
            sleep(0.2)
    if process.returncode:
        sys.exit(f"it ended with {process.returncode}")
    print(
        f"{perf_counter() - start:.0f} s; peak: {own:,.0f} MiB own, {whole:,.0f} MiB in total",
        flush=True,
    )
    return own


def list_processes(process: int) -> list[int]:
    """List a process and all processes that it started, directly or indirectly."""
    processes = [process]
    for pid in processes:  # the list grows
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            processes += [int(child) for child in read_text_or_nothing(children).split()]
    return processes


def read_memory(process: int) -> tuple[float, float, float]:
    """Return MiB of a process: its own, in total, and the peak of the total; 0 if it has ended."""
    kib: dict[str, int] = {}
    for line in read_text_or_nothing(Path(f"/proc/{process}/status")).splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "VmRSS", "VmHWM"):
            kib[name] = int(value.split()[0])
    own = kib.get("RssAnon", 0) / 1024
    whole = kib.get("VmRSS", 0) / 1024
    peak = kib.get("VmHWM", 0) / 1024
    return own, whole, peak


def read_text_or_nothing(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


if __name__ == "__main__":
    main()
