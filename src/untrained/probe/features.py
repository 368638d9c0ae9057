"""Feature maps: what every module of a network says about a batch, each distinct tensor once.

A module tree repeats tensors: a container returns what its last child returned. Each tensor is kept once, with the
number of modules that returned it (`calls`), and how many of those were leaves (`leaf_calls`); proxies weigh by either.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from untrained.errors import Unscorable
from untrained.probe.spectrum import extreme_ratio

_ENTRIES = 2**25  # of a float64 stack of feature maps: 256 MiB, however many networks there are


@dataclass(slots=True, eq=False)
class Feature:
    """One distinct output tensor of a forward pass."""

    tensor: Tensor
    name: str  # the first module that returned it
    calls: int = 0
    leaf_calls: int = 0

    def matrix(self) -> Tensor:
        """The first sample as (channels, positions): (C, H*W) for images, (tokens, dim) for sequences, (C, 1) else."""
        return matrices(self.tensor[:1])[0]


class Capture:
    """Collects the outputs of modules in call order while its hooks are on."""

    def __init__(self, keep_copies: bool = False) -> None:
        self._calls: list[tuple[Tensor, int, str, bool]] = []  # output, its version then, module, whether a leaf
        self._rectified: dict[int, tuple[Tensor, Tensor]] = {}
        self._copies: dict[tuple[int, int], Tensor] | None = {} if keep_copies else None

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Listen to the modules of `model` through torch's one global hook; the modules themselves stay untouched."""
        known = {module: (name, not module._modules) for name, module in model.named_modules()}

        def collect(module: nn.Module, inputs: Any, output: Any) -> None:
            if module in known:
                name, leaf = known[module]
                self._collect(name, leaf, self._twin(inputs[0], output) if type(module) is nn.ReLU else output)

        handle = register_module_forward_hook(collect)
        try:
            yield
        finally:
            handle.remove()

    def _twin(self, source: Tensor, output: Tensor) -> Tensor:
        """What the first ReLU made of `source`: a node that feeds several branches is rectified in each of them."""
        if self._copies is not None:  # somebody overwrites: each output may go its own way
            return output
        return self._rectified.setdefault(id(source), (source, output))[1]

    def _collect(self, name: str, leaf: bool, output: Any) -> None:
        tensor = output if isinstance(output, Tensor) else first_tensor(output)
        if tensor is not None:
            version = 0 if self._copies is None else tensor._version  # asking goes through the function mode: dear
            self._calls.append((tensor, version, name, leaf))  # holds the tensor, so its id stays taken
            if self._copies is not None:
                self._copies.setdefault((id(tensor), version), tensor.clone())

    @property
    def overwritten(self) -> bool:
        """Whether an in-place function touched a collected tensor, before or after (then collect again with copies)."""
        return self._copies is None and any(tensor._version for tensor, *_ in self._calls)

    @property
    def features(self) -> tuple[Feature, ...]:
        found: dict[tuple[int, int], Feature] = {}
        for tensor, version, name, leaf in self._calls:
            if tensor.is_floating_point() and tensor.ndim:
                key = (id(tensor), version)
                kept = tensor if self._copies is None else self._copies[key]
                feature = found.setdefault(key, Feature(kept, name))
                feature.calls += 1
                feature.leaf_calls += leaf
        return tuple(found.values())


def first_tensor(output: Any) -> Tensor | None:
    """The tensor a module mainly returns: attention returns (output, weights), some models a dictionary."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, list | tuple) and output:
        return first_tensor(output[0])
    return None


def inverse_conditions(features: Sequence[Feature]) -> Tensor:
    """sigma_min / sigma_max of each feature's matrix, float64 on the CPU, 0 where the matrix is zero."""
    found = ratios(features)
    if found.isnan().any():
        raise Unscorable("nan", "a feature map is not finite")
    return found


def ratios(features: Sequence[Feature]) -> Tensor:
    """The same for features of any number of networks; NaN where one is not finite, which spoils no other.

    Equal shapes go together: the extreme eigenvalues of the float64 Gram matrices (the smaller side), whose square
    roots are the singular values. Squaring costs half the digits, which still leaves the ratio good to 1e-8.
    """
    return map_by_shape([feature.matrix() for feature in features], _inverse_condition)


def stacked_ratios(stacks: Sequence[Tensor]) -> Tensor:
    """The same for stacks of matrices, (k, m, n) each: as many ratios as there are matrices, in order."""
    return _map_stacks_by_shape(stacks, _inverse_condition)


def matrices(samples: Tensor) -> Tensor:
    """Samples (k, channels, ...) as a stack of matrices, (k, channels, positions)."""
    return samples.reshape(len(samples), samples.shape[1] if samples.ndim > 1 else 1, -1)


def map_by_shape(matrices: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> Tensor:
    """`function` of stacks of equal shape, (k, m, n) -> (k,) in float64: one number a matrix, on the CPU."""
    return _map_stacks_by_shape([matrix[None] for matrix in matrices], function)


def _map_stacks_by_shape(stacks: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> Tensor:
    starts = list(accumulate(map(len, stacks), initial=0))
    numbers = torch.zeros(starts[-1], dtype=torch.float64)
    groups: dict[torch.Size, list[int]] = {}
    for i, stack in enumerate(stacks):
        groups.setdefault(stack.shape[1:], []).append(i)
    for shape, together in groups.items():
        X, most = torch.cat([stacks[i] for i in together]), max(1, _ENTRIES // shape.numel())
        found = [function(X[i : i + most].double()) for i in range(0, len(X), most)]
        numbers[[row for i in together for row in range(starts[i], starts[i + 1])]] = torch.cat(found).cpu()
    return numbers


def _inverse_condition(X: Tensor) -> Tensor:
    """(k, m, n) -> (k,), square root of the ratio of the extreme eigenvalues of X X^T."""
    if X.shape[-2] > X.shape[-1]:
        X = X.mT
    if X.shape[-2] == 1:
        high = X.abs().amax((-2, -1))
        return torch.where(high <= 0, 0, high / high)  # NaN stays NaN
    return extreme_ratio(X @ X.mT).sqrt()
