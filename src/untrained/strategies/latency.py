"""Latency on this machine: measure it with a timer, or predict it with a linear model.

The latency limit of a search is in `max_latency.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import get_clock_info, perf_counter, thread_time
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from untrained.engine.threads import use_threads
from untrained.errors import UsageError
from untrained.onnx_files import open_onnx, write_traced_onnx
from untrained.probe.flops import Operation
from untrained.types import Arch

Array = NDArray[np.float64]
Runtime = Literal["torch", "onnx"]
# A kind of operation, and what is counted of it: "calls", "flops" or "bytes".
Feature = tuple[str, str]

# Penalties of the ridge regression to choose from.
_PENALTIES = np.geomspace(1e-8, 1e2, 21)
# The latency is this quantile of the times of the forward passes. Other processes make passes
# slower and never faster, so the fast passes tell how long the network takes by itself.
_QUANTILE = 0.1
# Another round of passes is timed while the median exceeds that quantile by this factor, up to
# `_MAX_ROUNDS` rounds in total.
_MAX_SPREAD = 1.25
_MAX_ROUNDS = 3


# ------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True, slots=True)
class Latency:
    """The time of a forward pass, and how it was measured.

    Attributes:
        seconds: Tenth percentile of the times of the forward passes.
        batch: Number of samples in the input.
        threads: Number of CPU threads.
        device: Where the network ran.
        runtime: "torch", or "onnx" for ONNX Runtime.
        runs: Number of timed forward passes.
        warm_up: Number of forward passes before the timed ones.
    """

    seconds: float
    batch: int
    threads: int
    device: str
    runtime: str
    runs: int
    warm_up: int


@dataclass(frozen=True, slots=True)
class LatencyTimer:
    """Measures the latency of networks.

    Other processes slow down forward passes, so the latency is the time of the fast ones (their
    tenth percentile). If the median is much higher, more passes are timed. With one thread of ONNX
    Runtime, the timer measures CPU time and not wall-clock time, because on a busy machine every
    pass of a slow network is interrupted.

    Attributes:
        device: Where networks run.
        batch: Number of samples in the input.
        threads: Number of CPU threads. Several threads wait for each other at every layer, so on a
            busy machine a network of 0.3 ms can take 50 ms (dev/LOG.md).
        runtime: "torch", or "onnx" for ONNX Runtime.
        runs_per_round: Number of timed forward passes per round. There are up to three rounds, if
            the times differ too much.
        warm_up: Number of forward passes before the timed ones.

    Raises:
        UsageError: There is no such runtime, or it does not support the device.
    """

    device: str = "cpu"
    batch: int = 1
    threads: int = 1
    runtime: Runtime = "torch"
    runs_per_round: int = 30
    warm_up: int = 5

    def __post_init__(self) -> None:
        if self.runtime not in ("torch", "onnx"):
            raise UsageError(f"there is no runtime {self.runtime!r}; measure with torch or onnx")
        if self.runtime == "onnx" and self.device != "cpu":
            raise UsageError(
                "runtime=onnx measures on the CPU; leave out @device, or use runtime=torch"
            )

    def time_network(self, network: nn.Module, input_shape: tuple[int, ...]) -> Latency:
        """Measure a network in evaluation mode, on random inputs.

        Args:
            network: The network.
            input_shape: Shape of one sample.

        Returns:
            The latency, and how it was measured.
        """
        generator = torch.Generator().manual_seed(0)
        inputs = torch.rand(self.batch, *input_shape, generator=generator)
        if self.runtime == "torch":
            return self.time_function(self._prepare_torch(network, inputs))
        return self.time_function(self._prepare_onnx(network, inputs))

    def time_function(self, function: Callable[[], object]) -> Latency:
        """Measure a function, such as a forward pass on fixed inputs."""
        clock = self._choose_clock()
        with use_threads(self.threads), torch.inference_mode():
            for _ in range(self.warm_up):
                function()
            times = []
            for _ in range(_MAX_ROUNDS):
                for _ in range(self.runs_per_round):
                    times.append(_time_once(function, clock))
                seconds = _compute_low_percentile(times)
                if median(times) <= _MAX_SPREAD * seconds:
                    break
        return Latency(
            seconds=seconds,
            batch=self.batch,
            threads=self.threads,
            device=self.device,
            runtime=self.runtime,
            runs=len(times),
            warm_up=self.warm_up,
        )

    def _choose_clock(self) -> Callable[[], float]:
        """Return the clock of the CPU time of this thread if the whole forward pass runs in it."""
        has_fine_resolution = get_clock_info("thread_time").resolution <= 1e-6
        if self.runtime == "onnx" and self.threads == 1 and has_fine_resolution:
            return thread_time
        return perf_counter

    def _prepare_torch(self, network: nn.Module, inputs: Tensor) -> Callable[[], object]:
        """Return a function that runs one forward pass in torch."""
        moved_network = network.eval().to(self.device)
        moved_inputs = inputs.to(self.device)

        def run() -> None:
            moved_network(moved_inputs)
            # A GPU works asynchronously: without this, only the launch would be timed.
            if moved_inputs.is_cuda:
                torch.cuda.synchronize(self.device)

        return run

    def _prepare_onnx(self, network: nn.Module, inputs: Tensor) -> Callable[[], object]:
        """Return a function that runs one forward pass in ONNX Runtime."""
        with TemporaryDirectory() as folder:
            path = Path(folder, "network.onnx")
            write_traced_onnx(network, inputs, path)
            model = open_onnx(path, self.threads)
        return lambda: model(inputs)


def _time_once(function: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start


def _compute_low_percentile(times: list[float]) -> float:
    """Return the tenth percentile of the times, which other processes affect least."""
    index = int(_QUANTILE * len(times))
    return sorted(times)[index]


# ------------------------------------------------------------------------------------ predicting


class LatencyModel:
    """Predicts latency from the operations of a network. It is fitted again at each measurement.

        x_i      features of architecture i: for each kind of operation, the number of calls, their
                 multiply-adds and the bytes of their outputs; and a constant
        y_i      its measured latency
        A        rows x_i / y_i, columns divided by their norms
        w        argmin_w |A w - 1|^2 + penalty |w|^2: ridge regression on relative errors
        error    root mean square of 1 - x_i w_(i) / y_i, with w_(i) fitted without i

    The penalty is the one with the smallest error. The error tells how far to trust a prediction.

    Args:
        list_operations: Returns the operations of an architecture's network, such as
            `lambda arch: NetworkSize(space, arch, task).probe.operations`.

    Attributes:
        observed: Measured latency in seconds by architecture.
        error: The error; None before two measurements.
        left_out_predictions: The prediction x_i w_(i) for every measured architecture.
    """

    def __init__(self, list_operations: Callable[[Arch], Iterable[Operation]]) -> None:
        self._list_operations = list_operations
        self.observed: dict[Arch, float] = {}
        self.error: float | None = None
        self.left_out_predictions: dict[Arch, float] = {}
        self._features: dict[Arch, Counter[Feature]] = {}
        self._columns: list[Feature] = []
        self._weights: Array = np.zeros(0)

    def observe(self, arch: Arch, seconds: float) -> None:
        """Add a measurement."""
        self.observe_all({arch: seconds})

    def observe_all(self, seconds_by_arch: Mapping[Arch, float]) -> None:
        """Add measurements."""
        self.observed.update(seconds_by_arch)
        if len(self.observed) > 1:
            self._fit()

    def predict(self, arch: Arch) -> float | None:
        """Predict the latency of an architecture.

        Returns:
            The latency in seconds. None before two measurements, or if the network has an operation
            that no measured network has.
        """
        features = self._count_features(arch)
        if self.error is None or not set(features) <= set(self._columns):
            return None
        seconds = float(self._make_row(features) @ self._weights)
        return max(seconds, 0.0)

    def _fit(self) -> None:
        """Compute w, the penalty and the error from a singular value decomposition of A."""
        features = [self._count_features(arch) for arch in self.observed]
        columns: set[Feature] = set()
        for arch_features in features:
            columns.update(arch_features)
        self._columns = sorted(columns)
        y = np.array(list(self.observed.values()))
        A = np.stack([self._make_row(row) for row in features]) / y[:, None]
        norms = np.linalg.norm(A, axis=0)
        U, s, V = np.linalg.svd(A / norms, full_matrices=False)
        errors = [compute_leave_one_out_error(U, s, penalty) for penalty in _PENALTIES]
        penalty = _PENALTIES[int(np.argmin(errors))]
        self.error = min(errors)
        left_out = y * (1 - compute_leave_one_out_residuals(U, s, penalty))
        self.left_out_predictions = dict(zip(self.observed, left_out.tolist(), strict=True))
        projections = U.T @ np.ones(len(y))
        scaled_weights = V.T @ (s / (s**2 + penalty) * projections)
        # The columns of A were divided by their norms.
        self._weights = scaled_weights / norms

    def _count_features(self, arch: Arch) -> Counter[Feature]:
        """Return the features x_i of an architecture that are not zero."""
        if arch not in self._features:
            # The constant feature: time that every network takes.
            counts: Counter[Feature] = Counter({("all", "calls"): 1})
            for operation in self._list_operations(arch):
                counts[operation.kind, "calls"] += 1
                # An operation without a formula is predicted from its calls and bytes.
                counts[operation.kind, "flops"] += operation.float_operations or 0
                counts[operation.kind, "bytes"] += operation.bytes
            # The plus sign removes features that are zero.
            self._features[arch] = +counts
        return self._features[arch]

    def _make_row(self, features: Counter[Feature]) -> Array:
        """Return features as a vector in the order of `_columns`."""
        return np.array([float(features[column]) for column in self._columns])


def compute_leave_one_out_residuals(U: Array, s: Array, penalty: float) -> Array:
    """Return the residuals of ridge regression with target 1 when each row is left out in turn.

    With H = U diag(s^2 / (s^2 + penalty)) U^T and residuals r = 1 - H 1, the residual of row i in
    a fit without it is r_i / (1 - H_ii), so no second fit is needed.

    Args:
        U: Left singular vectors of A, (n, k).
        s: Singular values of A, (k,).
        penalty: The penalty.

    Returns:
        The residuals, (n,).
    """
    H = (U * (s**2 / (s**2 + penalty))) @ U.T
    residuals: Array = (1 - H.sum(1)) / np.maximum(1 - np.diag(H), 1e-9)
    return residuals


def compute_leave_one_out_error(U: Array, s: Array, penalty: float) -> float:
    """Return the root mean square of `compute_leave_one_out_residuals`."""
    residuals = compute_leave_one_out_residuals(U, s, penalty)
    return float(np.sqrt(np.mean(residuals**2)))
