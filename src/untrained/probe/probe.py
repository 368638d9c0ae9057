"""The Probe: one network on one batch.

Every measurement that a proxy may read is a property or method of it. A measurement is taken when
it is first read, and only once. The model is left exactly as it was: parameters, buffers,
gradients, modes, hooks and random states.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from math import isfinite
from typing import Literal
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe.blocks import (
    Blocks,
    contain_conv1d,
    find_blocks,
    measure_blocks,
)
from untrained.probe.circle import Motion, draw_plane, measure_motion
from untrained.probe.codes import SignCode
from untrained.probe.fisher import compute_directions, compute_fisher, draw_combinations
from untrained.probe.flops import Operation, count_operations, find_uncounted
from untrained.probe.gradients import (
    LOSSES,
    ChannelSaliency,
    LossPass,
    compute_flow,
    compute_jacobian,
    compute_sample_losses,
    copy_after_step,
    differentiate_weight_products,
    find_trainable_parameters,
    run_loss_pass,
)
from untrained.probe.graph import Graph, record_codes, record_graph
from untrained.probe.kernels import (
    Kernel,
    KernelContents,
    Reading,
    SampleAxisRecorder,
    compute_kernel,
)
from untrained.probe.layers import (
    count_parameters,
    find_layer_parameters,
    find_layer_weights,
    measure_depth,
)
from untrained.probe.passes import ForwardProbe, have_different_rows, read_logits
from untrained.probe.responses import Response, measure_responses
from untrained.types import Batch

KernelOutputs = Literal["label", "sum", "loss", "all"]  # see `Probe.kernel`
# The Gram matrix is large, so it is computed only for the outputs whose kernel proxies read.
_KERNEL_CONTENTS = {
    "label": KernelContents(),
    "sum": KernelContents(),
    "loss": KernelContents(gram=False, signs=True, products=True),
    "all": KernelContents(gram=False),
}


class Probe(ForwardProbe):
    """Measurements of one network on one batch.

    Args:
        model: The network. It is never changed.
        batch: Inputs and targets.
        loss: Name of the loss: "cross_entropy", "mse" or "bce".
        seed: Determines every random choice of a measurement (the plane of the circle, sampled
            channels). Two probes with equal arguments measure equal numbers.
        macs: Multiply-adds of one sample, if they are known; otherwise they are counted.

    Attributes:
        scores: Scores that proxies have computed, for proxies that combine other proxies.

    Example:
        >>> import torch
        >>> from untrained.probe import Probe
        >>> from untrained.types import Batch
        >>> batch = Batch(torch.randn(4, 8), torch.tensor([0, 1, 2, 0]))
        >>> probe = Probe(torch.nn.Linear(8, 3), batch)
        >>> probe.params
        27
        >>> sorted(probe.gradients)
        ['bias', 'weight']
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        *,
        loss: str = "cross_entropy",
        seed: int = 0,
        macs: int | None = None,
    ) -> None:
        self.model = model
        batch = _copy_inference_tensors(batch)
        # Some kernels for channels-last inputs are wrong on a GPU (dev/LOG.md).
        self.batch = Batch(batch.inputs.contiguous(), batch.targets)
        self.loss_name = loss
        self.seed = seed
        self.scores: dict[object, float] = {}
        self._macs = macs
        self._inverse_conditions = {}
        self._last_outputs = None
        self._motions: dict[tuple[int, ...], Motion] = {}  # by shape of the input
        self._scaled_motions: dict[float, dict[tuple[int, ...], Motion]] = {}  # by radius
        self._kernels: dict[tuple[object, ...], Kernel] = {}
        self._flows: dict[bool, dict[str, tuple[Tensor, Tensor]]] = {}
        # A view is a probe of some rows of the batch. The probe of the whole batch owns all views
        # and all graphs, so that views can share them. Views refer to it weakly: a strong reference
        # would be a cycle, which keeps the memory until the next garbage collection.
        self._graphs: dict[tuple[int, int], Graph] = {}  # by (offset, length)
        self._views: dict[tuple[int, int], Probe] = {}  # by (start, stop)
        # By (count, step), what `parts_with_gradient_steps` returned.
        self._parts_with_steps: dict[tuple[int, float], tuple[Probe, ...]] = {}
        self._get_whole: Callable[[], Probe | None] = lambda: None
        self._offset = 0

    # ---------------------------------------------------------------- parts of the batch

    def first(self, samples: int) -> "Probe":
        """Return the probe of the same network on the first samples of the batch.

        Probes of the same rows are the same object, so their measurements are shared.
        """
        return self._view_rows(0, min(samples, len(self.batch)))

    def parts(self, count: int) -> tuple["Probe", ...]:
        """Split the batch into `count` batches of equal size, each with a probe.

        Raises:
            Unscorable: If there are fewer than `count` samples.
        """
        size = len(self.batch) // count
        if not size:
            detail = f"{count} batches need at least {count} samples, not {len(self.batch)}"
            raise Unscorable("unsupported", detail)
        return tuple(self._view_rows(k * size, (k + 1) * size) for k in range(count))

    def parts_with_gradient_steps(self, count: int, step: float) -> tuple["Probe", ...]:
        """Split the batch as `parts` does, and take a gradient step after each part but the last.

        The first part measures the network itself. Every later part measures a copy of the network
        after one more gradient step: the step is taken on the part before it, and it changes all
        trainable parameters. The network itself does not change.

        Args:
            count: Number of parts.
            step: Size of the gradient steps.

        Raises:
            Unscorable: If there are fewer than `count` samples, or if the loss on a part other than
                the last is not finite, so that no step can be taken.
        """
        key = (count, step)
        if key not in self._parts_with_steps:
            first_part, *later_parts = self.parts(count)
            probes = [first_part]
            for part in later_parts:
                probes.append(probes[-1]._take_step(part, step))
            self._parts_with_steps[key] = tuple(probes)
        return self._parts_with_steps[key]

    def _take_step(self, part: "Probe", step: float) -> "Probe":
        """Return a probe of this network after a gradient step, on the batch of `part`."""
        if not isfinite(self.loss):
            raise Unscorable("nan", "the loss is not finite, so there is no gradient step")
        moved = Probe(
            copy_after_step(self.model, self.gradients, step),
            part.batch,
            loss=self.loss_name,
            seed=self.seed,
            macs=self._macs,
        )
        # `_get_graph` does not keep the large graph of a probe with an offset.
        moved._offset = part._offset
        return moved

    @property
    def _whole_probe(self) -> "Probe":
        """The probe of the whole batch."""
        return self._get_whole() or self

    def _view_rows(self, start: int, stop: int) -> "Probe":
        if (start, stop) == (0, len(self.batch)):
            return self
        whole = self._whole_probe
        key = (self._offset + start, self._offset + stop)
        if key not in whole._views:
            rows = Batch(self.batch.inputs[start:stop], self.batch.targets[start:stop])
            view = Probe(
                self.model,
                rows,
                loss=self.loss_name,
                seed=self.seed,
                macs=self._macs,
            )
            view._get_whole = ref(whole)
            view._offset = self._offset + start
            whole._views[key] = view
        return whole._views[key]

    def related_probes(self) -> list["Probe"]:
        """Return the probe of the whole batch and all views of it."""
        whole = self._whole_probe
        return [whole, *whole._views.values()]

    @property
    def starts_at_first_sample(self) -> bool:
        """Whether this is a probe of the first rows of the whole batch."""
        return self._offset == 0

    def with_inputs(self, inputs: Tensor) -> "Probe":
        """Return a probe of the same network on other inputs, without targets."""
        no_targets = inputs.new_zeros(len(inputs)).long()
        return Probe(self.model, Batch(inputs, no_targets), seed=self.seed)

    def with_gaussian_weights(self, generator: torch.Generator) -> "Probe":
        """Return a probe of a copy of the network with random layers.

        Weights of convolutions and linear layers are drawn from N(0, 1), biases are 0.
        """
        model = deepcopy(self.model)
        with torch.no_grad():
            for name in sorted(find_layer_parameters(model)):
                parameter = model.get_parameter(name)
                if parameter.ndim > 1:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator))
                else:
                    parameter.zero_()
        return Probe(model, self.batch, loss=self.loss_name, seed=self.seed)

    # ------------------------------------------------------------------- forward passes

    @cached_property
    def codes(self) -> tuple[SignCode, ...]:
        """Signs of the inputs of every pointwise nonlinearity, in call order."""
        graph = self._whole_probe._graphs.get((self._offset, len(self.batch)))
        # If there is a graph or a feature pass already, it contains the signs.
        codes = None
        if graph is not None:
            codes = graph.codes
        if codes is None:
            codes = self._read_feature_codes()
        if codes is None:
            with self.scoring_mode():
                codes = record_codes(self.model, self.run_network, self.copy_inputs())
        if not codes:
            raise Unscorable("unsupported", "the network has no pointwise nonlinearity")
        return codes

    def require_connected(self) -> None:
        """Raise if the output of the network does not depend on its input, or is not finite.

        Results of earlier passes are used if they are conclusive; otherwise the network is run.

        Raises:
            Unscorable: Of kind "disconnected" or "nan".
        """
        probes = self.related_probes()
        for probe in probes:
            outputs = probe._last_outputs
            if outputs is not None and not bool(outputs.isfinite().all()):
                raise Unscorable("nan", "the output is not finite")
        if any(bool(velocity.any()) for _, velocity, _ in self._motions.values()):
            return
        if any(have_different_rows(probe._last_outputs) for probe in probes):
            return
        if have_different_rows(self.outputs):
            return
        if not have_different_rows(self._outputs_of_different_inputs):
            raise Unscorable("disconnected", "the output does not depend on the input")

    # ------------------------------------------------------------------ backward passes

    def _get_graph(self) -> Graph:
        """Return the forward pass from which derivatives are computed.

        Graphs are large, so few are kept. For probes that start at the first sample, these are the
        graph that was requested last, and graphs of at least four times as many samples. Probes of
        other rows are read only for their loss and its gradients, so their graphs are not kept.
        """
        graphs = self._whole_probe._graphs
        key = (self._offset, len(self.batch))
        if key in graphs:
            return graphs[key]
        if self._offset:
            return record_graph(self.model, self.run_network, self.batch.inputs)
        # Release smaller graphs before the next one is made.
        for offset, length in list(graphs):
            if length < 4 * len(self.batch):
                del graphs[offset, length]
        graphs[key] = record_graph(self.model, self.run_network, self.batch.inputs)
        return graphs[key]

    @cached_property
    def _loss_pass(self) -> LossPass:
        # Probes of other rows are read only for their gradients. Collecting channels would read all
        # activations once more.
        return self._run_loss_pass(with_channel_saliency=self.starts_at_first_sample)

    def _run_loss_pass(self, with_channel_saliency: bool) -> LossPass:
        parameters = find_trainable_parameters(self.model)
        with self.scoring_mode():
            return run_loss_pass(
                self._get_graph(),
                parameters,
                self.batch.targets,
                self.loss_name,
                with_channel_saliency=with_channel_saliency,
            )

    @property
    def loss(self) -> float:
        """Mean loss on the batch."""
        return self._loss_pass.loss

    @property
    def gradients(self) -> dict[str, Tensor]:
        """Gradient of the mean loss with respect to each trainable parameter, by name.

        Zeros where the loss does not depend on a parameter.
        """
        return self._loss_pass.gradients

    @cached_property
    def channel_saliency(self) -> tuple[ChannelSaliency, ...]:
        """Activation times loss gradient of every call of a convolution or linear layer."""
        if self.starts_at_first_sample:
            return self._loss_pass.channel_saliency
        return self._run_loss_pass(with_channel_saliency=True).channel_saliency

    @cached_property
    def hessian_weight_products(self) -> dict[str, Tensor]:
        """The Hessian H of the loss times the weights W, for each entry of `weights`, by name.

        A proxy that needs W . (H G), where G are the gradients, can use this too: H is symmetric,
        so that is G . (H W).
        """
        gradients = self.gradients
        with self.scoring_mode():
            graph = self._get_graph()
            if graph.fused:
                # The fused kernels can be differentiated only once.
                with sdpa_kernel(SDPBackend.MATH):
                    graph = record_graph(self.model, self.run_network, self.batch.inputs)
            sums = differentiate_weight_products(
                graph,
                self.model,
                self.batch.targets,
                self.loss_name,
            )
        return {name: total - gradients[name] for name, total in sums.items()}

    @cached_property
    def jacobian(self) -> Tensor:
        """Gradient of the sum of all outputs with respect to the inputs.

        Its shape is (samples, entries of an input).
        """
        self._require_real_inputs("a derivative with respect to the input needs")
        with self.scoring_mode():
            return compute_jacobian(self._get_graph())

    def flow(self, keep_norms: bool = False) -> dict[str, tuple[Tensor, Tensor]]:
        """Return |W| and dR/d|W| of every layer weight by name (SynFlow), float64.

        R is the sum of the outputs when the network is made positive and its input is ones.

        Args:
            keep_norms: Whether normalisations are computed; otherwise they are the identity.
        """
        if keep_norms not in self._flows:
            self._require_real_inputs("an input of ones needs")
            shape = tuple(self.batch.inputs.shape[1:])
            with self.scoring_mode():
                self._flows[keep_norms] = compute_flow(self.model, read_logits, shape, keep_norms)
        return self._flows[keep_norms]

    @cached_property
    def blocks(self) -> Blocks:
        """Features of the trunk, and random gradients passed through each of its blocks."""
        self._require_real_inputs("gradients through blocks need")
        generator = self.generator("signs")

        def draw_signs(feature: Tensor, index: int) -> Tensor:
            signs = torch.randint(2, feature.shape, generator=generator) * 2.0 - 1
            return signs.to(feature)

        with self.scoring_mode():
            are_series = contain_conv1d(find_blocks(self.model))
            return measure_blocks(self._get_graph().trunk, draw_signs, are_series)

    def kernel(
        self,
        outputs: KernelOutputs,
        over: Literal["layers", "all"] = "layers",
        reading: Reading = "cross",
    ) -> Kernel:
        """Return per-sample gradients and their Gram matrix, the neural tangent kernel.

        Args:
            outputs: The scalar of each sample that is differentiated: its "label" output, the "sum"
                of its outputs, or its "loss". With "all", each output is differentiated on its own,
                and the kernels are summed. The Gram matrix is computed for "label" and "sum", norms
                for "loss" and "all".
            over: Differentiate with respect to the weights and biases of "layers" (convolutions and
                linear layers), or to "all" parameters.
            reading: How batch norm is treated; see `kernels.py`.
        """
        key = (outputs, over, reading)
        if key in self._kernels:
            return self._kernels[key]
        parameters = find_trainable_parameters(self.model)
        if over == "layers":
            names = find_layer_parameters(self.model)
            parameters = {name: p for name, p in parameters.items() if name in names}
        with self.scoring_mode(), torch.enable_grad():
            graph = self._get_graph()
            self._kernels[key] = compute_kernel(
                graph,
                self._select_scalars(graph.outputs, outputs),
                parameters,
                find_sample_axes=lambda: self._sample_axes,
                reading=reading,
                contents=_KERNEL_CONTENTS[outputs],
            )
        return self._kernels[key]

    @cached_property
    def fisher(self) -> Tensor:
        """Fisher information of one weight per trainable parameter, without labels.

        The weights are the first entries of the parameters; see `fisher.py`. The shape is (weights,
        weights), float64 on the CPU.
        """
        parameters = find_trainable_parameters(self.model)
        with self.scoring_mode(), torch.enable_grad():
            graph = self._get_graph()
            outputs = graph.outputs.detach().flatten(1)
            R = draw_combinations(outputs.shape[1], self.generator("combinations of outputs"))
            return compute_fisher(
                graph,
                parameters,
                compute_directions(outputs, self.loss_name, R),
                find_sample_axes=lambda: self._sample_axes,
                record_sample=self._record_sample,
            )

    def _record_sample(self, sample: int) -> Graph:
        inputs = self.batch.inputs[sample : sample + 1]
        return record_graph(self.model, self.run_network, inputs)

    @cached_property
    def responses(self) -> tuple[Response, ...]:
        """Correlations of samples at every pointwise nonlinearity, in call order."""

        def compute_loss(outputs: Tensor) -> Tensor:
            return LOSSES[self.loss_name](outputs, self.batch.targets)

        with self.scoring_mode():
            responses = measure_responses(
                self.model,
                self.run_network,
                self.batch.inputs,
                compute_loss,
            )
        if not responses:
            raise Unscorable("unsupported", "the network has no pointwise nonlinearity")
        return responses

    @cached_property
    def _sample_axes(self) -> SampleAxisRecorder:
        parameters = find_trainable_parameters(self.model)
        with self.scoring_mode():
            return SampleAxisRecorder.find(self.run_network, self.batch.inputs, parameters)

    def _require_real_inputs(self, reason: str) -> None:
        if not self.batch.inputs.is_floating_point():
            raise Unscorable("unsupported", f"{reason} real-valued inputs")

    def _select_scalars(self, logits: Tensor, outputs: KernelOutputs) -> Tensor:
        """Return the scalars to differentiate, (samples, 1), or (samples, outputs) for "all"."""
        if outputs == "loss":
            losses = compute_sample_losses(self.loss_name, logits, self.batch.targets)
            return losses[:, None]
        if outputs == "label" and self.loss_name == "cross_entropy":
            return logits.gather(1, self.batch.targets[:, None])
        if outputs == "all":
            return logits.flatten(1)
        return logits.flatten(1).sum(1, keepdim=True)

    def circle_motion(self, shape: tuple[int, ...], radius: float = 1.0) -> Motion:
        """Return value, velocity and acceleration of the output along a circle of inputs.

        The circle is R (u1 cos theta + u2 sin theta) with random orthonormal u1 and u2; the point
        is theta = 0.

        Args:
            shape: Shape of an input without the axis of samples.
            radius: R.

        Returns:
            Three tensors of shape (outputs,).
        """
        self._require_real_inputs("a circle in input space needs")
        # Motions on the unit circle have a dictionary of their own, which `set_motion` writes to.
        motions = self._motions
        if radius != 1.0:
            motions = self._scaled_motions.setdefault(radius, {})
        if shape not in motions:
            with self.scoring_mode():
                u1, u2 = self.plane(shape)
                motions[shape] = measure_motion(self.run_network, radius * u1, radius * u2)
        return motions[shape]

    @property
    def measured_circles(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the circles that have been measured."""
        return tuple(self._motions)

    def set_motion(self, shape: tuple[int, ...], motion: Motion) -> None:
        """Store a motion that was computed elsewhere (`batched/`)."""
        self._motions[shape] = motion

    def plane(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return two orthonormal directions of input space, each (1, *shape)."""
        with torch.inference_mode(False):
            # A copy, because in-place functions of a network write into its input.
            u1, u2 = draw_plane(shape, self.seed).to(self.batch.inputs, copy=True)
            return u1, u2

    # ----------------------------------------------------------------------------- size

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """Weights of convolutions, linear layers and attention projections by name."""
        weights = find_layer_weights(self.model)
        return {name: weight.detach() for name, weight in weights.items()}

    @cached_property
    def params(self) -> int:
        """Number of trainable parameters."""
        return count_parameters(self.model)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Calls of torch functions in one forward pass of one sample.

        They are also counted for a network on the meta device.
        """
        try:
            return self._count_operations(copies=1)
        except Unscorable:
            # If maps have a single position, a batch norm needs two samples. Their operations take
            # twice as much, except for the statistics of norms, which need little memory.
            return tuple(operation.halve() for operation in self._count_operations(copies=2))

    def _count_operations(self, copies: int) -> tuple[Operation, ...]:
        """Count the operations for some copies of the first sample."""
        with self.scoring_mode(fast_pooling=False), count_operations() as counter:
            inputs = self.copy_inputs()[:1]
            if copies > 1:
                inputs = inputs.repeat_interleave(copies, 0)
            self.model(inputs)
        return tuple(counter.operations)

    @property
    def macs(self) -> int:
        """Multiply-adds of one forward pass of one sample.

        Raises:
            Unscorable: If an operation has no formula, such as a function of a quantised layer.
        """
        if self._macs is not None:
            return self._macs
        missing = find_uncounted(self.operations)
        if missing:
            kinds = ", ".join(missing)
            raise Unscorable("unsupported", f"no formula for the multiply-adds of {kinds}")
        # Formulas count a multiply-add as two operations.
        return sum(operation.float_operations or 0 for operation in self.operations) // 2

    @property
    def memory(self) -> int:
        """Bytes of parameters, buffers and all results of one forward pass of one sample.

        This is what training on one sample keeps in memory. Inference releases activations early
        and needs less.
        """
        total = 0
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            total += tensor.numel() * tensor.element_size()
        for operation in self.operations:
            total += operation.bytes
        return total

    @cached_property
    def depth(self) -> int:
        """The longest chain of weight matrices from input to output."""
        with torch.enable_grad(), self.scoring_mode():
            inputs = self.copy_inputs()[:1]
            try:
                return measure_depth(self.model, inputs, read_logits)
            except Unscorable:
                # If maps have a single position, a batch norm needs two samples.
                return measure_depth(self.model, inputs.repeat_interleave(2, 0), read_logits)


def _copy_inference_tensors(batch: Batch) -> Batch:
    """Copy tensors that were made in inference mode: autograd does not accept them."""
    if not (batch.inputs.is_inference() or batch.targets.is_inference()):
        return batch
    with torch.inference_mode(False):
        return Batch(batch.inputs.clone(), batch.targets.clone())
