"""The pool keeps workers busy and survives their deaths: nothing is lost, nothing is doubled, and only who is guilty
fails. With puppets for workers and a clock that they move."""

from collections import deque
from itertools import count, islice
from random import Random

import pytest

from tests.engine.puppets import DEATH, WORDS, Puppets, answer, number_of, question
from untrained.engine import _pool
from untrained.engine._pool import AHEAD, LIVES, MOST, STILLBORN, Answered, Died, Event, Pool, Ready
from untrained.engine.measure import Requests
from untrained.errors import UsageError
from untrained.types import Failure

Outcome = float | Failure | None


@pytest.fixture
def pool(monkeypatch):
    """`pool(puppets, workers, ...)`: a Pool whose clock is the puppets'."""

    def make(puppets: Puppets, workers: int = 2, time_limit: float | None = None, at_once: int = 1) -> Pool:
        monkeypatch.setattr(_pool, "perf_counter", lambda: puppets.now)
        return Pool(puppets, workers, time_limit, at_once)

    return make


def asked(pool: Pool, numbers: list[int]) -> dict[int, Outcome]:
    """What came of each question; both of its records say the same, and it came once, in its place."""
    found: dict[int, Outcome] = {}
    for place, records in pool.map(question(number) for number in numbers):
        assert place not in found, "answered twice"
        assert [r.measure for r in records] == ["one@1", "two@1"]
        assert {number_of([r]) for r in records} == {numbers[place]}
        one, other = records
        assert (one.value, one.error) == (other.value, other.error)
        found[place] = one.error or one.value
    return {numbers[place]: outcome for place, outcome in found.items()}


def values(numbers: list[int]) -> dict[int, Outcome]:
    return {number: float(number) for number in numbers}


def test_every_question_is_answered_once_by_workers_who_are_hired_once(pool):
    crew = Puppets(seconds=lambda number: 0.5)
    staff = pool(crew, 3)
    assert asked(staff, [*range(50)]) == values([*range(50)])
    assert asked(staff, [*range(100, 120)]) == values([*range(100, 120)])
    assert asked(staff, []) == {}
    assert set(crew.times_taken().values()) == {1}
    assert {worker for _, worker in crew.taken} == {0, 1, 2}
    assert crew.dismissed == []
    staff.close()
    assert (sorted(crew.dismissed), crew.closed) == ([0, 1, 2], True)


def test_questions_are_drawn_as_they_are_needed(pool):
    drawn = []
    endless = (drawn.append(number) or question(number) for number in count())
    answers = pool(Puppets(seconds=lambda number: 1.0), 2).map(endless)
    assert len(list(islice(answers, 10))) == 10
    assert len(drawn) <= 10 + 2 * (1 + 1) + 1  # each of two workers holds one at work and one more


def test_who_kills_a_worker_is_asked_once_more_elsewhere(pool):
    crew = Puppets(fates={7: ["die"]})
    staff = pool(crew)
    assert asked(staff, [*range(30)]) == values([*range(30)])
    assert crew.times_taken()[7] == LIVES == 2
    assert {count for number, count in crew.times_taken().items() if number != 7} == {1}
    (first, second) = (worker for number, worker in crew.taken if number == 7)
    assert first != second
    assert crew.dismissed == [first]
    assert sum(cost.deaths for cost in staff.costs()) == 1


def test_who_kills_two_workers_has_crashed_and_nobody_else(pool):
    crew = Puppets(fates={7: ["die", "die"], 8: ["die"]})
    found = asked(pool(crew), [*range(40)])
    assert found == values([*range(40)]) | {7: Failure("crashed", DEATH)}
    assert found[7].trace == WORDS
    assert crew.times_taken()[7] == 2
    assert len(crew.dismissed) == 3


def test_a_death_is_forgotten_with_the_questions_it_belongs_to(pool):
    """The first question of one list has nothing to do with the first of the next."""
    crew = Puppets(fates={0: ["die"], 100: ["die"]})
    staff = pool(crew)
    assert asked(staff, [0]) == {0: 0.0}
    assert asked(staff, [100]) == {100: 100.0}


