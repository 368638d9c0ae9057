"""Evaluators: the use of stored records, what a score depends on, and costs."""

import pickle
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untrained
from tests.engine.helpers import (
    ARCH,
    CONV,
    NONE,
    TASK,
    CountingProxy,
    build_tiny,
    format_cell,
    get_failure,
    get_value,
    make_proxy,
    parse_archs,
    tiny,
    weight_sum,
)
from untrained import Probe, Task
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.engine import (
    ProxyEvaluator,
    SeedBatches,
    Worker,
    make_inline_evaluator,
    make_worker_setup,
)
from untrained.engine.executors.base import InlineExecutor
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.runs.store import Store
from untrained.spaces import load_space
from untrained.types import Failure, Record
from untrained.workflows.score import score_networks

ALL_CONV = format_cell(*[CONV] * 6)


def test_a_stored_record_is_not_computed_again(tmp_path):
    counter = CountingProxy()
    path = tmp_path / "s.sqlite"
    first = score_networks(ALL_CONV, counter.proxy, "noise", store=path)
    assert (counter.calls, len(first)) == (1, 1)
    # The seconds are equal too, so it is the same record.
    assert score_networks(ALL_CONV, counter.proxy, "noise", store=path) == first
    assert counter.calls == 1
    two_seeds = score_networks(ALL_CONV, counter.proxy, "noise", seeds=2, store=str(path))
    assert (counter.calls, two_seeds[0]) == (2, first[0])
    score_networks(ALL_CONV, counter.proxy, "photos", store=path)
    assert counter.calls == 3


def test_an_empty_store_is_filled_and_an_open_one_stays_open(tmp_path):
    """An empty store is false in a condition because it has a length. It is filled all the same."""
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 0
        records = score_networks(ALL_CONV, ("params", "flops"), store=store)
        assert list(store) == records


def test_a_failure_is_stored_like_a_value(tmp_path):
    probes = []

    def fails(probe: Probe) -> float:
        probes.append(probe)
        return float("nan")

    for _ in range(2):
        records = score_networks(ALL_CONV, make_proxy(fails), store=tmp_path / "s.sqlite")
        assert get_failure(records).kind == "nan"
    assert len(probes) == 1


def test_a_new_version_of_a_proxy_is_another_measure(tmp_path):
    old = CountingProxy(version=1)
    new = CountingProxy(version=2)
    for counter in (old, new):
        score_networks(ALL_CONV, counter.proxy, store=tmp_path / "s.sqlite")
    assert (old.calls, new.calls) == (1, 1)


def test_networks_of_the_user_are_never_read_from_a_store(tmp_path):
    """Their code may change while their name stays the same."""
    counter = CountingProxy()
    path = tmp_path / "s.sqlite"
    for width in (2, 3):
        model = nn.Linear(8, width)
        records = score_networks(model, counter.proxy, torch.zeros(1, 8), store=path)
        assert get_value(records) == 9 * width
        records = score_networks(
            "width=2,kernel=1", counter.proxy, data="noise", space=tiny, store=path
        )
        assert get_value(records) == 8 + 516
    assert counter.calls == 4
    with Store(path) as store:
        assert len(store) == 0


@pytest.mark.alone
def test_seconds_are_separate_and_add_up_to_no_more_than_the_clock():
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
    records = score_networks("width=2", (make_proxy(sleepy), "params"), space=slow)
    wall_seconds = time.perf_counter() - start
    slept, params = records
    assert slept.measure_seconds >= 0.03 > params.measure_seconds >= 0
    # Two proxies on one network share the time that it took to build.
    assert sum(record.build_seconds for record in records) >= 0.06
    assert slept.build_seconds == params.build_seconds
    total = sum(record.build_seconds + record.measure_seconds for record in records)
    assert total <= wall_seconds


def test_no_value_depends_on_the_order_of_work_or_on_other_requests():
    first, second = parse_archs("width=2,kernel=3", "width=4,kernel=1")
    weights = make_proxy(weight_sum)
    alone = [
        get_value(score_networks(arch, "dextr", data="noise", space=tiny))
        for arch in (first, second)
    ]
    for order in ([first, second], [second, first], [second, second, first]):
        records = score_networks(
            order, ("params", weights, "dextr", "flops"), data="noise", space=tiny, seeds=2
        )
        values = {(record.arch, record.proxy, record.seed): record.value for record in records}
        assert [values[arch, "dextr", 0] for arch in (first, second)] == alone
        expected = get_value(score_networks(first, weights, data="noise", space=tiny))
        assert values[first, "weight_sum", 0] == expected
        assert values[first, "weight_sum", 0] != values[first, "weight_sum", 1]
        assert values[first, "weight_sum", 0] != values[second, "weight_sum", 0]


