"""What strategies on supernets share: a supernet whose mixture they may set, batches, and the way back to an Arch."""

from collections.abc import Callable
from contextlib import suppress
from math import isfinite

import numpy as np
from torch import nn

from untrained.engine.measure import usable
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.spaces import Space
from untrained.spaces.core.supernet import GeneSpellings, OptionScores, Supernet, make_uniform_mixture
from untrained.strategies.limits import Feasible
from untrained.types import Arch

_TRIES = 500  # architectures looked at, from the most wanted down, before limits count as unsatisfiable
ByChoice = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]  # numbers by option by choice, as plain data


def feasible(space: "Space | Feasible") -> Feasible:
    """A space that knows its limits; without any, where it had none."""
    return space if isinstance(space, Feasible) else Feasible(space)


def mixable(space: Feasible, seed: int, device: str, strategy: str) -> Supernet:
    """A new supernet of the space with weights from `seed`; one line for a space that has none, or no mixture."""
    if not space.space.has_supernet:
        raise UsageError(f"{strategy} needs a supernet, and {space.name} has none; nasbench201 and darts have one")
    usable(device)
    with random_state(seed):
        supernet = space.supernet()
    if not hasattr(supernet, "mixture"):
        raise UsageError(f"{strategy} mixes operations, which the supernet of {space.name} cannot; try nasbench201")
    made: Supernet = supernet.to(device)
    return made


def module(supernet: Supernet) -> nn.Module:
    assert isinstance(supernet, nn.Module)
    return supernet


def mix_evenly(supernet: Supernet) -> None:
    """Equal weights for all options."""
    supernet.mixture.update(make_uniform_mixture({name: len(options) for name, options in supernet.options.items()}))


def most_wanted(space: Feasible, supernet: Supernet, scores: OptionScores, new: Callable[[Arch], bool]) -> Arch | None:
    """The most wanted new architecture of the space within its limits; None where all of them are known."""
    turned_down = 0
    for forms in supernet.decode_scores(scores):
        arch = member(space.space, forms)
        if arch is None or not new(arch):
            continue
        if space.allows(arch):
            return arch
        turned_down += 1
        if turned_down == _TRIES:
            break
    if turned_down:
        by = ", ".join(f"{limit} ({count})" for limit, count in space.rejected.items())
        raise UsageError(f"{space.name}: none of the {turned_down} most wanted keeps to {by}; loosen it")
    return None


def member(space: Space, forms: GeneSpellings) -> Arch | None:
    """The architecture that is written in one of these forms, if the space has it."""
    for genes in forms:
        with suppress(UsageError):
            return space.make_arch(genes)
    return None


def by_choice(options: dict[str, tuple[str, ...]], numbers: OptionScores) -> ByChoice:
    """As plain data, without what is minus infinity: an option that is never taken."""
    return tuple(
        (name, tuple((option, n) for option, n in zip(some, numbers[name], strict=True) if isfinite(n)))
        for name, some in options.items()
    )


def new_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
