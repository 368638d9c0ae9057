"""The structure of a network: layers of torch, containers, and blocks, which are all other modules.

This module also finds the paths by which a block refers to the modules and weights inside it.
"""

import json
from collections.abc import Iterable
from keyword import iskeyword

from torch import Tensor, nn

from untrained.exports.expressions import Call
from untrained.exports.value_expressions import SourceError, find_constructor_call

_CONTAINER_TYPES = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList)


class NetworkStructure:
    """The modules of one network.

    Attributes:
        network: The network.
        layer_calls: The constructor calls of torch's own layers, by the id of the layer.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.layer_calls: dict[int, Call] = {}
        for module in network.modules():
            if module is network:
                continue
            call = find_constructor_call(module)
            if call is not None and not self.is_container(module):
                self.layer_calls[id(module)] = call
        # A module or weight that is used in two places has two names.
        self._module_names = _group_names_by_id(network.named_modules(remove_duplicate=False))
        weights: list[tuple[str, Tensor]] = []
        weights.extend(network.named_parameters(remove_duplicate=False))
        weights.extend(network.named_buffers(remove_duplicate=False))
        self._weight_names = _group_names_by_id(weights)

    def is_container(self, module: nn.Module) -> bool:
        """Return whether a module only holds others.

        A container has no class in the source; its constructor is called where it is used.
        """
        return type(module) in _CONTAINER_TYPES and module is not self.network

    def is_block(self, module: nn.Module) -> bool:
        """Return whether a module needs its own class in the source."""
        return id(module) not in self.layer_calls and not self.is_container(module)

    def is_chain(self, module: nn.Module) -> bool:
        """Return whether a module runs its children in order, as `nn.Sequential` does."""
        return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward

    def get_module_path(self, owner: nn.Module, module: nn.Module) -> str:
        """Return how a block refers to a module below it, such as `self.cells[0]`.

        Raises:
            SourceError: The module is not below the block.
        """
        candidates = []
        for prefix in self._list_prefixes(owner):
            for name in self._module_names[id(module)]:
                if name.startswith(prefix):
                    candidates.append(name.removeprefix(prefix))
        if not candidates:
            raise SourceError(
                f"{type(owner).__name__} calls a {type(module).__name__} that is not part of it"
            )
        return self.format_path(owner, min(candidates, key=len))

    def find_weight(self, owner: nn.Module, tensor: Tensor) -> tuple[str, str] | None:
        """Return how a block refers to one of its weights or of those of its submodules.

        Returns:
            The path in the block, such as `self.mix[0]`, and the name in the whole network; None
            for any other tensor.
        """
        names = self._weight_names.get(id(tensor), [])
        for prefix in self._list_prefixes(owner):
            for name in names:
                if name.startswith(prefix):
                    return self.format_path(owner, name.removeprefix(prefix)), name
        return None

    def list_ties(self) -> list[tuple[str, str]]:
        """Return (other name, first name) pairs of the weights that have several names."""
        ties = []
        for first, *others in self._weight_names.values():
            for name in others:
                ties.append((name, first))
        return ties

    def format_path(self, owner: nn.Module, name: str) -> str:
        """Return the name of a module or weight below `owner` as Python writes it there."""
        path = "self"
        module = owner
        for step in name.split("."):
            is_list = isinstance(module, nn.Sequential | nn.ModuleList | nn.ParameterList)
            if step.isdecimal() and is_list:
                path += f"[{step}]"
            elif isinstance(module, nn.ModuleDict) and self.is_container(module):
                path += f"[{json.dumps(step)}]"
            else:
                path += f".{check_identifier(step, module)}"
            # The last step may be a weight, which has no children.
            module = getattr(module, "_modules", {}).get(step, module)
        return path

    def _list_prefixes(self, owner: nn.Module) -> list[str]:
        """Return the prefixes of the names of all modules and weights below `owner`.

        There are several if the network uses `owner` in several places.
        """
        prefixes = []
        for name in self._module_names[id(owner)]:
            prefixes.append(f"{name}." if name else "")
        return prefixes


def check_identifier(name: str, module: nn.Module) -> str:
    """Check that a name can be an attribute in Python, and return it.

    Raises:
        SourceError: The name cannot be an attribute in Python, such as `0` or `class`.
    """
    if not name.isidentifier() or iskeyword(name):
        raise SourceError(
            f"{name!r}, a part of {type(module).__name__}, is not a valid name in Python"
        )
    return name


def _group_names_by_id(named_objects: Iterable[tuple[str, object]]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for name, named_object in named_objects:
        names.setdefault(id(named_object), []).append(name)
    return names
