"""AutoFormer's vision transformer. The same class serves for stand-alone networks and supernets.

Legend: B samples, N tokens (the class token and the patches), E width of the tokens, h heads of
width 64, f inner width of the MLP.

A network has the weights of the largest architecture that it can run. `forward(x, layers)` runs a
smaller one on the leading rows and columns of every weight. A stand-alone network is created for
one architecture and uses all of its weights.

Where the official implementations differ, and what we do:
* AutoFormer's supernet takes rows 0, 3, 6, ... of a qkv weight for the queries, 1, 4, ... for the
  keys, 2, 5, ... for the values, so that the rows of a head do not depend on the number of heads.
  The bias, however, is cut into plain thirds. Our supernet does the same (`interleaved`). AZ-NAS's
  stand-alone network has plain thirds, and so have the networks that we build. Both compute the
  same functions, with the rows of one matrix in another order.
* AutoFormer scales the products of queries and keys by 64^(-1/2), AZ-NAS's stand-alone network by
  (E // h)^(-1/2), which is the same only if E = 64 h. The default is AutoFormer's scale;
  `attention_scale="embed"` selects the other.
* AutoFormer always computes GELU in float32; our networks compute it in the precision of its input.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.drawings.diagrams import TransformerLayers
from untrained.errors import UsageError
from untrained.spaces.block_templates import copy_from_template
from untrained.spaces.core.layers import drop_path
from untrained.types import Task

HEAD_WIDTH = 64
# Relative positions are clipped at this distance.
MAX_DISTANCE = 14
# Distances -14 to 14, and one entry for the class token.
POSITION_COUNT = 2 * MAX_DISTANCE + 2


@dataclass(frozen=True)
class TransformerConfig:
    """Settings that all architectures of a network share.

    Attributes:
        patch: Side of a patch.
        relative_position: Whether attention has relative positions.
        class_token: Whether the head reads the class token instead of the mean of the patches.
        attention_scale: "head" or "embed"; see the docstring of this module.
        drop_path: Probability for the deepest layer; it grows linearly from 0. Published trainings
            use 0.1.
        max_depth: Depth of the supernet. Stand-alone networks need it for `drop_path`.
        interleaved: Whether the rows of qkv are interleaved.
    """

    patch: int = 16
    relative_position: bool = True
    class_token: bool = False
    attention_scale: str = "head"
    drop_path: float = 0.0
    max_depth: int = 16
    interleaved: bool = False


class VisionTransformer(nn.Module):
    """Patches, class token, positions; pre-norm blocks; norm, mean, linear layer."""

    distances: Tensor

    def __init__(self, layers: TransformerLayers, task: Task, config: TransformerConfig) -> None:
        super().__init__()
        channels, rows, columns = compute_patch_grid(task, config.patch)
        embed = layers.embed
        self.layers = layers
        self.config = config
        self.patches = _PatchEmbedding(channels, embed, config.patch)
        self.cls_token = nn.Parameter(torch.empty(1, 1, embed))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + rows * columns, embed))
        self.blocks = nn.ModuleList()
        for index, (heads, ratio) in enumerate(zip(layers.heads, layers.ratios, strict=True)):
            drop_probability = config.drop_path * index / (config.max_depth - 1)
            inner_width = int(embed * ratio)
            block = _build_block(embed, heads, inner_width, config, drop_probability)
            self.blocks.append(block)
        self.norm = _ElasticNorm(embed)
        self.head = _ElasticLinear(embed, task.num_classes)
        distances = _compute_distances(rows, columns)
        self.register_buffer("distances", distances, persistent=False)
        _initialise_weight(self.cls_token)
        _initialise_weight(self.pos_embed)

    def forward(self, x: Tensor, layers: TransformerLayers | None = None) -> Tensor:
        layers = layers or self.layers
        embed = layers.embed
        patches = self.patches(x, embed)
        class_tokens = self.cls_token[..., :embed].expand(len(x), -1, -1)
        tokens = torch.cat([class_tokens, patches], 1) + self.pos_embed[..., :embed]
        # A smaller architecture uses the first blocks.
        blocks = zip(self.blocks, layers.heads, layers.ratios, strict=False)
        for block, heads, ratio in blocks:
            tokens = block(tokens, self.distances, heads, int(embed * ratio))
        tokens = self.norm(tokens)
        if self.config.class_token:
            features = tokens[:, 0]
        else:
            features = tokens[:, 1:].mean(1)
        logits: Tensor = self.head(features)
        return logits


def compute_patch_grid(task: Task, patch: int) -> tuple[int, int, int]:
    """Return channels, and rows and columns of patches; a remainder at the edges is ignored."""
    if len(task.input_shape) != 3 or min(task.input_shape[1:]) < patch:
        raise UsageError(
            f"the inputs of {task} are not images of at least {patch}x{patch} pixels; "
            "use a smaller patch, such as patch=4"
        )
    channels, height, width = task.input_shape
    return channels, height // patch, width // patch


class _TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(
        self, E: int, h: int, f: int, config: TransformerConfig, drop_probability: float
    ) -> None:
        super().__init__()
        self.attn_layer_norm = _ElasticNorm(E)
        self.ffn_layer_norm = _ElasticNorm(E)
        self.attn = _Attention(E, h, config)
        self.fc1 = _ElasticLinear(E, f)
        self.gelu = nn.GELU()
        self.fc2 = _ElasticLinear(f, E)
        self.drop_path = drop_probability

    def forward(self, x: Tensor, distances: Tensor, h: int, f: int) -> Tensor:
        attended = self.attn(self.attn_layer_norm(x), distances, h)
        x = x + self._drop_samples(attended)
        inner = self.gelu(self.fc1(self.ffn_layer_norm(x), f))
        return x + self._drop_samples(self.fc2(inner, x.shape[-1]))

    def _drop_samples(self, x: Tensor) -> Tensor:
        if self.training and self.drop_path:
            return drop_path(x, self.drop_path)
        return x


# Blocks of equal sizes are copied instead of constructed again; see `block_templates.py`.
_build_block = copy_from_template(_TransformerBlock)


class _Attention(nn.Module):
    """softmax(scale (q k + q r_k)) (v + r_v).

    r_k and r_v depend on the distance of two tokens, not on the head.
    """

    def __init__(self, embed: int, heads: int, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.qkv = ElasticQKV(embed, 3 * HEAD_WIDTH * heads, config.interleaved)
        self.proj = _ElasticLinear(HEAD_WIDTH * heads, embed)
        if config.relative_position:
            self.rel_pos_embed_k = _RelativePosition()
            self.rel_pos_embed_v = _RelativePosition()

    def forward(self, x: Tensor, distances: Tensor, h: int) -> Tensor:
        B, N, E = x.shape
        qkv = self.qkv(x, h).reshape(B, N, 3, h, HEAD_WIDTH)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, h, N, 64)
        scores = q @ k.transpose(-2, -1)
        if self.config.relative_position:
            position_keys = self.rel_pos_embed_k(distances)
            scores = scores + torch.einsum("bhqc,qkc->bhqk", q, position_keys)
        scale_width = HEAD_WIDTH if self.config.attention_scale == "head" else E // h
        weights = (scores * scale_width**-0.5).softmax(-1)
        out = weights @ v
        if self.config.relative_position:
            position_values = self.rel_pos_embed_v(distances)
            out = out + torch.einsum("bhqk,qkc->bhqc", weights, position_values)
        joined_heads = out.transpose(1, 2).reshape(B, N, h * HEAD_WIDTH)
        projected: Tensor = self.proj(joined_heads, E)
        return projected


class _RelativePosition(nn.Module):
    """One embedding per vertical and per horizontal distance; entry 0 is for the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.vertical = nn.Parameter(torch.empty(POSITION_COUNT, HEAD_WIDTH))
        self.horizontal = nn.Parameter(torch.empty(POSITION_COUNT, HEAD_WIDTH))
        _initialise_weight(self.vertical)
        _initialise_weight(self.horizontal)

    def forward(self, distances: Tensor) -> Tensor:
        """Return (N, N, 64)."""
        # There are only 30 * 30 different sums of two embeddings. Computing all of them and looking
        # them up is ten times as fast as adding two embeddings for every pair of tokens.
        sums = (self.vertical[:, None] + self.horizontal).flatten(0, 1)
        embeddings = sums.index_select(0, distances.flatten())
        return embeddings.reshape(*distances.shape, HEAD_WIDTH)


