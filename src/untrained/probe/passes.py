"""What forward passes show: outputs, features, what norms divide by. Each is taken once and only if asked for.

The part of the Probe that needs no derivatives; see `probe.py`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe.features import Capture, Feature, inverse_conditions
from untrained.probe.guard import NormVariance, watching
from untrained.rng import seed_for, torch_generator
from untrained.types import Batch


class Passes:
    """One network run on one batch."""

    model: nn.Module
    batch: Batch
    seed: int
    _ratios: dict[int, float]  # condition numbers, by the identity of features
    _seen: Tensor | None  # outputs of the last pass over the whole batch, whatever it was for

    def generator(self, purpose: str) -> torch.Generator:
        """Randomness for one purpose; the same however often and in whatever order measurements are taken."""
        return torch_generator("probe", self.seed, purpose)

    def watching(self) -> AbstractContextManager[object]:
        """Inside, the model may be run as scoring does; after it nothing has changed."""
        return watching(self.model, seed_for("forward", self.seed))

    def _network(self, inputs: Tensor) -> Tensor:
        out = logits(self.model(inputs))
        if len(inputs) == len(self.batch) and type(out) is Tensor:
            self._seen = out.detach()
        return out

    def tell(self, outputs: Tensor, features: tuple[Feature, ...], seen: Tensor) -> None:
        """What somebody else has found out by running this very network on this very batch (`population.py`); the
        outputs once more on the CPU, where asking about them makes no GPU wait."""
        self.__dict__.update(outputs=outputs, features=features)
        self._seen = seen

    def _inputs(self) -> Tensor:
        """A copy of the inputs: a network whose first function works in place writes into what it is shown."""
        return self.batch.inputs.clone()

    @cached_property
    def outputs(self) -> Tensor:
        """What the network answers to the batch, (samples, outputs)."""
        with torch.no_grad(), self.watching():
            return self._network(self._inputs())

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Outputs of all modules, in call order, each distinct tensor once."""
        capture = self._capture(keep_copies=False)
        if capture.overwritten:
            capture = self._capture(keep_copies=True)
        return capture.features

    def _capture(self, keep_copies: bool, heard: list[NormVariance] | None = None) -> Capture:
        capture = Capture(keep_copies)
        with torch.no_grad(), watching(self.model, seed_for("forward", self.seed), heard), capture.on(self.model):
            self.__dict__["outputs"] = self._network(self._inputs())
        return capture

    @cached_property
    def last_map(self) -> Tensor:
        """The last feature with more than one position: what is pooled and classified. Of an MLP, the last hidden."""
        maps = [f.tensor for f in self.features if f.tensor.ndim > 2 and f.tensor[0, 0].numel() > 1]
        if maps:
            return maps[-1]
        hidden = [f.tensor for f in self.features if f.tensor is not self.outputs]
        return hidden[-1] if hidden else self.outputs

    @cached_property
    def norm_variances(self) -> tuple[NormVariance, ...]:
        """What each batch norm divides by, in call order. Features are met on the way."""
        heard: list[NormVariance] = []
        capture = self._capture(False, heard)
        if not capture.overwritten:
            self.__dict__.setdefault("features", capture.features)
        return tuple(heard)

    def inverse_conditions(self, features: Sequence[Feature]) -> Tensor:
        """sigma_min / sigma_max of some of `features`, float64 on the CPU."""
        missing = [feature for feature in features if id(feature) not in self._ratios]
        self._ratios.update(zip(map(id, missing), inverse_conditions(missing).tolist(), strict=True))
        return torch.tensor([self._ratios[id(feature)] for feature in features], dtype=torch.float64)

    def _tells_apart(self, outputs: Tensor | None = None) -> bool:
        """Whether two samples were seen to have different outputs."""
        outputs = self._seen if outputs is None else outputs
        return outputs is not None and len(outputs) > 1 and bool((outputs != outputs[:1]).any())

    @property
    def num_outputs(self) -> int:
        """How many outputs a sample has."""
        seen = self.outputs if self._seen is None else self._seen
        return seen[0].numel()

    @cached_property
    def _elsewhere(self) -> Tensor:
        """Answers to the first sample and to another one, for a batch that holds no two different samples."""
        first = self.batch.inputs[:1]
        draw = torch.randn(first.shape, generator=self.generator("elsewhere"))
        other = draw.to(first) if first.is_floating_point() else first.flip(-1)
        with torch.no_grad(), self.watching():
            return self._network(torch.cat([first, other]))


def logits(output: object) -> Tensor:
    """The tensor a model means by its output: itself, the last of (features, logits), or the `logits` of a record."""
    found = _find_logits(output)
    if found is None:
        kind = type(output).__name__
        raise Unscorable("unsupported", f"the model returns {kind}, from which no logits can be read")
    if found.is_complex():
        raise Unscorable("unsupported", "the model returns complex numbers; let it return real ones, such as .abs()")
    return found


def _find_logits(output: object) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, list | tuple) and output and isinstance(output[-1], Tensor):
        return output[-1]
    for source in (output, vars(output) if hasattr(output, "__dict__") else None):
        if isinstance(source, dict) and isinstance(source.get("logits"), Tensor):
            logits: Tensor = source["logits"]
            return logits
    return None
