"""The networks every proxy must face, every proxy with every choice it declares, and where which has no score, and why.

A new proxy, and a new variant of one, is under contract as soon as it is registered.
"""

import random
from collections.abc import Callable
from inspect import signature

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import PROXIES, Proxy, load_proxy
from untrained.spaces import load_space
from untrained.types import Batch, Task

GOOD = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"
ROW = Task("noise", (3 + 4,), 5, vocabularies=(5, 7, 9, 4))
SAMPLES = 12  # enough for all: four batches of sigeo hold three each


def variants(proxy: Proxy) -> list[str]:
    """The proxy as it is and with each choice it declares besides, one at a time."""
    usual = {
        name: parameter.default for name, parameter in signature(proxy.function).parameters.items()
    }
    others = [
        (name, v) for name, values in proxy.choices.items() for v in values if v != usual[name]
    ]
    return [proxy.name, *(f"{proxy.name}({name}={v})" for name, v in others)]


NAMES = [
    name for proxy in PROXIES.values() for name in variants(proxy) if not proxy.parts
]  # not those of candidates


# ----------------------------------------------------------------------------------------------------------- the models


class Attention(nn.Module):
    """A small vision transformer for 16 patches: other input sizes do not fit its positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.positions = nn.Parameter(torch.randn(1, 16, 8))
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(8, 2, 12, 0.2, batch_first=True) for _ in range(2))
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.blocks(tokens).mean(1))


class SelfAttention(nn.Module):
    """As timm writes it: one linear layer for queries, keys and values, and torch's fused attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), SelfAttention(dim, 2)
        self.norm2, self.mlp = (
            nn.LayerNorm(dim),
            nn.Sequential(nn.Linear(dim, 12), nn.GELU(), nn.Linear(12, dim)),
        )
        self.scale = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.scale * self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """GELU, layer norm, a class token, learned positions and layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.token, self.positions = (
            nn.Parameter(torch.randn(1, 1, 8)),
            nn.Parameter(torch.randn(1, 17, 8)),
        )
        self.blocks = nn.ModuleList(EncoderBlock(8) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class DoublesInPlace(nn.Module):
    """Writes into the very tensor it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


class Noisy(nn.Module):
    """Draws from every global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(()) + random.random() + float(np.random.rand())  # noqa: NPY002


def nb201(text: str = GOOD) -> nn.Module:
    space = load_space("nasbench201").with_options(channels=4, cells=1)
    return space.build(space.parse(text), Task("noise", (3, 32, 32), 5))


def cnn() -> nn.Module:
    convolutions = [
        nn.Conv2d(3, 6, 3, stride=2),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Dropout2d(0.5),
    ]
    more = [nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=None), nn.ReLU(inplace=True)]
    return nn.Sequential(
        *convolutions,
        *more,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(6, 5),
    )


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 5)
    )


def mixed() -> nn.Module:
    """Some modules in train mode, some in eval mode, some frozen, and hooks of the user's own."""
    model = cnn()
    model[1].eval()
    model[9].eval()
    model[0].requires_grad_(False)
    model[4].weight.requires_grad_(False)
    model[4].register_forward_hook(lambda module, args, output: None)
    model[5].register_forward_pre_hook(lambda module, args: None)
    return model


def in_place() -> nn.Module:
    return nn.Sequential(DoublesInPlace(), nn.ReLU(inplace=True), *cnn())


def noisy() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), Noisy(), nn.SiLU(), nn.Flatten(2), nn.Linear(225, 1), nn.Flatten()
    )


def smooth() -> nn.Module:
    """No ReLU whose side could hang on a rounding, and no bias before a batch norm, whose gradient is rounding."""
    layers = [nn.Conv2d(3, 6, 3, 2, bias=False), nn.BatchNorm2d(6), nn.SiLU()]
    layers += [nn.Conv2d(6, 6, 3), nn.GroupNorm(2, 6), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))


