"""Feature maps: what every module of a network says about a batch, each distinct tensor once.

A module tree repeats tensors: a container returns what its last child returned. Each tensor is kept once, with the
number of modules that returned it (`calls`), and how many of those were leaves (`leaf_calls`); proxies weigh by either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(slots=True)
class Feature:
    """One distinct output tensor of a forward pass."""

    tensor: Tensor
    name: str  # the first module that returned it
    calls: int = 0
    leaf_calls: int = 0

    def matrix(self) -> Tensor:
        """The first sample as (channels, positions): (C, H*W) for images, (tokens, dim) for sequences, (C, 1) else."""
        first = self.tensor[0]
        return first.reshape(len(first), -1) if first.ndim else first.reshape(1, 1)


class Capture:
    """Collects the outputs of modules in call order while its hooks are on."""

    def __init__(self, keep_copies: bool = False) -> None:
        self._found: dict[tuple[int, int], Feature] = {}
        self._versions: list[tuple[Tensor, int]] = []
        self._keep_copies = keep_copies

    @property
    def features(self) -> tuple[Feature, ...]:
        return tuple(self._found.values())

    @property
    def overwritten(self) -> bool:
        """Whether an in-place function changed a tensor after it was collected (then collect again with copies)."""
        return any(tensor._version != version for tensor, version in self._versions)

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        handles = [module.register_forward_hook(self._hook(name)) for name, module in model.named_modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str) -> Any:
        def collect(module: nn.Module, inputs: Any, output: Any) -> None:
            tensor = _first_tensor(output)
            if tensor is None or not tensor.is_floating_point() or tensor.ndim == 0:
                return
            feature = self._feature(tensor, name)
            feature.calls += 1
            feature.leaf_calls += not any(True for _ in module.children())

        return collect

    def _feature(self, tensor: Tensor, name: str) -> Feature:
        key = (id(tensor), tensor._version)
        if key not in self._found:
            self._versions.append((tensor, tensor._version))  # holds the tensor, so its id stays taken
            kept = tensor.detach().clone() if self._keep_copies else tensor.detach()
            self._found[key] = Feature(kept, name)
        return self._found[key]


def _first_tensor(output: Any) -> Tensor | None:
    """The tensor a module mainly returns: attention returns (output, weights), some models a dictionary."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, list | tuple) and output:
        return _first_tensor(output[0])
    return None


def inverse_conditions(features: tuple[Feature, ...]) -> Tensor:
    """sigma_min / sigma_max of each feature's matrix, float64, 0 where the matrix is zero.

    Equal shapes go together: the eigenvalues of the float64 Gram matrices (the smaller side), whose square roots are
    the singular values. Squaring costs half the digits, which still leaves the ratio good to 1e-8.
    """
    ratios = torch.zeros(len(features), dtype=torch.float64)
    groups: dict[torch.Size, list[int]] = {}
    for i, feature in enumerate(features):
        groups.setdefault(feature.matrix().shape, []).append(i)
    for members in groups.values():
        matrices = torch.stack([features[i].matrix() for i in members]).double()
        ratios[members] = _inverse_condition(matrices).cpu()
    return ratios


def _inverse_condition(X: Tensor) -> Tensor:
    """(k, m, n) -> (k,), sqrt of the ratio of the extreme eigenvalues of X X^T."""
    if X.shape[-2] > X.shape[-1]:
        X = X.mT
    if X.shape[-2] == 1:
        return (X.abs().amax((-2, -1)) > 0).double()
    eigenvalues = torch.linalg.eigvalsh(X @ X.mT)  # (k, m), ascending
    low, high = eigenvalues[:, 0].clamp_min(0), eigenvalues[:, -1]
    return torch.where(high > 0, (low / high).sqrt(), 0)
