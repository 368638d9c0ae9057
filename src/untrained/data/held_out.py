"""Test data of the user, inside the name of the training data: `folder:./photos?test=./held`.

Path and test data form one string, which configurations, stores and resumed runs can keep.
"""

import os
from pathlib import Path
from urllib.parse import unquote

from untrained.errors import UsageError

_OPTION = "?test="


def split_test_path(argument: str) -> tuple[Path, Path | None]:
    """Split an argument such as `./photos?test=./held` into the data and the test data.

    Args:
        argument: The text after the kind of the data. The path of the test data is percent-encoded:
            `%26` stands for `&`.

    Returns:
        The path of the data and that of the test data, which is None if there are none.
    """
    path, option, test_path = argument.rpartition(_OPTION)
    if not option:
        return Path(argument), None
    return Path(path), Path(os.path.expanduser(unquote(test_path)))


def make_two_test_parts_error(data: Path, test: Path) -> UsageError:
    """Make the error for `--test` if the data have a test part already."""
    return UsageError(
        f"{data} has a test part already, so {test} cannot be its test part; leave out --test, or "
        "remove that part"
    )