def test_who_dies_without_a_question_is_replaced_and_nobody_is_blamed(pool):
    crew = Puppets()
    staff = pool(crew)
    asked(staff, [1, 2, 3])
    crew.hanging.add(0)
    crew.late.append(Died(0, DEATH))
    assert asked(staff, [4, 5]) == values([4, 5])
    assert crew.dismissed == [0]


def test_who_takes_too_long_fails_and_is_asked_no_more(pool):
    crew = Puppets(fates={3: ["hang"]}, seconds=lambda number: 0.01)
    start = crew.now
    found = asked(pool(crew, time_limit=5.0), [*range(20)])
    assert found == values([*range(20)]) | {3: Failure("timeout", "took longer than 5 s")}
    assert crew.times_taken()[3] == 1
    assert 5.0 < crew.now - start < 7.0
    assert len(crew.dismissed) == 1


def test_the_time_of_one_question_does_not_count_for_the_next(pool):
    """A worker that holds twenty questions of 0.9 seconds is never late."""
    crew = Puppets(seconds=lambda number: 0.001 if number < 50 else 0.9)
    assert asked(pool(crew, 1, time_limit=1.0), [*range(80)]) == values([*range(80)])


def test_somebody_who_always_holds_something_is_not_late(pool):
    """Two in turn, a tenth of a second each, for ten seconds."""
    crew = Puppets(seconds=lambda number: 0.1)
    assert asked(pool(crew, 2, time_limit=3.0), [*range(100)]) == values([*range(100)])


def test_a_busy_neighbour_does_not_hide_who_takes_too_long(pool):
    crew = Puppets(fates={0: ["hang"]}, seconds=lambda number: 0.1)
    found = [place for place, _ in pool(crew, 2, time_limit=1.0).map(map(question, range(100)))]
    assert found.index(0) < 40


def test_whoever_listens_may_be_slow_without_making_anybody_late(pool):
    """The answer had come in time; it was the store or the strategy that took long."""
    crew = Puppets(seconds=lambda number: 0.1, prompt=True)
    found = {}
    for place, records in pool(crew, 3, time_limit=1.0).map(map(question, range(12))):
        found[place] = records[0].error or records[0].value
        crew.now += 10.0
    assert found == values([*range(12)])


@pytest.mark.parametrize("births", [["die"] * 3, ["ready", *["die"] * 3]])
def test_workers_who_are_never_ready_end_the_run_with_their_last_words(pool, births):
    crew = Puppets(births=[*births, "die"], fates={0: ["die"]})
    assert STILLBORN == 3
    with pytest.raises(UsageError, match=f"no worker can be started: {DEATH}; it said: {WORDS}"):
        asked(pool(crew, 1), [0, 1])


def test_a_worker_who_is_ready_clears_the_stillborn_before_it(pool):
    crew = Puppets(births=["die", "die", "ready", "die", "die", "ready"], fates={0: ["die"]})
    assert asked(pool(crew, 1), [0, 1, 2]) == values([0, 1, 2])


@pytest.mark.parametrize("crew", [Puppets(births=["refuse"]), Puppets(fates={1: ["refuse"]})])
def test_a_wrong_request_is_no_failure_of_a_network(pool, crew):
    staff = pool(crew)
    with pytest.raises(UsageError, match=r"no (space|variant) is called"):
        asked(staff, [0, 1, 2])
    staff.close()
    assert crew.closed


def test_who_still_works_on_what_nobody_waits_for_is_dismissed(pool):
    crew = Puppets(seconds=lambda number: 1.0)
    staff = pool(crew, 3)
    answers = staff.map(map(question, range(100)))
    first = [next(answers)[0] for _ in range(4)]
    busy = {worker for worker, desk in crew.desks.items() if desk}
    answers.close()
    assert len(set(first)) == 4
    assert set(crew.dismissed) == busy != set()
    assert asked(staff, [200, 201]) == values([200, 201])  # and no late answer of theirs is heard
    assert not {number for number, worker in crew.taken if worker in busy} & {200, 201}


