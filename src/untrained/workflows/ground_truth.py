"""The truth of a benchmark: a table, one of its metrics and a sample of its architectures.

Also the networks and the data that belong to them.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from untrained.benchmarks import BenchmarkTable, Metric, find_default_benchmark, open_table
from untrained.config import DEFAULT_DATA
from untrained.data import DataSource, load_data
from untrained.errors import UsageError
from untrained.formatting import format_count
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Arch, Task

# Input shape and number of classes, by data set.
_SHAPES = {
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "ImageNet16-120": ((3, 16, 16), 120),
}
# Heads of TransNAS networks by task, where they have another name.
_HEADS = {"class_scene": "scene", "class_object": "object", "segmentsemantic": "segmentation"}
_TASKS_WITH_DECODER = ("autoencoder", "normal")


@dataclass(frozen=True)
class GroundTruth:
    """Architectures and what they reach.

    Attributes:
        table: The table.
        metric: The metric that is the truth.
        space: Name of the space, with options, as `load_space` takes it.
        task: What the networks were trained for.
        archs: The architectures.
        values: The truth per architecture, oriented so that higher is better.
    """

    table: BenchmarkTable
    metric: Metric
    space: str
    task: Task
    archs: tuple[Arch, ...]
    values: tuple[float, ...]

    @property
    def about(self) -> str:
        """The metric in words: "test accuracy on cifar10 after 200 epochs"."""
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
    """Sample architectures with a known result; the sample is the same for every proxy.

    Args:
        space: Name of the space, with options if they differ from those of the table.
        benchmark: Name of the benchmark; None for the default one of the space.
        dataset: Name of the data set; None for the first one of the table.
        metric: Full name of the metric; None for the accuracy after the longest training.
        samples: Number of architectures.
        seed: Seed of the sample.
        root: The data root, if not the default one.

    Raises:
        UsageError: There is no such table, data set or metric.
    """
    table = open_table(benchmark or find_default_benchmark(space), root)
    if metric:
        truth_metric = table.metric(metric)
    else:
        truth_metric = _find_default_metric(table, dataset)
    has_options = "(" in space
    base_space = space if has_options else table.space
    space_name, task = _find_network_task(base_space, truth_metric.dataset)
    texts = [arch for arch in table.archs() if table.value(arch, truth_metric) is not None]
    rng = make_generator("bench", table.name, truth_metric.name, seed)
    sampled = rng.permutation(len(texts))[:samples]
    parse = load_space(space_name).parse
    archs = tuple(parse(texts[index]) for index in sorted(sampled))
    sign = 1 if truth_metric.higher_is_better else -1
    values = tuple(sign * float(value) for value in table.values(archs, truth_metric))
    return GroundTruth(table, truth_metric, space_name, task, archs, values)


def load_benchmark_data(
    data: str | None, truth: GroundTruth, root: str | Path | None
) -> tuple[str, DataSource, str]:
    """Load the data that networks see in a benchmark.

    Args:
        data: Name of the data. None for the data set that the truth is about, or embedded data if
            that is not available.
        truth: The truth.
        root: The data root, if not the default one.

    Returns:
        Name of the data, the source, and a note for the report, which may be empty.

    Raises:
        UsageError: There are no data of the right shape.
    """
    if data:
        return data, load_data(data, truth.task, root), ""
    truth_dataset = truth.metric.dataset
    embedded = DEFAULT_DATA if len(truth.task.input_shape) == 3 else "noise"
    for name in (truth_dataset, embedded):
        try:
            source = load_data(name, truth.task, root)
            # Files are read with the first batch.
            source.batch(1)
        except UsageError:
            continue
        note = ""
        if name != truth_dataset:
            note = f"Networks looked at {name}: {truth_dataset} is not under the data root."
        return name, source, note
    raise UsageError(f"there are no data for {truth.task}; name some with --data, such as noise")


def _find_default_metric(table: BenchmarkTable, dataset: str | None) -> Metric:
    """Return test accuracy, else validation accuracy, after the longest training."""
    evaluated = [metric for metric in table.metrics if metric.split in ("test", "val")]
    without_variant = [metric for metric in evaluated if not metric.variant]
    candidates = without_variant or evaluated
    datasets = list(dict.fromkeys(metric.dataset for metric in candidates))
    dataset = dataset or datasets[0]
    of_dataset = [metric for metric in candidates if metric.dataset == dataset]
    if not of_dataset:
        raise UsageError(
            f"{table.name} knows nothing about {dataset!r}; it has {', '.join(datasets)}"
        )
    return max(of_dataset, key=lambda metric: (metric.split == "test", metric.epochs or 0))


def _find_network_task(space: str, dataset: str) -> tuple[str, Task]:
    """Return the space with the head for a data set, and the task of its networks."""
    if space.startswith("transnas"):
        if dataset in _TASKS_WITH_DECODER:
            raise UsageError(
                f"networks for {dataset} have a decoder, which {space} does not build; "
                "choose another task"
            )
        space = f"{space}(head={_HEADS.get(dataset, dataset)})"
    task = load_space(space).task
    if dataset in _SHAPES:
        shape, classes = _SHAPES[dataset]
        task = replace(task, dataset=dataset, input_shape=shape, num_classes=classes)
    return space, task
