"""Batch norm on the statistics of the batch, with derivatives of our own.

    y = w n + b,   n = s (x - m),   m, 1/s^2 = mean, variance + eps of a channel over its N entries

One forward pass serves two readings: a backward pass goes through m and s, or takes them as constants. And the second
derivative takes a few passes over memory where torch's takes thirty.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from untrained.probe.guard import norm_call, on_batch

_backward = torch.ops.aten.native_batch_norm_backward


@dataclass(eq=False)
class Statistics:
    """What a backward pass takes them for."""

    fixed: bool = False


def batch_norm(statistics: Statistics, *args: Any, **kwargs: Any) -> tuple[Tensor, tuple[Any, ...]]:
    """Of the arguments of `F.batch_norm`, what it returns, and the arguments by which it would return the same in
    evaluation mode: with the statistics that were found."""
    x, _, _, weight, bias, *_, eps = on_batch(norm_call(*args, **kwargs))
    out, m, s = _BatchNorm.apply(x, weight, bias, eps, statistics)  # type: ignore[no-untyped-call]
    return out, (x, m, _variance(s, eps), weight, bias, False, 0.0, eps)


def _variance(s: Tensor, eps: float) -> Tensor:
    return s.square().reciprocal() - eps


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: Statistics
    ) -> tuple[Tensor, Tensor, Tensor]:
        out, m, s = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
        ctx.save_for_backward(x, weight, m, s)
        ctx.mark_non_differentiable(m, s)
        ctx.eps, ctx.statistics = eps, statistics
        return out, m, s

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, m, s = ctx.saved_tensors
        if ctx.statistics.fixed:
            made = _backward(g, x, weight, m, _variance(s, ctx.eps), None, None, False, ctx.eps, [True] * 3)
        else:
            made = _Gradient.apply(g, x, weight, m, s, ctx.eps)  # type: ignore[no-untyped-call]
        return *(a if wanted else None for a, wanted in zip(made, ctx.needs_input_grad, strict=False)), None, None


class _Gradient(torch.autograd.Function):
    """The backward pass, to be differentiated along a direction v of its first result, dx.

        dx = w s P(g),   P(a) = a - mean(a) - n mean(a n),   dw = sum g n,   db = sum g

    P is symmetric, so the derivative by g is w s P(v), the same pass again; call it dv. That by x, through m and s, is
    - (s / N) (dv sum(g n) + dx sum(v n) + n sum(g dv)).
    """

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, weight: Tensor | None, m: Tensor, s: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        dx, dw, db = _backward(g, x, weight, None, None, m, s, True, eps, [True] * 3)
        ctx.save_for_backward(g, x, weight, m, s, dx, dw)
        ctx.eps = eps
        return dx, dw, db

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Neither dw and db nor the weight are followed: whoever wants H W of layers needs none of them."""
        g, x, weight, m, s, dx, dw = ctx.saved_tensors
        dv, vn, _ = _backward(v, x, weight, None, None, m, s, True, ctx.eps, [True] * 3)
        across = [axis for axis in range(x.ndim) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        scale = -s * x.shape[1] / x.numel()
        a, b, c = (scale * dw, scale * vn, scale * s * (g * dv).sum(across))
        by_x = dv * a.view(shape)
        by_x.addcmul_(dx, b.view(shape)).addcmul_(x - m.view(shape), c.view(shape))
        return dv, by_x, None, None, None, None
