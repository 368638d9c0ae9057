"""How a tape is written: the network runs on a meta tensor under a function mode that answers every call with tensors
of the right shape. Parameters, buffers and what is computed from them alone are real.

A tape is written for networks that are plain functions of their input. Whoever draws at random, asks for numbers, or
writes into a view raises `Unwritten`, or what torch raises; such a network is looked at alone.

Blocks that differ in their numbers alone (`_stamp.py`) are run once for each kind of input; after that, what they did
is written down again as a passage.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from untrained._stamp import kind_of
from untrained.probe.features import first_tensor
from untrained.probe.guard import Scoring, watching
from untrained.probe.passages import Passage, Place, Returned, Written
from untrained.probe.signatures import (
    META,
    Fake,
    Signature,
    Signatures,
    Unwritten,
    filled,
    outlined,
    refuse,
    tensors_of,
)
from untrained.probe.tape import Call, Output, Ref, Tape

_SIZES = frozenset(
    [getattr(Tensor, name).__get__ for name in ("shape",)]
    + [getattr(Tensor, name) for name in "size numel is_contiguous stride __len__".split()]
)
_FACTS = _SIZES.union(
    [getattr(Tensor, name).__get__ for name in "dtype device ndim requires_grad is_cuda is_meta".split()],
    [Tensor.dim, Tensor.is_floating_point],
)


def write(
    model: nn.Module, fake: Tensor, known: Signatures, *, seed: int, read: Callable[[Any], Tensor]
) -> Tape | Exception:
    """The tape of `model` for a fake input, or why there is none; `read` finds the logits."""
    writer = _Writer(known)
    writer.number(fake, Fake.of(fake))
    try:
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            watching(model, seed, scoring=writer) as writer.names,
            listening(writer),
        ):
            output = read(model(fake))
        return writer.finished(output)
    except Exception as error:  # looked at alone, the network will raise it again
        return error


_listeners: "list[_Writer | None]" = []  # the last one hears


@contextmanager
def listening(writer: "_Writer | None" = None) -> Iterator[None]:
    """Hear of every call of a module, as `torch.fx` does: a hook hears of it too, but cannot answer it.

    To change a class makes Python forget what it knows of all its subclasses, so who writes many tapes listens around
    them, with nobody to hear, and `nn.Module` is changed once.
    """
    _listeners.append(writer)
    plain = nn.Module.__call__

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        hearing = _listeners[-1]
        return plain(module, *args, **kwargs) if hearing is None else hearing.module_call(plain, module, args, kwargs)

    if len(_listeners) == 1:
        nn.Module.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        _listeners.pop()
        if not _listeners:
            nn.Module.__call__ = plain  # type: ignore[method-assign]


class _Writer(Scoring):
    """Writes down every call that depends on the input, as scoring makes it."""

    def __init__(self, known: Signatures) -> None:
        super().__init__()
        self.tape, self._known = Tape(), known
        self.names: dict[nn.Module, str] = {}
        self._numbers: dict[int, int] = {}  # by the id of the tensor that stands for a value
        self._alive: list[Tensor] = []  # what an id stands for must stay alive
        self._values: list[Fake] = []
        self._shared: set[int] = set()  # values that are views or have views
        self._overwritten = False
        self._returned: list[Returned] = []

    def number(self, tensor: Tensor, fake: Fake) -> Tensor:
        """Let the tensor stand for a new value."""
        self._stand(tensor, len(self._values))
        self._values.append(fake)
        return tensor

    def _stand(self, tensor: Tensor, number: int) -> None:
        self._numbers[id(tensor)] = number
        self._alive.append(tensor)

    def ref(self, tensor: Tensor) -> Ref:
        return self._numbers.get(id(tensor), tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _FACTS:
            self.tape.sized |= func in _SIZES and id(args[0]) in self._numbers
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def called(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        key, tensors = outlined(func, args, kwargs)
        if not any(id(tensor) in self._numbers for tensor in tensors) and kwargs.get("device") != META:
            return self._real(func, args, kwargs, tensors)
        signature = self._known.find(key, tensors, func, args, kwargs)
        if signature is None:
            self.tape.sized = True
            return func(*args, **kwargs)
        return self._written(signature, tensors)

    def _real(self, func: Any, args: Any, kwargs: Any, given: list[Tensor]) -> Any:
        """A constant of the network: computed at once."""
        name = getattr(func, "__name__", "")
        if any(tensor.is_meta for tensor in given):
            raise Unwritten(f"{name} of a tensor that came by an unknown way")
        if (name.endswith("_") and not name.endswith("__")) or name.startswith("__i"):
            raise Unwritten(f"{name} writes into a constant")
        result = func(*args, **kwargs)
        if tensors_of(result):
            refuse(func)
            self.tape.whole = False
        return result

    def _written(self, signature: Signature, tensors: list[Tensor]) -> Any:
        inputs, first = tuple([self.ref(tensor) for tensor in tensors]), len(self._values)
        if signature.overwrites:
            if not isinstance(inputs[0], int) or inputs[0] in self._shared:
                raise Unwritten("an in-place function writes into a view or into a constant")
            self._overwritten = True
            made = [self.number(tensors[0], signature.inputs[0])]  # the same tensor is another value from now on
        else:
            made = [tensors[r] if isinstance(r, int) else self.number(r.made(), r) for r in signature.results]
        outputs = tuple(range(first, len(self._values)))
        if outputs:
            self.tape.calls.append(Call(signature, inputs, outputs))
        if signature.views:
            self._shared.update(outputs, (ref for ref in inputs if isinstance(ref, int)))
        return filled(signature.result, iter(made))

    # ----------------------------------------------------------------------------------------------------- modules

    def module_call(self, plain: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        def run() -> Any:
            return self._heard(module, args, plain(module, *args, **kwargs))

        kind = None if kwargs or len(args) != 1 else kind_of(module)
        given = None if kind is None else self._numbers.get(id(args[0]))
        return run() if given is None else self._block(kind, module, given, run)

    def _heard(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        """Note what a module returns, as `features.Capture` does."""
        tensor = output if isinstance(output, Tensor) else first_tensor(output)
        if tensor is not None and module in self.names:
            source = self.ref(inputs[0]) if type(module) is nn.ReLU else None
            self._returned.append(Returned(self.ref(tensor), source, module))
        return output

    def _block(self, kind: object, block: nn.Module, given: int, run: Callable[[], Any]) -> Any:
        """A block of a known kind: run where its like has not had such an input before."""
        passages, fake = self._known.passages, self._values[given]
        place = Place(block, given, len(self._values))
        if (kind, fake) in passages:
            passage = passages[kind, fake]
            return run() if passage is None else self._again(passage, place)
        calls, returned, sized, shared = len(self.tape.calls), len(self._returned), self.tape.sized, {*self._shared}
        self.tape.sized = False
        output = run()
        new = self._values[place.first :], self.tape.calls[calls:], self._returned[returned:], self._shared - shared
        written = Written(fake, *new, self.tape.sized)
        passage = Passage.of(place, written, self.ref(output)) if isinstance(output, Tensor) else None
        passages[kind, fake] = passage
        if passage is not None:
            self.tape.calls[calls:] = [self._told(passage, place)]
        self.tape.sized |= sized
        return output

    def _again(self, passage: Passage, place: Place) -> Tensor:
        """Write a passage down for another block."""
        self.tape.calls.append(self._told(passage, place))
        self._values += passage.made
        self._shared.update([place.ref(number) for number in passage.viewed])
        self._returned += [
            Returned(place.ref(ref), source if source is None else place.ref(source), place.modules[module])
            for ref, source, module in passage.returned
        ]
        self.tape.sized |= passage.sized
        with torch._C.DisableTorchFunction():
            output = passage.made[passage.output].made()
        self._stand(output, place.first + passage.output)
        return output

    @staticmethod
    def _told(passage: Passage, place: Place) -> Call:
        outputs = tuple(range(place.first, place.first + len(passage.made)))
        return Call(passage, passage.tensors(place), outputs)

    def finished(self, output: Tensor) -> Tape:
        rectified: dict[object, Ref] = {}
        found: dict[object, Output] = {}
        for ref, source, module in self._returned:
            if source is not None and not self._overwritten:  # one ReLU for all branches of a node, as in Capture
                ref = rectified.setdefault(_key(source), ref)
            fake = self._values[ref] if isinstance(ref, int) else Fake.of(ref)
            if fake.dtype.is_floating_point and fake.shape:
                _, name, calls, leaves = found.get(_key(ref)) or (ref, self.names[module], 0, 0)
                found[_key(ref)] = Output(ref, name, calls + 1, leaves + (not module._modules))
        self.tape.features, self.tape.output = tuple(found.values()), self.ref(output)
        return self.tape


def _key(ref: Ref) -> object:
    return ref if isinstance(ref, int) else ("real", id(ref))
