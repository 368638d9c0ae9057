"""The title of a report: the data in words."""

from pathlib import Path

from untrained.data import SOURCES, DataSource
from untrained.data.parts import TRAIN, ArrayPart
from untrained.data.samples import DATASET_NAME
from untrained.formatting import format_count
from untrained.types import BINARY, REGRESSION


def describe_data(data: str, source: DataSource) -> str:
    """Return what the data are and how many, such as "photos: 10 classes, 2,000 pictures".

    Args:
        data: Name of the data, such as "folder:./photos" or "digits".
        source: The data. Its parts are opened.
    """
    kind, _, address = data.partition(":")
    if kind in SOURCES and SOURCES[kind].belongs_to_user:
        # Options of a table follow a question mark.
        path = Path(address.partition("?")[0])
        title = path.resolve().name
    elif data == DATASET_NAME:
        title = "data in Python"
    else:
        title = data.replace(":", " ", 1)
    count = sum(len(part) for part in source.parts.values())
    task = source.task
    noun = "sample"
    if len(task.input_shape) == 3 and not isinstance(source.parts[TRAIN], ArrayPart):
        noun = "picture"
    elif task.is_table:
        noun = "row"
    # Only tables have binary labels.
    if task.kind == BINARY:
        return f"{title}: {format_count(count, noun)}"
    if task.kind == REGRESSION:
        return f"{title}: regression, {format_count(count, noun)}"
    return f"{title}: {task.num_classes:,} classes, {format_count(count, noun)}"
