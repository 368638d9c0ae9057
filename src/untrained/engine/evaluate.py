"""Evaluators turn Archs into Records. This one asks proxies, through whatever executor; benchmark tables and trainings
are others of the same type, so that no strategy knows whom it talks to.

What the store knows is not asked again; what arrives is stored at once, by this process alone.
"""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.engine.executor import Executor, Inline
from untrained.engine.faults import first_line, kind_of
from untrained.engine.measure import Build, Examiner, Requests, Warm, usable
from untrained.engine.store import Store
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.types import FRESH, Arch, Batch, Record, ScoreKey, ScoreRequest


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
    code: str = ""  # fingerprint of the user's code that builds the networks
    networks_per_pass: int = 1  # as the executor was asked to measure them
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
        code: str = "",
    ) -> "ProxyEvaluator":
        """Asks in this process; `build` may be any function."""
        usable(device)
        samples = Samples.of(source, proxies, seeds)
        examiner = Examiner(build, proxies, source.task.loss, samples.largest(), device, warm)
        return ProxyEvaluator(samples, proxies, Inline(examiner, alike), device, store, init, code)

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """Score architectures with all proxies and seeds.

        Records are stored in the order in which they arrive from the executor.

        Yields:
            The records of one architecture after the other, in the order of `archs`; those of one architecture in the
            order of seeds and proxies.
        """
        keys_of_arch: dict[Arch, list[ScoreKey]] = {}
        requests: dict[ScoreKey, ScoreRequest] = {}
        for arch in archs:
            keys_of_arch[arch] = []
            for request in self.requests_for(arch):
                keys_of_arch[arch].append(request.key)
                requests[request.key] = request
        answers = self._read_known(requests)

        # one question per network: the worker builds it once for all proxies
        questions: dict[tuple[Arch, int], list[ScoreRequest]] = {}
        for key, request in requests.items():
            if key not in answers:
                questions.setdefault((request.arch, request.seed), []).append(request)
        unknown = {arch for arch, _ in questions}

        waiting = deque(archs)
        with closing(self._measure(list(questions.values()))) as arrivals:
            for records in arrivals:
                answers.update((record.key, record) for record in records)
                while waiting and all(key in answers for key in keys_of_arch[waiting[0]]):
                    arch = waiting.popleft()
                    self.measured += arch in unknown
                    yield [answers[key] for key in keys_of_arch[arch]]

    def requests_for(self, arch: Arch) -> list[ScoreRequest]:
        """Everything that is asked about one architecture, in the order of seeds and proxies."""
        requests = []
        for seed in self.samples.seeds:
            for proxy in self.proxies:
                request = ScoreRequest(
                    arch,
                    proxy.measure,
                    self.samples.source.task,
                    seed,
                    data=self.samples.fingerprint(proxy.samples, seed),
                    init=self.init,
                    device=torch.device(self.device).type,
                    code=self.code,
                    networks_per_pass=self.networks_per_pass,
                )
                requests.append(request)
        return requests

    def _measure(self, questions: Sequence[Requests]) -> Generator[list[Record]]:
        """Nothing at first, so that known records can be passed on; then records as they arrive, stored."""
        yield []
        if not questions:
            return
        for place, answers in self.executor.map(questions):
            # Answers from another process are copies. With our own request they share its architecture and task,
            # so that a long search does not keep a copy per record.
            pairs = zip(questions[place], answers, strict=True)
            records = [replace(answer, request=request) for request, answer in pairs]
            if self.store is not None:
                self.store.add(records)
            yield records

    def _read_known(self, keys: Iterable[ScoreKey]) -> dict[ScoreKey, Record]:
        """Records in the store that need not be measured again.

        Failures of the machine are left out, and so are records with a note: earlier versions measured them on half of
        the samples after running out of memory.
        """
        known: dict[ScoreKey, Record] = {}
        if self.store is None or not len(self.store):
            return known
        for key in keys:
            record = self.store.get(key)
            if record is None or record.note or (record.error and record.error.passing):
                continue
            known[key] = record
        return known


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
