"""TransNAS-Bench-101 as its authors publish it: `transnas-bench_v10141024.pth`, of which we read the micro space.

For each architecture and task there are lists of numbers, one an epoch. `..._val` and `..._test` are those of the last
epoch, `..._val_best` is the best of all epochs.
"""

from pathlib import Path

from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._rows import Rows, canonical, source
from untrained.benchmarks._table import Split
from untrained.benchmarks.importers.csv_transnas import quality
from untrained.readers.torch_file import read_torch

_PUBLISHER = "TransNAS-Bench-101"
_NAMES = dict.fromkeys(("class_scene", "class_object", "jigsaw"), "top1") | dict.fromkeys(
    ("autoencoder", "normal"), "ssim"
)
_NAMES |= {"segmentsemantic": "acc", "room_layout": "neg_loss"}
_SPLITS: dict[str, Split] = {"train": "train", "valid": "val", "test": "test"}


def read(path: Path) -> Rows | None:
    if path.suffix != ".pth":
        return None
    rows, key = Rows(source(path.name, [path])), canonical("transnas_micro")
    with laid_out(path, _PUBLISHER):
        for text, tasks in read_torch(path)["data"]["micro"].items():
            for task, results in tasks.items():
                for theirs, split in _SPLITS.items():
                    values = results["metrics"][f"{theirs}_{_NAMES[task]}"]
                    last = quality(task, split, about="last epoch", source=_PUBLISHER)
                    rows.put(key(text), last, float(values[-1]))
                    if split == "val":
                        best = quality(task, split, "best", "best of all epochs", _PUBLISHER)
                        rows.put(key(text), best, float(max(values)))
    return rows
