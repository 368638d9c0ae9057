"""Passages: what a block does with an input, as one doing that holds for every block of its kind.

A reference is told as a number, counted from where the block begins:

    0, 1, ...     the values that it makes
    -1            its input
    -2, -3, ...   its parameters and buffers
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor, nn

from untrained.probe.signatures import Doing, Fake, Make, Signature, Signatures
from untrained.probe.tape import Call, Ref


class Returned(NamedTuple):
    """What a module has returned, and what it read if it is a ReLU."""

    ref: Ref
    source: Ref | None
    module: nn.Module


class Written(NamedTuple):
    """What was written while a block ran."""

    given: Fake
    values: list[Fake]
    calls: Sequence[Call]
    returned: Sequence[Returned]
    viewed: Iterable[int]  # values that are views or have views since
    sized: bool


class Place:
    """A block at work: its input, and the first value that it makes."""

    def __init__(self, block: nn.Module, given: int, first: int) -> None:
        self.block, self.given, self.first = block, given, first

    @cached_property
    def modules(self) -> list[nn.Module]:
        found = [self.block]
        for module in found:  # which grows
            found += [child for child in module._modules.values() if child is not None]
        return found

    @cached_property
    def tensors(self) -> list[Tensor]:
        held = [(*module._parameters.values(), *module._buffers.values()) for module in self.modules]
        return [tensor for tensors in held for tensor in tensors if tensor is not None]

    def told(self, ref: Ref) -> int:
        """A reference as a passage tells it; KeyError for what is not the block's."""
        if not isinstance(ref, int):
            return -2 - self._numbers[id(ref)]
        if ref < self.first and ref != self.given:
            raise KeyError(ref)
        return -1 if ref == self.given else ref - self.first

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {id(tensor): number for number, tensor in enumerate(self.tensors)}

    def ref(self, told: int) -> int:
        """The reference to a value, or to the input."""
        return self.given if told == -1 else self.first + told


class Told(NamedTuple):
    """A call of a passage; of the block's tensors it counts those that the passage reads."""

    doing: Doing
    inputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Passage:
    """The calls of a block as one call; it makes every value that they make."""

    inputs: tuple[Fake, ...]  # its input, then the tensors that it reads
    made: list[Fake]
    calls: list[Told]
    read: list[int] = field(default_factory=list)  # which of the block's tensors
    returned: list[tuple[int, int | None, int]] = field(default_factory=list)  # `Returned`; the module by its place
    viewed: list[int] = field(default_factory=list)  # values that are views or have views
    output: int = 0
    sized: bool = False  # it asked for sizes

    @staticmethod
    def of(place: Place, written: Written, output: Ref) -> "Passage | None":
        """None where the block reads what is not its own, overwrites, or does not answer with a new value."""
        modules = {id(module): number for number, module in enumerate(place.modules)}
        if any(step.overwrites for call in written.calls for step in call.doing.steps):
            return None
        told = place.told
        try:
            heard = [
                (told(r), None if s is None else told(s), modules[id(module)]) for r, s, module in written.returned
            ]
            viewed = [told(ref) for ref in written.viewed]
            inputs = [tuple(map(told, call.inputs)) for call in written.calls]
            answer = told(output)
        except KeyError:
            return None
        if answer < 0:
            return None
        read = sorted({-2 - ref for refs in inputs for ref in refs if ref < -1})
        places = {-2 - number: -2 - among for among, number in enumerate(read)}
        refs = [tuple(places.get(ref, ref) for ref in refs) for refs in inputs]
        calls = [Told(call.doing, mine) for call, mine in zip(written.calls, refs, strict=True)]
        given = (written.given, *(Fake.of(place.tensors[number]) for number in read))
        return Passage(given, written.values, calls, read, heard, viewed, answer, written.sized)

    def tensors(self, place: Place) -> tuple[Ref, ...]:
        """The inputs of the passage for one block."""
        return (place.given, *[place.tensors[number] for number in self.read])

    @cached_property
    def steps(self) -> tuple[Signature, ...]:
        return tuple(step for call in self.calls for step in call.doing.steps)

    def through(self, make: Make, tensors: Sequence[Any]) -> list[Any]:
        values: list[Any] = []
        for doing, inputs in self.calls:
            values += doing.through(make, [values[i] if i >= 0 else tensors[-1 - i] for i in inputs])
        return values

    def resized(self, inputs: Sequence[Fake], known: Signatures) -> "Passage | None":
        made: list[Fake] = []
        calls: list[Told] = []
        for call in self.calls:
            computed = tuple([made[i] if i >= 0 else inputs[-1 - i] for i in call.inputs])
            doing = known.resized(call.doing, computed)
            if doing is None:
                return None
            made += doing.made
            calls.append(Told(doing, call.inputs))
        return Passage(tuple(inputs), made, calls)
