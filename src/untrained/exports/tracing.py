"""Trace a forward pass: record the computation of every block while the network runs.

Every call of a torch function or of a module is recorded in the block that makes it, so the trace
has the structure of the network. Python's control flow is not recorded: a trace contains only the
branches that were taken for these shapes and settings. Therefore a forward pass that reads the
values of tensors cannot be traced. `class_writer.py` turns traces into source.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from untrained.exports.expressions import (
    Attribute,
    Code,
    Collection,
    Expression,
    KeyValue,
    Slice,
    Subscript,
    ValueRef,
    list_literals,
)
from untrained.exports.network_structure import NetworkStructure
from untrained.exports.torch_calls import (
    changes_arguments,
    express_torch_call,
    get_function_name,
    make_call,
    reads_values,
)
from untrained.exports.value_expressions import SourceError, express_value


@dataclass(frozen=True)
class Statement:
    """One statement of a forward pass.

    Attributes:
        targets: The numbers of the values that it computes.
        expression: The expression that computes them.
        has_effect: Whether it has side effects, so that it is kept even if its values are not used.
    """

    targets: tuple[int, ...]
    expression: Expression
    has_effect: bool = False


@dataclass(frozen=True)
class Trace:
    """The forward pass of one block: names and shapes of its inputs, statements, and the result."""

    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]
    output: Expression
    input_shapes: tuple[tuple[int, ...], ...] = field(compare=False)


@dataclass
class _Frame:
    """A module whose forward pass is running.

    Attributes:
        module: The module.
        is_opaque: Whether calls inside are not recorded, as in layers of torch and containers.
        tensors: The tensors that it was called with.
        inputs: The names of these tensors.
        expressions: How the block refers to a tensor, by the id of the tensor.
        statements: The statements so far.
        value_count: How many values the statements have computed.
        call: How the calling block calls the module; None for the whole network.
    """

    module: nn.Module
    is_opaque: bool
    tensors: list[Tensor] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    expressions: dict[int, Expression] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    value_count: int = 0
    call: Expression | None = None

    @property
    def label(self) -> str:
        """Name of the forward pass in messages."""
        return f"{type(self.module).__name__}.forward"


class Tracer(TorchFunctionMode):
    """Traces one forward pass: `with tracer.follow_modules(): network(inputs)`.

    Attributes:
        structure: The network that is traced.
        traces: The traces of its blocks, by the id of the block.
        used_weights: The names of weights that blocks use themselves.
        called_modules: The ids of all modules that were called.
        constants: Tensors that are plain attributes of a block, by the id of the block and name.
    """

    def __init__(self, structure: NetworkStructure) -> None:
        super().__init__()
        self.structure = structure
        self.traces: dict[int, Trace] = {}
        self.used_weights: set[str] = set()
        self.called_modules: set[int] = set()
        self.constants: dict[tuple[int, str], Tensor] = {}
        self._frames: list[_Frame] = []
        # Tensors are identified by `id()`. They are kept alive, so that no id is used again.
        self._kept_tensors: list[Any] = []
        self._is_paused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._is_paused or not self._frames or self._frames[-1].is_opaque:
            return result
        frame = self._frames[-1]
        name = get_function_name(func)
        if reads_values(name):
            raise SourceError(f"{frame.label} reads the values of tensors ({name})")
        if not _list_tensors(result) and name != "torch.Tensor.__setitem__":
            # A shape or a dtype: the trace contains its value where it is used.
            return result
        if name == "torch.Tensor.__getitem__" and _is_full_view(result, args[0]):
            # `x[:]` is another name for x and needs no statement.
            self._kept_tensors.append(result)
            frame.expressions[id(result)] = self._express(frame, args[0])
            return result
        expression = express_torch_call(func, args, kwargs, partial(self._express, frame))
        return self._add_statement(frame, expression, result, changes_arguments(name, kwargs))

    @contextmanager
    def follow_modules(self) -> Iterator[None]:
        """Trace every call of the network inside the block."""
        handles = []
        for module in self.structure.network.modules():
            handles.append(module.register_forward_pre_hook(self._enter_module, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave_module, with_kwargs=True))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter_module(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Start the frame of a module; return the arguments with which its forward pass runs."""
        self.called_modules.add(id(module))
        is_block = self.structure.is_block(module)
        frame = _Frame(module, is_opaque=not is_block or self.structure.is_chain(module))
        if self._frames and not self._frames[-1].is_opaque:
            frame.call = self._express_module_call(self._frames[-1], module, args, kwargs)
        if is_block:
            # Inputs are identified by their ids, so two inputs must not be the same object.
            args = self._replace_tensors(args)
            kwargs = self._replace_tensors(kwargs)
            inputs = []
            for name, tensor in _name_input_tensors(module, args, kwargs):
                inputs.append(name)
                frame.tensors.append(tensor)
                frame.expressions[id(tensor)] = Code(name)
            frame.inputs = tuple(inputs)
        self._frames.append(frame)
        return args, kwargs

    def _express_module_call(
        self, caller: _Frame, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Expression:
        path = Code(self.structure.get_module_path(caller.module, module))
        express = partial(self._express, caller)
        if not self.structure.is_block(module):
            return make_call(path, args, kwargs, express)
        # The generated class of a block takes tensors only; other arguments become constants in it.
        tensors = [tensor for _, tensor in _name_input_tensors(module, args, kwargs)]
        return make_call(path, tensors, {}, express)

    def _leave_module(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
        """End the frame of a module; return the result with which the calling block continues."""
        frame = self._frames.pop()
        if self.structure.is_block(module):
            self._store_trace(frame, result)
        if frame.call is None:
            return result
        return self._add_statement(self._frames[-1], frame.call, result)

    def _store_trace(self, frame: _Frame, result: Any) -> None:
        """Store the trace of a block.

        Raises:
            SourceError: The block was called before and did not compute the same.
        """
        output: Expression = Code("")
        if not frame.is_opaque:
            output = self._express(frame, result)
        shapes = tuple(tuple(tensor.size()) for tensor in frame.tensors)
        trace = Trace(frame.inputs, tuple(frame.statements), output, shapes)
        earlier = self.traces.setdefault(id(frame.module), trace)
        # A block that is called twice has one class, so it must do the same both times. Traces
        # compare without their numbers, which are therefore compared separately.
        if earlier != trace or _list_numbers(earlier) != _list_numbers(trace):
            raise SourceError(f"{frame.label} behaves differently when it is called again")

    def _add_statement(
        self, frame: _Frame, expression: Expression, result: Any, has_effect: bool = False
    ) -> Any:
        """Add a statement for a call.

        Returns:
            The result of the call, in which every tensor object has only this one name.
        """
        result = self._replace_tensors(result, only_named_in=frame)
        first = frame.value_count
        if _can_unpack(result):
            # `a, b = x.chunk(2)`
            values = list(result)
        else:
            values = [result]
        frame.value_count += len(values)
        targets = tuple(range(first, frame.value_count))
        frame.statements.append(Statement(targets, expression, has_effect))
        for target, value in zip(targets, values, strict=True):
            self._name_tensors(frame, value, ValueRef(target))
        return result

    def _name_tensors(self, frame: _Frame, value: Any, expression: Expression) -> None:
        """Store how the block refers to the tensors in a value."""
        if isinstance(value, Tensor):
            frame.expressions[id(value)] = expression
            self._kept_tensors.append(value)
        elif isinstance(value, tuple | list):
            for position, item in enumerate(value):
                self._name_tensors(frame, item, Subscript(expression, (Code(str(position)),)))
        elif isinstance(value, dict):
            for key, item in value.items():
                self._name_tensors(frame, item, Subscript(expression, (express_value(key),)))

    def _replace_tensors(self, value: Any, only_named_in: _Frame | None = None) -> Any:
        """Replace the tensors in a value by other tensor objects that share their memory.

        Args:
            value: A tensor, or tuples, lists and dictionaries that may hold some.
            only_named_in: If given, only tensors that have a name in this frame are replaced.
        """
        if isinstance(value, Tensor):
            if only_named_in is not None and not self._has_name(only_named_in, value):
                return value
            self._kept_tensors.append(value)
            self._is_paused = True
            other = value.view_as(value)
            self._is_paused = False
            return other
        if isinstance(value, tuple | list):
            items = [self._replace_tensors(item, only_named_in) for item in value]
            if hasattr(value, "_fields"):
                # A named tuple takes its fields as separate arguments.
                return type(value)(*items)
            return type(value)(items)
        if isinstance(value, dict):
            replaced = {}
            for key, item in value.items():
                replaced[key] = self._replace_tensors(item, only_named_in)
            return replaced
        return value

    def _has_name(self, frame: _Frame, tensor: Tensor) -> bool:
        if id(tensor) in frame.expressions:
            return True
        return self.structure.find_weight(self.structure.network, tensor) is not None

    def _express(self, frame: _Frame, value: Any, hint: str = "size") -> Expression:
        """Return how a block refers to a value."""
        if isinstance(value, Tensor):
            return self._express_tensor(frame, value)
        if isinstance(value, torch.device):
            # The generated network runs on the device of its inputs.
            if frame.inputs:
                return Attribute(Code(frame.inputs[0]), "device")
            return Code(f'"{value}"')
        if isinstance(value, slice):
            start = self._express(frame, value.start)
            stop = self._express(frame, value.stop)
            step = self._express(frame, value.step)
            return Slice(start, stop, step)
        if isinstance(value, tuple | list):
            brackets = "()" if isinstance(value, tuple) else "[]"
            return Collection(brackets, tuple(self._express(frame, item) for item in value))
        if isinstance(value, dict):
            items = []
            for key, item in value.items():
                items.append(KeyValue(repr(key), self._express(frame, item)))
            return Collection("{}", tuple(items))
        return express_value(value, hint)

    def _express_tensor(self, frame: _Frame, tensor: Tensor) -> Expression:
        if id(tensor) in frame.expressions:
            return frame.expressions[id(tensor)]
        weight = self.structure.find_weight(frame.module, tensor)
        if weight is not None:
            path, name = weight
            self.used_weights.add(name)
            return Code(path)
        for name, value in vars(frame.module).items():
            if value is tensor:
                self.constants[id(frame.module), name] = tensor
                return Code(f"self.{name}")
        raise SourceError(
            f"{frame.label} uses a tensor that is neither an input nor a weight of it"
        )


def _name_input_tensors(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Tensor]]:
    """Return the tensors that a module is called with, named after the parameters of `forward`."""
    arguments = signature(module.forward).bind(*args, **kwargs).arguments
    tensors: list[tuple[str, Tensor]] = []
    for name, value in arguments.items():
        tensors.extend(_name_tensors_in(name, value))
    return tensors


def _name_tensors_in(name: str, value: Any) -> list[tuple[str, Tensor]]:
    """Return the tensors in a value, named after their position: `terms_0`, `terms_1`."""
    if isinstance(value, Tensor):
        return [(name, value)]
    items: list[tuple[Any, Any]] = []
    if isinstance(value, tuple | list):
        items = list(enumerate(value))
    elif isinstance(value, dict):
        items = list(value.items())
    tensors: list[tuple[str, Tensor]] = []
    for key, item in items:
        tensors.extend(_name_tensors_in(f"{name}_{key}", item))
    return tensors


def _list_tensors(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in _name_tensors_in("", value)]


def _is_full_view(result: Any, base: Tensor) -> bool:
    """Return whether a result is a view of all values of `base` in the same order."""
    return (
        isinstance(result, Tensor)
        and result.shape == base.shape
        and result.stride() == base.stride()
        and result.data_ptr() == base.data_ptr()
    )


def _can_unpack(result: Any) -> bool:
    """Return whether a result consists of several tensors, so that `a, b = ...` can unpack it."""
    if not isinstance(result, tuple | list) or len(result) < 2:
        return False
    return all(isinstance(item, Tensor) for item in result)


def _list_numbers(trace: Trace) -> list[Any]:
    return [literal.value for literal in list_literals((trace.statements, trace.output))]
