"""Plain PyTorch source of exactly one network: a class for each kind of block, readable, with no import of ours.

Blocks of one type that did the same (`recording.py`) become one class; where they differ in numbers only, these are the
arguments of its constructor. Attributes keep their names, so weights keep theirs. What the network never used (an
auxiliary tower, in evaluation mode) is left out. What comes out is trusted only when it has been run: `verified`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from inspect import getdoc
from textwrap import dedent
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from untrained.exports._anatomy import Anatomy, identifier
from untrained.exports._classes import Body, Class, settle
from untrained.exports._expressions import Call, Listing, Made, Option, Pair, Text, lit
from untrained.exports._layers import Untold
from untrained.exports._runs import Run, joined, recorded
from untrained.probe.guard import random_state


@dataclass(frozen=True)
class Source:
    """The text of a module, the name of its network's class, and the network's weights by their names in it."""

    text: str
    network: str
    weights: dict[str, Tensor]
    trainable: bool  # whether it does the same as the original in training mode too


def source(network: nn.Module, inputs: Callable[[int], Tensor], title: str) -> Source:
    """Source that does what `network` does with `inputs(number of samples)`; a UsageError that names the reason where
    there is none. The network itself is left alone."""
    copy = deepcopy(network).cpu()
    try:
        with random_state(0):
            runs = recorded(copy, inputs)
        writer = _Writer(runs)
        text, name = writer.module(title)
    except Untold as why:
        raise Untold(f"no plain source can be written of {type(network).__name__}: {why}") from why
    return verified(Source(text, name, writer.weights(network), any(run.training for run in runs)), network, inputs)


def verified(made: Source, network: nn.Module, inputs: Callable[[int], Tensor]) -> Source:
    """The source if its network answers as the original does, to the last bit, for one sample and for several."""
    twin = rebuilt_network(made)
    for training in (False, True)[: 1 + made.trainable]:
        answers = []
        for model in (deepcopy(network).cpu(), deepcopy(twin)):
            with random_state(0), torch.no_grad():
                answers.append([model.train(training)(inputs(samples)) for samples in (5, 1 + training)])
        if not all(torch.equal(ours, theirs) for ours, theirs in zip(*answers, strict=True)):
            raise Untold(
                f"no plain source can be written of {type(network).__name__}: what was written answers otherwise"
            )
    return made


def rebuilt_network(made: Source) -> nn.Module:
    """The network that the source describes, with its weights."""
    module = ModuleType("model")
    module.__file__ = "model.py"
    exec(compile(made.text, "model.py", "exec"), module.__dict__)
    with random_state(0):
        network: nn.Module = vars(module)[made.network]()
    network.load_state_dict(made.weights)
    return network


class _Writer:
    """From recordings to classes."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs, self.first = runs, runs[0].recorder
        self.anatomy: Anatomy = self.first.anatomy
        self.recordings = joined(runs)
        self.classes: list[Class] = []
        self._known: dict[Body, int] = {}
        self._used = self._in_use()

    def weights(self, network: nn.Module) -> dict[str, Tensor]:
        """All weights and buffers of what was used, and constant tensors, by their names in the written network."""
        whole = {id(below) for module in self._whole() for below in module.modules()}
        own = dict(network.named_modules(remove_duplicate=False))
        found: dict[str, Tensor] = {}
        for name, module in self.anatomy.network.named_modules(remove_duplicate=False):
            kept = {key for owner, key in self.first.constants if owner == id(module)}
            for key in (*module._parameters, *module._buffers, *kept):
                full, tensor = f"{name}.{key}" if name else key, getattr(own[name], key)
                saved = id(module) in whole and key not in module._non_persistent_buffers_set
                if tensor is not None and (saved or full in self.first.used or key in kept):
                    found[full] = tensor.detach()
        for name, same in self.anatomy.ties():
            if name in found or same in found:
                found[name] = found[same] = found[same] if same in found else found[name]
        return {name: tensor.cpu().clone().contiguous() for name, tensor in found.items()}

    def _whole(self) -> list[nn.Module]:
        """Modules in use that are written as they are, with all their weights."""
        modules = (m for m in self.anatomy.network.modules() if id(m) in self._used)
        return [m for m in modules if id(m) in self.anatomy.layers or type(m) is nn.ParameterList]

    def _in_use(self) -> set[int]:
        """Modules that were called, or whose weights were used, and those above them."""
        found = set()
        for name, module in self.anatomy.network.named_modules(remove_duplicate=False):
            inside = any(id(below) in self.first.called for below in module.modules())
            if inside or any(used.startswith(f"{name}.") for used in self.first.used):
                found.add(id(module))
        return found

    # --------------------------------------------------------------------------------------------------- bodies

    def module(self, title: str) -> tuple[str, str]:
        """The text of the whole module, and the name of its last class, the network."""
        self._make(self.anatomy.network)
        settle(self.classes)
        bodies = "\n\n\n".join(one.text for one in self.classes)
        return _page(title, bodies, self.classes[-1].name), self.classes[-1].name

    def _make(self, module: nn.Module) -> Any:
        """The expression that makes a module."""
        if id(module) in self.anatomy.layers:
            return self.anatomy.layers[id(module)]
        if self.anatomy.container(module):
            return Call(Text(f"nn.{type(module).__name__}"), self._parts(module))
        body = self._body(module)
        kind = self._known.setdefault(body, len(self.classes))
        if kind == len(self.classes):
            self.classes.append(Class([]))
        self.classes[kind].instances.append(body)
        return Made(kind, len(self.classes[kind].instances) - 1)

    def _parts(self, module: nn.Module) -> tuple[Any, ...]:
        """The arguments of a container: what it holds. What was not used leaves its place to an identity."""
        made = {
            name: self._make(child) if id(child) in self._used else Text("nn.Identity()")
            for name, child in module._modules.items()
            if child is not None
        }
        if isinstance(module, nn.ParameterList):
            return (Listing("[]", tuple(_zeros(parameter) for parameter in module)),)
        if isinstance(module, nn.ModuleDict):
            return (Listing("{}", tuple(Pair(json.dumps(name), node) for name, node in made.items())),)
        if isinstance(module, nn.ModuleList):
            return (Listing("[]", tuple(made.values())),)
        if list(made) == [str(place) for place in range(len(made))]:
            return tuple(made.values())
        pairs = tuple(Listing("()", (Text(json.dumps(name)), node)) for name, node in made.items())
        return (Call(Text("OrderedDict"), (Listing("[]", pairs),)),)

    def _body(self, module: nn.Module) -> Body:
        holds = isinstance(module, nn.Sequential | nn.ModuleList)
        base = "nn.Sequential" if isinstance(module, nn.Sequential) else "nn.ModuleList" if holds else "nn.Module"
        parts = self._parts(module) if holds else ()
        children = [] if holds else [(n, child) for n, child in module._modules.items() if child is not None]
        members = [(identifier(n, module), self._make(child)) for n, child in children if id(child) in self._used]
        root = module is self.anatomy.network
        return Body(
            "Network" if type(module) is nn.Sequential else type(module).__name__.strip("_") or "Block",
            base,
            _doc(module, root),
            parts,
            (*members, *self._tensors(module)),
            None if self.anatomy.chain(module) else self.recordings.get(id(module)),
            tuple(self._tied()) if root else (),
        )

    def _tensors(self, module: nn.Module) -> Iterator[tuple[str, Any]]:
        """Weights, buffers and constants that a block uses itself."""
        for name, parameter in module._parameters.items():
            if parameter is not None and self._uses(module, name):
                yield identifier(name, module), Call(Text("nn.Parameter"), (_zeros(parameter),))
        kept = {key for owner, key in self.first.constants if owner == id(module)}
        for name, tensor in {**module._buffers, **{key: getattr(module, key) for key in kept}}.items():
            if tensor is not None and (name in kept or self._uses(module, name)):
                yield "", Call(Text("self.register_buffer"), (Text(json.dumps(name)), _zeros(tensor)))

    def _uses(self, module: nn.Module, name: str) -> bool:
        at = [n for n, m in self.anatomy.network.named_modules(remove_duplicate=False) if m is module]
        return any((f"{prefix}.{name}" if prefix else name) in self.first.used for prefix in at)

    def _tied(self) -> Iterator[str]:
        network, kept = self.anatomy.network, self.weights(self.anatomy.network)
        for name, same in self.anatomy.ties():
            if name in kept and same in kept:
                yield f"{self.anatomy.path(network, name)} = {self.anatomy.path(network, same)}"


