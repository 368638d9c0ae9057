"""Per-sample gradients and their Gram matrix, the neural tangent kernel, layer by layer.

    g_i : gradient of a scalar of sample i by a parameter        K_ij = sum over parameters of g_i . g_j

One forward and one backward. As the backward pass comes by a layer, the layer's per-sample gradients are made of its
inputs and of the gradient of its outputs, added to K in float64, and let go: never are all of them held at once. A
parameter used several times (tied weights) waits until its uses are summed.

Batch norm couples the samples of a batch, so "the gradient of sample i" has three readings:

    cross   one backward of the summed outputs, split by the sample whose activations it passes (HNAS's code): g_i also
            holds what sample i does to the others through the statistics
    fixed   the statistics of the batch are constants: each sample's own gradient, exactly, still in one backward
    exact   each sample's own gradient also through the statistics: one backward a sample (TE-NAS's code)

Without batch norm the three are equal. A parameter that is used in a way no rule knows makes the pass fall back to one
backward a sample where that is the same thing, and fail by name where it is not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.sample_gradients import SAMPLE_RULES
from untrained.probe.tracking import FixedStatistics, Tracking

Reading = Literal["cross", "fixed", "exact"]
Network = Callable[[Tensor], Tensor]
Scalars = Callable[[Tensor], Tensor]  # outputs -> (samples, k): K is summed over the k scalars of each sample


@dataclass(frozen=True)
class Wanted:
    """What to make of per-sample gradients. Norms are always taken; the rest costs more than it looks."""

    gram: bool = True
    signs: bool = False
    products: bool = False


@dataclass
class Kernel:
    """What per-sample gradients add up to, by parameter, float64."""

    wanted: Wanted
    grams: dict[str, Tensor] = field(default_factory=dict)  # g_i . g_j, (samples, samples)
    norms: dict[str, Tensor] = field(default_factory=dict)  # ||g_i||^2, (samples,)
    agreement: dict[str, Tensor] = field(default_factory=dict)  # sum over entries of |sum over samples of sign g|
    products: dict[str, Tensor] = field(default_factory=dict)  # theta . g_i, (samples,)

    def add(self, name: str, theta: Tensor, g: Tensor) -> None:
        """`g`: per-sample gradients of (some rows of) a parameter, `theta`: those rows; (samples, *theta.shape)."""
        name, g = name.partition("[")[0], g.reshape(len(g), -1)
        if self.wanted.gram:
            G = g.double()
            _sum(self.grams, name, G @ G.mT)
        else:
            _sum(self.norms, name, torch.linalg.vector_norm(g, dim=1).double().square())
        if self.wanted.products:
            _sum(self.products, name, (g @ theta.detach().flatten()).double())
        if self.wanted.signs:
            _sum(self.agreement, name, g.sign().sum(0).abs().sum(dtype=torch.float64))

    def gram(self, names: "set[str] | None" = None) -> Tensor:
        """K over some parameters, or over all; on the CPU."""
        chosen = [K for name, K in self.grams.items() if names is None or name in names]
        if not chosen:
            raise Unscorable("disconnected", "no parameter receives a gradient")
        return torch.stack(chosen).sum(0).cpu()

    def trace(self) -> float:
        """sum_i ||g_i||^2 over all parameters."""
        if self.wanted.gram:
            return float(self.gram().trace())
        return float(torch.stack(list(self.norms.values())).sum())


def _sum(into: dict[str, Tensor], name: str, value: Tensor) -> None:
    into[name] = into[name] + value if name in into else value


def kernel(
    network: Network,
    inputs: Tensor,
    scalars: Scalars,
    parameters: Mapping[str, nn.Parameter],
    *,
    everything: Mapping[str, nn.Parameter],
    reading: Reading = "cross",
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
) -> Kernel:
    """The kernel of `scalars(network(inputs))` over `parameters`, some of `everything` the network has."""
    if reading == "exact":
        return _one_by_one(network, inputs, scalars, parameters, wanted)
    calls = _Calls.of(network, inputs, everything)
    listen = _Layers(everything, set(parameters), wanted, calls.sample_first)
    try:
        if reading == "fixed":
            with FixedStatistics(), listen:
                return listen.run(network, inputs, scalars)
        with listen:
            return listen.run(network, inputs, scalars)
    except Unscorable as unknown_use:
        if unknown_use.kind != "unsupported" or (reading == "cross" and calls.coupled):
            raise
        if reading == "fixed":
            with FixedStatistics():
                return _one_by_one(network, inputs, scalars, parameters, wanted)
        return _one_by_one(network, inputs, scalars, parameters, wanted)


def _one_by_one(
    network: Network, inputs: Tensor, scalars: Scalars, parameters: Mapping[str, nn.Parameter], wanted: Wanted
) -> Kernel:
    """One backward a sample: slower, for any function."""
    made = Kernel(wanted)
    values = list(parameters.values())
    with torch.enable_grad():
        columns = scalars(network(inputs.clone())).mT
        if not columns.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on any parameter")
        for column in columns:
            rows = [torch.autograd.grad(s, values, retain_graph=True, materialize_grads=True) for s in column]
            for name, theta, *grads in zip(parameters, values, *rows, strict=True):
                made.add(name, theta, torch.stack([g.to_dense() if g.is_sparse else g for g in grads]))
    return made


class _Calls(Tracking):
    """What a network does to a few samples: which calls that rules know have samples on the first axis."""

    def __init__(self, parameters: Mapping[str, Tensor], samples: int) -> None:
        super().__init__(parameters)
        self.samples = samples
        self.sample_first: list[bool] = []
        self.coupled = False  # whether batch norm was met

    @classmethod
    def of(cls, network: Network, inputs: Tensor, parameters: Mapping[str, Tensor]) -> "_Calls":
        """On another number of samples than there are: an axis that is as long by chance keeps its length."""
        few = 2 if len(inputs) != 2 else 3
        calls = cls(parameters, few)
        with torch.no_grad(), torch.random.fork_rng(), calls:
            network(inputs[torch.arange(few, device=inputs.device) % len(inputs)])
        return calls

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        self.coupled |= func is F.batch_norm
        if func in SAMPLE_RULES and any(id(x) in self.names for x in _tensors((*args, *kwargs.values()))):
            self.sample_first.append(out.ndim > 0 and len(out) == self.samples)
        return out


class _Layers(Tracking):
    """Runs a network with its parameters as constants and turns gradients of outputs into per-sample gradients."""

    def __init__(
        self, everything: Mapping[str, nn.Parameter], names: set[str], wanted: Wanted, sample_first: list[bool]
    ) -> None:
        super().__init__(everything)
        self.followed = names
        self.made = Kernel(wanted)
        self._sample_first = iter(sample_first)
        self._uses: dict[str, int] = {}
        self._waiting: dict[tuple[str, int], tuple[Tensor, slice, Tensor]] = {}
        self._roots: list[Tensor] = []

    def run(self, network: Network, inputs: Tensor, scalars: Scalars) -> Kernel:
        with torch.enable_grad():
            columns = scalars(network(inputs.clone())).mT
            if not self._roots or not columns.requires_grad:
                raise Unscorable("disconnected", "the output does not depend on any parameter")
            for column in columns:
                torch.autograd.grad(column.sum(), self._roots, retain_graph=len(columns) > 1, allow_unused=True)
                for parameter, rows, g in self._waiting.values():
                    self._add(parameter, rows, g)
                self._waiting.clear()
        return self.made

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        used = {id(x): x for x in _tensors((*args, *kwargs.values())) if id(x) in self.names}
        if not used:
            return func(*args, **kwargs)
        if func not in SAMPLE_RULES and any(self._wants(p) for p in used.values()):
            return self._unknown(func, args, kwargs)
        constants = {key: p.detach() for key, p in used.items()}
        args = _replaced(args, constants)
        kwargs = {key: _replaced((x,), constants)[0] for key, x in kwargs.items()}
        out = func(*args, **kwargs)
        known = func in SAMPLE_RULES and next(self._sample_first, False)
        used = {key: p for key, p in used.items() if self._wants(p)}
        if not used:
            return out
        if not known:
            raise Unscorable("unsupported", "no per-sample gradient where samples are not on the first axis")
        if not out.requires_grad:
            self._roots.append(out.detach().requires_grad_())
            out = self._roots[-1].clone()  # an in-place function further on must not meet a leaf
        elif out._is_view():
            out = out.clone()  # overwriting a view would take its hook out of the graph
        self._follow(SAMPLE_RULES[func](*args, **kwargs), {id(constants[key]): p for key, p in used.items()}, args, out)
        return out

    def _wants(self, parameter: Tensor) -> bool:
        return self.names[id(parameter)].partition("[")[0] in self.followed

    def _unknown(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A question about a parameter (its shape, its device) is none of our business; a function of it is."""
        out = func(*args, **kwargs)
        if any(x.grad_fn is not None for x in _tensors((out,))):
            called = torch.overrides.resolve_name(func) or repr(func)
            raise Unscorable("unsupported", f"no per-sample gradient of a parameter used by {called}")
        return out

    def _follow(self, rule: Any, owners: dict[int, Tensor], args: tuple[Any, ...], out: Tensor) -> None:
        """As the gradient of `out` comes by, hand on the per-sample gradients that `rule` makes of it."""
        for key in (self.names[id(p)] for p in owners.values()):
            self._uses[key] = self._uses.get(key, 0) + 1
        versions = [(x, x._version) for x in args if isinstance(x, Tensor) and x is not out]

        def arrive(grad: Tensor) -> None:
            if any(x._version != version for x, version in versions):
                raise Unscorable("unsupported", "no per-sample gradient of a layer whose input is overwritten later")
            with torch.no_grad(), torch._C.DisableTorchFunction():
                for constant, rows, g in rule(grad):
                    if id(constant) in owners:
                        if g is None:
                            raise Unscorable("unsupported", "no per-sample gradient of a parameter shaped like a batch")
                        self._collect(owners[id(constant)], rows, g)

        out.register_hook(arrive)  # type: ignore[no-untyped-call]

    def _collect(self, parameter: Tensor, rows: slice, g: Tensor) -> None:
        name = self.names[id(parameter)]
        if self._uses[name] == 1:
            self._add(parameter, rows, g)
        else:
            key = name, rows.start or 0
            before = self._waiting.get(key)
            self._waiting[key] = parameter, rows, g if before is None else before[2] + g

    def _add(self, parameter: Tensor, rows: slice, g: Tensor) -> None:
        with torch._C.DisableTorchFunction():  # the mode is on, and would take this for a use by the network
            self.made.add(self.names[id(parameter)], parameter[rows] if parameter.ndim else parameter, g)


def _replaced(values: Sequence[Any], constants: Mapping[int, Tensor]) -> tuple[Any, ...]:
    """Arguments with parameters replaced by constants, also inside lists."""
    return tuple(
        type(v)(_replaced(v, constants)) if type(v) in (list, tuple) else constants.get(id(v), v) for v in values
    )


def _tensors(values: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among arguments, also inside lists such as `torch.cat` takes."""
    flat = [x for v in values for x in (v if isinstance(v, list | tuple) else (v,))]
    return [x for x in flat if isinstance(x, Tensor)]
