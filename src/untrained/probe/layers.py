"""What a network is made of, read off its modules and its graph without training anything.

`weights` are the matrices that pruning metrics sum over: of convolutions, linear layers and attention projections.
`depth` is the longest chain of them from input to output.
"""

from collections.abc import Iterator

from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.conv import _ConvNd

from untrained.errors import Unscorable

LAYERS = (_ConvNd, nn.Linear, nn.Bilinear)


def weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Weights of convolutions, linear layers and attention projections by name, each once, trainable or not."""
    names = {id(p): name for name, p in reversed(list(model.named_parameters()))}
    found = [p for module in model.modules() for p in _matrices(module)]
    if not found:
        raise Unscorable("unsupported", "the network has no convolution and no linear layer")
    return {names[id(p)]: p for p in found}


def _matrices(module: nn.Module) -> Iterator[nn.Parameter]:
    if isinstance(module, LAYERS):
        yield module.get_parameter("weight")
    elif isinstance(module, nn.MultiheadAttention):
        packed = (module.in_proj_weight, module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        yield from (p for p in packed if p is not None)


def layer_parameters(model: nn.Module) -> set[str]:
    """Names of the weights above and of the biases beside them."""
    found = set(weights(model))
    for prefix, module in model.named_modules():
        if isinstance(module, (*LAYERS, nn.MultiheadAttention)):
            found |= {f"{prefix}.{name}".lstrip(".") for name, _ in module.named_parameters(recurse=False)}
    return found


def depth(output: Tensor) -> int:
    """The largest number of weight matrices on a path of the graph behind `output`."""
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
            longest[node] = max((longest[b] for b in behind), default=0) + (
                not _is_weight(node) and any(map(_is_weight, behind))
            )
    return longest[output.grad_fn] if output.grad_fn is not None else 0


def _is_weight(node: Node) -> bool:
    """Whether a matrix of parameters enters here, as it is or transposed."""
    variable = getattr(node, "variable", None)
    if variable is not None:
        return bool(variable.ndim >= 2 and isinstance(variable, nn.Parameter))
    views = ("TBackward0", "TransposeBackward0", "PermuteBackward0")
    return node.name() in views and any(_is_weight(n) for n, _ in node.next_functions if n is not None)
