"""Lock-step: the tapes of many networks played together, calls that do the same as one call.

Networks of a population differ in wiring, not in layers. Whatever calls are ready, because their inputs are there, are
gathered by what they do (a signature, or all of a block, `passages.py`); one group runs, and its results make others
ready. Which group: the one of which the largest part has arrived. A layer that all networks pass through waits for the
slowest, so that they leave it together, and the calls after it meet again.

Values lie in stacks, (G, *shape), as they were computed. A group whose inputs are one whole stack in its order uses it
as it is; otherwise pieces are copied together. A value is let go after its last use. Knows nothing of proxies.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from untrained.errors import out_of_memory
from untrained.probe.folds import folded
from untrained.probe.jets import Jet
from untrained.probe.layouts import each, stacked
from untrained.probe.signatures import Doing, Signature
from untrained.probe.tape import Call, Ref, Tape


class Piece(NamedTuple):
    """One network's part of a stack."""

    stack: Tensor
    place: int
    born: int = 0  # when the stack was made: an order that is the same in every run

    def alone(self) -> Any:
        return each(lambda t, first: t.select(first, self.place), self.stack)


@dataclass(eq=False)
class Played:
    """What came of one tape: the values that somebody wants, or why there are none."""

    values: dict[int, Piece]
    error: Exception | None = None

    def __getitem__(self, ref: Ref) -> Any:
        return self.values[ref].alone() if isinstance(ref, int) else ref

    def piece(self, ref: Ref) -> Piece:
        """Where a value lies; a constant is a stack of one."""
        return self.values[ref] if isinstance(ref, int) else Piece(ref[None], 0)


@dataclass
class Tally:
    """How much was done together."""

    calls: int = 0
    groups: int = 0
    stacks: int = 0  # of values that were made


Waiting = tuple["_Player", Call]


def play(tapes: Sequence[Tape], start: Tensor, wanted: Sequence[set[int]], tally: Tally | None = None) -> list[Played]:
    """Run all tapes, each on its part of the stack `start` of inputs. Of each, the `wanted` values are kept.

    Who raises is dropped, and the others go on; running out of memory is everybody's failure and is raised.
    """
    tally = tally or Tally()
    players = [_Player(tape, keep, Piece(start, i)) for i, (tape, keep) in enumerate(zip(tapes, wanted, strict=True))]
    ready: dict[Any, list[Waiting]] = defaultdict(list)
    to_come: Counter[Doing] = Counter()  # networks that have such calls before them
    for player in players:
        to_come.update(player.left.keys())
        for call in player.begin():
            ready[player.key(call)].append((player, call))
    while ready:
        key = max(ready, key=lambda key: (len(ready[key]) / max(1, to_come[key[0]]), len(ready[key])))
        group = [(player, call) for player, call in ready.pop(key) if player.error is None]
        if group:
            _run(group, tally)
        for player, call in group:
            if player.error is not None:
                to_come.subtract(player.left.keys())
                player.retire()
            else:
                to_come[key[0]] -= player.done(call)
                for new in player.freed(call):
                    ready[player.key(new)].append((player, new))
    return [Played(player.values, player.error) for player in players]


class _Player:
    """One tape on its way."""

    def __init__(self, tape: Tape, keep: set[int], start: Piece) -> None:
        self.tape = tape
        self.error: Exception | None = None
        self.values: dict[int, Piece] = {0: start}
        self.left = Counter(call.doing for call in tape.calls)
        self._keep = keep
        self._readers: dict[int, list[int]] = defaultdict(list)  # calls that wait for a value
        self._missing: list[int] = []  # how many values each call waits for
        for place, call in enumerate(tape.calls):
            needs = {ref for ref in call.inputs if isinstance(ref, int)}
            self._missing.append(len(needs))
            for ref in needs:
                self._readers[ref].append(place)
        self._uses = {ref: len(readers) for ref, readers in self._readers.items()}

    def begin(self) -> list[Call]:
        independent = [call for call, missing in zip(self.tape.calls, self._missing, strict=True) if not missing]
        return independent + self._arrived(0)

    def key(self, call: Call) -> Any:
        """What must be equal for calls to run together: what is done, and which inputs are jets."""
        return call.doing, tuple(
            [isinstance(ref, int) and isinstance(self.values[ref].stack, Jet) for ref in call.inputs]
        )

    def done(self, call: Call) -> bool:
        """Note that a call has run; whether it was the last of its kind."""
        self.left[call.doing] -= 1
        if self.left[call.doing]:
            return False
        del self.left[call.doing]
        return True

    def keep(self, call: Call, stacks: Sequence[tuple[Tensor, int]], place: int) -> None:
        """Keep those results that somebody will read."""
        for number, (stack, born) in zip(call.outputs, stacks, strict=True):
            if number in self._uses or number in self._keep:
                self.values[number] = Piece(stack, place, born)

    def retire(self) -> None:
        self.left.clear()
        self.values.clear()

    def freed(self, call: Call) -> list[Call]:
        """Let go of what the call was the last to read; the calls that can run now."""
        new = [ready for number in call.outputs for ready in self._arrived(number)]
        for ref in {ref for ref in call.inputs if isinstance(ref, int)}:
            self._uses[ref] -= 1
            if not self._uses[ref] and ref not in self._keep:
                del self.values[ref]
        return new

    def _arrived(self, number: int) -> list[Call]:
        new = []
        for place in self._readers.get(number, ()):
            self._missing[place] -= 1
            if not self._missing[place]:
                new.append(self.tape.calls[place])
        return new

    def piece(self, ref: Ref) -> Any:
        return self.values[ref] if isinstance(ref, int) else ref


