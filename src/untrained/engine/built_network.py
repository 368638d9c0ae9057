"""A network that is built, moved to the device, and scored by proxies.

Scores and failures become records in `BuiltNetwork.score`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, isnan
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from untrained.engine.devices import DeviceMonitor
from untrained.engine.failures import catch_failure
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy
from untrained.seeds import derive_seed
from untrained.types import Batch, Failure, Record, ScoreRequest

if TYPE_CHECKING:
    from untrained.engine.worker import Worker


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
        build_seconds: Time for building the network.
        transfer_seconds: Time for moving the network and the samples to the device.
    """

    def __init__(self, worker: "Worker", request: ScoreRequest, wait: bool = True) -> None:
        self.arch = request.arch
        self.seed = request.seed
        self.device = DeviceMonitor(worker.device)
        self.probe: Probe | None = None
        self._worker = worker

        start = perf_counter()
        model = catch_failure(worker.build_network, request.arch, request.seed, request.init)
        if wait:
            self.device.synchronize()
        build_end = perf_counter()
        self._inputs: _Inputs | Failure
        if isinstance(model, Failure):
            self._inputs = model
        else:
            self._inputs = catch_failure(self._move_inputs, model)
        if wait:
            self.device.synchronize()
        self.build_seconds = build_end - start
        self.transfer_seconds = perf_counter() - build_end

    def score_all(
        self, requests: Sequence[ScoreRequest], shared_seconds: float = 0.0
    ) -> list[Record]:
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
        peak_bytes = self.device.peak_memory()
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
                self.device.free_memory()
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
