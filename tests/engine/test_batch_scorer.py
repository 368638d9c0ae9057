"""No record depends on the networks that are measured in the same pass.

Values agree, failures are the same, and a faulty network does not affect the others.
"""

import gc
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

import untrained
from untrained import Arch, Record, Task
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import SeedBatches, Worker, WorkerSetup, make_worker_setup, open_executor
from untrained.engine.batched import batch_scorer
from untrained.engine.evaluator import ProxyEvaluator
from untrained.engine.executors.base import InlineExecutor
from untrained.errors import UsageError
from untrained.probe.batched.plan import MeasurementPlan
from untrained.proxies import Proxy, load_proxy
from untrained.seeds import make_generator
from untrained.spaces import Space, load_space

# Relative: next to a kink of a ReLU the curvature depends on the last bits of float32.
TOLERANCE = 2e-3
TASK = Task("noise", (3, 8, 8), 4)


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class NotANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.inf - x * torch.inf


class Raising(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no forward today")


# Names decide the seeds of weights, so networks of these kinds have different weights.
WORKING = ("plain", "simple", "ordinary")
BROKEN = {"constant": Constant, "not_a_number": NotANumber, "raising": Raising}


@untrained.space(task=TASK)
def mixed(choose: Any, task: Task) -> Any:
    """Blocks of a user; some of them are broken on purpose."""
    kind = choose("kind", (*WORKING, *BROKEN, "unbuildable", "huge"))
    width = choose("width", (4, 8))
    depth = choose("depth", (1, 2, 3))

    def make() -> nn.Module:
        if kind == "unbuildable":
            raise ValueError("this width breaks")
        if kind == "huge":
            raise MemoryError("out of memory")
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(depth):
            layers.append(nn.Conv2d(width, width, 3, padding=1, bias=False))
            layers.append(nn.BatchNorm2d(width))
            layers.append(nn.GELU())
        if kind in BROKEN:
            layers.append(BROKEN[kind]())
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes)]
        return nn.Sequential(*layers)

    return make


def list_archs(kinds: Sequence[str], max_depth: int = 3) -> list[Arch]:
    """Return the architectures of these kinds, in the order of the space."""
    return [arch for arch in mixed if arch["kind"] in kinds and arch["depth"] <= max_depth]


def score_archs(
    space: Space,
    archs: Sequence[Arch],
    networks_per_batch: int,
    proxies: Sequence[str | Proxy] = ("dextr",),
    task: Task = TASK,
) -> tuple[list[Record], InlineExecutor]:
    """Return the records of two seeds, and the executor that made them."""
    loaded = [load_proxy(proxy) for proxy in proxies]
    batches = SeedBatches.for_proxies(load_data("noise", task), loaded, (0, 1))
    worker = Worker(
        lambda arch: space.build(arch, task),
        loaded,
        task.loss,
        batches.draw_largest_batches(),
        networks_per_batch=networks_per_batch,
    )
    executor = InlineExecutor(worker)
    records: list[Record] = []
    for answer in ProxyEvaluator(batches, loaded, executor)(archs):
        records += answer
    return records, executor


def assert_agree(records: Sequence[Record], expected: Sequence[Record]) -> None:
    """Check that failures are equal and values nearly so, in nearly the same order."""
    assert [record.error for record in records] == [record.error for record in expected]
    values = []
    expected_values = []
    for record, expected_record in zip(records, expected, strict=True):
        if record.value is not None:
            values.append(record.value)
            expected_values.append(expected_record.value)
    assert values == pytest.approx(expected_values, rel=TOLERANCE)
    if len(values) > 2:
        assert spearmanr(values, expected_values).statistic >= 0.9999


# Input shape and number of architectures of each space.
SPACES = {
    "nasbench201(channels=4,cells=1)": ((3, 16, 16), 10),
    "darts(channels=4,cells=3)": ((3, 16, 16), 4),
    "autoformer_tiny": ((3, 32, 32), 3),
    # It has norms over single pixels, which amplify rounding, so it is measured alone.
    "mobilenetv2": ((3, 16, 16), 3),
}


