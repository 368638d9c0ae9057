"""One forward pass on a batch, kept with its graph: where every derivative of that batch starts.

Loss gradients, gradients by the input, through blocks and sample by sample are backward passes through one graph, so
whoever asks for several of them pays for one forward. The pass notes how parameters are used and what the blocks of the
trunk hand on; it knows nothing of what is made of that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F

from untrained.probe.blocks import Met, block_modules, listening
from untrained.probe.codes import Code, Codes
from untrained.probe.jets import names
from untrained.probe.norms import Statistics, batch_norm
from untrained.probe.tracking import Tracking

Network = Callable[[Tensor], Tensor]
_FUSED = frozenset(names("scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"))
CHANNEL_AXIS = {F.conv1d: 1, F.conv2d: 1, F.conv3d: 1, F.linear: -1}  # of what a layer says


@dataclass(frozen=True, eq=False)
class Call:
    """One use of parameters: a function and its arguments, in which constants stand for the parameters."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    used: dict[int, tuple[str, Tensor]]  # by id of a constant: the name of its parameter, and the constant
    said: Tensor | None  # what a convolution or linear layer returned
    before: tuple[Met, ...]  # tensors it was given

    @property
    def overwritten(self) -> bool:
        """Whether an in-place function has since changed what the function was given."""
        return _overwritten(self.before)


@dataclass(eq=False)
class _Manner(Statistics):
    """How the backward pass under way is taken. All that hooks and norms hold on to, so that no ring of references
    keeps a graph alive."""

    hear: Callable[[Call, Tensor], None] | None = None  # told of the gradient of what each call returned


@dataclass(frozen=True, eq=False)
class Graph:
    """What a network made of a batch."""

    inputs: Tensor
    outputs: Tensor
    calls: tuple[Call, ...]
    said: tuple[tuple[Call, GradientEdge], ...]  # convolutions and linear layers, and where their gradients come by
    trunk: tuple[Tensor, ...]  # what enters the first block, and what each hands on
    ends: tuple[GradientEdge, ...]  # where the graph begins: gradients that reach these pass all calls
    manner: _Manner
    fused: bool  # whether torch may take a function by other kernels where nobody differentiates, or somebody twice
    entered: Codes | None  # the signs of what entered nonlinearities, where a pass without a graph sees the same

    @property
    def codes(self) -> tuple[Code, ...] | None:
        """None where the graph does not tell."""
        return None if self.fused or self.entered is None else self.entered.read()

    def gradients(
        self,
        value: Tensor,
        sources: Sequence[Tensor] | Sequence[GradientEdge],
        *,
        fixed: bool = False,
        again: bool = False,
        hear: Callable[[Call, Tensor], None] | None = None,
    ) -> tuple[Tensor | None, ...]:
        """One backward pass: gradients of `value` by `sources`, None where it does not depend on one. `again`: they are
        to be differentiated themselves."""
        if not (value.requires_grad and sources):
            return (None,) * len(sources)
        self.manner.fixed, self.manner.hear = fixed, hear
        try:
            return torch.autograd.grad(value, sources, retain_graph=True, create_graph=again, allow_unused=True)
        finally:
            self.manner.fixed, self.manner.hear = False, None


