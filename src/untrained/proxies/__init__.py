"""The proxies, one file per paper or idea; `load_proxy` is the door.

dextr   dextr(variant=published)   ./mine.py:my_proxy
"""

import ast
import re
from typing import Any

from untrained._load import from_file, names_file
from untrained.errors import UsageError
from untrained.proxies import dextr, size  # noqa: F401 - they register themselves
from untrained.proxies._proxy import PROXIES as PROXIES
from untrained.proxies._proxy import Proxy as Proxy
from untrained.proxies._proxy import proxy as proxy


def load_proxy(name: "str | Proxy") -> Proxy:
    """The proxy that `name` means, with its options set."""
    if isinstance(name, Proxy):
        return name
    match = re.fullmatch(r"\s*(.+?)\s*(?:\((.*)\))?\s*", name)
    if match is None:
        raise UsageError("a proxy needs a name; `untrained list proxies` shows them")
    base, arguments = match.groups()
    found = from_file(base) if names_file(base) else PROXIES[base]
    if not isinstance(found, Proxy):
        raise UsageError(f"{base} is not a proxy; put @untrained.proxy(...) above the function")
    return found.configured(**_options(name, arguments)) if arguments else found


def split_names(text: str) -> list[str]:
    """`a,b(c=1,d=2)` -> `a`, `b(c=1,d=2)`: commas inside brackets do not separate."""
    return [part for part in re.split(r",\s*(?![^()]*\))", text.strip()) if part]


def _options(name: str, arguments: str) -> dict[str, Any]:
    options = {}
    for argument in split_names(arguments):
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(f"{name!r}: write options as name=value, such as dextr(variant=published)")
        try:
            options[key.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            options[key.strip()] = value.strip()
    return options
