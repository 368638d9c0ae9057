"""Signatures: calls of torch functions without the numbers in their tensors.

Calls with one signature (function, shapes, settings) are the same arithmetic on other numbers. What shapes come out of
a call torch is asked once for each signature, on the meta device; after that the answer is looked up, which is much
quicker than asking again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from untrained.probe.flops import Operation, counting

META = torch.device("meta")
_RANDOM = ("rand", "bernoulli", "multinomial", "normal_", "uniform_", "poisson", "dropout", "exponential_", "seed")
_WRITING = ("__setitem__", "set_", "copy_")
_NUMBERS = frozenset((int, float, bool))  # 1, 1.0 and True are equal, and not the same
_CONSTANTS = frozenset(
    (str, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
)


class Unwritten(Exception):  # noqa: N818 - it names a state of a network, not a mistake of a caller
    """This network does something that a tape does not hold."""


class Fake(NamedTuple):
    """What is known of a tensor before it is computed."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(tensor: Tensor) -> "Fake":
        return Fake(tensor.shape, tensor.stride(), tensor.dtype)

    def made(self) -> Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=META)


@dataclass(eq=False, slots=True)
class Signature:
    """A function with everything but the numbers in its tensors."""

    func: Callable[..., Any]
    args: tuple[Any, ...]  # fake tensors mark the places of real ones
    kwargs: dict[str, Any]
    inputs: tuple[Fake, ...]
    result: Any  # as it came, a fake tensor or a tuple of them
    results: tuple[Fake | int, ...]  # its tensors; an int: that input itself
    overwrites: bool  # its first tensor
    views: bool  # a result shares memory with an input
    counted: tuple[Operation, ...] | None = None

    def call(self, tensors: Sequence[Any], device: torch.device, func: Callable[..., Any] | None = None) -> Any:
        """The function, or another with its arguments, on these tensors."""
        given = iter(tensors)
        args = [filled(argument, given, device) for argument in self.args]
        kwargs = {name: filled(argument, given, device) for name, argument in self.kwargs.items()}
        return (func or self.func)(*args, **kwargs)

    @property
    def made(self) -> list[Fake]:
        """What is new after a call: the results that are no inputs, or the input that was overwritten."""
        return [self.inputs[0]] if self.overwrites else [told for told in self.results if isinstance(told, Fake)]

    def new(self, result: Any) -> list[Any]:
        """The same of what a call has answered."""
        made = tensors_of(result)
        if self.overwrites:
            return made
        return [tensor for tensor, told in zip(made, self.results, strict=True) if not isinstance(told, int)]

    def through(self, make: "Make", tensors: Sequence[Any]) -> list[Any]:
        return make(self, tensors)

    @property
    def steps(self) -> "tuple[Signature, ...]":
        return (self,)

    def resized(self, inputs: Sequence[Fake], known: "Signatures") -> "Signature | None":
        def found(*args: Any, **kwargs: Any) -> Signature | None:
            key, tensors = outlined(self.func, args, kwargs)
            return known.find(key, tensors, self.func, args, kwargs)

        try:
            other: Signature | None = self.call([fake.made() for fake in inputs], META, found)
        except Exception:  # the network will raise it, or do something else
            return None
        return other if other is not None and other.form == self.form else None

    @property
    def form(self) -> tuple[object, ...]:
        """What the calls after this one may hang on, besides sizes."""
        return self.overwrites, self.views, [told if isinstance(told, int) else told.dtype for told in self.results]

    def operations(self) -> tuple[Operation, ...]:
        """What one call does, counted when first asked for."""
        if self.counted is None:
            given = [fake.made() for fake in self.inputs]
            with counting() as counter:
                self.call(given, META)
            self.counted = tuple(counter.operations)
        return self.counted


Make = Callable[[Signature, Sequence[Any]], list[Any]]  # makes a call on tensors: what is new after it


class Doing(Protocol):
    """What a tape holds: a signature, or several as one (`passages.py`)."""

    @property
    def inputs(self) -> tuple[Fake, ...]: ...

    @property
    def made(self) -> list[Fake]:
        """What is new after it."""

    @property
    def steps(self) -> tuple[Signature, ...]:
        """The calls that it makes, in their order."""

    def through(self, make: Make, tensors: Sequence[Any]) -> list[Any]:
        """Have all its calls made on these inputs; what is new after it."""

    def resized(self, inputs: Sequence[Fake], known: "Signatures") -> "Doing | None":
        """The same with other inputs; None where it does not answer in the same form."""


