"""A tape: the calls that a network makes in a forward pass, written down without making them.

The network runs on a meta tensor under a function mode that answers every call with tensors of the right shape.
Parameters, buffers and what is computed from them alone are real.

    a reference   the number of a value that will be computed, or a real tensor
    a call        (signature, references to its tensors, numbers of its results)

A tape is written for networks that are plain functions of their input. Whoever draws at random, asks for numbers, or
writes into a view raises `Unwritten`, or what torch raises; such a network is looked at alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from untrained.probe.features import first_tensor
from untrained.probe.flops import Operation
from untrained.probe.guard import Scoring, watching
from untrained.probe.signatures import META, Signature, Signatures, Unwritten, filled, outlined, refuse, tensors_of

Ref = int | Tensor
_FACTS = frozenset(
    [getattr(Tensor, name).__get__ for name in "shape dtype device ndim requires_grad is_cuda is_meta".split()]
    + [getattr(Tensor, name) for name in "size dim numel is_floating_point is_contiguous stride __len__".split()]
)


class Call(NamedTuple):
    signature: Signature
    inputs: tuple[Ref, ...]
    outputs: tuple[int, ...]


class Output(NamedTuple):
    """A value that modules returned: the first of them, how many, and how many of these were leaves."""

    ref: Ref
    name: str
    calls: int
    leaf_calls: int


@dataclass
class Tape:
    """The calls of one forward pass; value 0 is the input."""

    calls: list[Call] = field(default_factory=list)
    features: tuple[Output, ...] = ()
    output: Ref = 0
    whole: bool = True  # nothing was computed from parameters alone, which is not written down

    def operations(self) -> tuple[Operation, ...]:
        """What the Probe counts in a forward pass; each signature is counted once for all networks."""
        return tuple(operation for call in self.calls for operation in call.signature.operations())


def write(
    model: nn.Module, fake: Tensor, known: Signatures, *, seed: int, read: Callable[[Any], Tensor], features: bool
) -> Tape | Exception:
    """The tape of `model` for a fake input, or why there is none; `read` finds the logits."""
    writer = _Writer(known)
    writer.number(fake)
    listening = writer.listening(model) if features else nullcontext()
    try:
        with torch.inference_mode(False), torch.no_grad(), watching(model, seed, scoring=writer), listening:
            output = read(model(fake))
        return writer.finished(output)
    except Exception as error:  # looked at alone, the network will raise it again
        return error


class _Writer(Scoring):
    """Writes down every call that depends on the input, as scoring makes it."""

    def __init__(self, known: Signatures) -> None:
        super().__init__()
        self.tape, self._known = Tape(), known
        self._numbers: dict[int, int] = {}
        self._kept: list[Tensor] = []  # what an id stands for must stay alive; as many as there are values
        self._shared: set[int] = set()  # values that are views or have views
        self._overwritten = False
        self._returned: list[tuple[Ref, Ref | None, str, bool]] = []  # value, what a ReLU read, module, whether a leaf

    def number(self, tensor: Tensor) -> Tensor:
        """Let the tensor stand for a new value."""
        self._numbers[id(tensor)] = len(self._kept)
        self._kept.append(tensor)
        return tensor

    def ref(self, tensor: Tensor) -> Ref:
        return self._numbers.get(id(tensor), tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _FACTS:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def called(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        key, tensors = outlined(func, args, kwargs)
        if not any(id(tensor) in self._numbers for tensor in tensors) and kwargs.get("device") != META:
            return self._real(func, args, kwargs, tensors)
        signature = self._known.find(key, tensors, func, args, kwargs)
        return func(*args, **kwargs) if signature is None else self._written(signature, tensors)

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
        inputs, first = tuple([self.ref(tensor) for tensor in tensors]), len(self._kept)
        if signature.overwrites:
            if not isinstance(inputs[0], int) or inputs[0] in self._shared:
                raise Unwritten("an in-place function writes into a view or into a constant")
            self._overwritten = True
            made = [self.number(tensors[0])]  # the same tensor is another value from now on
        else:
            made = [tensors[r] if isinstance(r, int) else self.number(r.made()) for r in signature.results]
        outputs = tuple(range(first, len(self._kept)))
        if outputs:
            self.tape.calls.append(Call(signature, inputs, outputs))
        if signature.views:
            self._shared.update(outputs, (i for i in inputs if isinstance(i, int)))
        return filled(signature.result, iter(made))

    # ----------------------------------------------------------------------------------------------------- modules

    @contextmanager
    def listening(self, model: nn.Module) -> Iterator[None]:
        """Note what every module returns, as `features.Capture` does."""
        known = {module: (name, not module._modules) for name, module in model.named_modules()}

        def collect(module: nn.Module, inputs: Any, output: Any) -> None:
            tensor = output if isinstance(output, Tensor) else first_tensor(output)
            if tensor is not None and module in known:
                source = self.ref(inputs[0]) if type(module) is nn.ReLU else None
                self._returned.append((self.ref(tensor), source, *known[module]))

        handle = register_module_forward_hook(collect)
        try:
            yield
        finally:
            handle.remove()

    def finished(self, output: Tensor) -> Tape:
        rectified: dict[object, Ref] = {}
        found: dict[object, Output] = {}
        for ref, source, name, leaf in self._returned:
            if source is not None and not self._overwritten:  # one ReLU for all branches of a node, as in Capture
                ref = rectified.setdefault(_key(source), ref)
            tensor = self._kept[ref] if isinstance(ref, int) else ref
            if tensor.is_floating_point() and tensor.ndim:
                before = found.get(_key(ref), Output(ref, name, 0, 0))
                found[_key(ref)] = before._replace(calls=before.calls + 1, leaf_calls=before.leaf_calls + leaf)
        self.tape.features, self.tape.output = tuple(found.values()), self.ref(output)
        return self.tape


def _key(ref: Ref) -> object:
    return ref if isinstance(ref, int) else ("real", id(ref))