def forward(model: nn.Module, network: Network, inputs: Tensor) -> Graph:
    """Twice where an in-place function overwrites what a layer said or a block handed on: then with copies."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for copies in (False, True):
        x = inputs.clone().requires_grad_(inputs.is_floating_point())
        noting, trunk, entered = _Noting(parameters, copies), list[Met](), Codes(lasting=True)
        with torch.enable_grad(), noting, listening(block_modules(model), trunk, copies), entered.on(model):
            outputs = network(x.clone())  # a network whose first function works in place must not meet a leaf
        if not _overwritten([*noting.said, *trunk]):
            break
    ends = [get_gradient_edge(x), *noting.ends] if x.requires_grad else noting.ends
    layers = zip((call for call in noting.calls if call.said is not None), noting.edges, strict=True)
    return Graph(
        x,
        outputs,
        tuple(noting.calls),
        tuple(layers),
        tuple(f for f, _ in trunk),
        tuple(ends),
        noting.manner,
        noting.fused,
        None if copies else entered,
    )


def glance(model: nn.Module, network: Network, inputs: Tensor) -> tuple[Code, ...]:
    """The codes of a pass that keeps no graph, by the very functions that `forward` calls."""
    entered = Codes()
    with torch.no_grad(), _Noting({}, False), entered.on(model):
        network(inputs)
    return entered.read() or ()


def _overwritten(met: Sequence[Met]) -> bool:
    return any(tensor._version != version for tensor, version in met)


class _Noting(Tracking):
    """Notes every use of a parameter, and lets the gradient of what came of it be heard."""

    def __init__(self, parameters: Mapping[str, Tensor], copies: bool) -> None:
        super().__init__(parameters)
        self.calls: list[Call] = []
        self.ends: list[GradientEdge] = []
        self.edges: list[GradientEdge] = []  # of what layers said; a call that held its own would be a ring
        self.manner = _Manner()
        self._copies = copies
        self.said: list[Met] = []
        self.fused = False

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is F.batch_norm:
            out, args = batch_norm(self.manner, *args, **kwargs)
            kwargs = {}
        else:
            out = func(*args, **kwargs)
        self.fused |= func in _FUSED
        given = tensors((*args, *kwargs.values()))
        used = {id(x): x for x in given if id(x) in self.names}
        if not (used and differentiable(out)):
            return out
        if isinstance(out, Tensor) and out._is_view():
            out = out.clone()  # overwriting a view would take its hook out of the graph
        if not any(x.requires_grad for x in given if id(x) not in used):
            self.ends += [get_gradient_edge(x) for x in tensors((out,)) if x.requires_grad]
        constants = {key: p.detach() for key, p in used.items()}
        noted = Call(
            func,
            replaced(args, constants),
            dict(zip(kwargs, replaced(tuple(kwargs.values()), constants), strict=True)),
            {id(constants[key]): (self.names[key], constants[key]) for key in used},
            self._keep(func, out),
            tuple((x, x._version) for x in given if id(x) not in used and x is not out),
        )
        self.calls.append(noted)
        if isinstance(out, Tensor):
            out.register_hook(_hook(self.manner, noted))  # type: ignore[no-untyped-call]
        return out

    def _keep(self, func: Callable[..., Any], out: Any) -> Tensor | None:
        if func not in CHANNEL_AXIS:
            return None
        self.edges.append(get_gradient_edge(out))
        kept: Tensor = out.detach().clone() if self._copies else out.detach()  # the same memory, else
        self.said.append((kept, kept._version))
        return kept


def _hook(manner: _Manner, call: Call) -> Callable[[Tensor], None]:
    def arrive(grad: Tensor) -> None:
        if manner.hear is not None:
            manner.hear(call, grad)

    return arrive


def filled(grads: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with zeros where there is none, and none of them sparse."""
    pairs = zip(grads, like, strict=True)
    return [torch.zeros_like(x) if g is None else g.to_dense() if g.is_sparse else g for g, x in pairs]


def differentiable(out: Any) -> bool:
    """Whether a function of a parameter is more than a question about it: its shape, its device."""
    return any(x.grad_fn is not None for x in tensors((out,)))


def tensors(values: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among arguments, also inside lists such as `torch.cat` takes."""
    flat = [x for v in values for x in (v if isinstance(v, list | tuple) else (v,))]
    return [x for x in flat if isinstance(x, Tensor)]


def replaced(values: Sequence[Any], constants: Mapping[int, Tensor]) -> tuple[Any, ...]:
    """Arguments with parameters replaced by constants, also inside lists."""
    return tuple(
        type(v)(replaced(v, constants)) if type(v) in (list, tuple) else constants.get(id(v), v) for v in values
    )
