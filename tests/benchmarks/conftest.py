"""The tables of all benchmarks, imported once from the shared data folder."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import find_shared
from untrained.benchmarks import BENCHMARKS, BenchmarkTable, import_benchmark, open_table


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="session")
def load_table(data_root: Path) -> Callable[[str], BenchmarkTable]:
    """A function that returns the table of a benchmark, and skips the test if the data are absent."""

    def load(name: str) -> BenchmarkTable:
        if BENCHMARKS[name].is_packaged:
            return open_table(name)
        return import_benchmark(name, find_shared("data"), data_root)

    return cache(load)
