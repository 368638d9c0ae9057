"""One contract for every executor: all return the records of `InlineExecutor`, in any order.

The cost of a record may differ; value, failure, trace and note may not.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.strategies.helpers import drop_costs
from untrained import Arch, Record
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import ProxyEvaluator, SeedBatches, WorkerSetup, make_worker_setup
from untrained.engine.executors.backend import WorkerBackend
from untrained.engine.executors.base import Executor, InlineExecutor
from untrained.engine.executors.pool import PoolExecutor
from untrained.engine.executors.processes import ProcessBackend
from untrained.engine.worker import RequestGroup
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.runs.store import Store
from untrained.spaces import load_space

MINE = """
    import sys

    import torch
    from torch import nn

    import untrained

    @untrained.space(task=untrained.Task("digits", (3, 8, 8), 10))
    def nets(choose, task):
        kind = choose("kind", ("plain", "conv", "constant", "fragile", "chatty"))
        width = choose("width", (2, 3))

        def make():
            if kind == "fragile":
                raise ValueError("this width breaks")
            if kind == "chatty":
                print("on standard output")
                print("on the error stream", file=sys.stderr)
            if kind == "conv":
                body = [nn.Conv2d(3, 2 * width, 3), nn.BatchNorm2d(2 * width), nn.ReLU()]
                head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10)]
                return nn.Sequential(*body, *head)
            middle = Constant() if kind == "constant" else nn.Tanh()
            hidden = 8 * width
            first = nn.Linear(192, hidden)
            return nn.Sequential(nn.Flatten(), first, middle, nn.Linear(hidden, 10))

        return make

    class Constant(nn.Module):
        def forward(self, x):
            return torch.zeros_like(x).detach()

    @untrained.proxy(samples=4)
    def outputs(probe):
        return probe.outputs.std()

    @untrained.proxy()
    def picky(probe):
        print("picky was called")
        return float("nan") if probe.params % 3 == 0 else probe.params / 7
