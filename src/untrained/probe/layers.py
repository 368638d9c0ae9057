"""What a network is made of, read off its modules and its graph without training anything.

`weights` are the matrices that pruning metrics sum over: of convolutions, linear layers and attention projections.
`depth` is the longest chain of them from input to output.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from untrained.errors import Unscorable

LAYERS = (_ConvNd, nn.Linear, nn.Bilinear)
RECURRENT = (nn.RNNBase, nn.RNNCellBase)


def weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Weights of convolutions, linear layers and attention projections by name, each once, trainable or not."""
    names = {id(p): name for name, p in reversed(list(model.named_parameters()))}
    found = [p for module in model.modules() for p in _matrices(module)]
    if not found:
        raise Unscorable("unsupported", "the network has no convolution and no linear layer")
    return {names[id(p)]: p for p in found}


def _matrices(module: nn.Module) -> Iterator[nn.Parameter]:
    if isinstance(module, LAYERS):
        weight = module._parameters.get("weight")
        if weight is None:
            raise Unscorable("unsupported", "the weight of a layer is made of other parameters, as by weight norm")
        yield weight
    elif isinstance(module, nn.MultiheadAttention):
        packed = (module.in_proj_weight, module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        yield from (p for p in packed if p is not None)
    elif isinstance(module, RECURRENT):
        # Left out in silence, they would make the score of a recurrent network the score of its last layer
        raise Unscorable("unsupported", f"the weights of {type(module).__name__} are no layer of this proxy")


def layer_parameters(model: nn.Module) -> set[str]:
    """Names of the weights above and of the biases beside them."""
    found = set(weights(model))
    for prefix, module in model.named_modules():
        if isinstance(module, (*LAYERS, nn.MultiheadAttention)):
            found |= {f"{prefix}.{name}".lstrip(".") for name, _ in module.named_parameters(recurse=False)}
    return found


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters.

    Raises:
        Unscorable: A quantised layer keeps its weights where torch does not list them.
    """
    for module in model.modules():
        if any(isinstance(value, torch.ScriptObject) for value in vars(module).values()):
            raise Unscorable("unsupported", f"the weights of a quantised {type(module).__name__} cannot be counted")
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def substitutes(model: nn.Module, make: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Other tensors in the place of parameters and buffers, for `functional_call(..., tie_weights=False)`.

    Every place once: torch, tying by itself, does not find its way back from a module that is registered twice.
    """
    made: dict[int, Tensor] = {}
    found: dict[str, Tensor] = {}
    for prefix, module in model.named_modules():
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                if id(tensor) not in made:
                    made[id(tensor)] = make(tensor)
                found[f"{prefix}.{name}".lstrip(".")] = made[id(tensor)]
    return found


def depth(model: nn.Module, inputs: Tensor, logits: Callable[[Any], Tensor]) -> int:
    """The largest number of weight matrices on a path of the graph behind the output, frozen ones included."""
    leaves = substitutes(model, lambda t: t.detach().requires_grad_() if isinstance(t, nn.Parameter) else t)
    by_id = {id(p): leaves[name] for name, p in model.named_parameters()}
    matrices = {id(by_id[id(p)]) for module in model.modules() for p in _matrices(module)}
    output = logits(functional_call(model, leaves, (inputs,), tie_weights=False))
    longest: dict[Node, int] = {}
    todo = [output.grad_fn] if output.grad_fn is not None else []
    while todo:
        node = todo[-1]
        behind = [following for following, _ in node.next_functions if following is not None]
        missing = [following for following in behind if following not in longest]
        if missing:
            todo.extend(missing)
        else:
            todo.pop()
            entering = not _carries(node, matrices) and any(_carries(b, matrices) for b in behind)
            longest[node] = max((longest[b] for b in behind), default=0) + entering
    return longest[output.grad_fn] if output.grad_fn is not None else 0


def _carries(node: Node, matrices: set[int]) -> bool:
    """Whether a weight matrix comes through here alone: as it is, transposed, or a part of it."""
    while len(node.next_functions) == 1 and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return id(getattr(node, "variable", None)) in matrices
