"""A compute configuration determines the executor, and every executor is closed."""

import os
import re
import sys
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from tests.engine.helpers import TASK, tiny
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import SeedBatches, Worker, WorkerSetup, open_executor
from untrained.engine.executors import opening
from untrained.engine.executors.base import InlineExecutor
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.workers import check_workers


class FakePool:
    """Stands in for `PoolExecutor`: keeps its arguments and starts nothing."""

    opened: ClassVar["list[FakePool]"] = []

    def __init__(
        self,
        backend: tuple[Any, ...],
        workers: int,
        time_limit: float | None,
        networks_per_batch: int,
    ) -> None:
        self.backend = backend
        self.workers = workers
        self.time_limit = time_limit
        self.networks_per_batch = networks_per_batch
        self.closed = False
        self.opened.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pools(monkeypatch) -> list[FakePool]:
    """All pools that are opened, on a machine with five cores and without processes."""
    FakePool.opened = []
    monkeypatch.setattr(opening, "PoolExecutor", FakePool)
    monkeypatch.setattr(opening, "ProcessBackend", lambda setup: ("processes", setup))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 4}, raising=False)
    return FakePool.opened


@pytest.fixture(scope="module")
def setup() -> WorkerSetup:
    batches = SeedBatches.for_proxies(load_data("noise", TASK), [load_proxy("params")], (0,))
    return WorkerSetup(
        "nasbench201(channels=2,cells=1)", ("params",), TASK, batches.draw_largest_batches()
    )


@pytest.fixture
def unnamed() -> Worker:
    """A worker of a space that has no name to import it by."""
    proxies = [load_proxy("params")]
    batches = SeedBatches.for_proxies(load_data("noise", TASK), proxies, (0,))
    return Worker(
        lambda arch: tiny.build(arch, TASK), proxies, TASK.loss, batches.draw_largest_batches()
    )


@pytest.mark.parametrize(
    ("workers", "network_count"), [(None, 31), (1, None), (1, 10_000), (None, 1)]
)
def test_a_few_networks_or_one_worker_need_no_other_process(pools, setup, workers, network_count):
    with open_executor(setup, ComputeConfig(workers=workers), network_count) as executor:
        assert isinstance(executor, InlineExecutor)
    assert pools == []


@pytest.mark.parametrize(
    ("workers", "time_limit", "network_count", "expected_workers", "expected_limit"),
    [
        (None, None, None, 5, None),
        (None, None, 32, 5, None),
        (None, None, 10_000, 5, None),
        (2, None, None, 2, None),
        (2, None, 3, 2, None),
        (None, "9s", None, 5, 9.0),
        (None, "9s", 3, 5, 9.0),
        (1, "9s", None, 1, 9.0),
    ],
)
def test_many_networks_several_workers_or_a_time_limit_need_processes(
    pools, setup, workers, time_limit, network_count, expected_workers, expected_limit
):
    compute = ComputeConfig(workers=workers, time_limit=time_limit)
    with open_executor(setup, compute, network_count) as executor:
        assert executor.backend == ("processes", setup)
        assert (executor.workers, executor.time_limit) == (expected_workers, expected_limit)
        assert not executor.closed
    assert [pool.closed for pool in pools] == [True]


