"""A score is measured on the whole batch or not at all: what did not fit into memory is measured again."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.engine.helpers import ARCH, judge, tiny
from untrained import Probe, Record, score, search
from untrained.engine import Store
from untrained.proxies import load_proxy

SAMPLES = load_proxy("trace").samples


def find(folder: Path) -> dict[str, Record]:
    result = search(tiny, proxy="trace", data="noise", budget=3, run=folder)
    return {str(record.arch): record for record in result.records if record.proxy == "trace"}


def stored(folder: Path) -> dict[str, Record]:
    with Store(folder / "records.sqlite") as store:
        return {str(record.arch): record for record in store if record.proxy == "trace"}


@pytest.fixture
def little_memory(monkeypatch) -> pytest.MonkeyPatch:
    """A machine where the gradients of half of the samples fit and those of all do not, until it is undone."""
    real = Probe.kernel

    def kernel(probe, *args, **kwargs):
        if len(probe.batch) > SAMPLES // 2:
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return real(probe, *args, **kwargs)

    monkeypatch.setattr(Probe, "kernel", kernel)
    return monkeypatch


def test_trace_out_of_memory_is_a_failure_and_measured_when_memory_allows(tmp_path, little_memory):
    for record in find(tmp_path / "run").values():
        assert record.error is not None
        assert (record.error.kind, record.value) == ("oom", None)
    assert {record.error.kind for record in stored(tmp_path / "run").values()} == {"oom"}

    little_memory.undo()
    again = {arch: record.value for arch, record in find(tmp_path / "run").items()}
    undisturbed = {arch: record.value for arch, record in find(tmp_path / "undisturbed").items()}
    assert again == undisturbed
    assert None not in again.values()
    assert {arch: record.value for arch, record in stored(tmp_path / "run").items()} == undisturbed


def test_what_an_earlier_version_measured_on_half_of_the_samples_is_measured_again(tmp_path):
    undisturbed = {arch: record.value for arch, record in find(tmp_path / "undisturbed").items()}
    find(tmp_path / "run")
    halved = []
    for record in stored(tmp_path / "run").values():
        assert record.value is not None
        note = f"out of memory on {SAMPLES} samples: measured on {SAMPLES // 2}"
        halved.append(replace(record, value=2 * record.value, note=note))
    (tmp_path / "run" / "records.sqlite").unlink()
    with Store(tmp_path / "run" / "records.sqlite") as store:
        store.add(halved)

    assert {arch: record.value for arch, record in find(tmp_path / "run").items()} == undisturbed
    for arch, record in stored(tmp_path / "run").items():
        assert (record.value, record.note) == (undisturbed[arch], "")


def test_nothing_is_tried_on_fewer_samples():
    seen = []

    def starving(probe: Probe) -> float:
        seen.append(len(probe.batch))
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    (record,) = score(ARCH, judge(starving, samples=8), "noise", space=tiny)
    assert record.error is not None
    assert (record.error.kind, seen) == ("oom", [8])


def test_the_proxies_after_one_that_ran_out_of_memory_see_the_whole_batch():
    def starving(probe: Probe) -> float:
        raise MemoryError

    counting = judge(lambda probe: float(len(probe.batch)), samples=8)
    starved, counted = score(ARCH, [judge(starving, samples=8), counting], "noise", space=tiny)
    assert starved.error is not None
    assert (starved.error.kind, counted.value) == ("oom", 8.0)
