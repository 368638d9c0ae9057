"""`--latency-table`: latencies that were measured on another device.

    arch,milliseconds,input_values,machine
    "width=24,stages=3,...",7.31,3072,raspberrypi

`untrained latency bundle` writes networks and a script that measures them on the device. An
architecture in the table has its measured latency; `LatencyModel`, fitted to the table, predicts
all others. Several rows of an architecture are averaged. The table may come from someone else, so
it is read like any other table of the user (`benchmarks/user_table.py`), with limits on memory.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import inf, prod
from pathlib import Path
from statistics import mean

import numpy as np
from scipy.stats import spearmanr

from untrained.benchmarks.user_table import (
    ARCH_COLUMN,
    TableRows,
    check_numbers,
    parse_number,
    read_table_rows,
)
from untrained.config import LatencyLimit
from untrained.errors import Unscorable, UsageError
from untrained.formatting import format_count
from untrained.quantities import parse_path
from untrained.readers.limits import describe_error
from untrained.spaces import Space
from untrained.strategies.latency import LatencyModel
from untrained.strategies.limits import NetworkSize
from untrained.types import Arch, ScoreRequest, Task

LATENCY_COLUMN = "milliseconds"
INPUT_COLUMN = "input_values"
# With fewer architectures, the error of a prediction is unknown.
MIN_ARCHS = 8


@dataclass(frozen=True, slots=True)
class TableFit:
    """How well latencies are predicted from a table, when each architecture is left out in turn.

    Attributes:
        archs: Number of architectures.
        rank_correlation: Spearman's correlation of predictions and measurements; NaN if all are
            equal.
        median_error: Median of |prediction / measurement - 1|.
    """

    archs: int
    rank_correlation: float
    median_error: float

    def __str__(self) -> str:
        return (
            f"median error {100 * self.median_error:.0f} %, "
            f"rank correlation {self.rank_correlation:.2f}, "
            f"each of {self.archs} networks left out in turn"
        )


def read_latency_table(path: str | Path, space: Space, task: Task) -> dict[Arch, float]:
    """Read a table of latencies.

    Args:
        path: The file.
        space: The space that the architectures belong to.
        task: What the networks of the search are built for.

    Returns:
        The latency of each architecture in seconds.

    Raises:
        UsageError: The file cannot be read, a column is missing, an architecture is not in the
            space, a latency is not a positive number, there are too few architectures, or the
            networks were measured with inputs of another size.
    """
    rows = read_table_rows(parse_path(path, "latency table"))
    for column in (ARCH_COLUMN, LATENCY_COLUMN):
        if column not in rows.columns:
            names = ", ".join(rows.columns)
            raise UsageError(f"{rows.name} has no column {column!r}; its columns are {names}")
    _check_input_size(rows, task)
    milliseconds = _read_positive_numbers(rows, LATENCY_COLUMN)
    values_by_arch: dict[Arch, list[float]] = {}
    for row, cell in enumerate(rows.columns[ARCH_COLUMN]):
        try:
            arch = space.parse(str(cell or "").strip())
        except UsageError as error:
            # The message quotes the file, so it may be long or contain control characters.
            problem = f"the architecture is not in {space.name}: {describe_error(error)}"
            raise rows.make_error(row, problem) from error
        values_by_arch.setdefault(arch, []).append(milliseconds[row] / 1e3)
    if len(values_by_arch) < MIN_ARCHS:
        raise UsageError(
            f"{rows.name} has {format_count(len(values_by_arch), 'architecture')}; "
            f"predicting latencies needs at least {MIN_ARCHS}"
        )
    return {arch: mean(values) for arch, values in values_by_arch.items()}


def _check_input_size(rows: TableRows, task: Task) -> None:
    """Refuse latencies of networks with inputs of another size. A table may lack the column."""
    if INPUT_COLUMN not in rows.columns:
        return
    expected = prod(task.input_shape)
    for row, number in enumerate(_read_positive_numbers(rows, INPUT_COLUMN)):
        if number != expected:
            raise rows.make_error(
                row,
                f"measured with an input of {number:,.0f} values, but the networks of this search "
                f"read {expected:,}; write a bundle with the same --data and --input-size",
            )


def _read_positive_numbers(rows: TableRows, column: str) -> list[float]:
    cells = [parse_number(cell) for cell in rows.columns[column]]
    check_numbers(rows, column, cells)
    numbers = []
    for row, number in enumerate(cells):
        if number is None or number <= 0:
            raise rows.make_error(row, f"{column} is {number:g}; it must be above 0")
        numbers.append(number)
    return numbers


class TableLatency:
    """Enforces a latency limit on another device, by a table of its latencies.

    It has the methods of `MaxLatency` that a search calls.

    Args:
        space: The space.
        task: What networks are built for.
        limit: The limit.
        path: The table.

    Attributes:
        fit: How well latencies are predicted.

    Raises:
        UsageError: The limit names a device of this machine, or the table cannot be used.
    """

    def __init__(self, space: Space, task: Task, limit: LatencyLimit, path: str | Path) -> None:
        if limit.device != "cpu":
            raise UsageError(
                "a latency table holds latencies of another device; "
                f"leave out @{limit.device} in the limit"
            )
        self._task = task
        self._name = Path(path).name
        self._seconds_by_arch = read_latency_table(path, space, task)
        self._model = LatencyModel(lambda arch: NetworkSize(space, arch, task).probe.operations)
        self._model.observe_all(self._seconds_by_arch)
        self.fit = self._compute_fit()

    def estimate_seconds(self, arch: Arch) -> float:
        """Return the latency in the table, or else a prediction.

        It is infinite if the network has an operation that no network of the table has, or if its
        operations cannot be counted.
        """
        if arch in self._seconds_by_arch:
            return self._seconds_by_arch[arch]
        try:
            prediction = self._model.predict(arch)
        except Unscorable:
            return inf
        if prediction is None:
            return inf
        return prediction

    def is_predicted(self, arch: Arch) -> bool:
        """Return whether the latency of an architecture is predicted and not in the table."""
        return arch not in self._seconds_by_arch

    def describe_source(self, arch: Arch) -> str:
        """Describe where the latency of an architecture comes from."""
        if self.is_predicted(arch):
            return f"predicted from {self._name}: {self.fit}"
        return f"taken from the measurements in {self._name}"

    def make_request(self) -> ScoreRequest:
        """Return a request that identifies the content of the table."""
        text = repr(sorted((str(arch), value) for arch, value in self._seconds_by_arch.items()))
        digest = sha256(text.encode()).hexdigest()[:16]
        return ScoreRequest(Arch("", ()), f"latency(table={digest})@1", self._task, 0)

    def _compute_fit(self) -> TableFit:
        measured = np.array(list(self._seconds_by_arch.values()))
        predictions = self._model.left_out_predictions
        predicted = np.array([predictions[arch] for arch in self._seconds_by_arch])
        rank_correlation = float("nan")
        # The correlation with a constant is undefined, and scipy warns.
        if np.ptp(measured) > 0 and np.ptp(predicted) > 0:
            rank_correlation = float(spearmanr(predicted, measured).statistic)
        median_error = float(np.median(np.abs(predicted / measured - 1)))
        return TableFit(len(measured), rank_correlation, median_error)
