"""Peak memory of reading a table that is larger than memory may be: a CSV file is made, opened and read in batches.

    python benchmarks/table.py [--megabytes 2000] [--folder DIR] [--batches 200]

The file has the columns of `clicks`, a column of ten million different identifiers and a text of thirty letters.
Memory of this process is told after importing, after both passes and after some shuffled batches: its own, and with the
pages of the cache file, which the system may take back whenever it likes.
"""

import argparse
import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from untrained.data import TRAIN, load
from untrained.data.clicks import made
from untrained.rng import generator, torch_generator
from untrained.types import Task

ROWS = 100_000  # written at once
DISTINCT = 10_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where the file and its cache are made; they are removed")
    parser.add_argument("--batches", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = Path(folder, "clicks.csv")
        rows = write(path, options.megabytes * 10**6)
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {rows:,} rows; {told('imported and written')}")
        start = perf_counter()
        source = load(f"csv:{path}?label=click", Task("any", (1,), 1))
        print(f"both passes: {perf_counter() - start:.0f} s, {told('opened')}")
        print("\n".join(source.card.lines()))
        start, batches = perf_counter(), source.parts[TRAIN].batches(512, torch_generator("table"))
        seen = sum(len(batch) for _, batch in zip(range(options.batches), batches, strict=False))
        print(f"{seen:,} rows in shuffled batches: {perf_counter() - start:.1f} s, {told('read')}")


def write(path: Path, size: int) -> int:
    """A file of about this many bytes; how many rows it has."""
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            pcsv.write_csv(chunk(rows), file, pcsv.WriteOptions(include_header=rows == 0))
            rows += ROWS
    return rows


def chunk(start: int) -> pa.Table:
    drawn = generator("table", start)
    values, ids, logit = made(ROWS, block=start)
    columns = {f"number{i}": np.round(column, 4) for i, column in enumerate(values.T)}
    columns |= {f"field{i}": np.char.add(f"f{i}_", column.astype(str)) for i, column in enumerate(ids.T)}
    users = np.char.add("u", drawn.integers(DISTINCT, size=ROWS).astype(str))
    texts = np.char.add("some words of no consequence ", (ids[:, 0] % 7).astype(str))
    clicks = (drawn.random(ROWS) < 1 / (1 + np.exp(-logit))).astype(int)
    return pa.table({"click": clicks, **columns, "user": users, "words": texts})


def told(when: str) -> str:
    """Memory of this process now, its own and in all, and the peak of all."""
    facts = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    own, whole, peak = (int(facts[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS", "VmHWM"))
    return f"{when}: {own:,.0f} MiB own, {whole:,.0f} MiB in all, peak of all {peak:,.0f} MiB"


if __name__ == "__main__":
    main()
