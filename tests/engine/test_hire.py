"""Which executor for which wishes, and that everybody who was hired is dismissed."""

import os
import re
import sys
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from tests.engine.helpers import TASK, tiny
from untrained.data import load
from untrained.engine import Examiner, Job, Samples, check_workers, hire, hired
from untrained.engine.executor import Inline
from untrained.errors import UsageError
from untrained.proxies import load_proxy

NOBODY: dict[str, Any] = {}


class Staff:
    """In the place of a Pool: knows what it was asked for, starts nothing."""

    made: ClassVar["list[Staff]"] = []

    def __init__(self, crew: tuple[Any, ...], workers: int, time_limit: float | None, at_once: int) -> None:
        self.crew, self.workers, self.time_limit, self.closed = crew, workers, time_limit, False
        self.at_once = at_once
        self.made.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def staff(monkeypatch) -> list[Staff]:
    """No processes and no cluster; a machine with five cores."""
    Staff.made = []
    monkeypatch.setattr(hire, "Pool", Staff)
    monkeypatch.setattr(hire, "ProcessCrew", lambda job: ("processes", job))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 4}, raising=False)
    return Staff.made


@pytest.fixture(scope="module")
def job() -> Job:
    proxies = [load_proxy("params")]
    samples = Samples.of(load("noise", TASK), proxies, (0,))
    return Job("nasbench201(channels=2,cells=1)", ("params",), TASK, samples.largest())


@pytest.fixture
def unnamed() -> Examiner:
    proxies = [load_proxy("params")]
    samples = Samples.of(load("noise", TASK), proxies, (0,))
    return Examiner(lambda arch: tiny.build(arch, TASK), proxies, TASK.loss, samples.largest())


HERE = [NOBODY | {"networks": 31}, {"workers": 1}, {"workers": 1, "networks": 10_000}, {"networks": 1}]
ELSEWHERE: list[tuple[dict[str, Any], int, float | None]] = [
    (NOBODY, 5, None),
    ({"networks": 32}, 5, None),
    ({"networks": 10_000}, 5, None),
    ({"workers": 2}, 2, None),
    ({"workers": 2, "networks": 3}, 2, None),
    ({"time_limit": 9.0}, 5, 9.0),
    ({"time_limit": 9.0, "networks": 3}, 5, 9.0),
    ({"time_limit": 9.0, "workers": 1}, 1, 9.0),
]


@pytest.mark.parametrize("wishes", HERE)
def test_a_few_networks_and_one_worker_are_worked_on_here(staff, job, wishes):
    with hired(job, **wishes) as executor:
        assert isinstance(executor, Inline)
    assert staff == []


@pytest.mark.parametrize(("wishes", "workers", "limit"), ELSEWHERE)
def test_processes_where_many_are_wished_for_or_somebody_must_be_stopped(staff, job, wishes, workers, limit):
    with hired(job, **wishes) as executor:
        assert (executor.crew, executor.workers, executor.time_limit) == (("processes", job), workers, limit)
        assert not executor.closed
    assert [made.closed for made in staff] == [True]


@pytest.mark.parametrize(
    ("device", "gpus", "workers", "neighbours"),
    [("cuda", 1, 14, 14), ("cuda", 4, 14, 4), ("cuda:1", 4, 3, 3), ("cpu", 0, 5, 1)],
)
def test_workers_on_one_gpu_share_its_memory(monkeypatch, device, gpus, workers, neighbours):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert hire._neighbours(device, workers) == neighbours


