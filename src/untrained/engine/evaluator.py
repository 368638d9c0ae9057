"""Evaluators turn architectures into records.

`ProxyEvaluator` scores networks with proxies. Tables of known results and short trainings are
evaluators too, so a strategy does not depend on where its records come from. Path of a request:

    ProxyEvaluator -> Executor (executors/) -> Worker and its BuiltNetwork (worker.py)

Requests whose records are in the store are not sent. New records are stored as soon as they arrive,
by the process that runs the evaluator and no other.
"""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from untrained.data import DataSource
from untrained.engine.devices import check_device
from untrained.engine.executors.base import Executor, InlineExecutor
from untrained.engine.seed_batches import SeedBatches
from untrained.engine.worker import BuildFunction, PrepareWeights, RequestGroup, Worker
from untrained.proxies import Proxy
from untrained.runs.store import Store
from untrained.types import FRESH, Arch, Record, ScoreKey, ScoreRequest


class Evaluator(Protocol):
    """Yields one list of records per architecture, in the order of `archs`."""

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]: ...


@dataclass
class ProxyEvaluator:
    """Scores architectures with proxies, once per seed.

    Attributes:
        batches: Samples and seeds.
        proxies: What to measure.
        executor: Where the work runs.
        device: Where networks are measured; its type is part of a score's key.
        store: Where records are kept; None if they are not stored.
        init: Identity of the weights that networks are scored with.
        code: Fingerprint of the user's code that builds the networks.
        networks_per_batch: Number of networks that the workers measure in one pass.
        measured_count: Number of architectures that were measured because a record was missing.
    """

    batches: SeedBatches
    proxies: Sequence[Proxy]
    executor: Executor
    device: str = "cpu"
    store: Store | None = None
    init: str = FRESH
    code: str = ""
    networks_per_batch: int = 1
    measured_count: int = 0

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """Score architectures with all proxies and seeds.

        Records are stored in the order in which they arrive from the executor.

        Args:
            archs: What to score.

        Yields:
            The records of one architecture after the other, in the order of `archs`; those of one
            architecture in the order of seeds and proxies.
        """
        keys_by_arch: dict[Arch, list[ScoreKey]] = {}
        requests_by_key: dict[ScoreKey, ScoreRequest] = {}
        for arch in archs:
            keys = []
            for request in self.make_requests(arch):
                key = request.key
                keys.append(key)
                requests_by_key[key] = request
            keys_by_arch[arch] = keys

        records = self._read_stored(requests_by_key)
        missing_requests = []
        for key, request in requests_by_key.items():
            if key not in records:
                missing_requests.append(request)
        groups = _group_by_network(missing_requests)
        archs_to_measure = {group[0].arch for group in groups}

        # Records arrive in any order. An architecture is yielded once all of its records and all
        # architectures before it are complete.
        incomplete_archs = deque(archs)
        with closing(self._measure(groups)) as record_lists:
            for new_records in record_lists:
                for record in new_records:
                    records[record.key] = record
                while incomplete_archs:
                    arch = incomplete_archs[0]
                    if not all(key in records for key in keys_by_arch[arch]):
                        break
                    incomplete_archs.popleft()
                    if arch in archs_to_measure:
                        self.measured_count += 1
                    yield [records[key] for key in keys_by_arch[arch]]

    def make_requests(self, arch: Arch) -> list[ScoreRequest]:
        """Return the requests about one architecture, in the order of seeds and proxies."""
        requests = []
        for seed in self.batches.seeds:
            for proxy in self.proxies:
                request = ScoreRequest(
                    arch,
                    proxy.measure,
                    self.batches.source.task,
                    seed,
                    data=self.batches.get_fingerprint(proxy.samples, seed),
                    init=self.init,
                    device=torch.device(self.device).type,
                    code=self.code,
                    networks_per_batch=self.networks_per_batch,
                )
                requests.append(request)
        return requests

    def _read_stored(self, keys: Iterable[ScoreKey]) -> dict[ScoreKey, Record]:
        """Return the records in the store that need not be measured again."""
        records: dict[ScoreKey, Record] = {}
        if self.store is None or len(self.store) == 0:
            return records
        for key in keys:
            record = self.store.get(key)
            if record is not None and record.is_reusable:
                records[key] = record
        return records

    def _measure(self, groups: Sequence[RequestGroup]) -> Generator[list[Record]]:
        """Yield records as they arrive from the executor, after storing them."""
        # The empty list lets the caller yield architectures whose records are all in the store.
        yield []
        if not groups:
            return
        for index, worker_records in self.executor.map(groups):
            # Records from another process hold a copy of their request. It is replaced by our own
            # request, so that a long search keeps one copy of each architecture and task.
            records = []
            for request, record in zip(groups[index], worker_records, strict=True):
                records.append(replace(record, request=request))
            if self.store is not None:
                self.store.add(records)
            yield records


def make_inline_evaluator(
    build: BuildFunction,
    source: DataSource,
    proxies: Sequence[Proxy],
    seeds: Sequence[int] = (0,),
    device: str = "cpu",
    store: Store | None = None,
    single_thread: bool = True,
    init: str = FRESH,
    prepare_weights: PrepareWeights | None = None,
    code: str = "",
) -> ProxyEvaluator:
    """Return an evaluator that works in this process and builds networks with any function.

    Args:
        build: Builds the network of an architecture.
        source: Where samples come from.
        proxies: What to measure.
        seeds: One record per architecture, proxy and seed.
        device: Where networks are measured.
        store: Where records are kept; None if they are not stored.
        single_thread: Whether to compute with one thread, as worker processes do.
        init: Identity of the weights.
        prepare_weights: Changes the weights of networks if `init` is not `FRESH`.
        code: Fingerprint of the user's code that builds the networks.

    Raises:
        UsageError: This machine cannot compute on the device.
    """
    check_device(device)
    batches = SeedBatches.for_proxies(source, proxies, seeds)
    worker = Worker(
        build=build,
        proxies=proxies,
        loss=source.task.loss,
        batches=batches.draw_largest_batches(),
        device=device,
        prepare_weights=prepare_weights,
    )
    return ProxyEvaluator(
        batches=batches,
        proxies=proxies,
        executor=InlineExecutor(worker, single_thread),
        device=device,
        store=store,
        init=init,
        code=code,
    )


def _group_by_network(requests: Iterable[ScoreRequest]) -> list[RequestGroup]:
    """Group requests by architecture and seed, so that a worker builds each network only once."""
    groups: dict[tuple[Arch, int], list[ScoreRequest]] = {}
    for request in requests:
        group = groups.setdefault((request.arch, request.seed), [])
        group.append(request)
    return list(groups.values())
