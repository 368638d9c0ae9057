"""TransNAS-Bench-101, micro space, from our CSV files: 4,096 cells, seven tasks."""

from pathlib import Path

from untrained.benchmarks.importers.csv_files import (
    SUITE_ZERO,
    add_suite_zero_scores,
    find_files,
    make_builder,
    read_csv,
)
from untrained.benchmarks.table import Metric, Split
from untrained.benchmarks.table_builder import TableBuilder, make_arch_reader

_FULL_FILE = "tnb101_micro_full.csv.gz"
_SUBSET_FILE = "tnb101_micro_zc12_subset.csv.gz"

# Kind and unit of the metric of each task.
KINDS = {
    "class_scene": ("accuracy", "%"),
    "class_object": ("accuracy", "%"),
    "jigsaw": ("accuracy", "%"),
    "segmentsemantic": ("accuracy", "%"),
    "autoencoder": ("ssim", ""),
    "normal": ("ssim", ""),
    "room_layout": ("negative loss", ""),
}


def make_task_metric(
    task: str, split: Split, variant: str = "", about: str = "", source: str = SUITE_ZERO
) -> Metric:
    """Return the metric of a task; higher is better for all seven."""
    kind, unit = KINDS[task]
    return Metric(
        kind,
        unit,
        higher_is_better=True,
        dataset=task,
        split=split,
        variant=variant,
        about=about,
        source=source,
    )


def format_arch(operations: str) -> str:
    """Convert six digits to the official notation: `310022` -> `64-41414-3_10_022`."""
    return f"64-41414-{operations[0]}_{operations[1:3]}_{operations[3:]}"


def read_transnas(path: Path) -> TableBuilder | None:
    """Read the full file, and the file of a subset that was exported earlier if it exists."""
    files = find_files(path, "transnasbench101", _FULL_FILE, _SUBSET_FILE)
    if files is None:
        return None
    builder = make_builder(files)
    _add_file(builder, files[0], run="zip", variant="", about="")
    for file in files[1:]:
        about = "an earlier export, results at another epoch"
        _add_file(builder, file, run="json", variant="earlier", about=about)
    return builder


def _add_file(builder: TableBuilder, file: Path, run: str, variant: str, about: str) -> None:
    """Add the validation results and the published scores of one file.

    Args:
        builder: Receives the numbers.
        file: The CSV file.
        run: Name of the run that computed the scores.
        variant: Variant of the metrics, see `Metric`.
        about: A remark on the metrics, in a few words.
    """
    read_arch = make_arch_reader("transnas_micro")
    table = read_csv(file, "task", "arch", "val_accuracy")
    for task, rows in table.groupby("task"):
        archs = [read_arch(format_arch(operations)) for operations in rows["arch"]]
        metric = make_task_metric(str(task), "val", variant, about)
        builder.add_values(archs, metric, rows["val_accuracy"])
        add_suite_zero_scores(builder, rows, archs, str(task), run)
