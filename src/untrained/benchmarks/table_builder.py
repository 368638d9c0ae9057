"""Collect the numbers of a benchmark table by architecture and column."""

import math
from array import array
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.table import BenchmarkTable, Column, Metric, TableSource
from untrained.errors import UsageError

if TYPE_CHECKING:
    from untrained.spaces import Space

# NAS-Bench-Suite-Zero writes this number for nan and inf.
_MISSING_NUMBER = -1e8
# Two files may print the same number with different digits.
_RELATIVE_TOLERANCE = 1e-3
# Files are hashed in pieces of this size.
_BLOCK_BYTES = 1 << 20
# Longer architectures are cut in messages.
_MAX_ARCH_SHOWN = 100


class TableBuilder:
    """Collects the numbers of architectures.

    NaN, infinities and the placeholder of NAS-Bench-Suite-Zero count as missing.
    """

    def __init__(self, *sources: TableSource) -> None:
        self.sources = list(sources)
        self._row_by_arch: dict[str, int] = {}
        self._numbers: dict[Column, array[float]] = {}

    def add_value(self, arch: str, column: Column, value: float | None) -> None:
        """Add one number.

        Of several published scores of an architecture in one column, the first is kept. Several
        values of one metric must agree.

        Raises:
            UsageError: The metric of this architecture has another value already.
        """
        row = self._row_by_arch.setdefault(arch, len(self._row_by_arch))
        if value is None or not math.isfinite(value) or value == _MISSING_NUMBER:
            return
        numbers = self._numbers.setdefault(column, array("d"))
        # A column grows only when it gets a number, so it may end before this row.
        numbers.extend([math.nan] * (row + 1 - len(numbers)))
        existing_value = numbers[row]
        if math.isnan(existing_value):
            numbers[row] = value
            return
        if isinstance(column, Metric) and not math.isclose(
            existing_value, value, rel_tol=_RELATIVE_TOLERANCE
        ):
            raise UsageError(
                f"two rows of {arch} disagree on {column.name}: {existing_value:g} and {value:g}"
            )

    def add_values(
        self, archs: Iterable[str], column: Column, values: Iterable[float | None]
    ) -> None:
        """Add one number per architecture."""
        for arch, value in zip(archs, values, strict=True):
            self.add_value(arch, column, value)

    def add_table(self, table: BenchmarkTable) -> None:
        """Add the columns of an earlier table that this one does not have.

        Missing numbers in columns that both tables have are not filled in.
        """
        existing_names = {column.name for column in self._numbers}
        for column in table.columns:
            if column.name not in existing_names:
                numbers = [float(number) for number in table.read_column(column)]
                self.add_values(table.list_archs(), column, numbers)
        for source in table.sources:
            if source not in self.sources:
                self.sources.append(source)

    @property
    def archs(self) -> list[str]:
        """All architectures, in the order in which they were added."""
        return list(self._row_by_arch)

    def make_columns(self) -> dict[Column, NDArray[np.float64]]:
        """Return all columns as arrays: one number per architecture, NaN where it is missing."""
        row_count = len(self._row_by_arch)
        columns = {}
        for column, numbers in self._numbers.items():
            missing = row_count - len(numbers)
            columns[column] = np.pad(np.frombuffer(numbers), (0, missing), constant_values=np.nan)
        return columns


def describe_source(name: str, files: Iterable[Path]) -> TableSource:
    """Return the name and the digest of one or several files that form one source.

    The digest covers the bytes of all files in order.
    """
    digest = sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
    return TableSource(name, digest.hexdigest())


def average_over_seeds(by_seed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each architecture over the seeds that it has; NaN if it has none.

    Args:
        by_seed: One row per seed and one column per architecture; NaN where a number is missing.
    """
    counts = np.isfinite(by_seed).sum(0)
    sums = np.nansum(by_seed, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def make_arch_reader(space: "str | Space") -> Callable[[str], str]:
    """Return a function that turns the text of an architecture into the key of its row.

    The key is the canonical text of the space. The function raises ValueError for a text that is
    not in the space.
    """
    # The import needs torch, and reading a finished table does not.
    from untrained.spaces import load_space

    loaded_space = load_space(space)
    name = space if isinstance(space, str) else space.name

    @cache
    def read_arch(text: str) -> str:
        try:
            return str(loaded_space.parse(text))
        except UsageError as error:
            first_line = str(error).partition("\n")[0]
            reason = _remove_arch(first_line, text, loaded_space.name)
            shown_text = text
            if len(text) > _MAX_ARCH_SHOWN:
                # The reason at the end must not be cut.
                shown_text = text[:_MAX_ARCH_SHOWN] + "..."
            raise ValueError(f"{shown_text} is not in {name}: {reason}") from error

    return read_arch


def _remove_arch(message: str, arch_text: str, space_name: str) -> str:
    """Return the message about an architecture without the architecture itself."""
    for start in (f"{arch_text} is not in {space_name}: ", f"{arch_text}: "):
        if message.startswith(start):
            return message.removeprefix(start)
    if message.startswith(f"{arch_text} has "):
        return "it" + message.removeprefix(arch_text)
    return message
