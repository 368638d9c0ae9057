"""Per-sample gradients and their Gram matrix, the neural tangent kernel, parameter by parameter.

    g_i  : gradient of a scalar of sample i with respect to a parameter
    K_ij = sum over parameters of g_i . g_j

This takes one backward pass through the graph of the batch. When the gradient of the output of a
layer is available, the per-sample gradients of the layer are computed from it and from the inputs
of the layer, added to K in float64, and released: they are never all in memory. A parameter that is
used several times (tied weights) waits until its uses are summed.

Batch norm couples the samples of a batch, so "the gradient of sample i" can mean three things:

    cross   one backward pass of the summed outputs; g_i is the part of the gradient that flows
            through the activations of sample i (HNAS's code). It also contains the influence of
            sample i on the other outputs through the statistics
    fixed   the gradient of the output of sample i, with the statistics of the batch as constants;
            still one backward pass
    exact   the gradient of the output of sample i, also through the statistics; one backward pass
            per sample (TE-NAS's code)

Without batch norm the three are equal. If a parameter is used by a function without a rule, the
kernel is computed with one backward pass per sample where this gives the same result; otherwise the
failure names the function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.circle import Network
from untrained.probe.graph import (
    Graph,
    ParameterUse,
    collect_tensors,
    fill_gradients,
    is_differentiable,
)
from untrained.probe.jets import Args, Kwargs, TorchFunction
from untrained.probe.layer_products import LayerFactors, find_layer_factors
from untrained.probe.sample_gradients import ALL_ROWS, SAMPLE_RULES
from untrained.probe.tracking import ParameterTracker, strip_piece

Reading = Literal["cross", "fixed", "exact"]


@dataclass(frozen=True)
class KernelContents:
    """The quantities to compute from per-sample gradients.

    Attributes:
        gram: Compute the Gram matrix; otherwise only the norms.
        signs: Also compute the agreement of signs, see `Kernel.agreement`.
        products: Also compute the products with the parameters, see `Kernel.products`.
    """

    gram: bool = True
    signs: bool = False
    products: bool = False


@dataclass
class Kernel:
    """Sums over per-sample gradients by parameter, float64.

    Attributes:
        contents: The quantities that were computed.
        grams: g_i . g_j, (samples, samples).
        norms: ||g_i||^2, (samples,).
        agreement: Sum over entries of |sum over samples of sign g|.
        products: theta . g_i, (samples,).
    """

    contents: KernelContents
    grams: dict[str, Tensor] = field(default_factory=dict)
    norms: dict[str, Tensor] = field(default_factory=dict)
    agreement: dict[str, Tensor] = field(default_factory=dict)
    products: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, theta: Tensor, g: Tensor) -> None:
        """Add per-sample gradients.

        Args:
            name: Name of the parameter, or of a piece of it.
            theta: The parameter, or some rows of it.
            g: Gradients, (samples, *theta.shape).
        """
        # Pieces of a parameter are summed under the name of the parameter.
        name = strip_piece(name)
        g = g.reshape(len(g), -1)
        if self.contents.gram:
            G = g.double()
            _add_to(self.grams, name, G @ G.mT)
        else:
            _add_to(self.norms, name, torch.linalg.vector_norm(g, dim=1).double().square())
        if self.contents.products:
            _add_to(self.products, name, (g @ theta.detach().flatten()).double())
        if self.contents.signs:
            _add_to(self.agreement, name, g.sign().sum(0).abs().sum(dtype=torch.float64))

    def add_products(self, name: str, factors: LayerFactors) -> None:
        """Add the products of per-sample gradients of a layer's weight, or of a piece of it."""
        name = strip_piece(name)
        if self.contents.gram:
            _add_to(self.grams, name, factors.compute_gram())
        else:
            _add_to(self.norms, name, factors.compute_norms())

    def gram(self, names: set[str] | None = None) -> Tensor:
        """Return K over the named parameters, or over all, on the CPU."""
        grams = []
        for name, gram in self.grams.items():
            if names is None or name in names:
                grams.append(gram)
        if not grams:
            raise Unscorable("disconnected", "no parameter receives a gradient")
        return torch.stack(grams).sum(0).cpu()

    def trace(self) -> float:
        """Return sum_i ||g_i||^2 over all parameters."""
        if self.contents.gram:
            return float(self.gram().trace())
        return float(torch.stack(list(self.norms.values())).sum())


