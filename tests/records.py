"""Make and change records in tests without naming the request apart from the outcome."""

from dataclasses import fields, replace
from typing import Any

from untrained.types import Arch, Failure, Record, ScoreRequest, Task

_REQUEST_FIELDS = {field.name for field in fields(ScoreRequest)}


def make_record(
    arch: Arch,
    measure: str,
    task: Task,
    seed: int,
    value: float | None = None,
    error: Failure | None = None,
    **facts: Any,
) -> Record:
    """A record; `facts` are further fields of its request or of the record itself."""
    of_request = {name: fact for name, fact in facts.items() if name in _REQUEST_FIELDS}
    of_record = {name: fact for name, fact in facts.items() if name not in _REQUEST_FIELDS}
    return Record(ScoreRequest(arch, measure, task, seed, **of_request), value, error, **of_record)


def change_record(record: Record, **changes: Any) -> Record:
    """The record with other fields, of its request or its own."""
    of_request = {name: change for name, change in changes.items() if name in _REQUEST_FIELDS}
    of_record = {name: change for name, change in changes.items() if name not in _REQUEST_FIELDS}
    return replace(record, request=replace(record.request, **of_request), **of_record)
