"""The spaces, one file each; `load_space` is the door. A name, or a file and a function: `./mine.py:mynet`."""

from untrained._load import loaded
from untrained.spaces import (  # noqa: F401 - they register themselves
    autoformer,
    darts,
    mlp,
    mobilenetv2,
    nasbench1shot1,
    nasbench101,
    nasbench201,
    nasrec,
    nats_size,
    transnas,
    zen_resnet,
)
from untrained.spaces._counts import Counts as Counts
from untrained.spaces._space import SPACES as SPACES
from untrained.spaces._space import Invalid as Invalid
from untrained.spaces._space import Space as Space
from untrained.spaces._space import space as space


def load_space(name: str | Space) -> Space:
    """The space called `name`, or the one a user wrote in a file; options in brackets: `nasbench201(channels=32)`."""
    if isinstance(name, Space):
        return name
    found, options = loaded(name, SPACES, Space, "space", "@untrained.space")
    if not options:
        return found
    made = found.configured(**options)
    made.sample(0)  # options that make no architecture are refused now, and not when the first one is scored
    return made
