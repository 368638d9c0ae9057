"""Per-sample gradients computed naively: one sample at a time, or one copy of every parameter per sample.

This is independent of the tested code: plain autograd on plain modules in float64, without function modes and
without hooks on tensors.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from untrained.probe import Probe
from untrained.probe.kernels import Kernel
from untrained.types import Batch

D = torch.float64
Rows = dict[str, Tensor]  # per-sample gradients by parameter, (samples, *shape)
Scalars = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> (samples,)


class Net(nn.Module):
    """A network written in one line: `Net(lambda net, x: net.a(x).tanh(), a=nn.Linear(3, 4))`."""

    def __init__(
        self, function: Callable[[Any, Tensor], Tensor], **parts: nn.Module | nn.Parameter
    ) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def sum_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.flatten(1).sum(1)


def select_labels(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs[torch.arange(len(outputs)), targets]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return -outputs.log_softmax(1)[torch.arange(len(outputs)), targets]


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Return the network in float64 with random parameters, so that norms have no weights of 1 and biases of 0."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.double().parameters():
            p.copy_(torch.randn(p.shape, generator=draw, dtype=D) * 0.4 + 0.1)
    return model


def make_batch(*shape: int, classes: int = 3, seed: int = 1) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(*shape, generator=draw, dtype=D)
    return Batch(inputs, torch.randint(classes, shape[:1], generator=draw))


def get_trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def differentiate_by_sample(model: nn.Module, scalars: Tensor) -> Rows:
    """Run one backward pass per sample."""
    named = get_trainable(model)
    rows = [
        torch.autograd.grad(s, list(named.values()), retain_graph=True, materialize_grads=True)
        for s in scalars
    ]
    return {name: torch.stack(grads) for name, *grads in zip(named, *rows, strict=True)}


def compute_alone(model: nn.Module, data: Batch, scalars: Scalars = sum_outputs) -> Rows:
    """Compute per-sample gradients with batches of one sample; for networks without batch norm."""
    model = deepcopy(model).eval()
    parts = zip(data.inputs.split(1), data.targets.split(1), strict=True)
    return differentiate_by_sample(
        model, torch.cat([scalars(model(x.clone()), y) for x, y in parts])
    )


def copy_with_batch_statistics(model: nn.Module) -> nn.Module:
    """Return a copy in evaluation mode, except that batch norms are in training mode."""
    model = deepcopy(model).eval()
    for norm in list_norms(model):
        norm.train()
    return model


def compute_exact(model: nn.Module, data: Batch, scalars: Scalars = sum_outputs) -> Rows:
    """Differentiate also through the statistics of batch norm in training mode."""
    model = copy_with_batch_statistics(model)
    return differentiate_by_sample(model, scalars(model(data.inputs.clone()), data.targets))


def compute_fixed(model: nn.Module, data: Batch, scalars: Scalars = sum_outputs) -> Rows:
    """Use a copy in evaluation mode whose running statistics are those of the batch, sample by sample."""
    model = copy_with_batch_statistics(model)
    for norm in list_norms(model):
        norm.register_forward_pre_hook(remember_statistics)
    with torch.no_grad():
        model(data.inputs.clone())
    for norm in list_norms(model):
        norm._forward_pre_hooks.clear()
    return compute_alone(model, data, scalars)


def remember_statistics(norm: _BatchNorm, args: tuple[Tensor]) -> None:
    channels = args[0].movedim(1, 0).flatten(1)
    norm.batch_statistics = channels.mean(1), channels.var(1, unbiased=False)
    norm.register_forward_hook(set_statistics)


def set_statistics(norm: _BatchNorm, args: tuple[Tensor], output: Tensor) -> None:
    """Set the running statistics after the forward pass, because the pass itself updates them."""
    norm.running_mean, norm.running_var = norm.batch_statistics
    norm._forward_hooks.clear()


def list_norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def compute_cross(model: nn.Module, data: Batch, scalars: Scalars = sum_outputs) -> Rows:
    """Give every sample its own copy of the parameters of every layer, and differentiate the summed scalars by each."""
    model = copy_with_batch_statistics(model)
    copies: dict[str, Tensor] = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, (_ConvNd, nn.Linear, _BatchNorm)) and get_trainable(module):
            own = {
                key: p.detach().expand(len(data), *p.shape).clone().requires_grad_()
                for key, p in module.named_parameters()
            }
            module.forward = _PerSample(deepcopy(module), own)
            copies |= {f"{name}.{key}": p for key, p in own.items()}
    assert set(copies) == set(get_trainable(model)), (
        "a parameter outside of the layers that this loop supports"
    )
    total = scalars(model(data.inputs.clone()), data.targets).sum()
    return dict(
        zip(
            copies,
            torch.autograd.grad(total, list(copies.values()), materialize_grads=True),
            strict=True,
        )
    )


class _PerSample:
    """A layer that applies copy i of its parameters to sample i."""

    def __init__(self, layer: nn.Module, copies: dict[str, Tensor]) -> None:
        self.layer = layer
        self.copies = copies

    def __call__(self, x: Tensor) -> Tensor:
        if isinstance(self.layer, _BatchNorm):
            x = F.batch_norm(x, None, None, training=True, eps=self.layer.eps)
            weight, bias = (p.reshape(*p.shape, *(1,) * (x.ndim - 2)) for p in self.copies.values())
            return x * weight + bias
        return torch.cat([self._one(x, i) for i in range(len(x))])

    def _one(self, x: Tensor, i: int) -> Tensor:
        return functional_call(
            self.layer, {name: p[i] for name, p in self.copies.items()}, (x[i : i + 1],)
        )


LOOPS: dict[str, Callable[..., Rows]] = {
    "cross": compute_cross,
    "fixed": compute_fixed,
    "exact": compute_exact,
}


def compute_squared_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets) ** 2).flatten(1).mean(1)


def check_kernels(
    model: nn.Module, data: Batch, reading: str = "cross", loop: Callable[..., Rows] = compute_alone
) -> None:
    """Compare per-sample gradients of a network with those of a loop.

    Gram matrices are compared for the summed outputs, norms and products for a squared loss.
    """
    assert_same_kernel(
        Probe(model, data).kernel("sum", "all", reading), loop(model, data, sum_outputs), model
    )
    with torch.no_grad():
        targets = copy_with_batch_statistics(model)(data.inputs.clone()).cos()
    data = Batch(data.inputs, targets)
    assert_same_kernel(
        Probe(model, data, loss="mse").kernel("loss", "all", reading),
        loop(model, data, compute_squared_loss),
        model,
    )


def assert_same_kernel(kernel: Kernel, rows: Rows, model: nn.Module) -> None:
    """Compare to 1e-10. Parameters without any gradient may be absent; there must be no others."""
    thetas = {name: p.detach().flatten() for name, p in model.named_parameters()}
    flat = {name: g.reshape(len(g), -1) for name, g in rows.items()}
    assert set(kernel.grams) | set(kernel.norms) | set(kernel.products) <= set(rows)
    assert kernel.grams or kernel.norms
    for name, G in flat.items():
        scale = float(G.square().sum(1).max())
        nothing = torch.zeros(len(G), dtype=D)
        if kernel.grams:
            assert_close_to_scale(
                name, kernel.grams.get(name, nothing.expand(len(G), -1)), G @ G.mT, scale
            )
        else:
            assert_close_to_scale(name, kernel.norms.get(name, nothing), G.square().sum(1), scale)
        if kernel.products:
            product = G @ thetas[name]
            scale = float((G.abs() @ thetas[name].abs()).max())
            assert_close_to_scale(name, kernel.products.get(name, nothing), product, scale)
    total = sum(float(G.square().sum()) for G in flat.values())
    assert abs(kernel.trace() - total) <= 1e-10 * total


def assert_close_to_scale(name: str, ours: Tensor, expected: Tensor, scale: float) -> None:
    """Compare with a tolerance relative to `scale`, the sum of absolute values."""
    assert ours.dtype == D
    torch.testing.assert_close(
        ours, expected, rtol=0, atol=1e-10 * scale + 1e-25, msg=lambda m: f"{name}: {m}"
    )
