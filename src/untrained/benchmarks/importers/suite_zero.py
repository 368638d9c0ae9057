"""NAS-Bench-Suite-Zero (Krishnakumar et al., NeurIPS 2022) as NASLib publishes it.

Files such as `zc_nasbench201.json` contain, by data set and architecture, one number per proxy (or
its score and seconds) and a validation accuracy. Architectures are Python tuples in the order and
numbering of NASLib. -1e8 stands for NaN and infinity.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from untrained.benchmarks.importers.csv_darts import SURROGATE, format_genotype
from untrained.benchmarks.importers.csv_files import PROXIES, SUITE_ZERO
from untrained.benchmarks.importers.csv_nasbench201 import make_accuracy_metric
from untrained.benchmarks.importers.csv_transnas import format_arch, make_task_metric
from untrained.benchmarks.importers.naslib_tuples import parse_naslib_tuple
from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.table import Metric, PublishedScore
from untrained.benchmarks.table_builder import TableBuilder, describe_source, make_arch_reader
from untrained.readers.json_file import parse_json

# The order of operations of NAS-Bench-201 in NASLib.
_OPERATIONS_201 = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
_EPOCHS = {"nasbench201": 200, "nasbench101": 108}
_ACCURACY = "val_accuracy"


def format_nasbench201(numbers: Sequence[int]) -> str:
    """Return the official notation of a NAS-Bench-201 cell.

    NASLib sorts the edges by their start node, the official notation by their end node.
    """
    # In NASLib: 1<-0, 2<-0, 3<-0, 2<-1, 3<-1, 3<-2.
    a, b, c, d, e, f = (_OPERATIONS_201[number] for number in numbers)
    return f"|{a}~0|+|{b}~0|{d}~1|+|{c}~0|{e}~1|{f}~2|"


def format_nasbench101(numbers: Sequence[int]) -> str:
    """Return the notation of a NAS-Bench-101 cell: n*n digits of a matrix, then n operations."""
    n = int(len(numbers) ** 0.5)
    digits = "".join(map(str, numbers))
    return f"{digits[: n * n]}+{digits[n * n :]}"


def format_transnas(numbers: Sequence[int]) -> str:
    """Return the official notation of a TransNAS-Bench-101 cell."""
    return format_arch("".join(map(str, numbers)))


class ArchFormat(NamedTuple):
    """The space of a benchmark, and how to write a tuple of NASLib in its notation."""

    space: str
    format_arch: Callable[[Sequence[int]], str]


ARCH_FORMATS = {
    "nasbench201": ArchFormat("nasbench201", format_nasbench201),
    "nasbench101": ArchFormat("nasbench101", format_nasbench101),
    "nasbench301": ArchFormat("darts", format_genotype),
    "transnas": ArchFormat("transnas_micro", format_transnas),
}


def read_suite_zero(benchmark: str, path: Path) -> TableBuilder | None:
    """Read the JSON file of a benchmark."""
    if path.suffix != ".json":
        return None
    builder = TableBuilder(describe_source(path.name, [path]))
    arch_format = ARCH_FORMATS[benchmark]
    read_arch = make_arch_reader(arch_format.space)
    with expect_layout(path, SUITE_ZERO):
        content = parse_json(path.read_bytes())
        for dataset, results_by_arch in _remove_space_level(content).items():
            # Several tuples may describe the same architecture, so accuracies are averaged.
            accuracies: dict[str, list[float]] = {}
            for text, results in results_by_arch.items():
                arch = read_arch(arch_format.format_arch(parse_naslib_tuple(text)))
                for proxy in PROXIES:
                    if proxy in results:
                        score = PublishedScore(proxy, dataset, path.stem, source=SUITE_ZERO)
                        builder.add_value(arch, score, _read_number(results[proxy]))
                accuracies.setdefault(arch, []).append(_read_number(results[_ACCURACY]))
            metric = _make_metric(benchmark, dataset)
            builder.add_values(accuracies, metric, map(fmean, accuracies.values()))
    return builder


def _make_metric(benchmark: str, dataset: str) -> Metric:
    """Return the metric of the accuracies in the file."""
    if benchmark == "nasbench301":
        return SURROGATE
    if benchmark == "transnas":
        return make_task_metric(dataset, "val", "suite_zero")
    epochs = _EPOCHS[benchmark]
    return make_accuracy_metric(dataset, "val", epochs, "suite_zero", "one seed", SUITE_ZERO)


def _remove_space_level(content: dict[str, Any]) -> dict[str, Any]:
    """Return the results by data set. Early releases have the space as the outermost level."""
    if len(content) != 1:
        return content
    (inner,) = content.values()
    # With the additional level, the third level consists of the results of single architectures.
    third_level = chain.from_iterable(values.values() for values in inner.values())
    first = next(third_level, None)
    if isinstance(first, dict) and _ACCURACY in first:
        return dict(inner)
    return content


def _read_number(result: Any) -> float:
    """Return a number, or the score of a pair of score and seconds."""
    if isinstance(result, dict):
        return float(result["score"])
    return float(result)
