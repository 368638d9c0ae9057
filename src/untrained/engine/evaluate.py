"""Evaluators turn Archs into Records. This one asks proxies, through whatever executor; benchmark tables and trainings
are others of the same type, so that no strategy knows whom it talks to.

What the store knows is not asked again; what arrives is stored at once, by this process alone.
"""

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.engine.executor import Executor, Inline
from untrained.engine.faults import first_line, kind_of
from untrained.engine.measure import Blanks, Build, Examiner, Warm, usable
from untrained.engine.store import Key, Store, key_of
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.types import FRESH, Arch, Batch, Record


class Evaluator(Protocol):
    """Anything that can judge architectures."""

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]: ...


@dataclass
class ProxyEvaluator:
    """Ask every proxy about every architecture, once a seed."""

    samples: "Samples"
    proxies: Sequence[Proxy]
    executor: Executor
    device: str = "cpu"
    store: Store | None = None
    init: str = FRESH  # the weights that networks are judged with
    measured: int = 0  # architectures of which the store did not know everything

    @staticmethod
    def here(
        build: Build,
        source: Source,
        proxies: Sequence[Proxy],
        seeds: Sequence[int] = (0,),
        device: str = "cpu",
        store: Store | None = None,
        alike: bool = True,
        init: str = FRESH,
        warm: Warm | None = None,
    ) -> "ProxyEvaluator":
        """Asks in this process; `build` may be any function."""
        usable(device)
        samples = Samples.of(source, proxies, seeds)
        examiner = Examiner(build, proxies, source.task.loss, samples.largest(), device, warm)
        return ProxyEvaluator(samples, proxies, Inline(examiner, alike), device, store, init)

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """The records of one architecture after the other, in the order in which they were asked for, and for each in
        the order of seeds and proxies. They are stored in the order in which they come."""
        wanted = {arch: [blank for seed in self.samples.seeds for blank in self._blanks(arch, seed)] for arch in archs}
        found = self._known([blank for blanks in wanted.values() for blank in blanks])
        questions: dict[tuple[Arch, int], list[Record]] = {}
        for blank in (blank for blanks in wanted.values() for blank in blanks if key_of(blank) not in found):
            questions.setdefault((blank.arch, blank.seed), []).append(blank)
        unknown = {arch for arch, _ in questions}
        waiting = deque(archs)
        with closing(self._answers(list(questions.values()))) as answers:
            for records in answers:
                found.update((key_of(record), record) for record in records)
                while waiting and all(key_of(blank) in found for blank in wanted[waiting[0]]):
                    arch = waiting.popleft()
                    self.measured += arch in unknown
                    yield [found[key_of(blank)] for blank in wanted[arch]]

    def _answers(self, questions: Sequence[Blanks]) -> Generator[list[Record]]:
        """Nothing at first, so that what is known already can be told; then the answers as they come, stored."""
        yield []
        for place, answers in self.executor.map(questions) if questions else ():
            records = [_adopted(blank, answer) for blank, answer in zip(questions[place], answers, strict=True)]
            if self.store is not None:
                self.store.add(records)
            yield records

    def _known(self, blanks: Blanks) -> dict[Key, Record]:
        """What the store has; a failure of the machine counts as nothing."""
        if self.store is None or not len(self.store):
            return {}
        found = {key: self.store.get(key) for key in map(key_of, blanks)}
        return {key: r for key, r in found.items() if r is not None and not (r.error and r.error.passing)}

    def _blanks(self, arch: Arch, seed: int) -> list[Record]:
        """The records as far as they are known before anything is measured."""
        task, data, kind = self.samples.source.task, self.samples.fingerprint, torch.device(self.device).type
        return [
            Record(arch, p.measure, task, seed, 0.0, data=data(p.samples, seed), init=self.init, device=kind)
            for p in self.proxies
        ]


def _adopted(blank: Record, answer: Record) -> Record:
    """The answer about our own architecture and task: what another process sends back are copies, and a long search
    would keep one of everything for each record."""
    ours = {name: getattr(blank, name) for name in ("arch", "measure", "task", "data", "init", "dtype", "device")}
    return replace(answer, **ours)


@dataclass(frozen=True)
class Samples:
    """The batches of a run: one a seed, large enough for every proxy, each of which sees its first samples."""

    source: Source
    seeds: Sequence[int]
    most: int
    _batches: dict[tuple[int, int], tuple[Batch, str]] = field(default_factory=dict)

    @staticmethod
    def of(source: Source, proxies: Sequence[Proxy], seeds: Sequence[int]) -> "Samples":
        return Samples(source, seeds, max(proxy.samples for proxy in proxies))

    def largest(self) -> dict[int, Batch]:
        return {seed: self._drawn(self.most, seed)[0] for seed in self.seeds}

    def fingerprint(self, samples: int, seed: int) -> str:
        return self._drawn(samples, seed)[1]

    def _drawn(self, samples: int, seed: int) -> tuple[Batch, str]:
        if (samples, seed) not in self._batches:
            batch = self._draw(samples, seed)
            self._batches[samples, seed] = batch, fingerprint(batch)
        return self._batches[samples, seed]

    def _draw(self, samples: int, seed: int) -> Batch:
        try:
            return self.source.batch(samples, seed)
        except (RuntimeError, MemoryError) as error:
            why = "they do not fit into memory" if kind_of(error) == "oom" else first_line(error)
            raise UsageError(f"no samples for {self.source.task}: {why}; choose another input shape") from error
