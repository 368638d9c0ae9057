"""Measurements that only a paper's experiment asks for, in no catalogue; asked for like proxies, so that workers,
resume and failures come with the engine.

    load_proxy("untrained.papers.measurements:initialised(metric=trace,how=he)")
"""

from copy import deepcopy
from math import sqrt
from typing import Literal

import torch

from untrained.probe import Probe
from untrained.probe.features import map_by_shape
from untrained.probe.layers import find_layer_parameters
from untrained.proxies import PROXIES, proxy

NAME = "untrained.papers.measurements"
Init = Literal["lecun", "xavier", "he"]


@proxy(measures="the features", samples=1)
def large_layers(probe: Probe, which: Literal["leaves", "modules"] = "leaves") -> float:
    """Share of layers whose feature map of one image has a largest singular value of at least 1.

    Layers are leaf modules, each call once, or all modules, containers too.
    """
    calls = [feature.leaf_calls if which == "leaves" else feature.calls for feature in probe.features]
    times = torch.tensor(calls, dtype=torch.float64)
    sigma = map_by_shape([feature.matrix() for feature in probe.features], _largest)
    return float((sigma >= 1).double() @ times / times.sum())


def _largest(X: torch.Tensor) -> torch.Tensor:
    """The largest singular value of each matrix, (k, m, n) -> (k,), by the smaller Gram matrix."""
    X = X.mT if X.shape[-2] > X.shape[-1] else X
    highest: torch.Tensor = torch.linalg.eigvalsh(X @ X.mT)[:, -1]
    return highest.clamp_min(0).sqrt()


@proxy(measures="what the metric measures", needs=("data", "labels", "gradients"), samples=64, cost=3)
def initialised(probe: Probe, metric: str = "trace", how: Init = "lecun") -> float:
    """A proxy on a copy of the network whose weights are drawn anew: normal with the variance of a rule, biases 0.

    lecun: 1 / fan_in, xavier: 2 / (fan_in + fan_out), he: 2 / fan_in
    """
    model = deepcopy(probe.model)
    draw = probe.generator("weights")
    with torch.no_grad():
        for name in sorted(find_layer_parameters(model)):
            p = model.get_parameter(name)
            p.copy_(torch.randn(p.shape, generator=draw) * deviation(p.shape, how) if p.ndim > 1 else 0 * p)
    return PROXIES[metric](Probe(model, probe.batch, loss=probe.loss_name, seed=probe.seed))


def deviation(shape: torch.Size, how: Init) -> float:
    """The standard deviation of a weight of shape (out, in, ...)."""
    positions = shape[2:].numel()
    fan_in, fan_out = shape[1] * positions, shape[0] * positions
    return sqrt({"lecun": 1 / fan_in, "xavier": 2 / (fan_in + fan_out), "he": 2 / fan_in}[how])


def circle(probe: Probe, points: int = 64) -> torch.Tensor:
    """The outputs as the input runs once round the circle of Dextr's curvature, on its three principal components:
    (points, 3)."""
    shape = (*probe.batch.inputs.shape[1:2], 64, 64)
    u1, u2 = probe.plane(shape)
    angle = torch.arange(points).to(u1).reshape(-1, 1, 1, 1) * (2 * torch.pi / points)
    outputs = probe.with_inputs(u1 * angle.cos() + u2 * angle.sin()).outputs.double().flatten(1).cpu()
    centred = outputs - outputs.mean(0)
    axes: torch.Tensor = torch.linalg.svd(centred, full_matrices=False).Vh[:3]
    return centred @ axes.T
