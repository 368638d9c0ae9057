"""Pictures of the Hugging Face hub, by the `datasets` package. This is the only file that knows it, and it is imported
when somebody asks for such data."""

from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from untrained.data._decode import open_bytes, open_file
from untrained.data._listing import Entry, Problems, part_called, settled
from untrained.data._source import Source, source
from untrained.data.folders import from_listing
from untrained.errors import UsageError
from untrained.types import Task


@source("hf", "hf:NAME, pictures of the Hugging Face hub; needs the package datasets", argument=True)
def hugging_face(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which data set: hf:NAME, such as --data hf:beans")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UsageError("hf:NAME needs the package datasets: pip install 'untrained[datasets]'") from error
    try:
        found = load_dataset(argument)
    except Exception as error:  # the hub, the network, the name, a script that is refused: the package says which
        raise UsageError(f"hf:{argument} cannot be loaded: {' '.join(str(error).split())}") from error
    entries: list[Entry] = []
    problems: Problems = []
    for split, table in found.items():
        if part := part_called(split):
            entries += _entries(table, argument, split, part, problems)
        else:
            problems.append((split, "not used: a split of another name than train, validation and test"))
    return from_listing(settled(f"hf:{argument}", entries, problems), like, root)


def _entries(table: Any, name: str, split: str, part: str, problems: Problems) -> list[Entry]:
    """One entry a row; a row without a label is a problem."""
    picture, label = (_column(table, kind, name) for kind in ("Image", "ClassLabel"))
    kinds, stamp = table.features[label].names, table._fingerprint
    undecoded = _keep_encoded(table)
    entries = []
    for row, place in enumerate(table[label]):
        if place is None or place < 0:
            problems.append((f"{split}/{row}", "not used: it has no label"))
        else:
            entries.append(
                Entry(f"{split}/{row}", kinds[place], part, stamp, partial(_picture, undecoded, row, picture))
            )
    return entries


def _column(table: Any, kind: str, name: str) -> str:
    found = [column for column, feature in table.features.items() if type(feature).__name__ == kind]
    if not found:
        raise UsageError(
            f"hf:{name} has the columns {', '.join(table.features)}, none of which is of the kind {kind}; "
            f"pictures with one label each are wanted"
        )
    return str(found[0])


def _keep_encoded(table: Any) -> Any:
    """The table with pictures as the bytes of their files: the package itself would open a file of any kind."""
    for name, feature in table.features.items():
        if type(feature).__name__ == "Image":
            table = table.cast_column(name, type(feature)(decode=False))
    return table


def _picture(table: Any, row: int, column: str) -> Image.Image:
    stored = table[row][column]
    if stored["bytes"] is not None:
        return open_bytes(stored["bytes"])
    return open_file(Path(stored["path"]))
