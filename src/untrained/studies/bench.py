"""`bench(...)`: proxies against known results. The same architectures for all of them, failures counted, baselines
always beside, and every statistic with its interval.

The records lie in a run folder, so that the same call resumes, and a larger one asks only for what is new.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from untrained._load import split_names
from untrained.benchmarks import BENCHMARKS, Metric, Table, open_table
from untrained.benchmarks.statistics import STATISTICS, Statistic, interval
from untrained.data import Source, load
from untrained.engine import ProxyEvaluator, Samples, Store, hired, job_for
from untrained.engine.aggregates import aggregated, expanded
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy, named
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.studies.trust import Estimate, Judged, Trust
from untrained.types import Arch, Record, Task