"""
PROXIES = (
    "dextr",
    "params",
    "naswot",
    "grad_norm",
    "./mine.py:outputs",
    "./mine.py:picky",
    "l2_norm",
)
SEEDS = (3, 4)
EXECUTORS = ("inline", "processes", "ray")


class Setting:
    """Everything that an evaluator needs, with names as a user types them in a folder."""

    def __init__(self) -> None:
        self.space = load_space("./mine.py:nets")
        self.archs = list(self.space)
        self.proxies: list[Proxy] = [load_proxy(name) for name in PROXIES]
        source = load_data("digits", self.space.task)
        self.batches = SeedBatches.for_proxies(source, self.proxies, SEEDS)
        names = {proxy.measure: name for proxy, name in zip(self.proxies, PROXIES, strict=True)}
        setup = make_worker_setup(
            "./mine.py:nets", self.proxies, self.batches, ComputeConfig(), names
        )
        assert isinstance(setup, WorkerSetup)
        self.setup = setup

    def evaluate(
        self, executor: Executor, archs: list[Arch], store: Store | None = None
    ) -> list[list[Record]]:
        evaluator = ProxyEvaluator(self.batches, self.proxies, executor, store=store)
        return list(evaluator(archs))

    def make_groups(self) -> list[RequestGroup]:
        """Return the request groups of all architectures and seeds."""
        executor = InlineExecutor(self.setup.open_worker())
        evaluator = ProxyEvaluator(self.batches, self.proxies, executor)
        groups: list[RequestGroup] = []
        for arch in self.archs:
            requests = evaluator.make_requests(arch)
            for seed in SEEDS:
                groups.append([request for request in requests if request.seed == seed])
        return groups


@pytest.fixture(scope="module")
def setting(tmp_path_factory) -> Setting:
    folder: Path = tmp_path_factory.mktemp("folder")
    (folder / "mine.py").write_text(dedent(MINE))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return Setting()


@pytest.fixture(scope="module")
def expected(setting) -> dict[Arch, list[Record]]:
    """The records of `InlineExecutor`, which is the specification."""
    executor = InlineExecutor(setting.setup.open_worker())
    answers = setting.evaluate(executor, setting.archs)
    return {records[0].arch: drop_costs(records) for records in answers}


def make_backend(kind: str, setup: WorkerSetup) -> WorkerBackend:
    if kind == "processes":
        return ProcessBackend(setup)
    pytest.importorskip("ray", reason="ray is an extra")
    from untrained.engine.executors.ray import RayBackend

    # There is room for three, because one test starts a third worker beside the two.
    return RayBackend(setup, "local", 3)


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request, setting) -> Iterator[Executor]:
    if request.param == "inline":
        yield InlineExecutor(setting.setup.open_worker())
        return
    pool = PoolExecutor(make_backend(request.param, setting.setup), 2)
    yield pool
    pool.close()


def list_traces(records: list[Record]) -> list[str]:
    return [record.error.trace if record.error else "" for record in records]


def test_the_specification_holds_values_and_failures(expected):
    """Otherwise the comparisons below would prove little."""
    assert len(expected) == 10
    assert {len(records) for records in expected.values()} == {len(PROXIES) * len(SEEDS)}
    failure_kinds = {}
    picky_kinds = set()
    norms = []
    for arch, records in expected.items():
        for record in records:
            kind = record.error.kind if record.error else None
            failure_kinds[arch["kind"], record.proxy] = kind
            if record.proxy == "picky" and kind:
                picky_kinds.add(kind)
            if record.proxy == "l2_norm" and record.value:
                norms.append(record.value)
    assert failure_kinds["fragile", "dextr"] == failure_kinds["fragile", "params"] == "error"
    assert failure_kinds["constant", "dextr"] == "disconnected"
    assert failure_kinds["constant", "params"] is None
    assert failure_kinds["conv", "dextr"] is None
    assert {"nan", "error"} <= picky_kinds
    # Every architecture and seed has another value.
    assert len(set(norms)) == len(norms) == 16


@pytest.mark.parametrize("order", ["as listed", "backwards", "shuffled"])
def test_records_are_equal_and_come_in_the_order_of_architectures(
    setting, executor, expected, order
):
    archs = list(setting.archs)
    if order == "backwards":
        archs.reverse()
    elif order == "shuffled":
        archs = random.Random(0).sample(archs, len(archs))
    answers = setting.evaluate(executor, archs)
    assert [records[0].arch for records in answers] == archs
    for records in answers:
        expected_records = expected[records[0].arch]
        assert drop_costs(records) == expected_records
        # Values are equal to the last bit.
        assert repr([r.value for r in records]) == repr([r.value for r in expected_records])
        assert list_traces(records) == list_traces(expected_records)


def test_every_group_is_answered_once(setting, executor, expected):
    groups = setting.make_groups()
    answers = list(executor.map(iter(groups)))
    assert sorted(index for index, _ in answers) == list(range(len(groups)))
    for index, records in answers:
        assert [record.key for record in records] == [request.key for request in groups[index]]
        assert all(record in expected[record.arch] for record in drop_costs(records))


def test_records_that_the_caller_does_not_wait_for_change_nothing(setting, executor, expected):
    answers = executor.map(setting.make_groups())
    next(answers)
    answers.close()
    last = setting.archs[-1]
    (records,) = setting.evaluate(executor, [last])
    assert drop_costs(records) == expected[last]


class RefusingExecutor(InlineExecutor):
    """Fails the test if there is anything to score."""

    def map(self, groups):
        assert not list(groups)
        return iter(())


def test_a_filled_store_answers_all_requests(setting, executor, expected, tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        answers = setting.evaluate(executor, setting.archs, store)
        assert len(store) == 10 * len(PROXIES) * len(SEEDS)
        expected_texts = [repr(record) for records in expected.values() for record in records]
        assert sorted(map(repr, drop_costs(store))) == sorted(expected_texts)
        refusing = RefusingExecutor(setting.setup.open_worker())
        assert setting.evaluate(refusing, setting.archs, store) == answers


def test_costs_are_reported_per_worker(setting, executor):
    before = sum(cost.networks for cost in executor.costs())
    answers = setting.evaluate(executor, setting.archs)
    costs = executor.costs()
    assert len(costs) == executor.workers
    assert len({cost.worker for cost in costs}) == len(costs)
    assert sum(cost.networks for cost in costs) - before == 10 * len(SEEDS)
    for cost in costs:
        if cost.networks:
            assert cost.alive >= cost.build + cost.transfer + cost.measure > 0
    for records in answers:
        assert all(record.measure_seconds > 0 for record in records if record.value)


@pytest.mark.parametrize("kind", EXECUTORS[1:])
def test_a_setup_that_cannot_be_opened_is_refused_in_one_line(setting, kind):
    """The file existed when the run began, and does not exist for the worker."""
    setup = replace(setting.setup, space="/nowhere/mine.py:nets")
    pool = PoolExecutor(make_backend(kind, setup), 1)
    try:
        with pytest.raises(UsageError, match=r"there is no file /nowhere/mine\.py") as caught:
            list(pool.map(setting.make_groups()))
        assert "\n" not in str(caught.value)
    finally:
        pool.close()


def test_more_ray_workers_than_there_is_room_for_are_refused(setting):
    """They would wait forever without a message."""
    ray = pytest.importorskip("ray", reason="ray is an extra")
    from untrained.engine.executors.ray import RayBackend

    was_running = ray.is_initialized()  # for the tests above
    if not was_running:
        ray.init(
            "local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
    try:
        with pytest.raises(UsageError, match=r"has only \d cores; use --workers \d"):
            RayBackend(setting.setup, "local", 99)
    finally:
        if not was_running:
            ray.shutdown()
