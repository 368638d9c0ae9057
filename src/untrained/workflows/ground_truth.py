"""The ground truth of a benchmark: the known results of a sample of architectures of a table.

This module also finds the task of these networks and the data that they are scored on.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from untrained.benchmarks import (
    BENCHMARKS,
    BenchmarkTable,
    Metric,
    find_default_benchmark,
    open_table,
)
from untrained.benchmarks.statistics import orient_score
from untrained.benchmarks.user_table import read_user_table
from untrained.config import DEFAULT_DATA
from untrained.data import SOURCES, DataSource, load_data, set_input_size
from untrained.data.registry import load_data_with_name
from untrained.data_root import find_data_root
from untrained.errors import UsageError
from untrained.formatting import format_count
from untrained.names import parse_call
from untrained.seeds import make_generator
from untrained.spaces import Space, get_space_name, load_space
from untrained.types import Arch, Task

if TYPE_CHECKING:
    import pandas as pd

# Input shape and number of classes, by data set.
_SHAPES_AND_CLASSES = {
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "ImageNet16-120": ((3, 16, 16), 120),
}
# Names of the heads of TransNAS networks, by data set of the table. The head of a data set that is
# not listed has the name of the data set.
_HEADS = {"class_scene": "scene", "class_object": "object", "segmentsemantic": "segmentation"}
_TASKS_WITH_DECODER = ("autoencoder", "normal")


@dataclass(frozen=True)
class GroundTruth:
    """Architectures and their known results.

    Attributes:
        table: The table.
        metric: The metric of the known results.
        space: Name of the space, with options.
        named_space: The name by which worker processes load the space, or the space itself if it
            is defined by the user and cannot be loaded by a name.
        task: The task that the networks were trained for.
        archs: The architectures.
        values: The known result of each architecture, with a sign such that higher is better.
    """

    table: BenchmarkTable
    metric: Metric
    space: str
    named_space: str | Space
    task: Task
    archs: tuple[Arch, ...]
    values: tuple[float, ...]

    @property
    def about(self) -> str:
        """Description of the metric: "test accuracy on cifar10 after 200 epochs"."""
        metric = self.metric
        words: list[str] = []
        if metric.split:
            words.append("validation" if metric.split == "val" else metric.split)
        words.append(metric.kind)
        if metric.dataset:
            words.append(f"on {metric.dataset}")
        if metric.variant:
            words.append(metric.variant)
        if metric.epochs:
            words.append(f"after {format_count(metric.epochs, 'epoch')}")
        return " ".join(words)


def load_ground_truth(
    space: str,
    benchmark: str | None,
    dataset: str | None,
    metric: str | None,
    samples: int,
    seed: int,
    root: str | Path | None,
) -> GroundTruth:
    """Sample architectures with a known result.

    The sample depends on the table, the metric and the seed, so it is the same for every proxy.

    Args:
        space: Name of the space, with options if they differ from those of the table.
        benchmark: Name of the benchmark; None for the default one of the space.
        dataset: Name of the data set; None for the first one of the table.
        metric: Full name of the metric; None for the accuracy after the longest training.
        samples: Number of architectures.
        seed: Seed of the sample.
        root: Folder that contains the tables; None for the default.

    Raises:
        UsageError: There is no such table, data set or metric.
    """
    benchmark_name = benchmark or find_default_benchmark(space)
    table = open_table(benchmark_name, root)
    if metric:
        truth_metric = table.find_metric(metric)
    else:
        truth_metric = _find_default_metric(table, dataset)
    has_options = "(" in space
    base_space = space if has_options else table.space
    space_name, task = _find_network_task(base_space, truth_metric.dataset)
    task = set_input_size(task, BENCHMARKS[benchmark_name].input_size)
    return _sample_table(table, truth_metric, space_name, task, samples, seed)


def load_user_ground_truth(
    space: str | Space,
    table: "str | Path | pd.DataFrame",
    metric: str | None,
    samples: int,
    seed: int,
) -> GroundTruth:
    """Sample architectures from a table of the user.

    Args:
        space: The space, or its name.
        table: A CSV or parquet file, or a pandas DataFrame.
        metric: Name of the column with results; None for the accuracy.
        samples: Number of architectures.
        seed: Seed of the sample.

    Raises:
        UsageError: The table cannot be used.
    """
    user_table, truth_metric = read_user_table(table, space, metric)
    task = load_space(space).task
    return _sample_table(user_table, truth_metric, space, task, samples, seed)


def _sample_table(
    table: BenchmarkTable,
    truth_metric: Metric,
    space: str | Space,
    task: Task,
    samples: int,
    seed: int,
) -> GroundTruth:
    """Draw architectures that have a value of the metric, and look these values up."""
    texts = [
        arch for arch in table.list_archs() if table.read_value(arch, truth_metric) is not None
    ]
    rng = make_generator("bench", table.name, truth_metric.name, seed)
    indices = rng.permutation(len(texts))[:samples]
    parse = load_space(space).parse
    archs = tuple(parse(texts[index]) for index in sorted(indices))
    values = []
    for value in table.read_values(archs, truth_metric):
        values.append(orient_score(float(value), truth_metric.higher_is_better))
    space_name = get_space_name(space)
    return GroundTruth(table, truth_metric, space_name, space, task, archs, tuple(values))


def load_benchmark_data(
    data: object, truth: GroundTruth, root: str | Path | None
) -> tuple[str, DataSource, str]:
    """Load the data that networks see in a benchmark.

    Args:
        data: The data in any form that `load_data` takes. None for the data set of the known
            results, or embedded data if it is not known or not available.
        truth: The ground truth.
        root: Folder that contains the data sets; None for the default.

    Returns:
        Name of the data, the source, and a note for the report, which may be empty.

    Raises:
        UsageError: There are no data of the right shape.
    """
    if data is not None and data != "":
        name, source = load_data_with_name(data, truth.task, root)
        return name, source, ""
    truth_dataset = truth.metric.dataset
    embedded = DEFAULT_DATA if len(truth.task.input_shape) == 3 else "noise"
    if not truth_dataset:
        # A table of the user does not say which data its networks were trained on.
        note = (
            f"Networks see {embedded}. Use --data to name the data that your networks were "
            "trained on."
        )
        return embedded, load_data(embedded, truth.task, root), note
    try:
        return truth_dataset, _load_and_read(truth_dataset, truth.task, root), ""
    except UsageError as error:
        note = f"Networks see {embedded}, since {truth_dataset} is not under the data root."
        if _has_files(truth_dataset, root):
            note = f"Networks see {embedded}, since {truth_dataset} cannot be loaded: {error}."
    try:
        return embedded, _load_and_read(embedded, truth.task, root), note
    except UsageError as error:
        raise UsageError(
            f"no data are available for {truth.task}; name some, such as --data noise"
        ) from error


def _load_and_read(name: str, task: Task, root: str | Path | None) -> DataSource:
    """Load data, and draw a sample, because their files are read only then.

    Raises:
        UsageError: The data cannot be loaded.
    """
    source = load_data(name, task, root)
    source.batch(1)
    return source


def _has_files(dataset: str, root: str | Path | None) -> bool:
    """Return whether the files of a known data set are under the data root."""
    if dataset not in SOURCES:
        return False
    find_files = SOURCES[dataset].find_files
    if find_files is None:
        return False
    return bool(find_files(find_data_root(root)))


def _find_default_metric(table: BenchmarkTable, dataset: str | None) -> Metric:
    """Return the test accuracy after the longest training, or else the validation accuracy."""
    evaluated = [metric for metric in table.metrics if metric.split in ("test", "val")]
    without_variant = [metric for metric in evaluated if not metric.variant]
    candidates = without_variant or evaluated
    datasets = list(dict.fromkeys(metric.dataset for metric in candidates))
    dataset = dataset or datasets[0]
    metrics_of_dataset = [metric for metric in candidates if metric.dataset == dataset]
    if not metrics_of_dataset:
        raise UsageError(
            f"{table.name} has no results on {dataset!r}; available: {', '.join(datasets)}"
        )
    return max(metrics_of_dataset, key=lambda metric: (metric.split == "test", metric.epochs or 0))


def _find_network_task(space: str, dataset: str) -> tuple[str, Task]:
    """Return the name of the space with the head for a data set, and the task of its networks."""
    if space.startswith("transnas"):
        if dataset in _TASKS_WITH_DECODER:
            raise UsageError(
                f"networks for {dataset} have a decoder, which {space} does not build; "
                "choose another task"
            )
        base, options = parse_call(space)
        head = _HEADS.get(dataset, dataset)
        if options.get("head", head) != head:
            raise UsageError(
                f"the results on {dataset} are of networks with the head {head}; write {base} "
                "without a head, or name another data set"
            )
        space = f"{base}(head={head})"
    task = load_space(space).task
    if dataset in _SHAPES_AND_CLASSES:
        shape, classes = _SHAPES_AND_CLASSES[dataset]
        task = replace(task, dataset=dataset, input_shape=shape, num_classes=classes)
    return space, task
