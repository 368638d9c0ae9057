"""Search spaces, one file or folder each. Use `load_space` to get one by name."""

from untrained.names import fingerprint_user_code, load_member, parse_call
from untrained.spaces import (  # noqa: F401 - importing a space registers it
    autoformer,
    convnet,
    darts,
    mlp,
    mnasnet,
    mobilenetv2,
    nasbench1shot1,
    nasbench101,
    nasbench201,
    nasrec,
    nats_size,
    transnas,
    vit,
    zen_resnet,
)
from untrained.spaces.core.choices import InvalidArch as InvalidArch
from untrained.spaces.core.counts import Counts as Counts
from untrained.spaces.core.space import SPACES as SPACES
from untrained.spaces.core.space import NoAlternativeError as NoAlternativeError
from untrained.spaces.core.space import Space as Space
from untrained.spaces.core.space import space as space
from untrained.user_code import fingerprint_function


def fingerprint_space(space: str | Space) -> str:
    """Return a fingerprint of the code that defines a space.

    For a space of this package, it is the version of the space, or empty for version 1. For a
    `Space` object of a user, it is computed from the file of its function, or from the source of
    the function if there is no file, as in a notebook.
    """
    if isinstance(space, str):
        base_name, _ = parse_call(space)
        if base_name not in SPACES:
            return fingerprint_user_code(space)[:16]
        space = SPACES[base_name]
    if not space.is_builtin:
        return fingerprint_function(space.network)[:16]
    if space.version == 1:
        # Scores that were stored before spaces had versions stay valid.
        return ""
    return f"version {space.version}"


def get_name_or_space(space: str | Space) -> str | Space:
    """Return the name of a registered space; return anything else unchanged."""
    if isinstance(space, Space) and space.is_builtin:
        return space.name
    return space


def get_space_name(space: str | Space) -> str:
    """Return the name of a space, as the user typed it or as it is registered."""
    if isinstance(space, Space):
        return space.name
    return space


def load_space(name: str | Space) -> Space:
    """Return a space by its name.

    Args:
        name: A registered name, optionally with options in brackets (`nasbench201(channels=32)`),
            or a file and a function in it that has the decorator `@untrained.space`
            (`./mine.py:mynet`). A `Space` is returned as it is.

    Returns:
        The space, with its options set.

    Raises:
        UsageError: There is no such space, file, function or option; the message lists close
            names.

    Example:
        >>> load_space("nasbench201").size
        15625
    """
    if isinstance(name, Space):
        return name
    base_space, options = load_member(name, SPACES, Space, "space", "@untrained.space")
    if not options:
        return base_space
    configured_space = base_space.with_options(**options)
    # Reject options that allow no architecture now, not when the first one is scored.
    configured_space.sample(0)
    return configured_space
