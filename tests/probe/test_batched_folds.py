"""A fold gives for many networks at once what the function gives for each of them.

The function itself gives the expected values, network by network; for a jet, its value and each derivative.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.batched import convolution_products
from untrained.probe.batched.folds import call_folded
from untrained.probe.batched.signatures import SignatureCache, make_call_key
from untrained.probe.jets import Jet

G = 3


def draw_tensor(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def draw_jet(*shape: int) -> Jet:
    return Jet.of(draw_tensor(G, *shape), draw_tensor(2, G, *shape))


def select_network(x: Any, place: int) -> Any:
    return Jet.of(x.value[place], x.derivatives[:, place]) if isinstance(x, Jet) else x[place]


def assert_fold_equals_calls(func: Any, stacks: list[Any], arrange: Any) -> None:
    """Assert that the fold of `func(*arrange(*stacks))` equals the function's result for each network."""
    args = arrange(*(x.value[0] if isinstance(x, Jet) else x[0] for x in stacks))
    key, tensors = make_call_key(func, args, {})
    signature = SignatureCache().find(key, tensors, func, args, {})
    assert signature is not None
    outputs = call_folded(signature, stacks, torch.device("cpu"))
    assert outputs is not None
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for place in range(G):
        expected = func(*arrange(*(select_network(x, place) for x in stacks)))
        for ours, theirs in zip(
            outputs, expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            pairs = [(select_network(ours, place), theirs)]
            if isinstance(theirs, Jet):
                pairs = [
                    (ours.value[place], theirs.value),
                    (ours.derivatives[:, place], theirs.derivatives),
                ]
            for one, other in pairs:
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


MOVES: dict[str, tuple[Any, Any]] = {
    "reshape": (torch.reshape, lambda x: (x, (6, 20))),
    "view": (Tensor.view, lambda x: (x, 2, 12, 5)),
    "flatten": (torch.flatten, lambda x: (x, 1)),
    "unsqueeze": (torch.unsqueeze, lambda x: (x, -1)),
    "squeeze": (torch.squeeze, lambda x: (x[:, :1], 1)),
    "transpose": (torch.transpose, lambda x: (x, 0, -1)),
    "transpose back": (torch.transpose, lambda x: (x, 1, 2)),
    "permute": (torch.permute, lambda x: (x, (3, 0, -2, 1))),
    "permute by numbers": (Tensor.permute, lambda x: (x, 1, 0, 3, 2)),
    "unbind": (torch.unbind, lambda x: (x, 2)),
    "unbind from behind": (torch.unbind, lambda x: (x, -1)),
    "part": (Tensor.__getitem__, lambda x: (x, (slice(None), 1, slice(1, None, 2)))),
    "one": (Tensor.__getitem__, lambda x: (x, 1)),
    "part from behind": (Tensor.__getitem__, lambda x: (x, (..., slice(0, 2)))),
    "mean": (torch.mean, lambda x: (x, 1)),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("make", [draw_tensor, draw_jet])
def test_folds_of_shape_functions_apply_to_every_network(name, make):
    func, arrange = MOVES[name]
    stack = make(2, 3, 4, 5) if make is draw_jet else draw_tensor(G, 2, 3, 4, 5)
    if name == "squeeze":
        stack = draw_jet(2, 1, 4) if make is draw_jet else draw_tensor(G, 2, 1, 4)

        def arrange(x: Any) -> Any:
            return x, 1

    assert_fold_equals_calls(func, [stack], arrange)


@pytest.mark.parametrize(
    "kinds", [(draw_tensor, draw_tensor), (draw_jet, draw_jet), (draw_jet, draw_tensor)]
)
@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize(
    "shape", [(2, 3, 3), (2, 3, 4, 5)]
)  # stacks of more than four axes are joined flat
def test_cat_is_folded(kinds, dim, shape):
    stacks = [make(*shape) if make is draw_jet else draw_tensor(G, *shape) for make in kinds]
    assert_fold_equals_calls(torch.cat, stacks, lambda *parts: (list(parts), dim))


@pytest.mark.parametrize(
    "kinds", [(draw_tensor, draw_tensor), (draw_jet, draw_tensor), (draw_jet, draw_jet)]
)
def test_einsum_is_folded(kinds):
    """The einsum of attention with relative positions."""
    stacks = [
        make(*shape) if make is draw_jet else draw_tensor(G, *shape)
        for make, shape in zip(kinds, ((1, 2, 4, 5), (4, 3, 5)), strict=True)
    ]
    assert_fold_equals_calls(torch.einsum, stacks, lambda q, r: ("bhqc,qkc->bhqk", q, r))


CONVOLUTIONS = [  # kernel, stride, padding, dilation
    ((1, 1), 1, 0, 1),
    ((1, 1), (2, 2), 0, 1),
    ((3, 3), 1, 1, 1),
    ((3, 3), (2, 1), (1, 0), (1, 2)),
    ((1, 7), (1, 2), (0, 3), 1),
    ((4, 4), 4, 0, 1),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), CONVOLUTIONS)
def test_convolutions_of_many_networks_are_products(kernel, stride, padding, dilation):
    x = draw_tensor(2, G, 2, 3, 8, 9)
    weight = draw_tensor(G, 4, 3, *kernel)
    bias = draw_tensor(G, 4)
    outputs = convolution_products.convolve_by_products(x, weight, bias, stride, padding, dilation)
    for row in range(2):
        for place in range(G):
            expected = F.conv2d(
                x[row, place], weight[place], bias[place], stride, padding, dilation
            )
            torch.testing.assert_close(outputs[row, place], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [draw_tensor, draw_jet])
def test_folding_convolutions_by_products_equals_folding_by_groups(make, monkeypatch):
    """Also with a bias, which has no derivative."""
    stacks = [
        draw_jet(2, 3, 8, 9) if make is draw_jet else draw_tensor(G, 2, 3, 8, 9),
        draw_tensor(G, 4, 3, 3, 3),
        draw_tensor(G, 4),
    ]
    calls = []
    monkeypatch.setattr(
        convolution_products, "are_products_faster", lambda *args: calls.append(args) or True
    )
    assert_fold_equals_calls(F.conv2d, stacks, lambda x, w, b: (x, w, b, 2, 1))
    assert len(calls) == 1


def test_products_are_not_used_for_large_patches_or_unsupported_settings():
    weight = torch.empty(4, 8, 16, 3, 3, device="meta")
    x = torch.empty(4, 1, 16, 64, 64, device="meta")
    assert convolution_products.are_products_possible(x, weight, 1, 1)
    assert not convolution_products.are_products_possible(x, weight, 1, "same")
    # 2**25 entries, and nine times as many in patches
    large = torch.empty(2**7, 1, 16, 128, 128, device="meta")
    assert not convolution_products.are_products_possible(large, weight, 1, 1)
    assert convolution_products.are_products_possible(large, weight, 2, 1)
    # On a CPU grouped convolutions are fast.
    assert not convolution_products.are_products_faster(
        draw_tensor(4, 1, 16, 8, 8), draw_tensor(4, 8, 16, 3, 3), 1, 1, 1
    )
