"""The registry of named members: proxies, spaces, strategies, data sources, recipes and others.

Each kind of member has one registry, which the modules of its package fill when they are imported.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from untrained.errors import make_unknown_name_error

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from public names to members, in the order of registration.

    A name can be registered once. Looking up an unknown name raises a `UsageError` that lists
    similar names.

    Args:
        what: What a member is, such as "proxy", for messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._members: dict[str, T] = {}

    def add(self, name: str, member: T) -> T:
        """Register a member and return it."""
        if name in self._members:
            raise ValueError(f"{self.what} {name!r} is registered twice")
        self._members[name] = member
        return member

    def __getitem__(self, name: str) -> T:
        if name not in self._members:
            raise make_unknown_name_error(self.what, name, self._members)
        return self._members[name]

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)
