"""Accel-NASBench from our CSV file: 5,125 MnasNet-like networks, ImageNet accuracy, six devices."""

from pathlib import Path

from untrained.benchmarks.importers.csv_files import find_files, make_builder, read_csv
from untrained.benchmarks.table import Metric
from untrained.benchmarks.table_builder import TableBuilder, make_arch_reader

_SOURCE = "Accel-NASBench"
_SHORT_TRAINING = "shortened training by the authors, mean if there are several"
_DEVICES = {
    "latency": ("zcu102", "vck190"),
    "throughput": ("a100", "3090", "tpuv2", "tpuv3", "zcu102", "vck190"),
}


def read_accel_nasbench(path: Path) -> TableBuilder | None:
    """Read Accel-NASBench."""
    files = find_files(path, "accel_nasbench", "accel_nasbench.csv.gz")
    if files is None:
        return None
    builder = make_builder(files)
    columns = _list_columns()
    table = read_csv(files[0], "arch", *columns)
    read_arch = make_arch_reader("mnasnet")
    table["key"] = [read_arch(text) for text in table["arch"]]
    # Some networks were trained and measured more than once.
    means = table.groupby("key", sort=False)[list(columns)].mean()
    for name, metric in columns.items():
        builder.add_values(means.index, metric, means[name])
    return builder


def _list_columns() -> dict[str, Metric]:
    """Return the columns of the file by their names there."""
    columns = {
        "imagenet_val_top1": _make_accuracy(variant="", about=_SHORT_TRAINING),
        "imagenet_val_top5": _make_accuracy(
            variant="top5", about=f"top-5 accuracy, {_SHORT_TRAINING}"
        ),
        "train_seconds": _make_cost("seconds", "s", dataset="imagenet"),
        "params_m": _make_cost("params", "M", dataset="imagenet"),
        "macs_m": _make_cost(
            "flops", "M", dataset="imagenet", about="batch norms and pooling are counted too"
        ),
    }
    for device in _DEVICES["latency"]:
        columns[f"latency_{device}"] = _make_cost("latency", "ms", variant=device)
    for device in _DEVICES["throughput"]:
        columns[f"throughput_{device}"] = Metric(
            kind="throughput",
            unit="images/s",
            higher_is_better=True,
            variant=device,
            source=_SOURCE,
        )
    return columns


def _make_accuracy(variant: str, about: str) -> Metric:
    return Metric(
        kind="accuracy",
        unit="%",
        higher_is_better=True,
        dataset="imagenet",
        split="val",
        variant=variant,
        about=about,
        source=_SOURCE,
    )


def _make_cost(
    kind: str, unit: str, dataset: str = "", variant: str = "", about: str = ""
) -> Metric:
    return Metric(
        kind=kind,
        unit=unit,
        higher_is_better=False,
        dataset=dataset,
        variant=variant,
        about=about,
        source=_SOURCE,
    )
