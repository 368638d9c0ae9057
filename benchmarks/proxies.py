"""Speed of the proxies, as ratios from one run on this machine.

    python benchmarks/proxies.py [--repeats 3] [--archs 0:18]
    python benchmarks/proxies.py --count [--archs 6:9]

1. All proxies on one probe against the sum of each alone on a fresh probe. Same networks, same 256 images.
2. The tangent kernel of 64 samples (`trace` and `ntk_condition`) against a loop of one backward a sample: through the
   graph of the whole batch, as TE-NAS does, and of one sample at a time with the statistics of batch norm held
   constant, the cheapest loop there is. That one is the kernel of `reading=fixed`; the run checks it in float64.
3. Peak memory of a process that computes the kernel of 64 samples for the network of 1.5 million parameters.

Building is left out. Medians over architectures; of each, the best of `repeats`.

`--count` counts instead of timing: multiply-adds of convolutions and matrix products, forward and backward, of every
proxy alone and of what it adds when all are asked in turn, in forward passes of 64 images. No noise, but blind to what
only moves memory.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from dextr import CELLS, best, official  # the script beside this one
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import PROXIES, load_proxy
from untrained.spaces import load_space
from untrained.types import Batch

NAMES = [
    name for name, p in PROXIES.items() if not p.parts and name != "dss"
]  # dss is for transformers
KERNEL = ("trace", "ntk_condition")


def main() -> None:
    options = arguments()
    if options.memory:
        print(peak())
        return
    start, _, stop = options.archs.partition(":")
    cells = CELLS[int(start) : int(stop)]
    if options.count:
        for cell in cells:
            count(cell)
        return
    rows = []
    for cell in cells:
        row = kernel(network(cell), options.repeats) | together(network(cell), options.repeats)
        rows.append(row)
        print(cell, {key: round(value, 3) for key, value in row.items()}, flush=True)
    print(f"{len(rows)} NAS-Bench-201 networks, {os.cpu_count()} cores ({platform.machine()}), "
          f"torch {torch.__version__}, {torch.get_num_threads()} threads")  # fmt: skip
    for title, slow, fast in (
        (f"{len(NAMES)} proxies one by one / together", "alone", "together"),
        (
            "kernel, one backward a sample through the batch / ours",
            "loop through the batch",
            "kernel",
        ),
        ("kernel, one sample at a time / ours", "loop of samples", "fixed kernel"),
    ):
        ratios = sorted(row[slow] / row[fast] for row in rows)
        print(f"{title:<60} {median(ratios):6.1f}   ({ratios[0]:.1f} to {ratios[-1]:.1f})")
    memory = subprocess.run(
        [sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True
    )
    print(f"peak memory, kernel of 64 samples, 1.5 M parameters: {float(memory.stdout):.0f} MiB")


def network(cell: str) -> nn.Module:
    space = load_space("nasbench201")
    torch.manual_seed(0)
    return space.build(space.parse(official(cell)))


def images(samples: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    return Batch(
        torch.randn(samples, 3, 32, 32, generator=draw),
        torch.randint(10, (samples,), generator=draw),
    )


def together(model: nn.Module, repeats: int) -> dict[str, float]:
    batch = images(256)

    def fresh(names: list[str]) -> float:
        return best(lambda: ask(names, Probe(model, batch)), repeats)

    return {"alone": sum(fresh([name]) for name in NAMES), "together": fresh(NAMES)}


def ask(names: list[str], probe: Probe) -> None:
    for name in names:
        with suppress(Unscorable):  # a reason is an answer too
            load_proxy(name)(probe)


class Work(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiply-adds of all that runs inside, by torch's formulas; of the gradient of a grouped weight they forget that
    groups do not meet."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            lone = func is torch.ops.aten.convolution_backward.default and args[-1] == [
                False,
                True,
                False,
            ]
            self.total += formula(*args, **(kwargs or {}), out_val=out) // (
                2 * args[-2] if lone else 2
            )
        return out


def work(does: Callable[[], object]) -> int:
    with Work() as counted:
        does()
    return int(counted.total)


def count(cell: str) -> None:
    model, batch = network(cell), images(256)
    unit = work(lambda: Probe(model, images(64)).outputs)
    probe, rows = Probe(model, batch), list[tuple[str, float, float]]()
    for name in NAMES:
        by_itself, beside = (
            work(partial(ask, [name], asked)) for asked in (Probe(model, batch), probe)
        )
        rows.append((name, by_itself / unit, beside / unit))
    rows.append(("all", sum(alone for _, alone, _ in rows), sum(added for _, _, added in rows)))
    print(
        f"{cell}: {unit / 1e9:.2f}e9 multiply-adds a forward pass, ratio {rows[-1][1] / rows[-1][2]:.2f}"
    )
    for name, alone, added in rows:
        print(f"{name:<20} {alone:8.2f} {added:8.2f}", flush=True)


def kernel(model: nn.Module, repeats: int) -> dict[str, float]:
    check(deepcopy(model).double(), images(8))
    batch = images(64)
    return {
        "kernel": best(lambda: ask(list(KERNEL), Probe(model, batch)), repeats),
        "fixed kernel": best(
            lambda: Probe(model, batch).kernel("label", "layers", "fixed"), repeats
        ),
        "loop through the batch": best(lambda: through_the_batch(model, batch), 1),
        "loop of samples": best(lambda: one_by_one(model, batch), repeats),
    }


def check(model: nn.Module, batch: Batch) -> None:
    """Ours is the loop's kernel: in float64, where no ReLU falls on the other side by a rounding."""
    double = Batch(batch.inputs.double(), batch.targets)
    K = Probe(model, double).kernel("label", "layers", "fixed").gram()
    torch.testing.assert_close(
        K, one_by_one(model, double), rtol=1e-8, atol=1e-8 * float(K.diag().mean())
    )