class Signatures:
    """Every signature met so far; shared by all networks of a run, whose calls are mostly the same."""

    def __init__(self) -> None:
        self._known: dict[Any, Signature | None] = {}
        self.passages: dict[Any, Any] = {}  # of blocks, by their kind and their input (`passages.py`)
        self._resized: dict[tuple[Doing, tuple[Fake | None, ...]], Doing | None] = {}

    def find(self, key: Any, tensors: list[Tensor], func: Any, args: Any, kwargs: Any) -> Signature | None:
        """The signature of an outlined call; None where it answers with facts, such as a shape."""
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = _learned(func, args, kwargs, tensors)
            return found
        except TypeError:
            raise Unwritten(f"an argument of {func} is of an unknown type") from None

    def resized(self, doing: Doing, computed: tuple[Fake | None, ...]) -> Doing | None:
        """The same for other computed inputs; those that are None stay."""
        try:
            return self._resized[doing, computed]
        except KeyError:
            inputs = [old if new is None else new for old, new in zip(doing.inputs, computed, strict=True)]
            found = self._resized[doing, computed] = doing.resized(inputs, self)
            return found


def _learned(func: Any, args: Any, kwargs: dict[str, Any], tensors: list[Tensor]) -> Signature | None:
    """Ask torch what comes out."""
    refuse(func)
    inputs = tuple(map(Fake.of, tensors))
    fresh = [fake.made() for fake in inputs]
    given = iter(fresh)
    args = tuple([filled(argument, given) for argument in args])
    kwargs = {name: filled(argument, given) for name, argument in kwargs.items()}
    result = func(*args, **kwargs)
    if isinstance(result, tuple) and type(result) not in (tuple, torch.Size):
        raise Unwritten(f"{func} answers with a {type(result).__name__}")
    made = tensors_of(result)
    if not made:
        return None
    places = {id(tensor): place for place, tensor in enumerate(fresh)}
    written = [place for place, tensor in enumerate(fresh) if tensor._version]
    if written and (written != [0] or [places.get(id(t)) for t in made] != [0]):
        raise Unwritten(f"{func} writes into one of its arguments")
    results = tuple([places.get(id(t), Fake.of(t)) for t in made])
    views = any(t._is_view() for t in made)
    return Signature(func, args, kwargs, inputs, result, results, bool(written), views)


def refuse(func: Any) -> None:
    """Raise for functions whose answer is not decided by their arguments, or which have another effect."""
    name = getattr(func, "__name__", "")
    if any(word in name for word in _RANDOM):
        raise Unwritten(f"{name} draws at random")
    if name in _WRITING:
        raise Unwritten(f"{name} writes into one of its arguments")


def outlined(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, list[Tensor]]:
    """A call as a key, without the numbers in its tensors, and these."""
    tensors: list[Tensor] = []
    key = func, *[_outline(argument, tensors) for argument in args]
    if kwargs:
        key = *key, *[(name, _outline(argument, tensors)) for name, argument in kwargs.items()]
    return key, tensors


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors in an argument, in order."""
    found: list[Tensor] = []
    _outline(value, found)
    return found


def filled(value: Any, tensors: Iterator[Any], device: torch.device | None = None) -> Any:
    """The same argument with other tensors, and with another device where it names the meta device."""
    if isinstance(value, Tensor):
        return next(tensors)
    if type(value) in (tuple, list):
        return type(value)([filled(one, tensors, device) for one in value])
    return device if device is not None and isinstance(value, torch.device) and value == META else value


def _outline(value: Any, tensors: list[Tensor]) -> Any:
    """An argument as a key, without the numbers in its tensors; these are added to the list."""
    kind = type(value)
    if kind in _NUMBERS:
        return kind, value
    if kind in _CONSTANTS:
        return value
    if isinstance(value, Tensor):
        tensors.append(value)
        return value.shape, value.stride(), value.dtype
    if kind is tuple or kind is list:
        return (kind, *[_outline(one, tensors) for one in value])
    if kind is slice and not tensors_of((value.start, value.stop, value.step)):
        return kind, value.start, value.stop, value.step
    return [kind]  # a list can be no part of a key, so no signature will be found
