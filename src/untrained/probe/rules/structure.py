"""Rules that move rows without bending them: facts and constants, linear maps, sums and products.

Legend: x, y are jets or constants; `x.tail` holds first and second derivative of `x.value`. Functions that torch
exports under several names (method, operator, functional, in-place) share one rule; see `jets.rule`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from untrained.errors import Unscorable
from untrained.probe.jets import RULES, Jet, Rule, aligned, names, rule, value_of

_FACTS = """shape dtype device ndim layout is_cuda is_meta is_mps is_sparse is_quantized is_nested requires_grad grad_fn
is_leaf itemsize nbytes""".split()
_CONSTANTS = """size dim numel stride is_floating_point is_complex is_contiguous __len__ __hash__ data_ptr element_size
storage_offset get_device type is_tensor
eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ isnan isinf isfinite argmax argmin sign floor ceil round
detach zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_full new_empty new_tensor
""".split()


def _of_value(func: Any) -> Rule:
    """The function sees the value alone and its answer does not move with the curve."""

    def constant(*args: Any, **kwargs: Any) -> Any:
        return func(*map(value_of, args), **{name: value_of(argument) for name, argument in kwargs.items()})

    return constant


for _name in _FACTS:
    _getter = getattr(torch.Tensor, _name).__get__
    RULES[_getter] = _of_value(_getter)
for _name in _CONSTANTS:
    RULES.update({f: _of_value(f) for f in names(_name)})

LINEAR = """reshape reshape_as view view_as flatten unflatten permute transpose swapaxes swapdims movedim moveaxis t
squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile contiguous clone chunk split
split_with_sizes tensor_split unbind select narrow index_select gather take_along_dim flip roll diagonal tril triu
rot90 mean sum cumsum neg negative double float half bfloat16 to type_as pixel_shuffle pixel_unshuffle channel_shuffle
unfold fold interpolate upsample real positive adjoint __getitem__ __neg__ __pos__""".split()
LIFTING = "cat concat concatenate stack hstack vstack dstack where".split()


def linear(func: Any, lifting: bool = False) -> Rule:
    """`func` acts on value and derivatives alike. With `lifting`, constant tensors take part with derivative zero."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Jet) or (lifting and _is_number(leaf))]

        def at(*row: Tensor) -> Any:
            filled = list(leaves)
            for i, value in zip(moving, row, strict=True):
                filled[i] = value
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            return func(*inner_args, **inner_kwargs)

        value = at(*(value_of(leaves[i]) for i in moving))
        tail = torch.vmap(at)(*(_tail(leaves[i]) for i in moving))
        return tree_map(Jet.of, value, tail)

    return apply


def _tail(x: Tensor) -> Tensor:
    return x.tail if isinstance(x, Jet) else torch.zeros_like(x).expand(2, *x.shape)


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


for _name in LINEAR:
    RULES.update({f: linear(f) for f in names(_name)})
for _name in LIFTING:
    RULES.update({f: linear(f, lifting=True) for f in names(_name)})
for _name in ("T", "mT"):
    _getter = getattr(torch.Tensor, _name).__get__
    RULES[_getter] = linear(_getter)
RULES.update({f: linear(F.embedding) for f in names("embedding")})