@pytest.mark.parametrize("name", SPACES)
def test_records_agree_with_those_of_networks_that_were_measured_alone(name, monkeypatch):
    monkeypatch.setattr(batch_scorer, "MAX_CPU_PIXELS", 32 * 32)
    shape, count = SPACES[name]
    space = load_space(name)
    rng = make_generator("population", name)
    archs = list(dict.fromkeys(space.sample(rng) for _ in range(count)))
    task = Task("noise", shape, 10)
    alone, _ = score_archs(space, archs, 1, task=task)
    together, executor = score_archs(space, archs, 8, task=task)
    assert_agree(together, alone)
    values = [record.value for record in alone if record.value is not None]
    assert len(set(values)) == len(values) > len(archs)
    least_batched = 0 if name == "mobilenetv2" else len(archs)
    assert executor.cost.batched_networks >= least_batched


def test_a_faulty_network_of_any_kind_does_not_affect_the_others():
    archs = [arch for arch in mixed if arch["depth"] == 1]
    proxies = ("dextr", "meco", "flops", "grad_norm")
    alone, executor_alone = score_archs(mixed, archs, 1, proxies)
    together, executor = score_archs(mixed, archs, 32, proxies)
    assert_agree(together, alone)
    dextr_records = [record for record in together if record.proxy == "dextr"]
    kinds = {record.error.kind for record in dextr_records if record.error}
    assert kinds == {"disconnected", "nan", "error", "oom"}
    assert sum(record.value is not None for record in dextr_records) == 3 * 2 * 2
    assert (executor_alone.cost.batched_networks, executor_alone.cost.networks) == (0, 32)
    # Networks that raise are in no pass, and the first one is measured alone.
    assert 10 <= executor.cost.batched_networks < 28


def test_records_depend_on_their_own_seed_and_weights_alone():
    """The same architectures in another order and in passes of another size."""
    archs = list_archs(WORKING, max_depth=2)
    forward, _ = score_archs(mixed, archs, 5)
    backward, _ = score_archs(mixed, archs[::-1], 12)
    values = {(record.arch, record.seed): record.value for record in backward}
    expected = {(record.arch, record.seed): record.value for record in forward}
    assert len(expected) == len(set(expected.values())) == 2 * len(archs)
    assert values == pytest.approx(expected, rel=TOLERANCE)


@pytest.fixture
def pass_sizes(monkeypatch) -> list[int]:
    """The sizes of all passes that are tried, on a machine with room for three networks."""
    sizes: list[int] = []
    measure = MeasurementPlan.measure

    def measure_three(self: MeasurementPlan, probes: Sequence[Any], *more: Any) -> None:
        sizes.append(len(probes))
        if len(probes) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        measure(self, probes, *more)

    monkeypatch.setattr(MeasurementPlan, "measure", measure_three)
    return sizes


def test_a_cpu_measures_large_images_one_network_at_a_time():
    archs = list_archs(["plain"], max_depth=1)
    for side, batched in ((28, 3), (29, 0)):
        _, executor = score_archs(mixed, archs, 4, task=Task("noise", (3, side, side), 4))
        assert (executor.cost.batched_networks, executor.cost.networks) == (batched, 4)


def test_garbage_collection_is_on_again_after_a_pass(monkeypatch):
    was_enabled: list[bool] = []
    monkeypatch.setattr(
        MeasurementPlan, "measure", lambda *args: was_enabled.append(gc.isenabled())
    )
    score_archs(mixed, list_archs(["plain"]), 4)
    assert was_enabled
    assert not any(was_enabled)
    assert gc.isenabled()


