"""Networks for the tests of exports: one per space, some as users write them, some to refuse."""

import re
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.seeds import make_generator
from untrained.spaces import load_space

# Spaces that together have every operation of the package's networks for pictures, with the input
# shape of the tests.
SPACES = {
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
    "convnet": (3, 16, 16),
    "vit": (3, 16, 16),
    "mnasnet": (3, 64, 64),
    "mobilenetv2": (3, 32, 32),
    "zen_resnet": (3, 16, 16),
    "mlp": (1, 8, 8),
}
CLASSES = 5


def build_from_space(name: str) -> nn.Module:
    """Build a random architecture of a space."""
    space = load_space(name)
    torch.manual_seed(0)
    return space.build(
        space.sample(make_generator("exports", name)),
        replace(space.task, input_shape=SPACES[name], num_classes=CLASSES),
    )


def make_input_function(shape: tuple[int, ...]) -> Callable[[int], Tensor]:
    """Return a function that makes random batches. A small batch is not the start of a large one."""
    return lambda samples: torch.randn(
        samples, *shape, generator=torch.Generator().manual_seed(samples)
    )


BLOCK_UNTRAINED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "untrained":
            raise ImportError("untrained is not installed")
sys.meta_path.insert(0, Blocker())
"""


def run_without_untrained(
    code: str, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that ignores PYTHONPATH and cannot import `untrained`."""
    command = [sys.executable, "-I", "-c", BLOCK_UNTRAINED + code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def run_onnx_snippet(folder: Path, picture: np.ndarray) -> list[str]:
    """Run the program for ONNX Runtime in the README of an export and return what it prints."""
    readme = (folder / "README.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (snippet,) = [text for text in snippets if "onnxruntime" in text]
    np.save(folder.parent / "picture.npy", picture)
    shape = ", ".join(map(str, picture.shape))
    placeholder = f"np.zeros(({shape}), np.uint8)"
    assert placeholder in snippet
    snippet = snippet.replace(placeholder, "np.load('../picture.npy')")
    # Nothing but numpy and ONNX Runtime may be used.
    blocked = "sys.modules.update(dict.fromkeys(['torch', 'PIL', 'safetensors']))\n"
    done = run_without_untrained(f"{blocked}{snippet}", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# --------------------------------------------------------------------- networks as users write them


class Block(nn.Module):
    """A residual block with an in-place sum."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
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


class TiedWeights(nn.Module):
    """A layer with two names, a shared weight, a constant, a buffer that is not saved, a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(12, 12)
        self.b = nn.Linear(12, 12)
        self.b.weight = self.a.weight
        self.c = self.a
        self.gain = nn.Parameter(torch.tensor(0.5))
        self.const = torch.full((12,), 2.0)
        self.register_buffer("scale", torch.arange(12.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x.flatten(1)[:, :12])
        x = self.c(self.b(x * self.scale + self.const))
        return (x * self.gain)[:, :CLASSES]


class Attention(nn.Module):
    """Computes with shapes, including the batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(12, 3, batch_first=True)
        self.inner = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        self.token = nn.Parameter(torch.zeros(1, 1, 12))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        B = len(x)
        x = torch.cat([self.token.expand(B, -1, -1), x.reshape(B, -1, 12)], 1)
        y, _ = self.mha(x, x, x, need_weights=False)
        q, k = self.inner(y).chunk(2, dim=-1)
        return self.head(torch.cat((q, k), -1).view(B * y.shape[1], 12).reshape(B, -1, 12)[:, 0])


class TokenNetwork(nn.Module):
    """Reads the batch size with `len`."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.ones(1, 2))
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.token.expand(len(x), -1), x], 1))


class Join(nn.Module):
    def forward(
        self, terms: list[Tensor], *, scale: float = 1.0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return sum(terms) * scale, {"first": terms[0]}


class ManyKinds(nn.Module):
    """Dictionaries and lists of layers and tensors, writes into a tensor, unused parts, operators."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a b": nn.Conv2d(3, 4, 1), "1": nn.Conv2d(3, 4, 3, padding=1)})
        self.many = nn.ModuleList([nn.Linear(4, 4), nn.Linear(9, 9), nn.Linear(4, CLASSES)])
        self.join = Join()
        self.mix = nn.ParameterList([torch.eye(4), torch.ones(4)])
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, more = self.join([self.parts["a b"](x), self.parts["1"](x)], scale=0.5)
        best, _ = y.flatten(2).max(-1)
        y[:, 0] = 1.0
        best = best + torch.arange(4, device=x.device, dtype=best.dtype) @ self.mix[0] * self.mix[1]
        z = (
            torch.where(best > 0, best, -best)
            + (1 - y.mean((2, 3))) ** 2 / 3
            + more["first"].amax((2, 3))
        )
        return self.many[2](self.many[0](z))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 4, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x.reshape(len(x), -1, 12))
        return self.head(states[:, -1])


class RepeatedBlock(nn.Module):
    """Calls one block three times."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block(3, 3)
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.block(x)
        return self.head(x.mean((2, 3)))


def make_chain() -> nn.Module:
    """Use one activation twice in a sequence, and a weight that is computed."""
    act = nn.PReLU()
    last = nn.utils.parametrizations.weight_norm(nn.Linear(6, CLASSES))
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 6), act, nn.Linear(6, 6), act, last)


USER_NETWORKS = (ResNet, TiedWeights, Attention, ManyKinds, Recurrent, RepeatedBlock, make_chain)

# --------------------------------------------------------------------- networks without plain source


class ReadsValues(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


class UsesGlobal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) + _GLOBAL


class SquaresBatchSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) / len(x) ** 2


class BranchesOnBatchSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if len(x) < 3 else x.mean((2, 3)).relu()


class CallsCounterTwice(nn.Module):
    """Calls a block that multiplies by another number every time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Counter()
        self.times = 3

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x)).mean((2, 3))


class Counter(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


_GLOBAL = torch.ones(3)
REFUSED_NETWORKS = {
    ReadsValues: "reads the values of tensors (torch.Tensor.__bool__)",
    UsesGlobal: "uses a tensor that is neither an input nor a weight of it",
    SquaresBatchSize: "contains a number that is not a multiple of the batch size: 4 for 2 and 9 for 3",
    BranchesOnBatchSize: "takes different branches for different batch sizes",
    CallsCounterTwice: "Counter.forward behaves differently when it is called again",
}
