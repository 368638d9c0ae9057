"""The subnets of a supernet that are trained in each step, and their gradients.

    uniform    one architecture, sampled from the space
    sandwich   a large and a small architecture (found by hill climbing), and two sampled ones
               (after Yu and Huang, arXiv:1903.05134)
    any        a random subset of the options of every choice, each with a probability of one half
               (NASRec, arXiv:2207.07187: any-path with binomial-0.5). In the first fifth of the
               steps the whole supernet is trained instead, with a probability that falls to zero.
               If a supernet cannot mix options, one sampled architecture is trained, or a large
               one in place of the whole supernet.

The subnets of a step depend only on the seed and the number of the step.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.seeds import make_generator
from untrained.spaces import Space
from untrained.types import Arch, Task

# Fraction of the steps in which the whole supernet may be trained: 15,000 of 71,626 in NASRec.
WHOLE_SUPERNET_SHARE = 0.2
# Number of mutations that are tried to find a large or a small architecture.
EXTREME_MUTATIONS = 60


@dataclass
class SupernetPaths:
    """The subnets of each step. A subnet is called a path in the literature.

    Attributes:
        kind: "uniform", "sandwich" or "any".
        space: The space.
        task: The task that the supernet was built for.
        supernet: The supernet; its methods differ between spaces.
        seed: Seed of the sampled architectures.
        steps: Number of steps in total.
    """

    kind: str
    space: Space
    task: Task
    supernet: Any
    seed: int
    steps: int

    def sample_paths(self, step: int) -> Iterator[nn.Module]:
        """Yield the subnets of a step.

        A subnet of kind "any" is the supernet itself with another mixture of options. So each
        subnet must be used before the next one is requested.
        """
        generator = make_generator("warm-up", "paths", self.space.name, self.seed, step)
        if self.kind == "any":
            whole_probability = 1 - step / (WHOLE_SUPERNET_SHARE * self.steps)
            use_whole = generator.random() < whole_probability
            yield self._sample_any_path(generator, use_whole)
            return
        archs = []
        samples = 1
        if self.kind == "sandwich":
            archs = [self.large_arch, self.small_arch]
            samples = 2
        for _ in range(samples):
            archs.append(self.space.sample(generator))
        for arch in archs:
            yield self.supernet.subnet(arch)

    @property
    def paths_per_step(self) -> int:
        """Number of subnets per step."""
        if self.kind == "sandwich":
            return 4
        return 1

    def _sample_any_path(self, generator: np.random.Generator, use_whole: bool) -> nn.Module:
        """Return a subnet of kind "any", or the whole supernet if `use_whole` is true."""
        if not hasattr(self.supernet, "mixture"):
            if use_whole:
                arch = self.large_arch
            else:
                arch = self.space.sample(generator)
            subnet: nn.Module = self.supernet.subnet(arch)
            return subnet
        for name, options in self.supernet.options.items():
            if use_whole:
                selected = np.ones(len(options), dtype=np.int64)
            else:
                selected = generator.integers(2, size=len(options))
            # At least one option must be selected.
            selected[generator.integers(len(options))] = 1
            weights = torch.as_tensor(selected / selected.sum(), dtype=torch.float64)
            self.supernet.mixture[name] = weights
        supernet: nn.Module = self.supernet
        return supernet

    @cached_property
    def large_arch(self) -> Arch:
        """An architecture with many parameters."""
        return self._find_extreme_arch(1)

    @cached_property
    def small_arch(self) -> Arch:
        """An architecture with few parameters."""
        return self._find_extreme_arch(-1)

    def _find_extreme_arch(self, sign: int) -> Arch:
        """Find an architecture with many or few parameters by hill climbing.

        Args:
            sign: 1 for many parameters, -1 for few.
        """
        generator = make_generator("warm-up", "extreme", self.space.name, sign)
        best = self.space.sample(generator)
        best_size = sign * self._count_parameters(best)
        for _ in range(EXTREME_MUTATIONS):
            mutant = self.space.mutate(best, generator)
            size = sign * self._count_parameters(mutant)
            if size > best_size:
                best = mutant
                best_size = size
        return best

    def _count_parameters(self, arch: Arch) -> int:
        network = self.space.build(arch, self.task, "meta")
        return sum(parameter.numel() for parameter in network.parameters())


def accumulate_gradients(supernet: nn.Module, subnet: nn.Module) -> None:
    """Add the gradients of a subnet to those of the supernet, and clear them in the subnet.

    A parameter of a subnet is a view of a parameter of the supernet, or the same object. In the
    second case the gradient is in the right place already.

    Raises:
        UsageError: The subnet shares no weights with the supernet.
    """
    owners = [parameter for parameter in supernet.parameters() if parameter.numel()]
    owners.sort(key=Tensor.data_ptr)
    addresses = [owner.data_ptr() for owner in owners]
    shares_weights = False
    for parameter in subnet.parameters():
        # Several parameters of the supernet may share one storage. The owner of a view is the last
        # parameter that starts at or before it.
        position = bisect_right(addresses, parameter.data_ptr())
        if position == 0 or not _share_storage(owners[position - 1], parameter):
            continue
        owner = owners[position - 1]
        shares_weights = True
        if owner is parameter or parameter.grad is None:
            continue
        if owner.grad is None:
            owner.grad = torch.zeros_like(owner)
        offset = parameter.storage_offset() - owner.storage_offset()
        view = owner.grad.as_strided(parameter.shape, parameter.stride(), offset)
        view.add_(parameter.grad)
        parameter.grad = None
    if not shares_weights:
        raise UsageError(
            "the subnets of this supernet have weights of their own, so they cannot train it; "
            "use paths=each, such as --warm-up '10%(paths=each)'"
        )


def _share_storage(first: Tensor, second: Tensor) -> bool:
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
