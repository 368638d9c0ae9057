"""Folds: one call of a torch function that does the work of many networks.

A fold, which JAX calls a batching rule, arranges the stacks of all arguments so that the function,
or an equivalent one, computes all networks at once (`layouts.py`):

    G networks, N samples, C channels

    channels    (N, G C, ...): convolutions with G times the groups, batch and group norms
    samples     (G N, C, ...): pooling
    entries     unchanged: functions of each entry, sums and products (shapes are aligned)
    products    a batch of matrices: linear layers, matrix products, attention
    shapes      reshaping, joining, averaging: linear functions without weights (`shape_folds.py`)

A function without a fold is called once per network.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.batched import convolution_products
from untrained.probe.batched import shape_folds as shape_folds  # registers folds of its own
from untrained.probe.batched.layouts import (
    FOLDS,
    align_stacks,
    channels_to_networks,
    fold,
    insert_axes,
    map_stack,
    networks_to_channels,
    networks_to_samples,
    samples_to_networks,
)
from untrained.probe.batched.signatures import Signature
from untrained.probe.guard import parse_batch_norm
from untrained.probe.jets import Jet, TorchFunction, find_functions
from untrained.probe.pooling import Size


def call_folded(signature: Signature, stacks: list[Tensor], device: torch.device) -> object:
    """Call a function for all networks at once; None if there is no fold that applies."""
    body = FOLDS.get(signature.func)
    if body is None:
        return None

    def function(*args: object, **kwargs: object) -> object:
        return body(len(stacks[0]), signature, *args, **kwargs)

    return signature.call(stacks, device, function)


def _join_networks(x: Tensor | None) -> Tensor | None:
    """(G, C, ...) -> (G C, ...)"""
    if x is None:
        return None
    return x.flatten(0, 1)


@fold("conv1d", "conv2d", "conv3d")
def _fold_convolution(
    G: int,
    call: Signature,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Any = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> object:
    if input.ndim != weight.ndim:  # a single sample without the axis of samples
        return None
    if convolution_products.are_products_faster(input, weight, stride, padding, groups):

        def convolve(t: Tensor, axis: int) -> Tensor:
            # Only the value of a jet has the bias, not its derivatives.
            return convolution_products.convolve_by_products(
                t,
                weight,
                None if axis else bias,
                stride,
                padding,
                dilation,
            )

        return map_stack(convolve, input)
    out = call.func(
        networks_to_channels(input),
        _join_networks(weight),
        _join_networks(bias),
        stride,
        padding,
        dilation,
        G * groups,
    )
    return channels_to_networks(out, G)


@fold("batch_norm")
def _fold_batch_norm(G: int, call: Signature, *args: Any, **kwargs: Any) -> object:
    """Batch norm on the statistics of the batch, as scoring calls it."""
    input, weight, bias, eps = parse_batch_norm(*args, **kwargs)
    out = F.batch_norm(
        networks_to_channels(input),
        None,
        None,
        _join_networks(weight),
        _join_networks(bias),
        True,
        0.0,
        eps,
    )
    return channels_to_networks(out, G)


@fold("group_norm")
def _fold_group_norm(
    G: int,
    call: Signature,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> object:
    out = F.group_norm(
        networks_to_channels(input),
        G * num_groups,
        _join_networks(weight),
        _join_networks(bias),
        eps,
    )
    return channels_to_networks(out, G)


@fold("layer_norm")
def _fold_layer_norm(
    G: int,
    call: Signature,
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> object:
    # Each network has its own weight and bias, so they are applied afterwards.
    out = F.layer_norm(input, normalized_shape, None, None, eps)
    if weight is not None:
        out = torch.mul(*align_stacks(out, weight))
    if bias is not None:
        out = torch.add(*align_stacks(out, bias))
    return out


@fold("linear")
def _fold_linear(
    G: int,
    call: Signature,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> object:
    """(G, ..., in) times (G, out, in); the two derivatives of a jet are more rows."""
    if isinstance(weight, Jet) or isinstance(bias, Jet):
        return None

    def multiply(x: Tensor, axis: int) -> Tensor:
        rows = x.movedim(axis, 0).reshape(G, -1, x.shape[-1])
        if bias is None or axis:  # derivatives have no bias
            out = torch.bmm(rows, weight.mT)
        else:
            summand = bias[:, None]
            out = torch.baddbmm(summand, rows, weight.mT)
        out = out.reshape(G, *x.shape[:axis], *x.shape[axis + 1 : -1], -1)
        return out.movedim(0, axis)

    return map_stack(multiply, input)


def _list_pool_names() -> list[str]:
    names = []
    for kind in ("avg", "max", "adaptive_avg", "adaptive_max"):
        for dimensions in (1, 2, 3):
            names.append(f"{kind}_pool{dimensions}d")
    return names


@fold(*_list_pool_names())
def _fold_pool(G: int, call: Signature, input: Tensor, *args: object, **kwargs: object) -> object:
    dimensions = int(call.func.__name__[-2])  # as in avg_pool2d
    has_samples = input.ndim == dimensions + 3
    if not has_samples or kwargs.get("return_indices"):
        return None
    out = call.func(networks_to_samples(input), *args, **kwargs)
    return samples_to_networks(out, G)


_POINTWISE = """
relu relu6 leaky_relu hardtanh threshold abs clamp clamp_min clamp_max hardswish hardsigmoid elu
selu celu gelu silu mish softplus softsign tanhshrink sigmoid tanh logsigmoid exp log log1p sqrt
rsqrt square reciprocal sin cos erf pow
""".split()


@fold(*_POINTWISE)
def _fold_pointwise(
    G: int, call: Signature, input: Tensor, *args: object, **kwargs: object
) -> object:
    if len(call.inputs) > 1:  # a setting may be a tensor too
        return None
    return call.func(input, *args, **kwargs)


@fold("pad")
def _fold_pad(
    G: int,
    call: Signature,
    input: Tensor,
    pad: list[int],
    mode: str = "constant",
    value: float | None = None,
) -> object:
    if mode != "constant":  # other modes depend on the number of axes
        return None
    return F.pad(input, pad, mode, value)


def _find_matrix_products() -> frozenset[TorchFunction]:
    names = ("matmul", "__matmul__", "bmm", "__bmm__")
    return frozenset(find_functions(*names))


_MATRIX_PRODUCTS = _find_matrix_products()


@fold("add", "sub", "mul", "div", "truediv", "maximum", "minimum", "matmul", "bmm")
def _fold_arithmetic(
    G: int, call: Signature, x: Tensor | float, y: Tensor | float, **kwargs: object
) -> object:
    function = call.func
    if function in _MATRIX_PRODUCTS:
        if any(len(spec.shape) < 2 for spec in call.inputs):  # a vector
            return None
        function = torch.matmul
    return function(*align_stacks(x, y), **kwargs)


@fold("einsum")
def _fold_einsum(G: int, call: Signature, equation: str, *operands: object) -> object:
    """Add one letter for the axis of networks to each operand and to the result."""
    if not all(isinstance(x, Tensor) for x in operands):
        return None
    if "." in equation or "->" not in equation or "Z" in equation:
        return None
    sources, _, result = equation.replace(" ", "").partition("->")
    stacked_sources = ",".join(f"Z{source}" for source in sources.split(","))
    return torch.einsum(f"{stacked_sources}->Z{result}", *operands)


@fold("softmax", "log_softmax")
def _fold_softmax(
    G: int,
    call: Signature,
    input: Tensor,
    dim: int | None = None,
    *args: object,
    **kwargs: object,
) -> object:
    if dim is None:
        return None
    if dim >= 0:
        # Count from the end, where the axis of networks does not matter.
        dim = dim + 1 - input.ndim
    return call.func(input, dim, *args, **kwargs)


@fold("scaled_dot_product_attention")
def _fold_attention(
    G: int,
    call: Signature,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *args: object,
    **kwargs: object,
) -> object:
    if attn_mask is not None:
        attn_mask = insert_axes(attn_mask, query.ndim - attn_mask.ndim)
    return call.func(query, key, value, attn_mask, *args, **kwargs)
