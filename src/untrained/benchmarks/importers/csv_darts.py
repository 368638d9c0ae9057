"""Cells of the DARTS space from our CSV files.

They contain NAS-Bench-301 (predictions of a surrogate) and 1,000 cells that were trained.
"""

from pathlib import Path
from typing import Any

from untrained.benchmarks.importers.csv_files import (
    add_suite_zero_scores,
    find_files,
    make_builder,
    read_csv,
)
from untrained.benchmarks.importers.naslib_tuples import parse_naslib_tuple
from untrained.benchmarks.table import Metric
from untrained.benchmarks.table_builder import TableBuilder, make_arch_reader

# The order of operations in NASLib.
OPERATIONS = (
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
SURROGATE = Metric(
    kind="accuracy",
    unit="%",
    higher_is_better=True,
    dataset="cifar10",
    split="val",
    about="prediction of a noisy surrogate (XGB), mean over its queries",
    source="NAS-Bench-301",
)
TRAINED = Metric(
    kind="accuracy",
    unit="%",
    higher_is_better=True,
    dataset="cifar10",
    split="val",
    epochs=200,
    about="one training",
    source="SWAP",
)


def format_genotype(cells: Any) -> str:
    """Return the genotype of a NASLib architecture.

    NASLib writes a cell as pairs (source, operation). The first cell is the normal one, the second
    the reduction cell.
    """
    normal, reduce = (_format_cell(cell) for cell in cells)
    return (
        f"Genotype(normal={normal}, normal_concat=range(2, 6), "
        f"reduce={reduce}, reduce_concat=range(2, 6))"
    )


def _format_cell(cell: Any) -> str:
    edges = [f"({OPERATIONS[operation]!r}, {node})" for node, operation in cell]
    return f"[{', '.join(edges)}]"


def read_nasbench301(path: Path) -> TableBuilder | None:
    """Read NAS-Bench-301."""
    files = find_files(path, "nasbench301", "nb301_zc12_acc.csv.gz")
    if files is None:
        return None
    builder = make_builder(files)
    read_arch = make_arch_reader("darts")
    table = read_csv(files[0], "run", "arch", "val_accuracy")
    table["key"] = [read_arch(format_genotype(parse_naslib_tuple(arch))) for arch in table["arch"]]
    # The surrogate was queried several times for some cells, with different answers.
    accuracies = table.groupby("key", sort=False)["val_accuracy"].mean()
    builder.add_values(accuracies.index, SURROGATE, accuracies)
    for run, rows in table.groupby("run"):
        add_suite_zero_scores(builder, rows, list(rows["key"]), "cifar10", str(run))
    return builder


def read_darts1000(path: Path) -> TableBuilder | None:
    """Read the 1,000 cells that were trained."""
    files = find_files(path, "darts", "darts1000_cifar10.csv.gz")
    if files is None:
        return None
    builder = make_builder(files)
    table = read_csv(files[0], "genotype", "val_acc")
    read_arch = make_arch_reader("darts")
    archs = [read_arch(genotype) for genotype in table["genotype"]]
    builder.add_values(archs, TRAINED, table["val_acc"])
    return builder
