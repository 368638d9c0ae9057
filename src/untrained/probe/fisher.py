"""Fisher information of a few weights under the predictions of the network itself.

    F = (1/n) sum_i J_i^T B_i B_i^T J_i

    theta   the first entry of each trainable parameter
    J_i     derivative of the outputs of sample i with respect to theta, (outputs, weights)
    B_i     root of the Fisher information of the outputs: for a softmax with probabilities p,
            B B^T = diag(p) - p p^T, and column c of B is sqrt(p_c) (e_c - p)

No label is used. One backward pass per column of B computes the rows B_i^T J_i of all samples. For
many outputs, a few random combinations R of the columns replace them: E[R^T R] = 1, so the
expectation of F is the same.

The statistics of batch norms are constants, so that a sample has a gradient of its own (reading
`fixed` of `kernels.py`).
"""

from collections.abc import Callable, Container, Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe.graph import GradientCallback, Graph, ParameterUse
from untrained.probe.jets import Args, find_functions
from untrained.probe.kernels import SampleAxisRecorder, count_uses
from untrained.probe.sample_gradients import SAMPLE_RULES
from untrained.probe.tracking import strip_piece

MAX_PASSES = 16  # backward passes; more outputs are combined at random
_LINEAR = frozenset(find_functions("linear"))
_CONVOLUTIONS = frozenset(
    find_functions(
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
    )
)
_GROUPS_POSITION = 6  # position of `groups` among the arguments of all convolutions


def draw_combinations(outputs: int, generator: torch.Generator) -> Tensor:
    """Return R, (passes, outputs): the identity, or random signs if there are many outputs."""
    if outputs <= MAX_PASSES:
        return torch.eye(outputs)
    signs: Tensor = torch.randint(2, (MAX_PASSES, outputs), generator=generator) * 2.0 - 1
    return signs / sqrt(MAX_PASSES)


def compute_directions(outputs: Tensor, loss: str, R: Tensor) -> Tensor:
    """Return R B_i^T of every sample, (passes, samples, outputs).

    Args:
        outputs: Outputs of the network, (samples, outputs).
        loss: Name of the loss, which tells what the outputs are: logits of one softmax
            ("cross_entropy"), logits of independent events ("bce"), or means of Gaussians ("mse").
        R: Combinations of columns of B, (passes, outputs).
    """
    R = R.to(outputs)[:, None]
    if loss == "cross_entropy":
        p = outputs.softmax(1)
        roots = R * p.sqrt()
        return roots - roots.sum(2, keepdim=True) * p
    if loss == "bce":
        p = outputs.sigmoid()
        return R * (p * (1 - p)).sqrt()
    return R.expand(-1, len(outputs), -1)


def compute_fisher(
    graph: Graph,
    parameters: Mapping[str, nn.Parameter],
    directions: Tensor,
    find_sample_axes: Callable[[], SampleAxisRecorder],
    record_sample: Callable[[int], Graph],
) -> Tensor:
    """Compute F, (weights, weights), float64 on the CPU.

    Args:
        graph: The forward pass.
        parameters: Parameters whose first entries are the weights.
        directions: What `compute_directions` returns.
        find_sample_axes: Called to learn where the axes of samples are.
        record_sample: Runs the forward pass of one sample alone, by its index in the batch.
    """
    axes = find_sample_axes()
    try:
        count_uses(graph.uses, axes.sample_first, parameters)
        rows = _differentiate_all_samples(graph, parameters, directions)
    except Unscorable as error:
        if error.kind != "unsupported":
            raise
        # Without batch norm, samples do not depend on each other, so each is differentiated in a
        # graph of its own. A backward pass through it is faster by a factor of the number of
        # samples.
        record_alone = None if axes.has_batch_norm else record_sample
        rows = _differentiate_sample_by_sample(graph, parameters, directions, record_alone)
    A = rows.double()  # (passes, samples, weights)
    F = torch.einsum("kia,kib->ab", A, A) / A.shape[1]
    return F.cpu()


def _differentiate_all_samples(
    graph: Graph,
    parameters: Mapping[str, nn.Parameter],
    directions: Tensor,
) -> Tensor:
    """Run one backward pass per direction, (passes, samples, weights)."""
    outputs = graph.outputs.flatten(1)
    columns = {name: column for column, name in enumerate(parameters)}
    rows = directions.new_zeros(*directions.shape[:2], len(columns))
    for row, direction in zip(rows, directions, strict=True):
        with torch.enable_grad():
            value = (outputs * direction).sum()
        add_gradients = _make_gradient_adder(row, columns)
        graph.gradients(
            value, graph.start_edges, constant_batch_statistics=True, on_gradient=add_gradients
        )
    return rows


