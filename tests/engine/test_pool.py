"""The pool keeps workers busy and survives their deaths: no group is lost or scored twice, and only
the group that is responsible fails. With scripted workers and a clock that they move."""

from itertools import count, islice
from random import Random

import pytest

from tests.engine.scripted_workers import (
    DEATH_OUTPUT,
    DEATH_REASON,
    ScriptedBackend,
    get_number,
    make_group,
    make_records,
)
from untrained.engine.executors import pool as pool_module
from untrained.engine.executors.backend import (
    WorkerDied,
    WorkerEvent,
    WorkerReady,
    WorkerScored,
)
from untrained.engine.executors.pool import (
    MAX_CRASHES,
    MAX_FAILED_STARTS,
    MAX_QUEUED,
    SECONDS_AHEAD,
    PoolExecutor,
)
from untrained.engine.worker import RequestGroup
from untrained.errors import UsageError
from untrained.types import Failure

Outcome = float | Failure | None


@pytest.fixture
def open_pool(monkeypatch):
    """`open_pool(backend, workers, ...)`: a pool with the clock of the backend."""

    def open_with_clock(
        backend: ScriptedBackend,
        workers: int = 2,
        time_limit: float | None = None,
        networks_per_batch: int = 1,
    ) -> PoolExecutor:
        monkeypatch.setattr(pool_module, "perf_counter", lambda: backend.now)
        return PoolExecutor(backend, workers, time_limit, networks_per_batch)

    return open_with_clock


def score_numbers(pool: PoolExecutor, numbers: list[int]) -> dict[int, Outcome]:
    """Return the outcome of each architecture; check that it came once, under its own index."""
    outcomes: dict[int, Outcome] = {}
    for index, records in pool.map(make_group(number) for number in numbers):
        assert index not in outcomes, "scored twice"
        assert [record.measure for record in records] == ["one@1", "two@1"]
        assert {get_number([record]) for record in records} == {numbers[index]}
        first, second = records
        assert (first.value, first.error) == (second.value, second.error)
        outcomes[index] = first.error or first.value
    return {numbers[index]: outcome for index, outcome in outcomes.items()}


def expect_values(numbers: list[int]) -> dict[int, Outcome]:
    return {number: float(number) for number in numbers}


def test_every_group_is_scored_once_by_workers_that_are_started_once(open_pool):
    backend = ScriptedBackend(seconds=lambda number: 0.5)
    pool = open_pool(backend, 3)
    assert score_numbers(pool, [*range(50)]) == expect_values([*range(50)])
    assert score_numbers(pool, [*range(100, 120)]) == expect_values([*range(100, 120)])
    assert score_numbers(pool, []) == {}
    assert set(backend.count_begun().values()) == {1}
    assert {worker for _, worker in backend.begun} == {0, 1, 2}
    assert backend.stopped == []
    pool.close()
    assert (sorted(backend.stopped), backend.closed) == ([0, 1, 2], True)


def test_groups_are_generated_only_when_they_are_needed(open_pool):
    generated = []

    def generate_groups():
        for number in count():
            generated.append(number)
            yield make_group(number)

    results = open_pool(ScriptedBackend(seconds=lambda number: 1.0), 2).map(generate_groups())
    assert len(list(islice(results, 10))) == 10
    # Each of two workers has one group that it scores and one in its queue.
    assert len(generated) <= 10 + 2 * (1 + 1) + 1


def test_a_group_that_kills_a_worker_is_sent_to_another_one(open_pool):
    backend = ScriptedBackend(actions={7: ["die"]})
    pool = open_pool(backend)
    assert score_numbers(pool, [*range(30)]) == expect_values([*range(30)])
    assert backend.count_begun()[7] == MAX_CRASHES == 2
    assert {count for number, count in backend.count_begun().items() if number != 7} == {1}
    first, second = (worker for number, worker in backend.begun if number == 7)
    assert first != second
    assert backend.stopped == [first]
    assert sum(cost.deaths for cost in pool.costs()) == 1


def test_only_a_group_that_kills_two_workers_is_recorded_as_crashed(open_pool):
    backend = ScriptedBackend(actions={7: ["die", "die"], 8: ["die"]})
    outcomes = score_numbers(open_pool(backend), [*range(40)])
    assert outcomes == expect_values([*range(40)]) | {7: Failure("crashed", DEATH_REASON)}
    assert outcomes[7].trace == DEATH_OUTPUT
    assert backend.count_begun()[7] == 2
    assert len(backend.stopped) == 3


