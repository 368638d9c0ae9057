"""Passages: what a block does with an input, told in a way that holds for every block of its kind.

A reference is told as a number, counted from where the block begins:

    0, 1, ...     the values that it makes
    -1            its input
    -2, -3, ...   its parameters and buffers
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from torch import Tensor, nn

from untrained.probe.signatures import Fake, Signature
from untrained.probe.tape import Call, Ref


class Returned(NamedTuple):
    """What a module has returned, and what it read if it is a ReLU."""

    ref: Ref
    source: Ref | None
    module: nn.Module


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

    def ref(self, told: int) -> Ref:
        if told < -1:
            return self.tensors[-2 - told]
        return self.given if told == -1 else self.first + told

    def refs(self, told: Iterable[int]) -> tuple[Ref, ...]:
        return tuple([self.ref(number) for number in told])


class Told(NamedTuple):
    """A call of a passage."""

    signature: Signature
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Passage(NamedTuple):
    values: list[Fake]  # that it makes
    calls: list[Told]
    returned: list[tuple[int, int | None, int]]  # as in `Returned`; the place of the module among those of the block
    output: int
    sized: bool  # it asked for sizes

    @staticmethod
    def of(
        place: Place, values: list[Fake], calls: Sequence[Call], returned: Sequence[Returned], output: Ref, sized: bool
    ) -> "Passage | None":
        """None where the block reads what is not its own, overwrites, or does not answer with a new value."""
        modules, told = {id(module): number for number, module in enumerate(place.modules)}, place.told
        if any(call.signature.overwrites for call in calls):
            return None
        try:
            heard = [(told(ref), None if s is None else told(s), modules[id(module)]) for ref, s, module in returned]
            made = [Told(c.signature, tuple(map(told, c.inputs)), tuple(map(told, c.outputs))) for c in calls]
            answer = told(output)
        except KeyError:
            return None
        return Passage(values, made, heard, answer, sized) if answer >= 0 else None
