"""Weights and depth of a network, read from its modules and its autograd graph.

Layer weights are the matrices that pruning metrics sum over: those of convolutions, linear layers
and attention projections. The depth is the longest chain of them from input to output.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from untrained.errors import Unscorable

LAYERS = (_ConvNd, nn.Linear, nn.Bilinear)
RECURRENT = (nn.RNNBase, nn.RNNCellBase)


def find_layer_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights of convolutions, linear layers and attention projections by name.

    Each is returned once, whether it is trainable or not.
    """
    # A shared parameter has several names: the first one is kept.
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters():
        names.setdefault(id(parameter), name)
    weights = {}
    for module in model.modules():
        for weight in _list_module_weights(module):
            weights[names[id(weight)]] = weight
    if not weights:
        raise Unscorable("unsupported", "the network has no convolution and no linear layer")
    return weights


def _list_module_weights(module: nn.Module) -> list[nn.Parameter]:
    if isinstance(module, LAYERS):
        weight = module._parameters.get("weight")
        if weight is None:
            detail = "the weight of a layer is computed from other parameters, as by weight norm"
            raise Unscorable("unsupported", detail)
        return [weight]
    if isinstance(module, nn.MultiheadAttention):
        projections = (
            module.in_proj_weight,
            module.q_proj_weight,
            module.k_proj_weight,
            module.v_proj_weight,
        )
        return [weight for weight in projections if weight is not None]
    if isinstance(module, RECURRENT):
        # Without them, the score of a recurrent network would be the score of its last layer.
        kind = type(module).__name__
        raise Unscorable("unsupported", f"this proxy does not support the weights of {kind}")
    return []


def find_layer_parameters(model: nn.Module) -> set[str]:
    """Return the names of the layer weights and of the biases beside them."""
    names = set(find_layer_weights(model))
    for prefix, module in model.named_modules():
        if isinstance(module, (*LAYERS, nn.MultiheadAttention)):
            for name, _ in module.named_parameters(recurse=False):
                names.add(join_names(prefix, name))
    return names


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters.

    Raises:
        Unscorable: If a layer is quantised: torch does not list its weights.
    """
    for module in model.modules():
        if any(isinstance(value, torch.ScriptObject) for value in vars(module).values()):
            kind = type(module).__name__
            detail = f"the weights of a quantised {kind} cannot be counted"
            raise Unscorable("unsupported", detail)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def join_names(prefix: str, name: str) -> str:
    """Return the full name of a parameter, given the name of its module; that of a model is ""."""
    return f"{prefix}.{name}".lstrip(".")


def substitute_tensors(
    model: nn.Module,
    replace: Callable[[Tensor], Tensor],
) -> dict[str, Tensor]:
    """Compute replacements for all parameters and buffers.

    The result is for `functional_call(..., tie_weights=False)`. It contains every name of a shared
    tensor, because torch's own tying does not restore a module that is registered twice.
    """
    replacements: dict[int, Tensor] = {}
    by_name: dict[str, Tensor] = {}
    for prefix, module in model.named_modules():
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is None:
                continue
            if id(tensor) not in replacements:
                replacements[id(tensor)] = replace(tensor)
            by_name[join_names(prefix, name)] = replacements[id(tensor)]
    return by_name


def measure_depth(
    model: nn.Module,
    inputs: Tensor,
    read_logits: Callable[[object], Tensor],
) -> int:
    """Return the largest number of weight matrices on a path from input to output.

    Frozen weights count too: the network is run with copies that require gradients.
    """

    def make_leaf(tensor: Tensor) -> Tensor:
        if isinstance(tensor, nn.Parameter):
            return tensor.detach().requires_grad_()
        return tensor

    # The weights are found in the graph by the ids of these leaves.
    leaves = substitute_tensors(model, make_leaf)
    leaves_by_id = {id(parameter): leaves[name] for name, parameter in model.named_parameters()}
    matrices = set()
    for module in model.modules():
        for weight in _list_module_weights(module):
            matrices.add(id(leaves_by_id[id(weight)]))
    output = read_logits(functional_call(model, leaves, (inputs,), tie_weights=False))
    if output.grad_fn is None:
        return 0
    return _measure_longest_path(output.grad_fn, matrices)


def _measure_longest_path(end: Node, matrices: set[int]) -> int:
    """Count the matrices on the longest path to `end`, visiting every node after its inputs."""
    longest: dict[Node, int] = {}
    stack = [end]
    while stack:
        node = stack[-1]
        inputs = [source for source, _ in node.next_functions if source is not None]
        missing = [source for source in inputs if source not in longest]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        longest[node] = max((longest[source] for source in inputs), default=0)
        # The node that multiplies by a matrix counts, not the nodes that transpose the matrix.
        reads_matrix = any(_is_matrix(source, matrices) for source in inputs)
        if reads_matrix and not _is_matrix(node, matrices):
            longest[node] += 1
    return longest[end]


def _is_matrix(node: Node, matrices: set[int]) -> bool:
    """Whether the node is a weight matrix, its transpose, or a part of it."""
    while len(node.next_functions) == 1 and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return id(getattr(node, "variable", None)) in matrices
