"""Read whole files as bytes and decompress gzip and bzip2 files."""

import bz2
import gzip
from pathlib import Path
from typing import IO

from untrained.readers.limits import MemoryAllowance

_BLOCK_BYTES = 2**20


def read_whole_file(path: Path, allowance: MemoryAllowance | None = None) -> bytes:
    """Read a file, and decompress it if its name ends in `.gz`, `.bz2` or `.pbz2`.

    Args:
        path: The file.
        allowance: Charged for the content. The default depends on the size of the file.

    Returns:
        The content.

    Raises:
        RefusedFileError: The content is far larger than the file.
    """
    if allowance is None:
        allowance = MemoryAllowance(path.stat().st_size)
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return _read_blocks(file, allowance)
    if path.suffix in (".bz2", ".pbz2"):
        with bz2.open(path) as file:
            return _read_blocks(file, allowance)
    allowance.charge(path.stat().st_size)
    return path.read_bytes()


def _read_blocks(file: IO[bytes] | gzip.GzipFile, allowance: MemoryAllowance) -> bytes:
    blocks = []
    while block := file.read(_BLOCK_BYTES):
        # The blocks and the joined bytes are in memory at the same time.
        allowance.charge(2 * len(block))
        blocks.append(block)
    return b"".join(blocks)
