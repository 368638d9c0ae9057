"""Which training lies in a folder, and whether it is the one that is asked for.

The folder of a run holds the training of its winner. Whatever lies there and is another one is kept, in a folder
inside it, when room is made.
"""

import os
from itertools import count
from pathlib import Path

from untrained.data._schema import SCHEMA, VOCABULARIES
from untrained.training import _checkpoint
from untrained.training._checkpoint import CHECKPOINT, WEIGHTS
from untrained.training.trained import FILE, Asked, Trained

_FILES = (WEIGHTS, SCHEMA, VOCABULARIES, "tensorboard", CHECKPOINT, FILE)  # the last two tell whose the others are


def lying(folder: Path) -> Asked | None:
    """What the training in this folder was asked for, finished or on its way; None where there is none."""
    if (folder / FILE).is_file():
        return Trained.read(folder).asked
    on_its_way = folder / CHECKPOINT
    return Asked(**_checkpoint.load(on_its_way)["asked"]) if on_its_way.is_file() else None


def former_ones(folder: Path) -> list[Path]:
    """Where trainings lie that made room."""
    return sorted(path for path in folder.glob("former-*") if lying(path))


def set_aside(folder: Path) -> Path:
    """Make room for another training; the one that lies there goes on being one, in the folder that is returned. Killed
    on the way it goes on into the same folder."""
    former = next(path for n in count(1) if lying(path := folder / f"former-{n}") is None)
    former.mkdir(exist_ok=True)
    for name in _FILES:
        if (folder / name).exists():
            os.replace(folder / name, former / name)
    return former
