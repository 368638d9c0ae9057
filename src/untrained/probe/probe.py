"""The Probe: one network looking at one batch. Every measurement a proxy may read, taken once and only if asked for.

The only room with hooks and autograd transforms. Whatever is measured, the model is left exactly as it was found.
A proxy reads properties; it never touches the model itself except to list its parameters.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Literal
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe import gradients as derivatives
from untrained.probe.blocks import Blocks, block_pass
from untrained.probe.circle import Motion, motion, plane
from untrained.probe.codes import Code
from untrained.probe.flops import Operation, counting, uncounted
from untrained.probe.graph import Graph, forward, glance
from untrained.probe.kernels import Kernel, Reading, Uses, Wanted, kernel
from untrained.probe.layers import count_parameters, depth, layer_parameters, weights
from untrained.probe.passes import Passes
from untrained.probe.passes import logits as logits
from untrained.types import Batch

Outputs = Literal["label", "sum", "loss", "all"]
_WANTED = {
    "label": Wanted(),
    "sum": Wanted(),
    "loss": Wanted(gram=False, signs=True, products=True),
    "all": Wanted(gram=False),
}


class Probe(Passes):
    """`Probe(model, batch)`; then `probe.outputs`, `probe.features`, `probe.gradients`, `probe.kernel(...)`, and so on.

    `seed` decides every random choice a measurement makes (the plane of the circle, sampled channels), so that two
    probes with equal arguments measure equal numbers.
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
        """`macs` are known to whoever made the network; otherwise they are counted."""
        self.model = model
        batch = _ordinary(batch)
        self.batch = Batch(batch.inputs.contiguous(), batch.targets)  # see dev/LOG.md: channels last on a GPU
        self.loss_name = loss
        self.seed = seed
        self.scores: dict[object, float] = {}  # what proxies made of it, for proxies made of proxies
        self._ratios = {}
        self._jets: dict[tuple[int, ...], Motion] = {}
        self._kernels: dict[tuple[object, ...], Kernel] = {}
        self._flows: dict[bool, dict[str, tuple[Tensor, Tensor]]] = {}
        self._graphs: dict[tuple[int, int], Graph] = {}  # by place in the batch
        self._views: dict[tuple[int, int], Probe] = {}
        self._macs = macs
        self._whole: Callable[[], Probe | None] = lambda: None  # whose view this is; weak, so that nothing lingers
        self._offset = 0
        self._seen = None

    # ------------------------------------------------------------------------------------------- parts of the batch

    def first(self, samples: int) -> "Probe":
        """The same network on the first samples of the batch. Whoever asks for the same rows shares the work."""
        return self._rows(0, min(samples, len(self.batch)))

    def parts(self, count: int) -> tuple["Probe", ...]:
        """The batch cut into `count` batches of equal size."""
        size = len(self.batch) // count
        if not size:
            raise Unscorable("unsupported", f"{count} batches need {count} samples, and there are {len(self.batch)}")
        return tuple(self._rows(k * size, (k + 1) * size) for k in range(count))

    def _rows(self, start: int, stop: int) -> "Probe":
        whole = self._whole() or self
        place = self._offset + start, self._offset + stop
        if place == (self._offset, self._offset + len(self.batch)):
            return self
        if place not in whole._views:
            rows = Batch(self.batch.inputs[start:stop], self.batch.targets[start:stop])
            view = Probe(self.model, rows, loss=self.loss_name, seed=self.seed, macs=self._macs)
            view._whole, view._offset = ref(whole), place[0]
            whole._views[place] = view
        return whole._views[place]

    @property
    def _family(self) -> list["Probe"]:
        """The probe of the whole batch and all views of it."""
        whole = self._whole() or self
        return [whole, *whole._views.values()]

    def with_inputs(self, inputs: Tensor) -> "Probe":
        """The same network on other inputs, without targets."""
        return Probe(self.model, Batch(inputs, inputs.new_zeros(len(inputs)).long()), seed=self.seed)

    def with_gaussian_weights(self, draw: torch.Generator) -> "Probe":
        """A copy of the network with weights of convolutions and linear layers from N(0, 1), biases 0."""
        model = deepcopy(self.model)
        with torch.no_grad():
            for name in sorted(layer_parameters(model)):
                p = model.get_parameter(name)
                p.copy_(torch.randn(p.shape, generator=draw) if p.ndim > 1 else torch.zeros(p.shape))
        return Probe(model, self.batch, loss=self.loss_name, seed=self.seed)

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """Signs of what enters every pointwise nonlinearity, in call order."""
        graph = (self._whole() or self)._graphs.get((self._offset, len(self.batch)))
        found = None if graph is None else graph.codes
        if found is None:
            with self.watching():
                found = glance(self.model, self._network, self._inputs())
        if not found:
            raise Unscorable("unsupported", "the network has no pointwise nonlinearity")
        return found

    def require_connected(self) -> None:
        """Raise the failure of a network whose output does not depend on its input. Reads what passes have seen; runs
        the network only where they say nothing."""
        seen = [view._seen for view in self._family if view._seen is not None]
        if not all(bool(outputs.isfinite().all()) for outputs in seen):
            raise Unscorable("nan", "the output is not finite")
        moved = (velocity for _, velocity, _ in self._jets.values())
        if any(bool(v.any()) for v in moved) or any(view._tells_apart() for view in self._family):
            return
        if not self._tells_apart(self.outputs) and bool((self._elsewhere == self._elsewhere[:1]).all()):
            raise Unscorable("disconnected", "the output does not depend on the input")

    # ----------------------------------------------------------------------------------------------------- backward

    def _graph(self) -> Graph:
        """The pass that all derivatives start from. Of the batch and its views that of the first rows last looked at is
        kept, and any that is four times as large; rows further on are looked at for their loss alone."""
        whole, place = self._whole() or self, (self._offset, len(self.batch))
        if place in whole._graphs:
            return whole._graphs[place]
        if self._offset:
            return forward(self.model, self._network, self.batch.inputs)
        for rows in [rows for rows in whole._graphs if rows[1] < 4 * len(self.batch)]:
            del whole._graphs[rows]  # before the next one is made: they are large
        whole._graphs[place] = forward(self.model, self._network, self.batch.inputs)
        return whole._graphs[place]

    @cached_property
    def _loss_pass(self) -> derivatives.LossPass:
        """Rows further on are looked at for their gradients; hearing of channels would read every answer once more."""
        return self._backward(channels=not self._offset)

    def _backward(self, channels: bool) -> derivatives.LossPass:
        trainable = derivatives.trainable(self.model)
        with self.watching():
            return derivatives.loss_pass(
                self._graph(), trainable, self.batch.targets, self.loss_name, channels_too=channels
            )

    @property
    def loss(self) -> float:
        """Mean loss on the batch."""
        return self._loss_pass.loss

    @property
    def gradients(self) -> dict[str, Tensor]:
        """Gradient of the mean loss for each trainable parameter, by name; zeros where the loss does not reach."""
        return self._loss_pass.gradients

    @cached_property
    def channels(self) -> tuple[derivatives.Channels, ...]:
        """Activation times loss gradient of every call of a convolution or linear layer."""
        return (self._backward(channels=True) if self._offset else self._loss_pass).channels

    @cached_property
    def hessian_weights(self) -> dict[str, Tensor]:
        """H W over `weights`: the Hessian of the loss times the weights themselves. A . HB = B . HA, so that with
        `gradients` it also tells what the Hessian times the gradient says along the weights."""
        first = self.gradients
        with self.watching():
            graph = self._graph()
            if graph.fused:
                with sdpa_kernel(SDPBackend.MATH):  # the fused kernels differentiate once
                    graph = forward(self.model, self._network, self.batch.inputs)
            grown = derivatives.growth(graph, self.model, self.batch.targets, self.loss_name)
        return {name: g - first[name] for name, g in grown.items()}

    @cached_property
    def jacobian(self) -> Tensor:
        """Gradient of the sum of all outputs by the inputs, (samples, entries of an input)."""
        self._require_real("a derivative by the input needs")
        with self.watching():
            return derivatives.jacobian(self._graph())

    def flow(self, norms: bool = False) -> dict[str, tuple[Tensor, Tensor]]:
        """|W| and dR/d|W| of every weight when the network is made positive and shown ones (SynFlow), float64."""
        if norms not in self._flows:
            self._require_real("an input of ones needs")
            with self.watching():
                shape = tuple(self.batch.inputs.shape[1:])
                self._flows[norms] = derivatives.flow(self.model, logits, shape, norms)
        return self._flows[norms]

    @cached_property
    def blocks(self) -> Blocks:
        """Features of the trunk and random gradients sent through each of its blocks."""
        self._require_real("gradients through blocks need")
        draw = self.generator("signs")

        def signs(feature: Tensor, place: int) -> Tensor:
            return (torch.randint(2, feature.shape, generator=draw) * 2.0 - 1).to(feature)

        with self.watching():
            return block_pass(self._graph().trunk, signs)

    def kernel(self, outputs: Outputs, over: Literal["layers", "all"] = "layers", reading: Reading = "cross") -> Kernel:
        """Per-sample gradients and their Gram matrix.

        Of one scalar a sample (its label's output, the sum of its outputs, its loss), or summed over all outputs. Over
        the weights and biases of convolutions and linear layers, or over all parameters. `reading`: see `kernels.py`.
        The Gram matrix is there for "label" and "sum"; of "loss" and "all" nobody wants more than norms.
        """
        key = outputs, over, reading
        if key not in self._kernels:
            chosen = derivatives.trainable(self.model)
            if over == "layers":
                layers = layer_parameters(self.model)
                chosen = {name: p for name, p in chosen.items() if name in layers}
            with self.watching(), torch.enable_grad():
                graph = self._graph()
                columns = self._scalars(graph.outputs, outputs)
                self._kernels[key] = kernel(
                    graph, columns, chosen, uses=lambda: self._uses, reading=reading, wanted=_WANTED[outputs]
                )
        return self._kernels[key]

    @cached_property
    def _uses(self) -> Uses:
        with self.watching():
            return Uses.of(self._network, self.batch.inputs, derivatives.trainable(self.model))

    def _require_real(self, what: str) -> None:
        if not self.batch.inputs.is_floating_point():
            raise Unscorable("unsupported", f"{what} real-valued inputs")

    def _scalars(self, out: Tensor, which: Outputs) -> Tensor:
        """(samples, 1), or (samples, outputs) for all."""
        if which == "loss":
            return derivatives.losses(self.loss_name, out, self.batch.targets)[:, None]
        if which == "label" and self.loss_name == "cross_entropy":
            return out.gather(1, self.batch.targets[:, None])
        return out.flatten(1) if which == "all" else out.flatten(1).sum(1, keepdim=True)

    def circle_jet(self, shape: tuple[int, ...]) -> Motion:
        """Value, velocity and acceleration of the output at theta = 0 of the unit circle u1 cos theta + u2 sin theta.

        u1, u2: random orthonormal inputs of the given shape. All output coordinates, each of shape (outputs,).
        """
        self._require_real("a circle in input space needs")
        if shape not in self._jets:
            with self.watching():
                self._jets[shape] = motion(self._network, *self.plane(shape))
        return self._jets[shape]

    def plane(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Two orthonormal directions of input space, each (1, *shape)."""
        with torch.inference_mode(False):
            u1, u2 = plane(shape, self.seed).to(self.batch.inputs, copy=True)  # in-place functions write into it
            return u1, u2

    # --------------------------------------------------------------------------------------------------------- size

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """Weights of convolutions, linear layers and attention projections, by name."""
        return {name: p.detach() for name, p in weights(self.model).items()}

    @cached_property
    def params(self) -> int:
        """Number of trainable parameters."""
        return count_parameters(self.model)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Every call of a torch function in one forward pass of one sample; also of a network on the meta device."""
        with self.watching(), counting() as counter:
            self.model(self._inputs()[:1])
        return tuple(counter.operations)

    @property
    def macs(self) -> int:
        """Multiply-adds of one forward pass of one sample. Formulas count two operations for each of them.

        Raises:
            Unscorable: The network does something that has no formula, such as a function of a quantised layer.
        """
        if self._macs is not None:
            return self._macs
        missing = uncounted(self.operations)
        if missing:
            raise Unscorable("unsupported", f"no formula for the multiply-adds of {', '.join(missing)}")
        return sum(operation.flops or 0 for operation in self.operations) // 2

    @property
    def memory(self) -> int:
        """Bytes of parameters and buffers, and of all that one forward pass of one sample makes: what training on one
        sample holds on to. Inference, which frees activations on its way, needs less."""
        held = sum(t.numel() * t.element_size() for t in (*self.model.parameters(), *self.model.buffers()))
        return held + sum(operation.bytes for operation in self.operations)

    @cached_property
    def depth(self) -> int:
        """The longest chain of weight matrices from input to output."""
        with torch.enable_grad(), self.watching():
            return depth(self.model, self._inputs()[:1], logits)


def _ordinary(batch: Batch) -> Batch:
    """Tensors made in a caller's inference mode take no part in autograd; copies do."""
    if not (batch.inputs.is_inference() or batch.targets.is_inference()):
        return batch
    with torch.inference_mode(False):
        return Batch(batch.inputs.clone(), batch.targets.clone())