def _run(group: list[Waiting], tally: Tally) -> None:
    """Make all calls of a group, at once where there are folds for them."""
    group.sort(key=_position)
    launches = len(group[0][1].doing.steps)
    tally.calls += launches * len(group)
    if len(group) > 1:
        results = _together(group)
        if results is not None:
            stacks = _born(results, tally)
            tally.groups += launches
            for place, (player, call) in enumerate(group):
                player.keep(call, stacks, place)
            return
    for player, call in group:
        tally.groups += launches
        try:
            player.keep(call, _born(_alone(player, call), tally), 0)
        except Exception as error:
            if out_of_memory(error):
                raise
            player.error = error


def _born(stacks: Sequence[Tensor], tally: Tally) -> list[tuple[Tensor, int]]:
    """Each stack with its number."""
    first, tally.stacks = tally.stacks, tally.stacks + len(stacks)
    return [(stack, first + i) for i, stack in enumerate(stacks)]


def _position(waiting: Waiting) -> tuple[int, int]:
    """Those whose first computed input lies in one stack come together, in the order of the stack."""
    player, call = waiting
    first = next((player.values[ref] for ref in call.inputs if isinstance(ref, int)), None)
    return (first.born, first.place) if first is not None else (0, 0)


def _together(group: list[Waiting]) -> list[Tensor] | None:
    doing = group[0][1].doing
    columns = [_gathered([player.piece(call.inputs[k]) for player, call in group]) for k in range(len(doing.inputs))]
    if not columns:
        return None
    try:
        return doing.through(_folded, columns)
    except Exception as error:
        if out_of_memory(error):
            raise
        return None  # one of them may be the cause: each is asked alone


def _folded(signature: Signature, columns: Sequence[Tensor]) -> list[Tensor]:
    """A call of all networks at once."""
    stacks = list(columns)
    if signature.overwrites:
        stacks[0] = each(lambda t, _: t.clone(), stacks[0])
    device = stacks[0].device
    result = folded(signature, stacks, device)
    if result is not None:
        return signature.new(result)
    rows = zip(*[each(lambda t, first: t.unbind(first), stack) for stack in stacks], strict=True)
    made = [signature.new(signature.call(row, device)) for row in rows]  # there is no fold
    return [stacked(values) for values in zip(*made, strict=True)]


def _alone(player: _Player, call: Call) -> list[Tensor]:
    """The network's own call; its results are stacks of one."""
    inputs = [p.alone() if isinstance(p, Piece) else p for p in map(player.piece, call.inputs)]
    device = next(iter(player.values.values())).stack.device

    def make(signature: Signature, tensors: Sequence[Any]) -> list[Any]:
        given = list(tensors)
        if signature.overwrites:
            given[0] = each(lambda t, _: t.clone(), given[0])
        return signature.new(signature.call(given, device))

    return [each(lambda t, first: t.unsqueeze(first), x) for x in call.doing.through(make, inputs)]


def _gathered(pieces: list[Any]) -> Any:
    """One stack of all pieces, or of all parameters."""
    if not isinstance(pieces[0], Piece) or not all(isinstance(p, Piece) for p in pieces):
        return torch.stack([p.alone() if isinstance(p, Piece) else p for p in pieces])
    runs: list[tuple[Any, int, int]] = []  # neighbours of one stack: (stack, start, stop)
    for stack, place, _ in pieces:
        if runs and runs[-1][0] is stack and runs[-1][2] == place:
            runs[-1] = (stack, runs[-1][1], place + 1)
        else:
            runs.append((stack, place, place + 1))
    if len(runs) == 1:
        stack, start, stop = runs[0]
        return (
            stack if stop - start == len(stack) else each(lambda t, first: t.narrow(first, start, stop - start), stack)
        )
    if not isinstance(runs[0][0], Jet):
        return _cut(runs, 0)
    values = [(stack.value, start, stop) for stack, start, stop in runs]
    tails = [(stack.tail, start, stop) for stack, start, stop in runs]
    return Jet.of(_cut(values, 0), _cut(tails, 1))


def _cut(runs: Sequence[tuple[Tensor, int, int]], axis: int) -> Tensor:
    """Parts of stacks as one; each stack is made flat once, however many parts it has."""
    shape = runs[0][0].shape[axis + 1 :]
    flat = {id(stack): stack for stack, _, _ in runs}
    flat = {key: stack.reshape(*stack.shape[: axis + 1], shape.numel()) for key, stack in flat.items()}
    parts = [flat[id(stack)].narrow(axis, start, stop - start) for stack, start, stop in runs]
    out = torch.cat(parts, axis)  # on a GPU one kernel, for up to four axes
    return out.reshape(*out.shape[: axis + 1], *shape)