def batched(func: Any, spatial: int) -> Rule:
    """A linear layer over images: the two derivatives join the batch axis."""

    def apply(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        value = func(x.value, *args, **kwargs)
        tail = func(_as_batch(x, spatial), *args, **kwargs)
        return Jet.of(value, tail.reshape(2, *value.shape))

    return apply


def _as_batch(x: Jet, spatial: int) -> Tensor:
    """The tail with one batch axis; an unbatched input has its two derivatives for a batch."""
    return x.tail.flatten(0, 1) if x.ndim == spatial + 2 else x.tail


def _conv(func: Any, spatial: int) -> Rule:
    """Convolution: linear in the input; its bias does not move."""

    def apply(input: Jet, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Jet:
        if isinstance(weight, Jet) or isinstance(bias, Jet):
            raise Unscorable("unsupported", f"no Taylor rule for {func.__name__} with weights that depend on the input")
        value, tail = func(input.value, weight, bias, *args, **kwargs), _as_batch(input, spatial)
        if func in _CONVOLUTIONS and _is_matrix(weight, *args, **kwargs):
            moved = torch.matmul(weight.flatten(1), tail.flatten(2))  # a third of the convolution's time on the CPU
        else:
            moved = func(tail, weight, None, *args, **kwargs)
        return Jet.of(value, moved.reshape(2, *value.shape))

    return apply


_CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)


def _is_matrix(weight: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> bool:
    """Whether a convolution maps every position by the same matrix and does nothing else."""
    plain = stride in (1, (1,) * (weight.ndim - 2)) and padding in (0, "valid", (0,) * (weight.ndim - 2))
    return plain and groups == 1 and weight[0, 0].numel() == 1


for _dims in (1, 2, 3):
    for _name in (f"conv{_dims}d", f"conv_transpose{_dims}d"):
        RULES.update({f: _conv(f, _dims) for f in names(_name)})
    RULES.update({f: batched(f, _dims) for f in names(f"avg_pool{_dims}d", f"adaptive_avg_pool{_dims}d")})


@rule("linear")
def _(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(weight, Jet) or isinstance(bias, Jet):
        out = input @ weight.mT
        return out if bias is None else out + bias
    return Jet.of(F.linear(input.value, weight, bias), F.linear(input.tail, weight))


@rule("pad")
def _(input: Jet, pad: Any, mode: str = "constant", value: Any = None) -> Jet:
    """Whatever constant is padded with, it does not move."""
    tail = torch.stack([F.pad(row, pad, mode=mode) for row in input.tail])
    return Jet.of(F.pad(input.value, pad, mode=mode, value=value), tail)


@rule("masked_fill")
def _(input: Jet, mask: Tensor, value: Any) -> Any:
    return torch.where(mask, torch.as_tensor(value, dtype=input.dtype, device=input.device), input)


@rule("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def _(input: Jet, *args: Any, **kwargs: Any) -> Jet:
    """Off: a score at initialisation is a property of the network, not of a draw."""
    return input


@rule("add")
def _add(x: Any, y: Any, *, alpha: float = 1) -> Any:
    value = torch.add(value_of(x), value_of(y), alpha=alpha)
    if isinstance(x, Jet) and isinstance(y, Jet):
        return Jet.of(value, torch.add(aligned(x.tail, value.ndim), aligned(y.tail, value.ndim), alpha=alpha))
    tail = x.tail if isinstance(x, Jet) else y.tail * alpha
    return Jet.of(value, aligned(tail, value.ndim).expand(2, *value.shape))


@rule("sub", "subtract")
def _(x: Any, y: Any, *, alpha: float = 1) -> Any:
    return _add(x, y, alpha=-alpha)


@rule("rsub")
def _(x: Any, y: Any, *, alpha: float = 1) -> Any:
    return _add(y, x, alpha=-alpha)


@rule("mul", "multiply")
def _mul(x: Any, y: Any) -> Any:
    if not isinstance(x, Jet):
        x, y = y, x
    value = x.value * value_of(y)
    tail = aligned(x.tail, value.ndim) * value_of(y)
    if isinstance(y, Jet):
        x1, y1 = (aligned(factor.tail, value.ndim) for factor in (x, y))
        tail = tail + x.value * y1
        tail[1].addcmul_(x1[0], y1[0], value=2)
    return Jet.of(value, tail)


@rule("div", "true_divide", "divide", "truediv")
def _div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        return _of_value(torch.div)(x, y, rounding_mode=rounding_mode)
    return _mul(x, torch.reciprocal(y) if isinstance(y, Jet) else 1 / y)


def _bilinear(func: Any) -> Rule:
    """Linear in one jet, Leibniz in two."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        jets = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Jet)]
        if len(jets) == 1:
            return linear(func)(*args, **kwargs)
        if len(jets) > 2:
            raise Unscorable("unsupported", f"{func.__name__} of more than two factors that depend on the input")

        def of_two(a: Tensor, b: Tensor) -> Tensor:
            filled = list(leaves)
            filled[jets[0]], filled[jets[1]] = a, b
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            out: Tensor = func(*inner_args, **inner_kwargs)
            return out

        x, y = leaves[jets[0]], leaves[jets[1]]
        first = of_two(x.tail[0], y.value) + of_two(x.value, y.tail[0])
        second = of_two(x.tail[1], y.value) + 2 * of_two(x.tail[0], y.tail[0]) + of_two(x.value, y.tail[1])
        return Jet.of(of_two(x.value, y.value), torch.stack([first, second]))

    return apply


for _name in "matmul bmm mm mv dot outer einsum tensordot".split():
    RULES.update({f: _bilinear(f) for f in names(_name, f"__{_name}__", f"__r{_name}__")})


@rule("addmm", "baddbmm")
def _(input: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return input * beta + torch.matmul(x, y) * alpha
