"""NATS-Bench, topology space, as published: the folder `NATS-tss-v1_0-3ffb9-simple`.

`meta.pickle.pbz2` lists the architectures; `000000.pickle.pbz2` and so on contain their results by
number of epochs, then by data set and seed, with an accuracy per set and epoch (`x-valid@199`).
"cifar10-valid" is CIFAR-10 trained on half of its training images, with the other half as the
validation set: validation accuracy on CIFAR-10 comes from there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from untrained.benchmarks.importers.csv_nasbench201 import make_accuracy_metric, make_cost_metric
from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.table import Metric, Split
from untrained.benchmarks.table_builder import TableBuilder, describe_source, make_arch_reader
from untrained.errors import UsageError
from untrained.readers.pickle_file import read_pickle

_PUBLISHER = "NATS-Bench"
_EPOCHS = (12, 200)
_DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
_MEAN_OVER_SEEDS = "mean over seeds"

# The published results of one training.
NatsTraining = dict[str, Any]
# All trainings of an architecture, by data set and seed.
NatsTrainings = dict[tuple[str, int], NatsTraining]


class _Evaluation(NamedTuple):
    """A metric of the table, and its names in the published files."""

    dataset: str
    split: Split
    variant: str
    published_dataset: str
    published_set: str


_EVALUATIONS = (
    _Evaluation("cifar10", "val", "", "cifar10-valid", "x-valid"),
    _Evaluation("cifar10", "test", "", "cifar10", "ori-test"),
    _Evaluation("cifar10", "test", "half", "cifar10-valid", "ori-test"),
    _Evaluation("cifar100", "val", "", "cifar100", "x-valid"),
    _Evaluation("cifar100", "test", "", "cifar100", "x-test"),
    _Evaluation("ImageNet16-120", "val", "", "ImageNet16-120", "x-valid"),
    _Evaluation("ImageNet16-120", "test", "", "ImageNet16-120", "x-test"),
)


def read_nats(path: Path) -> TableBuilder | None:
    """Read the folder of the publishers; it may contain only some of the architectures."""
    meta_file = path / "meta.pickle.pbz2"
    if not meta_file.is_file():
        return None
    files = sorted(path.glob("[0-9]*.pickle.pbz2"))
    builder = TableBuilder(describe_source(path.name, [meta_file, *files]))
    read_arch = make_arch_reader("nasbench201")
    with expect_layout(meta_file, _PUBLISHER):
        archs: list[str] = list(read_pickle(meta_file)["meta_archs"])
    for file in files:
        with expect_layout(file, _PUBLISHER):
            number = int(file.name.partition(".")[0])
            arch = archs[number]
            for epochs, results in read_pickle(file).items():
                if results["arch_str"] != arch:
                    raise UsageError(
                        f"{file} holds {results['arch_str']}, but {meta_file.name} says {arch}"
                    )
                for metric, value in _compute_metrics(int(epochs), results["all_results"]):
                    builder.add_value(read_arch(arch), metric, value)
    return builder


def _compute_metrics(
    epochs: int, all_trainings: NatsTrainings
) -> Iterator[tuple[Metric, float | None]]:
    """Yield the metrics of one architecture with their means over seeds."""
    if epochs not in _EPOCHS:
        return
    for evaluation in _EVALUATIONS:
        key = f"{evaluation.published_set}@{epochs - 1}"
        trainings = _select_trainings(evaluation.published_dataset, all_trainings)
        accuracies = [training["eval_acc1es"].get(key) for training in trainings]
        metric = make_accuracy_metric(
            evaluation.dataset,
            evaluation.split,
            epochs,
            evaluation.variant,
            _MEAN_OVER_SEEDS,
            _PUBLISHER,
        )
        yield metric, _compute_mean(accuracies)
    for dataset in _DATASETS:
        trainings = _select_trainings(dataset, all_trainings)
        accuracy = make_accuracy_metric(
            dataset, "train", epochs, about=_MEAN_OVER_SEEDS, source=_PUBLISHER
        )
        accuracies = [training["train_acc1es"].get(epochs - 1) for training in trainings]
        yield accuracy, _compute_mean(accuracies)
        seconds = make_cost_metric(
            "seconds", "s", dataset, epochs, variant="whole", source=_PUBLISHER
        )
        yield seconds, _compute_mean(map(_sum_seconds, trainings))
        params = make_cost_metric("params", "M", dataset, source=_PUBLISHER)
        yield params, _compute_mean(training["params"] for training in trainings)
        flops = make_cost_metric("flops", "M", dataset, source=_PUBLISHER)
        yield flops, _compute_mean(training["flop"] for training in trainings)
    seconds_of_half = make_cost_metric(
        "seconds", "s", "cifar10", epochs, about="training on half of the images", source=_PUBLISHER
    )
    half_trainings = _select_trainings("cifar10-valid", all_trainings)
    yield seconds_of_half, _compute_mean(map(_sum_seconds, half_trainings))


def _select_trainings(dataset: str, all_trainings: NatsTrainings) -> list[NatsTraining]:
    """Return the trainings on a data set, one per seed."""
    return [training for (name, _), training in all_trainings.items() if name == dataset]


def _sum_seconds(training: NatsTraining) -> float | None:
    """Return the duration of a training; None if it was not published."""
    if not training["train_times"]:
        return None
    return float(sum(training["train_times"].values()))


def _compute_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there is none."""
    present = [float(value) for value in values if value is not None]
    if not present:
        return None
    return sum(present) / len(present)
