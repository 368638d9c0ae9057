"""Many questions answered at once: networks are built one after the other, looked at in lock-step, and asked one after
the other, as if each were alone.

The first network of a kind is asked alone, and what its proxies read is measured together for those after it. Whatever
goes wrong together is done again in halves (out of memory) or alone (anything else), so one network spoils no other.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter

import torch

from untrained.engine._sitting import Host, Sitting
from untrained.errors import UsageError, out_of_memory
from untrained.probe import Probe
from untrained.probe.batched.plan import MeasurementPlan
from untrained.probe.batched.signatures import SignatureCache
from untrained.proxies import Proxy
from untrained.types import Record, ScoreRequest

SMALL = 28 * 28  # pixels up to which company pays on a CPU; larger pictures keep it busy one by one
SHARE = 0.75  # of its part of a GPU's memory that a population may fill, as far as one network tells


@dataclass
class Population:
    """Answers questions for an examiner; `size` shrinks to what fits into memory."""

    host: Host
    judges: Mapping[str, Proxy]
    size: int
    _looks: dict[tuple[str, ...], MeasurementPlan] = field(default_factory=dict)  # by the measures that are asked for
    _known: SignatureCache = field(default_factory=SignatureCache)
    _fitted: int = 1  # the largest part of the last population that fitted into memory

    def answers(self, questions: Sequence[Sequence[ScoreRequest]]) -> Iterator[list[Record]]:
        """In the order of asking."""
        for measures, alike in groupby(questions, _measures):
            left = list(alike)
            while left:
                count = self.size if self._worthwhile(measures) and self._pays(left[0][0].seed) else 1
                part, left = left[:count], left[count:]
                self._fitted = 1
                answers = self._answered(part, measures)
                if self._fitted < len(part):
                    self.size = self._fitted
                yield from answers

    def _worthwhile(self, measures: tuple[str, ...]) -> bool:
        """Whether it is known what to look at, and there is something."""
        return measures in self._looks and bool(self._looks[measures].views)

    def _pays(self, seed: int) -> bool:
        """Whether one call for many networks is faster here than a call for each (`benchmarks/population.py`)."""
        on_cpu = torch.device(self.host.device).type == "cpu"
        return not on_cpu or self.host.batch(seed).inputs[0, 0].numel() <= SMALL

    def _answered(self, part: list[Sequence[ScoreRequest]], measures: tuple[str, ...]) -> list[list[Record]]:
        if len(part) == 1:
            return [self._alone(part[0], measures)]
        found = self._together(part, self._looks[measures])
        if found is not None:
            self._fitted = max(self._fitted, len(part))
            return found
        middle = len(part) // 2
        return self._answered(part[:middle], measures) + self._answered(part[middle:], measures)

    def _alone(self, requests: Sequence[ScoreRequest], measures: tuple[str, ...]) -> list[Record]:
        sitting = Sitting(self.host, requests[0])
        records = sitting.asked(self.judges, requests)
        telling = all(record.error is None or record.error.kind == "unsupported" for record in records)
        if measures not in self._looks and self.size > 1 and telling and sitting.probe is not None:
            self._looks[measures] = MeasurementPlan.from_probe(sitting.probe)
            if (each := records[0].peak_bytes) is not None:
                self.size = min(self.size, _room(self.host.device, each, self.host.neighbours))
        return records

    def _together(self, part: list[Sequence[ScoreRequest]], look: MeasurementPlan) -> list[list[Record]] | None:
        """None where not all of it fits into memory; whose fault that is shows in smaller parts."""
        with uncollected():
            return self._looked(part, look)

    def _looked(self, part: list[Sequence[ScoreRequest]], look: MeasurementPlan) -> list[list[Record]] | None:
        sittings = [Sitting(self.host, requests[0], wait=False) for requests in part]
        device, start = sittings[0].device, perf_counter()
        probes = [sitting.look() for sitting in sittings]
        fitted = self._ahead(look, [probe for probe in probes if probe is not None])
        device.wait()
        shared = (perf_counter() - start) / len(part)
        told = [probe is not None and look.is_complete(probe) for probe in probes]
        found: list[list[Record]] = []
        probes.clear()
        for requests, company in zip(part, told, strict=True):
            sitting = sittings.pop(0)  # and it is let go with all that it measures
            if fitted:
                records = sitting.asked(self.judges, requests, shared)
                fitted = not any(record.error is not None and record.error.kind == "oom" for record in records)
                found.append([replace(record, together=sum(told) if company else 1) for record in records])
        if fitted:
            return found
        device.free()
        return None

    def _ahead(self, look: MeasurementPlan, probes: list[Probe]) -> bool:
        """Tell the probes what can be found out together; whether there was memory enough."""
        try:
            look.measure(probes, self._known)
        except UsageError:
            raise
        except Exception as error:  # what nobody was told, everybody measures alone, and fails alone if it must
            return not out_of_memory(error)
        return True


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, Python looks for no garbage: of a hundred thousand new objects that all live on there is none, and to
    find that out again and again takes a fifth of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _measures(requests: Sequence[ScoreRequest]) -> tuple[str, ...]:
    return tuple(request.measure for request in requests)


def _room(device: str, each: int, neighbours: int) -> int:
    """How many networks that take so many bytes a GPU has room for, beside as many of each neighbour."""
    free, total = torch.cuda.mem_get_info(device)
    return max(1, int(SHARE * min(free, total // neighbours)) // max(1, each))
