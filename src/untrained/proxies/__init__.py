"""All proxies, one file per paper or idea. `load_proxy` returns a proxy by its name.

Examples of names:

    dextr
    dextr(variant=published)
    naswot(samples=128)
    ./mine.py:my_proxy
"""

from dataclasses import replace

from untrained.names import fingerprint_user_code, load_member
from untrained.names import split_names as split_names
from untrained.proxies import (  # noqa: F401 - importing a module registers its proxies
    aznas,
    combined,
    consensus,
    dextr,
    dss,
    gradsign,
    hnas,
    jacobian,
    meco,
    nasi,
    naswot,
    near,
    pruning,
    sigeo,
    size,
    synflow,
    tenas,
    vkdnw,
    wrcor,
    zen,
    zico,
)
from untrained.proxies.base import FINGERPRINT_DIGITS
from untrained.proxies.base import PROXIES as PROXIES
from untrained.proxies.base import Proxy as Proxy
from untrained.proxies.base import proxy as proxy


def parse_proxy_names(text: str) -> list[str]:
    """Split a comma-separated list of proxy names.

    Args:
        text: Names as in `dextr,params`, or `all`.

    Returns:
        The names. For `all`, every registered proxy that scores a single network; aggregates,
        which compare several candidates, are left out.
    """
    if not isinstance(text, str) or text.strip() != "all":
        return split_names(text)
    names = []
    for name, member in PROXIES.items():
        if not member.parts:
            names.append(name)
    return names


def load_proxy(name: "str | Proxy") -> Proxy:
    """Load a proxy by name and set the options that the name contains.

    Args:
        name: A registered name or `file.py:function`, optionally with options in brackets. A
            `Proxy` is returned as it is.

    Returns:
        The proxy with its options set.

    Raises:
        UsageError: If there is no such proxy or no such option.
    """
    if isinstance(name, Proxy):
        return name
    member, options = load_member(name, PROXIES, Proxy, "proxy", "@untrained.proxy(...)")
    # A user's proxy carries a fingerprint of its files, so that scores of an edited proxy are not
    # mistaken for scores of the previous version.
    fingerprint = fingerprint_user_code(name)[:FINGERPRINT_DIGITS]
    if fingerprint:
        member = replace(member, code=fingerprint)
    if options:
        member = member.with_options(**options)
    return member
