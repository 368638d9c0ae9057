"""Numbers as importers gather them: by architecture and column, from any files, before they become a table."""

import math
from array import array
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks._table import Column, Metric, Source, Table
from untrained.errors import UsageError

_SENTINEL = -1e8  # how NAS-Bench-Suite-Zero writes nan and inf
_ROUNDING = 1e-3  # two files may print one number with different digits


class Rows:
    """Architectures and their numbers. NaN, infinities and the sentinels of the sources are missing numbers."""

    def __init__(self, *sources: Source) -> None:
        self.sources = list(sources)
        self._row: dict[str, int] = {}
        self._numbers: dict[Column, array[float]] = {}

    def put(self, arch: str, column: Column, value: float | None) -> None:
        """Of several scores of one architecture the first is kept; several values of a metric must agree."""
        row = self._row.setdefault(arch, len(self._row))
        if value is None or not math.isfinite(value) or value == _SENTINEL:
            return
        numbers = self._numbers.setdefault(column, array("d"))
        numbers.extend([math.nan] * (row + 1 - len(numbers)))
        if math.isnan(numbers[row]):
            numbers[row] = value
        elif isinstance(column, Metric) and not math.isclose(numbers[row], value, rel_tol=_ROUNDING):
            raise UsageError(f"two rows of {arch} disagree on {column.name}: {numbers[row]:g} and {value:g}")

    def put_all(self, archs: Iterable[str], column: Column, values: Iterable[float | None]) -> None:
        for arch, value in zip(archs, values, strict=True):
            self.put(arch, column, value)

    def add(self, table: Table) -> None:
        """Keep what an earlier table has and these rows have not: whole columns, never single numbers."""
        known = {column.name for column in self._numbers}
        for column in table.columns:
            if column.name not in known:
                self.put_all(table.archs(), column, map(float, table.column(column)))
        self.sources += [source for source in table.sources if source not in self.sources]

    @property
    def archs(self) -> list[str]:
        return list(self._row)

    def columns(self) -> dict[Column, NDArray[np.float64]]:
        """Full columns; NaN where there is no number."""
        return {column: self._whole(numbers) for column, numbers in self._numbers.items()}

    def _whole(self, numbers: "array[float]") -> NDArray[np.float64]:
        return np.pad(np.frombuffer(numbers), (0, len(self._row) - len(numbers)), constant_values=np.nan)


def source(name: str, files: Iterable[Path]) -> Source:
    """One or several files as one source: the digest is that of all bytes in this order."""
    digest = sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return Source(name, digest.hexdigest())


def canonical(space: str) -> Callable[[str], str]:
    """What a space makes of an architecture's string: the key of its row. What is not in the space is a ValueError."""
    from untrained.spaces import load_space  # torch comes with it, which reading a table does not need

    parse = load_space(space).parse

    @cache
    def key(text: str) -> str:
        try:
            return str(parse(text))
        except UsageError as error:
            raise ValueError(f"{text} is not in {space}: {str(error).partition(chr(10))[0]}") from error

    return key
