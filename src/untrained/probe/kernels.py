"""Per-sample gradients and their Gram matrix, the neural tangent kernel, layer by layer.

    g_i : gradient of a scalar of sample i by a parameter        K_ij = sum over parameters of g_i . g_j

One backward through the graph of the batch. As it comes by a layer, the layer's per-sample gradients are made of its
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
from untrained.probe.graph import Call, Graph, Network, differentiable, filled, tensors
from untrained.probe.sample_gradients import SAMPLE_RULES
from untrained.probe.tracking import Tracking, whole

Reading = Literal["cross", "fixed", "exact"]


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
        name, g = whole(name), g.reshape(len(g), -1)
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
    graph: Graph,
    columns: Tensor,
    parameters: Mapping[str, nn.Parameter],
    *,
    uses: Callable[[], "Uses"],
    reading: Reading = "cross",
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
) -> Kernel:
    """The kernel over `parameters` of scalars of a graph's outputs, summed over their columns: (samples, columns)."""
    fixed = reading == "fixed"
    if reading != "exact":
        try:
            return _Layers(parameters, wanted).run(graph, columns, uses().sample_first, fixed)
        except Unscorable as unknown_use:
            if unknown_use.kind != "unsupported" or (reading == "cross" and uses().coupled):
                raise
    return _one_by_one(graph, columns, parameters, wanted, fixed)


def _one_by_one(
    graph: Graph, columns: Tensor, parameters: Mapping[str, nn.Parameter], wanted: Wanted, fixed: bool
) -> Kernel:
    """One backward a sample: slower, for any function."""
    made, values = Kernel(wanted), list(parameters.values())
    for column in columns.mT:
        rows = [graph.gradients(scalar, values, fixed=fixed) for scalar in column]
        if all(g is None for row in rows for g in row):
            raise Unscorable("disconnected", "the output does not depend on any parameter")
        for name, theta, *grads in zip(parameters, values, *rows, strict=True):
            made.add(name, theta, torch.stack(filled(grads, [theta] * len(grads))))
    return made


class Uses(Tracking):
    """What a network does to a few samples: which uses of parameters that rules know have samples on the first axis."""

    def __init__(self, parameters: Mapping[str, Tensor], samples: int) -> None:
        super().__init__(parameters)
        self.samples = samples
        self.sample_first: list[bool] = []
        self.coupled = False  # whether batch norm was met

    @classmethod
    def of(cls, network: Network, inputs: Tensor, parameters: Mapping[str, Tensor]) -> "Uses":
        """On another number of samples than there are: an axis that is as long by chance keeps its length."""
        few = 2 if len(inputs) != 2 else 3
        uses = cls(parameters, few)
        with torch.enable_grad(), torch.random.fork_rng(), uses:
            network(inputs[torch.arange(few, device=inputs.device) % len(inputs)])
        return uses

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        self.coupled |= func is F.batch_norm
        ours = any(id(x) in self.names for x in tensors((*args, *kwargs.values())))
        if func in SAMPLE_RULES and ours and differentiable(out):
            self.sample_first.append(out.ndim > 0 and len(out) == self.samples)
        return out


class _Layers:
    """Turns the gradients of what layers said into per-sample gradients, as they come by."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], wanted: Wanted) -> None:
        self.made = Kernel(wanted)
        self._parameters = parameters
        self._uses: dict[str, int] = {}
        self._waiting: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    def run(self, graph: Graph, columns: Tensor, sample_first: list[bool], fixed: bool) -> Kernel:
        self._check(graph.calls, sample_first)
        for column in columns.mT:
            graph.gradients(column.sum(), graph.ends, fixed=fixed, hear=self._arrive)
            for (name, _), (theta, g) in self._waiting.items():
                self.made.add(name, theta, g)
            self._waiting.clear()
        if not (self.made.grams or self.made.norms):
            raise Unscorable("disconnected", "the output does not depend on any parameter")
        return self.made

    def _check(self, calls: Sequence[Call], sample_first: list[bool]) -> None:
        """Count the uses of each parameter; each must have a rule."""
        first = iter(sample_first)
        for call in calls:
            known = call.func in SAMPLE_RULES
            first_axis = known and next(first, False)
            wanted = [name for name, _ in call.used.values() if self._wants(name)]
            if wanted and not known:
                called = torch.overrides.resolve_name(call.func) or repr(call.func)
                raise Unscorable("unsupported", f"no per-sample gradient of a parameter used by {called}")
            if wanted and not first_axis:
                raise Unscorable("unsupported", "no per-sample gradient where samples are not on the first axis")
            for name in wanted:
                self._uses[name] = self._uses.get(name, 0) + 1

    def _wants(self, name: str) -> bool:
        return whole(name) in self._parameters

    def _arrive(self, call: Call, grad: Tensor) -> None:
        """Hand on the per-sample gradients that a rule makes of the gradient of what a call returned."""
        wanted = {key: (name, theta) for key, (name, theta) in call.used.items() if self._wants(name)}
        if not wanted:
            return
        if call.overwritten:
            raise Unscorable("unsupported", "no per-sample gradient of a layer whose input is overwritten later")
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for constant, rows, g in SAMPLE_RULES[call.func](*call.args, **call.kwargs)(grad):
                if id(constant) in wanted:
                    if g is None:
                        raise Unscorable("unsupported", "no per-sample gradient of a parameter shaped like a batch")
                    name, theta = wanted[id(constant)]
                    self._collect(name, rows, theta[rows] if theta.ndim else theta, g)

    def _collect(self, name: str, rows: slice, theta: Tensor, g: Tensor) -> None:
        if self._uses[name] == 1:
            self.made.add(name, theta, g)
        else:
            key = name, rows.start or 0
            self._waiting[key] = theta, g if key not in self._waiting else self._waiting[key][1] + g
