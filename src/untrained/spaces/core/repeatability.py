"""Check that the function of a space returns the same network whenever the choices are the same.

A function whose result also depends on random numbers or on the time can return different networks
for one architecture. The network that was scored or trained could then not be built again.
"""

import re
from collections.abc import Callable
from itertools import zip_longest

from torch import nn

from untrained.spaces.core.choices import Chooser, Decisions, Options
from untrained.types import Choice, Genes

# With four runs, a function that tosses one fair coin is detected with probability 7/8.
_RUNS = 4

# Runs the function of a space on the meta device. Returns its decisions and the network, or None
# instead of the network if the function returns a builder. Builders are checked in `Space.build`.
SpaceRun = Callable[[Chooser], tuple[Decisions, nn.Module | None]]


def find_difference(run: SpaceRun, genes: Genes) -> str:
    """Run the function of a space several times with the same choices and compare the results.

    Args:
        run: Runs the function with a chooser.
        genes: The choices.

    Returns:
        The first difference as a phrase; empty if there is none.
    """
    values = dict(genes)

    def replay(name: str, options: Options) -> Choice:
        value = None
        if name in values:
            value = options.find(values[name])
        if value is None:
            # The architecture does not have this choice, so the run differs whatever is chosen.
            value = options.list_representative_values()[0]
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
    """Return the first difference in layers or shapes as a phrase; empty if there is none."""
    lines = zip_longest(_describe_network(expected), _describe_network(network), fillvalue="none")
    for first, second in lines:
        if first != second:
            return f"returned networks with {first} in one run and {second} in another"
    return ""


def _describe_network(network: nn.Module) -> list[str]:
    """Return one line per layer and per parameter. The lines do not depend on the weights."""
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