def test_crashes_are_counted_separately_for_every_call_of_map(open_pool):
    """The first group of one call has nothing to do with the first group of the next."""
    backend = ScriptedBackend(actions={0: ["die"], 100: ["die"]})
    pool = open_pool(backend)
    assert score_numbers(pool, [0]) == {0: 0.0}
    assert score_numbers(pool, [100]) == {100: 100.0}


def test_a_worker_that_dies_without_a_group_is_replaced_and_no_group_fails(open_pool):
    backend = ScriptedBackend()
    pool = open_pool(backend)
    score_numbers(pool, [1, 2, 3])
    backend.silent.add(0)
    backend.late_events.append(WorkerDied(0, DEATH_REASON))
    assert score_numbers(pool, [4, 5]) == expect_values([4, 5])
    assert backend.stopped == [0]


def test_a_group_that_takes_too_long_fails_and_is_not_sent_again(open_pool):
    backend = ScriptedBackend(actions={3: ["hang"]}, seconds=lambda number: 0.01)
    start = backend.now
    outcomes = score_numbers(open_pool(backend, time_limit=5.0), [*range(20)])
    timeout = Failure("timeout", "took longer than 5 s")
    assert outcomes == expect_values([*range(20)]) | {3: timeout}
    assert backend.count_begun()[3] == 1
    assert 5.0 < backend.now - start < 7.0
    assert len(backend.stopped) == 1


def test_the_time_of_one_group_does_not_count_for_the_next(open_pool):
    """A worker with twenty groups of 0.9 seconds in its queue is never late."""
    backend = ScriptedBackend(seconds=lambda number: 0.001 if number < 50 else 0.9)
    pool = open_pool(backend, 1, time_limit=1.0)
    assert score_numbers(pool, [*range(80)]) == expect_values([*range(80)])


def test_a_worker_whose_queue_is_never_empty_is_not_late(open_pool):
    """Two workers finish in turn, each after a tenth of a second, for ten seconds."""
    backend = ScriptedBackend(seconds=lambda number: 0.1)
    pool = open_pool(backend, 2, time_limit=3.0)
    assert score_numbers(pool, [*range(100)]) == expect_values([*range(100)])


def test_a_late_worker_is_noticed_while_another_one_is_busy(open_pool):
    backend = ScriptedBackend(actions={0: ["hang"]}, seconds=lambda number: 0.1)
    pool = open_pool(backend, 2, time_limit=1.0)
    indices = [index for index, _ in pool.map(map(make_group, range(100)))]
    assert indices.index(0) < 40


def test_a_slow_caller_makes_no_worker_late(open_pool):
    """The records had arrived in time; the store or the strategy took long."""
    backend = ScriptedBackend(seconds=lambda number: 0.1, prompt=True)
    outcomes = {}
    for index, records in open_pool(backend, 3, time_limit=1.0).map(map(make_group, range(12))):
        outcomes[index] = records[0].error or records[0].value
        backend.now += 10.0
    assert outcomes == expect_values([*range(12)])


@pytest.mark.parametrize("starts", [["die"] * 3, ["ready", *["die"] * 3]])
def test_workers_that_are_never_ready_end_the_run_with_their_output(open_pool, starts):
    backend = ScriptedBackend(starts=[*starts, "die"], actions={0: ["die"]})
    assert MAX_FAILED_STARTS == 3
    message = f"no worker can be started: {DEATH_REASON}; its output: {DEATH_OUTPUT}"
    with pytest.raises(UsageError, match=message):
        score_numbers(open_pool(backend, 1), [0, 1])


def test_the_count_of_failed_starts_is_reset_when_a_worker_is_ready(open_pool):
    backend = ScriptedBackend(
        starts=["die", "die", "ready", "die", "die", "ready"], actions={0: ["die"]}
    )
    assert score_numbers(open_pool(backend, 1), [0, 1, 2]) == expect_values([0, 1, 2])


@pytest.mark.parametrize(
    "backend", [ScriptedBackend(starts=["refuse"]), ScriptedBackend(actions={1: ["refuse"]})]
)
def test_wrong_usage_is_not_the_failure_of_a_network(open_pool, backend):
    pool = open_pool(backend)
    with pytest.raises(UsageError, match=r"no (space|variant) is called"):
        score_numbers(pool, [0, 1, 2])
    pool.close()
    assert backend.closed


def test_busy_workers_are_stopped_when_the_caller_stops(open_pool):
    backend = ScriptedBackend(seconds=lambda number: 1.0)
    pool = open_pool(backend, 3)
    results = pool.map(map(make_group, range(100)))
    indices = [next(results)[0] for _ in range(4)]
    busy = {worker for worker, queue in backend.queues.items() if queue}
    results.close()
    assert len(set(indices)) == 4
    assert set(backend.stopped) == busy != set()
    # None of their records arrives in the next call.
    assert score_numbers(pool, [200, 201]) == expect_values([200, 201])
    assert not {number for number, worker in backend.begun if worker in busy} & {200, 201}


