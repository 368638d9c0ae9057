"""Fingerprints: short texts that change whenever anything changes on which a value depends.

Scores, trainings and cache entries are looked up by a key. Settings such as a seed are in the key
as they are. This module makes the other parts of keys: fingerprints of files, networks and samples,
and the version of torch. `user_code.py` makes the fingerprints of the user's code.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


@cache
def read_torch_version() -> str:
    """Return the version of torch with its build, such as `2.8.0+cu128`.

    The kernels of different builds give results that differ in the last digits.
    """
    # Importing importlib.metadata is slow, which would delay `untrained --help`.
    from importlib import metadata

    return metadata.version("torch")


def fingerprint_file(path: Path) -> str:
    """Return a fingerprint of the content of a file.

    The whole file is read, which takes about a second per GB. Size and modification time are not
    enough: a file can be replaced by one with the same size and time.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_file_state(path: Path) -> tuple[int, ...]:
    """Return numbers that usually change when a file is written or replaced.

    They are sufficient for in-memory caches of published files, which are never edited.
    """
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def fingerprint_tensors(tensors: Iterable["Tensor"]) -> str:
    """Return a fingerprint of the numbers, types and shapes of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        _add_tensor(digest, tensor)
    return digest.hexdigest()


def fingerprint_module(model: "nn.Module") -> str:
    """Return a fingerprint of a network: its layers and the shapes of its weights.

    The values of the weights do not matter: a script draws new weights each time it is started, and
    a training that is resumed takes its weights from the checkpoint.
    """
    # The repr of a function inside a network contains its memory address.
    layers = re.sub(r" at 0x[0-9a-f]+", "", repr(model))
    digest = hashlib.sha256(layers.encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
    return digest.hexdigest()


def _add_tensor(digest: "hashlib._Hash", tensor: "Tensor") -> None:
    import torch

    digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\n".encode())
    plain_tensor = tensor.detach().cpu()
    # An expanded tensor of one element has a stride of 0. It counts as contiguous, but cannot be
    # viewed as bytes. A copy in the contiguous format can always be viewed.
    if not plain_tensor.is_contiguous() or 0 in plain_tensor.stride():
        plain_tensor = plain_tensor.clone(memory_format=torch.contiguous_format)
    if plain_tensor.numel():
        digest.update(plain_tensor.reshape(-1).view(torch.uint8).numpy().data)
