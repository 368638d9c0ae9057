"""Seeds and random generators.

A seed is derived from what a value depends on, never from the order in which work is done:
`derive_seed("weights", arch, 0)` is the same number in every process and on every machine.
"""

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from untrained.errors import UsageError
from untrained.quantities import check_seed, show_value

if TYPE_CHECKING:
    import numpy as np
    import torch

Seed: TypeAlias = "int | np.random.Generator | None"


def derive_seed(*parts: object) -> int:
    """Derive a 63-bit seed from everything that a random value depends on.

    Args:
        parts: What the value depends on, such as its purpose, an architecture and the user's seed.
            A part enters by its `seed_name` if it has one, else by its text.
    """
    names = [str(getattr(part, "seed_name", part)) for part in parts]
    digest = hashlib.sha256("\x1f".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_generator(*parts: object) -> "np.random.Generator":
    """Make a numpy generator seeded by `derive_seed(*parts)`."""
    import numpy as np

    return np.random.default_rng(derive_seed(*parts))


def as_generator(seed: Seed) -> "np.random.Generator":
    """Convert a seed to a numpy generator.

    Args:
        seed: An integer; a generator, which is returned as it is; or None for unpredictable
            numbers.

    Raises:
        UsageError: The seed has another type, such as `random.Random`.
    """
    import numpy as np

    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise UsageError(
            f"{show_value(seed)} is not a seed; give a whole number or numpy.random.default_rng(0)"
        )
    return np.random.default_rng(check_seed(seed))


def make_torch_generator(*parts: object) -> "torch.Generator":
    """Make a torch generator on the CPU seeded by `derive_seed(*parts)`.

    Random numbers are drawn on the CPU so that they do not depend on the device.
    """
    import torch

    return torch.Generator().manual_seed(derive_seed(*parts))
