"""Taylor rules of elementwise functions, and of maxima.

Elementwise functions follow the second-order chain rule. The derivatives of a maximum are those of
the larger value.
"""

from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import (
    RULES,
    Jet,
    Rule,
    TorchFunction,
    find_functions,
    make_in_place,
    taylor_rule,
)

T = TypeVar("T", bound=Tensor)


@taylor_rule("relu")
def _relu(input: Jet, inplace: bool = False) -> Jet:
    """Derivatives pass where the value is positive. This is the most frequent function."""
    values = input.value.expand_as(input.derivatives)
    derivatives = torch.ops.aten.threshold_backward(input.derivatives, values, 0)
    out = Jet.of(F.relu(input.value), derivatives)
    return _finish(input, out, inplace)


def _finish(input: Tensor, out: T, inplace: bool) -> T:
    """Write the result into the input if the function works in place."""
    if inplace:
        overwritten: T = make_in_place(lambda _: out)(input)
        return overwritten
    return out


def _make_pointwise_rule(func: TorchFunction, piecewise_linear: bool = False) -> Rule:
    """Make the rule of any elementwise function f; f' and f'' are computed by reverse mode."""

    def apply(input: Jet, *args: object, inplace: bool = False, **kwargs: object) -> Jet:
        second = None
        with torch.inference_mode(False), torch.enable_grad():
            x = input.value.clone().detach().requires_grad_()
            value = func(x, *args, **kwargs)
            (first,) = torch.autograd.grad(value.sum(), x, create_graph=not piecewise_linear)
            if not piecewise_linear:
                (second,) = torch.autograd.grad(first.sum(), x)
        derivatives = input.derivatives * first.detach()
        if second is not None:
            derivatives[1].addcmul_(second, input.derivatives[0] ** 2)
        return _finish(input, Jet.of(value.detach(), derivatives), inplace)

    return apply


_PIECEWISE_LINEAR = """
relu6 leaky_relu prelu rrelu hardtanh threshold abs absolute clamp clip clamp_min clamp_max
""".split()
_CURVED = """
hardswish elu selu celu gelu silu mish softplus softsign tanhshrink sigmoid tanh logsigmoid exp exp2
expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh erf
erfc pow expit special_expit
""".split()


def _register_pointwise(name: str, piecewise_linear: bool) -> None:
    for function in find_functions(name, f"__{name}__"):
        RULES[function] = _make_pointwise_rule(function, piecewise_linear)
    for function in find_functions(f"{name}_", f"__i{name}__"):
        # The value and the derivatives are computed by the form that does not work in place.
        out_of_place: Any = getattr(torch, name, None) or getattr(F, name, function)
        RULES[function] = make_in_place(_make_pointwise_rule(out_of_place, piecewise_linear))


for _name in _PIECEWISE_LINEAR:
    _register_pointwise(_name, piecewise_linear=True)
for _name in _CURVED:
    _register_pointwise(_name, piecewise_linear=False)


@taylor_rule("hardsigmoid")
def _hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    # Written out because torch's derivative contains 1/6 in float32, also for float64 inputs.
    out = F.relu6(input + 3) / 6
    return _finish(input, out, inplace)


@taylor_rule("maximum")
def _maximum(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x > y, x, y)


@taylor_rule("minimum")
def _minimum(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x < y, x, y)


@taylor_rule("amax")
def _amax(x: Jet, dim: int, keepdim: bool = False) -> Tensor:
    if not isinstance(dim, int):
        raise Unscorable("unsupported", "amax over several axes")
    out = torch.gather(x, dim, x.value.argmax(dim, keepdim=True))
    if keepdim:
        return out
    return out.squeeze(dim)
