"""Folds: how one call of a torch function does the work of many networks.

A fold lays the stacks of all arguments so that the function, or another that means the same, answers for all of them at
once (`layouts.py`):

    channels    (N, G C, ...): convolutions with G times the groups, batch and group norms
    samples     (G N, C, ...): pooling
    entries     as they are: functions of each entry, sums and products (shapes filled up so that they broadcast)
    products    a batch of matrices: linear layers, matrix products, attention
    moved       reshaping, joining, averaging: whatever is linear and has no weights (`moves.py`)

Functions without a fold are called once a network. This file knows nothing of networks and their order of calls.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe import moves as moves  # has folds of its own
from untrained.probe import products
from untrained.probe.guard import norm_call
from untrained.probe.jets import Jet, names
from untrained.probe.layouts import FOLDS, broadcasting, channels, deepened, each, fold, from_channels, from_samples
from untrained.probe.layouts import samples as samples
from untrained.probe.signatures import Signature


def folded(signature: Signature, stacks: list[Tensor], device: torch.device) -> Any:
    """The results of all calls as stacks, or None where there is no way to have them at once."""
    body = FOLDS.get(signature.func)
    if body is None:
        return None

    def function(*args: Any, **kwargs: Any) -> Any:
        return body(len(stacks[0]), signature, *args, **kwargs)

    return signature.call(stacks, device, function)


def _flat(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.flatten(0, 1)


@fold("conv1d", "conv2d", "conv3d")
def _(
    G: int,
    call: Signature,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    if input.ndim != weight.ndim:  # a single sample without its axis
        return None
    if products.suit(input, weight, stride, padding, groups):
        return each(
            lambda t, first: products.convolved(t, weight, None if first else bias, stride, padding, dilation), input
        )
    out = call.func(channels(input), _flat(weight), _flat(bias), stride, padding, dilation, G * groups)
    return from_channels(out, G)


@fold("batch_norm")
def _(G: int, call: Signature, *args: Any, **kwargs: Any) -> Any:
    """On the batch, as scoring calls it."""
    input, weight, bias, eps = norm_call(*args, **kwargs)
    return from_channels(F.batch_norm(channels(input), None, None, _flat(weight), _flat(bias), True, 0.0, eps), G)


@fold("group_norm")
def _(
    G: int, call: Signature, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return from_channels(F.group_norm(channels(input), G * num_groups, _flat(weight), _flat(bias), eps), G)


@fold("layer_norm")
def _(
    G: int, call: Signature, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    out = F.layer_norm(input, normalized_shape, None, None, eps)
    out = out if weight is None else torch.mul(*broadcasting(out, weight))
    return out if bias is None else torch.add(*broadcasting(out, bias))


@fold("linear")
def _(G: int, call: Signature, input: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    """(G, ..., in) times (G, out, in); the two derivatives of a jet lie side by side, as more rows."""
    if isinstance(weight, Jet) or isinstance(bias, Jet):
        return None

    def product(x: Tensor, first: int) -> Tensor:
        rows = x.movedim(first, 0).reshape(G, -1, x.shape[-1])
        out = torch.bmm(rows, weight.mT) if bias is None or first else torch.baddbmm(bias[:, None], rows, weight.mT)
        return out.reshape(G, *x.shape[:first], *x.shape[first + 1 : -1], -1).movedim(0, first)

    return each(product, input)


_POOLS = [f"{kind}_pool{n}d" for kind in ("avg", "max", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)]


@fold(*_POOLS)
def _(G: int, call: Signature, input: Any, *args: Any, **kwargs: Any) -> Any:
    spatial = int(call.func.__name__[-2])
    if input.ndim != spatial + 3 or kwargs.get("return_indices"):
        return None
    return from_samples(call.func(samples(input), *args, **kwargs), G)


_POINTWISE = """
relu relu6 leaky_relu hardtanh threshold abs clamp clamp_min clamp_max hardswish hardsigmoid elu selu celu gelu silu
mish softplus softsign tanhshrink sigmoid tanh logsigmoid exp log log1p sqrt rsqrt square reciprocal sin cos erf pow
""".split()


@fold(*_POINTWISE)
def _(G: int, call: Signature, input: Any, *args: Any, **kwargs: Any) -> Any:
    if len(call.inputs) > 1:
        return None
    return call.func(input, *args, **kwargs)


@fold("pad")
def _(G: int, call: Signature, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Of the last axes; other ways of padding count them."""
    return F.pad(input, pad, mode, value) if mode == "constant" else None


@fold("add", "sub", "mul", "div", "truediv", "maximum", "minimum", "matmul", "bmm")
def _(G: int, call: Signature, x: Any, y: Any, **kwargs: Any) -> Any:
    if call.func in _PRODUCTS and min(len(fake.shape) for fake in call.inputs) < 2:
        return None
    return (torch.matmul if call.func in _PRODUCTS else call.func)(*broadcasting(x, y), **kwargs)


_PRODUCTS = frozenset(f for name in ("matmul", "bmm") for f in names(name, f"__{name}__"))


@fold("einsum")
def _(G: int, call: Signature, equation: str, *operands: Any) -> Any:
    """With one letter more, which counts networks."""
    if not all(isinstance(x, Tensor) for x in operands) or "." in equation or "->" not in equation or "Z" in equation:
        return None
    sources, _, result = equation.replace(" ", "").partition("->")
    stacked = ",".join(f"Z{source}" for source in sources.split(","))
    return torch.einsum(f"{stacked}->Z{result}", *operands)


@fold("softmax", "log_softmax")
def _(G: int, call: Signature, input: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    if dim is None:
        return None
    return call.func(input, dim if dim < 0 else dim + 1 - input.ndim, *args, **kwargs)


@fold("scaled_dot_product_attention")
def _(
    G: int, call: Signature, query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
) -> Any:
    mask = None if attn_mask is None else deepened(attn_mask, query.ndim - attn_mask.ndim)
    return call.func(query, key, value, mask, *args, **kwargs)
