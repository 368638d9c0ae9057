"""Foreign pickles without trust: plain data and arrays are read, anything that would run code is refused by name.

The one place that unpickles. A pickle is a program: it names functions and calls them. Here it can name containers and
what numpy and torch need to put an array together, and of torch not even its own functions: tensors become numpy
arrays by code of ours that checks their bounds.
"""

import bz2
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from untrained.errors import UsageError

_HARMLESS = {
    ("collections", "OrderedDict"),
    *((builtins, kind) for builtins in ("builtins", "__builtin__") for kind in ("set", "frozenset", "bytearray")),
    ("_codecs", "encode"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    *((f"numpy.{core}.multiarray", made) for core in ("core", "_core") for made in ("_reconstruct", "scalar")),
}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
_OLD_TORCH = 0x1950A86A20F9469CFC6C  # the first number of a file of torch before 1.6


def read_pickle(path: Path) -> Any:
    """The data in a pickle file, also one compressed by bzip2 (`.pbz2`); strings of Python 2 stay bytes."""

    def read() -> Any:
        with bz2.open(path) if path.suffix in (".pbz2", ".bz2") else path.open("rb") as file:
            return _PlainData(file).load()

    return _guarded(path, read)


def read_torch(path: Path) -> Any:
    """The data in a file that `torch.save` has written; tensors are numpy arrays."""
    return _guarded(path, lambda: _read_zip(path) if zipfile.is_zipfile(path) else _read_old(path))


def _guarded(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path} was refused: {_line(error)}") from error
    except Exception as error:  # bytes that are no pickle can raise anything at all
        raise UsageError(f"{path} is damaged: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class _PlainData(pickle.Unpickler):
    def __init__(self, file: IO[bytes], stored: Callable[[str, Any], Any] | None = None) -> None:
        super().__init__(file, encoding="bytes")
        self._stored = stored

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _HARMLESS:
            return super().find_class(module, name)
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Rebuild()
        if module in ("numpy.core.numeric", "numpy._core.numeric") and name == "_frombuffer":
            return _FromBuffer()
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which plain data never need")

    def persistent_load(self, pid: Any) -> Any:
        """torch keeps the numbers of its tensors outside the pickle."""
        kind, storage, key, *_ = pid
        if self._stored is None or kind != "storage" or storage not in _STORAGES:
            raise pickle.UnpicklingError("it points to tensors that are not in the file")
        return self._stored(str(key), _STORAGES[storage])


class _FromBuffer:
    """An array as numpy packs it since protocol 5. No plain function: a pickle could write into its attributes."""

    __slots__ = ()

    def __call__(self, buffer: bytes, dtype: Any, shape: tuple[int, ...], order: Any) -> NDArray[Any]:
        return np.frombuffer(buffer, dtype).reshape(shape, order=order)


class _Rebuild:
    """A view of a storage as torch describes it, within the storage's bounds."""

    __slots__ = ()

    def __call__(
        self, storage: NDArray[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
    ) -> NDArray[Any]:
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if min((offset, *size, *stride)) < 0 or (0 not in size and last >= storage.size):
            raise pickle.UnpicklingError(f"a tensor of shape {size} reaches outside its {storage.size} numbers")
        if 0 in size:
            return np.zeros(size, storage.dtype)
        steps = [step * storage.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(storage[offset:], size, steps).copy()


def _read_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        inside = next((name for name in archive.namelist() if name.endswith("data.pkl")), None)
        if inside is None:
            raise pickle.UnpicklingError("it is a zip archive without data.pkl, so torch.save did not write it")
        folder = inside.removesuffix("data.pkl")

        def stored(key: str, dtype: Any) -> NDArray[Any]:
            return np.frombuffer(archive.read(f"{folder}data/{key}"), dtype)

        return _PlainData(io.BytesIO(archive.read(inside)), stored).load()


def _read_old(path: Path) -> Any:
    """Before torch 1.6: a magic number, a version, facts on the machine and the data, one pickle after the other."""
    with path.open("rb") as file:
        if _PlainData(file).load() != _OLD_TORCH:
            raise pickle.UnpicklingError("torch.save did not write it")
        _PlainData(file).load()
        _PlainData(file).load()
        return _PlainData(file).load()
