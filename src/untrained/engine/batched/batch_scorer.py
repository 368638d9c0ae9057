"""Measures many networks in one pass.

Networks are built one by one, measured in one pass, and then scored one by one: the proxies of each
network read what the pass has measured.

The first network is scored alone, to find out what its proxies read. Later passes take the same
measurements for the other networks. A pass that runs out of memory is repeated in halves, and a
network whose measurement fails for another reason is measured alone, so one network cannot affect
the others.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from time import perf_counter

import torch

from untrained.engine.worker import BuiltNetwork, RequestGroup, Worker
from untrained.errors import Interrupted, UsageError, is_out_of_memory
from untrained.probe import Probe
from untrained.probe.batched.plan import MeasurementPlan
from untrained.probe.batched.signatures import SignatureCache
from untrained.types import Record, ScoreRequest

# Largest image for which a pass of many networks is faster on a CPU. With larger images, a single
# network keeps the CPU busy (`benchmarks/population.py`).
MAX_CPU_PIXELS = 28 * 28

# Fraction of a worker's share of the GPU memory that a pass may use. The memory of a pass is
# estimated from that of one network.
MEMORY_FRACTION = 0.75


class BatchScorer:
    """Scores networks in passes.

    Args:
        worker: Builds the networks and provides samples, proxies and the device.
        pass_size: Number of networks per pass. It shrinks to what fits into memory.
    """

    def __init__(self, worker: Worker, pass_size: int) -> None:
        self.pass_size = pass_size
        self._worker = worker
        # Plans by the names and versions of the proxies that will read the measurements. A plan is
        # made from the first network that is scored with these proxies.
        self._plans: dict[tuple[str, ...], MeasurementPlan] = {}
        self._signatures = SignatureCache()
        # Number of networks in the largest pass of the current portion that fitted into memory.
        self._largest_fitting_pass = 1

    def score_groups(self, groups: Sequence[RequestGroup]) -> Iterator[list[Record]]:
        """Score networks and yield the records of each, in the order of `groups`."""
        # All networks of a pass must be scored with the same proxies.
        for measures, consecutive_groups in groupby(groups, _get_measures):
            remaining = list(consecutive_groups)
            while remaining:
                count = 1
                seed = remaining[0][0].seed
                if self._can_measure_in_pass(measures) and self._is_pass_faster(seed):
                    count = self.pass_size
                portion = remaining[:count]
                remaining = remaining[count:]
                self._largest_fitting_pass = 1
                results = self._score_portion(portion, measures)
                # Later passes are not larger than what fitted into memory.
                if self._largest_fitting_pass < len(portion):
                    self.pass_size = self._largest_fitting_pass
                yield from results

    def _can_measure_in_pass(self, measures: tuple[str, ...]) -> bool:
        """Return whether a pass can measure anything that the proxies of these measures read."""
        plan = self._plans.get(measures)
        return plan is not None and bool(plan.views)

    def _is_pass_faster(self, seed: int) -> bool:
        """Return whether one pass for many networks is faster than one pass for each."""
        if torch.device(self._worker.device).type != "cpu":
            return True
        first_channel = self._worker.get_batch(seed).inputs[0, 0]
        return first_channel.numel() <= MAX_CPU_PIXELS

    def _score_portion(
        self, portion: Sequence[RequestGroup], measures: tuple[str, ...]
    ) -> list[list[Record]]:
        """Score networks in one pass, or in halves if they do not fit into memory."""
        if len(portion) == 1:
            return [self._score_alone(portion[0], measures)]
        with pause_garbage_collection():
            results = self._score_in_one_pass(portion, self._plans[measures])
        if results is not None:
            self._largest_fitting_pass = max(self._largest_fitting_pass, len(portion))
            return results
        middle = len(portion) // 2
        first_half = self._score_portion(portion[:middle], measures)
        second_half = self._score_portion(portion[middle:], measures)
        return first_half + second_half

    def _score_alone(self, requests: RequestGroup, measures: tuple[str, ...]) -> list[Record]:
        """Score one network. The first with these proxies also determines the plan of a pass."""
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
            max_networks = _count_networks_in_memory(
                self._worker.device, peak_bytes, self._worker.workers_per_device
            )
            self.pass_size = min(self.pass_size, max_networks)
        return records

    def _score_in_one_pass(
        self, portion: Sequence[RequestGroup], plan: MeasurementPlan
    ) -> list[list[Record]] | None:
        """Measure networks in one pass and score them.

        Returns:
            The records of each network, or None if the pass runs out of memory.
        """
        networks = []
        for requests in portion:
            networks.append(BuiltNetwork(self._worker, requests[0], wait=False))
        device_monitor = networks[0].device_monitor
        start = perf_counter()
        probes = [network.get_probe() for network in networks]
        fits_into_memory = self._measure_probes(
            plan, [probe for probe in probes if probe is not None]
        )
        if not fits_into_memory:
            probes.clear()
            networks.clear()
            device_monitor.free_memory()
            return None
        device_monitor.synchronize()
        shared_seconds = (perf_counter() - start) / len(portion)
        # Whether the pass has measured everything that the proxies of a network read.
        is_measured = [probe is not None and plan.is_complete(probe) for probe in probes]
        measured_count = sum(is_measured)
        # From here on only `networks` refers to the probes, so that they can be freed one by one.
        probes.clear()
        results: list[list[Record]] = []
        for requests, was_measured in zip(portion, is_measured, strict=True):
            # Removed from the list, so that its memory is freed when `network` is assigned again.
            network = networks.pop(0)
            records = network.score_all(requests, shared_seconds)
            if _ran_out_of_memory(records):
                del network
                networks.clear()
                device_monitor.free_memory()
                return None
            networks_in_batch = 1
            if was_measured:
                networks_in_batch = measured_count
            results.append(
                [replace(record, networks_in_batch=networks_in_batch) for record in records]
            )
        return results

    def _measure_probes(self, plan: MeasurementPlan, probes: list[Probe]) -> bool:
        """Measure in one pass what the proxies will read. Return whether memory was sufficient."""
        try:
            plan.measure(probes, self._signatures)
        except (UsageError, Interrupted):
            raise
        except Exception as error:
            # The networks are then measured one by one, and the one that fails gets the failure.
            return not is_out_of_memory(error)
        return True


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off inside the block.

    A pass creates a hundred thousand objects that stay in use. Searching them for garbage again and
    again takes a fifth of the time.
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
    """Return how many networks one worker can hold in the memory of a GPU.

    Args:
        device: The GPU.
        network_bytes: Memory of one network.
        workers: Number of workers that share the GPU in equal parts.
    """
    free, total = torch.cuda.mem_get_info(device)
    available = MEMORY_FRACTION * min(free, total // workers)
    return max(1, int(available) // max(1, network_bytes))
