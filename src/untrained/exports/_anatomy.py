"""What a network consists of, for whoever writes it down: torch's own layers, containers, and blocks, which are
everything else; and the names under which modules and weights are reached from a block."""

import json
from collections.abc import Iterable
from keyword import iskeyword

from torch import Tensor, nn

from untrained.exports._expressions import Call
from untrained.exports._layers import Untold, constructor


class Anatomy:
    """The modules of one network."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.layers: dict[int, Call] = {}  # torch's own, by the id of the module
        for module in network.modules():
            if module is not network and (call := constructor(module)) and not self.container(module):
                self.layers[id(module)] = call
        self._modules = _by_id(network.named_modules(remove_duplicate=False))
        weights = [*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)]
        self._weights = _by_id(weights)

    def container(self, module: nn.Module) -> bool:
        """Whether a module only holds others; it is written where it stands."""
        kinds = nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList
        return type(module) in kinds and module is not self.network

    def block(self, module: nn.Module) -> bool:
        return id(module) not in self.layers and not self.container(module)

    def chain(self, module: nn.Module) -> bool:
        """Whether a module runs its parts one after the other, as torch does."""
        return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward

    def part(self, owner: nn.Module, module: nn.Module) -> str:
        """How a block calls a module below it: `self.cells[0]`."""
        name = self._below(owner, self._modules[id(module)])
        if name is None:
            raise Untold(f"{type(owner).__name__} calls a {type(module).__name__} that is no part of it")
        return self.path(owner, name)

    def weight(self, owner: nn.Module, tensor: Tensor) -> tuple[str, str] | None:
        """How a block calls a weight at or below it, and its name in the network; None for any other tensor."""
        names = self._weights.get(id(tensor), [])
        for at in self._modules[id(owner)]:
            for name in names:
                if name.startswith(f"{at}." if at else ""):
                    return self.path(owner, name[len(at) + 1 if at else 0 :]), name
        return None

    def ties(self) -> list[tuple[str, str]]:
        """Names of one and the same weight: a later one, and the first."""
        return [(name, first) for first, *others in self._weights.values() for name in others]

    def _below(self, owner: nn.Module, names: Iterable[str]) -> str | None:
        found = [
            name[len(at) + 1 if at else 0 :]
            for at in self._modules[id(owner)]
            for name in names
            if name.startswith(f"{at}." if at else "")
        ]
        return min(found, key=len) if found else None

    def path(self, owner: nn.Module, name: str) -> str:
        """The name of a module or weight below `owner`, as Python writes it there."""
        path, module = "self", owner
        for step in name.split("."):
            if step.isdecimal() and isinstance(module, nn.Sequential | nn.ModuleList | nn.ParameterList):
                path += f"[{step}]"
            elif isinstance(module, nn.ModuleDict) and self.container(module):
                path += f"[{json.dumps(step)}]"
            else:
                path += f".{identifier(step, module)}"
            module = getattr(module, "_modules", {}).get(step, module)
        return path


def identifier(name: str, module: nn.Module) -> str:
    if not name.isidentifier() or iskeyword(name):
        raise Untold(f"{name!r}, a part of {type(module).__name__}, is no name in Python")
    return name


def _by_id(named: Iterable[tuple[str, object]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, thing in named:
        found.setdefault(id(thing), []).append(name)
    return found
