"""Many probes at once: what each would measure by forward passes of its own is measured in lock-step and told to them.

Nothing else changes. A probe that was told its features and motions is asked as any other, and what it was not told it
measures itself; so a proxy reads the same numbers (up to the last digits of float32, since kernels for many networks
add in another order), and whatever cannot be done together is done alone, with the failure that it has alone.

A batch norm over a few values divides by their spread, and a network of such norms makes percents of last digits: these
networks are looked at alone.

What to measure is not declared but seen: `Look.at` a probe that proxies have read, and `look.ahead` for others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.features import Feature, matrices, stacked_ratios
from untrained.probe.flops import FlopCounter, Operation
from untrained.probe.guard import full_precision
from untrained.probe.jets import Jet
from untrained.probe.layouts import stacked
from untrained.probe.lockstep import Piece, Played, Tally, play
from untrained.probe.probe import Probe, logits
from untrained.probe.signatures import META, Signatures
from untrained.probe.tape import Ref, Tape
from untrained.probe.writing import listening, write
from untrained.rng import seed_for

FEW = 16  # values that a batch norm must see a channel


@dataclass(frozen=True)
class View:
    """What was measured by forward passes on the first samples of a batch."""

    samples: int
    features: bool
    conditions: str  # "leaves", "all" or "": of which features condition numbers were asked for
    circles: tuple[tuple[int, ...], ...]  # shapes of circles of inputs
    operations: bool = False  # whether they were counted

    @staticmethod
    def of(probe: Probe) -> "View":
        features: tuple[Feature, ...] = vars(probe).get("features", ())
        asked = [feature for feature in features if id(feature) in probe._ratios]
        leaves = all(feature.leaf_calls for feature in asked)
        conditions = "" if not asked else "leaves" if leaves else "all"
        counted = bool(features) and len(probe.batch) == 1 and "operations" in vars(probe)
        return View(len(probe.batch), bool(features), conditions, tuple(probe._jets), counted)


@dataclass(frozen=True)
class Look:
    """What proxies read of a probe, as far as it can be measured for many networks at once."""

    views: tuple[View, ...]

    @staticmethod
    def at(probe: Probe) -> "Look":
        seen = [View.of(view) for view in probe._family if view._offset == 0]
        return Look(tuple(view for view in seen if view.features or view.circles))

    def ahead(self, probes: Sequence[Probe], known: Signatures, tally: Tally | None = None) -> None:
        """Measure for all probes together and tell them. Running out of memory is raised, all else is left alone."""
        for view in self.views if probes else ():
            _Company([probe.first(view.samples) for probe in probes], view, known, tally).look()

    def told(self, probe: Probe) -> bool:
        """Whether the probe knows all of it already."""
        for view in self.views:
            mine = probe.first(view.samples)
            if (view.features and "features" not in vars(mine)) or not set(view.circles) <= set(mine._jets):
                return False
        return True


class _Company:
    """Probes that look at equally many samples."""

    def __init__(self, probes: Sequence[Probe], view: View, known: Signatures, tally: Tally | None) -> None:
        self.probes, self.view, self.known, self.tally = probes, view, known, tally
        self._written: dict[Probe, tuple[tuple[int, ...], Tape]] = {}  # for which shape

    def look(self) -> None:
        with full_precision(), torch.inference_mode(False), torch.no_grad():
            if self.view.features:
                self._features()
            for shape in self.view.circles:
                self._motions(shape)

    def _features(self) -> None:
        inputs = [probe.batch.inputs for probe in self.probes]
        tapes = self._tapes(tuple(inputs[0].shape))
        there = list(self._played(tapes, inputs, lambda tape: [tape.output, *(f.ref for f in tape.features)]))
        seen = _on_cpu([played[tape.output] for _, tape, played in there])
        for (probe, tape, played), outputs in zip(there, seen, strict=True):
            found = tuple(Feature(played[f.ref], f.name, f.calls, f.leaf_calls) for f in tape.features)
            probe.tell(played[tape.output], found, outputs)
            if self.view.operations and tape.whole:
                vars(probe).setdefault("operations", _operations(probe, tape))
        if self.view.conditions:
            self._conditions(there)

    def _conditions(self, there: "Sequence[tuple[Probe, Tape, Played]]") -> None:
        everything, asked, pieces = self.view.conditions == "all", [], []
        for probe, tape, played in there:
            pairs = [(f, told.ref) for f, told in zip(probe.features, tape.features, strict=True)]
            pairs = [(f, ref) for f, ref in pairs if everything or f.leaf_calls]
            asked.append((probe, [f for f, _ in pairs]))
            pieces += [played.piece(ref) for _, ref in pairs]
        found = iter(_ratios(pieces))
        for probe, features in asked:
            mine = {id(feature): next(found) for feature in features}
            if not any(ratio != ratio for ratio in mine.values()):  # a network that is not finite hears so by itself
                probe._ratios.update(mine)

    def _motions(self, shape: tuple[int, ...]) -> None:
        tapes = self._tapes((1, *shape))
        with torch.inference_mode():
            planes = [probe.plane(shape) for probe in self.probes]
            starts = [Jet.of(u1, torch.stack([u2, -u1])) for u1, u2 in planes]
            ends = [(p, played[t.output]) for p, t, played in self._played(tapes, starts, lambda tape: [tape.output])]
        moved = [(probe, out) for probe, out in ends if isinstance(out, Jet)]
        motions = _on_cpu([torch.cat([out.value[None], out.tail]).flatten(1) for _, out in moved])
        for (probe, _), (value, velocity, acceleration) in zip(moved, motions, strict=True):
            probe._jets[shape] = value, velocity, acceleration

    def _tapes(self, shape: tuple[int, ...]) -> list[Tape | None]:
        """What could be written down, and of that what can be played together."""
        with listening():
            made = [self._tape(probe, shape) for probe in self.probes]
        return [tape if tape and not _delicate(tape) else None for tape in made]

    def _tape(self, probe: Probe, shape: tuple[int, ...]) -> Tape | None:
        """The tape of a network, which at another size is mostly the first one with other sizes."""
        fake = torch.empty(*shape, dtype=probe.batch.inputs.dtype, device=META)
        before = self._written.get(probe)
        if before is not None:
            first, tape = before
            again = tape if first == shape else tape.resized(fake, self.known)
            if again is not None:
                return again
        seed = seed_for("forward", probe.seed)
        made = write(probe.model, fake, self.known, seed=seed, read=logits)
        if not isinstance(made, Tape):
            return None
        self._written[probe] = shape, made
        return made

    def _played(
        self, tapes: Sequence[Tape | None], inputs: Sequence[Tensor], wanted: Callable[[Tape], Iterable[Ref]]
    ) -> Iterator[tuple[Probe, Tape, Played]]:
        """Those whose tape was written and played to its end."""
        there = [(probe, tape, x) for probe, tape, x in zip(self.probes, tapes, inputs, strict=True) if tape]
        if not there:
            return
        keep = [{ref for ref in wanted(tape) if isinstance(ref, int)} for _, tape, _ in there]
        start = stacked([x for _, _, x in there])
        found = play([tape for _, tape, _ in there], start, keep, self.tally)
        for (probe, tape, _), played in zip(there, found, strict=True):
            if played.error is None:
                yield probe, tape, played


def _ratios(pieces: Sequence[Piece]) -> list[float]:
    """The condition of each piece; gathered by the stacks in which they lie, a few large copies for many small ones."""
    lying: dict[int, list[int]] = defaultdict(list)
    for i, piece in enumerate(pieces):
        lying[id(piece.stack)].append(i)
    stacks = []
    for members in lying.values():
        members.sort(key=lambda i: pieces[i].place)
        stack, places = pieces[members[0]].stack, [pieces[i].place for i in members]
        whole = places == list(range(len(stack)))
        stacks.append(matrices(stack[:, 0] if whole else torch.stack([stack[place, 0] for place in places])))
    found = dict(zip(chain.from_iterable(lying.values()), stacked_ratios(stacks).tolist(), strict=True))
    return [found[i] for i in range(len(pieces))]


def _on_cpu(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Copies on the CPU, in one move where shapes allow: a GPU is waited for once, and not for each of them."""
    if len({tensor.shape for tensor in tensors}) != 1:
        return [tensor.cpu() for tensor in tensors]
    return torch.stack(list(tensors)).cpu().unbind()


def _delicate(tape: Tape) -> bool:
    norms = (step.inputs[0].shape for step in tape.steps() if step.func is F.batch_norm)
    return any(shape.numel() < FEW * shape[1] for shape in norms)


def _operations(probe: Probe, tape: Tape) -> tuple[Operation, ...]:
    """What `Probe.operations` counts: a copy of the first sample, and the pass."""
    with FlopCounter() as counter:
        probe._inputs()[:1]
    return *counter.operations, *tape.operations()
