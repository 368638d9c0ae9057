"""What strategies with a supernet share: building it, and finding the best architecture in it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite

import numpy as np
from torch import nn

from untrained.engine.devices import check_device
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.spaces import Space
from untrained.spaces.core.supernet import (
    EquivalentGenes,
    OptionScores,
    Supernet,
    make_uniform_mixture,
)
from untrained.strategies.limits import ConstrainedSpace
from untrained.types import Arch

# Number of architectures that may violate a limit, best first, before the search gives up.
_MAX_REJECTED = 500
# One number per option, as nested tuples for the trace: ((choice, ((option, number), ...)), ...).
OptionNumbers = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def as_constrained(space: Space | ConstrainedSpace) -> ConstrainedSpace:
    """Return a constrained space unchanged, and wrap any other space without limits."""
    if isinstance(space, ConstrainedSpace):
        return space
    return ConstrainedSpace(space)


def make_mixed_supernet(space: ConstrainedSpace, seed: int, device: str, strategy: str) -> Supernet:
    """Build a supernet whose options can be mixed.

    Args:
        space: The space.
        seed: Seed of the weights.
        device: Where the supernet computes.
        strategy: Name of the strategy, for error messages.

    Raises:
        UsageError: The space has no supernet, or its supernet cannot mix options, or there is no
            such device.
    """
    if not space.space.has_supernet:
        raise UsageError(
            f"{strategy} needs a supernet, and {space.name} has none; "
            "nasbench201 and darts have one"
        )
    check_device(device)
    with random_state(seed):
        supernet = space.supernet()
    if not hasattr(supernet, "mixture"):
        raise UsageError(
            f"{strategy} needs a supernet that can mix operations; that of {space.name} cannot; "
            "try nasbench201"
        )
    moved: Supernet = supernet.to(device)
    return moved


def as_module(supernet: Supernet) -> nn.Module:
    """Return the same object, typed as the `nn.Module` that every supernet is."""
    assert isinstance(supernet, nn.Module)
    return supernet


def reset_mixture(supernet: Supernet) -> None:
    """Give all options of a choice the same weight."""
    counts = {name: len(options) for name, options in supernet.options.items()}
    supernet.mixture.update(make_uniform_mixture(counts))


def find_best_arch(
    space: ConstrainedSpace,
    supernet: Supernet,
    scores: OptionScores,
    mark_seen: Callable[[Arch], bool],
) -> Arch | None:
    """Find the new architecture with the highest scores that satisfies the limits of the space.

    Args:
        space: The space with its limits.
        supernet: Turns scores of options into architectures, best first.
        scores: Scores of all options; higher is better.
        mark_seen: Remembers an architecture, and returns whether it is new.

    Returns:
        The architecture, or None if no architecture is new.

    Raises:
        UsageError: The best architectures all violate a limit.
    """
    rejected = 0
    for alternatives in supernet.decode_scores(scores):
        arch = make_first_valid_arch(space.space, alternatives)
        if arch is None or not mark_seen(arch):
            continue
        if space.allows(arch):
            return arch
        rejected += 1
        if rejected == _MAX_REJECTED:
            break
    if rejected:
        violations = []
        for limit, count in space.rejected.items():
            violations.append(f"{limit} (violated {count} times)")
        raise UsageError(
            f"{space.name}: none of the {rejected} best architectures satisfies the limits; "
            f"relax {', '.join(violations)}"
        )
    return None


def make_first_valid_arch(space: Space, alternatives: EquivalentGenes) -> Arch | None:
    """Try equivalent genes in turn; return the first architecture that the space accepts.

    Args:
        space: The space.
        alternatives: Genes that all describe the same network. A space accepts at most one of them.

    Returns:
        The architecture, or None if the space accepts none of the genes.
    """
    for genes in alternatives:
        # A space raises this error for genes of an architecture that it does not contain.
        with suppress(UsageError):
            return space.make_arch(genes)
    return None


def list_option_numbers(
    options: Mapping[str, Sequence[str]], numbers: OptionScores
) -> OptionNumbers:
    """Return one number per option as plain data.

    Infinite numbers are left out: they belong to options that are never selected.
    """
    choices = []
    for name, choice_options in options.items():
        pairs = []
        for option, number in zip(choice_options, numbers[name], strict=True):
            if isfinite(number):
                pairs.append((option, number))
        choices.append((name, tuple(pairs)))
    return tuple(choices)


def draw_seed(rng: np.random.Generator) -> int:
    """Draw a seed for something that cannot use a numpy generator."""
    return int(rng.integers(2**31))
