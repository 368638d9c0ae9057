"""Take the measurements of many probes together.

The features and motions that are computed here are stored in the probes. The probes are then used
like any other and take all other measurements themselves. The numbers usually differ from those of
ordinary scoring only in the last digits of float32, because kernels for many networks add in
another order; scores differ by up to 1.2 % (docs/results/networks-per-batch.md). A network that
cannot be measured together with others is measured alone, as in ordinary scoring; if it fails, the
failure is the same.

A batch norm over few values divides by a small standard deviation. A network with such norms
amplifies differences in the last digits to several per cent, so it is measured alone.

What to measure is not declared but observed: `MeasurementPlan.from_probe` lists what proxies have
read from one probe, and `plan.measure` takes the same measurements for other probes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.batched.layouts import stack_values
from untrained.probe.batched.recorder import intercept_modules, record_tape
from untrained.probe.batched.scheduler import (
    RunStatistics,
    StackSlice,
    TapeResult,
    run_tapes,
)
from untrained.probe.batched.signatures import META, SignatureCache
from untrained.probe.batched.tape import Tape, ValueRef
from untrained.probe.features import Feature, as_matrices, compute_stacked_inverse_conditions
from untrained.probe.flops import FlopCounter, Operation
from untrained.probe.guard import full_precision
from untrained.probe.jets import Jet
from untrained.probe.passes import read_logits
from untrained.probe.probe import Probe
from untrained.seeds import derive_seed

MIN_NORM_VALUES = 16  # per channel, for a batch norm to be computed together


@dataclass(frozen=True)
class ViewPlan:
    """Measurements by forward passes on the first samples of a batch.

    Attributes:
        samples: Number of samples.
        features: Whether features were measured.
        inverse_conditions: The features whose sigma_min / sigma_max was computed: those of leaf
            modules ("leaves"), all ("all") or none ("").
        circles: Shapes of the circles of inputs on which motions were measured.
        operations: Whether operations were counted.
    """

    samples: int
    features: bool
    inverse_conditions: Literal["leaves", "all", ""]
    circles: tuple[tuple[int, ...], ...]
    operations: bool = False

    @staticmethod
    def from_probe(probe: Probe) -> "ViewPlan":
        """List the measurements that a probe has taken."""
        # Cached properties are in __dict__ once they have been read.
        features: tuple[Feature, ...] = vars(probe).get("features", ())
        decomposed = [feature for feature in features if probe.has_inverse_condition(feature)]
        inverse_conditions: Literal["leaves", "all", ""] = ""
        if decomposed:
            only_leaves = all(feature.leaf_calls for feature in decomposed)
            inverse_conditions = "leaves" if only_leaves else "all"
        is_single_sample = len(probe.batch) == 1
        return ViewPlan(
            samples=len(probe.batch),
            features=bool(features),
            inverse_conditions=inverse_conditions,
            circles=probe.measured_circles,
            operations=bool(features) and is_single_sample and "operations" in vars(probe),
        )


@dataclass(frozen=True)
class MeasurementPlan:
    """Measurements that can be taken for many networks at once."""

    views: tuple[ViewPlan, ...]

    @staticmethod
    def from_probe(probe: Probe) -> "MeasurementPlan":
        """Plan the measurements that proxies have read from a probe."""
        views = []
        for view in probe.related_probes():
            if view.starts_at_first_sample:
                plan = ViewPlan.from_probe(view)
                if plan.features or plan.circles:
                    views.append(plan)
        return MeasurementPlan(tuple(views))

    def measure(
        self,
        probes: Sequence[Probe],
        cache: SignatureCache,
        statistics: RunStatistics | None = None,
    ) -> None:
        """Take the measurements of all probes together and store them in the probes.

        If memory runs out, the exception is raised. After any other failure, a probe is unchanged.
        """
        if not probes:
            return
        for view_plan in self.views:
            views = [probe.first(view_plan.samples) for probe in probes]
            _NetworkGroup(views, view_plan, cache, statistics).measure()

    def is_complete(self, probe: Probe) -> bool:
        """Whether the probe has all planned measurements."""
        for plan in self.views:
            view = probe.first(plan.samples)
            if plan.features and "features" not in vars(view):
                return False
            if not set(plan.circles) <= set(view.measured_circles):
                return False
        return True


class _FinishedTape(NamedTuple):
    probe: Probe
    tape: Tape
    result: TapeResult


class _NetworkGroup:
    """Probes with the same number of samples, measured together."""

    def __init__(
        self,
        probes: Sequence[Probe],
        plan: ViewPlan,
        cache: SignatureCache,
        statistics: RunStatistics | None,
    ) -> None:
        self._probes = probes
        self._plan = plan
        self._cache = cache
        self._statistics = statistics
        # The first tape of each probe, with the shape of its input.
        self._first_tapes: dict[Probe, tuple[tuple[int, ...], Tape]] = {}

    def measure(self) -> None:
        with full_precision(), torch.inference_mode(False), torch.no_grad():
            if self._plan.features:
                self._measure_features()
            for shape in self._plan.circles:
                self._measure_motions(shape)

    def _measure_features(self) -> None:
        inputs = [probe.batch.inputs for probe in self._probes]
        tapes = self._record_tapes(tuple(inputs[0].shape))

        def request_values(tape: Tape) -> Iterable[ValueRef]:
            return [tape.output, *(feature.ref for feature in tape.features)]

        finished_tapes = self._run_tapes(tapes, inputs, request_values)
        outputs = copy_to_cpu([result[tape.output] for _, tape, result in finished_tapes])
        for (probe, tape, result), outputs_on_cpu in zip(finished_tapes, outputs, strict=True):
            output = result[tape.output]
            features = []
            for ref, name, calls, leaf_calls in tape.features:
                tensor = result[ref]
                # `last_map` looks for the output among the features, so it must be the same object.
                # A constant, whose reference is the tensor itself, always is.
                if isinstance(ref, int) and isinstance(tape.output, int) and ref == tape.output:
                    tensor = output
                features.append(Feature(tensor, name, calls, leaf_calls))
            probe.set_forward_results(output, tuple(features), outputs_on_cpu)
            if self._plan.operations and tape.complete:
                vars(probe).setdefault("operations", _count_operations(probe, tape))
        if self._plan.inverse_conditions:
            self._measure_inverse_conditions(finished_tapes)

    def _measure_inverse_conditions(self, finished_tapes: Sequence[_FinishedTape]) -> None:
        features_by_probe: list[tuple[Probe, list[Feature]]] = []
        slices: list[StackSlice] = []
        for probe, tape, result in finished_tapes:
            features = []
            for feature, recorded in zip(probe.features, tape.features, strict=True):
                if self._plan.inverse_conditions == "all" or feature.leaf_calls:
                    features.append(feature)
                    slices.append(result.find_slice(recorded.ref))
            features_by_probe.append((probe, features))
        ratios = iter(compute_slice_conditions(slices))
        for probe, features in features_by_probe:
            inverse_conditions = {id(feature): next(ratios) for feature in features}
            # A network that is not finite raises its failure when it is measured alone.
            if not any(isnan(ratio) for ratio in inverse_conditions.values()):
                probe.set_inverse_conditions(inverse_conditions)

    def _measure_motions(self, shape: tuple[int, ...]) -> None:
        tapes = self._record_tapes((1, *shape))
        jets: list[tuple[Probe, Jet]] = []
        # As in `circle.measure_by_taylor_mode`.
        with torch.inference_mode():
            starts = []
            for probe in self._probes:
                u1, u2 = probe.plane(shape)
                starts.append(Jet.of(u1, torch.stack([u2, -u1])))
            for probe, tape, result in self._run_tapes(tapes, starts, lambda t: [t.output]):
                output = result[tape.output]
                if isinstance(output, Jet):
                    jets.append((probe, output))
        curves = []
        for _, output in jets:
            curves.append(torch.cat([output.value[None], output.derivatives]).flatten(1))
        for (probe, _), curve in zip(jets, copy_to_cpu(curves), strict=True):
            value, velocity, acceleration = curve
            probe.set_motion(shape, (value, velocity, acceleration))

    def _record_tapes(self, shape: tuple[int, ...]) -> list[Tape | None]:
        """Record the tapes; None for networks that cannot be run together."""
        tapes: list[Tape | None] = []
        with intercept_modules():
            for probe in self._probes:
                tape = self._record_tape(probe, shape)
                if tape is not None and _has_norm_of_few_values(tape):
                    tape = None
                tapes.append(tape)
        return tapes

    def _record_tape(self, probe: Probe, shape: tuple[int, ...]) -> Tape | None:
        """Record the tape of a network, or resize its first tape if that is possible."""
        input = torch.empty(*shape, dtype=probe.batch.inputs.dtype, device=META)
        if probe in self._first_tapes:
            first_shape, tape = self._first_tapes[probe]
            if first_shape == shape:
                return tape
            resized = tape.resize(input, self._cache)
            if resized is not None:
                return resized
        seed = derive_seed("forward", probe.seed)
        recorded = record_tape(
            probe.model,
            input,
            self._cache,
            seed=seed,
            read_logits=read_logits,
        )
        if not isinstance(recorded, Tape):
            return None
        self._first_tapes[probe] = (shape, recorded)
        return recorded

    def _run_tapes(
        self,
        tapes: Sequence[Tape | None],
        inputs: Sequence[Tensor],
        request_values: Callable[[Tape], Iterable[ValueRef]],
    ) -> list[_FinishedTape]:
        """Run the tapes; return those that ran to their end."""
        run_probes: list[Probe] = []
        run_inputs: list[Tensor] = []
        tapes_to_run: list[Tape] = []
        requested_values = []
        for probe, tape, input in zip(self._probes, tapes, inputs, strict=True):
            if tape is None:
                continue
            run_probes.append(probe)
            run_inputs.append(input)
            tapes_to_run.append(tape)
            requested_values.append({ref for ref in request_values(tape) if isinstance(ref, int)})
        if not tapes_to_run:
            return []
        start = stack_values(run_inputs)
        results = run_tapes(tapes_to_run, start, requested_values, self._statistics)
        finished_tapes = []
        for probe, tape, result in zip(run_probes, tapes_to_run, results, strict=True):
            if result.error is None:
                finished_tapes.append(_FinishedTape(probe, tape, result))
        return finished_tapes


def compute_slice_conditions(slices: Sequence[StackSlice]) -> list[float]:
    """Return sigma_min / sigma_max of the first sample of each value.

    Values are gathered by stack: a few large copies instead of many small ones.
    """
    indices_by_stack: dict[int, list[int]] = defaultdict(list)
    for index, value in enumerate(slices):
        indices_by_stack[id(value.stack)].append(index)
    stacks = []
    order: list[int] = []
    for indices in indices_by_stack.values():
        indices.sort(key=lambda index: slices[index].position)
        stack = slices[indices[0]].stack
        positions = [slices[index].position for index in indices]
        if positions == list(range(len(stack))):
            first_samples = stack[:, 0]
        else:
            first_samples = torch.stack([stack[position, 0] for position in positions])
        stacks.append(as_matrices(first_samples))
        order.extend(indices)
    ratios = dict(zip(order, compute_stacked_inverse_conditions(stacks).tolist(), strict=True))
    return [ratios[index] for index in range(len(slices))]


def copy_to_cpu(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Copy tensors to the CPU, in one transfer if their shapes are equal.

    Each transfer synchronises a GPU.
    """
    if len({tensor.shape for tensor in tensors}) != 1:
        return [tensor.cpu() for tensor in tensors]
    return torch.stack(list(tensors)).cpu().unbind()


def _has_norm_of_few_values(tape: Tape) -> bool:
    for step in tape.steps():
        if step.func is F.batch_norm:
            shape = step.inputs[0].shape
            if shape.numel() < MIN_NORM_VALUES * shape[1]:
                return True
    return False


def _count_operations(probe: Probe, tape: Tape) -> tuple[Operation, ...]:
    """Count the same as `Probe.operations`: copying the first sample, and the forward pass."""
    with FlopCounter() as counter:
        _ = probe.copy_inputs()[:1]
    return *counter.operations, *tape.operations()
