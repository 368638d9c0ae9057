"""NATS-Bench's size space: official networks, strings, published counts."""

import random

import numpy as np
import pytest
import torch

from tests.golden.spaces import check, golden
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.spaces.core.diagrams import Stage
from untrained.types import Batch, Task
from untrained.workflows.score import score_networks

space = load_space("nats_size")


@pytest.mark.data
@pytest.mark.parametrize("index", range(15))
def test_a_network_is_the_official_one(index):
    entry = golden()["nats_sss"]["archs"][index]
    arch = space.parse(entry["name"].split(" ")[0])
    assert [width for _, width in arch.genes] == entry["choices"]
    task = Task("cifar10", tuple(entry["input_shape"][1:]), entry["num_classes"])
    check(space.build(arch, task), entry)


@pytest.mark.data
def test_every_golden_network_is_rebuilt_and_the_random_ones_are_drawn_in_our_order():
    """The golden file's note: six by random.seed(301) and random.choice for each position; it holds four."""
    names = [entry["name"] for entry in golden()["nats_sss"]["archs"]]
    assert len(names) == 15
    rng = random.Random(301)
    drawn = [
        ":".join(str(c.value) for c in space.list_decisions(lambda _, widths: rng.choice(widths)))
        for _ in range(6)
    ]
    assert len(set(drawn) & set(names)) == 4


def test_the_published_count():
    """SPACES.md: 64:64:64:64:64 on CIFAR-10 has 713,674 parameters and 274.4 M multiply-adds."""
    batch = Batch(torch.zeros(1, 3, 32, 32, device="meta"), torch.zeros(1, device="meta"))
    probe = Probe(space.build(space.parse("64:64:64:64:64"), device="meta"), batch)
    assert probe.params == 713_674
    assert round(probe.macs / 1e6, 1) == 274.4


def test_a_string_with_colons_is_not_taken_for_a_file():
    (record,) = score_networks("64:64:64:64:64", "params", "noise", space="nats_size")
    assert record.value == 713_674


def test_there_are_32_768_each_once():
    archs = {str(arch) for arch in space}
    assert space.size == len(archs) == 32_768
    assert {"8:8:8:8:8", "64:64:64:64:64", "8:16:24:32:64"} <= archs


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("64:64:64:64", "':' and a width"),
        ("64:64:64:64:64:64", "the end"),
        ("64:64::64:64", "a width"),
        ("64:64:x:64:64", "a width"),
        ("", "a width"),
        ("64:64:12:64:64", "'cell2' is 12, but it can only be one of 8, 16"),
    ],
)
def test_other_strings_are_refused(text, says):
    with pytest.raises(UsageError, match=says):
        space.parse(text)


def test_a_width_is_that_of_a_layers_output():
    """Of the five, only the neighbours of a changed width change shape: the third is the second cell's output."""
    shapes = [
        {
            name: tuple(p.shape)
            for name, p in space.build(space.parse(text), device="meta").named_parameters()
        }
        for text in ("8:16:24:32:40", "8:16:48:32:40")
    ]
    changed = {
        name.split(".")[1]
        for name in shapes[0].keys() & shapes[1].keys()
        if shapes[0][name] != shapes[1][name]
    }
    assert changed == {"2", "3"}  # the second cell, and the residual block that reads it


def test_the_drawing_lists_the_stages():
    stages = space.draw(space.parse("8:16:24:32:40")).stages
    assert [stage.channels for stage in stages] == [8, 8, 16, 24, 32, 40]
    assert stages[2] == Stage("residual", 16, stride=2)


def test_mutation_changes_one_width():
    arch = space.parse("8:16:24:32:40")
    child = space.mutate(arch, np.random.default_rng(0))
    assert sum(a != b for a, b in zip(arch.genes, child.genes, strict=True)) == 1