def test_dextr_of_a_benchmark_network_does_not_depend_on_other_proxies():
    arch = format_cell(CONV, "skip_connect", NONE, "nor_conv_1x1", "avg_pool_3x3", CONV)
    alone = get_value(score_networks(arch, "dextr"))
    together = {r.proxy: r.value for r in score_networks(arch, ("dextr", "params", "flops"))}
    assert together["dextr"] == alone
    in_reverse = {r.proxy: r.value for r in score_networks(arch, ("flops", "params", "dextr"))}
    assert in_reverse == together


def test_weights_depend_on_architecture_and_seed_and_not_on_global_generators():
    first = get_value(score_networks(ARCH, make_proxy(weight_sum), data="noise", space=tiny))
    torch.manual_seed(1234)
    random.seed(1234)
    assert (
        get_value(score_networks(ARCH, make_proxy(weight_sum), data="noise", space=tiny)) == first
    )


def read_random_states() -> tuple[Any, ...]:
    numpy_state = str(np.random.get_state())  # noqa: NPY002
    return torch.get_rng_state().tolist(), random.getstate(), numpy_state


def test_global_random_generators_are_not_changed(user_file):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(12, 4))
    before = read_random_states()
    score_networks(ARCH, ("dextr", "params"), data="noise", space=tiny)
    score_networks(model, data=torch.ones(2, 3, 2, 2))
    score_networks(f"{user_file}:make", "dextr", input_shape=(3, 8, 8), seeds=2)
    score_networks(f"{user_file}:numpy_weights", "params", input_shape=(3, 8, 8))
    assert read_random_states() == before


def test_proxies_with_equal_sample_counts_share_a_batch_and_others_do_not():
    inputs: dict[str, Tensor] = {}

    def make_observer(name: str, samples: int) -> Proxy:
        def observe(probe: Probe) -> float:
            inputs[name] = probe.batch.inputs
            return float(len(probe.batch))

        observe.__name__ = name
        return make_proxy(observe, samples=samples)

    proxies = [make_observer("one", 1), make_observer("other", 1), make_observer("four", 4)]
    records = score_networks(ARCH, proxies, data="noise", space=tiny)
    assert [record.value for record in records] == [1, 1, 4]
    assert records[0].data == records[1].data != records[2].data
    assert torch.equal(inputs["one"], inputs["other"])
    # A small batch is the beginning of a large one.
    assert torch.equal(inputs["one"], inputs["four"][:1])


def test_options_of_a_proxy_may_be_lists():
    add_up = make_proxy(lambda probe, of=(): float(sum(of)))
    first, second = score_networks(
        ARCH, [add_up.with_options(of=[1, 2]), add_up.with_options(of=[3])], "noise", space=tiny
    )
    assert (first.value, second.value) == (3, 3)
    assert first.measure != second.measure


def make_tiny_evaluator(
    proxies: Sequence[Proxy], seeds: Sequence[int] = (0,), store: Store | None = None
) -> ProxyEvaluator:
    return make_inline_evaluator(build_tiny, load_data("noise", TASK), proxies, seeds, store=store)


def test_evaluators_yield_one_architecture_at_a_time_in_the_order_of_seeds_and_proxies():
    evaluator = make_tiny_evaluator([load_proxy("params"), load_proxy("flops")], seeds=(3, 1))
    answers = list(evaluator(parse_archs("width=2,kernel=3", "width=4,kernel=1")))
    assert [len({record.arch for record in records}) for records in answers] == [1, 1]
    assert [(record.proxy, record.seed) for record in answers[0]] == [
        ("params", 3),
        ("flops", 3),
        ("params", 1),
        ("flops", 1),
    ]


def test_two_proxies_of_one_name_are_refused():
    """Records are stored under names, so each would get the score of the other."""
    one = make_proxy(lambda probe: 1.0)
    other = make_proxy(lambda probe: 2.0)
    assert one.measure == other.measure
    weights = make_proxy(weight_sum)
    for pair in ([one, other], [weights, replace(weights, samples=4)]):
        message = r"two different proxies are called .*; rename one of them"
        with pytest.raises(UsageError, match=message):
            score_networks(ARCH, pair, "noise", space=tiny)
    # The same proxy twice is no contradiction.
    first, second = score_networks(ARCH, [one, one], "noise", space=tiny)
    assert (first.value, second.value) == (1, 1)


class ReversingExecutor(InlineExecutor):
    """Returns records in the reverse order of the requests."""

    def map(self, groups: Any) -> Any:
        yield from reversed(list(super().map(groups)))


def test_records_are_yielded_in_the_order_of_requests_and_stored_as_they_arrive(tmp_path):
    archs = parse_archs(
        "width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3", "width=4,kernel=1"
    )
    with Store(tmp_path / "s.sqlite") as store:
        evaluator = make_tiny_evaluator([load_proxy("params")], (0, 1), store)
        evaluator.executor = ReversingExecutor(evaluator.executor.worker)
        answers = list(evaluator(archs))
        assert [records[0].arch for records in answers] == archs
        assert [[record.seed for record in records] for records in answers] == [[0, 1]] * 4
        stored = [(record.arch, record.seed) for record in store]
        assert stored == [(arch, seed) for arch in archs[::-1] for seed in (1, 0)]
        assert evaluator.measured_count == 4


