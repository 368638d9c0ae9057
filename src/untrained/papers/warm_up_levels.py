"""Weights at several levels of one warm-up, so that a network is trained only once.

The learning rate is constant, and the order of the batches does not depend on the length of the
warm-up, so the weights after 10 % are those of a warm-up of 10 %. If a training diverges, the
network has no score at any level but 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from untrained.engine.worker import PrepareWeights
from untrained.errors import UsageError
from untrained.training.warm_up import CandidateWarmUp
from untrained.types import Arch

Snapshot = Mapping[str, Tensor]  # a state dict

# The weights of each trained network by level, which are read when the network is scored.
_SNAPSHOTS: "WeakKeyDictionary[nn.Module, dict[int, Snapshot]]" = WeakKeyDictionary()


@dataclass(frozen=True)
class WarmUpLevels:
    """A warm-up of single candidates that keeps a copy of their weights at every level.

    Attributes:
        candidate: The warm-up of the highest level.
        steps: Number of steps of each level.
        seconds: 0, because the records of the candidates contain the time.
    """

    candidate: CandidateWarmUp
    steps: Mapping[int, int]
    seconds: float = 0.0

    @property
    def init(self) -> str:
        """Identity of the weights in the key of a record: that of the highest level."""
        return self.candidate.init

    def open(self, make_supernet: Callable[[], object], device: str) -> PrepareWeights:
        """Return the function that trains a candidate. It does not need the supernet."""

        def train_candidate(model: nn.Module, arch: Arch, seed: int) -> None:
            snapshots: dict[int, Snapshot] = {}

            def keep_weights(steps: int) -> None:
                for level, level_steps in self.steps.items():
                    if level_steps == steps:
                        snapshots[level] = _copy_weights(model)

            self.candidate.train_candidate(device, model, arch, seed, keep_weights)
            _SNAPSHOTS[model] = snapshots

        return train_candidate


def _copy_weights(model: nn.Module) -> Snapshot:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def get_snapshot(model: nn.Module, level: int) -> Snapshot:
    """Return the weights that a network had at a level of its warm-up.

    Raises:
        UsageError: The network was not trained by `WarmUpLevels`, or not to this level.
    """
    snapshot = _SNAPSHOTS.get(model, {}).get(level)
    if snapshot is None:
        raise UsageError(f"no weights were kept at {level} % of the warm-up")
    return snapshot