def _add_to(sums: dict[str, Tensor], name: str, value: Tensor) -> None:
    if name in sums:
        value = sums[name] + value
    sums[name] = value


def compute_kernel(
    graph: Graph,
    columns: Tensor,
    parameters: Mapping[str, nn.Parameter],
    *,
    find_sample_axes: Callable[[], "SampleAxisRecorder"],
    reading: Reading = "cross",
    contents: KernelContents = KernelContents(),  # noqa: B008 - frozen
) -> Kernel:
    """Compute the kernel of scalars of a graph's outputs.

    Args:
        graph: The forward pass.
        columns: The scalars, (samples, columns). Kernels of several columns are summed.
        parameters: The parameters with respect to which the scalars are differentiated.
        find_sample_axes: Called if the axes of samples must be known.
        reading: See the docstring of this module.
        contents: The quantities to compute.
    """
    constant_batch_statistics = reading == "fixed"
    if reading != "exact":
        try:
            kernel_pass = _KernelPass(parameters, contents)
            return kernel_pass.run(
                graph, columns, find_sample_axes().sample_first, constant_batch_statistics
            )
        except Unscorable as error:
            if error.kind != "unsupported":
                raise
            # One backward pass per sample is the same only if no batch norm couples the samples, or
            # if its statistics are constants.
            if reading == "cross" and find_sample_axes().has_batch_norm:
                raise
    return _compute_sample_by_sample(
        graph, columns, parameters, contents, constant_batch_statistics
    )


def _compute_sample_by_sample(
    graph: Graph,
    columns: Tensor,
    parameters: Mapping[str, nn.Parameter],
    contents: KernelContents,
    constant_batch_statistics: bool,
) -> Kernel:
    """Run one backward pass per sample: slower, but it works for any function."""
    kernel = Kernel(contents)
    tensors = list(parameters.values())
    for column in columns.mT:
        # One row per sample, with one gradient per parameter.
        rows = []
        for scalar in column:
            row = graph.gradients(
                scalar, tensors, constant_batch_statistics=constant_batch_statistics
            )
            rows.append(row)
        if not any(_contains_gradient(row) for row in rows):
            raise Unscorable("disconnected", "the output does not depend on any parameter")
        for name, theta, *gradients in zip(parameters, tensors, *rows, strict=True):
            g = torch.stack(fill_gradients(gradients, [theta] * len(gradients)))
            kernel.add(name, theta, g)
    return kernel


def _contains_gradient(gradients: Sequence[Tensor | None]) -> bool:
    return any(gradient is not None for gradient in gradients)


