"""What a worker needs before its first request, in a form that can be sent to another process.

Spaces and proxies are sent by name, samples by value, so a worker needs no access to the data set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

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
    """Trained weights for networks that are not scored at initialisation.

    It is sent to workers, so it must contain everything that it needs.
    """

    @property
    def init(self) -> str:
        """Identity of the weights: everything that they depend on. It is part of a score's key."""
        ...

    @property
    def seconds(self) -> float:
        """Training time before the first network was scored, in all runs of the command."""
        ...

    def open(self, make_supernet: Callable[[], object], device: str) -> PrepareWeights:
        """Return a function that gives a network its trained weights.

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
        task: The task that networks are built for.
        batches: Samples by seed.
        device: Where networks are measured.
        weights: Trained weights; None to score networks at initialisation.
        networks_per_batch: Number of networks that are measured in one pass, meant for a GPU.
        workers_per_device: Number of workers that share the memory of a GPU.
        measures: Name and version of each proxy when the run began, to detect changed files; empty
            to skip this check.
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
        """Return the setup of the worker in a slot. GPUs are assigned to slots in turn."""
        gpu_count = torch.cuda.device_count()
        if self.device == "cuda" and gpu_count > 1:
            return replace(self, device=f"cuda:{slot % gpu_count}")
        return self

    def open_worker(self) -> Worker:
        """Load the space and the proxies and return a worker.

        Raises:
            UsageError: The device is missing, a name cannot be loaded, or the file of a proxy has
                changed since the run began.
        """
        check_device(self.device)
        space = load_space(self.space)
        proxies = [load_proxy(name) for name in self.proxies]
        # `measures` may be empty; then nothing is compared.
        for name, proxy, measure in zip(self.proxies, proxies, self.measures, strict=False):
            if proxy.measure != measure:
                raise UsageError(
                    f"{name} has changed while it was in use; run the same command again to use "
                    "the new version"
                )
        return _make_worker(
            space=space,
            proxies=proxies,
            task=self.task,
            batches=self.batches,
            device=self.device,
            weights=self.weights,
            networks_per_batch=self.networks_per_batch,
            workers_per_device=self.workers_per_device,
        )


def make_worker_setup(
    space: str | Space,
    proxies: Sequence[Proxy],
    batches: SeedBatches,
    compute: ComputeConfig,
    proxy_names_by_measure: Mapping[str, str] | None = None,
    weights: WeightSource | None = None,
) -> WorkerSetup | Worker:
    """Describe workers for a run.

    Args:
        space: The space, or its name.
        proxies: What workers measure.
        batches: What networks are measured on.
        compute: Device and number of networks per pass.
        proxy_names_by_measure: What the user typed for proxies in files of their own, by measure.
        weights: Trained weights; None to score networks at initialisation.

    Returns:
        A setup if the space and all proxies can be loaded by name; otherwise a worker, which works
        only in this process.
    """
    task = batches.source.task
    largest_batches = batches.draw_largest_batches()
    space_name = _find_name(space, load_space)
    typed_names = proxy_names_by_measure or {}
    proxy_names = []
    for proxy in proxies:
        name = _find_name(typed_names.get(proxy.measure, proxy), load_proxy)
        if name is not None:
            proxy_names.append(name)
    if space_name is not None and len(proxy_names) == len(proxies):
        return WorkerSetup(
            space=space_name,
            proxies=tuple(proxy_names),
            task=task,
            batches=largest_batches,
            device=compute.device,
            weights=weights,
            networks_per_batch=compute.effective_networks_per_batch,
            measures=tuple(proxy.measure for proxy in proxies),
        )
    return _make_worker(
        space=load_space(space),
        proxies=proxies,
        task=task,
        batches=largest_batches,
        device=compute.device,
        weights=weights,
        networks_per_batch=compute.effective_networks_per_batch,
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
        build=partial(space.build, task=task, device=device),
        proxies=proxies,
        loss=task.loss,
        batches=batches,
        device=device,
        prepare_weights=prepare_weights,
        networks_per_batch=networks_per_batch,
        workers_per_device=workers_per_device,
        find_counts=partial(space.counts, task=task),
    )


def _find_name(space_or_proxy: str | Space | Proxy, load: Callable[[str], object]) -> str | None:
    """Return the name by which another process can load a space or a proxy; None if it cannot.

    Args:
        space_or_proxy: The space or proxy, or its name.
        load: Loads a space or a proxy by name.
    """
    if isinstance(space_or_proxy, str):
        return make_absolute(space_or_proxy)
    if isinstance(space_or_proxy, Proxy):
        name = space_or_proxy.label
    else:
        name = space_or_proxy.name
    try:
        loaded = load(name)
    except UsageError:
        return None
    # Another object may be registered under this name.
    if loaded != space_or_proxy:
        return None
    return name
