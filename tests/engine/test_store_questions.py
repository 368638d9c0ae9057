"""A store notes which records a run asked for, and in which order."""

import pytest

from tests.engine.helpers import RECORD
from tests.records import change_record
from untrained.engine import Store, stores
from untrained.errors import UsageError
from untrained.types import Failure

RECORDS = [change_record(RECORD, seed=seed, value=float(seed)) for seed in range(5)]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as opened:
        opened.add(RECORDS)
        yield opened


def test_a_question_has_its_own_records_in_the_order_of_asking(store):
    store.add_to_question("one", [RECORDS[3], RECORDS[1]])
    store.add_to_question("two", [RECORDS[1]])
    store.add_to_question("one", [RECORDS[1], RECORDS[0]])  # what is noted keeps its place
    assert store.read_question("one") == [RECORDS[3], RECORDS[1], RECORDS[0]]
    assert store.read_question("two") == [RECORDS[1]]
    assert store.read_question("never asked") == []
    assert list(store) == RECORDS


def test_what_is_asked_for_survives_and_can_be_read_without_writing(store):
    store.add_to_question("one", RECORDS[::-1])
    store.close()
    with Store(store.path, read_only=True) as again:
        assert again.read_question("one") == RECORDS[::-1]


def test_a_record_that_the_store_does_not_hold_is_not_noted(store):
    store.add_to_question("one", [change_record(RECORD, measure="other@1")])
    assert store.read_question("one") == []


def test_a_repeated_measurement_replaces_a_failure_of_the_machine(store):
    failed = change_record(RECORD, seed=9, value=None, error=Failure("crashed"))
    store.add([failed])
    store.add_to_question("one", [failed])
    repeated = change_record(failed, value=2.0, error=None)
    store.add([repeated])
    assert store.read_question("one") == [repeated]


def test_a_note_is_written_whole_or_not_at_all(store):
    with pytest.raises(UsageError, match="cannot be written"):
        store.add_to_question("one", [RECORDS[0], change_record(RECORD, seed=object())])
    assert store.read_question("one") == []
    store.add_to_question("one", [RECORDS[0]])
    assert store.read_question("one") == [RECORDS[0]]


def test_a_merge_adds_records_and_asks_for_nothing(store, tmp_path):
    store.add_to_question("one", RECORDS[:2])
    other = tmp_path / "other.sqlite"
    with Store(other) as source:
        more = [change_record(RECORD, seed=seed) for seed in (20, 21)]
        source.add(more)
        source.add_to_question("one", more)
    store.close()
    assert stores.merge(store.path, [other]) == 2
    with Store(store.path, read_only=True) as merged:
        assert merged.read_question("one") == RECORDS[:2]
        assert len(merged) == 7
