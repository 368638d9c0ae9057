"""What is known: a table, one of its metrics, and a sample of its architectures. Also which networks and which data go
with them."""

from dataclasses import dataclass, replace
from pathlib import Path

from untrained._numbers import counted
from untrained.benchmarks import Metric, Table, benchmark_of, open_table
from untrained.data import Source, load
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.rng import generator
from untrained.spaces import load_space
from untrained.types import Arch, Task

_SHAPES = {"cifar10": ((3, 32, 32), 10), "cifar100": ((3, 32, 32), 100), "ImageNet16-120": ((3, 16, 16), 120)}
_HEADS = {"class_scene": "scene", "class_object": "object", "segmentsemantic": "segmentation"}
_HEADLESS = ("autoencoder", "normal")


@dataclass(frozen=True)
class Truth:
    """Architectures and what they are known to reach, turned so that higher is better."""

    table: Table
    metric: Metric
    space: str  # as `load_space` takes it
    task: Task
    archs: tuple[Arch, ...]
    values: tuple[float, ...]

    @property
    def about(self) -> str:
        metric = self.metric
        split = {"val": "validation", None: ""}.get(metric.split, metric.split or "")
        parts = (split, metric.kind, f"on {metric.dataset}" if metric.dataset else "", metric.variant)
        epochs = f"after {counted(metric.epochs, 'epoch')}" if metric.epochs else ""
        return " ".join(part for part in (*parts, epochs) if part)


def known(
    space: str,
    benchmark: str | None,
    dataset: str | None,
    metric: str | None,
    samples: int,
    seed: int,
    root: str | Path | None,
) -> Truth:
    """A sample of the architectures whose metric is known, the same for every proxy."""
    table = open_table(benchmark or benchmark_of(space), root)
    chosen = table.metric(metric) if metric else _usual(table, dataset)
    name, task = _network(space if "(" in space else table.space, chosen.dataset)
    home = load_space(name)
    texts = [arch for arch in table.archs() if table.value(arch, chosen) is not None]
    order = generator("bench", table.name, chosen.name, seed).permutation(len(texts))[:samples]
    archs = tuple(home.parse(texts[place]) for place in sorted(order))
    sign = 1 if chosen.higher_is_better else -1
    values = tuple(sign * float(value) for value in table.values(archs, chosen))
    return Truth(table, chosen, name, task, archs, values)


def looked_at(data: str | None, truth: Truth, root: str | Path | None) -> tuple[str, Source, str]:
    """The data that networks are shown: those asked for, or those the truth is about, or else what needs no files; and
    what must be said of it."""
    if data:
        return data, load(data, truth.task, root), ""
    theirs = truth.metric.dataset
    usual = DEFAULT_DATA if len(truth.task.input_shape) == 3 else "noise"
    for name in (theirs, usual):
        try:
            source = load(name, truth.task, root)
            source.batch(1)
        except UsageError:
            continue
        same = name == theirs
        return name, source, "" if same else f"Networks looked at {name}: {theirs} is not under the data root."
    raise UsageError(f"there are no data for {truth.task}; name some with --data, such as noise")


def _usual(table: Table, dataset: str | None) -> Metric:
    """Test accuracy where there is one, and validation accuracy elsewhere, after the longest training."""
    judged = [m for m in table.metrics if m.split in ("test", "val") and not m.variant]
    judged = judged or [m for m in table.metrics if m.split in ("test", "val")]
    sets = list(dict.fromkeys(m.dataset for m in judged))
    wanted = dataset or sets[0]
    found = [m for m in judged if m.dataset == wanted]
    if not found:
        raise UsageError(f"{table.name} knows nothing about {wanted!r}; it has {', '.join(sets)}")
    return max(found, key=lambda m: (m.split == "test", m.epochs or 0))


def _network(space: str, dataset: str) -> tuple[str, Task]:
    """The space with the head of the task that was trained, and that task."""
    if space.startswith("transnas"):
        if dataset in _HEADLESS:
            raise UsageError(
                f"networks for {dataset} have a decoder, which {space} does not build; choose another task"
            )
        space = f"{space}(head={_HEADS.get(dataset, dataset)})"
    task = load_space(space).task
    if dataset in _SHAPES:
        shape, classes = _SHAPES[dataset]
        task = replace(task, dataset=dataset, input_shape=shape, num_classes=classes)
    return space, task
