"""The types, seeds and registry that every package uses."""

import ast
import hashlib
import json
import random
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from math import inf, nan
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untrained
from tests.records import change_record, make_record
from untrained.errors import Unscorable, UsageError, make_unknown_name_error
from untrained.registry import Registry
from untrained.seeds import derive_seed, make_generator, make_torch_generator
from untrained.types import (
    FAILURE_KINDS,
    Arch,
    Batch,
    Failure,
    Record,
    ScoreKey,
    ScoreRequest,
    Task,
    read_task_key,
)

ARCH = Arch("tower", (("depth", 2), ("rate", 0.5), ("kind", "plain")))
TASK = Task("noise", (3, 8, 8), 5)
RECORD = make_record(
    ARCH,
    "dextr(variant=published)@1",
    TASK,
    3,
    0.25,
    data="abc",
    build_seconds=1.5,
    measure_seconds=2.5,
)


# ---------------------------------------------------------------------------------------------------------------- seeds

parts = st.lists(st.text("abc|~+ 01", max_size=5) | st.integers(), min_size=1, max_size=4)


@settings(derandomize=True)
@given(parts)
def test_a_seed_is_the_hash_of_its_parts(values):
    """The first eight bytes of SHA-256 over the parts with a unit separator between, as a 63-bit number."""
    number = int(hashlib.sha256("\x1f".join(map(str, values)).encode()).hexdigest()[:16], 16)
    little = int.from_bytes(number.to_bytes(8, "big"), "little")
    assert derive_seed(*values) == little // 2
    assert 0 <= derive_seed(*values) < 2**63


def test_a_seed_does_not_depend_on_the_order_of_work():
    keys = [("weights", str(ARCH), 0), ("weights", str(ARCH), 1), ("plane", 0)]
    forwards = {key: derive_seed(*key) for key in keys}
    random.seed(0)
    torch.manual_seed(0)
    backwards = {key: derive_seed(*key) for key in reversed(keys)}
    assert forwards == backwards
    assert len(set(forwards.values())) == 3


def test_a_seed_is_the_same_in_another_process():
    code = "from untrained.seeds import derive_seed; print(derive_seed('weights', 'a', 0))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": h},
            capture_output=True,
            text=True,
            check=True,
        )
        for h in ("1", "2")
    ]
    assert [int(run.stdout) for run in runs] == [derive_seed("weights", "a", 0)] * 2


def test_different_parts_give_different_seeds():
    seeds = [
        derive_seed(*p)
        for p in (("a", "b"), ("ab",), ("b", "a"), ("a", "b", ""), ("a", "b", 0), ("a", "b", 1))
    ]
    assert len(set(seeds)) == len(seeds)
    assert derive_seed("a", 1) == derive_seed("a", "1")  # by their str


