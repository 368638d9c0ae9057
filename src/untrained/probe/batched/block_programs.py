"""Block programs: the calls of a block as one instruction that is valid for every equal block.

Inside a program, values are numbered relative to the block:

    0, 1, ...     values that the block computes
    -1            its input
    -2, -3, ...   its parameters and buffers
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from torch import Tensor, nn

from untrained.probe.batched.signatures import (
    Instruction,
    RunSignature,
    Signature,
    SignatureCache,
    TensorSpec,
)
from untrained.probe.batched.tape import TapeCall, ValueRef

T = TypeVar("T")
INPUT = -1
FIRST_TENSOR = -2


class ModuleOutput(NamedTuple):
    """The output of a module, and its input if it is a ReLU."""

    ref: ValueRef
    source: ValueRef | None
    module: nn.Module


class BlockRecording(NamedTuple):
    """The values and calls that were recorded while a block ran."""

    input: TensorSpec
    values: list[TensorSpec]
    calls: Sequence[TapeCall]
    module_outputs: Sequence[ModuleOutput]
    shared_values: Iterable[int]  # values that the block made views of, and these views
    reads_sizes: bool


class TapedBlock:
    """A block with the numbers of its values on a tape.

    Attributes:
        block: The block.
        input: Number of its input value.
        first: Number of the first value that it computes.
    """

    def __init__(self, block: nn.Module, input: int, first: int) -> None:
        self.block = block
        self.input = input
        self.first = first

    @cached_property
    def modules(self) -> list[nn.Module]:
        """The block and all modules in it, in an order that equal blocks share."""
        modules = [self.block]
        for module in modules:  # the list grows while it is traversed
            for child in module._modules.values():
                if child is not None:
                    modules.append(child)
        return modules

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Parameters and buffers, in an order that equal blocks share."""
        tensors = []
        for module in self.modules:
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None:
                    tensors.append(tensor)
        return tensors

    @cached_property
    def _tensor_numbers(self) -> dict[int, int]:
        return {id(tensor): number for number, tensor in enumerate(self.tensors)}

    def to_relative(self, ref: ValueRef) -> int:
        """Return a reference relative to the block; KeyError if it is not part of the block."""
        if not isinstance(ref, int):
            return FIRST_TENSOR - self._tensor_numbers[id(ref)]
        if ref == self.input:
            return INPUT
        if ref < self.first:
            raise KeyError(ref)
        return ref - self.first

    def to_absolute(self, relative: int) -> int:
        """Return the number of a value, or of the input."""
        if relative == INPUT:
            return self.input
        return self.first + relative


class ProgramCall(NamedTuple):
    """A call of a program, whose inputs are numbered relative to the program."""

    instruction: Instruction
    inputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BlockProgram:
    """The calls of a block as one instruction, which returns every value that they compute.

    Attributes:
        inputs: The input of the block, then the parameters and buffers that it reads.
        new_values: The values that it computes.
        calls: The calls.
        tensor_numbers: Which of the block's tensors it reads.
        module_outputs: As `ModuleOutput`, with relative references and the number of the module.
        shared_values: Values that the block made views of, and these views.
        output: The value that the block returns.
        reads_sizes: Whether the block read a size.
    """

    inputs: tuple[TensorSpec, ...]
    new_values: list[TensorSpec]
    calls: list[ProgramCall]
    tensor_numbers: list[int] = field(default_factory=list)
    module_outputs: list[tuple[int, int | None, int]] = field(default_factory=list)
    shared_values: list[int] = field(default_factory=list)
    output: int = 0
    reads_sizes: bool = False

    @staticmethod
    def make(
        block: TapedBlock,
        recording: BlockRecording,
        output: ValueRef,
    ) -> "BlockProgram | None":
        """Make the program of a block that was recorded.

        Returns:
            None if the block reads tensors that are not its own, overwrites values, or does not
            return a value that it computed.
        """
        for call in recording.calls:
            if any(step.overwrites for step in call.instruction.steps):
                return None
        try:
            module_outputs = _make_outputs_relative(block, recording.module_outputs)
            shared_values = [block.to_relative(ref) for ref in recording.shared_values]
            call_inputs = []
            for call in recording.calls:
                call_inputs.append([block.to_relative(ref) for ref in call.inputs])
            relative_output = block.to_relative(output)
        except KeyError:
            return None
        # A block that returns its input or a parameter computes nothing that could be shared.
        if relative_output < 0:
            return None
        tensor_refs: set[int] = set()
        for refs in call_inputs:
            tensor_refs.update(ref for ref in refs if ref <= FIRST_TENSOR)
        tensor_numbers = sorted(FIRST_TENSOR - ref for ref in tensor_refs)
        # Number the tensors again, counting only those that the program reads.
        renumbered = {}
        for new_number, number in enumerate(tensor_numbers):
            renumbered[FIRST_TENSOR - number] = FIRST_TENSOR - new_number
        calls = []
        for call, refs in zip(recording.calls, call_inputs, strict=True):
            inputs = tuple([renumbered.get(ref, ref) for ref in refs])
            calls.append(ProgramCall(call.instruction, inputs))
        tensors = [TensorSpec.of(block.tensors[number]) for number in tensor_numbers]
        return BlockProgram(
            inputs=(recording.input, *tensors),
            new_values=recording.values,
            calls=calls,
            tensor_numbers=tensor_numbers,
            module_outputs=module_outputs,
            shared_values=shared_values,
            output=relative_output,
            reads_sizes=recording.reads_sizes,
        )

    def find_inputs(self, block: TapedBlock) -> tuple[ValueRef, ...]:
        """Return the inputs of the program for one block."""
        return (block.input, *[block.tensors[number] for number in self.tensor_numbers])

    @cached_property
    def steps(self) -> tuple[Signature, ...]:
        """See `Instruction`."""
        steps: list[Signature] = []
        for call in self.calls:
            steps.extend(call.instruction.steps)
        return tuple(steps)

    def execute(self, call_signature: RunSignature, tensors: Sequence[Tensor]) -> list[Tensor]:
        """See `Instruction`."""
        values: list[Tensor] = []
        for instruction, inputs in self.calls:
            values += instruction.execute(call_signature, _select_values(inputs, values, tensors))
        return values

    def resize(
        self,
        inputs: Sequence[TensorSpec],
        cache: SignatureCache,
    ) -> "BlockProgram | None":
        """See `Instruction`."""
        values: list[TensorSpec] = []
        calls: list[ProgramCall] = []
        for call in self.calls:
            specs = tuple(_select_values(call.inputs, values, inputs))
            instruction = cache.resize(call.instruction, specs)
            if instruction is None:
                return None
            values += instruction.new_values
            calls.append(ProgramCall(instruction, call.inputs))
        return BlockProgram(tuple(inputs), values, calls)


def _make_outputs_relative(
    block: TapedBlock,
    outputs: Sequence[ModuleOutput],
) -> list[tuple[int, int | None, int]]:
    module_numbers = {id(module): number for number, module in enumerate(block.modules)}
    relative = []
    for ref, source, module in outputs:
        relative_source = None if source is None else block.to_relative(source)
        relative.append((block.to_relative(ref), relative_source, module_numbers[id(module)]))
    return relative


def _select_values(refs: Sequence[int], values: Sequence[T], inputs: Sequence[T]) -> list[T]:
    """Resolve relative references: computed values, or inputs of the program."""
    return [values[ref] if ref >= 0 else inputs[-1 - ref] for ref in refs]
