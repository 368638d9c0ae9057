"""Rules for batch, layer, group, instance and RMS norm: one second-order formula, applied over different axes."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import Jet, rule


def normalised(x: Tensor, tail: Tensor, r: Tensor, mean: Tensor, weight: Tensor | None) -> Tensor:
    """The tail of w (x - mean) / sqrt(var + eps). All norms come as x (N, M, P), normalised over N and P for each of
    M: batch norm with M channels, layer and group norm with M groups and N = 1. tail (2, N, M, P); r, mean (M, 1).

    With n = (x - mean) r, r = (var + eps)^(-1/2), c', c'' the centred derivatives, <.> the mean over N and P:
        q = r <n c'>,   s = 3 q^2 - r (r <c' c'> + <n c''>)
        y' = r c' - q n,   y'' = r c'' - 2 r q c' + s n
    """
    count = x.shape[0] * x.shape[2]
    n = (x - mean).mul_(r)
    c = tail - tail.mean((1, 3), keepdim=True)
    nc1, nc2 = torch.linalg.vecdot(c, n).sum(1).div_(count)[..., None]
    cc = torch.linalg.vector_norm(c[0], dim=(0, 2)).square_().div_(count)[:, None]
    q = r * nc1
    s = torch.addcmul(3 * q * q, r, torch.addcmul(nc2, r, cc), value=-1)
    r, wq, ws = (r, q, s) if weight is None else (r * weight, q * weight, s * weight)
    out = c * r
    out[0].addcmul_(n, wq, value=-1)
    out[1].addcmul_(c[0], r * q, value=-2).addcmul_(n, ws)
    return out


def _grouped(x: Jet, M: int, weight: Tensor | None, eps: float) -> Tensor:
    """The tail where M consecutive stretches of `x` are normalised each on its own."""
    value, tail = x.value.reshape(1, M, -1), x.tail.reshape(2, 1, M, -1)
    var, mean = torch.var_mean(value[0], 1, correction=0, keepdim=True)
    return normalised(value, tail, (var + eps).rsqrt(), mean, weight).reshape(x.tail.shape)


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
    x, tail = input.value, input.tail
    N, M = x.shape[:2]
    scale = None if weight is None else weight[:, None]
    if training or running_mean is None or running_var is None:
        if x.numel() == M:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
        value, mean, r = torch.native_batch_norm(x, weight, bias, None, None, True, momentum, eps)
        moved = normalised(x.reshape(N, M, -1), tail.reshape(2, N, M, -1), r[:, None], mean[:, None], scale)
    else:
        value = F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        r = (running_var + eps).rsqrt()[:, None]
        moved = tail.reshape(2, N, M, -1) * (r if scale is None else r * scale)
    return Jet.of(value, moved.reshape(tail.shape))


@rule("layer_norm")
def _(input: Jet, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Jet:
    value = F.layer_norm(input.value, normalized_shape, weight, bias, eps)
    rows = input.numel() // torch.Size(normalized_shape).numel()
    return Jet.of(value, _grouped(input, rows, None if weight is None else weight.reshape(1, -1), eps))


@rule("group_norm")
def _(input: Jet, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Jet:
    value = F.group_norm(input.value, num_groups, weight, bias, eps)
    tail = _grouped(input, len(input) * num_groups, None, eps)
    return Jet.of(value, tail if weight is None else tail * weight.reshape(-1, *(1,) * (input.ndim - 2)))


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
) -> Any:
    """Group norm with one channel a group."""
    if not use_input_stats:
        raise Unscorable("unsupported", "no Taylor rule for instance_norm with running statistics")
    return F.group_norm(input, input.shape[1], weight, bias, eps)


@rule("rms_norm")
def _(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    power = (input * input).mean(tuple(range(-len(normalized_shape), 0)), keepdim=True)
    out = input * (power + (torch.finfo(input.dtype).eps if eps is None else eps)).rsqrt()
    return out if weight is None else out * weight
