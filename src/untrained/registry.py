"""A registry maps public names to members; a name is taken once, and an unknown name lists the near ones.

The registry knows nothing of what it holds. Each room owns one and fills it by decorator.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from untrained.errors import unknown

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """`registry.add(name, member)`, `registry[name]`; iteration is in the order of registration."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._members: dict[str, T] = {}

    def add(self, name: str, member: T) -> T:
        if name in self._members:
            raise ValueError(f"{self.what} {name!r} is registered twice")
        self._members[name] = member
        return member

    def __getitem__(self, name: str) -> T:
        if name not in self._members:
            raise unknown(self.what, name, self._members)
        return self._members[name]

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)
