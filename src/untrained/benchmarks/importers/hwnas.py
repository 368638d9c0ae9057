"""HW-NAS-Bench (Li et al., ICLR 2021) as published: `HW-NAS-Bench-v1_0.pickle`.

It contains latency (ms) and energy (mJ) of the NAS-Bench-201 cells on six devices, by data set, in
the order of the benchmark.
"""

from pathlib import Path

from untrained.benchmarks.importers.csv_nasbench201 import make_cost_metric
from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.table_builder import TableBuilder, describe_source, make_arch_reader
from untrained.readers.pickle_file import read_pickle

_PUBLISHER = "HW-NAS-Bench"
_UNITS = {"latency": "ms", "energy": "mJ"}


def read_hwnas(path: Path) -> TableBuilder | None:
    """Read the pickle."""
    if path.suffix not in (".pickle", ".pkl"):
        return None
    builder = TableBuilder(describe_source(path.name, [path]))
    read_arch = make_arch_reader("nasbench201")
    with expect_layout(path, _PUBLISHER):
        for dataset, lists in read_pickle(path)["nasbench201"].items():
            archs = [read_arch(config["arch_str"]) for config in lists["config"]]
            for name, values in lists.items():
                # A name is made of a device and a kind, such as `raspi4_latency`.
                device, _, kind = name.rpartition("_")
                if kind in _UNITS:
                    metric = make_cost_metric(
                        kind, _UNITS[kind], dataset, variant=device, source=_PUBLISHER
                    )
                    builder.add_values(archs, metric, map(float, values))
    return builder