@pytest.mark.parametrize("story", [["die", "die"], ["hang"]])
def test_whoever_stops_listening_at_a_failure_leaves_nobody_dead_or_hanging_in_the_office(pool, story):
    """A search ends at its last answer, and that may be a failure."""
    crew = Puppets(fates={0: story})
    staff = pool(crew, 1, time_limit=5.0)
    answers = staff.map([question(0)])
    ((_, records), *_) = [next(answers)]
    assert records[0].error.kind in ("crashed", "timeout")
    answers.close()
    assert not set(crew.desks) & crew.hanging
    assert asked(staff, [1, 2]) == values([1, 2])


@pytest.mark.parametrize("word", [Ready, lambda worker: Died(worker, DEATH)])
def test_what_is_said_beside_the_last_answer_is_heard(pool, word):
    """Somebody is ready, or dies with nothing to do, in the moment in which whoever listens has heard enough."""
    crew = Puppets(prompt=True)
    staff, events = pool(crew, 2), crew.events
    crew.opening.pop(1)  # its word comes later
    answers = staff.map([question(0)])

    def together(timeout: float) -> list[Event]:
        found = list(events(timeout))
        return [*found, word(1)] if isinstance(found[0], Answered) else found

    crew.events = together
    next(answers)
    answers.close()
    crew.events = events
    assert staff._staff[1].ready if word is Ready else crew.dismissed == [1]
    assert asked(staff, [*range(1, 9)]) == values([*range(1, 9)])


def test_answers_of_the_dismissed_are_not_heard(pool):
    crew = Puppets(fates={0: ["hang"]})
    dismiss = crew.dismiss

    def dismissed(worker: int) -> None:
        dismiss(worker)
        crew.late.append(Answered(worker, answer(question(0))))

    crew.dismiss = dismissed
    assert asked(pool(crew, 1, time_limit=1.0), [0, 1]) == {0: Failure("timeout", "took longer than 1 s"), 1: 1.0}


@pytest.mark.parametrize(("seconds", "held"), [(1.0, 2), (0.12, 3), (0.03, 8), (0.0001, MOST)])
def test_as_much_lies_ready_as_fills_the_time_until_more_comes(pool, seconds, held):
    """One at work and a fifth of a second of work beside it, but never more than 64 questions; one alone before
    anything is known."""
    assert AHEAD == 0.2
    crew = Puppets(seconds=lambda number: seconds)
    asked(pool(crew, 1), [*range(300)])
    sizes = [size for _, size in crew.given]
    assert sizes[0] == 1
    assert max(sizes) == held
    assert sizes.count(held) > 1


def test_feeding_follows_a_change_of_speed(pool):
    crew = Puppets(seconds=lambda number: 0.001 if number < 100 else 2.0)
    asked(pool(crew, 1), [*range(200)])
    sizes = [size for _, size in crew.given]
    assert max(sizes) == MOST
    assert sizes[-1] <= 2


def test_costs_add_up(pool):
    crew = Puppets(seconds=lambda number: float(number), fates={5: ["die", "die"], 6: ["hang"]})
    staff, start = pool(crew, 2, time_limit=60.0), crew.now
    asked(staff, [*range(1, 11)])
    staff.close()
    crew.now += 1000.0  # nobody is paid after that
    costs = staff.costs()
    assert [cost.worker for cost in costs] == ["puppet 1", "puppet 2"]
    assert sum(cost.networks for cost in costs) == 8
    worked = sum(range(1, 11)) - 5 - 6
    assert sum(cost.build for cost in costs) == pytest.approx(worked / 2)
    assert sum(cost.measure for cost in costs) == pytest.approx(worked / 2)
    assert sum(cost.deaths for cost in costs) == 2
    passed = crew.now - 1000.0 - start
    assert [cost.alive for cost in costs] == [pytest.approx(passed)] * 2  # every slot was always taken
    assert [cost.idle for cost in costs] == [pytest.approx(c.alive - c.build - c.measure) for c in costs]
    assert costs[0].row()["idle"] == costs[0].idle