def linear() -> nn.Module:
    """No nonlinearity at all."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), nn.Conv2d(6, 6, 3), nn.AvgPool2d(13), nn.Flatten(), nn.Linear(6, 5)
    )


def shared() -> nn.Module:
    """A module registered twice, and another that holds the same parameter."""
    layer, tied = nn.Linear(6, 6), nn.Linear(6, 6)
    tied.weight = layer.weight
    return nn.Sequential(
        layer, nn.Tanh(), layer, nn.ReLU(), tied, nn.ELU(inplace=True), nn.Linear(6, 5)
    )


def nasrec() -> nn.Module:
    """A row of three numbers and four identifiers; all operators, and all ways for the two streams to meet."""
    space = load_space("nasrec_full").with_options(blocks=3)
    first = (
        "dot-product(0)16 transformer(0)16 fm interact; sigmoid-gating(0,1)32 linear-3d(0+1)16 fm"
    )
    return space.build(space.parse(f"{first}; sum(1,2)16 linear-3d(1+2)16 interact"), ROW)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "nasbench201": nb201,
    "cnn": cnn,
    "transformer": Attention,
    "mlp": mlp,
    "mixed modes": mixed,
    "in place": in_place,
    "noisy": noisy,
    "vit": ViT,
    "smooth": smooth,
    "linear": linear,
    "shared": shared,
    "nasrec": nasrec,
}


# ------------------------------------------------------------------------------------------------------ without a score


_NO_ATTENTION = "unsupported: dss is for transformers: the network has no attention"
_SAME_CODE = "singular: two samples have the same code"  # of few neurons
_PARTS = "unsupported: a harmonic mean needs positive parts: zen is "
_DEPENDENT = "singular: the tangent kernel is singular: some samples have dependent gradients"
_LINEAR = "unsupported: the network has no pointwise nonlinearity"
REASONS: dict[str, dict[str, str]] = {  # by proxy, then by model
    "dss": dict.fromkeys(set(MODELS) - {"transformer", "vit", "nasrec"}, _NO_ATTENTION),
    "harmonic_mean": {"mlp": _PARTS, "shared": _PARTS, "nasrec": _PARTS},
    "naswot": {"linear": _LINEAR, "shared": _SAME_CODE},
    "naswot(variant=published)": {"linear": _LINEAR, "shared": _SAME_CODE},
    "hnas(metric=naswot)": {"linear": _LINEAR, "shared": _SAME_CODE},
    "swap": {"linear": _LINEAR},
    "swap_reg": {"linear": _LINEAR},
    "te_nas_regions": {"linear": _LINEAR},
    "te_nas_condition(variant=published)": {
        "mixed modes": _DEPENDENT
    },  # its frozen weights leave three vectors
}


# -------------------------------------------------------------------------------------------------------------- asking


def made(kind: str) -> nn.Module:
    """A model in train mode, unless it says otherwise, every other of whose parameters holds a gradient."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = MODELS[kind]()
        for p in list(model.parameters())[::2]:
            p.grad = torch.randn_like(p)
        for name, buffer in model.named_buffers():
            if "running_mean" in name:
                buffer.normal_()
    return model


def batch_of(kind: str, samples: int = SAMPLES) -> Batch:
    """The first samples of an endless batch: fewer are the beginning of more."""
    shape = {"mlp": (6,), "shared": (6,), "nasrec": ROW.input_shape}.get(kind, (3, 32, 32))
    draw = torch.Generator().manual_seed(2)
    targets = torch.randint(5, (1000,), generator=draw)[:samples]
    return Batch(
        torch.cat([torch.randn(1, *shape, generator=draw) for _ in range(samples)]), targets
    )


def batch_for(kind: str, proxy: Proxy) -> Batch:
    return batch_of(kind, proxy.samples)


def answer(name: str, probe: Probe) -> float | str:
    """The score, or the reason why there is none; any other error is a bug, told apart from both."""
    try:
        return load_proxy(name)(probe)
    except Unscorable as reason:
        return str(reason)
    except Exception as bug:
        return f"error: {bug!r}"


def answers(
    kind: str, model: nn.Module, seed: int = 0, names: list[str] = NAMES
) -> dict[str, float | str]:
    """What all proxies say of one network, on one probe."""
    probe = Probe(model, batch_of(kind), seed=seed)
    return {name: answer(name, probe) for name in names}
