"""What a network does with its inputs, written down while it does it.

Every call of a torch function or of a module is recorded in the block it happens in, so the record has the shape of
the network, and Python's own control flow is over: what was decided by shapes and settings is decided. A forward pass
that looks at the values of tensors cannot be recorded, and says so. This file knows nothing of how source is laid out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from untrained.exports._anatomy import Anatomy
from untrained.exports._expressions import Attribute, Index, Listing, Pair, Ref, Slice, Text, literals
from untrained.exports._functions import acts, call, expression, looks_at_values, name_of
from untrained.exports._layers import Untold, literal


@dataclass(frozen=True)
class Line:
    """A statement: the numbers of the values it makes, and what makes them. `acts` if it does more than that."""

    targets: tuple[int, ...]
    expression: Any
    acts: bool = False


@dataclass(frozen=True)
class Recording:
    """The forward pass of a block: names of its inputs, statements, and what is returned."""

    inputs: tuple[str, ...]
    lines: tuple[Line, ...]
    output: Any
    shapes: tuple[tuple[int, ...], ...] = field(compare=False)


@dataclass
class _Frame:
    """A module at work. In a closed one nothing is written down: torch knows what it does."""

    module: nn.Module
    closed: bool
    tensors: list[Tensor]
    inputs: tuple[str, ...] = ()
    names: dict[int, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    made: int = 0
    call: Any = None  # how the block above calls it


class Recorder(TorchFunctionMode):
    """`with Recorder(anatomy) as recorder: network(inputs)`, then `recorder.recordings` by the id of a block."""

    def __init__(self, anatomy: Anatomy) -> None:
        super().__init__()
        self.anatomy = anatomy
        self.recordings: dict[int, Recording] = {}
        self.used: set[str] = set()  # names of weights that blocks use themselves
        self.called: set[int] = set()
        self.constants: dict[tuple[int, str], Tensor] = {}  # tensors that are attributes of a block, nothing more
        self._frames: list[_Frame] = []
        self._alive: list[Any] = []  # so that no two tensors have the same id
        self._blind = False

    # ---------------------------------------------------------------------------------------------- what is seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if self._blind or not self._frames or self._frames[-1].closed:
            return out
        frame, name = self._frames[-1], name_of(func)
        if looks_at_values(name):
            raise Untold(f"{_told(frame)} looks at the values of tensors ({name})")
        if not _tensors(out) and name != "torch.Tensor.__setitem__":
            return out  # a shape, a type
        if name == "torch.Tensor.__getitem__" and _same(out, args[0]):
            self._alive.append(out)  # a view of everything is the thing itself
            frame.names[id(out)] = self._node(frame, args[0])
            return out
        said = expression(func, args, kwargs, partial(self._node, frame))
        return self._write(frame, said, out, acts(name, kwargs))

    @contextmanager
    def watching(self) -> Iterator["Recorder"]:
        """Follow the modules of the network."""
        handles = []
        for module in self.anatomy.network.modules():
            handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave, with_kwargs=True))
        try:
            with self:
                yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """A block sees each of its inputs under a name of its own, also where two are the same tensor."""
        self.called.add(id(module))
        caller, block = self._frames[-1] if self._frames else None, self.anatomy.block(module)
        frame = _Frame(module, not block or self.anatomy.chain(module), [])
        if caller is not None and not caller.closed:
            path = Text(self.anatomy.part(caller.module, module))
            given = [tensor for _, tensor in _given(module, args, kwargs)] if block else args
            frame.call = call(path, given, {} if block else kwargs, partial(self._node, caller))
        if block:
            args, kwargs = (self._other(value) for value in (args, kwargs))
            named = _given(module, args, kwargs)
            frame.tensors, frame.inputs = [tensor for _, tensor in named], tuple(name for name, _ in named)
            frame.names = {id(tensor): Text(name) for name, tensor in named}
        self._frames.append(frame)
        return args, kwargs

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        frame = self._frames.pop()
        if self.anatomy.block(module):
            self._keep(frame, out)
        return self._write(self._frames[-1], frame.call, out) if frame.call else out

    def _keep(self, frame: _Frame, out: Any) -> None:
        shapes = tuple(tuple(tensor.size()) for tensor in frame.tensors)
        output = Text("") if frame.closed else self._node(frame, out)
        new = Recording(frame.inputs, tuple(frame.lines), output, shapes)
        old = self.recordings.setdefault(id(frame.module), new)
        if old != new or _values(old) != _values(new):
            raise Untold(f"{_told(frame)} does something else when it is called again")

    # ------------------------------------------------------------------------------------------- how it is written

    def _write(self, frame: _Frame, said: Any, out: Any, changes: bool = False) -> Any:
        """A statement for what was called, and the outcome with tensors that have no other name."""
        out = self._other(out, unless_new_in=frame)
        first = frame.made
        flat = isinstance(out, tuple | list) and len(out) > 1 and all(isinstance(item, Tensor) for item in out)
        frame.made += len(out) if flat else 1
        frame.lines.append(Line(tuple(range(first, frame.made)), said, changes))
        for place, item in enumerate(out if flat else [out]):
            self._bind(frame, item, Ref(first + place))
        return out

    def _bind(self, frame: _Frame, value: Any, node: Any) -> None:
        if isinstance(value, Tensor):
            frame.names[id(value)] = node
            self._alive.append(value)
        elif isinstance(value, tuple | list):
            for place, item in enumerate(value):
                self._bind(frame, item, Index(node, (Text(str(place)),)))
        elif isinstance(value, dict):
            for key, item in value.items():
                self._bind(frame, item, Index(node, (literal(key),)))

    def _other(self, value: Any, unless_new_in: _Frame | None = None) -> Any:
        """The same value with other tensor objects (unless they have no name yet), which share its numbers."""
        if isinstance(value, Tensor):
            if unless_new_in is not None and id(value) not in unless_new_in.names and not self._weight(value):
                return value
            self._alive.append(value)
            self._blind = True
            other = value.view_as(value)
            self._blind = False
            return other
        if isinstance(value, tuple | list):
            items = [self._other(item, unless_new_in) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: self._other(item, unless_new_in) for key, item in value.items()}
        return value

    def _weight(self, tensor: Tensor) -> bool:
        return self.anatomy.weight(self.anatomy.network, tensor) is not None

    def _node(self, frame: _Frame, value: Any, hint: str = "size") -> Any:
        """How a block calls a value."""
        if isinstance(value, Tensor):
            return self._tensor(frame, value)
        if isinstance(value, torch.device):
            return Attribute(Text(frame.inputs[0]), "device") if frame.inputs else Text(f'"{value}"')
        if isinstance(value, slice):
            return Slice(*(self._node(frame, end) for end in (value.start, value.stop, value.step)))
        if isinstance(value, tuple | list):
            return Listing("()" if isinstance(value, tuple) else "[]", tuple(self._node(frame, v) for v in value))
        if isinstance(value, dict):
            return Listing("{}", tuple(Pair(repr(key), self._node(frame, item)) for key, item in value.items()))
        return literal(value, hint)

    def _tensor(self, frame: _Frame, tensor: Tensor) -> Any:
        if id(tensor) in frame.names:
            return frame.names[id(tensor)]
        if found := self.anatomy.weight(frame.module, tensor):
            self.used.add(found[1])
            return Text(found[0])
        for name, value in vars(frame.module).items():
            if value is tensor:
                self.constants[id(frame.module), name] = tensor
                return Text(f"self.{name}")
        raise Untold(f"{_told(frame)} uses a tensor that is neither given to it nor one of its weights")


def _given(module: nn.Module, args: Any, kwargs: Any) -> list[tuple[str, Tensor]]:
    """The tensors that a module is called with, under the names its forward pass has for them."""
    given = signature(module.forward).bind(*args, **kwargs).arguments
    return [pair for name, value in given.items() for pair in _flat(name, value)]


def _told(frame: _Frame) -> str:
    return f"{type(frame.module).__name__}.forward"


def _same(out: Any, base: Tensor) -> bool:
    """Whether a view shows all of its tensor, in the same order."""
    return (
        isinstance(out, Tensor)
        and out.shape == base.shape
        and out.stride() == base.stride()
        and out.data_ptr() == base.data_ptr()
    )


def _tensors(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in _flat("", value)]


def _flat(name: str, value: Any) -> list[tuple[str, Tensor]]:
    """The tensors in a value, under names made of where they are."""
    if isinstance(value, Tensor):
        return [(name, value)]
    if isinstance(value, tuple | list):
        return [pair for place, item in enumerate(value) for pair in _flat(f"{name}_{place}", item)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _flat(f"{name}_{key}", item)]
    return []


def _values(recording: Recording) -> list[Any]:
    return [part.value for part in literals((recording.lines, recording.output))]
