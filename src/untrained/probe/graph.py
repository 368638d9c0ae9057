"""One forward pass on a batch, kept with its autograd graph.

The gradients of the loss, gradients with respect to the input, gradients through blocks and
per-sample gradients are all backward passes through this graph, so they share one forward pass. The
pass also records how parameters are used and what the blocks of the trunk return.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F

from untrained.probe.blocks import VersionedTensor, find_blocks, record_trunk
from untrained.probe.circle import Network
from untrained.probe.codes import SignCode, SignRecorder
from untrained.probe.jets import Args, Kwargs, TorchFunction, find_functions
from untrained.probe.norms import NormBackwardSettings, apply_batch_norm
from untrained.probe.tracking import ParameterTracker

# torch may choose another kernel for these when no gradient, or a second derivative, is needed.
_FUSED = frozenset(
    find_functions("scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu")
)
# Axis of the channels in the output of a layer.
CHANNEL_AXIS = {F.conv1d: 1, F.conv2d: 1, F.conv3d: 1, F.linear: -1}


@dataclass(frozen=True, eq=False)
class ParameterUse:
    """One call of a function with parameters among its arguments.

    Attributes:
        func: The function.
        args: Its arguments, with a detached constant in place of each parameter.
        kwargs: The same for keyword arguments.
        constants: By id of a constant, the name of its parameter and the constant itself.
        output: The result of a convolution or linear layer; None for other functions.
        inputs: Tensors among the arguments that are not parameters.
    """

    func: TorchFunction
    args: Args
    kwargs: Kwargs
    constants: dict[int, tuple[str, Tensor]]
    output: Tensor | None
    inputs: tuple[VersionedTensor, ...]

    @property
    def overwritten(self) -> bool:
        """Whether an in-place function has changed an input since the call."""
        return _are_overwritten(self.inputs)


GradientCallback = Callable[[ParameterUse, Tensor], None]


@dataclass(eq=False)
class _BackwardSettings(NormBackwardSettings):
    """Settings of the current backward pass.

    Hooks and norms refer to this object instead of the graph, so that no reference cycle keeps a
    graph alive.
    """

    on_gradient: GradientCallback | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """A forward pass with everything that backward passes need.

    Attributes:
        inputs: The inputs, as a leaf of the graph.
        outputs: The outputs.
        uses: All uses of parameters, in call order.
        layer_edges: For each convolution and linear layer, its use and the autograd edge of its
            output.
        trunk: The input of the first block and the output of every block.
        start_edges: The edges at which the graph starts. A backward pass that ends at all of them
            visits every use.
        settings: Settings of the current backward pass.
        fused: Whether the network calls a function for which torch may choose another kernel when
            no gradient, or a second derivative, is needed.
        sign_recorder: Signs of the inputs of nonlinearities; None if a pass without a graph could
            give other signs.
    """

    inputs: Tensor
    outputs: Tensor
    uses: tuple[ParameterUse, ...]
    layer_edges: tuple[tuple[ParameterUse, GradientEdge], ...]
    trunk: tuple[Tensor, ...]
    start_edges: tuple[GradientEdge, ...]
    settings: _BackwardSettings
    fused: bool
    sign_recorder: SignRecorder | None

    @property
    def codes(self) -> tuple[SignCode, ...] | None:
        """Sign codes, or None if they cannot be read from this graph."""
        if self.fused or self.sign_recorder is None:
            return None
        return self.sign_recorder.read_codes()

    def gradients(
        self,
        value: Tensor,
        sources: Sequence[Tensor] | Sequence[GradientEdge],
        *,
        constant_batch_statistics: bool = False,
        create_graph: bool = False,
        on_gradient: GradientCallback | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Run one backward pass.

        Args:
            value: The scalar to differentiate.
            sources: Tensors or edges, with respect to which `value` is differentiated.
            constant_batch_statistics: Whether the statistics of batch norms are constants.
            create_graph: Whether the gradients can be differentiated again.
            on_gradient: Called with every use of parameters and the gradient of its result.

        Returns:
            One gradient per source; None where `value` does not depend on it.
        """
        if not (value.requires_grad and sources):
            return (None,) * len(sources)
        self.settings.constant_batch_statistics = constant_batch_statistics
        self.settings.on_gradient = on_gradient
        try:
            return torch.autograd.grad(
                value,
                sources,
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
        finally:
            self.settings.constant_batch_statistics = False
            self.settings.on_gradient = None


def record_graph(model: nn.Module, network: Network, inputs: Tensor) -> Graph:
    """Run a forward pass and keep its graph.

    If an in-place function overwrites the output of a layer or block, the pass is run a second time
    with copies.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    blocks = find_blocks(model)
    for copies in (False, True):
        x = inputs.clone().requires_grad_(inputs.is_floating_point())
        recorder = _UseRecorder(parameters, copies)
        trunk: list[VersionedTensor] = []
        sign_recorder = SignRecorder(len(inputs), keep_tensors=True)
        with (
            torch.enable_grad(),
            recorder,
            record_trunk(blocks, trunk, copies),
            sign_recorder.record(model),
        ):
            # A copy, because a first function that works in place must not write into a leaf.
            outputs = network(x.clone())
        # Most networks are done after the first pass.
        if not _are_overwritten([*recorder.layer_outputs, *trunk]):
            break
    start_edges = list(recorder.start_edges)
    if x.requires_grad:
        start_edges.insert(0, get_gradient_edge(x))
    layers = [use for use in recorder.uses if use.output is not None]
    return Graph(
        inputs=x,
        outputs=outputs,
        uses=tuple(recorder.uses),
        layer_edges=tuple(zip(layers, recorder.layer_edges, strict=True)),
        trunk=tuple(tensor for tensor, _ in trunk),
        start_edges=tuple(start_edges),
        settings=recorder.settings,
        fused=recorder.fused,
        # With copies, the tensors that nonlinearities read are not those of a plain pass.
        sign_recorder=None if copies else sign_recorder,
    )


def record_codes(model: nn.Module, network: Network, inputs: Tensor) -> tuple[SignCode, ...]:
    """Record sign codes in a pass that keeps no graph but calls what `record_graph` calls."""
    sign_recorder = SignRecorder(len(inputs))
    with torch.no_grad(), _UseRecorder({}, False), sign_recorder.record(model):
        network(inputs)
    return sign_recorder.read_codes() or ()


def _are_overwritten(tensors: Sequence[VersionedTensor]) -> bool:
    return any(tensor._version != version for tensor, version in tensors)


class _UseRecorder(ParameterTracker):
    """Records every use of a parameter and hooks the gradient of its result."""

    def __init__(self, parameters: Mapping[str, Tensor], copies: bool) -> None:
        super().__init__(parameters)
        self._copies = copies
        self.uses: list[ParameterUse] = []
        self.start_edges: list[GradientEdge] = []
        # Edges are kept apart from their uses: a use that held its own edge would be a cycle.
        self.layer_edges: list[GradientEdge] = []
        self.layer_outputs: list[VersionedTensor] = []
        self.settings = _BackwardSettings()
        self.fused = False

    def call(self, func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        if func is F.batch_norm:
            out, args = apply_batch_norm(self.settings, *args, **kwargs)
            kwargs = {}
        else:
            out = func(*args, **kwargs)
        if func in _FUSED:
            self.fused = True
        tensors = collect_tensors((*args, *kwargs.values()))
        parameters = {id(x): x for x in tensors if id(x) in self.names}
        # Reading a shape or a device of a parameter is not a use.
        if not (parameters and is_differentiable(out)):
            return out
        if isinstance(out, Tensor) and out._is_view():
            # Overwriting a view would remove its hook from the graph.
            out = out.clone()
        inputs = [x for x in tensors if id(x) not in parameters]
        # Nothing before this call depends on a parameter or on the input: the graph starts here.
        if not any(x.requires_grad for x in inputs):
            for result in collect_tensors((out,)):
                if result.requires_grad:
                    self.start_edges.append(get_gradient_edge(result))
        self._record_use(func, args, kwargs, out, parameters, inputs)
        return out

    def _record_use(
        self,
        func: TorchFunction,
        args: Args,
        kwargs: Kwargs,
        out: object,
        parameters: dict[int, Tensor],
        inputs: list[Tensor],
    ) -> None:
        replacements = {key: parameter.detach() for key, parameter in parameters.items()}
        constants = {}
        for key, constant in replacements.items():
            constants[id(constant)] = (self.names[key], constant)
        values = replace_tensors(tuple(kwargs.values()), replacements)
        use = ParameterUse(
            func=func,
            args=replace_tensors(args, replacements),
            kwargs=dict(zip(kwargs, values, strict=True)),
            constants=constants,
            output=self._record_output(func, out),
            inputs=tuple((x, x._version) for x in inputs if x is not out),
        )
        self.uses.append(use)
        if isinstance(out, Tensor):
            hook = _make_hook(self.settings, use)
            out.register_hook(hook)  # type: ignore[no-untyped-call]

    def _record_output(self, func: TorchFunction, out: Any) -> Tensor | None:
        if func not in CHANNEL_AXIS:
            return None
        self.layer_edges.append(get_gradient_edge(out))
        output: Tensor = out.detach()
        if self._copies:
            output = output.clone()
        self.layer_outputs.append((output, output._version))
        return output


def _make_hook(settings: _BackwardSettings, use: ParameterUse) -> Callable[[Tensor], None]:
    def report_gradient(gradient: Tensor) -> None:
        if settings.on_gradient is not None:
            settings.on_gradient(use, gradient)

    return report_gradient


def fill_gradients(
    gradients: Sequence[Tensor | None],
    parameters: Sequence[Tensor],
) -> list[Tensor]:
    """Replace missing gradients with zeros, and sparse gradients with dense ones."""
    filled = []
    for gradient, parameter in zip(gradients, parameters, strict=True):
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        elif gradient.is_sparse:
            gradient = gradient.to_dense()
        filled.append(gradient)
    return filled


def is_differentiable(out: object) -> bool:
    """Whether a result can be differentiated. The shape or device of a parameter cannot."""
    return any(x.grad_fn is not None for x in collect_tensors((out,)))


def collect_tensors(values: Sequence[object]) -> list[Tensor]:
    """Return the tensors among arguments, also those in lists such as `torch.cat` takes."""
    tensors: list[Tensor] = []
    for value in values:
        members = value if isinstance(value, list | tuple) else (value,)
        tensors.extend(x for x in members if isinstance(x, Tensor))
    return tensors


def replace_tensors(
    values: Sequence[Any],
    replacements: Mapping[int, Tensor],
) -> Args:
    """Replace tensors among arguments by id, also those in lists."""
    results: list[Any] = []
    for value in values:
        if type(value) in (list, tuple):
            results.append(type(value)(replace_tensors(value, replacements)))
        else:
            results.append(replacements.get(id(value), value))
    return tuple(results)
