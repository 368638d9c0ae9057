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

_FILES = (FILE, CHECKPOINT, WEIGHTS, SCHEMA, VOCABULARIES, "tensorboard")


def lying(folder: Path) -> Asked | None:
    """What the training in this folder was asked for, finished or on its way; None where there is none."""
    if (folder / FILE).is_file():
        return Trained.read(folder).asked
    on_its_way = folder / CHECKPOINT
    return Asked(**_checkpoint.load(on_its_way)["asked"]) if on_its_way.is_file() else None


def set_aside(folder: Path) -> Path:
    """Make room for another training; the one that lies there goes on being one, in the folder that is returned."""
    former = next(path for n in count(1) if not (path := folder / f"former-{n}").exists())
    former.mkdir()
    for name in _FILES:
        if (folder / name).exists():
            os.replace(folder / name, former / name)
    return former