class SampleAxisRecorder(ParameterTracker):
    """Records which uses of parameters return a tensor with samples on the first axis.

    Attributes:
        samples: Number of samples of the run.
        sample_first: One entry per use that has a rule, in call order.
        has_batch_norm: Whether the network calls a batch norm.
    """

    def __init__(self, parameters: Mapping[str, Tensor], samples: int) -> None:
        super().__init__(parameters)
        self.samples = samples
        self.sample_first: list[bool] = []
        self.has_batch_norm = False

    @classmethod
    def find(
        cls,
        network: Network,
        inputs: Tensor,
        parameters: Mapping[str, Tensor],
    ) -> "SampleAxisRecorder":
        """Run the network on a different number of samples than the batch has.

        The axis of samples then changes its length, and an axis that merely has the length of the
        batch does not.
        """
        count = 2
        if len(inputs) == 2:
            count = 3
        axes = cls(parameters, count)
        rows = torch.arange(count, device=inputs.device) % len(inputs)
        # Without a list of devices torch warns if there are several.
        kept_state = torch.random.fork_rng(range(torch.cuda.device_count()))
        with torch.enable_grad(), kept_state, axes:
            network(inputs[rows])
        return axes

    def call(self, func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        out = func(*args, **kwargs)
        if func is F.batch_norm:
            self.has_batch_norm = True
        if func in SAMPLE_RULES and is_differentiable(out):
            tensors = collect_tensors((*args, *kwargs.values()))
            if any(id(x) in self.names for x in tensors):
                self.sample_first.append(out.ndim > 0 and len(out) == self.samples)
        return out


def count_uses(
    uses: Sequence[ParameterUse],
    sample_first: list[bool],
    parameters: Mapping[str, nn.Parameter],
) -> dict[str, int]:
    """Count the uses of each parameter, and of each piece of one, by name.

    Args:
        uses: All uses of parameters in a graph.
        sample_first: What `SampleAxisRecorder` recorded.
        parameters: The parameters to count.

    Raises:
        Unscorable: If a use has no rule for per-sample gradients.
    """
    counts: dict[str, int] = {}
    flags = iter(sample_first)
    for use in uses:
        has_rule = use.func in SAMPLE_RULES
        # `sample_first` has one entry per use that has a rule, in the same order.
        is_sample_first = has_rule and next(flags, False)
        names = []
        for name, _ in use.constants.values():
            if strip_piece(name) in parameters:
                names.append(name)
        if names and not has_rule:
            function = torch.overrides.resolve_name(use.func) or repr(use.func)
            detail = f"no per-sample gradient of a parameter used by {function}"
            raise Unscorable("unsupported", detail)
        if names and not is_sample_first:
            detail = "no per-sample gradient where samples are not on the first axis"
            raise Unscorable("unsupported", detail)
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return counts


class _KernelPass:
    """Computes per-sample gradients of parameters from the gradients of the outputs of layers."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        contents: KernelContents,
    ) -> None:
        self._kernel = Kernel(contents)
        self._parameters = parameters
        self._use_counts: dict[str, int] = {}
        # Gradients of parameters with several uses, by name and first row, until all are summed.
        self._partial_sums: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    def run(
        self,
        graph: Graph,
        columns: Tensor,
        sample_first: list[bool],
        constant_batch_statistics: bool,
    ) -> Kernel:
        self._use_counts = count_uses(graph.uses, sample_first, self._parameters)
        for column in columns.mT:
            graph.gradients(
                column.sum(),
                graph.start_edges,
                constant_batch_statistics=constant_batch_statistics,
                on_gradient=self._add_use,
            )
            for (name, _), (theta, g) in self._partial_sums.items():
                self._kernel.add(name, theta, g)
            self._partial_sums.clear()
        if not (self._kernel.grams or self._kernel.norms):
            raise Unscorable("disconnected", "the output does not depend on any parameter")
        return self._kernel

    def _is_requested(self, name: str) -> bool:
        return strip_piece(name) in self._parameters

    def _add_use(self, use: ParameterUse, grad: Tensor) -> None:
        """Compute per-sample gradients from the gradient of the result of a use."""
        requested = {}
        for key, (name, theta) in use.constants.items():
            if self._is_requested(name):
                requested[key] = (name, theta)
        if not requested:
            return
        if use.overwritten:
            detail = "no per-sample gradient of a layer whose input is overwritten later"
            raise Unscorable("unsupported", detail)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            factors = self._find_factors(use, grad, requested)
            if factors is not None:
                weight_name, _ = requested[id(factors.weight)]
                self._kernel.add_products(weight_name, factors)
                if id(factors.bias) in requested:
                    bias_name, bias = requested[id(factors.bias)]
                    self._add_piece(bias_name, ALL_ROWS, bias, factors.gradients.sum(1))
                return
            compute_gradients = SAMPLE_RULES[use.func](*use.args, **use.kwargs)
            for constant, rows, g in compute_gradients(grad):
                if id(constant) not in requested:
                    continue
                if g is None:
                    detail = "no per-sample gradient of a parameter shaped like a batch"
                    raise Unscorable("unsupported", detail)
                name, theta = requested[id(constant)]
                if theta.ndim:
                    theta = theta[rows]
                self._add_piece(name, rows, theta, g)

    def _find_factors(
        self,
        use: ParameterUse,
        grad: Tensor,
        requested: Mapping[int, tuple[str, Tensor]],
    ) -> LayerFactors | None:
        """Return the factors of a layer if the kernel can be computed from them.

        They give the Gram matrix and the norms, and only for a weight that no other call uses.
        """
        contents = self._kernel.contents
        if contents.signs or contents.products:
            return None
        factors = find_layer_factors(use, grad, contents.gram)
        if factors is None or id(factors.weight) not in requested:
            return None
        weight_name, _ = requested[id(factors.weight)]
        if self._use_counts[weight_name] != 1:
            return None
        return factors

    def _add_piece(self, name: str, rows: slice, theta: Tensor, g: Tensor) -> None:
        # The usual case needs no memory for partial sums.
        if self._use_counts[name] == 1:
            self._kernel.add(name, theta, g)
            return
        key = (name, rows.start or 0)
        if key in self._partial_sums:
            g = self._partial_sums[key][1] + g
        self._partial_sums[key] = (theta, g)
