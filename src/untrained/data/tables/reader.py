"""Read files of rows in blocks: CSV, also tab-separated or compressed, and parquet.

Every column of a CSV file is read as text. A row with too many or too few fields is counted as bad,
not skipped silently. A byte that is not UTF-8 is replaced by an escape such as \\xe9. Line numbers
count rows: a line break inside quotation marks and an empty line do not count.
"""

import codecs
import csv
import io
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from untrained.data.tables.values import is_float_text
from untrained.errors import UsageError

SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "|"}
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "\\N"]
BLOCK_BYTES = 2**22  # bytes of text that are in memory at once
PARQUET_ROWS = 2**14  # rows of a block of a parquet file
_MAX_BAD_ROWS_SHOWN = 5
_HEAD_BYTES = 2**16
# Arrow releases what it has read from within milliseconds.
_RELEASE_SECONDS = 5.0
_RELEASE_POLL_SECONDS = 0.001
_UTF8_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of a character after its first one
Blocks = Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]


@dataclass
class BadRows:
    """Rows that cannot be used.

    Attributes:
        count: Their number.
        first_reasons: Line and reason of the first few of them.
    """

    count: int = 0
    first_reasons: list[str] = field(default_factory=list)

    def add(self, line: int, reason: str, lines: int = 1) -> None:
        """Count bad rows.

        Args:
            line: Number of their first line.
            reason: Why they cannot be used.
            lines: Number of lines that they cover.
        """
        self.count += lines
        if len(self.first_reasons) < _MAX_BAD_ROWS_SHOWN:
            self.first_reasons.append(f"line {line}: {reason}")


@dataclass(frozen=True)
class Table:
    """A file of rows.

    Attributes:
        path: The file.
        columns: Names of the columns.
        read_blocks: Function that reads the rows. It yields blocks with the line number of each
            row, and adds bad rows to its argument.
        missing: Texts that stand for a missing value.
    """

    path: Path
    columns: tuple[str, ...]
    read_blocks: Callable[[BadRows], Blocks]
    missing: tuple[str, ...] = ()


# -------------------------------------------------------------------------------------------- CSV


def open_csv(path: Path, names: Sequence[str] = (), separator: str = "") -> Table:
    """Open a CSV file.

    Args:
        path: The file, perhaps compressed.
        names: Names of the columns of a file without a header. A first line that contains one of
            them is a header.
        separator: Separator of a file whose first line has none of the usual ones.

    Raises:
        UsageError: The file cannot be read, or its header is wrong.
    """
    head = _read_head(path)
    text = head.lstrip("\r\n")
    first_line = text.splitlines()[0]
    usual_separator = max(SEPARATORS, key=first_line.count)
    if not separator or first_line.count(usual_separator):
        separator = usual_separator
    header = _read_header(path, text, first_line, separator)

    has_header = not names or bool(set(names) & set(header))
    if not names and all(is_float_text(name) for name in header if name):
        raise UsageError(
            f"the first line of {path} holds numbers; "
            "it must name the columns, such as click,user,item"
        )
    columns = _make_unique_names(path, header if has_header else names)
    empty_lines = len(head[: -len(text)].splitlines())
    skipped_lines = empty_lines + 1 if has_header else empty_lines

    def read_blocks(bad_rows: BadRows) -> Blocks:
        return _read_csv_blocks(path, columns, separator, skipped_lines, bad_rows)

    return Table(path, columns, read_blocks, tuple(MISSING))


def _read_head(path: Path) -> str:
    """Read the first lines of a text file, which may be compressed."""
    _check_file(path)
    with _convert_errors(path), pa.input_stream(str(path)) as stream:
        head = bytes(stream.read(_HEAD_BYTES))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{path} is UTF-16; save it as UTF-8")
    if b"\0" in head:
        raise UsageError(
            f"{path} is not a text file; csv:PATH reads lines of text, parquet:PATH a parquet file"
        )
    text = head.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise UsageError(f"{path} is empty; a table has a header and rows")
    return text


def _read_header(path: Path, text: str, first_line: str, separator: str) -> list[str]:
    """Return the fields of the first row."""
    first_row = next(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    header = [name.strip() for name in first_row]
    if len(header) < 2:
        separators = ", ".join(SEPARATORS.values())
        raise UsageError(
            f"{path} has one column, {first_line[:40]!r}; "
            f"a table has a label and other columns, separated by {separators}"
        )
    if any("\n" in name for name in header):
        raise UsageError(
            f"the header of {path} has a line break inside of a name; rename that column"
        )
    return header


def _read_csv_blocks(
    path: Path, columns: tuple[str, ...], separator: str, skipped_lines: int, bad_rows: BadRows
) -> Blocks:
    bad_lines: list[int] = []  # lines that the parser has refused since the last block

    def handle_invalid_row(row: Any) -> str:
        bad_lines.append(row.number)
        reason = (
            f"{row.actual_columns} fields where {row.expected_columns} are expected: "
            f"{row.text[:60]!r}"
        )
        # A quotation mark that is never closed makes one row of many lines.
        more_lines = row.text.count("\n")
        if more_lines:
            reason += f" and {more_lines:,} more lines"
        bad_rows.add(row.number, reason, 1 + more_lines)
        return "skip"

    # With several threads, Arrow does not report line numbers.
    read_options = pcsv.ReadOptions(
        column_names=columns, skip_rows=skipped_lines, block_size=BLOCK_BYTES, use_threads=False
    )
    parse_options = pcsv.ParseOptions(
        delimiter=separator, newlines_in_values=True, invalid_row_handler=handle_invalid_row
    )
    convert_options = pcsv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=True,
        null_values=MISSING,
    )
    line = 1 + skipped_lines
    reader = None
    with _convert_errors(path), pa.input_stream(str(path)) as stream:
        arrow_objects = _ArrowObjects()
        arrow_objects.add(handle_invalid_row)
        utf8_stream = _Utf8Stream(stream, arrow_objects)
        arrow_objects.add(utf8_stream)
        try:
            try:
                reader = pcsv.open_csv(utf8_stream, read_options, parse_options, convert_options)
            except pa.ArrowInvalid as error:
                if any(message in str(error) for message in ("Empty CSV file", "Could not skip")):
                    # The file has nothing after the header.
                    return
                raise
            for block in reader:
                # The lines of the block are the next ones, without the bad lines between them.
                candidates = np.arange(line, line + len(block) + len(bad_lines))
                lines = np.setdiff1d(candidates, bad_lines)[: len(block)]
                if len(block):
                    line = int(lines[-1]) + 1
                    bad_lines[:] = [number for number in bad_lines if number >= line]
                    yield block, lines
        finally:
            utf8_stream.stop()
            if reader is not None:
                _exhaust_reader(reader)
            # Arrow's threads hold these objects too, and may be the last to release them.
            del reader, utf8_stream, parse_options, handle_invalid_row
            arrow_objects.wait_until_released()