def test_a_pass_is_halved_until_it_fits_and_stays_that_small(pass_sizes):
    archs = list_archs(WORKING, max_depth=2)
    alone, _ = score_archs(mixed, archs, 1)
    together, executor = score_archs(mixed, archs, 12)
    assert_agree(together, alone)
    # The first network was measured alone, to see what the proxies read.
    assert pass_sizes[:7] == [11, 5, 2, 3, 6, 3, 3]
    assert set(pass_sizes[7:]) <= {3, 2}
    assert executor.cost.batched_networks == 2 * len(archs) - 1


def test_a_network_that_is_too_large_for_a_proxy_fails_alone():
    """The pass fits into memory; one of its networks is too large for a proxy."""
    archs = list_archs(["plain"], max_depth=2)

    @untrained.proxy()
    def greedy(probe: Any) -> float:
        if probe.params == largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return float(probe.outputs.sum())

    largest = max(sum(p.numel() for p in mixed.build(arch).parameters()) for arch in archs)
    records, _ = score_archs(mixed, archs, 8, [greedy])
    failures = [record.error for record in records if record.error is not None]
    assert [failure.kind for failure in failures].count("oom") == 2
    assert sum(record.value is not None for record in records) == 6


def test_networks_that_fit_alone_and_not_together_are_built_in_smaller_parts(monkeypatch):
    """There is memory for three networks at a time, so building the fourth one fails."""
    archs = list_archs(WORKING, max_depth=1)
    alone, _ = score_archs(mixed, archs, 1)
    existing: WeakSet[nn.Module] = WeakSet()
    build_network = Worker.build_network

    def build_three(self: Worker, arch: Arch, seed: int, init: str) -> nn.Module:
        if len(existing) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        network = build_network(self, arch, seed, init)
        existing.add(network)
        return network

    monkeypatch.setattr(Worker, "build_network", build_three)
    together, executor = score_archs(mixed, archs, 6)
    assert_agree(together, alone)
    assert executor.cost.batched_networks


def test_worker_processes_measure_passes_as_this_process_does():
    space = "nasbench201(channels=2,cells=1)"
    task = Task("noise", (3, 16, 16), 4)
    proxies = [load_proxy("dextr")]
    batches = SeedBatches.for_proxies(load_data("noise", task), proxies, (0,))
    archs = [load_space(space).sample(make_generator("processes", i)) for i in range(12)]
    results = []
    for compute in (ComputeConfig(), ComputeConfig(workers=2, networks_per_batch=6)):
        setup = make_worker_setup(space, proxies, batches, compute)
        assert isinstance(setup, WorkerSetup)
        with open_executor(setup, compute, 12) as executor:
            records: list[Record] = []
            for answer in ProxyEvaluator(batches, proxies, executor)(archs):
                records += answer
            results.append(records)
            batched = sum(cost.batched_networks for cost in executor.costs())
    assert_agree(results[1], results[0])
    assert batched >= 6


def test_a_pass_of_no_networks_is_refused():
    with pytest.raises(UsageError, match="networks_per_batch is 0; write a whole number from 1"):
        ComputeConfig(networks_per_batch=0)


def test_a_time_limit_measures_one_network_at_a_time():
    proxies = [load_proxy("params")]
    batches = SeedBatches.for_proxies(load_data("noise", TASK), proxies, (0,))
    setup = make_worker_setup("nasbench201", proxies, batches, ComputeConfig(networks_per_batch=9))
    assert setup.networks_per_batch == 9
    compute = ComputeConfig(workers=1, time_limit="60s", networks_per_batch=9)
    assert compute.effective_networks_per_batch == 1
    with open_executor(setup, compute) as executor:
        assert executor.networks_per_batch == 1  # type: ignore[attr-defined]


def test_a_pass_fills_a_fraction_of_the_free_memory_that_workers_divide(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 4000))
    assert batch_scorer._count_networks_in_memory("cuda", 25, workers=1) == 30
    assert batch_scorer._count_networks_in_memory("cuda", 25, workers=8) == 15
    assert batch_scorer._count_networks_in_memory("cuda", 10**6, workers=1) == 1
