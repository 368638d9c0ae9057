"""Feature maps: the outputs of all modules of a network on a batch, each distinct tensor once.

A module tree repeats tensors, because a container returns the output of its last child. Each tensor
is kept once, with the number of module calls that returned it (`calls`) and how many of those were
calls of leaf modules (`leaf_calls`). Proxies use either number as a weight.
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
from untrained.probe.jets import Args
from untrained.probe.spectrum import compute_eigenvalue_ratios

# Entries of a float64 stack of feature maps: 256 MiB, for any number of networks.
_MAX_ENTRIES = 2**25


@dataclass(slots=True, eq=False)
class Feature:
    """One distinct output tensor of a forward pass.

    Attributes:
        tensor: The output, (samples, ...).
        name: Name of the first module that returned it.
        calls: Number of module calls that returned it.
        leaf_calls: Number of calls of leaf modules that returned it.
    """

    tensor: Tensor
    name: str
    calls: int = 0
    leaf_calls: int = 0

    def matrix(self) -> Tensor:
        """Return the first sample as a matrix.

        The shape is (C, H*W) for images, (tokens, dim) for sequences and (C, 1) otherwise.
        """
        return as_matrices(self.tensor[:1])[0]


class FeatureCapture:
    """Collects the outputs of modules in call order while its hook is active.

    Args:
        keep_copies: Whether to copy outputs, for networks with in-place functions.
    """

    def __init__(self, keep_copies: bool = False) -> None:
        # (output, its version at that time, name of the module, whether the module is a leaf)
        self._calls: list[tuple[Tensor, int, str, bool]] = []
        # By id and version of the input: the input, which keeps its id valid, and the output.
        self._relu_outputs: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._copies: dict[tuple[int, int], Tensor] | None = {} if keep_copies else None

    @contextmanager
    def hook(self, model: nn.Module) -> Iterator[None]:
        """Collect outputs of the modules of `model` through torch's global hook.

        The modules themselves are not changed.
        """
        modules = {}
        for name, module in model.named_modules():
            modules[module] = (name, not module._modules)

        def collect(module: nn.Module, inputs: Args, output: Any) -> None:
            if module not in modules:
                return
            name, is_leaf = modules[module]
            if type(module) is nn.ReLU and inputs:
                output = self._get_first_relu_output(inputs[0], output)
            self._collect(name, is_leaf, output)

        handle = register_module_forward_hook(collect)
        try:
            yield
        finally:
            handle.remove()

    def _get_first_relu_output(self, source: Tensor, output: Tensor) -> Tensor:
        """Return the output of the first ReLU that read `source`.

        Where a value feeds several branches, each branch often starts with a ReLU. The outputs of
        these ReLUs are equal and count as one feature.
        """
        if self._copies is not None:
            # In-place functions may change each output differently.
            return output
        key = (id(source), source._version)
        return self._relu_outputs.setdefault(key, (source, output))[1]

    def _collect(self, name: str, is_leaf: bool, output: object) -> None:
        tensor = find_first_tensor(output)
        if tensor is None:
            return
        # Reading `_version` passes through the function mode, which is slow.
        version = 0 if self._copies is None else tensor._version
        # The list holds the tensor, so its id is not reused.
        self._calls.append((tensor, version, name, is_leaf))
        if self._copies is not None:
            self._copies.setdefault((id(tensor), version), tensor.clone())

    def find_copy(self, tensor: Tensor) -> Tensor:
        """Return the tensor that the features contain for a tensor: its copy, if one was made."""
        if self._copies is None:
            return tensor
        return self._copies.get((id(tensor), tensor._version), tensor)

    @property
    def overwritten(self) -> bool:
        """Whether an in-place function changed a collected tensor.

        The features must then be collected again, with copies.
        """
        if self._copies is not None:
            return False
        return any(tensor._version for tensor, *_ in self._calls)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The collected features in call order."""
        features: dict[tuple[int, int], Feature] = {}
        for tensor, version, name, is_leaf in self._calls:
            if not (tensor.is_floating_point() and tensor.ndim):
                continue
            # A tensor that was overwritten between two calls counts as two features.
            key = (id(tensor), version)
            content = tensor if self._copies is None else self._copies[key]
            feature = features.setdefault(key, Feature(content, name))
            feature.calls += 1
            if is_leaf:
                feature.leaf_calls += 1
        return tuple(features.values())


