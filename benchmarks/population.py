"""Many networks in one kernel: what it gains, where the time goes, and whether records stay the same.

    python benchmarks/population.py [--space nasbench201] [--population 1 16 64] [--networks 64] [--device cpu]
    python benchmarks/population.py --check [--networks 500]

Time goes to: building networks, writing their tapes, playing them (features, then the circle), condition numbers, and
asking the proxy. Population 1 is the engine as it works without populations. Every time is an architecture's share, as
a ratio to the whole of population 1. `calls` are those a network makes, `launches` what is left of them when calls of
one signature run as one. With --check, records of five spaces: rank correlation with networks that were alone, the
largest relative difference, and whether the failures are the same.
"""

import argparse
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import nn

import untrained
from untrained.data import load
from untrained.engine import Examiner, ProxyEvaluator, Samples
from untrained.engine.executor import Inline, threads
from untrained.errors import Unscorable
from untrained.probe import Probe, population
from untrained.probe.lockstep import Tally
from untrained.probe.population import Look
from untrained.probe.signatures import Signatures
from untrained.proxies import load_proxy
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.types import Arch, Record, Task


@untrained.space(task=Task("noise", (3, 32, 32), 10))
def own(choose: Any, task: Task) -> nn.Module:
    """A space as a user writes it."""
    layers: list[nn.Module] = []
    channels = task.input_shape[0]
    for i in range(choose("depth", [1, 2, 3])):
        width, kernel = choose(f"width{i}", [8, 16, 32]), choose(f"kernel{i}", [3, 5])
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, task.num_classes))


CHECKED = {
    "nasbench201": (3, 32, 32),
    "darts(channels=16,cells=8)": (3, 32, 32),
    "autoformer_tiny": (3, 224, 224),
    "mobilenetv2": (3, 224, 224),
    "own": (3, 32, 32),
}


def main() -> None:
    options = arguments()
    print(f"torch {torch.__version__}, {options.device}, {platform.machine()}, one thread, {options.networks} networks")
    with threads(1):
        check(options) if options.check else where_time_goes(options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--space", nargs="+", default=None)
    parser.add_argument("--size", type=int, default=None, help="pixels of a side, instead of those of the space")
    parser.add_argument("--population", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--networks", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def opened(name: str) -> Space:
    return own if name == "own" else load_space(name)


def task_of(options: argparse.Namespace, name: str) -> Task:
    shape = (3, options.size, options.size) if options.size else CHECKED.get(name, opened(name).task.input_shape)
    return Task("noise", shape, 10)


def drawn(name: str, count: int) -> list[Arch]:
    space, rng = opened(name), generator("population", name)
    return [space.sample(rng) for _ in range(count)]


# ----------------------------------------------------------------------------------------------------- where time goes


class Clock:
    """Seconds by purpose; a GPU is waited for before the clock is read."""

    def __init__(self, device: str) -> None:
        self.device, self.seconds = device, dict.fromkeys(("build", "write", "play", "conditions", "ask"), 0.0)

    @contextmanager
    def on(self, purpose: str) -> Iterator[None]:
        start = self._now()
        yield
        self.seconds[purpose] += self._now() - start

    def timed(self, purpose: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.on(purpose):
                return function(*args, **kwargs)

        return wrapped

    def _now(self) -> float:
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return perf_counter()


def where_time_goes(options: argparse.Namespace) -> None:
    for name in options.space or ["nasbench201"]:
        whole = 0.0
        print(f"\n{name}\n| population | build | write | play | conditions | ask | whole | calls | launches |")
        print("|---|---|---|---|---|---|---|---|---|")
        for size in options.population:
            clock, tally = profiled(options, name, size)
            seconds = clock.seconds
            whole = whole or sum(seconds.values())
            shares = [f"{seconds[part] / whole:.3f}" for part in seconds]
            told = f"{tally.calls / options.networks:.0f} | {tally.groups / options.networks:.1f}"
            print(f"| {size} | {' | '.join(shares)} | {sum(seconds.values()) / whole:.3f} | {told} |")
        print(f"whole of population {options.population[0]}: {1e3 * whole / options.networks:.1f} ms a network")


def profiled(options: argparse.Namespace, name: str, size: int) -> tuple[Clock, Tally]:
    """Score all networks in populations of that size, by the clock."""
    space, task, archs = opened(name), task_of(options, name), drawn(name, options.networks)
    dextr, device = load_proxy("dextr"), options.device
    batch = load("noise", task).batch(1, 0).to(device)

    def built(arch: Arch) -> Probe:
        return Probe(space.build(arch, task, device).to(device), batch)

    clock, tally, known = Clock(device), Tally(), Signatures()
    warm = built(archs[0])
    score(dextr, warm)
    look = Look.at(warm)
    look.ahead([built(archs[0]), built(archs[-1])], known)
    originals = population.write, population.play, population.ratios
    population.write = clock.timed("write", population.write)
    population.play = clock.timed("play", population.play)
    population.ratios = clock.timed("conditions", population.ratios)
    try:
        for start in range(0, len(archs), size):
            with clock.on("build"):
                probes = [built(arch) for arch in archs[start : start + size]]
            if size > 1:
                look.ahead(probes, known, tally)
            with clock.on("ask"):
                for probe in probes:
                    score(dextr, probe)
    finally:
        population.write, population.play, population.ratios = originals
    return clock, tally


def score(proxy: Any, probe: Probe) -> None:
    with suppress(Unscorable):
        proxy(probe)


# --------------------------------------------------------------------------------------------------------------- check


def check(options: argparse.Namespace) -> None:
    print("| space | networks | together | Spearman | largest relative difference | failures | the same |")
    print("|---|---|---|---|---|---|---|")
    for name in options.space or CHECKED:
        alone, _ = recorded(options, name, 1)
        ours, batched = recorded(options, name, max(options.population))
        pairs = [(r.value, s.value) for r, s in zip(ours, alone, strict=True) if r.value is not None and s.value]
        rho = spearmanr(*zip(*pairs, strict=True)).statistic
        worst = max(abs(one / other - 1) for one, other in pairs)
        failures = [r.error for r in alone]
        same = "yes" if failures == [r.error for r in ours] else "NO"
        count = sum(error is not None for error in failures)
        print(f"| {name} | {len(alone)} | {batched} | {rho:.6f} | {worst:.1e} | {count} | {same} |", flush=True)


def recorded(options: argparse.Namespace, name: str, size: int) -> tuple[Sequence[Record], int]:
    space, task, judges = opened(name), task_of(options, name), [load_proxy("dextr")]
    samples = Samples.of(load("noise", task), judges, (0,))
    build = lambda arch: space.build(arch, task, options.device)  # noqa: E731
    inline = Inline(Examiner(build, judges, task.loss, samples.largest(), options.device, population=size))
    evaluate = ProxyEvaluator(samples, judges, inline, options.device)
    archs = list(dict.fromkeys(drawn(name, options.networks)))
    return [record for records in evaluate(archs) for record in records], inline.cost.batched


if __name__ == "__main__":
    main()
