"""Check that the function of a space returns the same network whenever the choices are the same.

A function that uses random numbers or the time, and not only `choose`, can return different
networks for one architecture. Scores and trainings would belong to networks that cannot be built
again.
"""

import re
from collections.abc import Callable
from itertools import zip_longest

from torch import nn

from untrained.spaces.core.choices import Chooser, Decisions, Options
from untrained.types import Choice, Genes

# With four runs, a function that tosses a coin is found in seven of eight architectures.
_RUNS = 4

# Runs the function of a space on the meta device. Returns its decisions and the network, or None
# if the function returns a builder, which is checked where it is called.
SpaceRun = Callable[[Chooser], tuple[Decisions, nn.Module | None]]


def find_difference(run: SpaceRun, genes: Genes) -> str:
    """Return how runs of the function of a space with the same choices differ.

    Args:
        run: Runs the function with a chooser.
        genes: The choices.

    Returns:
        The first difference as a phrase; empty if there is none.
    """
    values = dict(genes)

    def replay(name: str, options: Options) -> Choice:
        value = options.find(values[name]) if name in values else None
        if value is None:
            # A choice that the first run did not make: this run differs.
            value = options.list_spread()[0]
        return value

    expected_decisions, expected_network = run(replay)
    for _ in range(_RUNS - 1):
        decisions, network = run(replay)
        difference = _compare_decisions(expected_decisions, decisions)
        if not difference and expected_network is not None and network is not None:
            difference = compare_networks(expected_network, network)
        if difference:
            return difference
    return ""


def _compare_decisions(expected: Decisions, decisions: Decisions) -> str:
    for first, second in zip_longest(expected, decisions):
        if first is None or second is None:
            decision = first or second
            return f"made the choice {decision.name!r} in one run and not in another"
        if first.name != second.name:
            return f"made the choice {first.name!r} in one run and {second.name!r} in another"
        if first.options != second.options:
            return f"gave the choice {first.name!r} different options"
    return ""


def compare_networks(expected: nn.Module, network: nn.Module) -> str:
    """Return how two networks differ in layers and shapes as a phrase; empty if they do not."""
    lines = zip_longest(_describe_network(expected), _describe_network(network), fillvalue="none")
    for first, second in lines:
        if first != second:
            return f"returned networks with {first} in one run and {second} in another"
    return ""


def _describe_network(network: nn.Module) -> list[str]:
    """Return one line per layer and per parameter, which do not depend on the weights."""
    lines = []
    for name, module in network.named_modules():
        settings = module.extra_repr()
        # The repr of a function inside a layer contains its memory address.
        text = re.sub(r" at 0x[0-9a-f]+", "", f"{type(module).__name__}({settings})")
        lines.append(f"{name}: {text}".removeprefix(": "))
        for parameter_name, parameter in module.named_parameters(recurse=False):
            # A lazy layer does not know its shape yet.
            if not nn.parameter.is_lazy(parameter):
                lines.append(f"{name}.{parameter_name} of shape {tuple(parameter.shape)}")
    return lines
