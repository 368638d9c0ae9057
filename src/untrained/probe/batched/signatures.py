"""Signatures: what a call of a torch function does, apart from the values in its tensors.

A signature consists of the function, its settings, and the shapes, strides and types of its
tensors. Calls with equal signatures do the same arithmetic on different values. The shapes of the
results are computed once per signature, on the meta device, and then looked up, which is much
faster.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from untrained.probe.flops import Operation, count_operations
from untrained.probe.jets import Args, Kwargs, TorchFunction

if TYPE_CHECKING:
    from untrained.probe.batched.block_programs import BlockProgram

META = torch.device("meta")
# Parts of the names of random functions.
_RANDOM = (
    "rand",
    "bernoulli",
    "multinomial",
    "normal_",
    "uniform_",
    "poisson",
    "dropout",
    "exponential_",
    "seed",
)
_WRITING = ("__setitem__", "set_", "copy_")
# 1, 1.0 and True are equal as keys but not the same argument.
_NUMBERS = frozenset((int, float, bool))
_CONSTANTS = frozenset(
    (
        str,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        torch.Size,
    )
)


class NotRecordable(Exception):  # noqa: N818 - a property of a network, not a mistake of a caller
    """The network does something that a tape cannot contain."""


class TensorSpec(NamedTuple):
    """Shape, strides and type of a tensor, which are known before it is computed."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(tensor: Tensor) -> "TensorSpec":
        """Describe a tensor."""
        return TensorSpec(tensor.shape, tensor.stride(), tensor.dtype)

    def make_meta_tensor(self) -> Tensor:
        """Make a tensor of this description on the meta device."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=META)


@dataclass(eq=False, slots=True)
class Signature:
    """What a call does, apart from the values in its tensors.

    Attributes:
        func: The function.
        args: Its arguments; meta tensors mark the positions of real ones.
        kwargs: The same for keyword arguments.
        inputs: The tensors among the arguments.
        result: The result on the meta device, a tensor or a tuple of tensors.
        results: The tensors of the result. An int is the index of an input that the call returns
            as it is.
        overwrites: Whether the call overwrites its first tensor.
        views: Whether a result shares memory with an input.
        cached_operations: Operations of one call; None until they are counted.
    """

    func: TorchFunction
    args: Args
    kwargs: Kwargs
    inputs: tuple[TensorSpec, ...]
    result: object
    results: tuple[TensorSpec | int, ...]
    overwrites: bool
    views: bool
    cached_operations: tuple[Operation, ...] | None = None

    def call(
        self,
        tensors: Sequence[Tensor],
        device: torch.device,
        func: TorchFunction | None = None,
    ) -> Any:
        """Call the function, or another one, with these tensors in the arguments."""
        args, kwargs = _fill_arguments(self.args, self.kwargs, tensors, device)
        return (func or self.func)(*args, **kwargs)

    @property
    def new_values(self) -> list[TensorSpec]:
        """Values that a call creates: results that are not inputs, or the overwritten input."""
        if self.overwrites:
            return [self.inputs[0]]
        return [result for result in self.results if isinstance(result, TensorSpec)]

    def select_new(self, result: object) -> list[Tensor]:
        """Return the tensors of a result that the call created."""
        tensors = find_tensors(result)
        if self.overwrites:
            return tensors
        new = []
        for tensor, spec in zip(tensors, self.results, strict=True):
            if isinstance(spec, TensorSpec):
                new.append(tensor)
        return new

    def execute(self, call_signature: "RunSignature", tensors: Sequence[Tensor]) -> list[Tensor]:
        """See `Instruction`."""
        return call_signature(self, tensors)

    @property
    def steps(self) -> "tuple[Signature, ...]":
        """See `Instruction`."""
        return (self,)

    def resize(
        self,
        inputs: Sequence[TensorSpec],
        cache: "SignatureCache",
    ) -> "Signature | None":
        """See `Instruction`."""

        def find_signature(*args: object, **kwargs: object) -> Signature | None:
            key, tensors = make_call_key(self.func, args, kwargs)
            return cache.find(key, tensors, self.func, args, kwargs)

        meta_tensors = [spec.make_meta_tensor() for spec in inputs]
        try:
            other: Signature | None = self.call(meta_tensors, META, find_signature)
        except Exception:
            # The caller then runs the network again, which raises the error if it is a real one.
            return None
        if other is None or other.form != self.form:
            return None
        return other

    @property
    def form(self) -> tuple[object, ...]:
        """Properties of the results, apart from sizes, that later calls may depend on."""
        results: list[object] = []
        for result in self.results:
            results.append(result if isinstance(result, int) else result.dtype)
        return self.overwrites, self.views, results

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of one call; they are counted once."""
        if self.cached_operations is None:
            tensors = [spec.make_meta_tensor() for spec in self.inputs]
            with count_operations() as counter:
                self.call(tensors, META)
            self.cached_operations = tuple(counter.operations)
        return self.cached_operations


