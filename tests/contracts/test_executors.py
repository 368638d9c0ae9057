"""One contract for every executor: `Inline` is the specification, the others give equal records, whatever the order.

What a record cost may differ; value, reason, trace and note may not.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.strategies.helpers import timeless
from untrained import Arch, Record
from untrained.data import load
from untrained.engine import Job, ProxyEvaluator, Samples, Store, job_for
from untrained.engine._pool import Crew, Pool
from untrained.engine.executor import Executor, Inline
from untrained.engine.measure import Requests
from untrained.engine.processes import ProcessCrew
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import load_space

MINE = """
    import sys

    import torch
    from torch import nn

    import untrained

    @untrained.space(task=untrained.Task("digits", (3, 8, 8), 10))
    def nets(choose, task):
        kind, width = choose("kind", ("plain", "conv", "constant", "fragile", "chatty")), choose("width", (2, 3))

        def make():
            if kind == "fragile":
                raise ValueError("this width breaks")
            if kind == "chatty":
                print("on standard output")
                print("on the error stream", file=sys.stderr)
            if kind == "conv":
                body = [nn.Conv2d(3, 2 * width, 3), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
                return nn.Sequential(*body, nn.Flatten(), nn.Linear(2 * width, 10))
            last = Constant() if kind == "constant" else nn.Tanh()
            return nn.Sequential(nn.Flatten(), nn.Linear(192, 8 * width), last, nn.Linear(8 * width, 10))

        return make

    class Constant(nn.Module):
        def forward(self, x):
            return torch.zeros_like(x).detach()

    @untrained.proxy(samples=4)
    def outputs(probe):
        return probe.outputs.std()

    @untrained.proxy()
    def picky(probe):
        print("picky was asked")
        return float("nan") if probe.params % 3 == 0 else probe.params / 7
"""
PROXIES = ("dextr", "params", "naswot", "grad_norm", "./mine.py:outputs", "./mine.py:picky", "l2_norm")
SEEDS = (3, 4)
EXECUTORS = ("inline", "processes", "ray")


class Office:
    """Everything an evaluator needs, from a user's folder, with names as a user types them there."""

    def __init__(self) -> None:
        self.space = load_space("./mine.py:nets")
        self.proxies: list[Proxy] = [load_proxy(name) for name in PROXIES]
        self.samples = Samples.of(load("digits", self.space.task), self.proxies, SEEDS)
        typed = {proxy.measure: name for proxy, name in zip(self.proxies, PROXIES, strict=True)}
        job = job_for("./mine.py:nets", self.proxies, self.samples, "cpu", typed)
        assert isinstance(job, Job)
        self.job, self.archs = job, list(self.space)

    def ask(self, executor: Executor, archs: list[Arch], store: Store | None = None) -> list[list[Record]]:
        return list(ProxyEvaluator(self.samples, self.proxies, executor, store=store)(archs))

    def questions(self) -> list[Requests]:
        evaluate = ProxyEvaluator(self.samples, self.proxies, Inline(self.job.open()))
        questions: list[Requests] = []
        for arch in self.archs:
            requests = evaluate.requests_for(arch)
            questions += [[request for request in requests if request.seed == seed] for seed in SEEDS]
        return questions


@pytest.fixture(scope="module")
def office(tmp_path_factory) -> Office:
    folder: Path = tmp_path_factory.mktemp("folder")
    (folder / "mine.py").write_text(dedent(MINE))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return Office()


@pytest.fixture(scope="module")
def expected(office) -> dict[Arch, list[Record]]:
    """What the specification says."""
    answers = office.ask(Inline(office.job.open()), office.archs)
    return {answer[0].arch: timeless(answer) for answer in answers}


def crew(kind: str, job: Job) -> Crew:
    if kind == "processes":
        return ProcessCrew(job)
    pytest.importorskip("ray", reason="ray is an extra")
    from untrained.engine.ray import RayCrew

    return RayCrew(job, "local", 3)  # room for three, since one test hires another beside the two


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request, office) -> Iterator[Executor]:
    if request.param == "inline":
        yield Inline(office.job.open())
        return
    pool = Pool(crew(request.param, office.job), 2)
    yield pool
    pool.close()


def traces(records: list[Record]) -> list[str]:
    return [record.error.trace if record.error else "" for record in records]


