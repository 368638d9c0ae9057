"""Seeded randomness: what a value depends on decides its seed, never the order of work.

`seed_for("weights", arch, 0)` is the same number in every process, on every machine, in every order of execution.
"""

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from untrained._quantities import parse_seed, show_value
from untrained.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch

Seed: TypeAlias = "int | np.random.Generator | None"


def seed_for(*parts: object) -> int:
    """A 63-bit seed made of what a value depends on. Parts are told apart by their `seed_name` or their `str`."""
    names = [str(getattr(part, "seed_name", part)) for part in parts]
    digest = hashlib.sha256("\x1f".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(*parts: object) -> "np.random.Generator":
    """A numpy generator seeded by `seed_for(*parts)`."""
    import numpy as np

    return np.random.default_rng(seed_for(*parts))


def as_generator(seed: Seed) -> "np.random.Generator":
    """The numpy generator that a caller means by a seed.

    Args:
        seed: An integer, a generator, which is returned as it is, or None for other numbers each time.

    Raises:
        UsageError: For anything else, such as a generator of the standard library.
    """
    import numpy as np

    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise UsageError(f"{show_value(seed)} is not a seed; give a whole number or numpy.random.default_rng(0)")
    return np.random.default_rng(parse_seed(seed))


def torch_generator(*parts: object) -> "torch.Generator":
    """A torch generator on the CPU seeded by `seed_for(*parts)`: the same numbers whatever the device."""
    import torch

    return torch.Generator().manual_seed(seed_for(*parts))