# Makes a call on tensors and returns the values that it creates.
RunSignature = Callable[[Signature, Sequence[Tensor]], list[Tensor]]


class Instruction(Protocol):
    """An entry of a tape: a signature, or a program of several signatures (`block_programs.py`)."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that it reads."""

    @property
    def new_values(self) -> list[TensorSpec]:
        """The values that it creates."""

    @property
    def steps(self) -> tuple[Signature, ...]:
        """The single calls, in order."""

    def execute(self, call_signature: RunSignature, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Make all calls with `call_signature`; return the values that they create."""

    def resize(
        self,
        inputs: Sequence[TensorSpec],
        cache: "SignatureCache",
    ) -> "Instruction | None":
        """Return the same instruction for other inputs; None if its results differ in form."""


class SignatureCache:
    """All signatures of a run. Networks of one space share most of them.

    Attributes:
        block_programs: Programs of blocks, by their template and their input; None for a block that
            must be run (`block_programs.py`).
    """

    def __init__(self) -> None:
        self._signatures: dict[Hashable, Signature | None] = {}
        self._resized: dict[
            tuple[Instruction, tuple[TensorSpec | None, ...]], Instruction | None
        ] = {}
        self.block_programs: dict[tuple[object, TensorSpec], BlockProgram | None] = {}

    def find(
        self,
        key: Hashable,
        tensors: list[Tensor],
        func: TorchFunction,
        args: Args,
        kwargs: Kwargs,
    ) -> Signature | None:
        """Return the signature of a call with this key (see `make_call_key`).

        None if the function returns metadata, such as a shape, and no tensor.
        """
        try:
            return self._signatures[key]
        except KeyError:
            signature = _make_signature(func, args, kwargs, tensors)
            self._signatures[key] = signature
            return signature
        except TypeError:  # the key is not hashable
            raise NotRecordable(f"an argument of {func} is of an unknown type") from None

    def resize(
        self,
        instruction: Instruction,
        new_inputs: tuple[TensorSpec | None, ...],
    ) -> Instruction | None:
        """Return the instruction for other inputs; None if the network must be run again.

        Args:
            instruction: The instruction.
            new_inputs: What to replace its inputs by; None for an input that does not change.
        """
        key = (instruction, new_inputs)
        try:
            return self._resized[key]
        except KeyError:
            inputs = []
            for old, new in zip(instruction.inputs, new_inputs, strict=True):
                inputs.append(old if new is None else new)
            resized = instruction.resize(inputs, self)
            self._resized[key] = resized
            return resized


def _make_signature(
    func: TorchFunction,
    args: Args,
    kwargs: Kwargs,
    tensors: list[Tensor],
) -> Signature | None:
    """Call the function on the meta device and describe its result."""
    refuse_side_effects(func)
    inputs = tuple(TensorSpec.of(tensor) for tensor in tensors)
    meta_tensors = [spec.make_meta_tensor() for spec in inputs]
    meta_args, meta_kwargs = _fill_arguments(args, kwargs, meta_tensors)
    result = func(*meta_args, **meta_kwargs)
    if isinstance(result, tuple) and type(result) not in (tuple, torch.Size):
        raise NotRecordable(f"{func} returns a {type(result).__name__}")
    result_tensors = find_tensors(result)
    if not result_tensors:
        return None
    indices = {id(tensor): index for index, tensor in enumerate(meta_tensors)}
    overwritten = [index for index, tensor in enumerate(meta_tensors) if tensor._version]
    if overwritten:
        returned = [indices.get(id(tensor)) for tensor in result_tensors]
        # Only functions that overwrite their first tensor and return it are supported.
        if overwritten != [0] or returned != [0]:
            raise NotRecordable(f"{func} writes into one of its arguments")
    results: list[TensorSpec | int] = []
    for tensor in result_tensors:
        results.append(indices.get(id(tensor), TensorSpec.of(tensor)))
    return Signature(
        func=func,
        args=meta_args,
        kwargs=meta_kwargs,
        inputs=inputs,
        result=result,
        results=tuple(results),
        overwrites=bool(overwritten),
        views=any(tensor._is_view() for tensor in result_tensors),
    )


def refuse_side_effects(func: TorchFunction) -> None:
    """Raise if a function draws random numbers or writes into an argument."""
    name = getattr(func, "__name__", "")
    if any(word in name for word in _RANDOM):
        raise NotRecordable(f"{name} draws random numbers")
    if name in _WRITING:
        raise NotRecordable(f"{name} writes into one of its arguments")


def make_call_key(
    func: TorchFunction,
    args: Args,
    kwargs: Kwargs,
) -> tuple[Hashable, list[Tensor]]:
    """Return the key of a call, without the values in its tensors, and the tensors."""
    tensors: list[Tensor] = []
    key: list[object] = [func]
    for argument in args:
        key.append(_make_argument_key(argument, tensors))
    for name, argument in kwargs.items():
        key.append((name, _make_argument_key(argument, tensors)))
    return tuple(key), tensors


def find_tensors(value: object) -> list[Tensor]:
    """Return the tensors in an argument, in order."""
    tensors: list[Tensor] = []
    _make_argument_key(value, tensors)
    return tensors


def _fill_arguments(
    args: Args,
    kwargs: Kwargs,
    tensors: Sequence[Tensor],
    device: torch.device | None = None,
) -> tuple[Args, Kwargs]:
    """Return the arguments of a call with other tensors; see `fill_tensors`."""
    remaining = iter(tensors)
    filled_args = tuple([fill_tensors(argument, remaining, device) for argument in args])
    filled_kwargs = {}
    for name, argument in kwargs.items():
        filled_kwargs[name] = fill_tensors(argument, remaining, device)
    return filled_args, filled_kwargs


def fill_tensors(
    value: Any,
    tensors: Iterator[Tensor],
    device: torch.device | None = None,
) -> Any:
    """Return an argument with other tensors, and with `device` in place of the meta device."""
    if isinstance(value, Tensor):
        return next(tensors)
    if type(value) in (tuple, list):
        return type(value)([fill_tensors(member, tensors, device) for member in value])
    if device is not None and isinstance(value, torch.device) and value == META:
        return device
    return value


def _make_argument_key(value: Any, tensors: list[Tensor]) -> object:
    """Return a key of an argument; append its tensors to the list."""
    kind = type(value)
    if kind in _NUMBERS:
        return kind, value
    if kind in _CONSTANTS:
        return value
    if isinstance(value, Tensor):
        tensors.append(value)
        return value.shape, value.stride(), value.dtype
    if kind is tuple or kind is list:
        return (kind, *[_make_argument_key(member, tensors) for member in value])
    if kind is slice and not find_tensors((value.start, value.stop, value.step)):
        return kind, value.start, value.stop, value.step
    # A list makes the key unhashable, which `SignatureCache.find` reports.
    return [kind]