def test_generators_start_from_the_seed_and_leave_global_state_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert (
        make_generator("x", 1).random()
        == make_generator("x", 1).random()
        != make_generator("x", 2).random()
    )
    one, same, other = (torch.rand(3, generator=make_torch_generator("x", n)) for n in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert make_torch_generator("x", 1).initial_seed() == derive_seed("x", 1)
    assert torch.equal(state, torch.get_rng_state())


# ------------------------------------------------------------------------------------------------------------- registry


def test_a_registry_keeps_the_order_and_returns_its_members():
    registry: Registry[int] = Registry("thing")
    assert registry.add("zeta", 1) == 1
    registry.add("alpha", 2)
    assert dict(registry) == {"zeta": 1, "alpha": 2}
    assert list(registry) == ["zeta", "alpha"]
    assert len(registry) == 2
    assert "alpha" in registry
    assert "beta" not in registry
    assert registry.get("zeta") == 1


def test_a_name_can_be_registered_only_once():
    registry: Registry[int] = Registry("thing")
    registry.add("alpha", 1)
    with pytest.raises(ValueError, match="thing 'alpha' is registered twice"):
        registry.add("alpha", 2)
    assert registry["alpha"] == 1


def test_the_error_for_an_unknown_name_lists_close_names():
    registry: Registry[int] = Registry("thing")
    for name in ("alpha", "alphabet", "omega"):
        registry.add(name, 0)
    with pytest.raises(UsageError) as caught:
        registry["alpa"]
    assert str(caught.value) == "no thing is called 'alpa'; did you mean alpha or alphabet?"
    with pytest.raises(UsageError, match="available: alpha, alphabet, omega"):
        registry["xyz"]


def test_errors_name_their_kind():
    assert (
        str(make_unknown_name_error("proxy", "x", ["b", "a"]))
        == "no proxy is called 'x'; available: a, b"
    )
    assert str(Unscorable("nan")) == "nan"
    assert str(Unscorable("unsupported", "cummax")) == "unsupported: cummax"
    assert (Unscorable("oom", "why").kind, Unscorable("oom", "why").detail) == ("oom", "why")
    assert str(Failure("oom", "why")) == "oom: why"
    assert str(Failure("oom")) == "oom"


# -------------------------------------------------------------------------------------------------------- Arch and Task


def test_archs_are_compared_by_space_and_choices_only():
    same = Arch("tower", ARCH.genes, "another way to write it")
    assert same == ARCH
    assert hash(same) == hash(ARCH)
    assert len({same, ARCH}) == 1
    assert Arch("other", ARCH.genes) != ARCH
    assert Arch("tower", ARCH.genes[:2]) != ARCH


def test_an_arch_prints_its_notation_or_its_choices():
    assert str(ARCH) == "depth=2,rate=0.5,kind=plain"
    assert str(replace(ARCH, text="|none~0|")) == "|none~0|"
    assert (ARCH["depth"], ARCH["kind"]) == (2, "plain")
    with pytest.raises(KeyError):
        ARCH["width"]


@pytest.mark.parametrize(
    ("instance", "name"),
    [(ARCH, "space"), (TASK, "dataset"), (RECORD, "value"), (Failure("nan"), "kind")],
)
def test_instances_are_frozen(instance, name):
    with pytest.raises(FrozenInstanceError):
        setattr(instance, name, "x")


def test_a_task_prints_what_it_depends_on():
    assert str(TASK) == "noise:3x8x8:5:cross_entropy"
    assert len({str(TASK), str(replace(TASK, num_classes=6)), str(replace(TASK, loss="mse"))}) == 3


def test_a_batch_counts_and_moves_its_samples():
    batch = Batch(torch.zeros(4, 2), torch.arange(4))
    assert len(batch) == 4
    moved = batch.to("meta")
    assert (moved.inputs.device.type, moved.targets.device.type) == ("meta", "meta")


# --------------------------------------------------------------------------------------------------------------- Record


def test_a_record_holds_a_value_or_an_error():
    with pytest.raises(ValueError, match="a value or an error"):
        make_record(ARCH, "dextr@1", TASK, 0)
    with pytest.raises(ValueError, match="a value or an error"):
        make_record(ARCH, "dextr@1", TASK, 0, value=1.0, error=Failure("nan"))
    with pytest.raises(ValueError, match="a value or an error"):
        change_record(RECORD, value=None)
    assert change_record(RECORD, value=None, error=Failure("nan")).value is None
    assert make_record(ARCH, "dextr@1", TASK, 0, value=0.0).error is None  # zero is a score


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_score_must_be_finite(value):
    with pytest.raises(ValueError, match="is not a valid score; record it as a failure"):
        make_record(ARCH, "dextr@1", TASK, 0, value=value)


def test_a_record_knows_its_proxy():
    assert RECORD.proxy == "dextr(variant=published)"


@pytest.mark.parametrize(
    "record", [RECORD, change_record(RECORD, value=None, error=Failure("oom", "4 GB"))]
)
def test_a_row_is_json_and_complete(record):
    row = record.row()
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    expected = {
        "space": "tower",
        "arch": "depth=2,rate=0.5,kind=plain",
        "proxy": "dextr(variant=published)",
        "measure": "dextr(variant=published)@1",
        "task": "noise:3x8x8:5:cross_entropy",
        "seed": 3,
        "data": "abc",
        "build_seconds": 1.5,
        "measure_seconds": 2.5,
        "value": record.value,
        "error": "oom: 4 GB" if record.error else None,
    }
    assert expected.items() <= row.items()


# ------------------------------------------------------------------------------------------- ScoreRequest and failures


def test_a_request_is_not_a_record_and_has_no_value():
    request = ScoreRequest(ARCH, "dextr@1", TASK, 0)
    assert not isinstance(request, Record)
    assert not hasattr(request, "value")


def test_a_request_and_its_record_have_the_same_key():
    request = ScoreRequest(
        ARCH,
        "dextr@1",
        TASK,
        3,
        data="abc",
        init="warm",
        device="cuda",
        code="c0de",
        torch="2.8.0+cu128",
        networks_per_batch=64,
    )
    records = [
        Record.of(request, 0.5, note="n"),
        Record.of(request, Failure("nan"), measure_seconds=2.0),
    ]
    assert [(record.value, record.error) for record in records] == [
        (0.5, None),
        (None, Failure("nan")),
    ]
    assert {record.key for record in records} == {request.key}
    assert request.key == ScoreKey(
        space="tower",
        arch="depth=2,rate=0.5,kind=plain",
        measure="dextr@1",
        task='["noise", [3, 8, 8], 5, "cross_entropy"]',
        data="abc",
        init="warm",
        dtype="float32",
        device="cuda",
        seed=3,
        code="c0de",
        torch="2.8.0+cu128",
        networks_per_batch=64,
    )


@pytest.mark.parametrize(
    "task", [TASK, replace(TASK, vocabularies=(3, 40)), Task("x", (), 1, "mse")]
)
def test_a_task_can_be_read_from_a_key(task):
    assert read_task_key(ScoreRequest(ARCH, "m@1", task, 0).key.task) == task


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_kind_of_failure_can_be_made(kind):
    assert Failure(kind).kind == Unscorable(kind).kind == kind


@pytest.mark.parametrize("make", [Failure, Unscorable])
def test_another_kind_of_failure_is_an_error(make):
    with pytest.raises(
        ValueError, match="'slow' is not a kind of failure; available: crashed, disconnected, error"
    ):
        make("slow")


def test_every_kind_of_failure_is_used():
    """Every kind of failure occurs in the source code."""
    source = Path(untrained.__file__).parent
    used = set()
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                file.name != "types.py"
                and isinstance(node, ast.Constant)
                and node.value in FAILURE_KINDS
            ):
                used.add(node.value)
    assert used == set(FAILURE_KINDS)
