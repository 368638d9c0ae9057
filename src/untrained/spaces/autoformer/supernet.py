"""AutoFormer's supernet, and the choices of its architectures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from untrained.drawings.diagrams import TransformerLayers
from untrained.errors import UsageError
from untrained.spaces.autoformer.network import (
    ElasticQKV,
    TransformerConfig,
    VisionTransformer,
)
from untrained.spaces.core.supernet import ElasticSubnet
from untrained.types import Arch, Task


@dataclass(frozen=True)
class AutoformerFamily:
    """The options of one space, and the width of its supernet.

    Attributes:
        depths: Numbers of layers.
        ratios: Widths of the MLP divided by the width of the tokens.
        heads: Numbers of heads.
        embeds: Widths of the tokens.
        supernet_embed: Width of the tokens in the supernet.
        ratio_note: A hint that is appended to errors about ratios.
    """

    depths: tuple[int, ...]
    ratios: tuple[float, ...]
    heads: tuple[int, ...]
    embeds: tuple[int, ...]
    supernet_embed: int
    ratio_note: str = ""

    def with_ratios(self, ratios: Sequence[float] | None) -> "AutoformerFamily":
        """Return the family with other ratios, unless they are None or the same."""
        if ratios is None:
            return self
        new_ratios = tuple(map(float, ratios))
        if new_ratios == self.ratios:
            return self
        # The note does not apply to other ratios.
        return replace(self, ratios=new_ratios, ratio_note="")


def read_transformer_layers(arch: Arch) -> TransformerLayers:
    """Return the layers of an architecture. The result is also its diagram."""
    genes = dict(arch.genes)
    heads = []
    ratios = []
    for layer in range(int(genes["depth"])):
        heads.append(int(genes[f"heads{layer}"]))
        ratios.append(float(genes[f"ratio{layer}"]))
    return TransformerLayers(int(genes["embed"]), tuple(heads), tuple(ratios))


class AutoformerSupernet(VisionTransformer):
    """The weights of all architectures: each uses the leading rows and columns."""

    def __init__(
        self,
        family: AutoformerFamily,
        task: Task,
        ratios: Sequence[float] | None = None,
        **config: Any,
    ) -> None:
        depth = max(family.depths)
        # The official supernet has ratio 4 at least.
        ratio = max(4.0, *family.with_ratios(ratios).ratios)
        largest = TransformerLayers(
            family.supernet_embed, (max(family.heads),) * depth, (ratio,) * depth
        )
        super().__init__(
            largest, task, TransformerConfig(**config, max_depth=depth, interleaved=True)
        )
        self.task = task

    def subnet(self, arch: Arch) -> nn.Module:
        """Return the network of `arch`, which uses the weights of this supernet."""
        layers = read_transformer_layers(arch)
        if not self._contains(layers):
            raise UsageError(
                f"{arch} of {arch.space} is larger than this supernet; "
                f"use the supernet of {arch.space}"
            )
        return ElasticSubnet(self, layers)

    def _contains(self, layers: TransformerLayers) -> bool:
        largest = self.layers
        if layers.embed > largest.embed or len(layers.heads) > len(largest.heads):
            return False
        for heads, max_heads in zip(layers.heads, largest.heads, strict=False):
            if heads > max_heads:
                return False
        for ratio, max_ratio in zip(layers.ratios, largest.ratios, strict=False):
            if ratio > max_ratio:
                return False
        return True

    def weights(self, layers: TransformerLayers) -> dict[str, Tensor]:
        """Return the weights of the stand-alone network, as views where possible."""
        with torch.device("meta"):
            config = replace(self.config, interleaved=False)
            standalone = VisionTransformer(layers, self.task, config)
        shared = dict(self.named_parameters())
        weights = {}
        for name, parameter in standalone.named_parameters():
            slices = tuple(slice(size) for size in parameter.shape)
            weights[name] = shared[name][slices]
        # The rows of qkv are interleaved in the supernet and plain thirds in the other network.
        qkv_layers = [module for module in self.modules() if isinstance(module, ElasticQKV)]
        for index, heads in enumerate(layers.heads):
            rows = qkv_layers[index].select_rows(heads, layers.embed)
            weights[f"blocks.{index}.attn.qkv.weight"] = rows
        return weights