def test_the_specification_holds_values_and_failures(expected):
    """So that the comparisons below compare something."""
    assert len(expected) == 10
    assert {len(records) for records in expected.values()} == {len(PROXIES) * len(SEEDS)}
    kinds = {(str(arch).split(",")[0], r.proxy): r.error and r.error.kind for arch in expected for r in expected[arch]}
    assert {kinds["kind=fragile", p] for p in ("dextr", "params")} == {"error"}
    assert (kinds["kind=constant", "dextr"], kinds["kind=constant", "params"]) == ("disconnected", None)
    assert kinds["kind=conv", "dextr"] is None
    said = {r.error.kind for records in expected.values() for r in records if r.proxy == "picky" and r.error}
    assert {"nan", "error"} <= said
    values = [r.value for records in expected.values() for r in records if r.proxy == "l2_norm" and r.value]
    assert len(set(values)) == len(values) == 16  # another number for every architecture and seed


@pytest.mark.parametrize("order", ["as listed", "backwards", "shuffled"])
def test_records_are_equal_and_come_in_the_order_in_which_they_were_asked_for(office, executor, expected, order):
    archs = {"as listed": office.archs, "backwards": office.archs[::-1]}.get(order)
    archs = archs or random.Random(0).sample(office.archs, len(office.archs))
    answers = office.ask(executor, archs)
    assert [answer[0].arch for answer in answers] == archs
    for answer in answers:
        wanted = expected[answer[0].arch]
        assert timeless(answer) == wanted
        assert repr([r.value for r in answer]) == repr([r.value for r in wanted])  # to the last bit
        assert traces(answer) == traces(wanted)


def test_every_place_is_answered_once(office, executor, expected):
    questions = office.questions()
    answers = list(executor.map(iter(questions)))
    assert sorted(place for place, _ in answers) == list(range(len(questions)))
    for place, records in answers:
        assert [r.key for r in records] == [request.key for request in questions[place]]
        assert all(r in expected[r.arch] for r in timeless(records))


def test_an_answer_nobody_waits_for_spoils_nothing(office, executor, expected):
    answers = executor.map(office.questions())
    next(answers)
    answers.close()
    (answer,) = office.ask(executor, [office.archs[-1]])
    assert timeless(answer) == expected[office.archs[-1]]


def test_the_store_is_filled_whoever_works_and_then_nobody_is_asked(office, executor, expected, tmp_path):
    class Nobody(Inline):
        def map(self, questions):
            assert not list(questions)
            return iter(())

    with Store(tmp_path / "s.sqlite") as store:
        answers = office.ask(executor, office.archs, store)
        assert len(store) == 10 * len(PROXIES) * len(SEEDS)
        assert sorted(map(repr, timeless(store))) == sorted(repr(r) for a in expected.values() for r in a)
        assert office.ask(Nobody(office.job.open()), office.archs, store) == answers


def test_costs_are_told_by_worker(office, executor):
    before = sum(cost.networks for cost in executor.costs())
    answers = office.ask(executor, office.archs)
    costs = executor.costs()
    assert len(costs) == executor.workers
    assert len({cost.worker for cost in costs}) == len(costs)
    assert sum(cost.networks for cost in costs) - before == 10 * len(SEEDS)
    assert all(cost.alive >= cost.build + cost.transfer + cost.measure > 0 for cost in costs if cost.networks)
    assert all(r.measure_seconds > 0 for answer in answers for r in answer if r.value)


@pytest.mark.parametrize("kind", EXECUTORS[1:])
def test_a_job_that_cannot_be_opened_is_refused_in_one_line(office, kind):
    """The file was there when the run was asked for and is gone where the worker looks."""
    pool = Pool(crew(kind, replace(office.job, space="/nowhere/mine.py:nets")), 1)
    try:
        with pytest.raises(UsageError, match=r"there is no file /nowhere/mine\.py") as caught:
            list(pool.map(office.questions()))
        assert "\n" not in str(caught.value)
    finally:
        pool.close()


def test_more_ray_workers_than_there_is_room_for_are_refused(office):
    """They would wait for ever, and say nothing."""
    ray = pytest.importorskip("ray", reason="ray is an extra")
    from untrained.engine.ray import RayCrew

    running = ray.is_initialized()  # for the tests above
    if not running:
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        with pytest.raises(UsageError, match=r"has room for \d workers: --workers \d"):
            RayCrew(office.job, "local", 99)
    finally:
        if not running:
            ray.shutdown()
