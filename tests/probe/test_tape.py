"""Tapes at another size are those that writing anew gives, or there are none."""

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
from untrained.rng import generator
from untrained.spaces import load_space
from untrained.spaces.block_templates import copy_from_template
from untrained.types import Task


def written(model: nn.Module, side: int, known: SignatureCache) -> Tape:
    tape = record_tape(model, torch.empty(1, 3, side, side, device=META), known, seed=0, read_logits=read_logits)
    assert isinstance(tape, Tape)
    return tape


def resized(model: nn.Module, side: int, known: SignatureCache) -> Tape | None:
    return written(model, 16, known).resize(torch.empty(1, 3, side, side, device=META), known)


@pytest.mark.parametrize("name", ["nasbench201(channels=4,cells=1)", "darts(channels=4,cells=3)"])
def test_networks_that_ask_for_no_sizes_are_written_once(name):
    space, known = load_space(name), SignatureCache()
    for seed in range(3):
        model = space.build(space.sample(generator("tape", seed)), Task("noise", (3, 16, 16), 10))
        found, expected = resized(model, 24, known), written(model, 24, known)
        assert found is not None
        assert_equal(found, expected)


SPACES = ["nasbench201(channels=4,cells=2)", "darts(channels=4,cells=3)", "autoformer_tiny(patch=4)"]


@pytest.mark.parametrize("name", SPACES)
def test_blocks_of_one_kind_are_run_once_and_write_what_each_would(name, monkeypatch):
    space, known = load_space(name), SignatureCache()
    models = [space.build(space.sample(generator("tape", seed)), Task("noise", (3, 16, 16), 10)) for seed in range(4)]
    found = [written(model, 16, known) for model in models]
    monkeypatch.setattr(recorder, "find_template", lambda block: None)
    for tape, model in zip(found, models, strict=True):
        expected = written(model, 16, known)
        assert_equal(tape, expected)
        assert tape.reads_sizes == expected.reads_sizes
        assert [feature[1:] for feature in tape.features] == [feature[1:] for feature in expected.features]
        for ours, theirs in zip(tape.features, expected.features, strict=True):
            assert_same_reference(ours.ref, theirs.ref)
    again = sum(program is not None for program in known.block_programs.values())
    assert (again > 5) == ("autoformer" not in name)  # its blocks cut their weights, and are run


def assert_same_reference(ours: ValueRef, theirs: ValueRef) -> None:
    assert ours == theirs if isinstance(ours, int) else torch.equal(ours, theirs)


def singles(call: TapeCall) -> list[TapeCall]:
    """The calls that a call stands for: those of a passage, with its references instead of numbers."""
    if not isinstance(call.instruction, BlockProgram):
        return [call]
    found, first = [], call.outputs[0]
    for told in call.instruction.calls:
        inputs = tuple(call.outputs[i] if i >= 0 else call.inputs[-1 - i] for i in told.inputs)
        outputs = tuple(range(first, first + len(told.instruction.new_values)))
        found += singles(TapeCall(told.instruction, inputs, outputs))
        first = outputs[-1] + 1
    return found


def assert_equal(ours: Tape, theirs: Tape) -> None:
    assert ours.output == theirs.output
    one_by_one = [[single for call in tape.calls for single in singles(call)] for tape in (ours, theirs)]
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


OTHERWISE: dict[str, Any] = {
    "asks": lambda x: F.relu(x) if x.shape[-1] > 20 else x * 2,
    "counts": lambda x: x * len(x[0, 0]),
    "asks a method": lambda x: x.reshape(1, x.size(1), -1),
    "splits": lambda x: sum(x.split(8, -1)),
    "wants 16": lambda x: x @ torch.ones(16, 2),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_networks_that_may_do_something_else_are_written_anew(what):
    assert resized(Net(OTHERWISE[what]), 24, SignatureCache()) is None


def test_what_is_overwritten_has_the_new_size():
    found = resized(nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(inplace=True), nn.Conv2d(2, 2, 3)), 24, SignatureCache())
    assert found is not None
    assert [call.instruction.inputs[0].shape[-1] for call in found.calls] == [24, 22, 22]


class Asking(nn.Module):
    """A block that asks for a size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(1, x.shape[1], -1)


def test_a_passage_remembers_that_its_block_asked_for_sizes():
    known, block = SignatureCache(), copy_from_template(Asking)
    for _ in range(2):  # run, and written down again
        assert written(nn.Sequential(block(), nn.Flatten()), 16, known).reads_sizes
    assert [program.reads_sizes for program in known.block_programs.values()] == [True]
