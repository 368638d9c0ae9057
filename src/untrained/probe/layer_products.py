"""Products of the per-sample gradients of a layer's weight, without the gradients themselves.

    y_ip = W x_ip at position p of sample i,   d_ip = dL/dy_ip
    g_i = sum_p d_ip x_ip^T
    g_i . g_j = sum_pq (d_ip . d_jq) (x_ip . x_jq)

A wide layer with few positions has far more weights than inputs and outputs. For such a layer the
last sum takes a fraction of the time and of the memory of the gradients. For a convolution, x_ip is
the patch that the kernel sees. All products are float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.probe.graph import ParameterUse

# Entries of a float64 matrix of products: 32 MiB.
_MAX_ENTRIES = 2**22


class LayerFactors(NamedTuple):
    """The two factors of the per-sample gradients of a layer's weight: d and x above.

    Attributes:
        weight: The weight, as in the arguments of the layer.
        bias: The bias, or None.
        inputs: x, (samples, positions, inputs).
        gradients: d, (samples, positions, outputs).
    """

    weight: Tensor
    bias: Tensor | None
    inputs: Tensor
    gradients: Tensor

    def compute_gram(self) -> Tensor:
        """Return g_i . g_j of all pairs of samples."""
        samples, positions, _ = self.inputs.shape
        x = self.inputs.flatten(0, 1).double()
        d = self.gradients.flatten(0, 1).double()
        samples_per_block = max(1, _MAX_ENTRIES // (positions * len(x)))
        rows = []
        for start in range(0, samples, samples_per_block):
            block = slice(start * positions, (start + samples_per_block) * positions)
            products = (x[block] @ x.mT).mul_(d[block] @ d.mT)
            rows.append(products.view(-1, positions, samples, positions).sum((1, 3)))
        return torch.cat(rows)

    def compute_norms(self) -> Tensor:
        """Return ||g_i||^2 of every sample."""
        x = self.inputs.double()
        d = self.gradients.double()
        return (x @ x.mT).mul_(d @ d.mT).sum((1, 2))


def find_layer_factors(use: ParameterUse, grad: Tensor, gram: bool) -> LayerFactors | None:
    """Return the factors of a layer if products of them are cheaper than the gradients.

    Args:
        use: The call of the layer.
        grad: Gradient of its output.
        gram: Whether the products of all pairs of samples are needed; otherwise only norms are.

    Returns:
        The factors; None for other functions, and where the gradients are cheaper.
    """
    if use.kwargs:
        return None
    if use.func is F.linear:
        return _find_linear_factors(use, grad, gram)
    if use.func is F.conv2d:
        return _find_convolution_factors(use, grad, gram)
    return None


def _find_linear_factors(use: ParameterUse, grad: Tensor, gram: bool) -> LayerFactors | None:
    input, weight, *others = use.args
    if id(weight) not in use.constants or id(input) in use.constants or input.ndim < 2:
        return None
    positions = input[0, ..., 0].numel()
    if not _are_factors_cheaper(weight, len(input), positions, gram):
        return None
    return LayerFactors(
        weight,
        others[0] if others else None,
        input.reshape(len(input), positions, -1),
        grad.reshape(len(grad), positions, -1),
    )


def _find_convolution_factors(use: ParameterUse, grad: Tensor, gram: bool) -> LayerFactors | None:
    # A module passes all seven arguments. A network that calls the function itself may pass fewer.
    if len(use.args) != 7:
        return None
    input, weight, bias, stride, padding, dilation, groups = use.args
    if id(weight) not in use.constants or id(input) in use.constants or input.ndim != 4:
        return None
    if groups != 1 or isinstance(padding, str):
        return None
    positions = grad[0, 0].numel()
    if not _are_factors_cheaper(weight, len(input), positions, gram):
        return None
    patches = F.unfold(input, weight.shape[2:], dilation, padding, stride)
    return LayerFactors(weight, bias, patches.mT, grad.flatten(2).mT)


def _are_factors_cheaper(weight: Tensor, samples: int, positions: int, gram: bool) -> bool:
    """Compare the multiply-adds of one product g_i . g_j by factors and by gradients."""
    outputs = len(weight)
    inputs = weight.numel() // outputs
    factor_cost = positions**2 * (inputs + outputs)
    # The gradient of a sample is computed once, and shared by all products in which it takes part.
    products_per_sample = samples if gram else 1
    gradient_cost = (positions / products_per_sample + 1) * inputs * outputs
    return factor_cost < gradient_cost
