"""Foreign pickles without trust: arrays and plain data are read, anything that would run code is refused."""

import io
import pickle
from pathlib import Path
from typing import Any

from untrained.errors import UsageError

_ALLOWED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
}


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which plain data never need")
        return super().find_class(module, name)


def read_pickle(path: Path) -> Any:
    """The data in a pickle file; strings of Python 2 stay bytes."""
    try:
        return _PlainData(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path} was refused: {error}") from error
