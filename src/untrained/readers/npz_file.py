"""Read numpy archives (`.npz`) without pickles.

`numpy.load` trusts the shape in the header of an array. Here it is compared with the size of the
member before memory is allocated.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from untrained.errors import UsageError
from untrained.readers.limits import (
    DamagedFileError,
    MemoryAllowance,
    RefusedFileError,
    describe_error,
)
from untrained.readers.plain_arrays import (
    AnyArray,
    PlainDtype,
    check_items,
    check_sizes,
    parse_dtype,
)
from untrained.readers.zip_file import check_member, check_zip_directory

_MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 10_000
_BLOCK_BYTES = 2**20
# Entries of a header. Their groups are the byte order and the type code; the order; the sizes.
_DTYPE_ENTRY = re.compile(r"'descr'\s*:\s*'([<>|=]?)(\w+)'")
_ORDER_ENTRY = re.compile(r"'fortran_order'\s*:\s*(True|False)")
_SHAPE_ENTRY = re.compile(r"'shape'\s*:\s*\(([0-9L, ]*)\)")


@dataclass(frozen=True)
class _Header:
    """The header of an array.

    Attributes:
        dtype: Type of the items.
        shape: Shape of the array.
        column_major: Whether the first axis varies fastest.
        header_bytes: Length of the header.
    """

    dtype: PlainDtype
    shape: tuple[int, ...]
    column_major: bool
    header_bytes: int

    @property
    def item_count(self) -> int:
        """Number of items of the array."""
        return math.prod(self.shape)


def list_npz_names(path: Path) -> list[str]:
    """Return the names of the arrays in a numpy archive, without `.npy`."""
    with _convert_errors(path), _open_archive(path) as archive:
        return [_strip_ending(name) for name in archive.namelist()]


def read_npz_arrays(path: Path, names: Sequence[str]) -> dict[str, AnyArray]:
    """Read some arrays of a numpy archive.

    Raises:
        UsageError: The file is not a numpy archive, is encrypted or damaged, or one of the arrays
            is missing or contains something other than numbers or short strings.
    """
    with _convert_errors(path):
        allowance = MemoryAllowance(path.stat().st_size)
        with _open_archive(path) as archive:
            members = {_strip_ending(member.filename): member for member in archive.infolist()}
            arrays = {}
            for name in names:
                if name not in members:
                    raise DamagedFileError(f"it has no array {name}")
                arrays[name] = _read_array(archive, members[name], allowance)
            return arrays


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # a damaged archive can raise almost any error
        raise UsageError(
            f"{path} is not a readable numpy archive: {describe_error(error)}"
        ) from error


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    if not zipfile.is_zipfile(path):
        raise DamagedFileError(
            "it is not a zip file, but numpy.savez writes zip files; "
            "for a table, type csv: or parquet: instead of npz:"
        )
    check_zip_directory(path)
    with zipfile.ZipFile(path) as archive:
        yield archive


def _strip_ending(name: str) -> str:
    return name.removesuffix(".npy")


def _read_array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, allowance: MemoryAllowance
) -> AnyArray:
    check_member(member)
    with archive.open(member) as file:
        header = _read_header(file)
        item_bytes = header.dtype.item_bytes
        content_bytes = header.item_count * item_bytes
        if header.header_bytes + content_bytes != member.file_size:
            raise DamagedFileError(
                f"the header of {_strip_ending(member.filename)} states {content_bytes:,} bytes of "
                f"numbers, but there are {member.file_size - header.header_bytes:,}"
            )
        allowance.charge(content_bytes)
        items = np.empty(header.item_count, header.dtype.to_numpy())
        _fill_from_file(items.view(np.uint8), file)
    items = check_items(items, header.dtype)
    # The items are in the order of the file; the header tells which axis varies fastest.
    order = "F" if header.column_major else "C"
    return items.reshape(header.shape, order=order)  # type: ignore[call-overload, no-any-return]


def _fill_from_file(target: NDArray[np.uint8], file: IO[bytes]) -> None:
    """Fill an array of bytes from a file, block by block."""
    position = 0
    while position < len(target):
        block = file.read(min(_BLOCK_BYTES, len(target) - position))
        if not block:
            raise DamagedFileError("an array is cut off")
        target[position : position + len(block)] = np.frombuffer(block, np.uint8)
        position += len(block)
    if file.read(1):
        raise DamagedFileError("an array is longer than its header says")


def _read_header(file: IO[bytes]) -> _Header:
    """Read the header that numpy writes: magic bytes, version, length, and a dictionary as text."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8:
        raise DamagedFileError("a member is not a numpy array")
    length_bytes = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(length_bytes), "little")
    if length > _MAX_HEADER_BYTES:
        raise DamagedFileError(f"the header of an array has {length} bytes")
    text = file.read(length).decode("latin1")
    # Python objects would have to be unpickled, which can run code.
    if "'|O" in text or "'O" in text:
        raise RefusedFileError(
            "it holds Python objects; save numbers, such as uint8 images and int labels"
        )
    dtype_entry = _DTYPE_ENTRY.search(text)
    order_entry = _ORDER_ENTRY.search(text)
    shape_entry = _SHAPE_ENTRY.search(text)
    if dtype_entry is None or order_entry is None or shape_entry is None:
        raise DamagedFileError("the header of an array has an unsupported type, order or shape")
    order_sign, code = dtype_entry.groups()
    byte_order = "<"
    if order_sign == ">":
        byte_order = ">"
    sizes = []
    for size in shape_entry[1].split(","):
        # The shape (3,) has an empty size at its end. Python 2 wrote 3 as 3L.
        if size.strip():
            sizes.append(int(size.strip().rstrip("L")))
    return _Header(
        dtype=parse_dtype(code, byte_order),
        shape=check_sizes(sizes),
        column_major=order_entry[1] == "True",
        header_bytes=len(start) + length_bytes + length,
    )
