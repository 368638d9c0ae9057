"""NAS-Bench-101 as its authors publish it, `nasbench_only108.tfrecord` or `nasbench_full.tfrecord`, without TensorFlow.

A record is framed by its length and two checksums. It is a JSON list: hash, epochs, matrix, operations, and a base64
protocol buffer with the results at the start, halfway and at the end of one of three trainings.
"""

import base64
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from untrained.benchmarks._layout import laid_out
from untrained.benchmarks._rows import Rows, canonical, source
from untrained.benchmarks._table import Metric, Split
from untrained.benchmarks.importers.csv_nasbench101 import SEEDS
from untrained.benchmarks.importers.csv_nasbench201 import accuracy, cost
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

_PUBLISHER = "NAS-Bench-101"
_SPLITS: dict[Split, int] = {"train": 3, "val": 4, "test": 5}  # by the field's number in the protocol buffer
_RESULTS, _PARAMS, _SECONDS = 1, 2, 2
_LONGEST_VARINT = 10  # bytes of a number of 64 bits


def read(path: Path) -> Rows | None:
    if path.suffix != ".tfrecord":
        return None
    rows, key, seen = Rows(source(path.name, [path])), canonical("nasbench101"), Counter[tuple[str, int]]()
    with path.open("rb") as file:
        for record in _records(file, path):
            with laid_out(path, _PUBLISHER):
                _, epochs, matrix, operations, packed = parse_json(record)
                arch = key(_notation(matrix, operations))
                _put(rows, arch, epochs, seen[arch, epochs], base64.b64decode(packed))
                seen[arch, epochs] += 1
    for epochs in sorted({epochs for _, epochs in seen}):
        _put_means(rows, epochs)
    return rows


def _notation(matrix: str, operations: str) -> str:
    """`0110...` and `input,...,output` -> `0110/...+input,...,output`."""
    n = operations.count(",") + 1
    return f"{'/'.join(matrix[i * n : (i + 1) * n] for i in range(n))}+{operations}"


def _put(rows: Rows, arch: str, epochs: int, seed: int, packed: bytes) -> None:
    fields = _fields(packed)
    final = _fields(fields[_RESULTS][-1])
    for split, number in _SPLITS.items():
        rows.put(arch, _metric(split, epochs, f"seed{seed}", "one seed"), 100 * _double(final[number][0]))
    if seed == 0:
        rows.put(arch, cost("params", "M", source=_PUBLISHER), fields[_PARAMS][0] / 1e6)
        seconds = cost("seconds", "s", "cifar10", epochs, about="training of the first seed", source=_PUBLISHER)
        rows.put(arch, seconds, _double(final[_SECONDS][0]))


def _put_means(rows: Rows, epochs: int) -> None:
    columns = {column.name: values for column, values in rows.columns().items()}
    for split in _SPLITS:
        names = [_metric(split, epochs, f"seed{seed}").name for seed in SEEDS]
        seeds = np.array([columns[name] for name in names if name in columns])
        known = np.isfinite(seeds).sum(0)
        means = np.where(known, np.nansum(seeds, 0) / np.maximum(known, 1), np.nan)
        rows.put_all(rows.archs, _metric(split, epochs, about="mean over three seeds"), means.tolist())


def _metric(split: Split, epochs: int, variant: str = "", about: str = "") -> Metric:
    return accuracy("cifar10", split, epochs, variant, about, _PUBLISHER)


# ---------------------------------------------------------------------------------------------------------- records


def _records(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file.

    A record is its length (8 bytes), a checksum of the length, the data and a checksum of them.
    """
    file_bytes = path.stat().st_size
    while head := file.read(12):
        length = int.from_bytes(head[:8], "little")
        intact = len(head) == 12 and _masked_crc(head[:8]) == int.from_bytes(head[8:], "little")
        # The length is compared with the file before so much memory is taken.
        intact = intact and length + 4 <= file_bytes - file.tell()
        if intact:
            data = file.read(length)
            intact = _masked_crc(data) == int.from_bytes(file.read(4), "little")
        if not intact:
            raise UsageError(f"{path} is no whole TFRecord file: damaged or cut off before byte {file.tell()}")
        yield data


def _crc_table() -> list[int]:
    """CRC-32C (Castagnoli), byte by byte."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def _masked_crc(data: bytes) -> int:
    """The checksum as TFRecord writes it: rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[crc & 0xFF ^ byte]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# -------------------------------------------------------------------------------------------------- protocol buffers


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: whole numbers, or bytes of known length."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(tag & 7) or _varint(data, at)
            value, at = data[at : at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode a number of seven bits per byte, the lowest first; return it and where it ends."""
    value = 0
    for place in range(_LONGEST_VARINT):
        byte = data[start + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, start + place + 1
    raise ValueError(f"a number has more than {_LONGEST_VARINT} bytes")


def _double(data: bytes) -> float:
    return float(struct.unpack("<d", data)[0])
