"""A record does not depend on the company in which its network was looked at: values agree, failures are the same, and
who has no memory, no weights or no path to its output spoils no other."""

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
from untrained.data import load
from untrained.engine import Examiner, Job, Samples, hired, population
from untrained.engine.evaluate import ProxyEvaluator
from untrained.engine.executor import Inline
from untrained.errors import UsageError
from untrained.probe.batched.plan import MeasurementPlan
from untrained.proxies import load_proxy
from untrained.rng import generator
from untrained.spaces import Space, load_space

CLOSE = 2e-3  # relative: next to a kink of a ReLU the curvature hangs on the last bits of float32
TASK = Task("noise", (3, 8, 8), 4)


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class Explosive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.inf - x * torch.inf


class Fragile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no forward today")


GOOD = ("plain", "simple", "ordinary")  # other names, other weights
ODD = {"constant": Constant, "explosive": Explosive, "fragile": Fragile}


@untrained.space(task=TASK)
def own(choose: Any, task: Task) -> Any:
    """Blocks of a user; some of them are broken on purpose."""
    kind = choose("kind", (*GOOD, *ODD, "unborn", "huge"))
    width, depth = choose("width", (4, 8)), choose("depth", (1, 2, 3))

    def make() -> nn.Module:
        if kind == "unborn":
            raise ValueError("this width breaks")
        if kind == "huge":
            raise MemoryError("out of memory")
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.GELU()]
        layers += [ODD[kind]()] if kind in ODD else []
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes))

    return make


def asked(
    space: Space, archs: Sequence[Arch], size: int, proxies: Sequence[str] = ("dextr",), task: Task = TASK
) -> Any:
    """The records, and the executor that made them."""
    judges = [load_proxy(name) for name in proxies]
    samples = Samples.of(load("noise", task), judges, (0, 1))
    examiner = Examiner(lambda arch: space.build(arch, task), judges, task.loss, samples.largest(), population=size)
    executor = Inline(examiner)
    records = [r for found in ProxyEvaluator(samples, judges, executor)(archs) for r in found]
    return records, executor


def agree(ours: Sequence[Record], theirs: Sequence[Record]) -> None:
    assert [r.error for r in ours] == [r.error for r in theirs]
    pairs = [(r.value, s.value) for r, s in zip(ours, theirs, strict=True) if r.value is not None]
    assert all(one == pytest.approx(other, rel=CLOSE) for one, other in pairs)
    if len(pairs) > 2:
        assert spearmanr(*zip(*pairs, strict=True)).statistic >= 0.9999


SPACES = {
    "nasbench201(channels=4,cells=1)": ((3, 16, 16), 10),
    "darts(channels=4,cells=3)": ((3, 16, 16), 4),
    "autoformer_tiny": ((3, 32, 32), 3),
    "mobilenetv2": ((3, 16, 16), 3),  # norms over single pixels: its last digits decide, and it is left alone
}


@pytest.mark.parametrize("name", SPACES)
def test_records_agree_with_those_of_networks_that_were_alone(name, monkeypatch):
    monkeypatch.setattr(population, "SMALL", 32 * 32)
    shape, count = SPACES[name]
    space, rng = load_space(name), generator("population", name)
    archs = list(dict.fromkeys(space.sample(rng) for _ in range(count)))
    task = Task("noise", shape, 10)
    alone, _ = asked(space, archs, 1, task=task)
    together, executor = asked(space, archs, 8, task=task)
    agree(together, alone)
    values = [r.value for r in alone if r.value is not None]
    assert len(set(values)) == len(values) > len(archs)
    assert executor.cost.batched >= (0 if name == "mobilenetv2" else len(archs))


def test_one_faulty_network_of_each_kind_spoils_no_other():
    archs = [arch for arch in own if arch["depth"] == 1]
    proxies = ("dextr", "meco", "flops", "grad_norm")
    alone, one_by_one = asked(own, archs, 1, proxies)
    together, executor = asked(own, archs, 32, proxies)
    agree(together, alone)
    said = {r.error.kind for r in together if r.error and r.proxy == "dextr"}
    assert said == {"disconnected", "nan", "error", "oom"}
    assert sum(r.value is not None for r in together if r.proxy == "dextr") == 3 * 2 * 2
    assert (one_by_one.cost.batched, one_by_one.cost.networks) == (0, 32)
    assert 10 <= executor.cost.batched < 28  # who raises is in nobody's company, and the first is alone


def test_records_depend_on_their_own_seed_and_weights_alone():
    """The same architectures in another order and in parts of another size."""
    archs = [arch for arch in own if arch["kind"] in GOOD and arch["depth"] < 3]
    forward, backward = (asked(own, *company)[0] for company in ((archs, 5), (archs[::-1], 12)))
    ours, theirs = ({(r.arch, r.seed): r.value for r in records} for records in (backward, forward))
    assert len(theirs) == len(set(theirs.values())) == 2 * len(archs)
    assert ours == pytest.approx(theirs, rel=CLOSE)


