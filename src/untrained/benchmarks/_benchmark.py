"""The benchmarks there are: what each is, where its table lies, and what it can be made from."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from untrained._root import data_root
from untrained.benchmarks import _parquet
from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._table import Table, header
from untrained.errors import UsageError
from untrained.registry import Registry

if TYPE_CHECKING:
    from untrained.benchmarks._rows import Rows


@dataclass(frozen=True)
class Format:
    """Something a table can be made from; `read` answers None to a path that is something else."""

    what: str
    read: Callable[[Path], "Rows | None"]


@dataclass(frozen=True)
class Benchmark:
    """Known results of a space, under a name; `size` counts the architectures of the whole benchmark."""

    name: str
    space: str
    size: int
    about: str
    formats: tuple[Format, ...]

    def path(self, root: str | Path | None = None) -> Path:
        return data_root(root) / "benchmarks" / f"{self.name}.parquet"

    @property
    def made_from(self) -> str:
        return " or ".join(format_.what for format_ in self.formats)


BENCHMARKS: Registry[Benchmark] = Registry("benchmark")


def benchmarks_of(space: str) -> list[str]:
    """The tables of a space, the usual one first."""
    base = space.partition("(")[0]
    found = [name for name, known in BENCHMARKS.items() if known.space == base]
    if not found:
        spaces = ", ".join(dict.fromkeys(known.space for known in BENCHMARKS.values()))
        raise UsageError(f"no table of known results is about {space}; there are tables for {spaces}")
    return found


def benchmark_of(space: str) -> str:
    """The first table of a space."""
    return benchmarks_of(space)[0]


def open_table(name: str, root: str | Path | None = None) -> Table:
    """The table of a benchmark under the data root; its numbers are read when they are asked for."""
    benchmark = BENCHMARKS[name]
    path = benchmark.path(root)
    if not path.exists():
        raise UsageError(
            f"the table of {name} is not at {path}; `untrained data import {name} PATH` makes it from "
            f"{benchmark.made_from}"
        )
    return Table.open(path, name)


def import_benchmark(name: str, path: str | Path, root: str | Path | None = None) -> Table:
    """Make the table of a benchmark from a file or folder of its publishers, or of ours, whichever `path` is.

    What is there already stays, except for columns that are also in `path`.
    """
    benchmark, path = BENCHMARKS[name], Path(path)
    if not path.exists():
        raise UsageError(f"there is no {path}; {name} can be made from {benchmark.made_from}")
    with laid_out(path, benchmark.name):
        readings = (format_.read(path) for format_ in benchmark.formats)
        rows = next((reading for reading in readings if reading is not None), None)
    if rows is None:
        raise UsageError(f"{path} is nothing that {name} can be made from: {benchmark.made_from}")
    with suppress(UsageError):  # there is none yet, or a damaged one, which is now made anew
        rows.add(open_table(name, root))
    columns = rows.columns()
    if not columns:
        raise UsageError(f"{path} holds no numbers; {name} can be made from {benchmark.made_from}")
    counts = {column: int(np.isfinite(values).sum()) for column, values in columns.items()}
    about = header(name, benchmark.space, benchmark.size, counts, rows.sources)
    _parquet.write(benchmark.path(root), about, rows.archs, {column.name: v for column, v in columns.items()})
    return open_table(name, root)


# ------------------------------------------------------------------------------------------------------ those we know


def _reader(module: str, function: str = "read", *arguments: Any) -> Callable[[Path], "Rows | None"]:
    """A reader that is imported when it is used: reading tables needs neither torch nor pandas."""

    def read(path: Path) -> "Rows | None":
        reads = getattr(import_module(f"untrained.benchmarks.importers.{module}"), function)
        found: Rows | None = partial(reads, *arguments)(path)
        return found

    return read


def _register(name: str, space: str, size: int, about: str, *formats: Format) -> None:
    BENCHMARKS.add(name, Benchmark(name, space, size, about, formats))


def _csv(file: str, module: str, function: str = "read", *arguments: Any) -> Format:
    return Format(f"a folder with {file}", _reader(module, function, *arguments))


def _suite_zero(name: str, file: str) -> Format:
    return Format(f"{file} of NAS-Bench-Suite-Zero", _reader("suite_zero", "read", name))


_DARTS = (180 * 7**8) ** 2  # two cells of 180 wirings and 7 operations on 8 edges
_CELLS = "nb101_1shot1_spaces12.csv.gz"

_register(
    "nasbench201",
    "nasbench201",
    15_625,
    "NAS-Bench-201: CIFAR-10, CIFAR-100 and ImageNet16-120 after 12 and 200 epochs, cost, latency on devices.",
    _csv("nb201_full.csv.gz", "csv_nasbench201"),
    Format("the folder NATS-tss-v1_0-3ffb9-simple of NATS-Bench", _reader("nats")),
    Format("HW-NAS-Bench-v1_0.pickle", _reader("hwnas")),
    _suite_zero("nasbench201", "zc_nasbench201.json"),
)
_register(
    "nasbench101",
    "nasbench101",
    423_624,
    "NAS-Bench-101: CIFAR-10 after 108 epochs, three trainings a cell.",
    _csv(_CELLS, "csv_nasbench101"),
    Format("nasbench_only108.tfrecord or nasbench_full.tfrecord", _reader("nasbench101_tfrecord")),
    _suite_zero("nasbench101", "zc_nasbench101.json"),
)
for _number, _size in ((1, 2_487), (2, 3_609)):
    _register(
        f"nasbench1shot1_s{_number}",
        f"nasbench1shot1_s{_number}",
        _size,
        f"NAS-Bench-1Shot1, space {_number}: cells of NAS-Bench-101 that a supernet can hold.",
        _csv(_CELLS, "csv_nasbench101", "read_1shot1", _number),
    )
_register(
    "nasbench301",
    "darts",
    _DARTS,
    "NAS-Bench-301: what a surrogate says of DARTS cells on CIFAR-10.",
    _csv("nb301_zc12_acc.csv.gz", "csv_darts", "read_nasbench301"),
    _suite_zero("nasbench301", "zc_nasbench301.json"),
)
_register(
    "darts1000",
    "darts",
    _DARTS,
    "1,000 random DARTS cells, each trained on CIFAR-10.",
    _csv("darts1000_cifar10.csv.gz", "csv_darts", "read_darts1000"),
)
_register(
    "transnas",
    "transnas_micro",
    4_096,
    "TransNAS-Bench-101, micro space: seven tasks on the same images.",
    _csv("tnb101_micro_full.csv.gz", "csv_transnas"),
    Format("transnas-bench_v10141024.pth", _reader("transnas_pth")),
    _suite_zero("transnas", "zc_transbench101_micro.json"),
)