@pytest.mark.parametrize("actions", [["die", "die"], ["hang"]])
def test_a_caller_that_stops_at_a_failure_leaves_no_dead_or_hanging_worker(open_pool, actions):
    """A search ends at its last record, and that may be a failure."""
    backend = ScriptedBackend(actions={0: actions})
    pool = open_pool(backend, 1, time_limit=5.0)
    results = pool.map([make_group(0)])
    _, records = next(results)
    assert records[0].error.kind in ("crashed", "timeout")
    results.close()
    assert not set(backend.queues) & backend.silent
    assert score_numbers(pool, [1, 2]) == expect_values([1, 2])


@pytest.mark.parametrize(
    "make_event", [WorkerReady, lambda worker: WorkerDied(worker, DEATH_REASON)]
)
def test_an_event_beside_the_last_record_is_handled(open_pool, make_event):
    """A worker is ready, or dies with an empty queue, at the moment when the caller stops."""
    backend = ScriptedBackend(prompt=True)
    pool = open_pool(backend, 2)
    wait_for_events = backend.wait_for_events
    backend.starting.pop(1)  # its event comes later
    results = pool.map([make_group(0)])

    def add_event(timeout: float) -> list[WorkerEvent]:
        events = list(wait_for_events(timeout))
        if isinstance(events[0], WorkerScored):
            events.append(make_event(1))
        return events

    backend.wait_for_events = add_event
    next(results)
    results.close()
    backend.wait_for_events = wait_for_events
    if make_event is WorkerReady:
        assert pool._states[1].is_ready
    else:
        assert backend.stopped == [1]
    assert score_numbers(pool, [*range(1, 9)]) == expect_values([*range(1, 9)])


def test_records_of_stopped_workers_are_ignored(open_pool):
    backend = ScriptedBackend(actions={0: ["hang"]})
    stop_worker = backend.stop_worker

    def stop_with_late_records(worker: int) -> None:
        stop_worker(worker)
        backend.late_events.append(WorkerScored(worker, make_records(make_group(0))))

    backend.stop_worker = stop_with_late_records
    assert score_numbers(open_pool(backend, 1, time_limit=1.0), [0, 1]) == {
        0: Failure("timeout", "took longer than 1 s"),
        1: 1.0,
    }


@pytest.mark.parametrize(
    ("seconds", "queued"), [(1.0, 2), (0.12, 3), (0.03, 8), (0.0001, MAX_QUEUED)]
)
def test_a_queue_holds_as_much_as_fills_the_time_until_more_comes(open_pool, seconds, queued):
    """One group that is scored and a fifth of a second of work beside it, but never more than 64
    groups; a single one before the speed is known."""
    assert SECONDS_AHEAD == 0.2
    backend = ScriptedBackend(seconds=lambda number: seconds)
    score_numbers(open_pool(backend, 1), [*range(300)])
    lengths = [length for _, length in backend.queue_lengths]
    assert lengths[0] == 1
    assert max(lengths) == queued
    assert lengths.count(queued) > 1


def test_the_length_of_queues_follows_a_change_of_speed(open_pool):
    backend = ScriptedBackend(seconds=lambda number: 0.001 if number < 100 else 2.0)
    score_numbers(open_pool(backend, 1), [*range(200)])
    lengths = [length for _, length in backend.queue_lengths]
    assert max(lengths) == MAX_QUEUED
    assert lengths[-1] <= 2


def test_costs_add_up(open_pool):
    backend = ScriptedBackend(
        seconds=lambda number: float(number), actions={5: ["die", "die"], 6: ["hang"]}
    )
    pool = open_pool(backend, 2, time_limit=60.0)
    start = backend.now
    score_numbers(pool, [*range(1, 11)])
    pool.close()
    end = backend.now
    backend.now += 1000.0  # does not count, since all workers were stopped
    costs = pool.costs()
    assert [cost.worker for cost in costs] == ["scripted worker 1", "scripted worker 2"]
    assert sum(cost.networks for cost in costs) == 8
    busy_seconds = sum(range(1, 11)) - 5 - 6
    assert sum(cost.build for cost in costs) == pytest.approx(busy_seconds / 2)
    assert sum(cost.measure for cost in costs) == pytest.approx(busy_seconds / 2)
    assert sum(cost.deaths for cost in costs) == 2
    # There was always a worker in every slot.
    assert [cost.alive for cost in costs] == [pytest.approx(end - start)] * 2
    for cost in costs:
        assert cost.idle == pytest.approx(cost.alive - cost.build - cost.measure)
    assert costs[0].row()["idle"] == costs[0].idle


