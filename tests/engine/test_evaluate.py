"""Evaluators: what is known is not computed again, what a score depends on and what not, and what it cost."""

import pickle
import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untrained
from tests.engine.helpers import ARCH, CONV, NONE, TASK, Counter, archs, failure, judge, nb201, tiny, value, weight_sum
from untrained import Probe, Task, score
from untrained.data import load
from untrained.engine import Examiner, ProxyEvaluator, Samples, Store, job_for
from untrained.engine.executor import Inline
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import load_space
from untrained.types import Failure, Record


def test_a_record_that_exists_is_not_computed_again(tmp_path):
    counter, arch = Counter(), nb201(*[CONV] * 6)
    first = score(arch, counter.proxy, "noise", store=tmp_path / "s.sqlite")
    assert (counter.calls, len(first)) == (1, 1)
    assert score(arch, counter.proxy, "noise", store=tmp_path / "s.sqlite") == first  # seconds too: it is that record
    assert counter.calls == 1
    both = score(arch, counter.proxy, "noise", seeds=2, store=str(tmp_path / "s.sqlite"))
    assert (counter.calls, both[0]) == (2, first[0])
    score(arch, counter.proxy, "photos", store=tmp_path / "s.sqlite")
    assert counter.calls == 3


def test_a_new_store_is_filled_and_an_open_one_stays_open(tmp_path):
    """A store knows its length, so an empty one is false in a condition: it must be filled all the same."""
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 0
        records = score(nb201(*[CONV] * 6), ("params", "flops"), store=store)
        assert list(store) == records


def test_a_failure_is_kept_like_a_value(tmp_path):
    calls = []

    def fails(probe: Probe) -> float:
        calls.append(probe)
        return float("nan")

    for _ in range(2):
        assert failure(score(nb201(*[CONV] * 6), judge(fails), store=tmp_path / "s.sqlite")).kind == "nan"
    assert len(calls) == 1


def test_a_new_version_of_a_proxy_is_another_measure(tmp_path):
    old, new = Counter(version=1), Counter(version=2)
    for proxy in (old.proxy, new.proxy):
        score(nb201(*[CONV] * 6), proxy, store=tmp_path / "s.sqlite")
    assert (old.calls, new.calls) == (1, 1)


def test_networks_of_the_users_own_are_never_read_from_a_store(tmp_path):
    """They may change under their name."""
    counter = Counter()
    for width in (2, 3):
        records = score(nn.Linear(8, width), counter.proxy, torch.zeros(1, 8), store=tmp_path / "s.sqlite")
        assert value(records) == 9 * width
        assert (
            value(score("width=2,kernel=1", counter.proxy, data="noise", space=tiny, store=tmp_path / "s.sqlite"))
            == 8 + 516
        )
    assert counter.calls == 4
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 0


@pytest.mark.alone
def test_seconds_are_told_apart_and_add_up_to_no_more_than_the_clock():
    @untrained.space(task=TASK)
    def slow(choose: Any, task: Task) -> Any:
        width = choose("width", (2,))

        def make() -> nn.Module:
            time.sleep(0.06)
            return nn.Sequential(nn.Flatten(), nn.Linear(192, width))

        return make

    def sleepy(probe: Probe) -> float:
        time.sleep(0.03)
        return 1.0

    start = time.perf_counter()
    records = score("width=2", (judge(sleepy), "params"), space=slow)
    wall = time.perf_counter() - start
    slept, params = records
    assert slept.measure_seconds >= 0.03 > params.measure_seconds >= 0
    assert sum(r.build_seconds for r in records) >= 0.06  # two proxies on one network share what it cost to build
    assert slept.build_seconds == params.build_seconds
    assert sum(r.build_seconds + r.measure_seconds for r in records) <= wall


def test_the_order_of_work_and_the_company_change_no_value():
    a, b = archs("width=2,kernel=3", "width=4,kernel=1")
    weights = judge(weight_sum)
    alone = [value(score(arch, "dextr", data="noise", space=tiny)) for arch in (a, b)]
    for order in ([a, b], [b, a], [b, b, a]):
        records = score(order, ("params", weights, "dextr", "flops"), data="noise", space=tiny, seeds=2)
        found = {(r.arch, r.proxy, r.seed): r.value for r in records}
        assert [found[arch, "dextr", 0] for arch in (a, b)] == alone
        assert found[a, "weight_sum", 0] == value(score(a, weights, data="noise", space=tiny))
        assert found[a, "weight_sum", 0] != found[a, "weight_sum", 1]
        assert found[a, "weight_sum", 0] != found[b, "weight_sum", 0]


