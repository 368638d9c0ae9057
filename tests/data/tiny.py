"""Tiny data sets in the publishers' formats, and a hostile one."""

import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.types import Task

RGB = Task("any", (3, 32, 32), 7)


def cifar_images() -> Tensor:
    """Ten images of random bytes, (10, 3, 32, 32), as the publisher orders them: planes of red, green and blue."""
    return torch.randint(
        256, (10, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )


def write_binary(root: Path) -> None:
    """Two images a batch, image k with label k: one byte, then 3,072."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for batch, images in enumerate(cifar_images().split(2)):
        records = (
            bytes([2 * batch + i]) + image.numpy().tobytes() for i, image in enumerate(images)
        )
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(b"".join(records))


def write_python(root: Path) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for batch, images in enumerate(cifar_images().split(2)):
        content = {b"data": images.reshape(2, 3072).numpy(), b"labels": [2 * batch, 2 * batch + 1]}
        (folder / f"data_batch_{batch + 1}").write_bytes(pickle.dumps(content, protocol=2))


def write_npz(path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.integers(256, size=(12, 9, 11, 3), dtype=np.uint8), y=np.arange(12) % 4)
    return path


class Attack:
    """What a hostile file would do when it is unpickled: make a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> object:
        return open, (str(self.target), "w")
