"""A tape: the calls of a network in a forward pass, recorded without computing them.

A value is either computed by a call, and then has a number, or it is a real tensor, such as a
parameter. The input of the network is value 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from untrained.probe.batched.signatures import (
    Instruction,
    Signature,
    SignatureCache,
    TensorSpec,
)
from untrained.probe.flops import Operation

ValueRef = int | Tensor  # the number of a computed value, or a real tensor


class TapeCall(NamedTuple):
    """One call: the instruction, its input values, and the numbers of its results."""

    instruction: Instruction
    inputs: tuple[ValueRef, ...]
    outputs: tuple[int, ...]


class ModuleValue(NamedTuple):
    """A value that modules returned; see `features.Feature`."""

    ref: ValueRef
    name: str
    calls: int
    leaf_calls: int


@dataclass
class Tape:
    """The calls of one forward pass.

    Attributes:
        calls: The calls, in order.
        features: Values that modules returned.
        output: The logits.
        complete: Whether every computation is on the tape. A computation that involves only
            parameters runs at once and is not recorded.
        reads_sizes: Whether the network read a size. For inputs of another size it may then make
            other calls.
    """

    calls: list[TapeCall] = field(default_factory=list)
    features: tuple[ModuleValue, ...] = ()
    output: ValueRef = 0
    complete: bool = True
    reads_sizes: bool = False

    def resize(self, input: Tensor, cache: SignatureCache) -> "Tape | None":
        """Return the tape for another input; None if the network must be run again."""
        if self.reads_sizes:
            return None
        specs = {0: TensorSpec.of(input)}
        calls = []
        for call in self.calls:
            new_inputs: list[TensorSpec | None] = []
            for ref in call.inputs:
                # Real tensors, such as parameters, do not change.
                new_inputs.append(specs[ref] if isinstance(ref, int) else None)
            instruction = cache.resize(call.instruction, tuple(new_inputs))
            if instruction is None:
                return None
            specs.update(zip(call.outputs, instruction.new_values, strict=True))
            calls.append(TapeCall(instruction, call.inputs, call.outputs))
        return Tape(calls, (), self.output, self.complete)

    def steps(self) -> Iterator[Signature]:
        """Yield the signatures of all single calls."""
        for call in self.calls:
            yield from call.instruction.steps

    def operations(self) -> tuple[Operation, ...]:
        """Return what the Probe counts in a forward pass."""
        operations: list[Operation] = []
        for step in self.steps():
            operations.extend(step.operations())
        return tuple(operations)
