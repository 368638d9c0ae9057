"""Trace a network several times and merge the traces into one that is valid for all of them.

The network runs on batches of two sizes, and in training mode if it computes the same there. A
number that is a multiple of the batch size becomes an expression of `x.shape[0]`, and a Boolean
that equals the mode becomes `self.training`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from untrained.errors import UntrainedError
from untrained.exports.expressions import (
    Attribute,
    Binary,
    Code,
    Expression,
    Literal,
    Subscript,
    list_literals,
    make_literal,
    transform_tree,
)
from untrained.exports.network_structure import NetworkStructure
from untrained.exports.tracing import Trace, Tracer
from untrained.exports.value_expressions import SourceError
from untrained.names import make_user_code_error


@dataclass(frozen=True)
class TracedPass:
    """One forward pass: its batch size, its mode, and the traces of its blocks."""

    batch_size: int
    training: bool
    tracer: Tracer


def trace_network(
    network: nn.Module, make_inputs: Callable[[int], Tensor]
) -> tuple[TracedPass, ...]:
    """Trace a network on batches of two sizes and, if possible, in training mode.

    Args:
        network: The network. Its mode, buffers and random state may change.
        make_inputs: Makes a batch of the given size.

    Returns:
        Two passes in evaluation mode, and one in training mode if it can be merged with them.
    """
    structure = NetworkStructure(network)
    evaluations = (
        _trace_pass(structure, make_inputs, batch_size=2, training=False),
        _trace_pass(structure, make_inputs, batch_size=3, training=False),
    )
    try:
        training_pass = _trace_pass(structure, make_inputs, batch_size=2, training=True)
        merge_traces([*evaluations, training_pass])
    except Exception:
        # In training mode the network computes something else: it drops paths or runs an auxiliary
        # tower. The source then describes the network in evaluation mode only.
        return evaluations
    return (*evaluations, training_pass)


def _trace_pass(
    structure: NetworkStructure,
    make_inputs: Callable[[int], Tensor],
    *,
    batch_size: int,
    training: bool,
) -> TracedPass:
    tracer = Tracer(structure)
    inputs = make_inputs(batch_size)
    network = structure.network
    try:
        with torch.no_grad(), tracer.follow_modules():
            network.train(training)(inputs)
    except UntrainedError:
        raise
    except (Exception, SystemExit) as error:
        raise make_user_code_error(type(network).__name__, "when it was run", error) from error
    return TracedPass(batch_size, training, tracer)


def merge_traces(passes: Sequence[TracedPass]) -> dict[int, Trace]:
    """Merge the traces of several passes.

    Returns:
        One trace per block that is valid for all passes, by the id of the block.

    Raises:
        SourceError: A block does not compute the same in all passes.
    """
    merged = {}
    for module in passes[0].tracer.structure.network.modules():
        traces = []
        for traced_pass in passes:
            trace = traced_pass.tracer.traces.get(id(module))
            if trace is not None:
                traces.append(trace)
        if traces:
            label = f"{type(module).__name__}.forward"
            merged[id(module)] = _merge_block_traces(label, traces, passes)
    return merged


def _merge_block_traces(label: str, traces: Sequence[Trace], passes: Sequence[TracedPass]) -> Trace:
    first = traces[0]
    is_same = all(trace == first for trace in traces)
    if len(traces) < len(passes) or not is_same:
        raise SourceError(f"{label} takes different branches for different batch sizes")
    literals_of_passes = [list_literals((trace.statements, trace.output)) for trace in traces]
    # Each item is one literal in all passes. `transform_tree` visits literals in this order.
    variants = zip(*literals_of_passes, strict=True)

    def merge_literal(node: object) -> object:
        if not isinstance(node, Literal):
            return node
        values = [literal.value for literal in next(variants)]
        if len(set(values)) == 1:
            return node
        if values == [traced_pass.training for traced_pass in passes]:
            return Code("self.training")
        return _express_by_batch_size(label, values, traces, passes)

    statements, output = transform_tree((first.statements, first.output), merge_literal)
    return Trace(first.inputs, statements, output, first.input_shapes)


def _express_by_batch_size(
    label: str, values: Sequence[object], traces: Sequence[Trace], passes: Sequence[TracedPass]
) -> Expression:
    """Return a number that differs between passes as a multiple of the batch size.

    Raises:
        SourceError: The number is not a multiple of the batch size, or no input of the block has
            the batch size in its shape.
    """
    batch_size = _find_batch_size(traces, passes)
    factor = _find_common_factor(values, passes)
    if batch_size is None or factor is None:
        examples = []
        for value, traced_pass in zip(values, passes, strict=True):
            examples.append(f"{value} for {traced_pass.batch_size}")
        raise SourceError(
            f"{label} contains a number that is not a multiple of the batch size: "
            f"{' and '.join(examples)}"
        )
    if factor == 1:
        return batch_size
    return Binary("*", batch_size, make_literal(factor))


def _find_common_factor(values: Sequence[object], passes: Sequence[TracedPass]) -> int | None:
    """Return k if each value is k times the batch size of its pass; None if there is no such k."""
    factors = set()
    for value, traced_pass in zip(values, passes, strict=True):
        if not isinstance(value, int | float):
            return None
        factors.add(value / traced_pass.batch_size)
    factor = factors.pop()
    if factors or not factor.is_integer():
        return None
    return int(factor)


def _find_batch_size(traces: Sequence[Trace], passes: Sequence[TracedPass]) -> Expression | None:
    """Return the batch size in a block, taken from the shape of one of its inputs."""
    batch_sizes = [traced_pass.batch_size for traced_pass in passes]
    first = traces[0]
    for position, name in enumerate(first.inputs):
        for axis in range(len(first.input_shapes[position])):
            sizes = [trace.input_shapes[position][axis] for trace in traces]
            if sizes == batch_sizes:
                return Subscript(Attribute(Code(name), "shape"), (Code(str(axis)),))
    return None
