"""Pictures from the Hugging Face hub.

This is the only module that uses the package `datasets`, which is imported when it is needed.
"""

from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from untrained.data.pictures.decode import open_image_bytes, open_image_file
from untrained.data.pictures.folders import make_picture_source
from untrained.data.pictures.listing import ImageFile, Problems, find_part, make_listing
from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.errors import UsageError
from untrained.types import Task


@register_source(
    "hf:NAME, pictures of the Hugging Face hub; needs the package datasets", takes_argument=True
)
def hf(argument: str, like: Task, root: Path) -> DataSource:
    if not argument:
        raise UsageError("name the data set: hf:NAME, such as --data hf:beans")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UsageError("hf:NAME needs the package datasets: pip install datasets") from error
    try:
        splits = load_dataset(argument)
    except Exception as error:
        # The name may be wrong or the network down; the message of the package says which.
        reason = " ".join(str(error).split())
        raise UsageError(f"hf:{argument} cannot be loaded: {reason}") from error

    files: list[ImageFile] = []
    problems: Problems = []
    for split, table in splits.items():
        part = find_part(split)
        if part is None:
            problems.append(
                (split, "not used: only the splits train, validation and test are used")
            )
        else:
            files += _list_rows(table, argument, split, part, problems)
    return make_picture_source(make_listing(f"hf:{argument}", files, problems), like, root)


def _list_rows(table: Any, name: str, split: str, part: str, problems: Problems) -> list[ImageFile]:
    """List the rows of a split that have a label; the others are added to the problems."""
    image_column = _find_column(table, "Image", name)
    label_column = _find_column(table, "ClassLabel", name)
    classes = table.features[label_column].names
    undecoded_table = _disable_decoding(table)
    files = []
    for row, label in enumerate(table[label_column]):
        row_name = f"{split}/{row}"
        if label is None or label < 0:
            problems.append((row_name, "not used: it has no label"))
            continue
        files.append(
            ImageFile(
                name=row_name,
                label=classes[label],
                part=part,
                stamp=table._fingerprint,
                open=partial(_open_image, undecoded_table, row, image_column),
            )
        )
    return files


def _find_column(table: Any, kind: str, name: str) -> str:
    """Find the first column whose feature type has this name."""
    for column, feature in table.features.items():
        if type(feature).__name__ == kind:
            return str(column)
    raise UsageError(
        f"hf:{name} has the columns {', '.join(table.features)}, none of which has the type "
        f"{kind}; give a data set of pictures with one label each"
    )


def _disable_decoding(table: Any) -> Any:
    """Return the table with pictures as the bytes of their files.

    Otherwise the package would decode files of all formats, including those that we reject.
    """
    for name, feature in table.features.items():
        if type(feature).__name__ == "Image":
            table = table.cast_column(name, type(feature)(decode=False))
    return table


def _open_image(table: Any, row: int, column: str) -> Image.Image:
    stored = table[row][column]
    if stored["bytes"] is not None:
        return open_image_bytes(stored["bytes"])
    return open_image_file(Path(stored["path"]))