def test_dextr_of_a_benchmark_network_does_not_depend_on_its_companions():
    arch = nb201(CONV, "skip_connect", NONE, "nor_conv_1x1", "avg_pool_3x3", CONV)
    alone = value(score(arch, "dextr"))
    together = {r.proxy: r.value for r in score(arch, ("dextr", "params", "flops"))}
    assert together["dextr"] == alone
    reversed_ = {r.proxy: r.value for r in score(arch, ("flops", "params", "dextr"))}
    assert reversed_ == together


def test_weights_follow_the_architecture_and_the_seed_and_not_the_state_of_the_machine():
    first = value(score(ARCH, judge(weight_sum), data="noise", space=tiny))
    torch.manual_seed(1234)
    random.seed(1234)
    assert value(score(ARCH, judge(weight_sum), data="noise", space=tiny)) == first


def random_states() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())  # noqa: NPY002


def test_global_randomness_is_left_alone(user_file):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(12, 4))
    before = random_states()
    score(ARCH, ("dextr", "params"), data="noise", space=tiny)
    score(model, torch.ones(2, 3, 2, 2))
    score(f"{user_file}:make", "dextr", input_shape=(3, 8, 8), seeds=2)
    score(f"{user_file}:numpy_weights", "params", input_shape=(3, 8, 8))
    assert random_states() == before


def test_proxies_that_look_at_equally_many_samples_share_a_batch_and_others_do_not():
    seen: dict[str, Tensor] = {}

    def look(name: str, samples: int) -> Proxy:
        def sees(probe: Probe) -> float:
            seen[name] = probe.batch.inputs
            return float(len(probe.batch))

        sees.__name__ = name
        return judge(sees, samples=samples)

    records = score(ARCH, [look("one", 1), look("other", 1), look("four", 4)], data="noise", space=tiny)
    assert [r.value for r in records] == [1, 1, 4]
    assert records[0].data == records[1].data != records[2].data
    assert torch.equal(seen["one"], seen["other"])
    assert torch.equal(seen["one"], seen["four"][:1])  # a small batch is the head of a large one


def test_the_options_of_a_proxy_may_be_lists():
    sum_of = judge(lambda probe, of=(): float(sum(of)))
    first, second = score(ARCH, [sum_of.configured(of=[1, 2]), sum_of.configured(of=[3])], "noise", space=tiny)
    assert (first.value, second.value) == (3, 3)
    assert first.measure != second.measure


def test_evaluators_answer_one_architecture_at_a_time_in_the_order_of_proxies_and_seeds():
    source = untrained.data.load("noise", TASK)
    judges = [load_proxy("params"), load_proxy("flops")]
    evaluate = ProxyEvaluator.here(lambda arch: tiny.build(arch, TASK), source, judges, seeds=(3, 1))
    answers = list(evaluate(archs("width=2,kernel=3", "width=4,kernel=1")))
    assert [len({r.arch for r in answer}) for answer in answers] == [1, 1]
    assert [(r.proxy, r.seed) for r in answers[0]] == [("params", 3), ("flops", 3), ("params", 1), ("flops", 1)]


def test_two_proxies_of_one_name_are_refused_and_never_mixed_up():
    """Records are filed under names: each would be given the score of the other."""
    one, other = judge(lambda probe: 1.0), judge(lambda probe: 2.0)
    assert one.measure == other.measure
    for pair in ([one, other], [weight := judge(weight_sum), replace(weight, samples=4)]):
        with pytest.raises(UsageError, match=r"two different proxies are called .*; rename one of them"):
            score(ARCH, pair, "noise", space=tiny)
    first, second = score(ARCH, [one, one], "noise", space=tiny)  # the same twice is no contradiction
    assert (first.value, second.value) == (1, 1)


def test_what_was_asked_for_comes_in_order_and_is_stored_as_it_arrives(tmp_path):
    """An executor that answers backwards: the store holds its order, whoever asked hears theirs."""

    class Backwards(Inline):
        def map(self, questions):
            yield from reversed(list(super().map(questions)))

    asked = archs("width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3", "width=4,kernel=1")
    with Store(tmp_path / "s.sqlite") as store:
        evaluate = ProxyEvaluator.here(
            lambda arch: tiny.build(arch, TASK), untrained.data.load("noise", TASK), [load_proxy("params")], (0, 1),
            store=store,
        )  # fmt: skip
        evaluate.executor = Backwards(evaluate.executor.examiner)
        answers = list(evaluate(asked))
        assert [answer[0].arch for answer in answers] == asked
        assert [[r.seed for r in answer] for answer in answers] == [[0, 1]] * 4
        assert [(r.arch, r.seed) for r in store] == [(arch, seed) for arch in asked[::-1] for seed in (1, 0)]
        assert evaluate.measured == 4


