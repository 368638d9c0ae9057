"""Measure the speed of the proxies, as ratios from one run on this machine.

    python benchmarks/proxies.py [--repeats 3] [--archs 0:18]
    python benchmarks/proxies.py --count [--archs 6:9]

1. All proxies on one probe, compared with the sum of each alone on a fresh probe. Same networks, same 256 images.
2. The tangent kernel of 64 samples (`trace` and `ntk_condition`), compared with a loop of one backward pass per sample:
   through the graph of the whole batch, as TE-NAS does, and of one sample at a time with constant statistics of batch
   norm, the cheapest loop possible. The latter is the kernel of `reading=fixed`; the run checks it in float64.
3. Peak memory of a process that computes the kernel of 64 samples for the network of 1.5 million parameters.

Building the networks is not timed. The results are medians over architectures; for each, the best of `repeats` times
counts.

`--count` counts instead of timing: multiply-adds of convolutions and matrix products, forward and backward, of every
proxy alone and of what it adds after the others, in units of a forward pass of 64 images. The counts have no noise, but
ignore operations that only move memory.
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
from dextr import CELLS, format_official_string, measure_best_seconds  # the script beside this one
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import PROXIES, load_proxy
from untrained.spaces import load_space
from untrained.types import Batch

# dss is for transformers only.
NAMES = [name for name, p in PROXIES.items() if not p.parts and name != "dss"]
KERNEL = ("trace", "ntk_condition")


def main() -> None:
    options = parse_options()
    if options.memory:
        print(measure_peak_memory())
        return
    start, _, stop = options.archs.partition(":")
    cells = CELLS[int(start) : int(stop)]
    if options.count:
        for cell in cells:
            print_counts(cell)
        return
    rows = []
    for cell in cells:
        row = measure_kernel(build_network(cell), options.repeats)
        row |= compare_alone_and_together(build_network(cell), options.repeats)
        rows.append(row)
        print(cell, {key: round(value, 3) for key, value in row.items()}, flush=True)
    print(f"{len(rows)} NAS-Bench-201 networks, {os.cpu_count()} cores ({platform.machine()}), "
          f"torch {torch.__version__}, {torch.get_num_threads()} threads")  # fmt: skip
    for title, slow, fast in (
        (f"{len(NAMES)} proxies one by one / together", "alone", "together"),
        (
            "kernel, one backward per sample through the batch / ours",
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


def build_network(cell: str) -> nn.Module:
    space = load_space("nasbench201")
    torch.manual_seed(0)
    return space.build(space.parse(format_official_string(cell)))


def make_images(samples: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    return Batch(
        torch.randn(samples, 3, 32, 32, generator=draw),
        torch.randint(10, (samples,), generator=draw),
    )


def compare_alone_and_together(model: nn.Module, repeats: int) -> dict[str, float]:
    batch = make_images(256)

    def time_fresh_probe(names: list[str]) -> float:
        return measure_best_seconds(lambda: score_proxies(names, Probe(model, batch)), repeats)

    return {
        "alone": sum(time_fresh_probe([name]) for name in NAMES),
        "together": time_fresh_probe(NAMES),
    }


def score_proxies(names: list[str], probe: Probe) -> None:
    for name in names:
        with suppress(Unscorable):  # a failure is a valid result too
            load_proxy(name)(probe)


class MultiplyAddCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts multiply-adds with torch's formulas, corrected for gradients of grouped weights.

    Torch's formula for the gradient of a grouped weight ignores the groups.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=out)
            is_backward = func is torch.ops.aten.convolution_backward.default
            is_weight_gradient = is_backward and args[-1] == [False, True, False]
            groups = args[-2] if is_weight_gradient else 1
            self.total += flops // (2 * groups)
        return out


def count_multiply_adds(function: Callable[[], object]) -> int:
    with MultiplyAddCounter() as counter:
        function()
    return int(counter.total)


def print_counts(cell: str) -> None:
    model = build_network(cell)
    batch = make_images(256)
    unit = count_multiply_adds(lambda: Probe(model, make_images(64)).outputs)
    probe = Probe(model, batch)
    rows = list[tuple[str, float, float]]()
    for name in NAMES:
        alone_count = count_multiply_adds(partial(score_proxies, [name], Probe(model, batch)))
        added_count = count_multiply_adds(partial(score_proxies, [name], probe))
        rows.append((name, alone_count / unit, added_count / unit))
    rows.append(("all", sum(alone for _, alone, _ in rows), sum(added for _, _, added in rows)))
    print(
        f"{cell}: {unit / 1e9:.2f}e9 multiply-adds per forward pass, ratio {rows[-1][1] / rows[-1][2]:.2f}"
    )
    for name, alone, added in rows:
        print(f"{name:<20} {alone:8.2f} {added:8.2f}", flush=True)


def measure_kernel(model: nn.Module, repeats: int) -> dict[str, float]:
    check_kernel(deepcopy(model).double(), make_images(8))
    batch = make_images(64)
    return {
        "kernel": measure_best_seconds(
            lambda: score_proxies(list(KERNEL), Probe(model, batch)), repeats
        ),
        "fixed kernel": measure_best_seconds(
            lambda: Probe(model, batch).kernel("label", "layers", "fixed"), repeats
        ),
        "loop through the batch": measure_best_seconds(
            lambda: compute_kernel_through_batch(model, batch), 1
        ),
        "loop of samples": measure_best_seconds(
            lambda: compute_kernel_by_sample(model, batch), repeats
        ),
    }


def check_kernel(model: nn.Module, batch: Batch) -> None:
    """Check that our kernel equals that of the loop, in float64, where rounding flips no ReLU."""
    double = Batch(batch.inputs.double(), batch.targets)
    K = Probe(model, double).kernel("label", "layers", "fixed").gram()
    torch.testing.assert_close(
        K, compute_kernel_by_sample(model, double), rtol=1e-8, atol=1e-8 * float(K.diag().mean())
    )


def list_layer_parameters(model: nn.Module) -> list[nn.Parameter]:
    parameters: list[nn.Parameter] = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            parameters += module.parameters()
    return parameters


def compute_kernel_through_batch(model: nn.Module, batch: Batch) -> Tensor:
    """Compute Jacobian rows of the whole batch with one backward pass each."""
    parameters = list_layer_parameters(model)
    out = model.train()(batch.inputs).gather(1, batch.targets[:, None])[:, 0]
    return compute_gram(
        [torch.autograd.grad(one, parameters, retain_graph=True, allow_unused=True) for one in out]
    )


def compute_kernel_by_sample(model: nn.Module, batch: Batch) -> Tensor:
    """Compute each sample alone, with batch norms in evaluation mode and statistics of the batch."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    handles = [norm.register_forward_pre_hook(set_batch_statistics) for norm in norms]
    with torch.no_grad():
        model.train()(batch.inputs)
    for handle in handles:
        handle.remove()
    model.eval()
    rows = []
    for x, y in zip(batch.inputs, batch.targets, strict=True):
        rows.append(
            torch.autograd.grad(
                model(x[None])[0, y], list_layer_parameters(model), allow_unused=True
            )
        )
    model.train()
    return compute_gram(rows)


def set_batch_statistics(norm: nn.BatchNorm2d, args: tuple[Tensor]) -> None:
    """Set the running statistics to those of this batch."""
    norm.momentum = 0.0
    variance, mean = torch.var_mean(args[0], (0, 2, 3), unbiased=False)
    norm.running_mean = mean
    norm.running_var = variance


def compute_gram(rows: Sequence[tuple[Tensor | None, ...]]) -> Tensor:
    G = torch.stack(
        [torch.cat([g.flatten() for g in row if g is not None]) for row in rows]
    ).double()
    return G @ G.mT


def measure_peak_memory() -> float:
    """Return the peak memory in MiB, from /proc if possible: getrusage of a child includes memory of its parent."""
    score_proxies(list(KERNEL), Probe(build_network("333333"), make_images(64)))
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--archs", default=f"0:{len(CELLS)}", help="architectures to measure, from:to"
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
