"""Batch norm on the statistics of the batch, with custom derivatives.

    y = w n + b,   n = s (x - m),   s = (v + eps)^(-1/2)
    m, v: mean and biased variance of a channel over its N entries

The graph of one forward pass can be differentiated in two ways: through m and s, or with m and s as
constants. The second derivative is computed by hand, because that of torch reads or writes the
features about thirty times, and this one only a few times.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from untrained.probe.guard import parse_batch_norm, require_several_values
from untrained.probe.jets import Args

_native_backward = torch.ops.aten.native_batch_norm_backward


@dataclass(eq=False)
class NormBackwardSettings:
    """Settings of the next backward pass through all batch norms.

    Attributes:
        constant_batch_statistics: Whether the statistics of the batch are constants.
    """

    constant_batch_statistics: bool = False


def apply_batch_norm(
    settings: NormBackwardSettings,
    *args: Any,
    **kwargs: Any,
) -> tuple[Tensor, Args]:
    """Apply batch norm on the statistics of the batch.

    Args:
        settings: Read by the backward pass.
        *args: Arguments of `F.batch_norm`.
        **kwargs: Arguments of `F.batch_norm`.

    Returns:
        The result, and arguments with which `F.batch_norm` returns the same in evaluation mode:
        they contain the statistics of the batch.
    """
    call = parse_batch_norm(*args, **kwargs)
    require_several_values(call)
    x, weight, bias, eps = call
    out, m, s = _BatchNorm.apply(  # type: ignore[no-untyped-call]
        x,
        weight,
        bias,
        eps,
        settings,
    )
    return out, (x, m, _compute_variance(s, eps), weight, bias, False, 0.0, eps)


def _compute_variance(s: Tensor, eps: float) -> Tensor:
    return s.square().reciprocal() - eps


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        settings: NormBackwardSettings,
    ) -> tuple[Tensor, Tensor, Tensor]:
        out, m, s = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
        ctx.save_for_backward(x, weight, m, s)
        ctx.mark_non_differentiable(m, s)
        ctx.eps = eps
        ctx.settings = settings
        return out, m, s

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, m, s = ctx.saved_tensors
        if ctx.settings.constant_batch_statistics:
            # Evaluation mode: mean and variance are constants.
            variance = _compute_variance(s, ctx.eps)
            gradients = _native_backward(
                g,
                x,
                weight,
                m,
                variance,
                None,
                None,
                False,
                ctx.eps,
                [True] * 3,
            )
        else:
            gradients = _BatchNormBackward.apply(  # type: ignore[no-untyped-call]
                g,
                x,
                weight,
                m,
                s,
                ctx.eps,
            )
        results: list[Tensor | None] = []
        for gradient, needed in zip(gradients, ctx.needs_input_grad, strict=False):
            results.append(gradient if needed else None)
        # eps and settings have no gradient.
        return *results, None, None


class _BatchNormBackward(torch.autograd.Function):
    """The backward pass, which can be differentiated along a direction v of its first result, dx.

        dx = w s P(g),   P(a) = a - mean(a) - n mean(a n),   dw = sum g n,   db = sum g

    P is symmetric, so the derivative with respect to g is w s P(v), the same pass again, called dv
    below. The derivative with respect to x, through m and s, is
    - (s / N) (dv sum(g n) + dx sum(v n) + n sum(g dv)).
    """

    @staticmethod
    def forward(
        ctx: Any,
        g: Tensor,
        x: Tensor,
        weight: Tensor | None,
        m: Tensor,
        s: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dx, dw, db = _native_backward(g, x, weight, None, None, m, s, True, eps, [True] * 3)
        ctx.save_for_backward(g, x, weight, m, s, dx, dw)
        ctx.eps = eps
        return dx, dw, db

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        # Derivatives of dw and db, and derivatives with respect to the weight, are left out: the
        # Hessian times the weights of layers needs none of them.
        g, x, weight, m, s, dx, dw = ctx.saved_tensors
        dv, vn, _ = _native_backward(v, x, weight, None, None, m, s, True, ctx.eps, [True] * 3)
        other_axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [1] * x.ndim
        shape[1] = -1
        scale = -s * x.shape[1] / x.numel()
        a = scale * dw
        b = scale * vn
        c = scale * s * (g * dv).sum(other_axes)
        grad_x = dv * a.view(shape)
        grad_x.addcmul_(dx, b.view(shape))
        grad_x.addcmul_(x - m.view(shape), c.view(shape))
        return dv, grad_x, None, None, None, None