def test_only_what_is_not_known_is_asked_and_counted(tmp_path):
    counter, (a, b, c) = Counter(), archs("width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3")
    source, judges = untrained.data.load("noise", TASK), [counter.proxy, load_proxy("flops")]

    def evaluator(store: Store, proxies: list[Proxy] = judges, seeds: tuple[int, ...] = (0,)) -> ProxyEvaluator:
        return ProxyEvaluator.here(lambda arch: tiny.build(arch, TASK), source, proxies, seeds, store=store)

    with Store(tmp_path / "s.sqlite") as store:
        list(evaluator(store)([a]))
        list(evaluator(store, judges[:1])([b]))
        assert counter.calls == 2
        third = evaluator(store)
        answers = list(third([c, b, a, c]))  # one asked for twice is measured once
        assert counter.calls == 3
        assert [answer[0].arch for answer in answers] == [c, b, a, c]
        assert answers[0] == answers[3]
        assert {len(answer) for answer in answers} == {2}
        assert third.measured == 3  # c and c, and b, of which one measure was missing
        list(evaluator(store, seeds=(0, 1))([a]))
        assert counter.calls == 4


@pytest.mark.parametrize("kind", ["crashed", "oom", "timeout", "nan", "error"])
def test_a_failure_of_the_machine_is_tried_again_and_one_of_the_network_is_not(tmp_path, kind):
    counter, (arch,) = Counter(), archs("width=2,kernel=3")
    source = untrained.data.load("noise", TASK)
    with Store(tmp_path / "s.sqlite") as store:
        evaluate = ProxyEvaluator.here(lambda arch: tiny.build(arch, TASK), source, [counter.proxy], store=store)
        (request,) = evaluate.requests_for(arch)
        failed = Record(request, error=Failure(kind, "then"))
        store.add([failed])
        ((record,),) = evaluate([arch])
        passing = kind in ("crashed", "oom", "timeout")
        assert (counter.calls, evaluate.measured) == ((1, 1) if passing else (0, 0))
        assert list(store) == [record]
        assert (record == failed) == (not passing)


def test_nothing_more_is_worked_on_when_nobody_listens(tmp_path):
    counter = Counter()
    evaluate = ProxyEvaluator.here(
        lambda arch: tiny.build(arch, TASK), untrained.data.load("noise", TASK), [counter.proxy]
    )
    answers = evaluate(archs("width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3"))
    next(answers)
    answers.close()
    assert counter.calls == 1


class Copying(Inline):
    """Answers as another process gives them: copies of everything."""

    def map(self, questions: Any) -> Any:
        for place, records in super().map(questions):
            yield place, pickle.loads(pickle.dumps(records))


def test_records_are_about_the_askers_own_objects():
    """A long search would otherwise keep a copy of the architecture and the task for every record."""
    source = load("noise", TASK)
    evaluate = ProxyEvaluator.here(lambda arch: tiny.build(arch, TASK), source, [load_proxy("params")])
    evaluate.executor = Copying(evaluate.executor.examiner)  # type: ignore[attr-defined]
    asked = list(tiny)[:2]
    found = [record for records in evaluate(asked) for record in records]
    assert all(record.arch is arch for record, arch in zip(found, asked, strict=True))
    assert found[0].task is found[1].task is source.task


@pytest.mark.parametrize("population", [1, 4])
def test_multiply_adds_that_a_formula_tells_are_not_counted_again(monkeypatch, population):
    """They are those that the probe counts; without a formula it still does, for a view of fewer samples too."""
    space, task = load_space("nasbench201(channels=2,cells=1)"), Task("noise", (3, 16, 16), 4)
    judges = [load_proxy(name) for name in ("flops", "naswot(samples=8)", "params")]
    samples, rng = Samples.of(load("noise", task), judges, (0,)), np.random.default_rng(0)
    some = [space.sample(rng) for _ in range(5)]
    counted = [Probe(space.build(arch, task), samples.largest()[0]).macs for arch in some]
    without_formula = replace(space, hooks=replace(space.hooks, counts=None))
    for told in (True, False):
        searched = space if told else without_formula
        job = job_for(searched, judges, samples, "cpu", population=population)
        with monkeypatch.context() as patch:
            if told:
                patch.setattr(Probe, "operations", property(lambda _: pytest.fail("operations were counted")))
            executor = Inline(job if isinstance(job, Examiner) else job.open())
            records = [found[0] for found in ProxyEvaluator(samples, judges, executor)(some)]
        assert [(record.measure, record.value) for record in records] == [("flops@1", value) for value in counted]
