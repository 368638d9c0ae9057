"""Check the path in a name of data, such as `folder:./photos`, without loading anything.

The command line checks it before torch is imported, so that a misspelt path is refused at once.
"""

import os
from pathlib import Path

from untrained.errors import UsageError

# Data that have a name of their own. A file or folder of the same name is not meant.
NAMED_DATA = (
    "cifar10",
    "cifar100",
    "clicks",
    "noise",
    "photos",
    "digits",
    "hf",
    "mnist",
    "fashion_mnist",
)
_FILE_KINDS = ("csv", "parquet", "npz")


def check_data_path(name: str) -> None:
    """Check that the folder or file of a data name exists.

    Names that cannot be judged without opening the data pass.

    Args:
        name: Name of the data, such as "folder:./photos".

    Raises:
        UsageError: A path has no kind before it, or there is no such folder or file.
    """
    # `os.path.exists` does not raise on names that are too long for a path.
    if ":" not in name and name not in NAMED_DATA and os.path.exists(name):
        raise make_missing_kind_error(Path(name))
    kind, _, argument = name.partition(":")
    if not argument:
        return
    # A shell expands ~ only at the start of a word, not after the colon.
    argument = os.path.expanduser(argument)
    if kind == "folder":
        path = argument.rpartition("?test=")[0] or argument
        if not os.path.exists(path):
            raise make_missing_folder_error(Path(path))
    elif kind in _FILE_KINDS:
        path = argument.partition("?")[0]
        if path and not os.path.exists(path) and not os.path.exists(argument):
            raise UsageError(f"there is no file {Path(path)}")


def make_missing_kind_error(path: Path) -> UsageError:
    """Make the error for a path without a kind, such as `folder:`, before it."""
    return UsageError(f"{path} is a path; write its kind before it: {guess_data_kind(path)}:{path}")


def make_missing_folder_error(path: Path) -> UsageError:
    """Make the error for a folder of pictures that does not exist."""
    return UsageError(
        f"there is no folder {path}; give one with one subfolder per class, such as folder:./photos"
    )


def guess_data_kind(path: Path) -> str:
    """Guess which kind of data is at a path."""
    if path.is_dir():
        return "folder"
    ending = path.suffix.lstrip(".")
    if ending in ("npz", "parquet"):
        return ending
    return "csv"
