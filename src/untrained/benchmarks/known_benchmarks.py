"""The known benchmarks: their spaces, the files of their tables, and how to import them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.parquet import write_table_file
from untrained.benchmarks.table import BenchmarkTable, make_table_header
from untrained.data_root import find_data_root
from untrained.errors import UsageError
from untrained.registry import Registry

if TYPE_CHECKING:
    from untrained.benchmarks.table_builder import TableBuilder


# Tables that come with this package.
_PACKAGE_FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class ImportFormat:
    """A format that a table can be imported from.

    Attributes:
        about: Description for error messages.
        read: Reads a path; returns None if the path has another format.
    """

    about: str
    read: "Callable[[Path], TableBuilder | None]"


@dataclass(frozen=True)
class Benchmark:
    """Known results of a space.

    Attributes:
        name: Name of the benchmark.
        space: Name of the space.
        size: Number of architectures in the whole benchmark; None for a sample of the space.
        about: What it is, in one sentence.
        formats: Formats that the table can be imported from; none if it comes with this package.
        input_size: Height and width of the images, if other than those of the data set.
    """

    name: str
    space: str
    size: int | None
    about: str
    formats: tuple[ImportFormat, ...]
    input_size: int | None = None

    @property
    def is_packaged(self) -> bool:
        """Whether the table comes with this package, so that it need not be imported."""
        return not self.formats

    def get_path(self, root: str | Path | None = None) -> Path:
        """Return where the table is stored: in this package, or under a data root."""
        if self.is_packaged:
            return _PACKAGE_FOLDER / f"{self.name}.parquet"
        return find_data_root(root) / "benchmarks" / f"{self.name}.parquet"

    @property
    def import_sources(self) -> str:
        """The files and folders that the table can be imported from, in words."""
        return " or ".join(import_format.about for import_format in self.formats)


BENCHMARKS: Registry[Benchmark] = Registry("benchmark")


def list_benchmarks(space: str) -> list[str]:
    """Return the names of the benchmarks of a space, the default one first.

    Raises:
        UsageError: There is no benchmark of this space.
    """
    base_name = space.partition("(")[0]
    names = [name for name, benchmark in BENCHMARKS.items() if benchmark.space == base_name]
    if not names:
        spaces = ", ".join(dict.fromkeys(benchmark.space for benchmark in BENCHMARKS.values()))
        raise UsageError(
            f"there is no table of known results for {space}; there are tables for {spaces}, "
            "and --table reads your own"
        )
    return names


def find_default_benchmark(space: str) -> str:
    """Return the name of the default benchmark of a space."""
    return list_benchmarks(space)[0]


def open_table(name: str, root: str | Path | None = None) -> BenchmarkTable:
    """Open the table of a benchmark; its numbers are read when they are used.

    Args:
        name: Name of the benchmark.
        root: The data root, if not the default one.

    Raises:
        UsageError: There is no such table, or it is damaged.
    """
    benchmark = BENCHMARKS[name]
    path = benchmark.get_path(root)
    if benchmark.is_packaged:
        return _open_packaged_table(path, name)
    if not path.exists():
        raise UsageError(
            f"the table of {name} is not at {path}; `untrained data import {name} PATH` makes it "
            f"from {benchmark.import_sources}"
        )
    return BenchmarkTable.open(path, name)


def _open_packaged_table(path: Path, name: str) -> BenchmarkTable:
    try:
        return BenchmarkTable.open(path, name)
    except UsageError as error:
        # The advice of the original error is to import the table.
        raise UsageError(
            f"{path}, which comes with untrained, is missing or damaged; install untrained again"
        ) from error


def import_benchmark(name: str, path: str | Path, root: str | Path | None = None) -> BenchmarkTable:
    """Make the table of a benchmark from published files, or from the CSV files of this project.

    If the table exists, its other columns are kept.

    Args:
        name: Name of the benchmark.
        path: The file or folder; its format is recognised.
        root: The data root, if not the default one.

    Raises:
        UsageError: The path is missing, damaged or of another format.
    """
    benchmark = BENCHMARKS[name]
    if benchmark.is_packaged:
        raise UsageError(
            f"the table of {name} comes with untrained; type `untrained bench --space "
            f"{benchmark.space}`"
        )
    path = Path(path)
    if not path.exists():
        raise UsageError(f"there is no {path}; {name} can be made from {benchmark.import_sources}")
    builder = _read_any_format(benchmark, path)
    if builder is None:
        raise UsageError(
            f"{path} has another format; {name} can be made from {benchmark.import_sources}"
        )
    # A missing or damaged table has no columns to keep.
    with suppress(UsageError):
        builder.add_table(open_table(name, root))
    columns = builder.make_columns()
    if not columns:
        raise UsageError(
            f"{path} holds no numbers; {name} can be made from {benchmark.import_sources}"
        )
    counts = {column: int(np.isfinite(values).sum()) for column, values in columns.items()}
    header = make_table_header(name, benchmark.space, benchmark.size, counts, builder.sources)
    columns_by_name = {column.name: values for column, values in columns.items()}
    write_table_file(benchmark.get_path(root), header, builder.archs, columns_by_name)
    return open_table(name, root)


def _read_any_format(benchmark: Benchmark, path: Path) -> "TableBuilder | None":
    """Read a path in the first format that recognises it."""
    with expect_layout(path, benchmark.name):
        for import_format in benchmark.formats:
            builder = import_format.read(path)
            if builder is not None:
                return builder
    return None


# ---------------------------------------------------------------------------- registrations


def _make_lazy_reader(
    module: str, function: str, *arguments: object
) -> "Callable[[Path], TableBuilder | None]":
    """Return a reader that imports its module when it is called.

    Importers need torch or pandas, which opening a table does not.
    """

    def read(path: Path) -> "TableBuilder | None":
        importer = import_module(f"untrained.benchmarks.importers.{module}")
        builder: TableBuilder | None = getattr(importer, function)(*arguments, path)
        return builder

    return read


def _make_csv_format(file: str, module: str, function: str, *arguments: object) -> ImportFormat:
    """Return the format of a folder with CSV files of this project, of which `file` is required."""
    return ImportFormat(f"a folder with {file}", _make_lazy_reader(module, function, *arguments))


def _make_suite_zero_format(benchmark: str, file: str) -> ImportFormat:
    """Return the format of a JSON file of NAS-Bench-Suite-Zero."""
    about = f"{file} of NAS-Bench-Suite-Zero"
    return ImportFormat(about, _make_lazy_reader("suite_zero", "read_suite_zero", benchmark))


def _register_benchmark(
    name: str, space: str, size: int, about: str, *formats: ImportFormat
) -> None:
    BENCHMARKS.add(name, Benchmark(name, space, size, about, formats))


# Two cells, each with 180 wirings and 7 operations on 8 edges.
_DARTS_SIZE = (180 * 7**8) ** 2
_NASBENCH101_FILE = "nb101_1shot1_spaces12.csv.gz"

_register_benchmark(
    "nasbench201",
    "nasbench201",
    15_625,
    "NAS-Bench-201: CIFAR-10, CIFAR-100 and ImageNet16-120 after 12 and 200 epochs, cost, "
    "latency on devices.",
    _make_csv_format("nb201_full.csv.gz", "csv_nasbench201", "read_nasbench201"),
    ImportFormat(
        "the folder NATS-tss-v1_0-3ffb9-simple of NATS-Bench",
        _make_lazy_reader("nats", "read_nats"),
    ),
    ImportFormat("HW-NAS-Bench-v1_0.pickle", _make_lazy_reader("hwnas", "read_hwnas")),
    _make_suite_zero_format("nasbench201", "zc_nasbench201.json"),
)
_register_benchmark(
    "nasbench101",
    "nasbench101",
    423_624,
    "NAS-Bench-101: CIFAR-10 after 108 epochs, three trainings per cell.",
    _make_csv_format(_NASBENCH101_FILE, "csv_nasbench101", "read_nasbench101"),
    ImportFormat(
        "nasbench_only108.tfrecord or nasbench_full.tfrecord",
        _make_lazy_reader("nasbench101_tfrecord", "read_tfrecord"),
    ),
    _make_suite_zero_format("nasbench101", "zc_nasbench101.json"),
)
for _number, _size in ((1, 2_487), (2, 3_609)):
    _register_benchmark(
        f"nasbench1shot1_s{_number}",
        f"nasbench1shot1_s{_number}",
        _size,
        f"NAS-Bench-1Shot1, space {_number}: cells of NAS-Bench-101 that fit into a supernet.",
        _make_csv_format(_NASBENCH101_FILE, "csv_nasbench101", "read_1shot1", _number),
    )
_register_benchmark(
    "nasbench301",
    "darts",
    _DARTS_SIZE,
    "NAS-Bench-301: predictions of a surrogate for DARTS cells on CIFAR-10.",
    _make_csv_format("nb301_zc12_acc.csv.gz", "csv_darts", "read_nasbench301"),
    _make_suite_zero_format("nasbench301", "zc_nasbench301.json"),
)
_register_benchmark(
    "darts1000",
    "darts",
    _DARTS_SIZE,
    "1,000 random DARTS cells, each trained on CIFAR-10.",
    _make_csv_format("darts1000_cifar10.csv.gz", "csv_darts", "read_darts1000"),
)
_register_benchmark(
    "transnas",
    "transnas_micro",
    4_096,
    "TransNAS-Bench-101, micro space: seven tasks on the same images.",
    _make_csv_format("tnb101_micro_full.csv.gz", "csv_transnas", "read_transnas"),
    ImportFormat("transnas-bench_v10141024.pth", _make_lazy_reader("transnas_pth", "read_pth")),
    _make_suite_zero_format("transnas", "zc_transbench101_micro.json"),
)
_register_benchmark(
    "accel_nasbench",
    "mnasnet",
    # Each of seven blocks has 3 expansions, 2 kernels, and squeeze-and-excitation or not. One block
    # has 4 possible depths, the others have 3.
    36**6 * 48,
    "Accel-NASBench: 5,125 MnasNet-like networks, ImageNet accuracy, speed on six devices.",
    _make_csv_format("accel_nasbench.csv.gz", "csv_accel_nasbench", "read_accel_nasbench"),
)
# Our own trainings. The script `benchmarks/own_table.py` of the repository made these tables.
for _space, _networks in (
    ("convnet", "convolutional networks"),
    ("vit", "small transformers"),
):
    BENCHMARKS.add(
        _space,
        Benchmark(
            name=_space,
            space=_space,
            size=None,
            about=f"Our own short trainings of {_networks} on CIFAR-10 at 16 x 16 pixels.",
            formats=(),
            input_size=16,
        ),
    )
