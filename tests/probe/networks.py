"""Networks for per-sample gradients, each with the shape of a batch.

`NETWORKS` have rules for all their functions, `FALLBACKS` have functions without a rule, `NORMED` have batch norm.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import Net

P = nn.Parameter
Cases = dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]
IMAGES = (4, 3, 7, 7)
TOKENS = (4, 4, 6)
FLAT = (4, 6)


def freeze(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def run_residual(net: Any, x: Tensor) -> Tensor:
    x = net.stem(x)
    return (net.left(x).tanh() + net.right(x) * x).mean((2, 3))


def make_transformer(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.3, batch_first=True, **options)
    token = P(torch.empty(1, 1, 6))
    positions = P(torch.empty(1, 5, 6))

    def run(net: Any, x: Tensor) -> Tensor:
        tokens = torch.cat([net.token.expand(len(x), -1, -1), x], 1) + net.positions
        return net.head(net.norm(net.layer(tokens))[:, 0])

    return Net(
        run,
        token=token,
        positions=positions,
        layer=layer,
        norm=nn.LayerNorm(6),
        head=nn.Linear(6, 3),
    )


def make_attention(**options: Any) -> nn.Module:
    """Make an attention layer whose query, key and value differ."""
    net = nn.MultiheadAttention(6, 2, 0.3, batch_first=True, **options)
    return Net(
        lambda net, x: net.a(net.q(x), x.tanh(), x.cos())[0].sum(1), a=net, q=nn.Linear(6, 6)
    )


def make_cnn(**options: Any) -> nn.Module:
    layers = [
        nn.Conv2d(3, 4, 3, 2),
        nn.ReLU(**options),
        nn.Conv2d(4, 4, 3, groups=2, padding=1),
        nn.ReLU(**options),
    ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3)
    )


def make_token_network(activation: nn.Module) -> nn.Module:
    """Make linear layers on three axes; they return views, which an activation may overwrite."""
    return nn.Sequential(
        nn.Linear(6, 6), nn.Linear(6, 5), activation, nn.Flatten(), nn.Linear(20, 3)
    )


NETWORKS: Cases = {
    "tokens": (lambda: make_token_network(nn.ReLU()), TOKENS),
    "tokens overwritten in place": (lambda: make_token_network(nn.ReLU(inplace=True)), TOKENS),
    "a CNN": (make_cnn, IMAGES),
    "a CNN with in-place ReLUs": (lambda: make_cnn(inplace=True), IMAGES),
    "a frozen first layer": (lambda: freeze(make_cnn(inplace=True), "0.weight", "0.bias"), IMAGES),
    "a frozen weight and a frozen bias": (lambda: freeze(make_cnn(), "0.weight", "2.bias"), IMAGES),
    "branches": (
        lambda: Net(
            run_residual,
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
    "attention across": (make_attention, TOKENS),
    "attention without biases": (lambda: make_attention(bias=False), TOKENS),
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
    "a transformer": (make_transformer, TOKENS),
    "a transformer with norms first and GELU": (
        lambda: make_transformer(norm_first=True, activation="gelu"),
        TOKENS,
    ),
    "a transformer with a frozen projection": (
        lambda: freeze(make_transformer(), "layer.self_attn.in_proj_weight", "positions"),
        TOKENS,
    ),
}


def run_standardised(net: Any, x: Tensor) -> Tensor:
    """A convolution with weight standardisation."""
    W = net.w - net.w.mean((1, 2, 3), keepdim=True)
    return F.conv2d(net.norm(net.stem(x)), W / W.std((1, 2, 3), keepdim=True)).tanh().mean((2, 3))


def make_standardised(norm: nn.Module) -> nn.Module:
    return Net(
        run_standardised,
        stem=nn.Conv2d(3, 4, 3, bias=False),
        norm=norm,
        w=P(torch.empty(3, 4, 3, 3)),
    )


def run_recurrent(net: Any, x: Tensor) -> Tensor:
    return net.head(net.rnn(net.stem(x))[0][:, -1])


def run_overwritten(net: Any, x: Tensor) -> Tensor:
    h = net.a(x)
    return (h + net.p) * h.relu_()


def run_windows(net: Any, x: Tensor) -> Tensor:
    """Treat the two halves of every sample as separate samples."""
    return net.head(net.a(x.reshape(-1, 2, 6)).tanh().reshape(len(x), 2, -1)).sum(1)


def run_sequence_first(net: Any, x: Tensor) -> Tensor:
    return net.layer(net.stem(x).transpose(0, 1)).transpose(0, 1).sum(1)


def run_looked_up(net: Any, x: Tensor) -> Tensor:
    return ((x + net.table(torch.arange(x.shape[1]))) * x).tanh().sum(1)


def run_from_constants(net: Any, x: Tensor) -> Tensor:
    """A hypernetwork: the samples are multiplied by the output of a layer for constants."""
    return (x @ net.a(torch.linspace(-1, 1, 8, dtype=x.dtype).reshape(4, 2)).mT).tanh()


FALLBACKS: Cases = {
    "weight standardisation": (lambda: make_standardised(nn.GroupNorm(2, 4)), IMAGES),
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
        lambda: Net(run_overwritten, a=nn.Linear(6, 6), p=P(torch.ones(6))),
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
            run_recurrent,
            stem=nn.Linear(6, 5),
            rnn=nn.LSTM(5, 4, batch_first=True),
            head=nn.Linear(4, 3),
        ),
        TOKENS,
    ),
    "GRU": (
        lambda: Net(
            run_recurrent,
            stem=nn.Linear(6, 5),
            rnn=nn.GRU(5, 4, batch_first=True),
            head=nn.Linear(4, 3),
        ),
        TOKENS,
    ),
    "windows folded into the batch": (
        lambda: Net(run_windows, a=nn.Linear(6, 3), head=nn.Linear(6, 3)),
        TOKENS,
    ),
    "sequence first": (
        lambda: Net(
            run_sequence_first, stem=nn.Linear(6, 6), layer=nn.TransformerEncoderLayer(6, 2, 8)
        ),
        (4, 5, 6),
    ),
    "sequence first, as many tokens as samples": (
        lambda: Net(
            run_sequence_first, stem=nn.Linear(6, 6), layer=nn.TransformerEncoderLayer(6, 2, 8)
        ),
        (4, 4, 6),
    ),
    "a table of positions": (lambda: Net(run_looked_up, table=nn.Embedding(9, 6)), (4, 5, 6)),
    "a table of positions, as many as samples": (
        lambda: Net(run_looked_up, table=nn.Embedding(9, 6)),
        (4, 4, 6),
    ),
    "a layer fed by constants, as many as samples": (
        lambda: Net(run_from_constants, a=nn.Linear(2, 6)),
        FLAT,
    ),
}


def make_normed(norm: Callable[..., nn.Module] = nn.BatchNorm2d, **options: Any) -> nn.Module:
    """Make a CNN with norms. There is no bias before a norm, because its gradient would be only rounding error."""
    layers = [nn.Conv2d(3, 4, 3, 2, bias=False), norm(4, **options), nn.ReLU(inplace=True)]
    layers += [
        nn.Conv2d(4, 4, 3, groups=2, padding=1, bias=False),
        norm(4, eps=0.1, **options),
        nn.Tanh(),
    ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3)
    )


def run_tied_and_normed(net: Any, x: Tensor) -> Tensor:
    return net.head(net.second(net.a(net.first(net.a(x)).tanh())).tanh())


NORMED: Cases = {
    "a CNN": (make_normed, IMAGES),
    "without affine": (lambda: make_normed(affine=False), IMAGES),
    "without running statistics": (lambda: make_normed(track_running_stats=False), IMAGES),
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
            run_tied_and_normed,
            a=nn.Linear(6, 6, bias=False),
            first=nn.BatchNorm1d(6),
            second=nn.BatchNorm1d(6),
            head=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "a frozen norm": (lambda: freeze(make_normed(), "1.weight", "1.bias"), IMAGES),
}