@pytest.fixture
def small_memory(monkeypatch) -> list[int]:
    """A machine with room for three networks at a time; the list says how many were tried together."""
    tried: list[int] = []
    measure = MeasurementPlan.measure

    def narrow(self: MeasurementPlan, probes: Sequence[Any], *more: Any) -> None:
        tried.append(len(probes))
        if len(probes) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        measure(self, probes, *more)

    monkeypatch.setattr(MeasurementPlan, "measure", narrow)
    return tried


def test_a_cpu_looks_at_large_pictures_one_by_one():
    archs = [arch for arch in own if arch["kind"] == "plain" and arch["depth"] == 1]
    for side, batched in ((28, 3), (29, 0)):
        _, executor = asked(own, archs, 4, task=Task("noise", (3, side, side), 4))
        assert (executor.cost.batched, executor.cost.networks) == (batched, 4)


def test_garbage_is_collected_again_after_a_population(monkeypatch):
    seen: list[bool] = []
    monkeypatch.setattr(MeasurementPlan, "measure", lambda *args: seen.append(gc.isenabled()))
    asked(own, [arch for arch in own if arch["kind"] == "plain"], 4)
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_a_population_is_halved_until_it_fits_and_stays_that_small(small_memory):
    archs = [arch for arch in own if arch["kind"] in GOOD and arch["depth"] < 3]
    alone, _ = asked(own, archs, 1)
    together, executor = asked(own, archs, 12)
    agree(together, alone)
    assert small_memory[:7] == [11, 5, 2, 3, 6, 3, 3]  # the first was alone, to see what is read
    assert set(small_memory[7:]) <= {3, 2}
    assert executor.cost.batched == 2 * len(archs) - 1


def test_who_runs_out_of_memory_when_asked_does_so_alone(monkeypatch):
    """The population was no problem; one of its networks is too large for a proxy."""
    archs = [arch for arch in own if arch["kind"] == "plain" and arch["depth"] < 3]

    @untrained.proxy()
    def greedy(probe: Any) -> float:
        if probe.params == largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return float(probe.outputs.sum())

    largest = max(sum(p.numel() for p in own.build(arch).parameters()) for arch in archs)
    judges = [greedy]
    samples = Samples.of(load("noise", TASK), judges, (0, 1))
    examiner = Examiner(lambda arch: own.build(arch, TASK), judges, TASK.loss, samples.largest(), population=8)
    records = [r for found in ProxyEvaluator(samples, judges, Inline(examiner))(archs) for r in found]
    assert [r.error.kind if r.error else None for r in records].count("oom") == 2
    assert sum(r.value is not None for r in records) == 6


def test_networks_that_fit_alone_and_not_together_are_built_in_smaller_parts(monkeypatch):
    """The fourth that lives at a time finds no memory, and not by its own fault."""
    archs = [arch for arch in own if arch["kind"] in GOOD and arch["depth"] == 1]
    alone, _ = asked(own, archs, 1)
    living: WeakSet[nn.Module] = WeakSet()
    network = Examiner.network

    def built(self: Examiner, arch: Arch, seed: int, init: str) -> nn.Module:
        if len(living) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        living.add(made := network(self, arch, seed, init))
        return made

    monkeypatch.setattr(Examiner, "network", built)
    together, executor = asked(own, archs, 6)
    agree(together, alone)
    assert executor.cost.batched


def test_another_process_answers_a_population_as_this_one_does():
    space = "nasbench201(channels=2,cells=1)"
    judges, task = [load_proxy("dextr")], Task("noise", (3, 16, 16), 4)
    samples = Samples.of(load("noise", task), judges, (0,))
    archs = [load_space(space).sample(generator("processes", i)) for i in range(12)]
    found = []
    for size, workers in ((1, None), (6, 2)):
        job = Job(space, ("dextr",), task, samples.largest(), population=size)
        with hired(job, workers, networks=12) as executor:
            found.append([r for a in ProxyEvaluator(samples, judges, executor)(archs) for r in a])
            batched = sum(cost.batched for cost in executor.costs())
    agree(found[1], found[0])
    assert batched >= 6


def test_a_population_of_none_is_refused_and_a_time_limit_looks_at_one_at_a_time():
    from untrained.engine import job_for

    samples = Samples.of(load("noise", TASK), [load_proxy("params")], (0,))
    with pytest.raises(UsageError, match="a population of 0 networks is none; 1 looks at them one by one"):
        job_for("nasbench201", [load_proxy("params")], samples, "cpu", population=0)
    job = job_for("nasbench201", [load_proxy("params")], samples, "cpu", population=9)
    assert job.population == 9
    with hired(job, 1, time_limit=60.0) as executor:
        assert executor.at_once == 1  # type: ignore[attr-defined]


def test_a_device_has_room_for_a_share_of_its_free_memory_which_neighbours_divide(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 4000))
    assert population._room("cuda", 25, neighbours=1) == 30
    assert population._room("cuda", 25, neighbours=8) == 15
    assert population._room("cuda", 10**6, neighbours=1) == 1
