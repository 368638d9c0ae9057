"""AutoFormer's vision transformer, elastic: one class is the network of an architecture and the supernet of them all.

Legend: B samples, N tokens (the class token and the patches), E width of the tokens, h heads of 64, f inner width.

The largest architecture a network has weights for is given when it is made; `forward(x, layers)` runs a smaller one on
the leading rows and columns of every weight. A stand-alone network is made for its own architecture and runs all of it.

Where official codes differ, and what we do:
* AutoFormer's supernet takes rows 0, 3, 6, ... of a qkv weight for the queries, 1, 4, ... for the keys, 2, 5, ... for
  the values, so that a head keeps its rows whatever their number; but the bias is cut into plain thirds. Our supernet
  does the same (`interleaved`). AZ-NAS's stand-alone network has plain thirds, and so have the networks we build: the
  same functions, with the rows of one matrix in another order.
* AutoFormer scales the products of queries and keys by 64^(-1/2); AZ-NAS's stand-alone network by (E // h)^(-1/2), the
  same only where E = 64 h. The default is AutoFormer's; `attention_scale="embed"` is the other.
* AutoFormer computes GELU in float32 whatever the precision of the rest; ours keeps the precision.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import UsageError
from untrained.spaces._blocks import drop_path
from untrained.spaces._sketch import Layers
from untrained.spaces.block_templates import copy_from_template
from untrained.types import Task

HEAD = 64  # width of a head, in every architecture
REACH = 14  # farther apart than this is as far as this, for relative positions


@dataclass(frozen=True)
class Style:
    """What all architectures of a network have in common."""

    patch: int = 16
    relative_position: bool = True
    class_token: bool = False  # read the answer off the class token instead of the mean of the patches
    attention_scale: str = "head"  # or "embed"
    drop_path: float = 0.0  # of layer `deepest`, growing linearly from 0. Published trainings use 0.1
    deepest: int = 16  # the depth of the supernet, also for stand-alone networks
    interleaved: bool = False


class Transformer(nn.Module):
    """Patches, class token, positions; `layers.heads` many pre-norm blocks; norm, mean, linear."""

    def __init__(self, layers: Layers, task: Task, style: Style) -> None:
        super().__init__()
        channels, rows, columns = grid(task, style.patch)
        self.layers, self.style = layers, style
        self.patches = _Patches(channels, layers.embed, style.patch)
        self.cls_token = nn.Parameter(torch.empty(1, 1, layers.embed))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + rows * columns, layers.embed))
        inner = [int(layers.embed * ratio) for ratio in layers.ratios]
        drops = [style.drop_path * i / (style.deepest - 1) for i in range(len(inner))]
        shapes = zip(layers.heads, inner, drops, strict=True)
        self.blocks = nn.ModuleList(_block(layers.embed, h, f, style, drop) for h, f, drop in shapes)
        self.norm = _Norm(layers.embed)
        self.head = _Linear(layers.embed, task.num_classes)
        self.register_buffer("distances", _distances(rows, columns), persistent=False)
        for parameter in (self.cls_token, self.pos_embed):
            _initialise(parameter)

    def forward(self, x: Tensor, layers: Layers | None = None) -> Tensor:
        layers = layers or self.layers
        E = layers.embed
        x = self.patches(x, E)
        x = torch.cat([self.cls_token[..., :E].expand(len(x), -1, -1), x], 1) + self.pos_embed[..., :E]
        for block, h, ratio in zip(self.blocks, layers.heads, layers.ratios, strict=False):  # the first ones
            x = block(x, self.distances, h, int(E * ratio))
        x = self.norm(x)
        logits: Tensor = self.head(x[:, 0] if self.style.class_token else x[:, 1:].mean(1))
        return logits


def grid(task: Task, patch: int) -> tuple[int, int, int]:
    """Channels, and rows and columns of patches; what is left over at the far edges is not looked at."""
    if len(task.input_shape) != 3 or min(task.input_shape[1:]) < patch:
        raise UsageError(f"{task} has no image of at least one patch of {patch}; say patch=4, for instance")
    channels, height, width = task.input_shape
    return channels, height // patch, width // patch


class _Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, E: int, h: int, f: int, style: Style, drop_path: float) -> None:
        super().__init__()
        self.attn_layer_norm, self.ffn_layer_norm = _Norm(E), _Norm(E)
        self.attn = _Attention(E, h, style)
        self.fc1, self.gelu, self.fc2 = _Linear(E, f), nn.GELU(), _Linear(f, E)
        self.drop_path = drop_path

    def forward(self, x: Tensor, distances: Tensor, h: int, f: int) -> Tensor:
        x = x + self._dropped(self.attn(self.attn_layer_norm(x), distances, h))
        return x + self._dropped(self.fc2(self.gelu(self.fc1(self.ffn_layer_norm(x), f)), x.shape[-1]))

    def _dropped(self, x: Tensor) -> Tensor:
        return drop_path(x, self.drop_path) if self.training and self.drop_path else x


_block = copy_from_template(_Block)


class _Attention(nn.Module):
    """softmax(scale (q k + q r_k)) (v + r_v): r_k and r_v depend on how far apart two tokens are, not on the head."""

    def __init__(self, embed: int, heads: int, style: Style) -> None:
        super().__init__()
        self.style = style
        self.qkv = QKV(embed, 3 * HEAD * heads, style.interleaved)
        self.proj = _Linear(HEAD * heads, embed)
        if style.relative_position:
            self.rel_pos_embed_k, self.rel_pos_embed_v = _RelativePosition(), _RelativePosition()

    def forward(self, x: Tensor, distances: Tensor, h: int) -> Tensor:
        B, N, E = x.shape
        q, k, v = self.qkv(x, h).reshape(B, N, 3, h, HEAD).permute(2, 0, 3, 1, 4).unbind(0)  # each (B, h, N, 64)
        scores = q @ k.transpose(-2, -1)
        if self.style.relative_position:
            scores = scores + torch.einsum("bhqc,qkc->bhqk", q, self.rel_pos_embed_k(distances))
        weights = (scores * (HEAD if self.style.attention_scale == "head" else E // h) ** -0.5).softmax(-1)
        out = weights @ v
        if self.style.relative_position:
            out = out + torch.einsum("bhqk,qkc->bhqc", weights, self.rel_pos_embed_v(distances))
        projected: Tensor = self.proj(out.transpose(1, 2).reshape(B, N, h * HEAD), E)
        return projected


class _RelativePosition(nn.Module):
    """An embedding for how many rows and one for how many columns a token is away; row 0 is for the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.vertical = nn.Parameter(torch.empty(2 * REACH + 2, HEAD))
        self.horizontal = nn.Parameter(torch.empty(2 * REACH + 2, HEAD))
        _initialise(self.vertical)
        _initialise(self.horizontal)

    def forward(self, distances: Tensor) -> Tensor:
        """(N, N, 64). The sums of any two embeddings are few; to look up sums is ten times as fast as to add here."""
        sums = (self.vertical[:, None] + self.horizontal).flatten(0, 1)
        return sums.index_select(0, distances.flatten()).reshape(*distances.shape, HEAD)


