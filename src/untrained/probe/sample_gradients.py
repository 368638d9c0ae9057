"""Per-sample gradients of parameters, for each torch function that uses parameters.

A rule receives the arguments of the call and returns a function of the gradient of its output. That
function yields `(parameter, rows, g)`: g is the per-sample gradient of `parameter[rows]`, of shape
(samples, *parameter[rows].shape). Large parameters are yielded in several pieces, so that the
gradients of all samples are never in memory for a whole large matrix.

Samples are on the first axis of inputs and outputs. A rule raises if they are not, and a function
without a rule raises too.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import TorchFunction, find_functions

# (parameter, rows, g). g is None for a parameter that has an axis of samples itself.
GradientPiece = tuple[Tensor, slice, Tensor | None]
GradientFunction = Callable[[Tensor], Iterator[GradientPiece]]
SampleRule = Callable[..., GradientFunction]
SAMPLE_RULES: dict[TorchFunction, SampleRule] = {}
Size = int | Sequence[int]  # a setting of a convolution: one number, or one per dimension
MAX_PIECE_ENTRIES = 2**24  # 64 MiB in float32
ALL_ROWS = slice(None)


def sample_rule(*names: str) -> Callable[[SampleRule], SampleRule]:
    """Register a rule for functions by name."""

    def register(body: SampleRule) -> SampleRule:
        SAMPLE_RULES.update(dict.fromkeys(find_functions(*names), body))
        return body

    return register


def split_rows(weight: Tensor, samples: int) -> Iterator[slice]:
    """Yield rows of `weight` whose per-sample gradients have at most MAX_PIECE_ENTRIES entries."""
    row_entries = max(1, samples * (weight.numel() // len(weight)))
    rows = max(1, MAX_PIECE_ENTRIES // row_entries)
    for start in range(0, len(weight), rows):
        yield slice(start, start + rows)


@sample_rule("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> GradientFunction:
    if input.ndim < 2:
        detail = "no per-sample gradient of a linear layer without samples"
        raise Unscorable("unsupported", detail)

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        # (samples, positions, features)
        x = input.flatten(1, -2) if input.ndim > 2 else input[:, None]
        g = grad.reshape(len(grad), -1, len(weight))
        for rows in split_rows(weight, len(g)):
            yield weight, rows, torch.bmm(g[:, :, rows].mT, x)
        if bias is not None:
            yield bias, ALL_ROWS, g.sum(1)

    return gradients


def _make_convolution_rule(dimensions: int) -> SampleRule:
    def rule(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> GradientFunction:
        if padding == "same":
            input = _pad_same(input, weight, dilation)
        return _make_convolution_gradients(
            input,
            weight,
            bias,
            dimensions=dimensions,
            stride=stride,
            # "same" has been applied, and "valid" means none
            padding=0 if isinstance(padding, str) else padding,
            dilation=dilation,
            groups=groups,
        )

    return rule


def _make_transposed_convolution_rule(dimensions: int) -> SampleRule:
    def rule(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        dilation: Size = 1,
    ) -> GradientFunction:
        return _make_convolution_gradients(
            input,
            weight,
            bias,
            dimensions=dimensions,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            transposed=True,
            output_padding=output_padding,
        )

    return rule


def _make_convolution_gradients(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    dimensions: int,
    stride: Size,
    padding: Size,
    dilation: Size,
    groups: int,
    transposed: bool = False,
    output_padding: Size = 0,
) -> GradientFunction:
    """Return the gradient function of a convolution.

    The function computes all per-sample gradients by one convolution with one group per sample.
    """
    if input.ndim != dimensions + 2:
        detail = "no per-sample gradient of a convolution without samples"
        raise Unscorable("unsupported", detail)
    samples = len(input)

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        # Only the shape of this weight is used.
        repeated_weight = weight.new_empty(samples * len(weight), *weight.shape[1:])
        _, weight_gradient, _ = torch.ops.aten.convolution_backward(
            grad.reshape(1, -1, *grad.shape[2:]),
            input.reshape(1, -1, *input.shape[2:]),
            repeated_weight,
            None,
            _expand_size(stride, dimensions),
            _expand_size(padding, dimensions),
            _expand_size(dilation, dimensions),
            transposed,
            _expand_size(output_padding, dimensions),
            samples * groups,
            [False, True, False],  # only the gradient of the weight
        )
        yield weight, ALL_ROWS, weight_gradient.reshape(samples, *weight.shape)
        if bias is not None:
            yield bias, ALL_ROWS, grad.flatten(2).sum(-1)

    return gradients


def _expand_size(size: Size, dimensions: int) -> list[int]:
    if isinstance(size, int):
        return [size] * dimensions
    return list(size) * (dimensions // len(size))


def _pad_same(input: Tensor, weight: Tensor, dilation: Size) -> Tensor:
    """Pad like `padding="same"`; an odd entry is added at the end."""
    sides: list[int] = []
    kernel = weight.shape[2:]
    for step, width in zip(_expand_size(dilation, len(kernel)), kernel, strict=True):
        span = step * (width - 1)
        # F.pad expects the last axis first.
        sides = [span // 2, span - span // 2, *sides]
    return F.pad(input, sides)


for _dimensions in (1, 2, 3):
    sample_rule(f"conv{_dimensions}d")(_make_convolution_rule(_dimensions))
    sample_rule(f"conv_transpose{_dimensions}d")(_make_transposed_convolution_rule(_dimensions))


@sample_rule("batch_norm")
def _batch_norm(
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> GradientFunction:
    """y = weight s (x - mean) + bias in evaluation mode, with the arguments of `norms.py`."""
    positions = tuple(range(2, input.ndim))

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        total = _sum_axes(grad, positions)
        if weight is not None:
            product = _sum_axes(grad * input, positions)
            yield weight, ALL_ROWS, (product - mean * total) * (variance + eps).rsqrt()
        if bias is not None:
            yield bias, ALL_ROWS, total

    return gradients


def _sum_axes(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Sum over axes; unlike `Tensor.sum`, an empty tuple means no axis."""
    if not axes:
        return x
    return x.sum(axes)


