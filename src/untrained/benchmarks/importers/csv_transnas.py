"""TransNAS-Bench-101, the micro space, from the CSV files of our data folder: 4,096 cells, seven tasks."""

from pathlib import Path

from untrained.benchmarks._rows import Rows, canonical
from untrained.benchmarks._table import Metric, Split
from untrained.benchmarks.importers._csv import SUITE_ZERO, files, frame, put_scores, rows_of

KINDS = dict.fromkeys(("class_scene", "class_object", "jigsaw", "segmentsemantic"), ("accuracy", "%"))
KINDS |= dict.fromkeys(("autoencoder", "normal"), ("ssim", "")) | {"room_layout": ("negative loss", "")}


def quality(task: str, split: Split, variant: str = "", about: str = "", source: str = SUITE_ZERO) -> Metric:
    """How good a network is at a task; more of it is better for all seven."""
    kind, unit = KINDS[task]
    return Metric(kind, unit, True, task, split, None, variant, about, source)


def arch_string(ops: str) -> str:
    """`310022` -> `64-41414-3_10_022`."""
    return f"64-41414-{ops[0]}_{ops[1:3]}_{ops[3:]}"


def read(path: Path) -> Rows | None:
    found = files(path, "transnasbench101", "tnb101_micro_full.csv.gz", "tnb101_micro_zc12_subset.csv.gz")
    if found is None:
        return None
    rows, key = rows_of(found), canonical("transnas_micro")
    for file, run, variant in zip(found, ("zip", "json"), ("", "earlier"), strict=False):
        for name, part in frame(file, "task", "arch", "val_accuracy").groupby("task"):
            task = str(name)
            archs = [key(arch_string(ops)) for ops in part["arch"]]
            about = "an earlier query, at another epoch" if variant else ""
            rows.put_all(archs, quality(task, "val", variant, about), part["val_accuracy"])
            put_scores(rows, part, archs, task, run)
    return rows
