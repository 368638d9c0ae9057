"""NATS-Bench, topology space, as its authors publish it: the folder `NATS-tss-v1_0-3ffb9-simple`.

`meta.pickle.pbz2` lists the architectures, `000000.pickle.pbz2` and so on hold their results: by number of epochs, then
by data set and seed, with an accuracy for each set and epoch (`x-valid@199`). "cifar10-valid" is CIFAR-10 trained on
half of its training images, the other half being the validation set: there validation accuracy comes from.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._rows import Rows, canonical, source
from untrained.benchmarks._table import Metric, Split
from untrained.benchmarks.importers.csv_nasbench201 import accuracy, cost
from untrained.errors import UsageError
from untrained.readers.pickle_file import read_pickle

_PUBLISHER = "NATS-Bench"
_EPOCHS = (12, 200)
_DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
_JUDGED: tuple[tuple[str, Split, str, str, str], ...] = (  # our data set, split and variant; theirs, and their set
    ("cifar10", "val", "", "cifar10-valid", "x-valid"),
    ("cifar10", "test", "", "cifar10", "ori-test"),
    ("cifar10", "test", "half", "cifar10-valid", "ori-test"),
    ("cifar100", "val", "", "cifar100", "x-valid"),
    ("cifar100", "test", "", "cifar100", "x-test"),
    ("ImageNet16-120", "val", "", "ImageNet16-120", "x-valid"),
    ("ImageNet16-120", "test", "", "ImageNet16-120", "x-test"),
)


def read(path: Path) -> Rows | None:
    meta = path / "meta.pickle.pbz2"
    if not meta.is_file():
        return None
    files = sorted(path.glob("[0-9]*.pickle.pbz2"))
    rows, key = Rows(source(path.name, [meta, *files])), canonical("nasbench201")
    with laid_out(meta, _PUBLISHER):
        names: list[str] = list(read_pickle(meta)["meta_archs"])
    for file in files:
        with laid_out(file, _PUBLISHER):
            arch = names[int(file.name.partition(".")[0])]
            for epochs, results in read_pickle(file).items():
                if results["arch_str"] != arch:
                    raise UsageError(f"{file} holds {results['arch_str']}, but {meta.name} says {arch}")
                for metric, value in _numbers(int(epochs), results["all_results"]):
                    rows.put(key(arch), metric, value)
    return rows


def _numbers(epochs: int, results: dict[tuple[str, int], dict[str, Any]]) -> Iterator[tuple[Metric, float | None]]:
    """Means over the seeds of one architecture after so many epochs."""
    if epochs not in _EPOCHS:
        return
    for dataset, split, variant, theirs, judged in _JUDGED:
        found = [result["eval_acc1es"].get(f"{judged}@{epochs - 1}") for result in _of(theirs, results)]
        yield accuracy(dataset, split, epochs, variant, "mean over seeds", _PUBLISHER), _mean(found)
    for dataset in _DATASETS:
        trained = _of(dataset, results)
        train = accuracy(dataset, "train", epochs, about="mean over seeds", source=_PUBLISHER)
        yield train, _mean(result["train_acc1es"].get(epochs - 1) for result in trained)
        seconds = cost("seconds", "s", dataset, epochs, variant="whole", source=_PUBLISHER)
        yield seconds, _mean(map(_seconds, trained))
        for kind, field in (("params", "params"), ("flops", "flop")):
            yield cost(kind, "M", dataset, source=_PUBLISHER), _mean(result[field] for result in trained)
    half = cost("seconds", "s", "cifar10", epochs, about="training on the half", source=_PUBLISHER)
    yield half, _mean(map(_seconds, _of("cifar10-valid", results)))


def _of(dataset: str, results: dict[tuple[str, int], dict[str, Any]]) -> list[dict[str, Any]]:
    return [result for (name, _), result in results.items() if name == dataset]


def _seconds(result: dict[str, Any]) -> float | None:
    return sum(result["train_times"].values()) if result["train_times"] else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None
