"""The text of an option: how options of any kind are written in an architecture.

An architecture consists of numbers and strings, so that it can be stored, typed and compared. A
number or a string stands for itself. Other options are written like this:

    option                      text
    None                        None
    (3, 5)                      (3,5)
    ["conv", 3]                 [conv,3]
    nn.ReLU                     ReLU
    partial(nn.ELU, alpha=0.5)  ELU(alpha=0.5)

An option without such a text needs a name, which a dictionary of options gives it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from torch import nn

from untrained.errors import UsageError
from untrained.quantities import show_value
from untrained.types import Choice


class InvalidOptions(UsageError):  # noqa: N818 - it describes the options
    """The options of a choice cannot be used. The caller adds the name of the choice."""


def name_options(options: object) -> dict[Choice, object]:
    """Return the options of a choice, keyed by the number or text that stands for each of them.

    Args:
        options: A list or another sequence, or a dictionary of names and options.

    Raises:
        InvalidOptions: The options are not a list, an option has no text, or two options have the
            same text.
    """
    if isinstance(options, Mapping):
        for name in options:
            if not isinstance(name, int | float | str):
                raise InvalidOptions(f"the name {show_value(name)} of an option is not a string")
        named_options = list(options.items())
    else:
        named_options = [(format_option(option), option) for option in _list_options(options)]

    options_by_name: dict[Choice, object] = {}
    texts = set()
    for name, option in named_options:
        # The text form of an architecture does not distinguish the number 3 from the text "3".
        if str(name) in texts or name in options_by_name:
            raise InvalidOptions(
                f"two options are written {name}; remove one of them, or name them by a "
                f"dictionary: {{'first': {name}, ...}}"
            )
        texts.add(str(name))
        options_by_name[name] = option
    return options_by_name


def _list_options(options: object) -> Sequence[object]:
    if isinstance(options, str | bytes):
        raise InvalidOptions(f"the options are the string {options!r}; write them as a list")
    if isinstance(options, set | frozenset):
        raise InvalidOptions("the options are a set, which has no order; write them as a list")
    if not isinstance(options, Iterable):
        raise InvalidOptions(
            f"the options are {show_value(options)}; write a list, such as [8, 16]"
        )
    return list(options)


def _name_members(options: Iterable[object]) -> list[str]:
    return [str(format_option(option)) for option in options]


def format_option(option: object) -> Choice:
    """Return the number or text that stands for an option in an architecture.

    Raises:
        InvalidOptions: The option has no text.
    """
    if isinstance(option, np.generic):
        option = option.item()
    if isinstance(option, int | float | str):
        return option
    if option is None:
        return "None"
    if isinstance(option, tuple):
        members = _name_members(option)
        if len(members) == 1:
            # As in Python, a comma distinguishes a tuple of one member from a number in brackets.
            return f"({members[0]},)"
        return f"({','.join(members)})"
    if isinstance(option, list):
        return f"[{','.join(_name_members(option))}]"
    if isinstance(option, partial):
        arguments = _name_members(option.args)
        for keyword, value in option.keywords.items():
            arguments.append(f"{keyword}={format_option(value)}")
        return f"{format_option(option.func)}({','.join(arguments)})"
    if isinstance(option, nn.Module):
        raise InvalidOptions(
            f"the option {show_value(option)} is a layer, which all networks would share; "
            f"write the class, or a function that makes the layer"
        )
    name = getattr(option, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidOptions(
            f"the option {show_value(option)} has no name; write the options as a dictionary "
            "of names and options"
        )
    return name
