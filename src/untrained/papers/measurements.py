"""Proxies that only the experiments need. `untrained list proxies` does not show them.

The engine scores with them as with any proxy, including workers, resuming and failures:

    load_proxy("untrained.papers.measurements:with_initialisation(metric=trace,rule=he)")
"""

from copy import deepcopy
from math import sqrt
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn

from untrained.papers.warm_up_levels import get_snapshot
from untrained.probe import Probe
from untrained.probe.features import map_by_shape
from untrained.probe.layers import find_layer_parameters
from untrained.proxies import PROXIES, load_proxy, proxy

MODULE_NAME = "untrained.papers.measurements"
Rule = Literal["lecun", "xavier", "he"]


@proxy(samples=1)
def share_of_large_layers(probe: Probe, which: Literal["leaves", "modules"] = "leaves") -> float:
    """Share of layers whose feature map of one image has a largest singular value of at least 1.

    Layers are leaf modules, once per call, or all modules including containers.
    """
    calls = []
    for feature in probe.features:
        calls.append(feature.leaf_calls if which == "leaves" else feature.calls)
    weights = torch.tensor(calls, dtype=torch.float64)
    matrices = [feature.matrix() for feature in probe.features]
    # Matrices of equal shape are stacked and decomposed together.
    sigma = map_by_shape(matrices, _compute_largest_singular_values)
    is_large = (sigma >= 1).double()
    return float(is_large @ weights / weights.sum())


def _compute_largest_singular_values(X: torch.Tensor) -> torch.Tensor:
    """Return the largest singular value of each matrix, (k, m, n) -> (k,)."""
    # Its square is the largest eigenvalue of X X^T and of X^T X; the smaller one is cheaper.
    if X.shape[-2] > X.shape[-1]:
        X = X.mT
    largest: torch.Tensor = torch.linalg.eigvalsh(X @ X.mT)[:, -1]
    return largest.clamp_min(0).sqrt()


@proxy(needs=("data", "labels", "gradients"), samples=64, cost=3)
def with_initialisation(probe: Probe, metric: str = "trace", rule: Rule = "lecun") -> float:
    """Score of a copy of the network whose weights are drawn again from a normal distribution.

        variance by rule: lecun 1 / fan_in, xavier 2 / (fan_in + fan_out), he 2 / fan_in

    Biases are 0.
    """
    # Other proxies still need the original weights.
    model = deepcopy(probe.model)
    generator = probe.generator("weights")
    with torch.no_grad():
        # In sorted order, so that the draws do not depend on the order of registration.
        for name in sorted(find_layer_parameters(model)):
            parameter = model.get_parameter(name)
            if parameter.ndim > 1:
                deviation = compute_initial_std(parameter.shape, rule)
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
            else:
                parameter.zero_()
    return PROXIES[metric](Probe(model, probe.batch, loss=probe.loss_name, seed=probe.seed))


def compute_initial_std(shape: torch.Size, rule: Rule) -> float:
    """Return the standard deviation of the initial weights of shape (out, in, ...)."""
    positions = shape[2:].numel()
    fan_in = shape[1] * positions
    fan_out = shape[0] * positions
    variances = {"lecun": 1 / fan_in, "xavier": 2 / (fan_in + fan_out), "he": 2 / fan_in}
    return sqrt(variances[rule])


# The probe of the last level of each network, so that several metrics share its gradients.
_LEVEL_PROBES: "WeakKeyDictionary[nn.Module, tuple[int, Probe]]" = WeakKeyDictionary()


@proxy(needs=("data", "labels", "gradients"), samples=256, cost=3)
def at_level(probe: Probe, level: int = 10, metric: str = "sigeo") -> float:
    """Score of the network after it saw `level` per cent of the images (`warm_up_levels.py`)."""
    cached_level, level_probe = _LEVEL_PROBES.get(probe.model, (None, None))
    if level_probe is None or cached_level != level:
        model = deepcopy(probe.model)
        model.load_state_dict(get_snapshot(probe.model, level))
        level_probe = Probe(model, probe.batch, loss=probe.loss_name, seed=probe.seed)
        _LEVEL_PROBES[probe.model] = (level, level_probe)
    return load_proxy(metric)(level_probe)


def project_circle_outputs(probe: Probe, points: int = 64) -> torch.Tensor:
    """Project outputs along the circle of Dextr's curvature onto three principal components.

    Args:
        probe: The network.
        points: Number of inputs on the circle.

    Returns:
        A tensor of shape (points, 3).
    """
    shape = (*probe.batch.inputs.shape[1:2], 64, 64)
    u1, u2 = probe.plane(shape)
    angles = torch.arange(points).to(u1).reshape(-1, 1, 1, 1) * (2 * torch.pi / points)
    inputs = u1 * angles.cos() + u2 * angles.sin()
    outputs = probe.with_inputs(inputs).outputs.double().flatten(1).cpu()
    # Principal components are the right singular vectors of the centred outputs.
    centred = outputs - outputs.mean(0)
    axes: torch.Tensor = torch.linalg.svd(centred, full_matrices=False).Vh[:3]
    return centred @ axes.T
