"""Latency on this machine: measured, predicted where that is safe, and of winners always measured.

A prediction is linear in what `Probe.operations` counts on the meta device: for every kind of operation how many there
are, their multiply-adds and the memory they make. Ridge regression on relative errors, fitted anew with every
measurement; the penalty is the one with the smallest error of leaving one out, and that error says how far to trust it.
This file knows nothing of strategies.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from untrained._onnx import open_onnx, write_onnx
from untrained.engine.executor import threads
from untrained.errors import UsageError
from untrained.probe.flops import Operation
from untrained.strategies.limits import Pace
from untrained.types import Arch

_FIRST = 16  # measurements before the first prediction
_PENALTIES = np.geomspace(1e-8, 1e2, 21)


# ------------------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True, slots=True)
class Latency:
    """The median time of a forward pass, and how it was measured."""

    seconds: float
    batch: int
    threads: int
    device: str
    runtime: str
    runs: int
    warm_up: int


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """How to measure: `Stopwatch(device="cuda")(network, inputs)`. On one thread unless told: several wait for each
    other at every layer, and where anything else wants a core, a network of 0.3 ms takes 50 (dev/LOG.md)."""

    device: str = "cpu"
    batch: int = 1
    threads: int = 1
    runtime: Literal["torch", "onnx"] = "torch"
    runs: int = 30
    warm_up: int = 5

    def __post_init__(self) -> None:
        if self.runtime not in ("torch", "onnx"):
            raise UsageError(f"there is no runtime {self.runtime!r}; measure with torch or onnx")
        if self.runtime == "onnx" and self.device != "cpu":
            raise UsageError("runtime=onnx measures on the CPU; leave @device out, or take runtime=torch")

    def __call__(self, network: nn.Module, input_shape: tuple[int, ...]) -> Latency:
        """The latency of a network on inputs of this shape."""
        inputs = torch.randn(self.batch, *input_shape, generator=torch.Generator().manual_seed(0))
        return self.time(self._torch(network, inputs) if self.runtime == "torch" else self._onnx(network, inputs))

    def time(self, run: Callable[[], Any]) -> Latency:
        """The latency of whatever `run` does."""
        with threads(self.threads), torch.inference_mode():
            for _ in range(self.warm_up):
                run()
            seconds = median(_timed(run) for _ in range(self.runs))
        return Latency(seconds, self.batch, self.threads, self.device, self.runtime, self.runs, self.warm_up)

    def _torch(self, network: nn.Module, inputs: Tensor) -> Callable[[], Any]:
        ready, shown = network.eval().to(self.device), inputs.to(self.device)

        def run() -> None:
            ready(shown)
            if shown.is_cuda:
                torch.cuda.synchronize(self.device)

        return run

    def _onnx(self, network: nn.Module, inputs: Tensor) -> Callable[[], Any]:
        with TemporaryDirectory() as folder:
            path = Path(folder, "network.onnx")
            write_onnx(network, inputs, path)
            opened = open_onnx(path, self.threads)
        return lambda: opened(inputs)


def _timed(run: Callable[[], Any]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


# ------------------------------------------------------------------------------------------------------ predicting


class LatencyModel:
    """`observe(arch, seconds)`, then `predict(arch)`. `operations` tells what an architecture's network consists of:
    `lambda arch: Size(space, arch, task).probe.operations`."""

    def __init__(self, operations: Callable[[Arch], Iterable[Operation]]) -> None:
        self._operations = operations
        self.observed: dict[Arch, float] = {}
        self._counted: dict[Arch, Counter[tuple[str, str]]] = {}
        self._columns: list[tuple[str, str]] = []
        self._weights = np.zeros(0)
        self.error: float | None = None  # relative, of leaving one out; None before anything is fitted

    def observe(self, arch: Arch, seconds: float) -> None:
        """Learn from a measurement."""
        self.observed[arch] = seconds
        if len(self.observed) > 1:
            self._fit()

    def predict(self, arch: Arch) -> float | None:
        """Seconds; None before two measurements, or for an operation that was never measured."""
        counted = self._features(arch)
        if self.error is None or not set(counted) <= set(self._columns):
            return None
        return max(float(self._row(counted) @ self._weights), 0.0)

    def _fit(self) -> None:
        """min_w sum_i (x_i w / y_i - 1)^2 + penalty |D w|^2, D the size of each column."""
        rows = [self._features(arch) for arch in self.observed]
        self._columns = sorted({column for row in rows for column in row})
        y = np.array(list(self.observed.values()))
        A = np.stack([self._row(row) for row in rows]) / y[:, None]
        sizes = np.linalg.norm(A, axis=0)
        U, s, V = np.linalg.svd(A / sizes, full_matrices=False)
        errors = [_left_out(U, s, penalty) for penalty in _PENALTIES]
        penalty = _PENALTIES[int(np.argmin(errors))]
        self.error = min(errors)
        self._weights = (V.T @ (s / (s**2 + penalty) * (U.T @ np.ones(len(y))))) / sizes

    def _features(self, arch: Arch) -> Counter[tuple[str, str]]:
        if arch not in self._counted:
            counted: Counter[tuple[str, str]] = Counter({("all", "calls"): 1})  # what costs time whatever is run
            for operation in self._operations(arch):
                kind = operation.kind
                flops = operation.flops or 0  # without a formula the calls and bytes of its kind predict the time
                counted.update({(kind, "calls"): 1, (kind, "flops"): flops, (kind, "bytes"): operation.bytes})
            self._counted[arch] = +counted
        return self._counted[arch]

    def _row(self, counted: Counter[tuple[str, str]]) -> "np.ndarray[Any, np.dtype[np.float64]]":
        return np.array([float(counted[column]) for column in self._columns])


def _left_out(U: Any, s: Any, penalty: float) -> float:
    """Root mean square of 1 - x_i w_(i), w_(i) fitted without i: r_i / (1 - H_ii)."""
    H = (U * (s**2 / (s**2 + penalty))) @ U.T
    residual = (1 - H.sum(1)) / np.maximum(1 - np.diag(H), 1e-9)
    return float(np.sqrt(np.mean(residual**2)))


class Gauge:
    """Seconds of an architecture, for `Feasible(latency=...)`: measured at first and near the limit, predicted where
    the prediction is further from the limit than twice its error. `measured` counts what was spent, `predicted` what
    was spared."""

    def __init__(self, model: LatencyModel, measure: Callable[[Arch], float], limit: Pace) -> None:
        self.model, self._measure, self._limit = model, measure, limit.seconds
        self.measured = self.predicted = 0

    def __call__(self, arch: Arch) -> float:
        if arch in self.model.observed:
            return self.model.observed[arch]
        guess = self.model.predict(arch) if len(self.model.observed) >= _FIRST else None
        error = self.model.error or 0.0
        if guess is not None and abs(guess - self._limit) > 2 * error * max(guess, self._limit):
            self.predicted += 1
            return guess
        seconds = self._measure(arch)
        self.measured += 1
        self.model.observe(arch, seconds)
        return seconds
