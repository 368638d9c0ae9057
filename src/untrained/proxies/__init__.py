"""The proxies, one file per paper or idea; `load_proxy` is the door.

dextr   dextr(variant=published)   naswot(samples=128)   ./mine.py:my_proxy
"""

from dataclasses import replace

from untrained._load import code_of, files_of, loaded, parse_call
from untrained._load import split_names as split_names
from untrained.proxies import (  # noqa: F401 - they register themselves
    aznas,
    combined,
    dextr,
    dss,
    gradsign,
    hnas,
    jacobian,
    meco,
    nasi,
    naswot,
    pruning,
    sigeo,
    size,
    synflow,
    tenas,
    zen,
    zico,
)
from untrained.proxies._proxy import PROXIES as PROXIES
from untrained.proxies._proxy import Proxy as Proxy
from untrained.proxies._proxy import proxy as proxy


def named(text: str) -> list[str]:
    """The names in `dextr,params`; all that judge a network by itself for `all`."""
    return [name for name, p in PROXIES.items() if not p.parts] if text.strip() == "all" else split_names(text)


def load_proxy(name: "str | Proxy") -> Proxy:
    """The proxy that `name` means, with its options set."""
    if isinstance(name, Proxy):
        return name
    found, options = loaded(name, PROXIES, Proxy, "proxy", "@untrained.proxy(...)")
    if code := code_of(files_of(parse_call(name)[0])):
        found = replace(found, code=code)
    return found.configured(**options) if options else found
