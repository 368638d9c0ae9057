"""The folder of a training: read which training it holds, and move a former training aside.

A run folder holds the training of the winner. If a longer search finds another winner, the former
training is moved into a subfolder `former-1`, `former-2`, ...
"""

import os
import shutil
from pathlib import Path

from untrained.data.tables.schema import SCHEMA, VOCABULARIES
from untrained.training.checkpoint import CHECKPOINT_FILE, WEIGHTS_FILE, read_checkpoint
from untrained.training.result import (
    ESTIMATE_FOLDER,
    TRAINING_FILE,
    TrainingKey,
    TrainingResult,
)

TENSORBOARD_FOLDER = "tensorboard"
# The files and folders of a training, in the order in which they are moved. `read_training_key`
# reads the last two, so a folder holds its training until the end of the move.
_FILES = (
    WEIGHTS_FILE,
    SCHEMA,
    VOCABULARIES,
    TENSORBOARD_FOLDER,
    ESTIMATE_FOLDER,
    CHECKPOINT_FILE,
    TRAINING_FILE,
)


def read_training_key(folder: Path) -> TrainingKey | None:
    """Read the key of a finished or unfinished training; None if the folder has no training."""
    if (folder / TRAINING_FILE).is_file():
        return TrainingResult.read(folder).key
    checkpoint = folder / CHECKPOINT_FILE
    if checkpoint.is_file():
        return read_checkpoint(checkpoint).key
    return None


def has_unfinished_training(folder: Path) -> bool:
    """Whether a training was begun in a folder and has no result yet."""
    if (folder / TRAINING_FILE).is_file():
        return False
    estimate = folder / ESTIMATE_FOLDER
    files = (folder / CHECKPOINT_FILE, estimate / CHECKPOINT_FILE, estimate / TRAINING_FILE)
    return any(path.is_file() for path in files)


def list_former_trainings(folder: Path) -> list[Path]:
    """List the subfolders with earlier trainings."""
    subfolders = sorted(folder.glob("former-*"))
    return [subfolder for subfolder in subfolders if read_training_key(subfolder)]


def move_training_aside(folder: Path) -> Path:
    """Move the training in a folder, with all its files, into a subfolder.

    If an earlier move of the same training was killed, this one continues into its subfolder.

    Returns:
        The subfolder.
    """
    number = 1
    while (folder / f"former-{number + 1}").is_dir():
        number += 1
    # Only the last subfolder may be that of a killed move.
    former = folder / f"former-{number}"
    if not _can_move_on(folder, former):
        former = folder / f"former-{number + 1}"
    former.mkdir(exist_ok=True)
    for name in _FILES:
        if (folder / name).exists():
            os.replace(folder / name, former / name)
    return former


def _can_move_on(folder: Path, former: Path) -> bool:
    """Return whether a subfolder has no files of a training yet, or those of a killed move.

    Files are moved in the order of `_FILES`, so after a killed move all files in the subfolder
    precede those that are left in the folder.
    """
    moved = [index for index, name in enumerate(_FILES) if (former / name).exists()]
    left = [index for index, name in enumerate(_FILES) if (folder / name).exists()]
    return not moved or not left or max(moved) < min(left)


def copy_training(source: Path, target: Path) -> None:
    """Copy a finished training to another folder.

    `train.json` is copied last, because a folder with this file must hold a complete training.
    """
    for name in (WEIGHTS_FILE, SCHEMA, VOCABULARIES, TRAINING_FILE):
        if (source / name).exists():
            # A copy that was killed leaves a partial file, which must not look like a whole one.
            partial = target / f"{name}.copy"
            shutil.copyfile(source / name, partial)
            os.replace(partial, target / name)
