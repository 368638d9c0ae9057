"""Taylor rules of metadata and constants, linear maps, sums and products.

x and y are jets or constants; `x.derivatives` contains the first and second derivative of
`x.value`. A function that torch exports under several names (method, operator, functional,
in-place) has one rule; see `jets.taylor_rule`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from untrained.errors import Unscorable
from untrained.probe.jets import (
    RULES,
    Jet,
    Rule,
    TorchFunction,
    align_derivatives,
    find_functions,
    get_value,
    taylor_rule,
)

Operand = Tensor | float  # a jet, a constant tensor or a number

# Attributes and functions that do not depend on the position on the curve.
_ATTRIBUTES = """
shape dtype device ndim layout is_cuda is_meta is_mps is_sparse is_quantized is_nested requires_grad
grad_fn is_leaf itemsize nbytes
""".split()
_CONSTANT_FUNCTIONS = """
size dim numel stride is_floating_point is_complex is_contiguous __len__ __hash__ data_ptr
element_size storage_offset get_device type is_tensor
eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ isnan isinf isfinite argmax argmin sign
floor ceil round detach zeros_like ones_like empty_like full_like rand_like randn_like new_zeros
new_ones new_full new_empty new_tensor
""".split()
LINEAR = """
reshape reshape_as view view_as flatten unflatten permute transpose swapaxes swapdims movedim
moveaxis t squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile contiguous
clone chunk split split_with_sizes tensor_split unbind select narrow index_select gather
take_along_dim flip roll diagonal tril triu rot90 mean sum cumsum neg negative double float half
bfloat16 to type_as pixel_shuffle pixel_unshuffle channel_shuffle unfold fold interpolate upsample
real positive adjoint __getitem__ __neg__ __pos__
""".split()
# Linear functions that may receive constants among their tensors.
LINEAR_WITH_CONSTANTS = "cat concat concatenate stack hstack vstack dstack where".split()
_BILINEAR = "matmul bmm mm mv dot outer einsum tensordot".split()


def _make_constant_rule(func: TorchFunction) -> Rule:
    """Make the rule of a function that reads only the value and returns a constant."""

    def apply(*args: object, **kwargs: object) -> object:
        values = [get_value(argument) for argument in args]
        named_values = {name: get_value(argument) for name, argument in kwargs.items()}
        return func(*values, **named_values)

    return apply


def make_linear_rule(func: TorchFunction, with_constants: bool = False) -> Rule:
    """Make the rule of a function that acts on value and derivatives alike.

    Args:
        func: The function.
        with_constants: Whether constant tensors take part with derivative zero.
    """

    def apply(*args: object, **kwargs: object) -> object:
        leaves, spec = tree_flatten((args, kwargs))
        indices = []
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, Jet) or (with_constants and _is_real_tensor(leaf)):
                indices.append(index)

        def call(*tensors: Tensor) -> object:
            filled = list(leaves)
            for index, tensor in zip(indices, tensors, strict=True):
                filled[index] = tensor
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            return func(*inner_args, **inner_kwargs)

        # The value is computed by the network's own call, both derivatives at once by vmap.
        value = call(*[get_value(leaves[index]) for index in indices])
        derivatives = torch.vmap(call)(*[_get_derivatives(leaves[index]) for index in indices])
        return tree_map(Jet.of, value, derivatives)

    return apply


def _get_derivatives(x: Tensor) -> Tensor:
    if isinstance(x, Jet):
        return x.derivatives
    return torch.zeros_like(x).expand(2, *x.shape)


def _is_real_tensor(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def make_image_rule(func: TorchFunction, dimensions: int) -> Rule:
    """Make the rule of a linear function of images: the two derivatives become further samples."""

    def apply(x: Jet, *args: object, **kwargs: object) -> Jet:
        value = func(x.value, *args, **kwargs)
        derivatives = func(_stack_derivatives_as_samples(x, dimensions), *args, **kwargs)
        return Jet.of(value, derivatives.reshape(2, *value.shape))

    return apply


def _stack_derivatives_as_samples(x: Jet, dimensions: int) -> Tensor:
    """Return the first derivatives of all samples, then the second, as one batch.

    An input without a batch axis becomes a batch of its two derivatives.
    """
    if x.ndim == dimensions + 2:
        return x.derivatives.flatten(0, 1)
    return x.derivatives


_CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)


def _make_convolution_rule(func: TorchFunction, dimensions: int) -> Rule:
    """Make the rule of a convolution: linear in the input, and the bias is a constant."""

    def apply(
        input: Jet, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Jet:
        if isinstance(weight, Jet) or isinstance(bias, Jet):
            name = func.__name__
            detail = f"no Taylor rule for {name} with weights that depend on the input"
            raise Unscorable("unsupported", detail)
        value = func(input.value, weight, bias, *args, **kwargs)
        derivatives = _stack_derivatives_as_samples(input, dimensions)
        if func in _CONVOLUTIONS and _is_matrix_product(weight, *args, **kwargs):
            # Takes a third of the time of the convolution on the CPU.
            derivatives = torch.matmul(weight.flatten(1), derivatives.flatten(2))
        else:
            derivatives = func(derivatives, weight, None, *args, **kwargs)
        return Jet.of(value, derivatives.reshape(2, *value.shape))

    return apply


def _is_matrix_product(
    weight: Tensor,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> bool:
    """Whether a convolution only multiplies every position by the same matrix."""
    dimensions = weight.ndim - 2
    has_stride = stride not in (1, (1,) * dimensions)
    has_padding = padding not in (0, "valid", (0,) * dimensions)
    if has_stride or has_padding or groups != 1:
        return False
    return weight[0, 0].numel() == 1


def _register_rules() -> None:
    for name in _ATTRIBUTES:
        getter = getattr(torch.Tensor, name).__get__
        RULES[getter] = _make_constant_rule(getter)
    for name in ("T", "mT"):
        getter = getattr(torch.Tensor, name).__get__
        RULES[getter] = make_linear_rule(getter)
    for function in find_functions(*_CONSTANT_FUNCTIONS):
        RULES[function] = _make_constant_rule(function)
    for function in find_functions(*LINEAR):
        RULES[function] = make_linear_rule(function)
    for function in find_functions(*LINEAR_WITH_CONSTANTS):
        RULES[function] = make_linear_rule(function, with_constants=True)
    for function in find_functions("embedding"):
        RULES[function] = make_linear_rule(F.embedding)
    for dimensions in (1, 2, 3):
        convolutions = (f"conv{dimensions}d", f"conv_transpose{dimensions}d")
        for function in find_functions(*convolutions):
            RULES[function] = _make_convolution_rule(function, dimensions)
        averages = (f"avg_pool{dimensions}d", f"adaptive_avg_pool{dimensions}d")
        for function in find_functions(*averages):
            RULES[function] = make_image_rule(function, dimensions)
    for name in _BILINEAR:
        for function in find_functions(name, f"__{name}__", f"__r{name}__"):
            RULES[function] = _make_bilinear_rule(function)


@taylor_rule("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if isinstance(weight, Jet) or isinstance(bias, Jet):
        out = input @ weight.mT
        if bias is None:
            return out
        return out + bias
    assert isinstance(input, Jet)  # one of the arguments is a jet
    return Jet.of(F.linear(input.value, weight, bias), F.linear(input.derivatives, weight))


@taylor_rule("pad")
def _pad(input: Jet, pad: list[int], mode: str = "constant", value: float | None = None) -> Jet:
    # The padding value is a constant, so derivatives are padded with zeros.
    derivatives = torch.stack([F.pad(row, pad, mode=mode) for row in input.derivatives])
    return Jet.of(F.pad(input.value, pad, mode=mode, value=value), derivatives)


@taylor_rule("masked_fill")
def _masked_fill(input: Jet, mask: Tensor, value: object) -> Tensor:
    constant = torch.as_tensor(value, dtype=input.dtype, device=input.device)
    return torch.where(mask, constant, input)


@taylor_rule(
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
)
def _dropout(input: Jet, *args: object, **kwargs: object) -> Jet:
    """Dropout is off: a score at initialisation is a property of the network, not of a draw."""
    return input


@taylor_rule("add")
def _add(x: Operand, y: Operand, *, alpha: float = 1) -> Jet:
    value = torch.add(get_value(x), get_value(y), alpha=alpha)
    ndim = value.ndim
    if isinstance(x, Jet) and isinstance(y, Jet):
        x_derivatives = align_derivatives(x.derivatives, ndim)
        y_derivatives = align_derivatives(y.derivatives, ndim)
        derivatives = torch.add(x_derivatives, y_derivatives, alpha=alpha)
        return Jet.of(value, derivatives)
    if isinstance(x, Jet):
        derivatives = x.derivatives
    else:
        assert isinstance(y, Jet)  # one of the arguments is a jet
        derivatives = y.derivatives * alpha
    return Jet.of(value, align_derivatives(derivatives, ndim).expand(2, *value.shape))


@taylor_rule("sub", "subtract")
def _subtract(x: Operand, y: Operand, *, alpha: float = 1) -> Jet:
    difference: Jet = _add(x, y, alpha=-alpha)
    return difference


@taylor_rule("rsub")
def _subtract_reversed(x: Operand, y: Operand, *, alpha: float = 1) -> Jet:
    difference: Jet = _add(y, x, alpha=-alpha)
    return difference


@taylor_rule("mul", "multiply")
def _multiply(x: Operand, y: Operand) -> Jet:
    # Multiplication commutes: let x be the jet.
    if not isinstance(x, Jet):
        x, y = y, x
    assert isinstance(x, Jet)  # one of the arguments is a jet
    value = x.value * get_value(y)
    x_derivatives = align_derivatives(x.derivatives, value.ndim)
    derivatives = x_derivatives * get_value(y)
    if isinstance(y, Jet):
        y_derivatives = align_derivatives(y.derivatives, value.ndim)
        derivatives = derivatives + x.value * y_derivatives
        derivatives[1].addcmul_(x_derivatives[0], y_derivatives[0], value=2)
    return Jet.of(value, derivatives)


@taylor_rule("div", "true_divide", "divide", "truediv")
def _divide(x: Operand, y: Operand, *, rounding_mode: str | None = None) -> object:
    if rounding_mode is not None:
        return _make_constant_rule(torch.div)(x, y, rounding_mode=rounding_mode)
    reciprocal = torch.reciprocal(y) if isinstance(y, Jet) else 1 / y
    return _multiply(x, reciprocal)


@taylor_rule("addmm", "baddbmm")
def _add_product(
    input: Tensor, x: Tensor, y: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return input * beta + torch.matmul(x, y) * alpha


def _make_bilinear_rule(func: TorchFunction) -> Rule:
    """Make the rule of a product: linear in one jet, Leibniz' rule for two."""

    def apply(*args: object, **kwargs: object) -> object:
        leaves, spec = tree_flatten((args, kwargs))
        indices = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Jet)]
        if len(indices) == 1:
            return make_linear_rule(func)(*args, **kwargs)
        if len(indices) > 2:
            detail = f"{func.__name__} of more than two factors that depend on the input"
            raise Unscorable("unsupported", detail)

        def multiply(a: Tensor, b: Tensor) -> Tensor:
            filled = list(leaves)
            filled[indices[0]] = a
            filled[indices[1]] = b
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            out: Tensor = func(*inner_args, **inner_kwargs)
            return out

        x = leaves[indices[0]]
        y = leaves[indices[1]]
        x1, x2 = x.derivatives
        y1, y2 = y.derivatives
        first = multiply(x1, y.value) + multiply(x.value, y1)
        second = multiply(x2, y.value) + 2 * multiply(x1, y1) + multiply(x.value, y2)
        return Jet.of(multiply(x.value, y.value), torch.stack([first, second]))

    return apply


_register_rules()