def _compute_distances(rows: int, columns: int) -> Tensor:
    """Return (N, N), the index 30 * vertical + horizontal for every pair of tokens.

    Each distance is coded as 1 to 29, or as 0 if one of the tokens is the class token.
    """
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    positions = torch.stack([row.flatten(), column.flatten()])
    differences = positions[:, None, :] - positions[:, :, None]
    indices = differences.clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE + 1
    padded: Tensor = F.pad(indices, (1, 0, 1, 0))
    return padded[0] * POSITION_COUNT + padded[1]


# ------------------------------------------------------------------------------ elastic layers


class _ElasticLinear(nn.Linear):
    """Reads as many entries as the input has and computes the first `out` outputs."""

    def forward(self, input: Tensor, out: int | None = None) -> Tensor:
        return F.linear(input, self.weight[:out, : input.shape[-1]], self.bias[:out])

    def reset_parameters(self) -> None:
        _initialise_weight(self.weight)
        nn.init.zeros_(self.bias)


class ElasticQKV(_ElasticLinear):
    """Queries, keys and values one after the other, 64 h each."""

    def __init__(self, embed: int, out: int, interleaved: bool) -> None:
        super().__init__(embed, out)
        self.interleaved = interleaved

    def forward(self, input: Tensor, h: int | None = None) -> Tensor:
        h = h or self.out_features // (3 * HEAD_WIDTH)
        return F.linear(
            input, self.select_rows(h, input.shape[-1]), self.bias[: 3 * HEAD_WIDTH * h]
        )

    def select_rows(self, h: int, embed: int) -> Tensor:
        """Return the weight for h heads, in plain thirds."""
        weight = self.weight[: 3 * HEAD_WIDTH * h, :embed]
        if not self.interleaved:
            return weight
        return weight.reshape(HEAD_WIDTH * h, 3, embed).transpose(0, 1).flatten(0, 1)


class _ElasticNorm(nn.LayerNorm):
    """A layer norm that uses as many weights as the input has entries."""

    def forward(self, input: Tensor) -> Tensor:
        width = input.shape[-1]
        return F.layer_norm(input, (width,), self.weight[:width], self.bias[:width], self.eps)


class _PatchEmbedding(nn.Conv2d):
    """Turns images into tokens, row by row; it has torch's default initialisation."""

    def __init__(self, channels: int, embed: int, patch: int) -> None:
        super().__init__(channels, embed, patch, stride=patch)

    def forward(self, input: Tensor, embed: int | None = None) -> Tensor:
        bias = self.bias
        if bias is not None:
            bias = bias[:embed]
        maps = F.conv2d(input, self.weight[:embed], bias, self.stride)
        return maps.flatten(2).transpose(1, 2)


def _initialise_weight(weight: Tensor) -> None:
    """Draw from a normal distribution.

    The official code truncates it at 100 standard deviations, which makes no difference.
    """
    nn.init.normal_(weight, std=0.02)
