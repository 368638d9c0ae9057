"""Rules for functions of each entry (second-order chain rule) and for maxima of two (derivatives follow the winner)."""

from typing import Any

import torch
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import RULES, Jet, Rule, in_place, names, rule


@rule("relu")
def _(input: Jet, inplace: bool = False) -> Jet:
    """The hot one: derivatives pass where the value is positive."""
    passed = torch.ops.aten.threshold_backward(input.tail, input.value.expand_as(input.tail), 0)
    out = Jet.of(F.relu(input.value), passed)
    return in_place(lambda _: out)(input) if inplace else out


def _pointwise(func: Any, straight: bool = False) -> Rule:
    """Any function of each entry; f' and f'' by reverse mode, which torch has right. `straight`: piecewise linear."""

    def apply(input: Jet, *args: Any, inplace: bool = False, **kwargs: Any) -> Jet:
        with torch.inference_mode(False), torch.enable_grad():
            x = input.value.clone().detach().requires_grad_()
            value = func(x, *args, **kwargs)
            (slope,) = torch.autograd.grad(value.sum(), x, create_graph=not straight)
            bend = None if straight else torch.autograd.grad(slope.sum(), x)[0]
        tail = input.tail * slope.detach()
        if bend is not None:
            tail[1].addcmul_(bend, input.tail[0] ** 2)
        out = Jet.of(value.detach(), tail)
        return in_place(lambda _: out)(input) if inplace else out

    return apply


_STRAIGHT = """
relu6 leaky_relu prelu rrelu hardtanh threshold abs absolute clamp clip clamp_min clamp_max
""".split()
_BENT = """
hardswish elu selu celu gelu silu mish softplus softsign tanhshrink sigmoid tanh logsigmoid exp exp2 expm1 log log2
log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh erf erfc pow expit special_expit
""".split()
for _name in (*_STRAIGHT, *_BENT):
    _straight = _name in _STRAIGHT
    for _f in names(_name, f"__{_name}__"):
        RULES[_f] = _pointwise(_f, _straight)
    for _f in names(f"{_name}_", f"__i{_name}__"):
        RULES[_f] = in_place(_pointwise(getattr(torch, _name, None) or getattr(F, _name, _f), _straight))


@rule("hardsigmoid")
def _(input: Any, inplace: bool = False) -> Any:
    """Written out: torch's own derivative holds 1/6 in float32, also for float64 inputs."""
    out = F.relu6(input + 3) / 6
    return in_place(lambda _: out)(input) if inplace else out


@rule("maximum")
def _(x: Any, y: Any) -> Any:
    return torch.where(x > y, x, y)


@rule("minimum")
def _(x: Any, y: Any) -> Any:
    return torch.where(x < y, x, y)


@rule("amax")
def _(x: Jet, dim: int, keepdim: bool = False) -> Any:
    if not isinstance(dim, int):
        raise Unscorable("unsupported", "amax over several axes")
    out = torch.gather(x, dim, x.value.argmax(dim, keepdim=True))
    return out if keepdim else out.squeeze(dim)