def _exhaust_reader(reader: pcsv.CSVStreamingReader) -> None:
    """Let Arrow finish when the rest of a file is not needed.

    A thread of Arrow reads ahead from our Python stream. If the interpreter exits meanwhile, the
    process is aborted.
    """
    with suppress(pa.ArrowException):
        for _ in reader:
            pass


class _ArrowObjects:
    """Python objects that Arrow uses.

    After the last block, threads of Arrow still release them, and need the interpreter for that: if
    the interpreter exits meanwhile, the process is aborted.
    """

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []

    def add(self, target: object) -> None:
        """Watch an object, which must allow weak references."""
        self._references.append(weakref.ref(target))

    def wait_until_released(self) -> None:
        """Wait, but not forever: a debugger or a traceback may hold the objects too."""
        deadline = monotonic() + _RELEASE_SECONDS
        while any(reference() is not None for reference in self._references):
            if monotonic() > deadline:
                break
            sleep(_RELEASE_POLL_SECONDS)


class _Utf8Stream(io.RawIOBase):
    """A stream in which bytes that are not UTF-8 are escaped.

    Arrow fails on a bad row with such bytes, so that it could not even be counted.
    """

    def __init__(self, stream: pa.NativeFile, arrow_objects: _ArrowObjects) -> None:
        self._stream = stream
        self._arrow_objects = arrow_objects
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._buffer = b""
        self._is_exhausted = False
        self._is_stopped = False

    def stop(self) -> None:
        """Make later reads return no more data. Another thread may be inside `read` now."""
        self._is_stopped = True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> NDArray[np.uint8]:
        """Read exactly `size` bytes unless the stream ends.

        The result is an array, because weak references to bytes are not possible. Arrow treats a
        shorter result as a block, and a row must fit into one block.
        """
        if self._is_stopped:
            # The last read may have ended inside a character. Return its other bytes, because Arrow
            # expects valid UTF-8.
            rest_size = len(self._buffer) - len(self._buffer.lstrip(_UTF8_CONTINUATION))
            rest = self._buffer[:rest_size]
            self._buffer = b""
            return self._share_with_arrow(rest)
        while not self._is_exhausted and not 0 <= size <= len(self._buffer):
            raw = self._stream.read(BLOCK_BYTES)
            self._is_exhausted = not raw
            self._buffer += self._decoder.decode(raw, final=self._is_exhausted).encode()
        cut = len(self._buffer) if size < 0 else size
        data = self._buffer[:cut]
        self._buffer = self._buffer[cut:]
        return self._share_with_arrow(data)

    def _share_with_arrow(self, data: bytes) -> NDArray[np.uint8]:
        array = np.frombuffer(data, np.uint8)
        self._arrow_objects.add(array)
        return array


# ---------------------------------------------------------------------------------------- parquet


def open_parquet(path: Path) -> Table:
    """Open a parquet file.

    Raises:
        UsageError: The file cannot be read.
    """
    _check_file(path)
    with _convert_errors(path), pq.ParquetFile(path) as file:
        columns = _make_unique_names(path, file.schema_arrow.names)

    def read_blocks(bad_rows: BadRows) -> Blocks:
        start = 1
        with _convert_errors(path), pq.ParquetFile(path) as file:
            for block in file.iter_batches(PARQUET_ROWS, use_threads=False):
                yield block, np.arange(start, start + len(block))
                start += len(block)

    return Table(path, columns, read_blocks)


# ------------------------------------------------------------------------------------------- both


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty; a table has a header and rows")


def _make_unique_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Name columns without a name by their position, and refuse names that occur twice."""
    full_names = [name or f"column{position}" for position, name in enumerate(names, 1)]
    repeated = sorted({name for name in full_names if full_names.count(name) > 1})
    if repeated:
        raise UsageError(
            f"{path} has more than one column called {', '.join(repeated)}; rename them"
        )
    return tuple(full_names)


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert what Arrow raises on a damaged file to a `UsageError` of one line."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        message = str(error).partition("\n")[0]
        if "straddling" in message:
            megabytes = BLOCK_BYTES >> 20
            message = (
                f"a row is longer than {megabytes} MB; most likely a quotation mark is never closed"
            )
        raise UsageError(f"{path} cannot be read: {message}") from error
