"""A sketch for networks nobody drew: their layers with weights, in the order in which they were made."""

from itertools import groupby

from torch import nn
from torch.nn.modules.conv import _ConvNd

from untrained.spaces._sketch import Stage, Stages


def listed(network: nn.Module) -> Stages:
    """Convolutions, linear and embedding layers; equal ones in a row are one stage. Strides are not told: which layers
    follow each other and which stand side by side cannot be seen from a list."""
    layers = [stage for module in network.modules() if (stage := _stage(module))]
    rows = [(stage, len(list(same))) for stage, same in groupby(layers)]
    return Stages(tuple(Stage(stage.label, stage.channels, repeats=times) for stage, times in rows))


def _stage(module: nn.Module) -> Stage | None:
    if isinstance(module, _ConvNd):
        depthwise = "depthwise " if module.groups == module.in_channels > 1 else ""
        return Stage(f"{depthwise}conv {'x'.join(map(str, module.kernel_size))}", module.out_channels)
    if isinstance(module, nn.Linear):
        return Stage("linear", module.out_features)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return Stage("embedding", module.embedding_dim)
    return None
