"""What a strategy is: two methods. It knows nothing of networks, data or devices, and depends only on its seed and on
what it was told, so that a search resumes by asking again and reading the answers from the store."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from untrained.registry import Registry
from untrained.spaces import Space
from untrained.types import Arch, Record


class Strategy(Protocol):
    """Proposes architectures and hears how they fared."""

    def ask(self, n: int) -> list[Arch]:
        """At most n new architectures; none when the space is exhausted."""
        ...

    def tell(self, records: Sequence[Record]) -> None:
        """The records of architectures that were asked for."""
        ...


STRATEGIES: Registry[Callable[[Space, np.random.Generator], Strategy]] = Registry("strategy")
