"""Tables of known results, and statistics that compare scores with them.

    open_table("nasbench201").find_metric(dataset="cifar10", split="test", epochs=200)
    import_benchmark("nasbench201", PATH)  # from our CSV files or from files of the publishers

Statistics with confidence intervals are in `statistics.py`. This package does not depend on
networks, probes or strategies.
"""

from untrained.benchmarks.known_benchmarks import BENCHMARKS as BENCHMARKS
from untrained.benchmarks.known_benchmarks import Benchmark as Benchmark
from untrained.benchmarks.known_benchmarks import find_default_benchmark as find_default_benchmark
from untrained.benchmarks.known_benchmarks import import_benchmark as import_benchmark
from untrained.benchmarks.known_benchmarks import list_benchmarks as list_benchmarks
from untrained.benchmarks.known_benchmarks import open_table as open_table
from untrained.benchmarks.table import BenchmarkTable as BenchmarkTable
from untrained.benchmarks.table import Metric as Metric
from untrained.benchmarks.table import PublishedScore as PublishedScore
