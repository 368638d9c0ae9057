"""Golden networks of all spaces, computed with the official code, and how to compare with them.

`fill_weights` gives a network the weights of the golden file (its `meta.fwd`). They depend on the
shape of a tensor only, so neither names nor the order of layers matter, but topology, padding,
pooling and norms do.
"""

import json
from functools import cache
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.conftest import find_shared

Convolution = nn.Conv2d | nn.ConvTranspose2d
_NORMS = (nn.BatchNorm2d, nn.BatchNorm1d, nn.LayerNorm)


@cache
def read_golden_file() -> dict[str, Any]:
    """Return the content of the golden file, such as `read_golden_file()["darts"]["archs"]`."""
    return json.loads(find_shared("golden", "spaces_golden.json").read_text())


def make_sequence(shape: tuple[int, ...], start: int = 0) -> Tensor:
    """Return u(start), u(start + 1), ... in a shape; u is the hash of `_hash_positions`."""
    stop = start + prod(shape)
    return _hash_positions(1 << stop.bit_length())[start:stop].reshape(shape)


@cache
def _hash_positions(count: int) -> Tensor:
    """Return u(0), u(1), ...: a fixed hash of the position in [-1, 1)."""
    x = (np.arange(1, count + 1, dtype=np.uint64) * 2654435761) & 0xFFFFFFFF
    for _ in range(2):
        x ^= x >> np.uint64(16)
        x = (x * 0x45D9F3B) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    return torch.from_numpy(2 * x.astype(np.float64) / 2**32 - 1)


def fill_weights(model: nn.Module) -> nn.Module:
    """Convert the model to float64 and eval mode, and set the golden weights; returns the model."""
    model.double().eval()
    with torch.no_grad():
        for module in model.modules():
            for name, tensor in module.named_parameters(recurse=False):
                tensor.copy_(_make_weight(module, name, tensor))
            if (
                isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d)
                and module.running_mean is not None
            ):
                module.reset_running_stats()  # mean 0, variance 1
    return model


def _make_weight(module: nn.Module, name: str, tensor: Tensor) -> Tensor:
    if isinstance(module, _NORMS):
        return torch.ones_like(tensor) if name == "weight" else torch.zeros_like(tensor)
    if not isinstance(module, Convolution | nn.Linear):
        return 0.02 * make_sequence(tuple(tensor.shape))
    if name == "bias":
        return torch.zeros_like(tensor)
    return make_sequence(tuple(tensor.shape)) * sqrt(6 / prod(tensor.shape[1:]))


def make_inputs(shape: list[int]) -> Tensor:
    """Return the golden input of this shape; the first axis is that of samples."""
    return make_sequence(tuple(shape), start=77).clone()  # some networks write into their input


def run_and_count(model: nn.Module, x: Tensor) -> tuple[Tensor, int]:
    """Return the main output and the multiply-adds of one sample.

    Every call of a convolution or linear layer counts. Transposed convolutions, attention products,
    biases, norms and pooling do not.
    """
    macs = 0

    def count(module: nn.Module, _: Any, out: Tensor) -> None:
        nonlocal macs
        macs += out.numel() * prod(module.weight.shape[1:]) // len(x)

    layers = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        out = model(x)
    for handle in handles:
        handle.remove()
    return (out[0] if isinstance(out, tuple) else out), macs


def check_network(model: nn.Module, entry: dict[str, Any], rtol: float = 1e-7) -> None:
    """Check parameters, multiply-adds and outputs of a network; its weights are overwritten.

    Args:
        model: Our network.
        entry: What the golden file says about the official network.
        rtol: Allowed difference of outputs, relative to their norm.
    """
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == entry["params"]
    out, macs = run_and_count(fill_weights(model), make_inputs(entry["input_shape"]))
    assert macs == entry["macs"]
    assert list(out.shape) == entry["output_shape"][0]
    if isinstance(entry.get("fwd"), dict):  # it is an explanation if the official network is random
        check_output(out, entry["fwd"], rtol)


def check_output(out: Tensor, fwd: dict[str, Any], rtol: float = 1e-7) -> None:
    """Check the first logits, the norm and the mean of an output; `rtol` is relative to the norm."""
    first = out.flatten()[: len(fwd["first"])].tolist()
    actual = [*first, out.norm().item(), out.mean().item()]
    expected = [*fwd["first"], fwd["l2"], fwd["mean"]]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rtol * fwd["l2"])
