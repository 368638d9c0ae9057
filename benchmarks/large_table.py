"""Peak memory of a table that is larger than memory may be: a CSV file is made, read in batches, searched and trained.

    python benchmarks/large_table.py [--megabytes 2000] [--folder DIR] [--batches 200] [--minutes 4]

The file has the columns of `clicks`, a column of ten million different identifiers and a text of thirty letters.
Memory of this process is told after importing, after both passes and after some shuffled batches. Then the command line
searches the table and trains what it finds for some minutes; all its processes are watched. Memory is told twice: their
own, and with the pages of the cache file, which the system may take back whenever it likes.
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

ROWS = 100_000  # written at once
DISTINCT = 10_000_000
BAR = 3 * 1024  # MiB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument(
        "--folder", type=Path, help="where the file and its cache are made; they are removed"
    )
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=4.0, help="of training")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = Path(folder, "clicks.csv")
        rows = write(path, options.megabytes * 10**6)
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {rows:,} rows; {told('imported and written')}")
        start = perf_counter()
        source = load_data(f"csv:{path}?label=click", Task("any", (1,), 1))
        print(f"both passes: {perf_counter() - start:.0f} s, {told('opened')}")
        print("\n".join(source.card().lines() if source.card else ()))
        start, batches = (
            perf_counter(),
            source.parts[TRAIN].batches(512, make_torch_generator("table")),
        )
        seen = sum(len(batch) for _, batch in zip(range(options.batches), batches, strict=False))
        print(
            f"{seen:,} rows in shuffled batches: {perf_counter() - start:.1f} s, {told('read')}",
            flush=True,
        )
        run, data = Path(folder, "run"), ("--data", f"csv:{path}", "--label", "click")
        proxy = ("--proxy", "sigeo(preset=recommendation)", "--warm-up", "1%")
        space = ("--space", "nasrec_small(blocks=2)", "--budget", "20", "--no-confirm")
        peaks = [
            watched("search", *space, *data, *proxy, "--run", str(run)),
            watched("train", str(run), "--time", f"{options.minutes}m"),
        ]
        print(f"within {BAR:,} MiB: {'yes' if max(peaks) <= BAR else 'NO'}")


def write(path: Path, size: int) -> int:
    """A file of about this many bytes; how many rows it has."""
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            pcsv.write_csv(chunk(rows), file, pcsv.WriteOptions(include_header=rows == 0))
            rows += ROWS
    return rows


def chunk(start: int) -> pa.Table:
    drawn = make_generator("table", start)
    values, ids, logit = generate_clicks(ROWS, block=start)
    columns = {f"number{i}": np.round(column, 4) for i, column in enumerate(values.T)}
    columns |= {
        f"field{i}": np.char.add(f"f{i}_", column.astype(str)) for i, column in enumerate(ids.T)
    }
    users = np.char.add("u", drawn.integers(DISTINCT, size=ROWS).astype(str))
    texts = np.char.add("some words of no consequence ", (ids[:, 0] % 7).astype(str))
    clicks = (drawn.random(ROWS) < 1 / (1 + np.exp(-logit))).astype(int)
    return pa.table({"click": clicks, **columns, "user": users, "words": texts})


def told(when: str) -> str:
    """Memory of this process now, its own and in all, and the peak of all."""
    own, whole, peak = memory(os.getpid())
    return f"{when}: {own:,.0f} MiB own, {whole:,.0f} MiB in all, peak of all {peak:,.0f} MiB"


def watched(*command: str) -> float:
    """Run our command line, and tell how much memory it and its processes had at most: their own, in MiB."""
    print(f"\nuntrained {' '.join(command)}", flush=True)
    start, own, whole = perf_counter(), 0.0, 0.0
    program = [sys.executable, "-c", "from untrained.cli.app import main; main()", *command]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            now = [memory(process) for process in family(running.pid)]
            own, whole = (
                max(own, sum(each[0] for each in now)),
                max(whole, sum(each[1] for each in now)),
            )
            sleep(0.2)
    if running.returncode:
        sys.exit(f"it ended with {running.returncode}")
    print(
        f"{perf_counter() - start:.0f} s; peak: {own:,.0f} MiB own, {whole:,.0f} MiB in all",
        flush=True,
    )
    return own


def family(process: int) -> list[int]:
    """A process and all that it started."""
    found = [process]
    for one in found:  # which grows
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in _read(children).split()]
    return found


def memory(process: int) -> tuple[float, float, float]:
    """MiB of a process: its own, in all, and the peak of all; 0 of one that has ended."""
    facts = dict(line.split(":", 1) for line in _read(Path(f"/proc/{process}/status")).splitlines())
    own, whole, peak = (
        int(facts.get(name, "0").split()[0]) / 1024 for name in ("RssAnon", "VmRSS", "VmHWM")
    )
    return own, whole, peak


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process is gone
        return ""


if __name__ == "__main__":
    main()
