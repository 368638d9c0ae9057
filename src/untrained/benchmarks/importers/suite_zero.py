"""NAS-Bench-Suite-Zero (Krishnakumar et al., NeurIPS 2022) as NASLib publishes it: `zc_nasbench201.json` and the like.

By data set and architecture: a number a proxy, or its score and seconds, and a validation accuracy. Architectures are
written as Python tuples, in an order and numbering of NASLib's own. -1e8 stands for nan and inf.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._rows import Rows, canonical, source
from untrained.benchmarks._table import Metric, Score
from untrained.benchmarks.importers._csv import PROXIES, SUITE_ZERO
from untrained.benchmarks.importers._numbers import parse_numbers
from untrained.benchmarks.importers.csv_darts import SURROGATE, genotype
from untrained.benchmarks.importers.csv_nasbench201 import accuracy
from untrained.benchmarks.importers.csv_transnas import arch_string, quality
from untrained.readers.json_file import parse_json

_OPS201 = "skip_connect none nor_conv_3x3 nor_conv_1x1 avg_pool_3x3".split()
_TRUTH = "val_accuracy"


def nasbench201(ops: Any) -> str:
    """NASLib lists the edges by where they start, the official string by where they end."""
    a, b, c, d, e, f = (_OPS201[op] for op in ops)  # 1<-0, 2<-0, 3<-0, 2<-1, 3<-1, 3<-2
    return f"|{a}~0|+|{b}~0|{d}~1|+|{c}~0|{e}~1|{f}~2|"


def nasbench101(digits: Any) -> str:
    """A matrix and its operations, one after the other."""
    n = int(len(digits) ** 0.5)
    written = "".join(map(str, digits))
    return f"{written[: n * n]}+{written[n * n :]}"


def transnas(ops: Any) -> str:
    return arch_string("".join(map(str, ops)))


WRITTEN: dict[str, tuple[str, Callable[[Any], str]]] = {  # benchmark -> space, and what a tuple means there
    "nasbench201": ("nasbench201", nasbench201),
    "nasbench101": ("nasbench101", nasbench101),
    "nasbench301": ("darts", genotype),
    "transnas": ("transnas_micro", transnas),
}


def _truth(benchmark: str, dataset: str) -> Metric:
    if benchmark == "nasbench301":
        return SURROGATE
    if benchmark == "transnas":
        return quality(dataset, "val", "suite_zero")
    epochs = {"nasbench201": 200, "nasbench101": 108}[benchmark]
    return accuracy(dataset, "val", epochs, "suite_zero", "one seed", SUITE_ZERO)


def read(benchmark: str, path: Path) -> Rows | None:
    if path.suffix != ".json":
        return None
    rows, (space, written) = Rows(source(path.name, [path])), WRITTEN[benchmark]
    key = canonical(space)
    with laid_out(path, SUITE_ZERO):
        content = parse_json(path.read_bytes())
        for dataset, archs in _unwrap(content).items():
            truth: dict[str, list[float]] = {}
            for text, results in archs.items():
                arch = key(written(parse_numbers(text)))
                for name in PROXIES:
                    if name in results:
                        score = Score(name, dataset, path.stem, source=SUITE_ZERO)
                        rows.put(arch, score, _number(results[name]))
                truth.setdefault(arch, []).append(_number(results[_TRUTH]))
            rows.put_all(truth, _truth(benchmark, dataset), map(fmean, truth.values()))
    return rows


def _unwrap(content: dict[str, Any]) -> dict[str, Any]:
    """Return the results by data set: early releases have the name of the space around everything."""
    if len(content) != 1:
        return content
    (inner,) = content.values()
    for results_by_arch in inner.values():
        for results in results_by_arch.values():
            # One level too deep, and these are the results of an architecture.
            if isinstance(results, dict) and _TRUTH in results:
                return dict(inner)
            return content
    return content


def _number(result: Any) -> float:
    return float(result["score"] if isinstance(result, dict) else result)
