"""A store remembers which records a run requested, and in which order."""

import pytest

from tests.engine.helpers import RECORD
from tests.records import change_record
from untrained.errors import UsageError
from untrained.runs import store_files as stores
from untrained.runs.store import Store
from untrained.types import Failure

RECORDS = [change_record(RECORD, seed=seed, value=float(seed)) for seed in range(5)]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as opened:
        opened.add(RECORDS)
        yield opened


def test_a_search_has_its_own_records_in_the_order_of_requests(store):
    store.add_to_search("one", [RECORDS[3], RECORDS[1]])
    store.add_to_search("two", [RECORDS[1]])
    store.add_to_search("one", [RECORDS[1], RECORDS[0]])  # a record keeps its first place
    assert store.read_search("one") == [RECORDS[3], RECORDS[1], RECORDS[0]]
    assert store.read_search("two") == [RECORDS[1]]
    assert store.read_search("unknown") == []
    assert list(store) == RECORDS


def test_the_records_of_a_search_can_be_read_from_a_closed_store(store):
    store.add_to_search("one", RECORDS[::-1])
    store.close()
    with Store(store.path, read_only=True) as again:
        assert again.read_search("one") == RECORDS[::-1]


def test_a_record_that_is_not_in_the_store_is_not_added_to_a_search(store):
    store.add_to_search("one", [change_record(RECORD, measure="other@1")])
    assert store.read_search("one") == []


def test_a_repeated_measurement_replaces_a_failure_of_the_machine(store):
    failed = change_record(RECORD, seed=9, value=None, error=Failure("crashed"))
    store.add([failed])
    store.add_to_search("one", [failed])
    repeated = change_record(failed, value=2.0, error=None)
    store.add([repeated])
    assert store.read_search("one") == [repeated]


def test_either_all_records_are_added_to_a_search_or_none(store):
    with pytest.raises(UsageError, match="cannot be written"):
        store.add_to_search("one", [RECORDS[0], change_record(RECORD, seed=object())])
    assert store.read_search("one") == []
    store.add_to_search("one", [RECORDS[0]])
    assert store.read_search("one") == [RECORDS[0]]


def test_a_merge_adds_records_and_no_searches(store, tmp_path):
    store.add_to_search("one", RECORDS[:2])
    other = tmp_path / "other.sqlite"
    with Store(other) as source:
        more = [change_record(RECORD, seed=seed) for seed in (20, 21)]
        source.add(more)
        source.add_to_search("one", more)
    store.close()
    assert stores.merge_stores(store.path, [other]) == 2
    with Store(store.path, read_only=True) as merged:
        assert merged.read_search("one") == RECORDS[:2]
        assert len(merged) == 7
