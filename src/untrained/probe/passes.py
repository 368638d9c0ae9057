"""The part of the Probe that needs no derivatives: outputs, features, variances of norms.

Each measurement is taken when it is first read, and only once. See `probe.py`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe.all_features import CompleteFeature, CompleteFeatureCapture
from untrained.probe.codes import SignCode, SignRecorder
from untrained.probe.features import Feature, FeatureCapture, compute_inverse_conditions
from untrained.probe.guard import NormVariance, ScoringMode, scoring_mode
from untrained.seeds import derive_seed, make_torch_generator
from untrained.types import Batch


class ForwardProbe:
    """Measurements of one network on one batch by forward passes.

    Attributes:
        model: The network.
        batch: The samples.
        seed: Seed of every random choice.
    """

    model: nn.Module
    batch: Batch
    seed: int
    _inverse_conditions: dict[int, float]  # sigma_min / sigma_max by id of a feature
    _feature_signs: SignRecorder | None = None  # of the pass that collected the features
    _last_outputs: Tensor | None  # of the last pass over the whole batch, for whatever purpose

    def generator(self, purpose: str) -> torch.Generator:
        """Return a random generator that depends on the seed and the purpose alone.

        Args:
            purpose: Name of the use. The same purpose gives the same numbers, in any order of
                measurements.
        """
        return make_torch_generator("probe", self.seed, purpose)

    def scoring_mode(self, fast_pooling: bool = True) -> AbstractContextManager[object]:
        """Return a context in which the model can be run; afterwards nothing has changed."""
        mode = ScoringMode(fast_pooling=fast_pooling)
        return scoring_mode(self.model, derive_seed("forward", self.seed), mode=mode)

    def run_network(self, inputs: Tensor) -> Tensor:
        """Run the model, inside `scoring_mode`, and return its logits."""
        outputs = read_logits(self.model(inputs))
        # Only ordinary outputs of the whole batch are kept: not jets, not other batch sizes.
        if len(inputs) == len(self.batch) and type(outputs) is Tensor:
            self._last_outputs = outputs.detach()
        return outputs

    def set_forward_results(
        self,
        outputs: Tensor,
        features: tuple[Feature, ...],
        outputs_on_cpu: Tensor,
    ) -> None:
        """Store results of this network on this batch that were computed elsewhere (`batched/`).

        Args:
            outputs: The outputs.
            features: The features.
            outputs_on_cpu: The outputs on the CPU, where reading them does not synchronise a GPU.
        """
        self.__dict__.update(outputs=outputs, features=features)
        self._last_outputs = outputs_on_cpu

    def copy_inputs(self) -> Tensor:
        """Return a copy of the inputs, because a function that works in place changes its input."""
        return self.batch.inputs.clone()

    @cached_property
    def outputs(self) -> Tensor:
        """Outputs of the network, (samples, outputs)."""
        with torch.no_grad(), self.scoring_mode():
            return self.run_network(self.copy_inputs())

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Outputs of all modules in call order, each distinct tensor once."""
        capture = self._capture_features(keep_copies=False)
        if capture.overwritten:
            self._feature_signs = None
            capture = self._capture_features(keep_copies=True)
        return capture.features

    @cached_property
    def all_features(self) -> tuple[CompleteFeature, ...]:
        """Outputs of all modules and functions in call order, with the inputs of activations.

        They are copies, so they need more memory than `features`.
        """
        capture = CompleteFeatureCapture(len(self.batch))
        inputs = self.copy_inputs()
        with torch.no_grad(), self.scoring_mode(), capture.record(self.model):
            self.model(inputs)
        return capture.features

    def _capture_features(
        self,
        keep_copies: bool,
        variances: list[NormVariance] | None = None,
    ) -> FeatureCapture:
        capture = FeatureCapture(keep_copies)
        sign_recorder = SignRecorder(len(self.batch), keep_tensors=True)
        seed = derive_seed("forward", self.seed)
        with (
            torch.no_grad(),
            scoring_mode(self.model, seed, variances),
            capture.hook(self.model),
            sign_recorder.record(self.model),
        ):
            outputs = self.run_network(self.copy_inputs())
        # Not replaced after the features have been read: `last_map` looks for the outputs among the
        # features, and both must be from the same pass.
        if "features" not in self.__dict__:
            self.__dict__["outputs"] = capture.find_copy(outputs)
        self._feature_signs = sign_recorder
        return capture

    def _read_feature_codes(self) -> tuple[SignCode, ...] | None:
        """Return the sign codes that the pass for the features recorded, if there was one.

        On a GPU, other kernels of batch norm may be used in that pass than in a pass with a graph.
        """
        if self._feature_signs is None or self.batch.inputs.device.type != "cpu":
            return None
        return self._feature_signs.read_codes()

    @cached_property
    def last_map(self) -> Tensor:
        """The last feature with more than one position, which is pooled and classified.

        In a network without such features, as in an MLP, it is the last hidden feature.
        """
        maps = []
        hidden = []
        for feature in self.features:
            tensor = feature.tensor
            if tensor.ndim > 2 and tensor[0, 0].numel() > 1:
                maps.append(tensor)
            if tensor is not self.outputs:
                hidden.append(tensor)
        candidates = maps or hidden or [self.outputs]
        return candidates[-1]

    @cached_property
    def norm_variances(self) -> tuple[NormVariance, ...]:
        """The variances that each batch norm divides by, in call order."""
        variances: list[NormVariance] = []
        capture = self._capture_features(False, variances)
        # The same pass also provides the features.
        if not capture.overwritten:
            self.__dict__.setdefault("features", capture.features)
        return tuple(variances)

    def inverse_conditions(self, features: Sequence[Feature]) -> Tensor:
        """Return the reciprocal condition number, sigma_min / sigma_max, of feature matrices.

        Args:
            features: Some of `self.features`.

        Returns:
            One ratio per feature, float64 on the CPU.

        Raises:
            Unscorable: If a feature is not finite.
        """
        missing = [feature for feature in features if id(feature) not in self._inverse_conditions]
        missing_ratios = compute_inverse_conditions(missing).tolist()
        for feature, ratio in zip(missing, missing_ratios, strict=True):
            self._inverse_conditions[id(feature)] = ratio
        ratios = [self._inverse_conditions[id(feature)] for feature in features]
        return torch.tensor(ratios, dtype=torch.float64)

    def has_inverse_condition(self, feature: Feature) -> bool:
        """Whether sigma_min / sigma_max of a feature has been computed."""
        return id(feature) in self._inverse_conditions

    def set_inverse_conditions(self, ratios: Mapping[int, float]) -> None:
        """Store ratios that were computed elsewhere (`batched/`), by id of the feature."""
        self._inverse_conditions.update(ratios)

    @property
    def num_outputs(self) -> int:
        """Number of outputs of a sample."""
        outputs = self.outputs if self._last_outputs is None else self._last_outputs
        return outputs[0].numel()

    @cached_property
    def _outputs_of_different_inputs(self) -> Tensor:
        """Outputs of the first sample and of another input.

        They are needed if a batch does not contain two different samples.
        """
        first = self.batch.inputs[:1]
        # Integer inputs, such as words, are reversed: noise would not be valid.
        noise = torch.randn(first.shape, generator=self.generator("elsewhere"))
        other = noise.to(first) if first.is_floating_point() else first.flip(-1)
        with torch.no_grad(), self.scoring_mode():
            return self.run_network(torch.cat([first, other]))


def have_different_rows(outputs: Tensor | None) -> bool:
    """Whether two samples have different outputs; False without outputs."""
    if outputs is None or len(outputs) < 2:
        return False
    return bool((outputs != outputs[:1]).any())


def read_logits(output: object) -> Tensor:
    """Return the logits in the output of a model.

    Args:
        output: A tensor, a sequence that ends with the logits as (features, logits), or a
            dictionary or object with an entry `logits`.

    Raises:
        Unscorable: If the output is anything else, or complex.
    """
    logits = _find_logits(output)
    if logits is None:
        kind = type(output).__name__
        detail = f"the model returns {kind}, from which no logits can be read"
        raise Unscorable("unsupported", detail)
    if logits.is_complex():
        detail = "the model returns complex numbers; let it return real ones, such as .abs()"
        raise Unscorable("unsupported", detail)
    return logits


def _find_logits(output: object) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, list | tuple) and output and isinstance(output[-1], Tensor):
        return output[-1]
    for entries in (output, getattr(output, "__dict__", None)):
        if isinstance(entries, dict):
            logits = entries.get("logits")
            if isinstance(logits, Tensor):
                return logits
    return None
