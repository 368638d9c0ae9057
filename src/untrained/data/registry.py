"""The registered data sources, and `load_data`, which opens one of them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from untrained.data.samples import (
    DATASET_NAME,
    is_samples,
    make_samples_source,
    make_scoring_source,
    open_samples,
)
from untrained.data.source import DataSource
from untrained.data_path import guess_data_kind, make_missing_kind_error
from untrained.data_root import find_data_root
from untrained.errors import UsageError
from untrained.quantities import parse_path, show_value
from untrained.registry import Registry
from untrained.types import Task

OpenSource = Callable[[str, Task, Path], DataSource]
FindFiles = Callable[[Path], tuple[Path, ...]]


@dataclass(frozen=True)
class SourceKind:
    """A kind of data that `load_data` can open.

    Attributes:
        name: Its public name.
        about: One line for `untrained list`.
        open: Function `(argument, like, root)` that opens the data. The argument is the text after
            the colon of `name:ARGUMENT`, `like` has the input shape that networks take, and `root`
            is the data root.
        belongs_to_user: Whether these are the user's own data. The argument then starts with a
            path.
        takes_argument: Whether an argument is allowed.
        is_table: Whether these are rows of a table. The data determine their columns.
        find_files: Function that returns the files of a known data set under a data root, or
            nothing if one is missing. None for other kinds: they are made in memory, or the user
            names their files.
    """

    name: str
    about: str
    open: OpenSource
    belongs_to_user: bool
    takes_argument: bool
    is_table: bool
    find_files: FindFiles | None


SOURCES: Registry[SourceKind] = Registry("data set")


def register_source(
    about: str,
    *,
    belongs_to_user: bool = False,
    takes_argument: bool = False,
    is_table: bool = False,
    find_files: FindFiles | None = None,
) -> Callable[[OpenSource], OpenSource]:
    """Register the decorated function as a data source. Its name is the name of the source.

    Args:
        about: One line for `untrained list`.
        belongs_to_user: Whether these are the user's own data. The argument then starts with a
            path.
        takes_argument: Whether an argument that is not a path is allowed.
        is_table: Whether these are rows of a table.
        find_files: Function that returns the files of a known data set under a data root, or
            nothing if one is missing.
    """

    def register(function: OpenSource) -> OpenSource:
        name = function.__name__
        kind = SourceKind(
            name=name,
            about=about,
            open=function,
            belongs_to_user=belongs_to_user,
            takes_argument=takes_argument or belongs_to_user,
            is_table=is_table,
            find_files=find_files,
        )
        SOURCES.add(name, kind)
        return function

    return register


def load_data(data: object, like: Task, root: str | Path | None = None) -> DataSource:
    """Load data for networks.

    Args:
        data: A name such as "digits" or "folder:./photos"; a `Path`; a tensor, a numpy array or a
            pair of inputs and targets; a torch Dataset or DataLoader; or a `DataSource`, which is
            returned as it is.
        like: Task with the input shape that networks take. Its number of classes is used if the
            data do not define one. Samples from Python keep their own shape, and floats become
            float32.
        root: Data root; by default that of `find_data_root`.

    Raises:
        UsageError: The data do not exist, or do not fit the task.

    Example:
        >>> from untrained import Task
        >>> from untrained.data import load_data
        >>> source = load_data("digits", Task("any", (1, 16, 16), 10))
        >>> source.batch(4, seed=0).inputs.shape
        torch.Size([4, 1, 16, 16])
    """
    if isinstance(data, DataSource):
        return data
    if is_samples(data):
        samples = open_samples(data)
        input_shape = tuple(samples.read_first_input().shape[1:])
        task = replace(like, dataset=DATASET_NAME, input_shape=input_shape)
        return make_scoring_source(samples, task)
    if isinstance(data, Path):
        data = name_data_path(data)
    return _open_named_data(parse_data_name(data), like, find_data_root(root))


def parse_data_name(data: object) -> str:
    """Check that data are given by their name.

    Raises:
        UsageError: The argument is not a text.
    """
    if not isinstance(data, str):
        raise UsageError(
            f"data is {show_value(data)}; "
            "give a name as text, such as 'digits' or 'folder:./photos'"
        )
    return data


def load_data_with_name(
    data: object, like: Task, root: str | Path | None = None
) -> tuple[str, DataSource]:
    """Load data in any form that `load_data` takes, and return them with their name.

    Args:
        data: The data.
        like: Task with the input shape that networks take. Samples from Python may have more
            classes.
        root: Data root; by default that of `find_data_root`.

    Returns:
        The name, which is `DATASET_NAME` for samples from Python, and the source.
    """
    if isinstance(data, DataSource):
        return data.task.dataset, data
    if is_samples(data):
        return DATASET_NAME, make_samples_source(open_samples(data), like)
    if isinstance(data, Path):
        data = name_data_path(data)
    source = load_data(data, like, root)
    return str(data), source


def name_data_path(path: Path) -> str:
    """Return the name of data at a path, such as "folder:photos" for a folder."""
    parse_path(path, "data")
    return f"{guess_data_kind(path)}:{path}"


def belongs_to_user(data: str) -> bool:
    """Return whether a name of data, such as "folder:./photos", stands for the user's own data.

    So do the data of a caller in Python, whose name is `DATASET_NAME`.
    """
    if data == DATASET_NAME:
        return True
    kind_name = data.partition(":")[0]
    return kind_name in SOURCES and SOURCES[kind_name].belongs_to_user


def is_table_name(data: str) -> bool:
    """Return whether a name of data, such as "csv:clicks.csv", stands for a table."""
    kind_name = data.partition(":")[0]
    return kind_name in SOURCES and SOURCES[kind_name].is_table


def _open_named_data(name: str, like: Task, root: Path) -> DataSource:
    parse_path(name, "data")
    if not like.input_shape or any(side < 1 for side in like.input_shape):
        raise UsageError(
            f"invalid input shape {like.input_shape}; "
            "give channels x height x width, such as 3x32x32"
        )
    # `os.path.exists` does not raise on names that are too long for a path.
    if name not in SOURCES and os.path.exists(name):
        raise make_missing_kind_error(Path(name))
    kind_name, _, argument = name.partition(":")
    kind = SOURCES[kind_name]
    if argument and not kind.takes_argument:
        raise UsageError(
            f"{kind_name} takes no argument, but got {argument!r}; write --data {kind_name}"
        )
    if kind.belongs_to_user:
        # A shell expands ~ only at the start of a word, not after the colon.
        argument = os.path.expanduser(argument)
    return kind.open(argument, like, root)