@sample_rule("layer_norm")
def _layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> GradientFunction:
    def normalize() -> Tensor:
        return F.layer_norm(input, normalized_shape, eps=eps)

    positions = tuple(range(1, input.ndim - len(normalized_shape)))
    return _make_affine_gradients(weight, bias, normalize, positions)


@sample_rule("rms_norm")
def _rms_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> GradientFunction:
    def normalize() -> Tensor:
        return F.rms_norm(input, normalized_shape, eps=eps)

    positions = tuple(range(1, input.ndim - len(normalized_shape)))
    return _make_affine_gradients(weight, None, normalize, positions)


@sample_rule("group_norm")
def _group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> GradientFunction:
    def normalize() -> Tensor:
        return F.group_norm(input, num_groups, eps=eps)

    return _make_affine_gradients(weight, bias, normalize, tuple(range(2, input.ndim)))


@sample_rule("instance_norm")
def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> GradientFunction:
    if not use_input_stats:
        detail = "no per-sample gradient of an instance norm on running statistics"
        raise Unscorable("unsupported", detail)

    def normalize() -> Tensor:
        return F.instance_norm(input, eps=eps)

    return _make_affine_gradients(weight, bias, normalize, tuple(range(2, input.ndim)))


def _make_affine_gradients(
    weight: Tensor | None,
    bias: Tensor | None,
    normalize: Callable[[], Tensor],
    axes: tuple[int, ...],
) -> GradientFunction:
    """Return the gradient function of y = weight * normalize() + bias.

    Args:
        weight: The factor.
        bias: The summand.
        normalize: Computes the normalised input when it is needed.
        axes: Axes that neither weight nor bias has.
    """

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        if weight is not None:
            yield weight, ALL_ROWS, _sum_axes(grad * normalize(), axes)
        if bias is not None:
            yield bias, ALL_ROWS, _sum_axes(grad, axes)

    return gradients


@sample_rule("embedding")
def _embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    *_: object,
    **__: object,
) -> GradientFunction:
    """A sample uses few rows of the table, but its gradient has all rows: yield them in pieces."""

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        index = input.reshape(len(input), -1)
        g = grad.reshape(len(grad), -1, weight.shape[1])
        if padding_idx is not None:
            g = g * (index != padding_idx % len(weight))[..., None]
        for rows in split_rows(weight, len(g)):
            height = len(weight[rows])
            # Rows of other pieces are clamped into this one and multiplied by zero.
            in_piece = (index >= rows.start) & (index < rows.start + height)
            row = (index - rows.start).clamp(0, height - 1)[..., None].expand_as(g)
            piece = g.new_zeros(len(g), height, weight.shape[1])
            yield weight, rows, piece.scatter_add_(1, row, g * in_piece[..., None])

    return gradients


@sample_rule("add", "__add__", "__radd__")
def _add(input: object, other: object, *, alpha: float = 1) -> GradientFunction:
    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        # Either term may be the parameter.
        for term, factor in ((input, 1), (other, alpha)):
            if isinstance(term, Tensor):
                yield term, ALL_ROWS, _undo_broadcast(grad * factor, term)

    return gradients


@sample_rule("mul", "__mul__", "__rmul__", "multiply")
def _multiply(input: Tensor | float, other: Tensor | float) -> GradientFunction:
    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        for factor, rest in ((input, other), (other, input)):
            if isinstance(factor, Tensor):
                yield factor, ALL_ROWS, _undo_broadcast(grad * rest, factor)

    return gradients


@sample_rule("expand")
def _expand(input: Tensor, *_: object, **__: object) -> GradientFunction:
    """Repeat a parameter for every sample, as transformers do with the class token."""

    def gradients(grad: Tensor) -> Iterator[GradientPiece]:
        yield input, ALL_ROWS, _undo_broadcast(grad, input)

    return gradients


def _undo_broadcast(grad: Tensor, parameter: Tensor) -> Tensor | None:
    """Sum over the axes that broadcasting repeated.

    Returns:
        (samples, *parameter.shape), or None if the parameter has an axis of samples itself.
    """
    shape = (1,) * (grad.ndim - parameter.ndim) + tuple(parameter.shape)
    if shape[0] != 1:
        return None
    repeated = [a for a in range(1, grad.ndim) if shape[a] == 1 and grad.shape[a] != 1]
    if repeated:
        grad = grad.sum(repeated, keepdim=True)
    return grad.reshape(len(grad), *parameter.shape)
