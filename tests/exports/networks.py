"""One small architecture of every space, networks as users write them, and a Python in which `untrained` is not."""

import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.rng import generator
from untrained.spaces import load_space

SPACES = {  # one of every file in spaces/, with what it reads here
    "nasbench201(channels=4,cells=1)": (3, 8, 8),
    "nasbench101(channels=8,cells=1)": (3, 8, 8),
    "nasbench1shot1_s1(channels=8,cells=1)": (3, 8, 8),
    "nats_size": (3, 8, 8),
    "darts(channels=4,cells=4)": (3, 8, 8),
    "darts(channels=4,cells=4,auxiliary=True,drop_path=0.2)": (3, 8, 8),
    "darts_nasi(channels=4,cells=3)": (3, 8, 8),
    "transnas_micro": (3, 32, 32),
    "transnas_macro": (3, 32, 32),
    "autoformer_tiny(patch=8)": (3, 16, 16),
    "mobilenetv2": (3, 32, 32),
    "zen_resnet": (3, 16, 16),
    "mlp": (1, 8, 8),
}
CLASSES = 5


def of_space(name: str) -> nn.Module:
    space = load_space(name)
    torch.manual_seed(0)
    return space.build(
        space.sample(generator("exports", name)), replace(space.task, input_shape=SPACES[name], num_classes=CLASSES)
    )


def reading(shape: tuple[int, ...]) -> Callable[[int], Tensor]:
    """Random samples of a shape; a few are not the first of many."""
    return lambda samples: torch.randn(samples, *shape, generator=torch.Generator().manual_seed(samples))


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "untrained":
            raise ImportError("untrained is not here")
sys.meta_path.insert(0, Blocker())
"""


def elsewhere(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in another folder, in a Python that reads no PYTHONPATH and cannot import `untrained`."""
    command = [sys.executable, "-I", "-c", BLOCKED + code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


# -------------------------------------------------------------------------------------------------- as users write them


class Block(nn.Module):
    """A residual block. With an in-place sum."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.relu, self.conv2 = nn.ReLU(inplace=True), nn.Conv2d(cout, cout, 3, padding=1)
        narrow = OrderedDict(conv=nn.Conv2d(cin, cout, 1, stride), norm=nn.BatchNorm2d(cout))
        self.down = nn.Sequential(narrow) if cin != cout else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.relu(self.norm(self.conv1(x))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Block(3, 4), Block(4, 4), Block(4, 8, 2), Block(8, 8))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.dropout(self.layers(x), 0.2, training=self.training).mean([2, 3]))


class Tied(nn.Module):
    """Two names for one layer, one weight in two layers, a constant, a buffer that is not saved, a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(12, 12), nn.Linear(12, 12)
        self.b.weight, self.c = self.a.weight, self.a
        self.gain, self.const = nn.Parameter(torch.tensor(0.5)), torch.full((12,), 2.0)
        self.register_buffer("scale", torch.arange(12.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (self.c(self.b(self.a(x.flatten(1)[:, :12]) * self.scale + self.const)) * self.gain)[:, :CLASSES]


class Attention(nn.Module):
    """Shapes are computed with, also the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(12, 3, batch_first=True)
        self.inner = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        self.token, self.head = nn.Parameter(torch.zeros(1, 1, 12)), nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        B = len(x)
        x = torch.cat([self.token.expand(B, -1, -1), x.reshape(B, -1, 12)], 1)
        y, _ = self.mha(x, x, x, need_weights=False)
        q, k = self.inner(y).chunk(2, dim=-1)
        return self.head(torch.cat((q, k), -1).view(B * y.shape[1], 12).reshape(B, -1, 12)[:, 0])


class Token(nn.Module):
    """The number of samples, as Python tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.head = nn.Parameter(torch.ones(1, 2)), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.token.expand(len(x), -1), x], 1))


class Join(nn.Module):
    def forward(self, terms: list[Tensor], *, scale: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
        return sum(terms) * scale, {"first": terms[0]}


class Odds(nn.Module):
    """Dictionaries of layers, lists and dictionaries of tensors, writing into a tensor, unused parts, operators."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a b": nn.Conv2d(3, 4, 1), "1": nn.Conv2d(3, 4, 3, padding=1)})
        self.many = nn.ModuleList([nn.Linear(4, 4), nn.Linear(9, 9), nn.Linear(4, CLASSES)])
        self.join, self.mix = Join(), nn.ParameterList([torch.eye(4), torch.ones(4)])
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, more = self.join([self.parts["a b"](x), self.parts["1"](x)], scale=0.5)
        best, _ = y.flatten(2).max(-1)
        y[:, 0] = 1.0
        best = best + torch.arange(4, device=x.device, dtype=best.dtype) @ self.mix[0] * self.mix[1]
        z = torch.where(best > 0, best, -best) + (1 - y.mean((2, 3))) ** 2 / 3 + more["first"].amax((2, 3))
        return self.many[2](self.many[0](z))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(12, 4, batch_first=True, bidirectional=True), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x.reshape(len(x), -1, 12))
        return self.head(states[:, -1])


class Again(nn.Module):
    """One block three times."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Block(3, 3), nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.block(x)
        return self.head(x.mean((2, 3)))


def chain() -> nn.Module:
    """One activation in two places of a sequence, and a weight that is computed."""
    act = nn.PReLU()
    last = nn.utils.parametrizations.weight_norm(nn.Linear(6, CLASSES))
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 6), act, nn.Linear(6, 6), act, last)


OWN = (ResNet, Tied, Attention, Odds, Recurrent, Again, chain)

# ----------------------------------------------------------------------------------------------- what cannot be written


class Looks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


class Takes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) + _GLOBAL


class Counts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) / len(x) ** 2


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if len(x) < 3 else x.mean((2, 3)).relu()


class Changes(nn.Module):
    """Another number every time it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.times = Counter(), 3

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x)).mean((2, 3))


class Counter(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


_GLOBAL = torch.ones(3)
REFUSED = {
    Looks: "looks at the values of tensors (torch.Tensor.__bool__)",
    Takes: "uses a tensor that is neither given to it nor one of its weights",
    Counts: "computes with the number of samples: 4 for 2 and 9 for 3",
    Branches: "takes another way for another number of samples",
    Changes: "Counter.forward does something else when it is called again",
}
