"""Tiny data sets in the publishers' formats, and a hostile one."""

import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.types import Task

RGB = Task("any", (3, 32, 32), 7)


def make_cifar_images() -> Tensor:
    """Return ten images of random bytes, (10, 3, 32, 32), with colour planes as in CIFAR-10."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (10, 3, 32, 32), generator=generator, dtype=torch.uint8)


def write_binary(root: Path) -> None:
    """Write the binary format: two images per file, image k with label k.

    A record is one byte for the label and 3,072 bytes for the image.
    """
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for batch, images in enumerate(make_cifar_images().split(2)):
        content = b""
        for i, image in enumerate(images):
            content += bytes([2 * batch + i]) + image.numpy().tobytes()
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(content)


def write_python(root: Path) -> None:
    """Write the format of pickles: two images per file, image k with label k."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for batch, images in enumerate(make_cifar_images().split(2)):
        content = {b"data": images.reshape(2, 3072).numpy(), b"labels": [2 * batch, 2 * batch + 1]}
        (folder / f"data_batch_{batch + 1}").write_bytes(pickle.dumps(content, protocol=2))


def write_npz(path: Path) -> Path:
    """Write an archive of twelve random images in four classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(12, 9, 11, 3), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(12) % 4)
    return path


class Attack:
    """Creates a file when it is unpickled, as a hostile file could do."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> object:
        return open, (str(self.target), "w")
