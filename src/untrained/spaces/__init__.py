"""The spaces, one file each; `load_space` is the door. A name, or a file and a function: `./mine.py:mynet`."""

from untrained._load import from_file, names_file
from untrained.errors import UsageError
from untrained.spaces import nasbench201  # noqa: F401 - registers itself
from untrained.spaces._space import SPACES as SPACES
from untrained.spaces._space import Space as Space
from untrained.spaces._space import space as space


def load_space(name: str | Space) -> Space:
    """The space called `name`, or the one a user wrote in a file: `./mine.py:mynet`."""
    if isinstance(name, Space):
        return name
    if not names_file(name):
        return SPACES[name]
    found = from_file(name)
    if not isinstance(found, Space):
        raise UsageError(f"{name} is not a space; put @untrained.space above the function")
    return found
