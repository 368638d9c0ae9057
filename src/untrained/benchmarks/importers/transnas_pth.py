"""Read the micro space of TransNAS-Bench-101 from the published `transnas-bench_v10141024.pth`.

For each architecture and task there are lists with one number per epoch. `..._val` and `..._test`
are those of the last epoch, `..._val_best` is the best of all epochs.
"""

from pathlib import Path

from untrained.benchmarks.importers.csv_transnas import make_task_metric
from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.table import Split
from untrained.benchmarks.table_builder import TableBuilder, describe_source, make_arch_reader
from untrained.readers.torch_file import read_torch

_PUBLISHER = "TransNAS-Bench-101"
# The publishers' name of the metric of each task.
_METRIC_NAMES = {
    "class_scene": "top1",
    "class_object": "top1",
    "jigsaw": "top1",
    "autoencoder": "ssim",
    "normal": "ssim",
    "segmentsemantic": "acc",
    "room_layout": "neg_loss",
}
# Our splits by the names of the publishers.
_SPLITS: dict[str, Split] = {"train": "train", "valid": "val", "test": "test"}


def read_pth(path: Path) -> TableBuilder | None:
    """Read the file of the publishers."""
    if path.suffix != ".pth":
        return None
    builder = TableBuilder(describe_source(path.name, [path]))
    read_arch = make_arch_reader("transnas_micro")
    with expect_layout(path, _PUBLISHER):
        for text, tasks in read_torch(path)["data"]["micro"].items():
            arch = read_arch(text)
            for task, results in tasks.items():
                for published_split, split in _SPLITS.items():
                    name = f"{published_split}_{_METRIC_NAMES[task]}"
                    values = results["metrics"][name]
                    last = make_task_metric(task, split, about="last epoch", source=_PUBLISHER)
                    builder.add_value(arch, last, float(values[-1]))
                    if split == "val":
                        about = "best of all epochs"
                        best = make_task_metric(task, split, "best", about, _PUBLISHER)
                        builder.add_value(arch, best, float(max(values)))
    return builder
