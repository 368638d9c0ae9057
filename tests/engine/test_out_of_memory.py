"""A score is measured on the whole batch or not at all.

A failure by lack of memory is tried again in the next run.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.engine.helpers import ARCH, make_proxy, tiny
from untrained import Probe, Record, search
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.workflows.score import score_networks

SAMPLES = load_proxy("trace").samples


def run_search(folder: Path) -> dict[str, Record]:
    result = search(tiny, proxy="trace", data="noise", budget=3, run=folder)
    return {str(record.arch): record for record in result.records if record.proxy == "trace"}


def read_store(folder: Path) -> dict[str, Record]:
    with Store(folder / "records.sqlite") as store:
        return {str(record.arch): record for record in store if record.proxy == "trace"}


@pytest.fixture
def little_memory(monkeypatch) -> pytest.MonkeyPatch:
    """A machine with memory for the gradients of half of the samples, until the patch is undone."""
    real = Probe.kernel

    def kernel(probe, *args, **kwargs):
        if len(probe.batch) > SAMPLES // 2:
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return real(probe, *args, **kwargs)

    monkeypatch.setattr(Probe, "kernel", kernel)
    return monkeypatch


def test_trace_out_of_memory_is_a_failure_and_measured_when_memory_allows(tmp_path, little_memory):
    for record in run_search(tmp_path / "run").values():
        assert record.error is not None
        assert (record.error.kind, record.value) == ("oom", None)
    assert {record.error.kind for record in read_store(tmp_path / "run").values()} == {"oom"}

    little_memory.undo()
    again = {arch: record.value for arch, record in run_search(tmp_path / "run").items()}
    expected = {arch: record.value for arch, record in run_search(tmp_path / "expected").items()}
    assert again == expected
    assert None not in again.values()
    assert {arch: record.value for arch, record in read_store(tmp_path / "run").items()} == expected


def test_records_of_earlier_versions_on_half_of_the_samples_are_measured_again(tmp_path):
    expected = {arch: record.value for arch, record in run_search(tmp_path / "expected").items()}
    run_search(tmp_path / "run")
    halved = []
    for record in read_store(tmp_path / "run").values():
        assert record.value is not None
        note = f"out of memory on {SAMPLES} samples: measured on {SAMPLES // 2}"
        halved.append(replace(record, value=2 * record.value, note=note))
    (tmp_path / "run" / "records.sqlite").unlink()
    with Store(tmp_path / "run" / "records.sqlite") as store:
        store.add(halved)

    assert {arch: record.value for arch, record in run_search(tmp_path / "run").items()} == expected
    for arch, record in read_store(tmp_path / "run").items():
        assert (record.value, record.note) == (expected[arch], "")


def test_no_second_attempt_is_made_on_fewer_samples():
    sample_counts = []

    def starving(probe: Probe) -> float:
        sample_counts.append(len(probe.batch))
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    (record,) = score_networks(ARCH, make_proxy(starving, samples=8), "noise", space=tiny)
    assert record.error is not None
    assert (record.error.kind, sample_counts) == ("oom", [8])


def test_proxies_after_one_that_ran_out_of_memory_see_the_whole_batch():
    def starving(probe: Probe) -> float:
        raise MemoryError

    counting = make_proxy(lambda probe: float(len(probe.batch)), samples=8)
    starved, counted = score_networks(
        ARCH, [make_proxy(starving, samples=8), counting], "noise", space=tiny
    )
    assert starved.error is not None
    assert (starved.error.kind, counted.value) == ("oom", 8.0)