def test_costs_include_running_workers(open_pool):
    backend = ScriptedBackend()
    pool = open_pool(backend, 2)
    backend.now += 3.0
    assert [cost.alive for cost in pool.costs()] == [pytest.approx(3.0)] * 2
    # Reading the costs does not change them.
    assert [cost.alive for cost in pool.costs()] == [pytest.approx(3.0)] * 2


def make_script(random: Random) -> tuple[ScriptedBackend, list[int], dict[int, Outcome]]:
    """Return a backend with dying and hanging workers, architectures, and their outcomes."""
    numbers = random.sample(range(1000), random.randint(0, 40))
    weights = {"score": 30, "die": 5, "die die": 2, "hang": 2, "die hang": 1}
    backend = ScriptedBackend(random=random, seconds=lambda number: 0.001 * (1 + number % 7) ** 3)
    expected = expect_values(numbers)
    for number in numbers:
        (actions,) = random.choices([*weights], [*weights.values()])
        backend.actions[number] = actions.split()
        if actions == "die die":
            expected[number] = Failure("crashed", DEATH_REASON)
        elif actions.endswith("hang"):
            expected[number] = Failure("timeout", "took longer than 9 s")
    for _ in range(random.randint(0, 12)):
        backend.starts += ["die"] * random.randint(0, 1) + ["ready"] * random.randint(1, 4)
    return backend, numbers, expected


@pytest.mark.parametrize("seed", range(200))
def test_no_group_is_lost_or_scored_twice_under_random_failures(open_pool, seed):
    random = Random(seed)
    backend, numbers, expected = make_script(random)
    stop_worker = backend.stop_worker

    def stop_with_late_event(worker: int) -> None:
        stop_worker(worker)
        if random.random() < 0.5:
            late_death = WorkerDied(worker, "too late")
            late_records = WorkerScored(worker, make_records(make_group(0)))
            backend.late_events.append(random.choice([late_death, late_records]))

    backend.stop_worker = stop_with_late_event
    pool = open_pool(backend, random.randint(1, 4), time_limit=9.0)
    half = random.randint(0, len(numbers))
    outcomes = score_numbers(pool, numbers[:half]) | score_numbers(pool, numbers[half:])
    assert outcomes == expected
    scored = [outcome for outcome in expected.values() if isinstance(outcome, float)]
    assert sum(cost.networks for cost in pool.costs()) == len(scored)
    pool.close()


# --------------------------------------------------------------------- several networks per pass


def test_only_the_responsible_network_fails_if_a_worker_dies_in_a_pass(open_pool):
    """If a worker dies in a pass of several networks, any of them may be the reason."""
    portions: list[list[int]] = []

    class NotingBackend(ScriptedBackend):
        def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
            portions.append([get_number(requests) for requests in groups])
            super().send_groups(worker, groups)

    pool = open_pool(NotingBackend(actions={5: ["die"] * 9}), 2, networks_per_batch=8)
    expected = expect_values([*range(40)]) | {5: Failure("crashed", DEATH_REASON)}
    assert score_numbers(pool, [*range(40)]) == expected
    assert sum(cost.deaths for cost in pool.costs()) == 1 + MAX_CRASHES
    # A group that may be responsible is sent alone.
    assert [len(portion) for portion in portions if 5 in portion] == [16, 1, 1]


def test_a_few_groups_are_divided_among_all_workers(open_pool):
    backend = ScriptedBackend()
    pool = open_pool(backend, 4, networks_per_batch=64)
    results = pool.map([make_group(number) for number in range(16)])
    assert {index for index, _ in results} == set(range(16))
    assert {worker for _, worker in backend.begun} == {0, 1, 2, 3}


def test_a_worker_is_sent_whole_passes(open_pool):
    """Networks of one pass stay together, however many records arrive at a time."""

    class NotingBackend(ScriptedBackend):
        def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
            sizes.append(len(groups))
            super().send_groups(worker, groups)

        def wait_for_events(self, timeout: float) -> list[WorkerEvent]:
            """Return the events of several moments."""
            events: list[WorkerEvent] = []
            for _ in range(5):
                events += super().wait_for_events(timeout)
            return events

    sizes: list[int] = []
    backend = NotingBackend(prompt=True)
    pool = open_pool(backend, 2, networks_per_batch=8)
    indices = sorted(index for index, _ in pool.map([make_group(i) for i in range(80)]))
    assert indices == list(range(80))
    assert set(sizes) <= {8, 16}
