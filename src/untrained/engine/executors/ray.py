"""Workers as actors of a Ray cluster. This is the only file that imports ray.

An actor keeps its device, its code and its samples; only requests and records are sent. Files of
the user must be readable under the same path on every machine of the cluster.
"""

from collections import deque
from collections.abc import Iterable
from socket import gethostname
from typing import Any

from untrained.engine.executors.backend import (
    WorkerDied,
    WorkerEvent,
    WorkerReady,
    WorkerRefused,
    WorkerScored,
)
from untrained.engine.failures import get_first_line
from untrained.engine.worker import RequestGroup
from untrained.engine.worker_setup import WorkerSetup
from untrained.errors import UsageError
from untrained.formatting import format_count
from untrained.identity import read_torch_version
from untrained.types import Record
from untrained.version import __version__
from untrained.workers import RAY_LOCAL

try:
    import ray
    from ray.exceptions import RayActorError, RayError
except ImportError as error:
    raise UsageError(
        "ray is not installed; install it with `pip install '.[ray]'` in your clone of untrained, "
        "or use --workers, which does not need it"
    ) from error


class _Actor:
    """A worker on the cluster."""

    def __init__(self, setup: WorkerSetup) -> None:
        import torch

        torch.set_num_threads(1)
        self._setup = setup

    def open(self, driver_versions: dict[str, str]) -> str:
        """Open the worker; return an empty string, or the message of a usage error.

        Args:
            driver_versions: Versions of the packages in the process that runs the search.
        """
        message = compare_versions(driver_versions, read_key_versions())
        if message:
            return f"the Ray worker on {gethostname()} {message}"
        try:
            self._worker = self._setup.open_worker()
        except UsageError as error:
            return str(error)
        return ""

    def score_groups(self, groups: list[RequestGroup]) -> list[list[Record]] | str:
        """Return the records of each group, or the message of a usage error."""
        try:
            return list(self._worker.score_groups(groups))
        except UsageError as error:
            return str(error)


def read_key_versions() -> dict[str, str]:
    """Return the versions that scores depend on: those of this package and of torch."""
    return {"untrained": __version__, "torch": read_torch_version()}


def compare_versions(driver_versions: dict[str, str], worker_versions: dict[str, str]) -> str:
    """Return how the versions of a worker differ from those of the driver; empty if they agree.

    The keys of records name the torch version of the driver, so a worker with another one would
    store its scores under a wrong key.
    """
    for package, driver_version in driver_versions.items():
        worker_version = worker_versions[package]
        if worker_version != driver_version:
            return (
                f"has {package} {worker_version}, but the driver has {driver_version}; "
                "install the same version on every machine"
            )
    return ""


class RayBackend:
    """Sends request groups to Ray actors.

    There is one call per pass, and an actor handles its calls in order.

    Args:
        setup: Describes the workers.
        address: "local", or the address of a cluster.
        workers: Number of workers.

    Raises:
        UsageError: There is no cluster at the address, or it has too few cores.
    """

    name = "ray actor"

    def __init__(self, setup: WorkerSetup, address: str, workers: int) -> None:
        self._started_ray = not ray.is_initialized()
        if self._started_ray:
            _connect(address, workers)
        cluster_resources = ray.cluster_resources()
        actor_resources: dict[str, float]
        if setup.device.startswith("cuda"):
            # Ray makes only the assigned GPU visible to an actor.
            actor_resources = {"num_gpus": min(1.0, cluster_resources.get("GPU", 0.0) / workers)}
        else:
            actor_resources = {"num_cpus": 1}
            cores = int(cluster_resources.get("CPU", 0))
            if workers > cores:
                self.close()
                raise UsageError(
                    f"the Ray cluster at {address!r} has only {format_count(cores, 'core')}; "
                    f"use --workers {max(cores, 1)}"
                )
        self._setup = ray.put(setup)
        self._pass_size = setup.networks_per_batch
        # The pool replaces dead workers itself, so Ray must not restart them.
        make_remote = ray.remote(max_restarts=0, max_task_retries=0, **actor_resources)
        self._actor_class = make_remote(_Actor)
        self._actors: dict[int, Any] = {}
        # Results of calls that have not finished yet, in the order of the calls.
        self._pending: dict[int, deque[object]] = {}

    def start_worker(self, worker: int, slot: int) -> None:
        """Start an actor. Ray assigns its GPU, so the slot is not used."""
        actor = self._actor_class.remote(self._setup)
        self._actors[worker] = actor
        self._pending[worker] = deque([actor.open.remote(read_key_versions())])

    def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
        """Send request groups to an actor, one call per pass."""
        actor = self._actors[worker]
        for start in range(0, len(groups), self._pass_size):
            portion = groups[start : start + self._pass_size]
            self._pending[worker].append(actor.score_groups.remote(portion))

    def wait_for_events(self, timeout: float) -> Iterable[WorkerEvent]:
        """Wait for a result, at most `timeout` seconds, and return the events of all results."""
        worker_by_result = {}
        for worker, results in self._pending.items():
            if results:
                worker_by_result[results[0]] = worker
        if not worker_by_result:
            return []
        next_results = list(worker_by_result)
        finished, _ = ray.wait(next_results, num_returns=1, timeout=timeout)
        if finished:
            # Other actors may have finished in the meantime.
            finished, _ = ray.wait(next_results, num_returns=len(next_results), timeout=0)
        events: list[WorkerEvent] = []
        for result in finished:
            worker = worker_by_result[result]
            self._pending[worker].popleft()
            events += _read_result(worker, result)
        return events

    def stop_worker(self, worker: int) -> None:
        """Kill an actor."""
        ray.kill(self._actors.pop(worker))
        del self._pending[worker]

    def close(self) -> None:
        """Disconnect from the cluster, unless the user's program had connected to it."""
        if self._started_ray:
            ray.shutdown()


def _connect(address: str, workers: int) -> None:
    """Start a local cluster or connect to one."""
    # Ray itself accepts the address "local", which starts a new cluster. Without an address, it
    # would use a cluster that runs on this machine already.
    options: dict[str, object] = {"address": address}
    if address == RAY_LOCAL:
        options["num_cpus"] = workers
    try:
        ray.init(**options, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (RayError, ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"no Ray cluster at {address!r}: {get_first_line(error)}; `--ray local` starts one here"
        ) from error


def _read_result(worker: int, result: object) -> list[WorkerEvent]:
    """Turn the result of a call of `_Actor.open` or `_Actor.score_groups` into events."""
    try:
        content = ray.get(result)
    except RayActorError as error:
        return [WorkerDied(worker, "its Ray actor died", str(error).strip())]
    except RayError as error:
        reason = f"its Ray actor failed: {type(error).__name__}"
        return [WorkerDied(worker, reason, str(error).strip())]
    # `open` returns an empty text if the worker is ready. Any other text is that of a usage error.
    if content == "":
        return [WorkerReady(worker)]
    if isinstance(content, str):
        return [WorkerRefused(worker, content)]
    return [WorkerScored(worker, records) for records in content]
