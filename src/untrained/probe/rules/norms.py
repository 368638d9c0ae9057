"""Taylor rules of batch, layer, group, instance and RMS norm.

All but RMS norm use one second-order formula over different axes.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import Jet, taylor_rule


def differentiate_norm(
    x: Tensor,
    derivatives: Tensor,
    r: Tensor,
    mean: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """Compute the derivatives of w (x - mean) / sqrt(var + eps).

    x is (N, M, P) and is normalised over N and P for each of M: batch norm has M channels, layer
    and group norm have M groups and N = 1. The derivatives are (2, N, M, P); r and mean are (M, 1).

    With n = (x - mean) r, r = (var + eps)^(-1/2), c', c'' the centred derivatives, <.> the mean
    over N and P:

        q = r <n c'>,   s = 3 q^2 - r (r <c' c'> + <n c''>)
        y' = r c' - q n,   y'' = r c'' - 2 r q c' + s n
    """
    count = x.shape[0] * x.shape[2]
    # In-place operations below write into fresh tensors only.
    n = (x - mean).mul_(r)
    c = derivatives - derivatives.mean((1, 3), keepdim=True)
    nc1, nc2 = torch.linalg.vecdot(c, n).sum(1).div_(count)[..., None]
    cc = torch.linalg.vector_norm(c[0], dim=(0, 2)).square_().div_(count)[:, None]
    q = r * nc1
    s = torch.addcmul(3 * q * q, r, torch.addcmul(nc2, r, cc), value=-1)
    wr = r
    wq = q
    ws = s
    if weight is not None:
        wr = r * weight
        wq = q * weight
        ws = s * weight
    out = c * wr
    out[0].addcmul_(n, wq, value=-1)
    out[1].addcmul_(c[0], wr * q, value=-2).addcmul_(n, ws)
    return out


def _differentiate_groups(x: Jet, M: int, weight: Tensor | None, eps: float) -> Tensor:
    """Compute the derivatives if M consecutive parts of `x` are normalised separately."""
    value = x.value.reshape(1, M, -1)
    derivatives = x.derivatives.reshape(2, 1, M, -1)
    var, mean = torch.var_mean(value[0], 1, correction=0, keepdim=True)
    out = differentiate_norm(value, derivatives, (var + eps).rsqrt(), mean, weight)
    return out.reshape(x.derivatives.shape)


@taylor_rule("batch_norm")
def _batch_norm(
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
    x = input.value
    N, M = x.shape[:2]
    derivatives = input.derivatives.reshape(2, N, M, -1)
    scale = None if weight is None else weight[:, None]
    if training or running_mean is None or running_var is None:
        if x.numel() == M:
            # The same message as that of torch.
            detail = (
                f"Expected more than 1 value per channel when training, got input size {x.shape}"
            )
            raise ValueError(detail)
        value, mean, r = torch.native_batch_norm(
            x,
            weight,
            bias,
            None,
            None,
            True,
            momentum,
            eps,
        )
        derivatives = differentiate_norm(
            x.reshape(N, M, -1),
            derivatives,
            r[:, None],
            mean[:, None],
            scale,
        )
    else:
        value = F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        factor = (running_var + eps).rsqrt()[:, None]
        if scale is not None:
            factor = factor * scale
        derivatives = derivatives * factor
    return Jet.of(value, derivatives.reshape(input.derivatives.shape))


@taylor_rule("layer_norm")
def _layer_norm(
    input: Jet,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Jet:
    value = F.layer_norm(input.value, normalized_shape, weight, bias, eps)
    groups = input.numel() // torch.Size(normalized_shape).numel()
    if weight is not None:
        weight = weight.reshape(1, -1)
    return Jet.of(value, _differentiate_groups(input, groups, weight, eps))


@taylor_rule("group_norm")
def _group_norm(
    input: Jet,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Jet:
    value = F.group_norm(input.value, num_groups, weight, bias, eps)
    derivatives = _differentiate_groups(input, len(input) * num_groups, None, eps)
    if weight is not None:
        # A group has several channels, each with its own weight.
        ones = (1,) * (input.ndim - 2)
        derivatives = derivatives * weight.reshape(-1, *ones)
    return Jet.of(value, derivatives)


@taylor_rule("instance_norm")
def _instance_norm(
    input: Jet,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_cudnn: bool,
) -> Tensor:
    """Group norm with one channel per group."""
    if not use_input_stats:
        detail = "no Taylor rule for instance_norm with running statistics"
        raise Unscorable("unsupported", detail)
    return F.group_norm(input, input.shape[1], weight, bias, eps)


@taylor_rule("rms_norm")
def _rms_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    power = (input * input).mean(axes, keepdim=True)
    if eps is None:
        eps = torch.finfo(input.dtype).eps
    out = input * (power + eps).rsqrt()
    if weight is not None:
        out = out * weight
    return out