@pytest.mark.parametrize(
    ("device", "gpus", "workers", "workers_per_device"),
    [("cuda", 1, 14, 14), ("cuda", 4, 14, 4), ("cuda:1", 4, 3, 3), ("cpu", 0, 5, 1)],
)
def test_workers_on_one_gpu_share_its_memory(
    monkeypatch, device, gpus, workers, workers_per_device
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert opening._count_workers_per_device(device, workers) == workers_per_device


def test_a_machine_with_one_core_needs_no_other_process(pools, setup, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    with open_executor(setup, ComputeConfig(), 10_000) as executor:
        assert isinstance(executor, InlineExecutor)


def test_a_system_without_affinities_uses_all_cores(pools, setup, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    with open_executor(setup, ComputeConfig()) as executor:
        assert executor.workers == 7


@pytest.mark.parametrize(("device", "workers"), [("cuda", 3), ("cuda:1", 1), ("mps", 1)])
def test_there_is_one_worker_per_gpu(pools, setup, monkeypatch, device, workers):
    monkeypatch.setattr(opening, "check_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert opening._get_default_worker_count(device) == workers
    compute = ComputeConfig(device=device, time_limit="1s")
    with open_executor(replace(setup, device=device), compute) as executor:
        assert executor.workers == workers


def test_gpus_are_assigned_to_workers_in_turn(setup, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    on_cuda = replace(setup, device="cuda")
    devices = [on_cuda.for_slot(slot).device for slot in range(4)]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    for device in ("cuda:0", "cpu"):
        assert replace(setup, device=device).for_slot(1).device == device
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert on_cuda.for_slot(3).device == "cuda"


def test_a_ray_cluster_is_reached_by_its_address(pools, setup, monkeypatch):
    class FakeRayModule:
        RayBackend = staticmethod(lambda setup, address, workers: (setup, address, workers))

    monkeypatch.setitem(sys.modules, "untrained.engine.executors.ray", FakeRayModule)
    with open_executor(setup, ComputeConfig(ray="local"), 3) as executor:
        assert (executor.backend, executor.workers) == ((setup, "local", 5), 5)
    compute = ComputeConfig(workers=2, ray="10.0.0.1:6379", time_limit="3s")
    with open_executor(setup, compute) as executor:
        assert executor.backend == (setup, "10.0.0.1:6379", 2)
        assert (executor.workers, executor.time_limit) == (2, 3.0)
    assert [pool.closed for pool in pools] == [True, True]


def test_a_missing_ray_is_an_error_that_says_how_to_install_it(pools, setup, monkeypatch):
    monkeypatch.delitem(sys.modules, "untrained.engine.executors.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(UsageError, match=r"pip install '\.\[ray\]'.* use --workers"),
        open_executor(setup, ComputeConfig(ray="x")),
    ):
        pass
    monkeypatch.delitem(sys.modules, "untrained.engine.executors.ray", raising=False)


@pytest.mark.parametrize("options", [{"workers": 2}, {"ray": "local"}, {"time_limit": "3s"}])
def test_an_object_without_a_name_cannot_be_sent_to_another_process(pools, unnamed, options):
    message = r"only by name: put it in a file and give \./mine\.py:NAME"
    compute = ComputeConfig(**options)
    with pytest.raises(UsageError, match=message), open_executor(unnamed, compute):
        pass
    assert pools == []


@pytest.mark.parametrize(("workers", "network_count"), [(None, None), (1, None), (None, 10_000)])
def test_an_object_without_a_name_is_scored_in_this_process(pools, unnamed, workers, network_count):
    with open_executor(unnamed, ComputeConfig(workers=workers), network_count) as executor:
        assert executor == InlineExecutor(unnamed)


@pytest.mark.parametrize("time_limit", ["0s", "-1s"])
def test_a_time_limit_of_zero_is_refused(time_limit):
    with pytest.raises(UsageError, match="duration"):
        ComputeConfig(time_limit=time_limit)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "3"])
def test_a_number_of_workers_that_is_not_positive_and_whole_is_refused(pools, workers):
    message = (
        f"--workers must be a whole number of at least 1, not {workers!r}; "
        "this machine has 5 cores: --workers 5"
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        ComputeConfig(workers=workers)


@pytest.mark.parametrize("ray", [None, "local"])
def test_more_than_four_workers_per_core_are_refused(pools, setup, ray):
    message = (
        "--workers 21 is too many for this machine, which has 5 cores: "
        "type --workers 5, or at most 20"
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        ComputeConfig(workers=21, ray=ray)
    with open_executor(setup, ComputeConfig(workers=20)) as executor:
        assert executor.workers == 20


def test_eight_workers_are_allowed_on_any_machine(pools, setup, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    with open_executor(setup, ComputeConfig(workers=8)) as executor:
        assert executor.workers == 8
    message = (
        "--workers 9 is too many for this machine, which has 1 core: type --workers 1, or at most 8"
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        check_workers(9)


def test_workers_of_a_cluster_are_not_limited_by_this_machine(pools):
    check_workers(100_000, "10.0.0.1:6379")


def test_a_missing_device_is_refused_before_a_worker_is_started(pools, setup):
    with (
        pytest.raises(UsageError, match="device 'cuda:77' cannot be used"),
        open_executor(replace(setup, device="cuda:77"), ComputeConfig()),
    ):
        pass
    assert pools == []


def test_a_lazy_executor_starts_nothing_before_the_first_request(pools, setup):
    missing = replace(setup, device="cuda:77")
    with open_executor(missing, ComputeConfig(workers=2), lazy=True) as executor:
        assert (executor.workers, executor.costs(), pools) == (0, [], [])
        with pytest.raises(UsageError, match="device 'cuda:77' cannot be used"):
            executor.map([[]])
    with open_executor(setup, ComputeConfig(workers=1), lazy=True) as executor:
        assert list(executor.map([])) == []
        assert (executor.workers, [cost.networks for cost in executor.costs()]) == (1, [0])
    with (
        open_executor(setup, ComputeConfig(workers=2), lazy=True) as executor,
        pytest.raises(AttributeError, match="map"),
    ):
        executor.map([])  # opens a FakePool, which has no `map`
    assert [pool.closed for pool in pools] == [True]


def test_an_executor_is_closed_when_the_run_fails(pools, setup):
    with pytest.raises(ZeroDivisionError), open_executor(setup, ComputeConfig(workers=2)):
        _ = 1 / 0
    assert [pool.closed for pool in pools] == [True]
