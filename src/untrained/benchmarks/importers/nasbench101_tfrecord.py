"""NAS-Bench-101 as published, read without TensorFlow.

The files are `nasbench_only108.tfrecord` and `nasbench_full.tfrecord`. A record is framed by its
length and two checksums. It holds one of the three trainings of a cell, as a JSON list: hash,
epochs, matrix, operations, and a base64 protocol buffer with the results at the start, halfway and
at the end of the training.
"""

import base64
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from untrained.benchmarks.importers.csv_nasbench101 import SEEDS
from untrained.benchmarks.importers.csv_nasbench201 import make_accuracy_metric, make_cost_metric
from untrained.benchmarks.layout import expect_layout
from untrained.benchmarks.table import Metric, Split
from untrained.benchmarks.table_builder import (
    TableBuilder,
    average_over_seeds,
    describe_source,
    make_arch_reader,
)
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

_PUBLISHER = "NAS-Bench-101"

# Field numbers of the protocol buffers. `_FIELD_RESULTS` and `_FIELD_PARAMS` belong to the message
# of a training, the others to the message of its results.
_FIELD_RESULTS = 1
_FIELD_PARAMS = 2
_FIELD_SECONDS = 2
_FIELD_BY_SPLIT: dict[Split, int] = {"train": 3, "val": 4, "test": 5}

_MAX_VARINT_BYTES = 10  # a 64-bit number has at most ten groups of seven bits


def read_tfrecord(path: Path) -> TableBuilder | None:
    """Read a file of the publishers."""
    if path.suffix != ".tfrecord":
        return None
    builder = TableBuilder(describe_source(path.name, [path]))
    read_arch = make_arch_reader("nasbench101")
    # The file does not number the trainings of a cell, so they are numbered in file order.
    training_counts: Counter[tuple[str, int]] = Counter()
    with path.open("rb") as file:
        for record in _iterate_records(file, path):
            with expect_layout(path, _PUBLISHER):
                _, epochs, matrix, operations, encoded_results = parse_json(record)
                arch = read_arch(_format_arch(matrix, operations))
                seed = training_counts[arch, epochs]
                _add_training(builder, arch, epochs, seed, base64.b64decode(encoded_results))
                training_counts[arch, epochs] += 1
    for epochs in sorted({epochs for _, epochs in training_counts}):
        _add_means(builder, epochs)
    return builder


def _format_arch(matrix: str, operations: str) -> str:
    """Return the notation of the space: `0110...`, `input,...` -> `0110/...+input,...`."""
    n = operations.count(",") + 1
    rows = [matrix[i * n : (i + 1) * n] for i in range(n)]
    return f"{'/'.join(rows)}+{operations}"


def _add_training(builder: TableBuilder, arch: str, epochs: int, seed: int, data: bytes) -> None:
    """Add the results at the end of one training, which are a protocol buffer."""
    message = _parse_message(data)
    final = _parse_message(message[_FIELD_RESULTS][-1])
    for split, field in _FIELD_BY_SPLIT.items():
        metric = _make_metric(split, epochs, f"seed{seed}", "one seed")
        builder.add_value(arch, metric, 100 * _unpack_double(final[field][0]))
    if seed == 0:
        params = make_cost_metric("params", "M", source=_PUBLISHER)
        builder.add_value(arch, params, message[_FIELD_PARAMS][0] / 1e6)
        about = "training of the first seed"
        seconds = make_cost_metric(
            "seconds", "s", "cifar10", epochs, about=about, source=_PUBLISHER
        )
        builder.add_value(arch, seconds, _unpack_double(final[_FIELD_SECONDS][0]))


def _add_means(builder: TableBuilder, epochs: int) -> None:
    """Add the means over the seeds that each architecture has."""
    columns = {column.name: values for column, values in builder.make_columns().items()}
    for split in _FIELD_BY_SPLIT:
        names = [_make_metric(split, epochs, f"seed{seed}").name for seed in SEEDS]
        by_seed = np.array([columns[name] for name in names if name in columns])
        means = average_over_seeds(by_seed)
        metric = _make_metric(split, epochs, about="mean over the available seeds")
        builder.add_values(builder.archs, metric, means.tolist())


def _make_metric(split: Split, epochs: int, variant: str = "", about: str = "") -> Metric:
    return make_accuracy_metric("cifar10", split, epochs, variant, about, _PUBLISHER)


# ----------------------------------------------------------------------------------- records


def _iterate_records(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file.

    A record is its length (8 bytes), a checksum of the length, the data and a checksum of them.
    """
    file_bytes = path.stat().st_size
    while header := file.read(12):
        length = int.from_bytes(header[:8], "little")
        length_checksum = int.from_bytes(header[8:], "little")
        is_intact = len(header) == 12 and _compute_masked_crc(header[:8]) == length_checksum
        # A damaged length could be huge, so it is compared with the file size before it is used.
        is_intact = is_intact and length + 4 <= file_bytes - file.tell()
        if is_intact:
            data = file.read(length)
            data_checksum = int.from_bytes(file.read(4), "little")
            is_intact = _compute_masked_crc(data) == data_checksum
        if not is_intact:
            raise UsageError(
                f"{path} is not a complete TFRecord file: "
                f"damaged or cut off before byte {file.tell()}"
            )
        yield data


def _make_crc_table() -> list[int]:
    """Return the table of CRC-32C (Castagnoli) for one byte at a time."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            lowest_bit = crc & 1
            crc >>= 1
            if lowest_bit:
                crc ^= 0x82F63B78  # the polynomial
        table.append(crc)
    return table


_CRC_TABLE = _make_crc_table()


def _compute_masked_crc(data: bytes) -> int:
    """Return the checksum as TFRecord writes it: rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc & 0xFF) ^ byte]
    crc ^= 0xFFFFFFFF
    rotated = (crc >> 15) | (crc << 17)
    return (rotated + 0xA282EAD8) & 0xFFFFFFFF


# -------------------------------------------------------------------------- protocol buffers


def _parse_message(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a message by field number: integers or bytes."""
    fields: dict[int, list[Any]] = {}
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == 0:
            value, position = _read_varint(data, position)
        else:
            # Wire types 1 and 5 have a fixed length, the others are preceded by their length.
            if wire_type == 1:
                length = 8
            elif wire_type == 5:
                length = 4
            else:
                length, position = _read_varint(data, position)
            value = data[position : position + length]
            position += length
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode a varint (seven bits per byte, lowest first); return it and the position after it."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = data[start + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, start + index + 1
    raise ValueError(f"a number has more than {_MAX_VARINT_BYTES} bytes")


def _unpack_double(data: bytes) -> float:
    return float(struct.unpack("<d", data)[0])
