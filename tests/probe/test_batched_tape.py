"""A resized tape equals a tape that is recorded for that size."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe.batched import recorder
from untrained.probe.batched.block_programs import BlockProgram
from untrained.probe.batched.recorder import record_tape
from untrained.probe.batched.signatures import META, SignatureCache
from untrained.probe.batched.tape import Tape, TapeCall, ValueRef
from untrained.probe.passes import read_logits
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.spaces.block_templates import copy_from_template
from untrained.types import Task


def record_meta_tape(model: nn.Module, side: int, cache: SignatureCache) -> Tape:
    tape = record_tape(
        model, torch.empty(1, 3, side, side, device=META), cache, seed=0, read_logits=read_logits
    )
    assert isinstance(tape, Tape)
    return tape


def record_and_resize(model: nn.Module, side: int, cache: SignatureCache) -> Tape | None:
    return record_meta_tape(model, 16, cache).resize(
        torch.empty(1, 3, side, side, device=META), cache
    )


@pytest.mark.parametrize("name", ["nasbench201(channels=4,cells=1)", "darts(channels=4,cells=3)"])
def test_tapes_of_networks_that_read_no_sizes_can_be_resized(name):
    space = load_space(name)
    cache = SignatureCache()
    for seed in range(3):
        model = space.build(
            space.sample(make_generator("tape", seed)), Task("noise", (3, 16, 16), 10)
        )
        resized = record_and_resize(model, 24, cache)
        expected = record_meta_tape(model, 24, cache)
        assert resized is not None
        assert_equal_tapes(resized, expected)


SPACES = [
    "nasbench201(channels=4,cells=2)",
    "darts(channels=4,cells=3)",
    "autoformer_tiny(patch=4)",
]


@pytest.mark.parametrize("name", SPACES)
def test_equal_blocks_are_run_once_and_recorded_equally(name, monkeypatch):
    space = load_space(name)
    cache = SignatureCache()
    models = [
        space.build(space.sample(make_generator("tape", seed)), Task("noise", (3, 16, 16), 10))
        for seed in range(4)
    ]
    tapes = [record_meta_tape(model, 16, cache) for model in models]
    monkeypatch.setattr(recorder, "find_template", lambda block: None)
    for tape, model in zip(tapes, models, strict=True):
        expected = record_meta_tape(model, 16, cache)
        assert_equal_tapes(tape, expected)
        assert tape.reads_sizes == expected.reads_sizes
        assert [feature[1:] for feature in tape.features] == [
            feature[1:] for feature in expected.features
        ]
        for ours, theirs in zip(tape.features, expected.features, strict=True):
            assert_same_reference(ours.ref, theirs.ref)
    program_count = sum(program is not None for program in cache.block_programs.values())
    # Blocks of AutoFormer slice their weights, so they are always run.
    assert (program_count > 5) == ("autoformer" not in name)


def assert_same_reference(ours: ValueRef, theirs: ValueRef) -> None:
    assert ours == theirs if isinstance(ours, int) else torch.equal(ours, theirs)


def list_single_calls(call: TapeCall) -> list[TapeCall]:
    """List the calls that a call stands for; those of a block program get the references of the call."""
    if not isinstance(call.instruction, BlockProgram):
        return [call]
    single_calls = []
    first = call.outputs[0]
    for block_call in call.instruction.calls:
        inputs = tuple(
            call.outputs[i] if i >= 0 else call.inputs[-1 - i] for i in block_call.inputs
        )
        outputs = tuple(range(first, first + len(block_call.instruction.new_values)))
        single_calls += list_single_calls(TapeCall(block_call.instruction, inputs, outputs))
        first = outputs[-1] + 1
    return single_calls


def assert_equal_tapes(ours: Tape, theirs: Tape) -> None:
    assert ours.output == theirs.output
    one_by_one = [
        [single for call in tape.calls for single in list_single_calls(call)]
        for tape in (ours, theirs)
    ]
    for mine, other in zip(*one_by_one, strict=True):
        assert mine.instruction is other.instruction
        assert mine.outputs == other.outputs
        for a, b in zip(mine.inputs, other.inputs, strict=True):
            assert_same_reference(a, b)


class Net(nn.Module):
    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.function(x)
        return out.flatten(1)


SIZE_READERS: dict[str, Any] = {
    "asks": lambda x: F.relu(x) if x.shape[-1] > 20 else x * 2,
    "counts": lambda x: x * len(x[0, 0]),
    "asks a method": lambda x: x.reshape(1, x.size(1), -1),
    "splits": lambda x: sum(x.split(8, -1)),
    "wants 16": lambda x: x @ torch.ones(16, 2),
}


@pytest.mark.parametrize("name", SIZE_READERS)
def test_tapes_of_networks_that_read_sizes_cannot_be_resized(name):
    assert record_and_resize(Net(SIZE_READERS[name]), 24, SignatureCache()) is None


def test_overwritten_values_have_the_new_size():
    tape = record_and_resize(
        nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(inplace=True), nn.Conv2d(2, 2, 3)),
        24,
        SignatureCache(),
    )
    assert tape is not None
    assert [call.instruction.inputs[0].shape[-1] for call in tape.calls] == [24, 22, 22]


class ReadsSize(nn.Module):
    """A block that reads a size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(1, x.shape[1], -1)


def test_a_block_program_remembers_that_its_block_read_sizes():
    cache = SignatureCache()
    block = copy_from_template(ReadsSize)
    for _ in range(2):  # run, and written down again
        assert record_meta_tape(nn.Sequential(block(), nn.Flatten()), 16, cache).reads_sizes
    assert [program.reads_sizes for program in cache.block_programs.values()] == [True]
