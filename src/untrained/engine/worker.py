"""A worker builds networks and scores them. It is independent of stores, strategies and processes.

`Worker` builds a network, `BuiltNetwork` moves it to the device and applies the proxies. Scores and
failures become records in `BuiltNetwork.score`. Executors decide in which process a worker runs.
`worker_setup.py` describes a worker in a form that can be sent to another process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from untrained.engine.devices import DeviceMonitor, check_device
from untrained.engine.failures import catch_failure
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy
from untrained.seeds import derive_seed
from untrained.spaces import Counts
from untrained.types import FRESH, Arch, Batch, Failure, Record, ScoreRequest

if TYPE_CHECKING:
    from untrained.engine.batched.batch_scorer import BatchScorer

# Requests about one network: the same architecture, seed and weights, one request per proxy.
RequestGroup = Sequence[ScoreRequest]

BuildFunction = Callable[[Arch], nn.Module]

# Computes parameters and multiply-adds by formula; returns None if the space has no formula.
CountsFunction = Callable[[Arch], Counts | None]

# Replaces the initial weights of a network, given its architecture and seed.
PrepareWeights = Callable[[nn.Module, Arch, int], None]


def _return_no_counts(arch: Arch) -> Counts | None:
    return None


@dataclass
class Worker:
    """Builds networks and scores them with proxies.

    Attributes:
        build: Builds the network of an architecture.
        proxies: Proxies that requests may name.
        loss: Name of the loss of the task.
        batches: Samples by seed. A proxy that needs fewer samples uses the first ones.
        device: Where networks are measured.
        prepare_weights: Replaces the initial weights, if a request asks for trained weights.
        networks_per_batch: Number of networks that are measured in one pass.
        workers_per_device: Number of workers that share the memory of the device, including this.
        find_counts: Computes parameters and multiply-adds by formula, which is faster than counting
            them on the network.
    """

    build: BuildFunction
    proxies: Sequence[Proxy]
    loss: str
    batches: Mapping[int, Batch]
    device: str = "cpu"
    prepare_weights: PrepareWeights | None = None
    networks_per_batch: int = 1
    workers_per_device: int = 1
    find_counts: CountsFunction = _return_no_counts
    # Samples are moved to the device once and stay there.
    _moved_batches: dict[int, Batch] = field(default_factory=dict)
    _batch_scorer: "BatchScorer | None" = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        self.proxies_by_measure = index_proxies(self.proxies)

    def score(self, requests: RequestGroup) -> list[Record]:
        """Score one network.

        The network is built once, and all proxies share one probe of the largest batch. A proxy
        that needs fewer samples uses the first ones, so no record depends on the other requests.

        Args:
            requests: What to measure. All of them are about the same network.

        Returns:
            One record per request, in the same order.
        """
        network = BuiltNetwork(self, requests[0])
        return network.score_all(requests)

    def score_groups(self, groups: Sequence[RequestGroup]) -> Iterator[list[Record]]:
        """Score several networks.

        Args:
            groups: The requests of each network.

        Yields:
            The records of one network after the other, in the order of `groups`.
        """
        if self.networks_per_batch > 1:
            yield from self._get_batch_scorer().score_groups(groups)
            return
        for requests in groups:
            yield self.score(requests)

    def build_network(self, arch: Arch, seed: int, init: str = FRESH) -> nn.Module:
        """Build a network with the weights of its architecture and seed.

        Args:
            arch: The architecture.
            seed: The weights depend on architecture, seed and `init` only.
            init: Identity of the weights. `prepare_weights` is called if it is not `FRESH`.

        Returns:
            The network.
        """
        check_device(self.device)
        with random_state(derive_seed("weights", arch.space, arch, seed)):
            model = self.build(arch)
        if init != FRESH and self.prepare_weights is not None:
            self.prepare_weights(model, arch, seed)
        return model

    def get_batch(self, seed: int) -> Batch:
        """Return the samples of a seed, on the device."""
        if seed not in self._moved_batches:
            self._moved_batches[seed] = self.batches[seed].to(self.device)
        return self._moved_batches[seed]

    def _get_batch_scorer(self) -> "BatchScorer":
        if self._batch_scorer is None:
            # Most runs measure one network per pass and never need this module.
            from untrained.engine.batched.batch_scorer import BatchScorer

            self._batch_scorer = BatchScorer(self, self.networks_per_batch)
        return self._batch_scorer


class _Inputs(NamedTuple):
    """What a probe needs: the network and the samples, both on the device."""

    model: nn.Module
    batch: Batch


class BuiltNetwork:
    """One network on its device, with the time for building and moving it.

    If the network cannot be built or moved, all its records hold that failure.

    Args:
        worker: Builds the network and provides samples, proxies and the device.
        request: Any request about the network.
        wait: Whether to wait for the device before the clock is read. If `wait` is false, weight
            initialisation on the GPU is billed to the next synchronisation.

    Attributes:
        arch: The architecture.
        seed: The seed of its weights and samples.
        device_monitor: Synchronises the device and reads its peak memory.
        probe: The probe that all proxies share; None before the first one needs it.
        build_seconds: Time for building the network.
        transfer_seconds: Time for moving the network and the samples to the device.
    """

    def __init__(self, worker: Worker, request: ScoreRequest, wait: bool = True) -> None:
        self.arch = request.arch
        self.seed = request.seed
        self.device_monitor = DeviceMonitor(worker.device)
        self.probe: Probe | None = None
        self._worker = worker

        start = perf_counter()
        model = catch_failure(worker.build_network, request.arch, request.seed, request.init)
        if wait:
            self.device_monitor.synchronize()
        build_end = perf_counter()
        self._inputs: _Inputs | Failure
        if isinstance(model, Failure):
            self._inputs = model
        else:
            self._inputs = catch_failure(self._move_inputs, model)
        if wait:
            self.device_monitor.synchronize()
        self.build_seconds = build_end - start
        self.transfer_seconds = perf_counter() - build_end

    def score_all(self, requests: RequestGroup, shared_seconds: float = 0.0) -> list[Record]:
        """Score the network with every requested proxy.

        Building, moving and shared measurements are paid once per network, so each record carries
        an equal part of them.

        Args:
            requests: What to measure. All of them are about this network.
            shared_seconds: Time that was spent on measurements that several proxies read.

        Returns:
            One record per request, in the same order.
        """
        count = len(requests)
        records = [self.score(request) for request in requests]
        # Read after the last proxy, because the peak belongs to the network and not to one proxy.
        peak_bytes = self.device_monitor.read_peak_memory()
        records_with_cost = []
        for record in records:
            record_with_cost = replace(
                record,
                build_seconds=self.build_seconds / count,
                transfer_seconds=self.transfer_seconds / count,
                measure_seconds=record.measure_seconds + shared_seconds / count,
                peak_bytes=peak_bytes,
            )
            records_with_cost.append(record_with_cost)
        return records_with_cost

    def score(self, request: ScoreRequest) -> Record:
        """Score the network with one proxy.

        Args:
            request: What to measure.

        Returns:
            A record with the score, or with the failure if there is none.
        """
        start = perf_counter()
        outcome = self._compute_outcome(request)
        return Record.of(request, outcome, measure_seconds=perf_counter() - start)

    def get_probe(self) -> Probe | None:
        """Return the probe that all proxies share, or None if there is no network."""
        if isinstance(self._inputs, Failure):
            return None
        return self._open_probe(self._inputs)

    def _compute_outcome(self, request: ScoreRequest) -> float | Failure:
        """Return the score on the whole batch, or the failure if there is none.

        A network that runs out of memory is not scored on fewer samples, because that score would
        be stored as one of the whole batch. The failure is transient, so another run tries again.
        """
        if isinstance(self._inputs, Failure):
            return self._inputs
        proxy = self._worker.proxies_by_measure[request.measure]
        # A proxy may draw random numbers.
        seed = derive_seed("score", request.measure, request.arch, request.seed)
        with random_state(seed):
            outcome = catch_failure(self._apply_proxy, proxy, self._inputs)
            if isinstance(outcome, Failure) and outcome.kind == "oom":
                # Drop all measurements so far, to free memory for the next proxy.
                self.probe = None
                self.device_monitor.free_memory()
        return outcome

    def _apply_proxy(self, proxy: Proxy, inputs: _Inputs) -> float:
        probe = self._open_probe(inputs)
        score = proxy(probe)
        if isnan(score):
            raise Unscorable("nan", "the score is not a number")
        if not isfinite(score):
            raise Unscorable("inf", "the score is infinite")
        return score

    def _open_probe(self, inputs: _Inputs) -> Probe:
        """Return the shared probe, which is created at the first call."""
        if self.probe is None:
            counts = self._worker.find_counts(self.arch)
            macs = None
            if counts is not None:
                macs = counts.flops
            self.probe = Probe(
                inputs.model, inputs.batch, loss=self._worker.loss, seed=self.seed, macs=macs
            )
        return self.probe

    def _move_inputs(self, model: nn.Module) -> _Inputs:
        device = self._worker.device
        # `model.to` takes a millisecond even if there is nothing to move.
        if not _is_on_device(model, device):
            model = model.to(device)
        return _Inputs(model, self._worker.get_batch(self.seed))


def _is_on_device(model: nn.Module, device: str) -> bool:
    """Return whether all parameters and buffers of a model are on the device."""
    target = torch.empty(0, device=device).device
    for module in model.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None and tensor.device != target:
                return False
    return True


def index_proxies(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """Return proxies by measure, which is part of a score's key. Repeated proxies are left out.

    Raises:
        UsageError: Two different proxies have the same name, so their records would be confused.
    """
    proxies_by_label: dict[str, Proxy] = {}
    for proxy in proxies:
        earlier_proxy = proxies_by_label.setdefault(proxy.label, proxy)
        if earlier_proxy != proxy:
            raise UsageError(f"two different proxies are called {proxy.label}; rename one of them")
    return {proxy.measure: proxy for proxy in proxies_by_label.values()}
