"""Networks for per-sample gradients, each with the shape of a batch: those that rules know, those that they do not, and
those with batch norm."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import Net

P = nn.Parameter
Cases = dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]
IMAGES, TOKENS, FLAT = (4, 3, 7, 7), (4, 4, 6), (4, 6)


def frozen(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def residual(net: Any, x: Tensor) -> Tensor:
    x = net.stem(x)
    return (net.left(x).tanh() + net.right(x) * x).mean((2, 3))


def transformer(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.3, batch_first=True, **options)
    token, positions = P(torch.empty(1, 1, 6)), P(torch.empty(1, 5, 6))

    def does(net: Any, x: Tensor) -> Tensor:
        tokens = torch.cat([net.token.expand(len(x), -1, -1), x], 1) + net.positions
        return net.head(net.norm(net.layer(tokens))[:, 0])

    return Net(
        does,
        token=token,
        positions=positions,
        layer=layer,
        norm=nn.LayerNorm(6),
        head=nn.Linear(6, 3),
    )


def attention(**options: Any) -> nn.Module:
    """Across two sequences, so that query, key and value differ."""
    net = nn.MultiheadAttention(6, 2, 0.3, batch_first=True, **options)
    return Net(
        lambda net, x: net.a(net.q(x), x.tanh(), x.cos())[0].sum(1), a=net, q=nn.Linear(6, 6)
    )


def cnn(**options: Any) -> nn.Module:
    layers = [
        nn.Conv2d(3, 4, 3, 2),
        nn.ReLU(**options),
        nn.Conv2d(4, 4, 3, groups=2, padding=1),
        nn.ReLU(**options),
    ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3)
    )


def on_tokens(activation: nn.Module) -> nn.Module:
    """A linear layer on three axes returns a view, which an activation may overwrite."""
    return nn.Sequential(
        nn.Linear(6, 6), nn.Linear(6, 5), activation, nn.Flatten(), nn.Linear(20, 3)
    )


NETWORKS: Cases = {
    "tokens": (lambda: on_tokens(nn.ReLU()), TOKENS),
    "tokens overwritten in place": (lambda: on_tokens(nn.ReLU(inplace=True)), TOKENS),
    "a CNN": (cnn, IMAGES),
    "a CNN with in-place ReLUs": (lambda: cnn(inplace=True), IMAGES),
    "a frozen first layer": (lambda: frozen(cnn(inplace=True), "0.weight", "0.bias"), IMAGES),
    "a frozen weight and a frozen bias": (lambda: frozen(cnn(), "0.weight", "2.bias"), IMAGES),
    "branches": (
        lambda: Net(
            residual,
            stem=nn.Conv2d(3, 4, 3),
            left=nn.Conv2d(4, 4, 1),
            right=nn.Conv2d(4, 4, 3, padding=1),
        ),
        IMAGES,
    ),
    "an unused branch": (
        lambda: Net(
            lambda net, x: (net.a(x), net.b(x))[0].tanh(), a=nn.Linear(6, 3), b=nn.Linear(6, 3)
        ),
        FLAT,
    ),
    "a layer twice": (
        lambda: Net(lambda net, x: net.a(net.a(x).tanh()).tanh(), a=nn.Linear(6, 6)),
        FLAT,
    ),
    "a convolution twice": (
        lambda: Net(
            lambda net, x: net.a(net.a(x).relu_()).mean((2, 3)), a=nn.Conv2d(3, 3, 3, padding=1)
        ),
        IMAGES,
    ),
    "a second use without gradient": (
        lambda: Net(lambda net, x: (net.a(x).tanh(), net.a(x.cos()))[0], a=nn.Linear(6, 3)),
        FLAT,
    ),
    "a second use that is cut off": (
        lambda: Net(lambda net, x: net.a(x).tanh() + net.a(x.cos()).detach(), a=nn.Linear(6, 3)),
        FLAT,
    ),
    "a norm twice": (
        lambda: Net(lambda net, x: net.a(x) * net.a(x.tanh()), a=nn.LayerNorm(6)),
        TOKENS,
    ),
    "self-attention": (
        lambda: Net(
            lambda net, x: net.a(x, x, x)[0].sum(1), a=nn.MultiheadAttention(6, 2, batch_first=True)
        ),
        TOKENS,
    ),
    "self-attention with the sequence first": (
        lambda: Net(
            lambda net, x: net.a(*[x.transpose(0, 1)] * 3)[0].sum(0), a=nn.MultiheadAttention(6, 2)
        ),
        TOKENS,
    ),
    "attention across": (attention, TOKENS),
    "attention without biases": (lambda: attention(bias=False), TOKENS),
    "attention with narrow keys": (
        lambda: Net(
            lambda net, x: net.a(x, x[..., :3], x[..., 2:])[0].sum(1),
            a=nn.MultiheadAttention(6, 2, kdim=3, vdim=4, batch_first=True),
        ),
        TOKENS,
    ),
    "an attention twice": (
        lambda: Net(
            lambda net, x: net.a(net.a(x, x, x)[0].tanh(), x, x)[0].sum(1),
            a=nn.MultiheadAttention(6, 2, batch_first=True),
        ),
        TOKENS,
    ),
    "a transformer": (transformer, TOKENS),
    "a transformer with norms first and GELU": (
        lambda: transformer(norm_first=True, activation="gelu"),
        TOKENS,
    ),
    "a transformer with a frozen projection": (
        lambda: frozen(transformer(), "layer.self_attn.in_proj_weight", "positions"),
        TOKENS,
    ),
}


def standardised(net: Any, x: Tensor) -> Tensor:
    """A convolution with weight standardisation."""
    W = net.w - net.w.mean((1, 2, 3), keepdim=True)
    return F.conv2d(net.norm(net.stem(x)), W / W.std((1, 2, 3), keepdim=True)).tanh().mean((2, 3))


def standard(norm: nn.Module) -> nn.Module:
    return Net(
        standardised, stem=nn.Conv2d(3, 4, 3, bias=False), norm=norm, w=P(torch.empty(3, 4, 3, 3))
    )


def recurrent(net: Any, x: Tensor) -> Tensor:
    return net.head(net.rnn(net.stem(x))[0][:, -1])


def overwritten(net: Any, x: Tensor) -> Tensor:
    h = net.a(x)
    return (h + net.p) * h.relu_()


def windows(net: Any, x: Tensor) -> Tensor:
    """Two halves of every sample become samples of their own."""
    return net.head(net.a(x.reshape(-1, 2, 6)).tanh().reshape(len(x), 2, -1)).sum(1)


def sequence_first(net: Any, x: Tensor) -> Tensor:
    return net.layer(net.stem(x).transpose(0, 1)).transpose(0, 1).sum(1)


def looked_up(net: Any, x: Tensor) -> Tensor:
    return ((x + net.table(torch.arange(x.shape[1]))) * x).tanh().sum(1)


def from_constants(net: Any, x: Tensor) -> Tensor:
    """A hypernetwork: what a layer makes of constants multiplies the samples."""
    return (x @ net.a(torch.linspace(-1, 1, 8, dtype=x.dtype).reshape(4, 2)).mT).tanh()


FALLBACKS: Cases = {
    "weight standardisation": (lambda: standard(nn.GroupNorm(2, 4)), IMAGES),
    "einsum": (
        lambda: Net(
            lambda net, x: torch.einsum("bi,oi->bo", x, net.w).tanh(), w=P(torch.empty(3, 6))
        ),
        FLAT,
    ),
    "a transposed weight": (
        lambda: Net(lambda net, x: (x @ net.w.T).tanh(), w=P(torch.empty(3, 6))),
        FLAT,
    ),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), FLAT),
    "a bilinear layer": (
        lambda: Net(lambda net, x: net.b(x, x.cos()), b=nn.Bilinear(6, 6, 3)),
        FLAT,
    ),
    "PReLU": (lambda: nn.Sequential(nn.Linear(6, 3), nn.PReLU(3)), FLAT),
    "positions added in place": (
        lambda: Net(lambda net, x: (x * 1).add_(net.p).tanh(), p=P(torch.empty(6))),
        FLAT,
    ),
    "an input overwritten later": (
        lambda: Net(overwritten, a=nn.Linear(6, 6), p=P(torch.ones(6))),
        FLAT,
    ),
    "a split weight": (
        lambda: Net(
            lambda net, x: F.linear(net.a(x), net.w.split(2)[1]),
            a=nn.Linear(6, 6),
            w=P(torch.empty(4, 6)),
        ),
        FLAT,
    ),
    "an unbound weight": (
        lambda: Net(
            lambda net, x: F.linear(net.a(x), net.w.unbind()[1]),
            a=nn.Linear(6, 6),
            w=P(torch.empty(2, 3, 6)),
        ),
        FLAT,
    ),
    "LSTM": (
        lambda: Net(
            recurrent,
            stem=nn.Linear(6, 5),
            rnn=nn.LSTM(5, 4, batch_first=True),
            head=nn.Linear(4, 3),
        ),
        TOKENS,
    ),
    "GRU": (
        lambda: Net(
            recurrent,
            stem=nn.Linear(6, 5),
            rnn=nn.GRU(5, 4, batch_first=True),
            head=nn.Linear(4, 3),
        ),
        TOKENS,
    ),
    "windows folded into the batch": (
        lambda: Net(windows, a=nn.Linear(6, 3), head=nn.Linear(6, 3)),
        TOKENS,
    ),
    "sequence first": (
        lambda: Net(
            sequence_first, stem=nn.Linear(6, 6), layer=nn.TransformerEncoderLayer(6, 2, 8)
        ),
        (4, 5, 6),
    ),
    "sequence first, as many tokens as samples": (
        lambda: Net(
            sequence_first, stem=nn.Linear(6, 6), layer=nn.TransformerEncoderLayer(6, 2, 8)
        ),
        (4, 4, 6),
    ),
    "a table of positions": (lambda: Net(looked_up, table=nn.Embedding(9, 6)), (4, 5, 6)),
    "a table of positions, as many as samples": (
        lambda: Net(looked_up, table=nn.Embedding(9, 6)),
        (4, 4, 6),
    ),
    "a layer fed by constants, as many as samples": (
        lambda: Net(from_constants, a=nn.Linear(2, 6)),
        FLAT,
    ),
}


def normed(norm: Callable[..., nn.Module] = nn.BatchNorm2d, **options: Any) -> nn.Module:
    """No bias before a norm: its gradient would be zero and rounding."""
    layers = [nn.Conv2d(3, 4, 3, 2, bias=False), norm(4, **options), nn.ReLU(inplace=True)]
    layers += [
        nn.Conv2d(4, 4, 3, groups=2, padding=1, bias=False),
        norm(4, eps=0.1, **options),
        nn.Tanh(),
    ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3)
    )


def tied_and_normed(net: Any, x: Tensor) -> Tensor:
    return net.head(net.second(net.a(net.first(net.a(x)).tanh())).tanh())


NORMED: Cases = {
    "a CNN": (normed, IMAGES),
    "without affine": (lambda: normed(affine=False), IMAGES),
    "without running statistics": (lambda: normed(track_running_stats=False), IMAGES),
    "features": (
        lambda: nn.Sequential(
            nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)
        ),
        FLAT,
    ),
    "series": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 5, 3, bias=False),
            nn.BatchNorm1d(5),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(20, 3),
        ),
        TOKENS,
    ),
    "a layer twice": (
        lambda: Net(
            tied_and_normed,
            a=nn.Linear(6, 6, bias=False),
            first=nn.BatchNorm1d(6),
            second=nn.BatchNorm1d(6),
            head=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "a frozen norm": (lambda: frozen(normed(), "1.weight", "1.bias"), IMAGES),
}