def test_one_core_needs_no_other_process(staff, job, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    with hired(job, networks=10_000) as executor:
        assert isinstance(executor, Inline)


def test_a_machine_that_does_not_say_what_it_may_use(staff, job, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    with hired(job) as executor:
        assert executor.workers == 7


@pytest.mark.parametrize(("device", "workers"), [("cuda", 3), ("cuda:1", 1), ("mps", 1)])
def test_one_worker_a_gpu(staff, job, monkeypatch, device, workers):
    monkeypatch.setattr(hire, "usable", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert hire._usual(device) == workers
    with hired(replace(job, device=device), workers=None, time_limit=1.0) as executor:
        assert executor.workers == workers


def test_workers_on_several_gpus_take_turns(job, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    on = replace(job, device="cuda")
    assert [on.on(slot).device for slot in range(4)] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert [replace(job, device=d).on(1).device for d in ("cuda:0", "cpu")] == ["cuda:0", "cpu"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert on.on(3).device == "cuda"


def test_a_cluster_is_asked_for_by_its_address(staff, job, monkeypatch):
    class Cluster:
        RayCrew = staticmethod(lambda job, address, workers: (job, address, workers))

    monkeypatch.setitem(sys.modules, "untrained.engine.ray", Cluster)
    with hired(job, ray="local", networks=3) as executor:
        assert (executor.crew, executor.workers) == ((job, "local", 5), 5)
    with hired(job, workers=2, ray="10.0.0.1:6379", time_limit=3.0) as executor:
        assert (executor.crew, executor.workers, executor.time_limit) == ((job, "10.0.0.1:6379", 2), 2, 3.0)
    assert [made.closed for made in staff] == [True, True]


def test_ray_is_an_extra_and_says_so(staff, job, monkeypatch):
    monkeypatch.delitem(sys.modules, "untrained.engine.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'untrained\[ray\]'.* --workers needs none"), hired(job, ray="x"):
        pass
    monkeypatch.delitem(sys.modules, "untrained.engine.ray", raising=False)


@pytest.mark.parametrize("wishes", [{"workers": 2}, {"ray": "local"}, {"time_limit": 3.0}])
def test_what_has_no_name_cannot_go_elsewhere(staff, unnamed, wishes):
    said = r"only by name: put it in a file and give \./mine\.py:NAME"
    with pytest.raises(UsageError, match=said), hired(unnamed, **wishes):
        pass
    assert staff == []


@pytest.mark.parametrize("wishes", [{}, {"workers": 1}, {"networks": 10_000}])
def test_what_has_no_name_is_worked_on_here(staff, unnamed, wishes):
    with hired(unnamed, **wishes) as executor:
        assert executor == Inline(unnamed)


@pytest.mark.parametrize("time_limit", [0.0, -1.0])
def test_a_time_limit_of_nothing_is_refused(staff, job, time_limit):
    with pytest.raises(UsageError, match="a time limit must be more than nothing"), hired(job, time_limit=time_limit):
        pass
    assert staff == []


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "3"])
def test_workers_that_are_no_positive_whole_number_are_refused(staff, job, workers):
    said = f"--workers must be a whole number of at least 1, not {workers!r}; this machine has 5 cores: --workers 5"
    with pytest.raises(UsageError, match=re.escape(said)), hired(job, workers=workers):
        pass
    assert staff == []


@pytest.mark.parametrize("ray", [None, "local"])
def test_more_than_four_workers_per_core_are_refused(staff, job, ray):
    said = "--workers 21 is too many for this machine, which has 5 cores: type --workers 5, or at most 20"
    with pytest.raises(UsageError, match=re.escape(said)), hired(job, workers=21, ray=ray):
        pass
    assert staff == []
    with hired(job, workers=20) as executor:
        assert executor.workers == 20


def test_eight_workers_are_allowed_on_any_machine(staff, job, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    with hired(job, workers=8) as executor:
        assert executor.workers == 8
    said = "--workers 9 is too many for this machine, which has 1 core: type --workers 1, or at most 8"
    with pytest.raises(UsageError, match=re.escape(said)):
        check_workers(9)


def test_a_cluster_at_an_address_checks_its_own_cores(staff, job):
    check_workers(100_000, "10.0.0.1:6379")


def test_a_device_that_is_not_there_is_refused_before_anybody_is_hired(staff, job):
    with pytest.raises(UsageError, match="device 'cuda:77' cannot be used"), hired(replace(job, device="cuda:77")):
        pass
    assert staff == []


def test_later_nobody_is_hired_before_the_first_question(staff, job):
    with hired(replace(job, device="cuda:77"), workers=2, later=True) as executor:
        assert (executor.workers, executor.costs(), staff) == (0, [], [])
        with pytest.raises(UsageError, match="device 'cuda:77' cannot be used"):
            executor.map([[]])
    with hired(job, workers=1, later=True) as executor:
        assert list(executor.map([])) == []
        assert (executor.workers, [cost.networks for cost in executor.costs()]) == (1, [0])
    with hired(job, workers=2, later=True) as executor, pytest.raises(AttributeError, match="map"):
        executor.map([])  # nobody here has one
    assert [made.closed for made in staff] == [True]


def test_who_was_hired_is_dismissed_when_the_run_fails(staff, job):
    with pytest.raises(ZeroDivisionError), hired(job, workers=2):
        _ = 1 / 0
    assert [made.closed for made in staff] == [True]
