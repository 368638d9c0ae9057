"""A tape: the calls that a network makes in a forward pass, written down (`writing.py`) without making them.

a reference   the number of a value that will be computed, or a real tensor
a call        (what is done, references to its tensors, numbers of its results)
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from untrained.probe.flops import Operation
from untrained.probe.signatures import Doing, Fake, Signature, Signatures

Ref = int | Tensor


class Call(NamedTuple):
    doing: Doing
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
    sized: bool = False  # the network asked for sizes, so at another size it may make other calls

    def resized(self, fake: Tensor, known: Signatures) -> "Tape | None":
        """The tape for another input; None where the network must be run to tell."""
        fakes = {0: Fake.of(fake)}
        calls = []
        for call in self.calls if not self.sized else ():
            computed = tuple([fakes[ref] if isinstance(ref, int) else None for ref in call.inputs])
            doing = known.resized(call.doing, computed)
            if doing is None:
                return None
            fakes.update(zip(call.outputs, doing.made, strict=True))
            calls.append(Call(doing, call.inputs, call.outputs))
        return None if self.sized else Tape(calls, (), self.output, self.whole)

    def steps(self) -> Iterator[Signature]:
        """The signatures of all single calls."""
        return (step for call in self.calls for step in call.doing.steps)

    def operations(self) -> tuple[Operation, ...]:
        """What the Probe counts in a forward pass; each signature is counted once for all networks."""
        return tuple(operation for step in self.steps() for operation in step.operations())
