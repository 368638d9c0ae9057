"""Ground truth: tables of known results, and how well scores agree with them.

    open_table("nasbench201").metric(dataset="cifar10", split="test", epochs=200)
    import_benchmark("nasbench201", PATH)       from our CSV files or from the publishers' own

Statistics, with intervals, are in `statistics.py`. This room knows nothing of networks, probes or strategies.
"""

from untrained.benchmarks._benchmark import BENCHMARKS as BENCHMARKS
from untrained.benchmarks._benchmark import Benchmark as Benchmark
from untrained.benchmarks._benchmark import benchmark_of as benchmark_of
from untrained.benchmarks._benchmark import benchmarks_of as benchmarks_of
from untrained.benchmarks._benchmark import import_benchmark as import_benchmark
from untrained.benchmarks._benchmark import open_table as open_table
from untrained.benchmarks._table import Metric as Metric
from untrained.benchmarks._table import Score as Score
from untrained.benchmarks._table import Table as Table