def layers(model: nn.Module) -> list[nn.Parameter]:
    return [
        p for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear) for p in m.parameters()
    ]


def through_the_batch(model: nn.Module, batch: Batch) -> Tensor:
    """Jacobian rows of the batch function, one backward each."""
    chosen = layers(model)
    out = model.train()(batch.inputs).gather(1, batch.targets[:, None])[:, 0]
    return gram(
        [torch.autograd.grad(one, chosen, retain_graph=True, allow_unused=True) for one in out]
    )


def one_by_one(model: nn.Module, batch: Batch) -> Tensor:
    """Each sample alone, batch norms in evaluation mode with the statistics of the batch."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    handles = [norm.register_forward_pre_hook(remember) for norm in norms]
    with torch.no_grad():
        model.train()(batch.inputs)
    for handle in handles:
        handle.remove()
    model.eval()
    rows = []
    for x, y in zip(batch.inputs, batch.targets, strict=True):
        rows.append(torch.autograd.grad(model(x[None])[0, y], layers(model), allow_unused=True))
    model.train()
    return gram(rows)


def remember(norm: nn.BatchNorm2d, args: tuple[Tensor]) -> None:
    """Make the running statistics those of this batch."""
    norm.momentum = 0.0
    variance, mean = torch.var_mean(args[0], (0, 2, 3), unbiased=False)
    norm.running_mean, norm.running_var = mean, variance


def gram(rows: Sequence[tuple[Tensor | None, ...]]) -> Tensor:
    G = torch.stack(
        [torch.cat([g.flatten() for g in row if g is not None]) for row in rows]
    ).double()
    return G @ G.mT


def peak() -> float:
    """Where Linux tells, by /proc: what getrusage says of a child holds what its parent had when it forked."""
    ask(list(KERNEL), Probe(network("333333"), images(64)))
    status = Path("/proc/self/status")
    if status.exists():
        return (
            int(
                next(
                    line for line in status.read_text().splitlines() if line.startswith("VmHWM")
                ).split()[1]
            )
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--archs", default=f"0:{len(CELLS)}", help="which of the architectures, from:to"
    )
    parser.add_argument(
        "--count", action="store_true", help="count multiply-adds instead of timing"
    )
    parser.add_argument(
        "--memory", action="store_true", help="only print this process's peak, in MiB"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
