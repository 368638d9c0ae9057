"""The identity of a value: short texts that change when something changes that the value depends on.

A score, a training and a cache entry are found again by a key. Settings such as a seed are in a key as they are; this
module makes the other parts: fingerprints of files, of networks and of samples, and the version of torch. The
fingerprint of the user's code is made in `user_code.py`.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from untrained.data.parts import Parts


@cache
def torch_version() -> str:
    """The version of torch with its build, such as `2.8.0+cu128`: other kernels give other last digits."""
    return metadata.version("torch")


def fingerprint_file(path: Path) -> str:
    """A fingerprint of a file's content.

    Size and time of change are not enough: a file that was replaced by one of the same size can have its old time back.
    All of it is read, which takes about a second per GB.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_state(path: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced: enough for what is kept in memory of published files."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def fingerprint_samples(parts: "Parts") -> str:
    """A fingerprint of every sample of a data set, part by part."""
    digest = hashlib.sha256()
    for name, part in parts.items():
        digest.update(f"{name} {len(part)} {part.fingerprint()}\n".encode())
    return digest.hexdigest()[:16]


def fingerprint_tensors(tensors: Iterable["Tensor"]) -> str:
    """A fingerprint of numbers, their kinds and their shapes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        _add_tensor(digest, tensor)
    return digest.hexdigest()


def fingerprint_module(model: "nn.Module") -> str:
    """A fingerprint of a network that the user made in Python: its layers and the shapes of its weights.

    The weights themselves do not count: a script draws them anew each time it is started, and a training that is
    resumed takes them from its checkpoint.
    """
    # Functions inside of a network are printed with their address.
    layers = re.sub(r" at 0x[0-9a-f]+", "", repr(model))
    digest = hashlib.sha256(layers.encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
    return digest.hexdigest()


def _add_tensor(digest: "hashlib._Hash", tensor: "Tensor") -> None:
    import torch

    digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\n".encode())
    plain = tensor.detach().cpu().contiguous()
    if plain.numel():
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
