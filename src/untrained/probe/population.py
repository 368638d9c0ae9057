"""Many probes at once: what each would measure by forward passes of its own is measured in lock-step and told to them.

Nothing else changes. A probe that was told its features and motions is asked as any other, and what it was not told it
measures itself; so a proxy reads the same numbers (up to the last digits of float32, since kernels for many networks
add in another order), and whatever cannot be done together is done alone, with the failure that it has alone.

A batch norm over a few values divides by their spread, and a network of such norms makes percents of last digits: these
networks are looked at alone.

What to measure is not declared but seen: `Look.at` a probe that proxies have read, and `look.ahead` for others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.circle import Motion
from untrained.probe.features import Feature, ratios
from untrained.probe.flops import FlopCounter, Operation
from untrained.probe.guard import full_precision
from untrained.probe.jets import Jet
from untrained.probe.lockstep import Played, Tally, play
from untrained.probe.probe import Probe, logits
from untrained.probe.signatures import META, Signatures, Unwritten
from untrained.probe.tape import Tape, write
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
        self.probes, self.view, self.tally = probes, view, tally
        shapes = [tuple(probes[0].batch.inputs.shape)] * view.features + [(1, *shape) for shape in view.circles]
        self.tapes = [_tapes(probe, shapes, known) for probe in probes]

    def look(self) -> None:
        with full_precision(), torch.inference_mode(False), torch.no_grad():
            if self.view.features:
                self._features()
            for place, shape in enumerate(self.view.circles):
                self._motions(place + self.view.features, shape)

    def _features(self) -> None:
        told = []
        inputs = [probe.batch.inputs for probe in self.probes]
        for probe, tape, played in self._played(0, inputs, lambda tape: [tape.output, *(f.ref for f in tape.features)]):
            found = tuple(Feature(played[f.ref], f.name, f.calls, f.leaf_calls) for f in tape.features)
            probe.tell(played[tape.output], found)
            if self.view.operations and tape.whole:
                vars(probe).setdefault("operations", _operations(probe, tape))
            told.append(probe)
        self._conditions(told)

    def _conditions(self, probes: Sequence[Probe]) -> None:
        everything = self.view.conditions == "all"
        asked = [[f for f in p.features if everything or f.leaf_calls] for p in probes if self.view.conditions]
        found = iter(ratios(list(chain.from_iterable(asked))).tolist())
        for probe, features in zip(probes, asked, strict=False):
            mine = {id(feature): next(found) for feature in features}
            if not any(ratio != ratio for ratio in mine.values()):  # a network that is not finite hears so by itself
                probe._ratios.update(mine)

    def _motions(self, place: int, shape: tuple[int, ...]) -> None:
        with torch.inference_mode():
            planes = [probe.plane(shape) for probe in self.probes]
            starts = [Jet.of(u1, torch.stack([u2, -u1])) for u1, u2 in planes]
            moved = [(p, played[tape.output]) for p, tape, played in self._played(place, starts, lambda t: [t.output])]
        for probe, out in moved:
            if isinstance(out, Jet):
                probe._jets[shape] = _motion(out)

    def _played(
        self, place: int, inputs: Sequence[Tensor], wanted: Callable[[Tape], Iterable[object]]
    ) -> Iterator[tuple[Probe, Tape, Played]]:
        """Those whose tape could be written and played to its end."""
        there = [(i, tape) for i, tapes in enumerate(self.tapes) if isinstance(tape := tapes[place], Tape)]
        if not there:
            return
        start = _stacked([inputs[i] for i, _ in there])
        keep = [{ref for ref in wanted(tape) if isinstance(ref, int)} for _, tape in there]
        for (i, tape), played in zip(there, play([tape for _, tape in there], start, keep, self.tally), strict=True):
            if played.error is None:
                yield self.probes[i], tape, played


def _tapes(probe: Probe, shapes: Sequence[tuple[int, ...]], known: Signatures) -> list[Tape | Exception]:
    fakes = [torch.empty(*shape, dtype=probe.batch.inputs.dtype, device=META) for shape in shapes]
    tapes = write(probe.model, fakes, known, seed=seed_for("forward", probe.seed), read=logits)
    return [Unwritten("norms over few values") if isinstance(t, Tape) and _delicate(t) else t for t in tapes]


def _delicate(tape: Tape) -> bool:
    norms = (call.signature.inputs[0].shape for call in tape.calls if call.signature.func is F.batch_norm)
    return any(shape.numel() < FEW * shape[1] for shape in norms)


def _operations(probe: Probe, tape: Tape) -> tuple[Operation, ...]:
    """What `Probe.operations` counts: a copy of the first sample, and the pass."""
    with FlopCounter() as counter:
        probe._inputs()[:1]
    return *counter.operations, *tape.operations()


def _stacked(inputs: Sequence[Tensor]) -> Tensor:
    jets = [x for x in inputs if isinstance(x, Jet)]
    if jets:
        return Jet.of(torch.stack([x.value for x in jets]), torch.stack([x.tail for x in jets], 1))
    return torch.stack(list(inputs))


def _motion(out: Jet) -> Motion:
    velocity, acceleration = out.tail.flatten(1).clone()
    return out.value.flatten().clone(), velocity, acceleration