def test_costs_of_people_at_work_are_told_too(pool):
    crew = Puppets()
    staff = pool(crew, 2)
    crew.now += 3.0
    assert [cost.alive for cost in staff.costs()] == [pytest.approx(3.0)] * 2
    assert [cost.alive for cost in staff.costs()] == [pytest.approx(3.0)] * 2  # asking costs nothing


def script(chance: Random) -> tuple[Puppets, list[int], dict[int, Outcome]]:
    """Workers who die, hang, are born dead, and a list of questions; and what must come of it."""
    numbers = chance.sample(range(1000), chance.randint(0, 40))
    stories = {"answer": 30, "die": 5, "die die": 2, "hang": 2, "die hang": 1}
    crew = Puppets(chance=chance, seconds=lambda number: 0.001 * (1 + number % 7) ** 3)
    expected = values(numbers)
    for number in numbers:
        (story,) = chance.choices([*stories], [*stories.values()])
        crew.fates[number] = story.split()
        if story == "die die":
            expected[number] = Failure("crashed", DEATH)
        elif story.endswith("hang"):
            expected[number] = Failure("timeout", "took longer than 9 s")
    for _ in range(chance.randint(0, 12)):
        crew.births += ["die"] * chance.randint(0, 1) + ["ready"] * chance.randint(1, 4)
    return crew, numbers, expected


@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_lost_and_nothing_is_doubled_whatever_happens(pool, seed):
    chance = Random(seed)
    crew, numbers, expected = script(chance)
    stale, dismiss = deque[int](), crew.dismiss

    def dismissed(worker: int) -> None:
        dismiss(worker)
        if chance.random() < 0.5:  # words that were on their way
            crew.late.append(chance.choice([Died(worker, "too late"), Answered(worker, answer(question(0)))]))
            stale.append(worker)

    crew.dismiss = dismissed
    staff = pool(crew, chance.randint(1, 4), time_limit=9.0)
    half = chance.randint(0, len(numbers))
    assert asked(staff, numbers[:half]) | asked(staff, numbers[half:]) == expected
    assert sum(cost.networks for cost in staff.costs()) == sum(isinstance(v, float) for v in expected.values())
    staff.close()


# ------------------------------------------------------------------------------------------------------- populations


def test_only_who_is_guilty_fails_also_where_a_worker_looks_at_many_together(pool):
    """A worker that dies over a population may have died of any of it."""
    portions: list[list[int]] = []

    class Noting(Puppets):
        def give(self, worker: int, questions: list[Requests]) -> None:
            portions.append([number_of(requests) for requests in questions])
            super().give(worker, questions)

    staff = pool(Noting(fates={5: ["die"] * 9}), 2, at_once=8)
    expected = values([*range(40)]) | {5: Failure("crashed", DEATH)}
    assert asked(staff, [*range(40)]) == expected
    assert sum(cost.deaths for cost in staff.costs()) == 1 + LIVES
    assert [len(portion) for portion in portions if 5 in portion] == [16, 1, 1]  # no company for a suspect


def test_few_questions_are_shared_out_among_workers(pool):
    crew = Puppets()
    staff = pool(crew, 4, at_once=64)
    assert {place for place, _ in staff.map([question(number) for number in range(16)])} == set(range(16))
    assert {worker for _, worker in crew.taken} == {0, 1, 2, 3}


def test_a_worker_is_given_whole_populations(pool):
    """However many answers have come meanwhile: what is asked together is looked at together."""

    class Noting(Puppets):
        def give(self, worker: int, questions: list[Requests]) -> None:
            sizes.append(len(questions))
            super().give(worker, questions)

        def events(self, timeout: float) -> list[Event]:
            """Several answers at a time."""
            listen = super().events
            return [event for _ in range(5) for event in listen(timeout)]

    sizes: list[int] = []
    crew = Noting(prompt=True)
    found = sorted(place for place, _ in pool(crew, 2, at_once=8).map([question(i) for i in range(80)]))
    assert found == list(range(80))
    assert set(sizes) <= {8, 16}
