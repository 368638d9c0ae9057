"""What a worker needs before its first request, in a form that can be sent to another process.

Code travels by name and samples by value, so a worker needs no data set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch

from untrained.config import ComputeConfig
from untrained.engine.devices import check_device
from untrained.engine.seed_batches import SeedBatches
from untrained.engine.worker import PrepareWeights, Worker
from untrained.errors import UsageError
from untrained.names import make_absolute
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import Space, load_space
from untrained.types import Batch, Task


class WeightSource(Protocol):
    """Weights for networks that are scored with other weights than fresh ones.

    It is sent to workers, so it holds everything it needs.
    """

    @property
    def init(self) -> str:
        """Identity of the weights: everything that they depend on. It is part of a score's key."""
        ...

    @property
    def seconds(self) -> float:
        """Time that was spent before the first network was scored, over all runs of the command."""
        ...

    def open(self, make_supernet: Callable[[], Any], device: str) -> PrepareWeights:
        """Return a function that prepares networks on a device.

        Args:
            make_supernet: Builds the supernet of the space.
            device: Where networks are measured.
        """
        ...


@dataclass(frozen=True)
class WorkerSetup:
    """Describes a worker so that another process or machine can open it.

    Attributes:
        space: Name of the space.
        proxies: Names of the proxies.
        task: What the networks are for.
        batches: Samples by seed.
        device: Where networks are measured.
        weights: Where weights come from that are not fresh ones.
        networks_per_batch: Number of networks that are measured in one pass, meant for a GPU.
        workers_per_device: Number of workers that share the memory of a GPU.
        measures: What the proxies measured when the run began, to notice that a file has changed.
    """

    space: str
    proxies: tuple[str, ...]
    task: Task
    batches: Mapping[int, Batch]
    device: str = "cpu"
    weights: WeightSource | None = None
    networks_per_batch: int = 1
    workers_per_device: int = 1
    measures: tuple[str, ...] = ()

    def for_slot(self, slot: int) -> "WorkerSetup":
        """Return the setup of one of several workers. GPUs are assigned in turn."""
        gpu_count = torch.cuda.device_count()
        if self.device == "cuda" and gpu_count > 1:
            return replace(self, device=f"cuda:{slot % gpu_count}")
        return self

    def open_worker(self) -> Worker:
        """Load the space and the proxies and return a worker.

        Raises:
            UsageError: The device is missing, or a name cannot be loaded, or the file of a proxy
                has changed since the run began.
        """
        check_device(self.device)
        space = load_space(self.space)
        proxies = [load_proxy(name) for name in self.proxies]
        for name, proxy, measure in zip(self.proxies, proxies, self.measures, strict=False):
            if proxy.measure != measure:
                raise UsageError(
                    f"{name} has changed while it was in use; run the same command again to use "
                    "the new version"
                )
        return _make_worker(
            space,
            proxies,
            self.task,
            self.batches,
            self.device,
            self.weights,
            self.networks_per_batch,
            self.workers_per_device,
        )


def make_worker_setup(
    space: str | Space,
    proxies: Sequence[Proxy],
    batches: SeedBatches,
    compute: ComputeConfig,
    proxy_names: Mapping[str, str] | None = None,
    weights: WeightSource | None = None,
) -> WorkerSetup | Worker:
    """Describe workers for a run.

    Args:
        space: The space, or its name.
        proxies: What workers measure.
        batches: What networks are measured on.
        compute: Device and number of networks per pass.
        proxy_names: Names of the user's own proxies, by measure.
        weights: Where weights come from that are not fresh ones.

    Returns:
        A setup if the space and all proxies can be loaded by name, or else a worker, which can only
        be used in this process.
    """
    task = batches.source.task
    largest_batches = batches.largest_batches()
    space_name = _find_name(space, load_space)
    names = []
    for proxy in proxies:
        named: str | Proxy = proxy
        if proxy_names is not None:
            named = proxy_names.get(proxy.measure, proxy)
        name = _find_name(named, load_proxy)
        if name:
            names.append(name)
    if space_name and len(names) == len(proxies):
        return WorkerSetup(
            space_name,
            tuple(names),
            task,
            largest_batches,
            compute.device,
            weights,
            compute.networks_per_pass,
            measures=tuple(proxy.measure for proxy in proxies),
        )
    return _make_worker(
        load_space(space),
        proxies,
        task,
        largest_batches,
        compute.device,
        weights,
        compute.networks_per_pass,
    )


def _make_worker(
    space: Space,
    proxies: Sequence[Proxy],
    task: Task,
    batches: Mapping[int, Batch],
    device: str,
    weights: WeightSource | None,
    networks_per_batch: int,
    workers_per_device: int = 1,
) -> Worker:
    prepare_weights = None
    if weights is not None:
        make_supernet = partial(space.supernet, task, device)
        prepare_weights = weights.open(make_supernet, device)
    return Worker(
        partial(space.build, task=task, device=device),
        proxies,
        task.loss,
        batches,
        device,
        prepare_weights,
        networks_per_batch,
        workers_per_device,
        find_counts=partial(space.counts, task=task),
    )


def _find_name(member: str | Space | Proxy, load: Callable[[str], object]) -> str | None:
    """Return the name that loads an equal object in another process, or None if there is none."""
    if isinstance(member, str):
        return make_absolute(member)
    name = member.label if isinstance(member, Proxy) else member.name
    try:
        loaded = load(name)
    except UsageError:
        return None
    if loaded != member:
        return None
    return name
