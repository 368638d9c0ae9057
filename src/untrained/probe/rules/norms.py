"""Rules for batch, layer, group, instance and RMS norm: one second-order formula, applied over different axes."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import Jet, rule


def normalised(series: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """(x - mean) / sqrt(var + eps) over `dims` (axes of the series): the whole of batch, layer and group norm.

    With c = x - mean:  V = mean c^2,  V' = 2 mean c c',  V'' = 2 mean (c'^2 + c c'');
    r = (V + eps)^(-1/2),  r' = -r^3 V'/2,  r'' = -r^3 V''/2 + 3 r^5 V'^2/4;  y = c r by Leibniz.
    """
    c = series - series.mean(dims, keepdim=True)
    axes = tuple(d - 1 for d in dims)

    def average(product: Tensor) -> Tensor:
        return product.mean(axes, keepdim=True)

    v1, v2 = 2 * average(c[0] * c[1]), 2 * average(c[1] * c[1] + c[0] * c[2])
    r = (average(c[0] * c[0]) + eps).rsqrt()
    r1 = -0.5 * r**3 * v1
    r2 = -0.5 * r**3 * v2 + 0.75 * r**5 * v1 * v1
    out = c * r
    out[2].addcmul_(c[1], 2 * r1).addcmul_(c[0], r2)
    out[1].addcmul_(c[0], r1)
    return out


def affine(series: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> Jet:
    """Scale all rows, shift the value."""
    if weight is not None:
        series = series * weight.reshape(shape)
    if bias is not None:
        series[0] += bias.reshape(shape)
    return Jet.of(series)


@rule("batch_norm")
def _(
    input: Jet,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_cudnn: bool,
) -> Jet:
    shape = (-1, *(1,) * (input.ndim - 2))
    if training or running_mean is None or running_var is None:
        if input.numel() == input.shape[1]:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        out = affine(normalised(input.series, (1, *range(3, input.ndim + 1)), eps), weight, bias, shape)
        out.series[0] = F.batch_norm(input.series[0], None, None, weight, bias, True, momentum, eps)  # to the last bit
        return out
    series = input.series.clone()
    series[0] -= running_mean.reshape(shape)
    return affine(series * (running_var + eps).rsqrt().reshape(shape), weight, bias, shape)


@rule("layer_norm")
def _(input: Jet, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Jet:
    dims = tuple(range(-len(normalized_shape), 0))
    return affine(
        normalised(input.series, tuple(input.ndim + 1 + d for d in dims), eps), weight, bias, normalized_shape
    )


@rule("group_norm")
def _(input: Jet, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Jet:
    groups = input.series.reshape(3, len(input), num_groups, -1)
    out = normalised(groups, (3,), eps).reshape(input.series.shape)
    return affine(out, weight, bias, (-1, *(1,) * (input.ndim - 2)))


@rule("instance_norm")
def _(
    input: Jet,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_cudnn: bool,
) -> Jet:
    if not use_input_stats:
        raise Unscorable("unsupported", "instance_norm with running statistics")
    out = normalised(input.series, tuple(range(3, input.ndim + 1)), eps)
    return affine(out, weight, bias, (-1, *(1,) * (input.ndim - 2)))


@rule("rms_norm")
def _(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    power = (input * input).mean(tuple(range(-len(normalized_shape), 0)), keepdim=True)
    out = input * (power + (torch.finfo(input.dtype).eps if eps is None else eps)).rsqrt()
    return out if weight is None else out * weight