def _make_gradient_adder(row: Tensor, columns: Mapping[str, int]) -> GradientCallback:
    """Return a function that adds the gradients of first entries to a row of the result.

    Args:
        row: (samples, weights).
        columns: The column of each parameter, by name.
    """

    def add_gradients(use: ParameterUse, grad: Tensor) -> None:
        for name, g in _compute_first_entry_gradients(use, grad, columns).items():
            row[:, columns[name]] += g

    return add_gradients


def _differentiate_sample_by_sample(
    graph: Graph,
    parameters: Mapping[str, nn.Parameter],
    directions: Tensor,
    record_sample: Callable[[int], Graph] | None,
) -> Tensor:
    """Run one backward pass per direction and sample: slower, but it works for any function.

    Args:
        graph: The forward pass of the batch.
        parameters: Parameters whose first entries are the weights.
        directions: What `compute_directions` returns.
        record_sample: Runs one sample alone; None if its output depends on the other samples.
    """
    tensors = list(parameters.values())
    rows = directions.new_zeros(*directions.shape[:2], len(tensors))
    for sample in range(directions.shape[1]):
        sample_graph, output = _select_sample(graph, sample, record_sample)
        for row, direction in zip(rows, directions, strict=True):
            with torch.enable_grad():
                value = (output * direction[sample]).sum()
            gradients = sample_graph.gradients(value, tensors, constant_batch_statistics=True)
            for column, gradient in enumerate(gradients):
                if gradient is not None:
                    dense = gradient.to_dense() if gradient.is_sparse else gradient
                    row[sample, column] = dense.flatten()[0]
    return rows


def _select_sample(
    graph: Graph, sample: int, record_sample: Callable[[int], Graph] | None
) -> tuple[Graph, Tensor]:
    """Return a graph that contains the output of a sample, and that output, (outputs,)."""
    expected = graph.outputs.flatten(1)[sample]
    if record_sample is not None:
        sample_graph = record_sample(sample)
        output = sample_graph.outputs.flatten()
        # Other functions than batch norm may couple samples too. The output then differs.
        tolerance = 1e-3 * float(expected.detach().abs().max())
        if torch.allclose(output, expected, rtol=0, atol=tolerance):
            return sample_graph, output
    return graph, expected


def _compute_first_entry_gradients(
    use: ParameterUse,
    grad: Tensor,
    requested_names: Container[str],
) -> dict[str, Tensor]:
    """Return the per-sample gradients of first entries, (samples,), by name of the parameter."""
    constants = []
    names = []
    for name, constant in use.constants.values():
        # A parameter may be used in pieces, and only the first piece, `w[0]`, has the first entry.
        is_first_piece = "[" not in name.replace("[0]", "")
        if is_first_piece and strip_piece(name) in requested_names:
            constants.append(constant)
            names.append(strip_piece(name))
    if not names:
        return {}
    if use.overwritten:
        detail = "no per-sample gradient of a layer whose input is overwritten later"
        raise Unscorable("unsupported", detail)
    gradients = {}
    with torch.no_grad(), torch._C.DisableTorchFunction():
        args, constants, grad = _narrow_layer(use, constants, grad)
        compute_gradients = SAMPLE_RULES[use.func](*args, **use.kwargs)
        for parameter, entries, g in compute_gradients(grad):
            for name, constant in zip(names, constants, strict=True):
                if parameter is not constant or entries.start:
                    continue
                if g is None:
                    detail = "no per-sample gradient of a parameter shaped like a batch"
                    raise Unscorable("unsupported", detail)
                gradients[name] = g.reshape(len(g), -1)[:, 0]
    return gradients


def _narrow_layer(
    use: ParameterUse,
    constants: Sequence[Tensor],
    grad: Tensor,
) -> tuple[Args, list[Tensor], Tensor]:
    """Reduce a convolution or linear layer to its first input channel and first output channel.

    The gradients of the first entries of weight and bias need no other channels.

    Returns:
        The arguments of the reduced layer, the reduced constants, and the gradient of its output.
        Other functions are returned as they are.
    """
    is_linear = use.func in _LINEAR
    is_layer = is_linear or use.func in _CONVOLUTIONS
    if not is_layer or use.kwargs or id(use.args[0]) in use.constants:
        return use.args, list(constants), grad
    input, weight, *others = use.args
    axis = -1 if is_linear else 1
    reduced: dict[int, Tensor] = {id(weight): weight[:1, :1]}
    args = [input.narrow(axis, 0, 1), reduced[id(weight)], *others]
    bias = others[0] if others else None
    if bias is not None:
        reduced[id(bias)] = bias[:1]
        args[2] = reduced[id(bias)]
    if len(args) > _GROUPS_POSITION:
        args[_GROUPS_POSITION] = 1
    narrow_constants = [reduced[id(constant)] for constant in constants]
    return tuple(args), narrow_constants, grad.narrow(axis, 0, 1)
