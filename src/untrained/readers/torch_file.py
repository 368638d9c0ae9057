"""Read files of `torch.save` without torch. Tensors become numpy arrays."""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from untrained.readers.limits import (
    DamagedFileError,
    MemoryAllowance,
    RefusedFileError,
    name_file_in_errors,
)
from untrained.readers.pickle_file import (
    Arguments,
    GlobalName,
    PickleExtension,
    interpret_pickle,
    make_missing_tensor_error,
)
from untrained.readers.plain_arrays import AnyArray, make_booleans, make_strided_array
from untrained.readers.zip_file import check_zip_directory, read_member

_STORAGE_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_LEGACY_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # the first value in a file of torch before 1.6


def read_torch(path: Path) -> Any:
    """Read the data in a file of `torch.save`.

    Raises:
        UsageError: The file is damaged, or contains something other than tensors and plain data.
    """
    with name_file_in_errors(path):
        allowance = MemoryAllowance(path.stat().st_size)
        if zipfile.is_zipfile(path):
            return _read_zip(path, allowance)
        return _read_legacy_file(path, allowance)


def _read_zip(path: Path, allowance: MemoryAllowance) -> object:
    check_zip_directory(path)
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if not pickles:
            raise RefusedFileError(
                "it is a zip archive without data.pkl, so torch.save did not write it"
            )
        folder = pickles[0].removesuffix("data.pkl")
        _check_byte_order(archive, folder, allowance)
        storages: dict[tuple[str, str], AnyArray] = {}

        def load_storage(reference: object) -> AnyArray:
            key, dtype = _parse_reference(reference)
            if (key, dtype) not in storages:
                content = read_member(archive, f"{folder}data/{key}", allowance)
                storages[key, dtype] = _make_storage(content, dtype)
            return storages[key, dtype]

        pickled = read_member(archive, pickles[0], allowance)
        value, _ = interpret_pickle(
            pickled, allowance, replace(_TENSOR_EXTENSION, load_reference=load_storage)
        )
        return value


def _check_byte_order(archive: zipfile.ZipFile, folder: str, allowance: MemoryAllowance) -> None:
    name = f"{folder}byteorder"
    if name in archive.namelist() and read_member(archive, name, allowance) != b"little":
        raise RefusedFileError("its numbers are big-endian; save it on a little-endian machine")


def _parse_reference(reference: object) -> tuple[str, str]:
    """Return the key and the dtype of a storage from its reference in the pickle.

    The reference is the tuple ("storage", class, key, device, count).
    """
    if type(reference) is not tuple or len(reference) != 5 or reference[0] != "storage":
        raise make_missing_tensor_error()
    _, storage_class, key, _, _ = reference
    is_torch_class = type(storage_class) is GlobalName and storage_class.module == "torch"
    if not is_torch_class or type(key) is not str:
        raise make_missing_tensor_error()
    return key, _STORAGE_DTYPES[storage_class.name]


def _make_storage(content: bytes, code: str) -> AnyArray:
    dtype = np.dtype(code)
    if len(content) % dtype.itemsize:
        raise DamagedFileError(
            f"the {len(content)} bytes of a tensor are not a multiple of the size of {dtype}"
        )
    if code == "?":
        return make_booleans(np.frombuffer(content, np.uint8))
    return np.frombuffer(content, dtype)


def _rebuild_tensor(arguments: Arguments, allowance: MemoryAllowance) -> AnyArray:
    """Emulate `_rebuild_tensor_v2(storage, offset, shape, strides, ...)` without its gradients."""
    storage, offset, shape, strides, *_ = arguments
    if type(storage) is not np.ndarray or storage.ndim != 1:
        raise DamagedFileError("a tensor has no storage")
    return make_strided_array(storage, offset, shape, strides, allowance)


def _refuse_legacy_tensor(reference: object) -> object:
    raise RefusedFileError(
        "torch before 1.6 wrote it, and tensors in such a file cannot be read; "
        "load it with a newer torch and save it again"
    )


_TENSOR_EXTENSION = PickleExtension(
    names=frozenset(("torch", storage) for storage in _STORAGE_DTYPES),
    calls={("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor},
)
_LEGACY_EXTENSION = replace(_TENSOR_EXTENSION, load_reference=_refuse_legacy_tensor)


def _read_legacy_file(path: Path, allowance: MemoryAllowance) -> object:
    """Read a file of torch before 1.6.

    It consists of four pickles: a magic number, a version, system information and the data. The
    numbers of tensors would follow them, but files with tensors are refused.
    """
    allowance.charge(path.stat().st_size)
    data = path.read_bytes()
    magic_number, position = interpret_pickle(data, allowance)
    if magic_number != _LEGACY_MAGIC_NUMBER:
        raise RefusedFileError("torch.save did not write it")
    # The version and the system information are not needed.
    _, position = interpret_pickle(data, allowance, _LEGACY_EXTENSION, position)
    _, position = interpret_pickle(data, allowance, _LEGACY_EXTENSION, position)
    value, _ = interpret_pickle(data, allowance, _LEGACY_EXTENSION, position)
    return value
