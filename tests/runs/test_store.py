"""The store returns records as they were written, and a key holds whatever a value depends on."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.helpers import ARCH, RECORD, TASK
from tests.records import change_record, make_record
from untrained import Arch, Task
from untrained.errors import UsageError
from untrained.runs.store import Store
from untrained.types import Failure

texts = st.text(max_size=12)
genes = st.lists(
    st.tuples(texts, st.integers(-9, 2**40) | st.floats(allow_nan=False) | texts), max_size=4
).map(tuple)
outcomes = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: {"value": value}),
    st.builds(Failure, st.sampled_from(["nan", "oom", "error"]), texts).map(
        lambda error: {"error": error}
    ),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(genes, texts, outcomes, st.lists(st.integers(1, 512), max_size=3), st.integers(0, 2**31))
def test_a_record_is_read_as_it_was_written(tmp_path_factory, genes, text, outcome, shape, seed):
    task = Task(text, tuple(shape), 7, "mse")
    record = make_record(
        Arch("s", genes, text),
        "p(a=1)@2",
        task,
        seed,
        **outcome,
        data="f",
        init="x",
        dtype="float64",
    )
    record = change_record(record, device="cuda", build_seconds=0.1, measure_seconds=1e-9)
    with Store(tmp_path_factory.getbasetemp() / f"{uuid4().hex}.sqlite") as store:
        store.add([record])
        (read,) = store
        assert read == record == store.get(record.key)
        assert str(read.arch) == str(record.arch)
        assert [type(choice) for _, choice in read.arch.genes] == [
            type(choice) for _, choice in genes
        ]


CHANGES: dict[str, Any] = {
    "arch": Arch("tiny", (("width", 3), ("kernel", 3)), "width=3,kernel=3"),
    "space": Arch("other", ARCH.genes, ARCH.text),
    "measure": "mine@2",
    "task": replace(TASK, num_classes=5),
    "input shape": replace(TASK, input_shape=(3, 8, 9)),
    "loss": replace(TASK, loss="mse"),
    "data": "e",
    "seed": 1,
    "init": "kaiming",
    "dtype": "float64",
    "device": "cuda",
}
FIELDS = {"space": "arch", "input shape": "task", "loss": "task"}


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_determines_a_value_is_part_of_its_key(tmp_path, name):
    other = change_record(RECORD, **{FIELDS.get(name, name): CHANGES[name]}, value=2.5)
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        assert store.get(other.key) is None
        store.add([other])
        assert len(store) == 2
        assert (store.get(RECORD.key), store.get(other.key)) == (RECORD, other)


def test_seconds_and_values_are_not_part_of_the_key_and_the_first_record_stays(tmp_path):
    later = change_record(RECORD, value=9.0, build_seconds=7.0, measure_seconds=7.0)
    failed = change_record(RECORD, value=None, error=Failure("nan"))
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        store.add([later, failed])
        assert list(store) == [RECORD]


def test_records_are_kept_in_the_order_of_writing_after_the_store_is_closed(tmp_path):
    records = [change_record(RECORD, seed=seed) for seed in (5, 1, 3)]
    with Store(tmp_path / "new" / "folder" / "s.sqlite") as store:
        store.add(records)
    with Store(tmp_path / "new" / "folder" / "s.sqlite") as store:
        assert list(store) == records


def test_either_all_records_of_a_call_are_written_or_none(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(UsageError, match="cannot be written"):
            store.add([RECORD, change_record(RECORD, seed=object())])
        assert len(store) == 0


def test_two_connections_may_write_the_same_store(tmp_path):
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as two:
        one.add([RECORD])
        two.add([change_record(RECORD, value=7.0), change_record(RECORD, seed=1)])
        assert list(one) == [RECORD, change_record(RECORD, seed=1)]
