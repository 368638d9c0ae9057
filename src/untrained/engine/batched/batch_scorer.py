"""Scores many networks at once.

Networks are built one after the other, measured in one pass, and then scored one after the other as
if each were alone.

The first network of a kind is scored alone, to see what its proxies read; that is measured in one
pass for the networks after it. A pass that runs out of memory is repeated in halves, and a network
whose measurement fails for another reason is measured alone, so one network spoils no other.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from untrained.engine.built_network import BuiltNetwork
from untrained.errors import UsageError, is_out_of_memory
from untrained.probe import Probe
from untrained.probe.batched.plan import MeasurementPlan
from untrained.probe.batched.signatures import SignatureCache
from untrained.types import Record, ScoreRequest

if TYPE_CHECKING:
    from untrained.engine.worker import RequestGroup, Worker

# Pixels of an image up to which one pass for many networks is faster on a CPU. Larger images keep a
# CPU busy with one network at a time (`benchmarks/population.py`).
MAX_CPU_PIXELS = 28 * 28

# Fraction of a worker's part of the GPU memory that one pass may fill, as estimated by one network.
MEMORY_FRACTION = 0.75


class BatchScorer:
    """Scores networks in passes.

    Args:
        worker: Builds the networks and provides samples, proxies and the device.
        pass_size: Number of networks per pass. It shrinks to what fits into memory.
    """

    def __init__(self, worker: "Worker", pass_size: int) -> None:
        self.pass_size = pass_size
        self._worker = worker
        # What to measure, by the requested measures. Filled by the first network of each kind.
        self._plans: dict[tuple[str, ...], MeasurementPlan] = {}
        self._signatures = SignatureCache()
        # The largest part of the current pass that fitted into memory.
        self._largest_fit = 1

    def score_groups(self, groups: Sequence["RequestGroup"]) -> Iterator[list[Record]]:
        """Score networks and yield the records of each, in the order of `groups`."""
        for measures, groups_of_kind in groupby(groups, _get_measures):
            remaining = list(groups_of_kind)
            while remaining:
                count = 1
                seed = remaining[0][0].seed
                if self._has_measurements(measures) and self._is_pass_faster(seed):
                    count = self.pass_size
                portion = remaining[:count]
                remaining = remaining[count:]
                self._largest_fit = 1
                results = self._score_portion(portion, measures)
                if self._largest_fit < len(portion):
                    self.pass_size = self._largest_fit
                yield from results

    def _has_measurements(self, measures: tuple[str, ...]) -> bool:
        """Return whether it is known what to measure in a pass, and there is something."""
        plan = self._plans.get(measures)
        return plan is not None and bool(plan.views)

    def _is_pass_faster(self, seed: int) -> bool:
        """Return whether one pass for many networks is faster than one pass for each."""
        if torch.device(self._worker.device).type != "cpu":
            return True
        first_channel = self._worker.get_batch(seed).inputs[0, 0]
        return first_channel.numel() <= MAX_CPU_PIXELS

    def _score_portion(
        self, portion: Sequence["RequestGroup"], measures: tuple[str, ...]
    ) -> list[list[Record]]:
        """Score networks in one pass, or in halves if they do not fit into memory."""
        if len(portion) == 1:
            return [self._score_alone(portion[0], measures)]
        with pause_garbage_collection():
            results = self._score_in_one_pass(portion, self._plans[measures])
        if results is not None:
            self._largest_fit = max(self._largest_fit, len(portion))
            return results
        middle = len(portion) // 2
        first_half = self._score_portion(portion[:middle], measures)
        second_half = self._score_portion(portion[middle:], measures)
        return first_half + second_half

    def _score_alone(self, requests: "RequestGroup", measures: tuple[str, ...]) -> list[Record]:
        """Score one network; the first of a kind also decides what to measure in a pass."""
        network = BuiltNetwork(self._worker, requests[0])
        records = network.score_all(requests)
        if measures in self._plans or self.pass_size == 1 or network.probe is None:
            return records
        # After a failure, a proxy may not have read everything that it usually reads.
        for record in records:
            if record.error is not None and record.error.kind != "unsupported":
                return records
        self._plans[measures] = MeasurementPlan.from_probe(network.probe)
        peak_bytes = records[0].peak_bytes
        if peak_bytes is not None:
            room = _count_networks_in_memory(
                self._worker.device, peak_bytes, self._worker.workers_per_device
            )
            self.pass_size = min(self.pass_size, room)
        return records

    def _score_in_one_pass(
        self, portion: Sequence["RequestGroup"], plan: MeasurementPlan
    ) -> list[list[Record]] | None:
        """Measure networks in one pass and score them.

        Returns:
            The records of each network, or None if not all of it fits into memory. Smaller parts
            show which network is too large.
        """
        networks = []
        for requests in portion:
            networks.append(BuiltNetwork(self._worker, requests[0], wait=False))
        device = networks[0].device
        start = perf_counter()
        probes = [network.get_probe() for network in networks]
        fits = self._measure_probes(plan, [probe for probe in probes if probe is not None])
        device.synchronize()
        shared_seconds = (perf_counter() - start) / len(portion)
        is_measured = [probe is not None and plan.is_complete(probe) for probe in probes]
        measured_count = sum(is_measured)
        # From here on only `networks` refers to the probes, so that each can be freed in turn.
        probes.clear()
        results: list[list[Record]] = []
        for requests, measured in zip(portion, is_measured, strict=True):
            # Removing the network from the list frees its memory when the next one is scored.
            network = networks.pop(0)
            if not fits:
                continue
            records = network.score_all(requests, shared_seconds)
            fits = not _ran_out_of_memory(records)
            together = measured_count if measured else 1
            results.append([replace(record, together=together) for record in records])
        if not fits:
            device.free_memory()
            return None
        return results

    def _measure_probes(self, plan: MeasurementPlan, probes: list[Probe]) -> bool:
        """Measure in one pass what the proxies will read; return whether memory was sufficient."""
        try:
            plan.measure(probes, self._signatures)
        except UsageError:
            raise
        except Exception as error:
            # Probes without these measurements take them alone, and fail alone if they must.
            return not is_out_of_memory(error)
        return True


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off inside the block.

    A pass creates a hundred thousand objects that all stay in use. Searching them for garbage again
    and again takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _get_measures(requests: Sequence[ScoreRequest]) -> tuple[str, ...]:
    return tuple(request.measure for request in requests)


def _ran_out_of_memory(records: Sequence[Record]) -> bool:
    return any(record.error is not None and record.error.kind == "oom" for record in records)


def _count_networks_in_memory(device: str, network_bytes: int, workers: int) -> int:
    """Return how many networks a GPU has room for, if each of its workers has as many.

    Args:
        device: The GPU.
        network_bytes: Memory of one network.
        workers: Number of workers that share the GPU.
    """
    free, total = torch.cuda.mem_get_info(device)
    available = MEMORY_FRACTION * min(free, total // workers)
    return max(1, int(available) // max(1, network_bytes))