def find_first_tensor(output: object) -> Tensor | None:
    """Return the main tensor of a module's output.

    Attention returns (output, weights), and some models return a dictionary.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, list | tuple) and output:
        return find_first_tensor(output[0])
    return None


def compute_inverse_conditions(features: Sequence[Feature]) -> Tensor:
    """Return the reciprocal condition number, sigma_min / sigma_max, of each feature's matrix.

    The results are float64 on the CPU. It is 0 for a zero matrix.
    """
    return require_finite(compute_inverse_conditions_or_nan(features))


def compute_inverse_conditions_or_nan(features: Sequence[Feature]) -> Tensor:
    """Return sigma_min / sigma_max of each feature's matrix; NaN if it is not finite.

    The features may belong to several networks. Matrices of equal shape are computed together: the
    singular values are the square roots of the extreme eigenvalues of the float64 Gram matrices (of
    the smaller side). `spectrum.py` states the accuracy.
    """
    matrices = [feature.matrix() for feature in features]
    return map_by_shape(matrices, _compute_inverse_conditions_of_stack)


def require_finite(numbers: Tensor) -> Tensor:
    """Return numbers, one per feature; raise if one is NaN because its feature is not finite."""
    if numbers.isnan().any():
        raise Unscorable("nan", "a feature map is not finite")
    return numbers


def compute_stacked_inverse_conditions(stacks: Sequence[Tensor]) -> Tensor:
    """Return sigma_min / sigma_max of each matrix in stacks of shape (k, m, n), in order."""
    return _map_stacks_by_shape(stacks, _compute_inverse_conditions_of_stack)


def as_matrices(samples: Tensor) -> Tensor:
    """Reshape samples (k, channels, ...) to a stack of matrices, (k, channels, positions)."""
    channels = samples.shape[1] if samples.ndim > 1 else 1
    return samples.reshape(len(samples), channels, -1)


def map_by_shape(matrices: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to stacks of equally shaped matrices.

    Args:
        matrices: Matrices of any shapes.
        function: Maps a float64 stack (k, m, n) to one number per matrix, (k,).

    Returns:
        One number per matrix, in order, float64 on the CPU.
    """
    return _map_stacks_by_shape([matrix[None] for matrix in matrices], function)


def _map_stacks_by_shape(
    stacks: Sequence[Tensor],
    function: Callable[[Tensor], Tensor],
) -> Tensor:
    starts = list(accumulate(map(len, stacks), initial=0))
    numbers = torch.zeros(starts[-1], dtype=torch.float64)
    members_by_shape: dict[torch.Size, list[int]] = {}
    for member, stack in enumerate(stacks):
        members_by_shape.setdefault(stack.shape[1:], []).append(member)
    for shape, members in members_by_shape.items():
        X = torch.cat([stacks[member] for member in members])
        # Chunks limit the memory of the float64 copies.
        chunk_size = max(1, _MAX_ENTRIES // shape.numel())
        chunks = []
        for start in range(0, len(X), chunk_size):
            chunks.append(function(X[start : start + chunk_size].double()))
        rows: list[int] = []
        for member in members:
            rows.extend(range(starts[member], starts[member + 1]))
        numbers[rows] = torch.cat(chunks).cpu()
    return numbers


def _compute_inverse_conditions_of_stack(X: Tensor) -> Tensor:
    """(k, m, n) -> (k,), square root of the ratio of the extreme eigenvalues of X X^T."""
    if X.shape[-2] > X.shape[-1]:
        X = X.mT
    if X.shape[-2] == 1:
        # One row has a single singular value: the ratio is 1, or 0 for a row of zeros.
        high = X.abs().amax((-2, -1))
        return torch.where(high <= 0, 0, high / high)  # NaN stays NaN
    return compute_eigenvalue_ratios(X @ X.mT).sqrt()