def test_only_missing_records_are_measured_and_counted(tmp_path):
    counter = CountingProxy()
    a, b, c = parse_archs("width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3")
    proxies = [counter.proxy, load_proxy("flops")]
    with Store(tmp_path / "s.sqlite") as store:
        list(make_tiny_evaluator(proxies, store=store)([a]))
        list(make_tiny_evaluator(proxies[:1], store=store)([b]))
        assert counter.calls == 2
        evaluator = make_tiny_evaluator(proxies, store=store)
        # An architecture that is requested twice is measured once.
        answers = list(evaluator([c, b, a, c]))
        assert counter.calls == 3
        assert [records[0].arch for records in answers] == [c, b, a, c]
        assert answers[0] == answers[3]
        assert {len(records) for records in answers} == {2}
        # Both of c, and b, of which one measure was missing.
        assert evaluator.measured_count == 3
        list(make_tiny_evaluator(proxies, (0, 1), store)([a]))
        assert counter.calls == 4


@pytest.mark.parametrize("kind", ["crashed", "oom", "timeout", "nan", "error"])
def test_a_failure_of_the_machine_is_tried_again_and_one_of_the_network_is_not(tmp_path, kind):
    counter = CountingProxy()
    (arch,) = parse_archs("width=2,kernel=3")
    with Store(tmp_path / "s.sqlite") as store:
        evaluator = make_tiny_evaluator([counter.proxy], store=store)
        (request,) = evaluator.make_requests(arch)
        failed = Record(request, error=Failure(kind, "then"))
        store.add([failed])
        ((record,),) = evaluator([arch])
        is_transient = kind in ("crashed", "oom", "timeout")
        assert (counter.calls, evaluator.measured_count) == ((1, 1) if is_transient else (0, 0))
        assert list(store) == [record]
        assert (record == failed) == (not is_transient)


def test_nothing_more_is_measured_when_the_caller_stops():
    counter = CountingProxy()
    evaluator = make_tiny_evaluator([counter.proxy])
    answers = evaluator(parse_archs("width=2,kernel=3", "width=3,kernel=3", "width=4,kernel=3"))
    next(answers)
    answers.close()
    assert counter.calls == 1


class CopyingExecutor(InlineExecutor):
    """Returns copies, as another process does."""

    def map(self, groups: Any) -> Any:
        for index, records in super().map(groups):
            yield index, pickle.loads(pickle.dumps(records))


def test_records_share_the_architecture_and_the_task_of_the_caller():
    """Otherwise a long search would keep a copy of both for every record."""
    evaluator = make_tiny_evaluator([load_proxy("params")])
    evaluator.executor = CopyingExecutor(evaluator.executor.worker)  # type: ignore[attr-defined]
    archs = list(tiny)[:2]
    records = [record for answer in evaluator(archs) for record in answer]
    assert all(record.arch is arch for record, arch in zip(records, archs, strict=True))
    assert records[0].task is records[1].task is evaluator.batches.source.task


@pytest.mark.parametrize("networks_per_batch", [1, 4])
@pytest.mark.parametrize("has_formula", [True, False])
def test_multiply_adds_are_not_counted_if_there_is_a_formula(
    monkeypatch, networks_per_batch, has_formula
):
    """The formula and the probe give the same number.

    Without a formula the probe counts, also for a view of fewer samples.
    """
    space = load_space("nasbench201(channels=2,cells=1)")
    task = Task("noise", (3, 16, 16), 4)
    proxies = [load_proxy(name) for name in ("flops", "naswot(samples=8)", "params")]
    batches = SeedBatches.for_proxies(load_data("noise", task), proxies, (0,))
    rng = np.random.default_rng(0)
    archs = [space.sample(rng) for _ in range(5)]
    batch = batches.draw_largest_batches()[0]
    counted = [Probe(space.build(arch, task), batch).macs for arch in archs]
    if has_formula:
        failing = property(lambda _: pytest.fail("operations were counted"))
        monkeypatch.setattr(Probe, "operations", failing)
    else:
        space = replace(space, hooks=replace(space.hooks, counts=None))
    compute = ComputeConfig(networks_per_batch=networks_per_batch)
    setup = make_worker_setup(space, proxies, batches, compute)
    worker = setup if isinstance(setup, Worker) else setup.open_worker()
    evaluator = ProxyEvaluator(batches, proxies, InlineExecutor(worker))
    first_records = [records[0] for records in evaluator(archs)]
    assert [(record.measure, record.value) for record in first_records] == [
        ("flops@1", value) for value in counted
    ]
