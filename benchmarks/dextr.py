"""Compare the speed of our implementation of Dextr with that of the textbook, as ratios from one run on this machine.

    python benchmarks/dextr.py [--repeats 3] [--archs 20]

The textbook implementation is that of the authors: curvature by double backward of ten output coordinates, condition
numbers by one SVD per module, containers included. Both use the same networks, one 32x32 image and a 64x64 circle.
Building the networks is not timed. The ratios are medians over architectures; for each, the best of `repeats` times
counts.
"""

import argparse
import os
import platform
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from torch import Tensor, nn

from untrained.probe import Probe
from untrained.probe.circle import measure_by_taylor_mode
from untrained.proxies import load_proxy
from untrained.spaces import load_space
from untrained.types import Batch

SIDE = 64
# Cells of every kind: all of one operation, single edges, dead ends, and mixtures. Digits index the operations none,
# skip_connect, nor_conv_1x1, nor_conv_3x3, avg_pool_3x3 on the six edges in the order of the official string. These are
# the connected ones of the twenty architectures that the tests compare with the authors' code.
CELLS = """
111111 222222 333333 000100 000300 000400 404004 333133 310302 111112 241023 203340 441334 214010 432431 214221 413333
041222
""".split()


def main() -> None:
    options = parse_options()
    space = load_space("nasbench201")
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = []
    for cell in CELLS[: options.archs]:
        arch = space.parse(format_official_string(cell))
        torch.manual_seed(0)
        rows.append(measure_seconds(space.build(arch), image, options.repeats))
    threads = torch.get_num_threads()
    print(
        f"{len(rows)} NAS-Bench-201 networks, {os.cpu_count()} cores ({platform.machine()}), {threads} threads"
    )
    for name, numerator, denominator in (
        ("curvature / forward of the same batch of three", "jet", "three"),
        ("textbook curvature / ours", "textbook curvature", "jet"),
        ("textbook condition numbers / ours", "textbook conditions", "conditions"),
        ("textbook Dextr / ours", "textbook", "whole"),
    ):
        ratios = sorted(row[numerator] / row[denominator] for row in rows)
        print(f"{name:<50} {median(ratios):6.1f}   ({ratios[0]:.1f} to {ratios[-1]:.1f})")
    medians = []
    for key in rows[0]:
        milliseconds = 1e3 * median(row[key] for row in rows)
        medians.append(f"{key} {milliseconds:.0f}")
    print("milliseconds:", ", ".join(medians))


def measure_seconds(model: nn.Module, image: Tensor, repeats: int) -> dict[str, float]:
    """Return the seconds of every part of Dextr, ours and that of the textbook, for one network."""
    batch = Batch(image, torch.zeros(1, dtype=torch.long))
    u1, u2 = Probe(model, batch).plane((3, SIDE, SIDE))
    three = torch.cat([u1, u2, -u1])
    dextr = load_proxy("dextr")
    conditions = load_proxy("dextr_conditions")

    def forward_of_three() -> None:
        with torch.no_grad(), Probe(model, batch).scoring_mode():
            model(three)

    seconds = {
        "three": measure_best_seconds(forward_of_three, repeats),
        "jet": measure_best_seconds(lambda: measure_jet(Probe(model, batch), u1, u2), repeats),
        "conditions": measure_best_seconds(lambda: conditions(Probe(model, batch)), repeats),
        "whole": measure_best_seconds(lambda: dextr(Probe(model, batch)), repeats),
        "textbook curvature": measure_best_seconds(
            lambda: compute_textbook_curvature(model, u1, u2), repeats
        ),
        "textbook conditions": measure_best_seconds(
            lambda: compute_textbook_conditions(model, image), repeats
        ),
    }
    seconds["textbook"] = seconds["textbook curvature"] + seconds["textbook conditions"]
    return seconds


def measure_jet(probe: Probe, u1: Tensor, u2: Tensor) -> None:
    with probe.scoring_mode():
        measure_by_taylor_mode(probe.model, u1, u2)


def measure_best_seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def compute_textbook_curvature(model: nn.Module, u1: Tensor, u2: Tensor) -> float:
    """Compute the curvature by double backward, one output coordinate after the other."""
    model.train()
    theta = torch.zeros((), requires_grad=True)
    out = model(u1 * theta.cos() + u2 * theta.sin())[0]
    ten = torch.randint(len(out), (10,), generator=torch.Generator().manual_seed(0))
    v = []
    a = []
    for i in ten:
        (first,) = torch.autograd.grad(out[i], theta, create_graph=True)
        (second,) = torch.autograd.grad(first, theta, retain_graph=True)
        v.append(first.detach())
        a.append(second)
    V = torch.stack(v)
    A = torch.stack(a)
    return float((V @ V) ** -1.5 * ((V @ V) * (A @ A) - (V @ A) ** 2).sqrt())


def compute_textbook_conditions(model: nn.Module, image: Tensor) -> float:
    """Compute the sum of the inverse condition numbers with one SVD per module."""
    total = 0.0

    def hook(module: nn.Module, args: object, output: Tensor) -> None:
        nonlocal total
        values = torch.linalg.svdvals(output[0].reshape(output.shape[1], -1))
        total += float(values[-1] / values[0])

    handles = [module.register_forward_hook(hook) for module in model.modules()]
    with torch.no_grad():
        model.train()(image)
    for handle in handles:
        handle.remove()
    return total


def format_official_string(cell: str) -> str:
    """Return a cell of `CELLS` in the notation of the benchmark."""
    names = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    a, b, c, d, e, f = (names[int(digit)] for digit in cell)
    return f"|{a}~0|+|{b}~0|{c}~1|+|{d}~0|{e}~1|{f}~2|"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--archs", type=int, default=len(CELLS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
