"""What each torch function makes of its parameters, sample by sample.

A rule takes the arguments of the call and returns a function of the gradient of its output. That function yields
`(parameter, rows, g)`: the per-sample gradient of `parameter[rows]`, (samples, *parameter[rows].shape). Large ones come
in several pieces, so that the gradients of all samples are never held for a whole large matrix.

Samples lie on the first axis of inputs and outputs. A rule that finds them elsewhere raises, as does a missing rule.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import names

Piece = tuple[Tensor, slice, Tensor | None]  # None: no rule for this argument
SampleRule = Callable[..., Callable[[Tensor], Iterator[Piece]]]
SAMPLE_RULES: dict[Callable[..., Any], SampleRule] = {}
PIECE = 2**24  # entries of a piece: 64 MiB in float32
ALL = slice(None)


def sample_rule(*spellings: str) -> Callable[[SampleRule], SampleRule]:
    def register(body: SampleRule) -> SampleRule:
        SAMPLE_RULES.update(dict.fromkeys(names(*spellings), body))
        return body

    return register


def pieces(weight: Tensor, samples: int) -> Iterator[slice]:
    """Rows of `weight` so that their per-sample gradients stay below `PIECE` entries."""
    rows = max(1, PIECE // max(1, samples * (weight.numel() // len(weight))))
    for start in range(0, len(weight), rows):
        yield slice(start, start + rows)


@sample_rule("linear")
def _(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if input.ndim < 2:
        raise Unscorable("unsupported", "no per-sample gradient of a linear layer without samples")

    def gradients(grad: Tensor) -> Iterator[Piece]:
        x, g = input.flatten(1, -2) if input.ndim > 2 else input[:, None], grad.reshape(len(grad), -1, len(weight))
        for rows in pieces(weight, len(g)):
            yield weight, rows, torch.bmm(g[:, :, rows].mT, x)
        if bias is not None:
            yield bias, ALL, g.sum(1)

    return gradients


def _convolution(dimensions: int, transposed: bool) -> SampleRule:
    """One convolution whose groups are the samples: its weight gradient is that of every sample."""

    def rule(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, *more: Any,
        output_padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        if transposed and more:
            output_padding, groups, dilation = [*more, *[groups, dilation][len(more) - 1 :]]
        elif more:
            dilation, groups = (*more, groups)[:2]
        if input.ndim != dimensions + 2:
            raise Unscorable("unsupported", "no per-sample gradient of a convolution without samples")
        samples = len(input)
        x = input if padding != "same" else _same(input, weight, dilation)
        pad = 0 if isinstance(padding, str) else padding

        def gradients(grad: Tensor) -> Iterator[Piece]:
            made = torch.ops.aten.convolution_backward(
                grad.reshape(1, -1, *grad.shape[2:]),
                x.reshape(1, -1, *x.shape[2:]),
                weight.new_empty(samples * len(weight), *weight.shape[1:]),  # of which only the shape is read
                None,
                *(_tuple(n, dimensions) for n in (stride, pad, dilation)),
                transposed,
                _tuple(output_padding, dimensions),
                samples * groups,
                [False, True, False],
            )[1]
            yield weight, ALL, made.reshape(samples, *weight.shape)
            if bias is not None:
                yield bias, ALL, grad.flatten(2).sum(-1)

        return gradients

    return rule


def _tuple(n: Any, dimensions: int) -> list[int]:
    return [n] * dimensions if isinstance(n, int) else list(n) * (dimensions // len(n))


def _same(input: Tensor, weight: Tensor, dilation: Any) -> Tensor:
    """What `padding="same"` adds, the odd entry behind."""
    spans = [d * (k - 1) for d, k in zip(_tuple(dilation, weight.ndim - 2), weight.shape[2:], strict=True)]
    return F.pad(input, [side for span in reversed(spans) for side in (span // 2, span - span // 2)])


for _d in (1, 2, 3):
    sample_rule(f"conv{_d}d")(_convolution(_d, transposed=False))
    sample_rule(f"conv_transpose{_d}d")(_convolution(_d, transposed=True))


@sample_rule("batch_norm")
def _(input: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, _: bool, __: float, eps: float) -> Any:
    """As `norms.py` tells of it, in evaluation mode: y = weight s (x - mean) + bias."""
    positions = tuple(range(2, input.ndim))

    def gradients(grad: Tensor) -> Iterator[Piece]:
        total = grad.sum(positions) if positions else grad
        if weight is not None:
            product = (grad * input).sum(positions) if positions else grad * input
            yield weight, ALL, (product - mean * total) * (variance + eps).rsqrt()
        if bias is not None:
            yield bias, ALL, total

    return gradients


@sample_rule("layer_norm")
def _(input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    middle = tuple(range(1, input.ndim - len(normalized_shape)))
    return lambda grad: _affine(weight, bias, grad, lambda: F.layer_norm(input, normalized_shape, eps=eps), middle)


@sample_rule("rms_norm")
def _(input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    middle = tuple(range(1, input.ndim - len(normalized_shape)))
    return lambda grad: _affine(weight, None, grad, lambda: F.rms_norm(input, normalized_shape, eps=eps), middle)


@sample_rule("group_norm")
def _(input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    positions = tuple(range(2, input.ndim))
    return lambda grad: _affine(weight, bias, grad, lambda: F.group_norm(input, num_groups, eps=eps), positions)


@sample_rule("instance_norm")
def _(input: Tensor, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
      use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
    if not use_input_stats:
        raise Unscorable("unsupported", "no per-sample gradient of an instance norm on running statistics")
    positions = tuple(range(2, input.ndim))
    return lambda grad: _affine(weight, bias, grad, lambda: F.instance_norm(input, eps=eps), positions)


def _affine(
    weight: Tensor | None, bias: Tensor | None, grad: Tensor, normal: Callable[[], Tensor], over: tuple[int, ...]
) -> Iterator[Piece]:
    """y = weight * normal + bias; `over`: the axes on which neither has an entry."""
    if weight is not None:
        product = grad * normal()
        yield weight, ALL, product.sum(over) if over else product
    if bias is not None:
        yield bias, ALL, grad.sum(over) if over else grad


@sample_rule("embedding")
def _(input: Tensor, weight: Tensor, padding_idx: int | None = None, *_: Any, **__: Any) -> Any:
    """Each sample touches few rows of the table, yet its gradient has them all; tables come in pieces."""

    def gradients(grad: Tensor) -> Iterator[Piece]:
        index, g = input.reshape(len(input), -1), grad.reshape(len(grad), -1, weight.shape[1])
        if padding_idx is not None:
            g = g * (index != padding_idx % len(weight))[..., None]
        for rows in pieces(weight, len(g)):
            height = len(weight[rows])
            inside = (index >= rows.start) & (index < rows.start + height)
            made = g.new_zeros(len(g), height, weight.shape[1])
            place = (index - rows.start).clamp(0, height - 1)[..., None].expand_as(g)
            yield weight, rows, made.scatter_add_(1, place, g * inside[..., None])

    return gradients


@sample_rule("add", "__add__", "__radd__")
def _sum(input: Any, other: Any, *, alpha: float = 1) -> Any:
    def gradients(grad: Tensor) -> Iterator[Piece]:
        for term, factor in ((input, 1), (other, alpha)):
            if isinstance(term, Tensor):
                yield term, ALL, _unbroadcast(grad * factor, term)

    return gradients


@sample_rule("mul", "__mul__", "__rmul__", "multiply")
def _product(input: Any, other: Any) -> Any:
    def gradients(grad: Tensor) -> Iterator[Piece]:
        for factor, rest in ((input, other), (other, input)):
            if isinstance(factor, Tensor):
                yield factor, ALL, _unbroadcast(grad * rest, factor)

    return gradients


def _unbroadcast(grad: Tensor, parameter: Tensor) -> Tensor | None:
    """Sum what broadcasting repeated: (samples, ...) -> (samples, *parameter.shape). None for a batch itself."""
    shape = (1,) * (grad.ndim - parameter.ndim) + tuple(parameter.shape)
    if shape[0] != 1:
        return None
    over = [axis for axis in range(1, grad.ndim) if shape[axis] == 1 and grad.shape[axis] != 1]
    return (grad.sum(over, keepdim=True) if over else grad).reshape(len(grad), *parameter.shape)


@sample_rule("expand")
def _(input: Tensor, *sizes: Any, **_: Any) -> Any:
    """A class token, one for every sample."""
    return lambda grad: iter([(input, ALL, _unbroadcast(grad, input))])