def _distances(rows: int, columns: int) -> Tensor:
    """(N, N): rows and columns between every two tokens, each 1 to 29 (0 where one of them is the class token), as the
    one number 30 rows + columns."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    at = torch.stack([row.flatten(), column.flatten()])
    apart = (at[:, None, :] - at[:, :, None]).clamp(-REACH, REACH) + REACH + 1
    index: Tensor = F.pad(apart, (1, 0, 1, 0))
    return index[0] * (2 * REACH + 2) + index[1]


# ------------------------------------------------------------------------------------------------- elastic layers


class _Linear(nn.Linear):
    """Reads as many entries as it is given and answers with the first `out`."""

    def forward(self, input: Tensor, out: int | None = None) -> Tensor:
        return F.linear(input, self.weight[:out, : input.shape[-1]], self.bias[:out])

    def reset_parameters(self) -> None:
        _initialise(self.weight)
        nn.init.zeros_(self.bias)


class QKV(_Linear):
    """Queries, keys and values one after the other, 64 h each."""

    def __init__(self, embed: int, out: int, interleaved: bool) -> None:
        super().__init__(embed, out)
        self.interleaved = interleaved

    def forward(self, input: Tensor, h: int | None = None) -> Tensor:
        h = h or self.out_features // (3 * HEAD)
        return F.linear(input, self.rows(h, input.shape[-1]), self.bias[: 3 * HEAD * h])

    def rows(self, h: int, embed: int) -> Tensor:
        """The weight for h heads, in plain thirds."""
        weight = self.weight[: 3 * HEAD * h, :embed]
        return weight.reshape(HEAD * h, 3, embed).transpose(0, 1).flatten(0, 1) if self.interleaved else weight


class _Norm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        E = input.shape[-1]
        return F.layer_norm(input, (E,), self.weight[:E], self.bias[:E], self.eps)


class _Patches(nn.Conv2d):
    """Images to tokens, row by row; with torch's own initialisation."""

    def __init__(self, channels: int, embed: int, patch: int) -> None:
        super().__init__(channels, embed, patch, stride=patch)

    def forward(self, input: Tensor, embed: int | None = None) -> Tensor:
        maps = F.conv2d(input, self.weight[:embed], self.bias if self.bias is None else self.bias[:embed], self.stride)
        return maps.flatten(2).transpose(1, 2)


def _initialise(weight: Tensor) -> None:
    """A normal of 0.02. (The official one is cut off at 100 standard deviations.)"""
    nn.init.normal_(weight, std=0.02)
