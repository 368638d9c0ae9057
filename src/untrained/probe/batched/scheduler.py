"""Run the tapes of many networks together, equal calls as one call.

Networks of a space differ in wiring, not in layers. All calls whose inputs are available are
grouped by what they do (a signature, or the program of a block). One group runs, and its results
make other calls ready. The next group is the one that is ready in the largest share of the networks
that will make such a call. So a layer that all networks have waits for the slowest network, and the
calls after it can be grouped again.

Values are in stacks, (G, *shape), as they were computed. A group whose inputs are one whole stack
in its order uses the stack as it is; otherwise parts are copied together. A value is released after
its last use.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from untrained.errors import is_out_of_memory
from untrained.probe.batched.folds import call_folded
from untrained.probe.batched.layouts import map_stack, stack_values
from untrained.probe.batched.signatures import Instruction, Signature
from untrained.probe.batched.tape import Tape, TapeCall, ValueRef
from untrained.probe.jets import Jet


class StackSlice(NamedTuple):
    """The value of one network in a stack.

    Attributes:
        stack: The stack.
        position: Index of the value in the stack.
        number: Number of stacks that were made before, which orders stacks reproducibly.
    """

    stack: Tensor
    position: int
    number: int = 0

    def extract(self) -> Tensor:
        """Return the value."""
        return map_stack(lambda t, axis: t.select(axis, self.position), self.stack)


@dataclass(eq=False)
class TapeResult:
    """The values of one network that were requested, or the error that ended its tape."""

    values: dict[int, StackSlice]
    error: Exception | None = None

    def __getitem__(self, ref: ValueRef) -> Tensor:
        if isinstance(ref, int):
            return self.values[ref].extract()
        return ref

    def find_slice(self, ref: ValueRef) -> StackSlice:
        """Return where a value is; a constant is a stack of one."""
        if isinstance(ref, int):
            return self.values[ref]
        return StackSlice(ref[None], 0)


@dataclass
class RunStatistics:
    """Counts of calls, which show how much was computed together.

    Attributes:
        calls: Number of calls if every network ran alone.
        groups: Number of calls that were actually made, for one network or for several.
        stacks: Number of stacks that these calls returned.
    """

    calls: int = 0
    groups: int = 0
    stacks: int = 0


ReadyCall = tuple["_TapeRun", TapeCall]
GroupKey = tuple[Instruction, tuple[bool, ...]]  # what is done, and which inputs are jets


def run_tapes(
    tapes: Sequence[Tape],
    start: Tensor,
    requested: Sequence[set[int]],
    statistics: RunStatistics | None = None,
) -> list[TapeResult]:
    """Run all tapes.

    A network whose call raises is dropped, and the others continue. If memory runs out, the
    exception is raised, because it concerns all networks.

    Args:
        tapes: The tapes.
        start: Stack of their inputs.
        requested: The values of each tape that are kept.
        statistics: Updated if given.

    Returns:
        One result per tape.
    """
    statistics = statistics or RunStatistics()
    runs = []
    for position, (tape, keep) in enumerate(zip(tapes, requested, strict=True)):
        runs.append(_TapeRun(tape, keep, StackSlice(start, position)))
    ready: dict[GroupKey, list[ReadyCall]] = defaultdict(list)
    # Number of networks that still have such a call to make.
    pending_networks: Counter[Instruction] = Counter()
    for run in runs:
        pending_networks.update(run.remaining.keys())
        for call in run.find_first_calls():
            ready[run.make_group_key(call)].append((run, call))

    def rate_group(key: GroupKey) -> tuple[float, int]:
        size = len(ready[key])
        return size / max(1, pending_networks[key[0]]), size

    while ready:
        key = max(ready, key=rate_group)
        group = [(run, call) for run, call in ready.pop(key) if run.error is None]
        if group:
            _run_group(group, statistics)
        for run, call in group:
            if run.error is not None:
                # Others no longer wait for the calls of this network.
                pending_networks.subtract(run.remaining.keys())
                run.stop()
                continue
            if run.finish_call(call):
                pending_networks[key[0]] -= 1
            for next_call in run.release_inputs(call):
                ready[run.make_group_key(next_call)].append((run, next_call))
    return [TapeResult(run.values, run.error) for run in runs]


class _TapeRun:
    """The state of one tape while it runs.

    Attributes:
        error: The error of a call, which ends the tape.
        values: Computed values by number.
        remaining: Number of calls to make, by instruction.
    """

    def __init__(self, tape: Tape, keep: set[int], start: StackSlice) -> None:
        self.error: Exception | None = None
        self.values: dict[int, StackSlice] = {0: start}
        self.remaining = Counter(call.instruction for call in tape.calls)
        self._tape = tape
        self._keep = keep
        self._readers: dict[int, list[int]] = defaultdict(list)  # calls that read a value
        self._missing: list[int] = []  # how many values each call waits for
        for index, call in enumerate(tape.calls):
            numbers = _find_computed_inputs(call)
            self._missing.append(len(numbers))
            for number in numbers:
                self._readers[number].append(index)
        self._reads_left = {number: len(calls) for number, calls in self._readers.items()}

    def find_first_calls(self) -> list[TapeCall]:
        """Return the calls that can be made at the start."""
        calls = []
        for call, missing in zip(self._tape.calls, self._missing, strict=True):
            if not missing:
                calls.append(call)
        return calls + self._find_ready_calls(0)

    def make_group_key(self, call: TapeCall) -> GroupKey:
        """Return what must be equal for calls to run together."""
        are_jets = []
        for ref in call.inputs:
            are_jets.append(isinstance(ref, int) and isinstance(self.values[ref].stack, Jet))
        return call.instruction, tuple(are_jets)

    def finish_call(self, call: TapeCall) -> bool:
        """Count a call as made; return whether it was the last one with its instruction."""
        self.remaining[call.instruction] -= 1
        if self.remaining[call.instruction]:
            return False
        del self.remaining[call.instruction]
        return True

    def keep_results(
        self,
        call: TapeCall,
        stacks: Sequence[tuple[Tensor, int]],
        position: int,
    ) -> None:
        """Keep the results that will be read."""
        for output, (stack, number) in zip(call.outputs, stacks, strict=True):
            # A block program also returns values that are not used outside of the block.
            if output in self._reads_left or output in self._keep:
                self.values[output] = StackSlice(stack, position, number)

    def stop(self) -> None:
        """Release everything after an error."""
        self.remaining.clear()
        self.values.clear()

    def release_inputs(self, call: TapeCall) -> list[TapeCall]:
        """Release inputs after their last use; return the calls that can be made now."""
        calls = []
        for output in call.outputs:
            calls.extend(self._find_ready_calls(output))
        for number in _find_computed_inputs(call):
            self._reads_left[number] -= 1
            if not self._reads_left[number] and number not in self._keep:
                del self.values[number]
        return calls

    def _find_ready_calls(self, number: int) -> list[TapeCall]:
        """Return the calls that waited only for this value."""
        calls = []
        for index in self._readers.get(number, ()):
            self._missing[index] -= 1
            if not self._missing[index]:
                calls.append(self._tape.calls[index])
        return calls

    def find_input(self, ref: ValueRef) -> StackSlice | Tensor:
        """Return a computed value or a constant."""
        if isinstance(ref, int):
            return self.values[ref]
        return ref


def _find_computed_inputs(call: TapeCall) -> set[int]:
    return {ref for ref in call.inputs if isinstance(ref, int)}


def _run_group(group: list[ReadyCall], statistics: RunStatistics) -> None:
    """Make all calls of a group, at once if there are folds for them."""
    # In this order the inputs are often one whole stack, which needs no copy.
    group.sort(key=_get_sort_key)
    first_call = group[0][1]
    steps = len(first_call.instruction.steps)
    statistics.calls += steps * len(group)
    if len(group) > 1:
        results = _call_together(group)
        if results is not None:
            stacks = _number_stacks(results, statistics)
            statistics.groups += steps
            for position, (run, call) in enumerate(group):
                run.keep_results(call, stacks, position)
            return
    for run, call in group:
        statistics.groups += steps
        try:
            results = _call_alone(run, call)
            run.keep_results(call, _number_stacks(results, statistics), 0)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            run.error = error


def _number_stacks(
    stacks: Sequence[Tensor],
    statistics: RunStatistics,
) -> list[tuple[Tensor, int]]:
    numbered = []
    for stack in stacks:
        numbered.append((stack, statistics.stacks))
        statistics.stacks += 1
    return numbered


def _get_sort_key(ready_call: ReadyCall) -> tuple[int, int]:
    """Return the stack of the first computed input and the position in it, as a sort key."""
    run, call = ready_call
    for ref in call.inputs:
        if isinstance(ref, int):
            first = run.values[ref]
            return first.number, first.position
    return 0, 0


def _call_together(group: list[ReadyCall]) -> list[Tensor] | None:
    instruction = group[0][1].instruction
    columns = []
    for k in range(len(instruction.inputs)):
        columns.append(gather_stack([run.find_input(call.inputs[k]) for run, call in group]))
    if not columns:
        return None
    try:
        return instruction.execute(_call_for_all, columns)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        # One network may be the cause, so each is called alone.
        return None


def _call_for_all(signature: Signature, columns: Sequence[Tensor]) -> list[Tensor]:
    """Make one call for all networks, or one per network if there is no fold."""
    stacks = list(columns)
    if signature.overwrites:
        # Other calls may still read the old values.
        stacks[0] = map_stack(lambda t, _: t.clone(), stacks[0])
    device = stacks[0].device
    result = call_folded(signature, stacks, device)
    if result is not None:
        return signature.select_new(result)
    values_by_stack = [map_stack(lambda t, axis: t.unbind(axis), stack) for stack in stacks]
    results = []
    for tensors in zip(*values_by_stack, strict=True):
        results.append(signature.select_new(signature.call(tensors, device)))
    return [stack_values(values) for values in zip(*results, strict=True)]


def _call_alone(run: _TapeRun, call: TapeCall) -> list[Tensor]:
    """Make the call of one network; its results are stacks of one."""
    inputs = []
    for ref in call.inputs:
        value = run.find_input(ref)
        inputs.append(value.extract() if isinstance(value, StackSlice) else value)
    device = next(iter(run.values.values())).stack.device

    def run_signature(signature: Signature, tensors: Sequence[Tensor]) -> list[Tensor]:
        arguments = list(tensors)
        if signature.overwrites:
            arguments[0] = map_stack(lambda t, _: t.clone(), arguments[0])
        return signature.select_new(signature.call(arguments, device))

    results = call.instruction.execute(run_signature, inputs)
    return [map_stack(lambda t, axis: t.unsqueeze(axis), result) for result in results]


class _StackRange(NamedTuple):
    """Neighbouring values of one stack."""

    stack: Tensor
    start: int
    stop: int


def gather_stack(values: Sequence[StackSlice | Tensor]) -> Tensor:
    """Return one stack of all values, or of all constants."""
    slices = [value for value in values if isinstance(value, StackSlice)]
    if len(slices) < len(values):
        tensors = []
        for value in values:
            tensors.append(value.extract() if isinstance(value, StackSlice) else value)
        return torch.stack(tensors)
    ranges = _merge_neighbours(slices)
    if len(ranges) == 1:
        stack, start, stop = ranges[0]
        if stop - start == len(stack):
            return stack
        return map_stack(lambda t, axis: t.narrow(axis, start, stop - start), stack)
    if not isinstance(ranges[0].stack, Jet):
        return _copy_ranges(ranges, 0)
    value_ranges = []
    derivative_ranges = []
    for stack_range in ranges:
        assert isinstance(stack_range.stack, Jet)  # the same for all calls of a group
        value_ranges.append(stack_range._replace(stack=stack_range.stack.value))
        derivative_ranges.append(stack_range._replace(stack=stack_range.stack.derivatives))
    return Jet.of(_copy_ranges(value_ranges, 0), _copy_ranges(derivative_ranges, 1))


def _merge_neighbours(slices: Sequence[StackSlice]) -> list[_StackRange]:
    """Return the ranges of stacks that the slices form, in order."""
    ranges: list[_StackRange] = []
    for stack, position, _ in slices:
        if ranges and ranges[-1].stack is stack and ranges[-1].stop == position:
            ranges[-1] = ranges[-1]._replace(stop=position + 1)
        else:
            ranges.append(_StackRange(stack, position, position + 1))
    return ranges


def _copy_ranges(ranges: Sequence[_StackRange], axis: int) -> Tensor:
    """Copy parts of stacks into one stack."""
    shape = ranges[0].stack.shape[axis + 1 :]
    # Each stack is flattened once: on a GPU, torch.cat is one kernel for up to four axes.
    flat_stacks: dict[int, Tensor] = {}
    parts = []
    for stack, start, stop in ranges:
        if id(stack) not in flat_stacks:
            flat_stacks[id(stack)] = stack.reshape(*stack.shape[: axis + 1], shape.numel())
        parts.append(flat_stacks[id(stack)].narrow(axis, start, stop - start))
    out = torch.cat(parts, axis)
    return out.reshape(*out.shape[: axis + 1], *shape)
