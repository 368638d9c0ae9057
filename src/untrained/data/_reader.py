"""Files of rows, read block by block: CSV (also tab-separated, also compressed) and parquet. Knows files and lines,
nothing of what columns mean.

Every column of a CSV file is read as text, and what does not fit is counted, not dropped in silence: a row with too
many or too few fields is bad. A byte that is not UTF-8 is written out, as \\xe9. Lines are counted as rows: a line
break inside of quotation marks and an empty line do not count.
"""

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from untrained.errors import UsageError

SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "|"}
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "\\N"]
BLOCK = 2**22  # bytes of text that are in memory at once
_INSIDE = bytes(range(0x80, 0xC0))  # what letters of several bytes go on with
PARQUET_ROWS = 2**14
SHOWN = 5


@dataclass
class Bad:
    """Rows that cannot be used: how many, and the first few with the reason."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, line: int, why: str, lines: int = 1) -> None:
        self.count += lines
        if len(self.first) < SHOWN:
            self.first.append(f"line {line}: {why}")


@dataclass(frozen=True)
class Table:
    """The columns of a file, and its rows: `blocks(bad)` gives each block with the line of each of its rows."""

    path: Path
    columns: tuple[str, ...]
    blocks: Callable[[Bad], Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]]
    missing: tuple[str, ...] = ()  # texts that stand for a missing value


def open_csv(path: Path, names: Sequence[str] = (), separator: str = "") -> Table:
    """`names` are the columns of a file without a header; a first line that has some of them is one. `separator` is
    for a file in which none of the usual ones comes."""
    head = _head(path)
    text = head.lstrip("\r\n")
    line, blank = text.splitlines()[0], len(head[: -len(text)].splitlines())
    separator = separator if separator and not _best(line)[1] else _best(line)[0]
    header = [name.strip() for name in next(csv.reader(text.splitlines(keepends=True), delimiter=separator))]
    if len(header) < 2:
        told = ", ".join(SEPARATORS.values())
        raise UsageError(f"{path} has one column, {line[:40]!r}; a table has a label and more, separated by {told}")
    if any("\n" in name for name in header):
        raise UsageError(f"the header of {path} has a line break inside of a name; rename that column")
    headless = bool(names) and not set(names) & set(header)
    if not names and all(_is_number(name) for name in header if name):
        raise UsageError(f"the first line of {path} holds numbers; it must name the columns, such as click,user,item")
    columns = _unique(path, names if headless else header)

    def blocks(bad: Bad) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        return _csv_blocks(path, columns, separator, blank + (not headless), bad)

    return Table(path, columns, blocks, tuple(MISSING))


def open_parquet(path: Path) -> Table:
    _check(path)
    with _complaining(path), pq.ParquetFile(path) as file:
        columns = _unique(path, file.schema_arrow.names)

    def blocks(bad: Bad) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        start = 1
        with _complaining(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(PARQUET_ROWS, use_threads=False):
                yield batch, np.arange(start, start + len(batch))
                start += len(batch)

    return Table(path, columns, blocks)


def _csv_blocks(
    path: Path, columns: tuple[str, ...], separator: str, skip: int, bad: Bad
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    wrong: list[int] = []  # lines that the parser has refused and we have not passed yet

    def refuse(row: Any) -> str:
        wrong.append(row.number)
        why = f"{row.actual_columns} fields where {row.expected_columns} are wanted: {row.text[:60]!r}"
        swallowed = row.text.count("\n")  # by a quotation mark that is never closed
        bad.add(row.number, f"{why} and {swallowed:,} lines more" if swallowed else why, 1 + swallowed)
        return "skip"

    # Threads would lose the numbers of lines.
    read = pcsv.ReadOptions(column_names=columns, skip_rows=skip, block_size=BLOCK, use_threads=False)
    parse = pcsv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse)
    as_text = dict.fromkeys(columns, pa.string())
    convert = pcsv.ConvertOptions(column_types=as_text, strings_can_be_null=True, null_values=MISSING)
    line = 1 + skip
    with _complaining(path), pa.input_stream(str(path)) as stream:
        text = _Utf8(stream)
        try:
            reader = pcsv.open_csv(text, read, parse, convert)
        except pa.ArrowInvalid as error:
            if any(told in str(error) for told in ("Empty CSV file", "Could not skip")):
                return  # there is nothing behind the header
            raise
        try:
            for block in reader:
                lines = np.setdiff1d(np.arange(line, line + len(block) + len(wrong)), wrong)[: len(block)]
                if len(block):
                    line = int(lines[-1]) + 1
                    wrong[:] = [number for number in wrong if number >= line]
                    yield block, lines
        finally:
            _finish(reader, text)


def _finish(reader: pcsv.CSVStreamingReader, text: "_Utf8") -> None:
    """Let arrow come to an end where nobody wants the rest: its thread reads ahead through our stream, and a program
    that ends meanwhile is aborted."""
    text.end()
    with suppress(pa.ArrowException):
        for _ in reader:
            pass


class _Utf8(io.RawIOBase):
    """A stream in which bytes that are not UTF-8 are written out; arrow cannot even count a bad row that has some."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._ahead, self._ended, self._over = stream, b"", False, False
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def end(self) -> None:
        """Give nothing more, from the next call on: another thread may be in the middle of one."""
        self._over = True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As much as is asked for while there is some: arrow takes a short answer for a block, and a row must fit."""
        if self._over:
            whole = self._ahead.lstrip(_INSIDE)  # nothing but the rest of a letter that was cut
            rest, self._ahead = self._ahead[: len(self._ahead) - len(whole)], b""
            return rest
        while not self._ended and not 0 <= size <= len(self._ahead):
            raw = self._stream.read(BLOCK)
            self._ended = not raw
            self._ahead += self._decoder.decode(raw, final=self._ended).encode()
        cut = len(self._ahead) if size < 0 else size
        found, self._ahead = self._ahead[:cut], self._ahead[cut:]
        return found


def _head(path: Path) -> str:
    """The first lines of a text file, also of a compressed one."""
    _check(path)
    with _complaining(path), pa.input_stream(str(path)) as stream:
        head = bytes(stream.read(2**16))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{path} is UTF-16; save it as UTF-8")
    if b"\0" in head:
        raise UsageError(f"{path} is no text; csv:PATH wants lines of text, parquet:PATH a parquet file")
    text = head.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise UsageError(f"{path} is empty; a table has a header and rows")
    return text


def _check(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty; a table has a header and rows")


def _unique(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, each once; a column without a name is called by its place."""
    names = [name or f"column{place}" for place, name in enumerate(names, 1)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{path} has more than one column called {', '.join(twice)}; rename them")
    return tuple(names)


def _best(line: str) -> tuple[str, int]:
    """The separator that comes most often in a line, and how often."""
    found = max(SEPARATORS, key=line.count)
    return found, line.count(found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    """What arrow says about a damaged file, in one line."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        told = str(error).partition("\n")[0]
        if "straddling" in told:
            told = f"a row is longer than {BLOCK >> 20} MB; most likely a quotation mark is never closed"
        raise UsageError(f"{path} cannot be read: {told}") from error
