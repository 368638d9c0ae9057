"""HW-NAS-Bench (Li et al., ICLR 2021) as its authors publish it: `HW-NAS-Bench-v1_0.pickle`.

Latency (ms) and energy (mJ) of the NAS-Bench-201 cells on six devices, by data set, in the benchmark's own order.
"""

from pathlib import Path

from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._rows import Rows, canonical, source
from untrained.benchmarks.importers.csv_nasbench201 import cost
from untrained.readers.pickle_file import read_pickle

_PUBLISHER = "HW-NAS-Bench"
_UNITS = {"latency": "ms", "energy": "mJ"}


def read(path: Path) -> Rows | None:
    if path.suffix not in (".pickle", ".pkl"):
        return None
    rows, key = Rows(source(path.name, [path])), canonical("nasbench201")
    with laid_out(path, _PUBLISHER):
        for dataset, measured in read_pickle(path)["nasbench201"].items():
            archs = [key(config["arch_str"]) for config in measured["config"]]
            for name, values in measured.items():
                device, _, kind = name.rpartition("_")
                if kind in _UNITS:
                    metric = cost(kind, _UNITS[kind], dataset, variant=device, source=_PUBLISHER)
                    rows.put_all(archs, metric, map(float, values))
    return rows
