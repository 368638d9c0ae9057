"""Rules that move rows without bending them: facts and constants, linear maps, sums and products.

Legend: x, y are jets or constants; `x.series` has rows value, first, second derivative. Functions that torch exports
under several names (method, operator, functional, in-place) share one rule; see `jets.rule`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from untrained.errors import Unscorable
from untrained.probe.jets import RULES, Jet, Rule, aligned, leibniz, lift, names, rule

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
        args, kwargs = tree_map(lambda a: a.series[0] if isinstance(a, Jet) else a, (args, kwargs))
        return func(*args, **kwargs)

    return constant


for _name in _FACTS:
    _getter = getattr(torch.Tensor, _name).__get__
    RULES[_getter] = _of_value(_getter)
for _name in _CONSTANTS:
    RULES.update({f: _of_value(f) for f in names(_name)})

_LINEAR = """reshape reshape_as view view_as flatten unflatten permute transpose swapaxes swapdims movedim moveaxis t
squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile contiguous clone chunk split
split_with_sizes tensor_split unbind select narrow index_select gather take_along_dim flip roll diagonal tril triu
rot90 mean sum cumsum neg negative double float half bfloat16 to type_as pixel_shuffle pixel_unshuffle channel_shuffle
unfold fold interpolate upsample real positive adjoint __getitem__ __neg__ __pos__""".split()
_LIFTING = "cat concat concatenate stack hstack vstack dstack where".split()


def _linear(func: Any, lifting: bool = False) -> Rule:
    """`func` acts on the three rows alike. With `lifting`, constant tensors get rows of their own (value, 0, 0)."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        like = next(leaf for leaf in leaves if isinstance(leaf, Jet)).series
        moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Jet) or (lifting and _is_number(leaf))]

        def on_row(*row: Tensor) -> Any:
            filled = list(leaves)
            for i, value in zip(moving, row, strict=True):
                filled[i] = value
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            return func(*inner_args, **inner_kwargs)

        out = torch.vmap(on_row)(*[lift(leaves[i], like) for i in moving])
        return tree_map(Jet.of, out)

    return apply


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


for _name in _LINEAR:
    RULES.update({f: _linear(f) for f in names(_name)})
for _name in _LIFTING:
    RULES.update({f: _linear(f, lifting=True) for f in names(_name)})
for _name in ("T", "mT"):
    _getter = getattr(torch.Tensor, _name).__get__
    RULES[_getter] = _linear(_getter)
RULES.update({f: _linear(F.embedding) for f in names("embedding")})


def _batched(func: Any, spatial: int) -> Rule:
    """A linear layer over images. The value is computed by the network's own call, so that it is the network's answer
    bit for bit (a ReLU further on may hang on the last bit); the two derivatives join the batch axis."""

    def apply(x: Jet, *args: Any, tail_args: tuple[Any, ...] | None = None, **kwargs: Any) -> Jet:
        value, tail = x.series[0], x.series[1:]
        tail = tail.flatten(0, 1) if x.ndim == spatial + 2 else tail  # of an unbatched input, the rows are the batch
        moved = func(tail, *(args if tail_args is None else tail_args), **kwargs)
        value = func(value, *args, **kwargs)
        return Jet.of(torch.cat([value[None], moved.reshape(2, *value.shape)]))

    return apply


def _conv(func: Any, spatial: int) -> Rule:
    """Convolution: linear in the input, its bias enters the value row only."""

    def apply(input: Jet, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Jet:
        if isinstance(weight, Jet) or isinstance(bias, Jet):
            raise Unscorable("unsupported", f"no Taylor rule for {func.__name__} with weights that depend on the input")
        out: Jet = _batched(func, spatial)(input, weight, bias, *args, tail_args=(weight, None, *args), **kwargs)
        return out

    return apply


for _dims in (1, 2, 3):
    for _name in (f"conv{_dims}d", f"conv_transpose{_dims}d"):
        RULES.update({f: _conv(f, _dims) for f in names(_name)})
    for _name in (f"avg_pool{_dims}d", f"adaptive_avg_pool{_dims}d"):
        RULES.update({f: _batched(f, _dims) for f in names(_name)})


@rule("linear")
def _(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(weight, Jet) or isinstance(bias, Jet):
        out = input @ weight.mT
        return out if bias is None else out + bias
    return Jet.of(torch.cat([F.linear(input.series[:1], weight, bias), F.linear(input.series[1:], weight)]))


@rule("pad")
def _(input: Jet, pad: Any, mode: str = "constant", value: Any = None) -> Jet:
    constant = mode == "constant"
    rows = [F.pad(row, pad, mode=mode, value=0.0 if constant else None) for row in input.series]
    if constant and value:
        rows[0] = F.pad(input.series[0], pad, value=value)
    return Jet.of(torch.stack(rows))


@rule("masked_fill")
def _(input: Jet, mask: Tensor, value: Any) -> Any:
    return torch.where(mask, torch.as_tensor(value, dtype=input.dtype, device=input.device), input)


@rule("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def _(input: Jet, *args: Any, **kwargs: Any) -> Jet:
    """Off: a score at initialisation is a property of the network, not of a draw."""
    return input


@rule("add")
def _add(x: Any, y: Any, *, alpha: float = 1) -> Any:
    like = (x if isinstance(x, Jet) else y).series
    a, b = lift(x, like), lift(y, like)
    ndim = max(a.ndim, b.ndim) - 1
    return Jet.of(torch.add(aligned(a, ndim), aligned(b, ndim), alpha=alpha))


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
    if not isinstance(y, Jet):
        ndim = max(x.ndim, y.ndim if isinstance(y, Tensor) else 0)
        return Jet.of(aligned(x.series, ndim) * y)
    ndim = max(x.ndim, y.ndim)
    return Jet.of(leibniz(torch.mul, aligned(x.series, ndim), aligned(y.series, ndim)))


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
            return _linear(func)(*args, **kwargs)
        if len(jets) > 2:
            raise Unscorable("unsupported", f"{func.__name__} of more than two factors that depend on the input")

        def of_two(a: Tensor, b: Tensor) -> Tensor:
            filled = list(leaves)
            filled[jets[0]], filled[jets[1]] = a, b
            inner_args, inner_kwargs = tree_unflatten(filled, spec)
            out: Tensor = func(*inner_args, **inner_kwargs)
            return out

        return Jet.of(leibniz(of_two, leaves[jets[0]].series, leaves[jets[1]].series))

    return apply


for _name in "matmul bmm mm mv dot outer einsum tensordot".split():
    RULES.update({f: _bilinear(f) for f in names(_name, f"__{_name}__", f"__r{_name}__")})


@rule("addmm", "baddbmm")
def _(input: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return input * beta + torch.matmul(x, y) * alpha