def _zeros(tensor: Tensor) -> Call:
    sizes = tuple(lit(int(n)) for n in tensor.shape) or (Listing("()", ()),)
    return Call(Text("torch.zeros"), (*sizes, Option("dtype", Text(str(tensor.dtype)), "torch.float32")))


def _doc(module: nn.Module, root: bool) -> str:
    """The first sentence that the author of the block wrote about it."""
    own = type(module).__dict__.get("__doc__") and not type(module).__module__.startswith("torch.")
    text = " ".join((getdoc(type(module)) or "").split("\n\n")[0].split()) if own else ""
    sentence = text.partition(". ")[0].replace("\\", "/").replace('"', "'").rstrip(".")
    return f"{sentence or ('The whole network' if root else 'A block of the network')}."


def _page(title: str, bodies: str, network: str) -> str:
    """The module around the classes."""
    imports = ["from collections import OrderedDict"] if "OrderedDict(" in bodies else []
    imports += ["from pathlib import Path", ""]
    imports += ["import torch"] if "torch." in bodies else []
    imports += ["from torch import Tensor, nn" if "Tensor" in bodies else "from torch import nn"]
    imports += ["from torch.nn import functional as F"] if "F." in bodies else []
    load = f'''
        def load(weights: str | Path | None = None) -> {network}:
            """The network with its weights, ready to predict; by default those beside this file."""
            from safetensors.torch import load_file

            network = {network}()
            network.load_state_dict(load_file(weights or Path(__file__).with_name("model.safetensors")))
            return network.eval()
    '''
    return f'"""{title}"""\n\n' + "\n".join(imports) + f"\n\n\n{bodies}\n\n\n{dedent(load).strip()}\n"
