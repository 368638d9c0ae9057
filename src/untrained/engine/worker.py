"""A worker builds networks and scores them. It is independent of stores, strategies and processes.

Executors decide in which process a worker runs. `worker_setup.py` describes a worker in a form that
can be sent to another process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import nn

from untrained.engine.built_network import BuiltNetwork
from untrained.engine.devices import check_device
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy
from untrained.seeds import derive_seed
from untrained.spaces import Counts
from untrained.types import FRESH, Arch, Batch, Record, ScoreRequest

if TYPE_CHECKING:
    from untrained.engine.batched.batch_scorer import BatchScorer

# Requests about one network: the same architecture, seed and weights, one request per proxy.
RequestGroup = Sequence[ScoreRequest]

BuildFunction = Callable[[Arch], nn.Module]

# Computes parameters and multiply-adds of an architecture; None if its space has no formula.
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
        find_counts: Parameters and multiply-adds by formula, so that they need not be counted.
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


def index_proxies(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """Return proxies by measure, which is part of a score's key.

    Raises:
        UsageError: Two different proxies have the same name, so their records would be confused.
    """
    by_label: dict[str, Proxy] = {}
    for proxy in proxies:
        if by_label.setdefault(proxy.label, proxy) != proxy:
            raise UsageError(f"two different proxies are called {proxy.label}; rename one of them")
    return {proxy.measure: proxy for proxy in by_label.values()}
