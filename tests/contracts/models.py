"""What the contract of proxies covers: networks, proxies with all their variants, and failures.

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
SAMPLES = 12  # enough for all proxies: sigeo splits them into four batches of three


def list_variants(proxy: Proxy) -> list[str]:
    """Return the proxy with its defaults, and with every other choice of each option."""
    parameters = signature(proxy.function).parameters
    variants = [proxy.name]
    for option, values in proxy.choices.items():
        for value in values:
            if value != parameters[option].default:
                variants.append(f"{proxy.name}({option}={value})")
    return variants


NAMES: list[str] = []
for _proxy in PROXIES.values():
    # Aggregates rank candidates, so they do not score a single network.
    if not _proxy.parts:
        NAMES += list_variants(_proxy)


# ------------------------------------------------------------------------------------------------------------- networks


class Attention(nn.Module):
    """A small vision transformer for 16 patches; it does not accept other input sizes."""

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
    """Attention as in timm: one layer for queries, keys and values, and torch's fused function."""

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
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, 2)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 12), nn.GELU(), nn.Linear(12, dim))
        self.scale = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.scale * self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """A vision transformer with GELU, layer norm, class token, learned positions and layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 17, 8))
        self.blocks = nn.ModuleList(EncoderBlock(8) for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class DoublesInPlace(nn.Module):
    """Overwrites its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


class Noisy(nn.Module):
    """Draws from the global generators of torch, Python and numpy."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(()) + random.random() + float(np.random.rand())  # noqa: NPY002


def make_nasbench201(text: str = GOOD) -> nn.Module:
    space = load_space("nasbench201").with_options(channels=4, cells=1)
    return space.build(space.parse(text), Task("noise", (3, 32, 32), 5))


def make_cnn() -> nn.Module:
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


def make_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 5)
    )


def make_mixed_modes() -> nn.Module:
    """Some modules in train mode, some in eval mode, some frozen, and with hooks of the user."""
    model = make_cnn()
    model[1].eval()
    model[9].eval()
    model[0].requires_grad_(False)
    model[4].weight.requires_grad_(False)
    model[4].register_forward_hook(lambda module, args, output: None)
    model[5].register_forward_pre_hook(lambda module, args: None)
    return model


def make_in_place() -> nn.Module:
    return nn.Sequential(DoublesInPlace(), nn.ReLU(inplace=True), *make_cnn())


def make_noisy() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), Noisy(), nn.SiLU(), nn.Flatten(2), nn.Linear(225, 1), nn.Flatten()
    )


def make_smooth() -> nn.Module:
    """A network whose scores hardly depend on rounding.

    It has no ReLU, and no bias before a batch norm, whose gradient would be a rounding error.
    """
    layers = [nn.Conv2d(3, 6, 3, 2, bias=False), nn.BatchNorm2d(6), nn.SiLU()]
    layers += [nn.Conv2d(6, 6, 3), nn.GroupNorm(2, 6), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))


def make_linear() -> nn.Module:
    """A network without any nonlinearity."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), nn.Conv2d(6, 6, 3), nn.AvgPool2d(13), nn.Flatten(), nn.Linear(6, 5)
    )


def make_shared() -> nn.Module:
    """A network with a module that is registered twice, and another with the same parameter."""
    layer = nn.Linear(6, 6)
    tied = nn.Linear(6, 6)
    tied.weight = layer.weight
    return nn.Sequential(
        layer, nn.Tanh(), layer, nn.ReLU(), tied, nn.ELU(inplace=True), nn.Linear(6, 5)
    )


def make_nasrec() -> nn.Module:
    """A network of NASRec with all operators and all connections between its two streams.

    Its input is a row of three numbers and four identifiers.
    """
    space = load_space("nasrec_full").with_options(blocks=3)
    first = (
        "dot-product(0)16 transformer(0)16 fm interact; sigmoid-gating(0,1)32 linear-3d(0+1)16 fm"
    )
    return space.build(space.parse(f"{first}; sum(1,2)16 linear-3d(1+2)16 interact"), ROW)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "nasbench201": make_nasbench201,
    "cnn": make_cnn,
    "transformer": Attention,
    "mlp": make_mlp,
    "mixed modes": make_mixed_modes,
    "in place": make_in_place,
    "noisy": make_noisy,
    "vit": ViT,
    "smooth": make_smooth,
    "linear": make_linear,
    "shared": make_shared,
    "nasrec": make_nasrec,
}


# --------------------------------------------------------------------------------------------------- expected failures


_NO_ATTENTION = "unsupported: dss is for transformers: the network has no attention"
_SAME_CODE = "singular: two samples have the same code"  # the network has few neurons
_PARTS = "unsupported: a harmonic mean needs positive scores: zen is "
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
    "wrcor": {"linear": _LINEAR},
    # The frozen weights leave gradients in three dimensions only.
    "te_nas_condition(variant=published)": {"mixed modes": _DEPENDENT},
}


# ------------------------------------------------------------------------------------------------------------- scoring


def make_model(kind: str) -> nn.Module:
    """Make a network of `MODELS` in its mode; every second parameter already has a gradient."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = MODELS[kind]()
        for p in list(model.parameters())[::2]:
            p.grad = torch.randn_like(p)
        for name, buffer in model.named_buffers():
            if "running_mean" in name:
                buffer.normal_()
    return model


def make_batch(kind: str, samples: int = SAMPLES) -> Batch:
    """Return a random batch for a network; a small batch is the head of a large one."""
    shape = {"mlp": (6,), "shared": (6,), "nasrec": ROW.input_shape}.get(kind, (3, 32, 32))
    generator = torch.Generator().manual_seed(2)
    targets = torch.randint(5, (1000,), generator=generator)[:samples]
    inputs = [torch.randn(1, *shape, generator=generator) for _ in range(samples)]
    return Batch(torch.cat(inputs), targets)


def make_proxy_batch(kind: str, proxy: Proxy) -> Batch:
    """Return a batch with the default number of samples of a proxy."""
    return make_batch(kind, proxy.samples)


def score_or_reason(name: str, probe: Probe) -> float | str:
    """Return the score, or the reason why there is none; any other exception is marked as an error."""
    try:
        return load_proxy(name)(probe)
    except Unscorable as reason:
        return str(reason)
    except Exception as bug:
        return f"error: {bug!r}"


def score_all(
    kind: str, model: nn.Module, seed: int = 0, names: list[str] = NAMES
) -> dict[str, float | str]:
    """Return the scores or reasons of all proxies, which share one probe."""
    probe = Probe(model, make_batch(kind), seed=seed)
    return {name: score_or_reason(name, probe) for name in names}
