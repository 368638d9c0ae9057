"""NATS-Bench's size space: official networks, strings, published counts."""

import random

import numpy as np
import pytest
import torch

from tests.golden.spaces import check_network, read_golden_file
from untrained.drawings.diagrams import Stage
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.types import Batch, Task
from untrained.workflows.score import score_networks

space = load_space("nats_size")


@pytest.mark.data
@pytest.mark.parametrize("index", range(15))
def test_a_network_equals_the_official_one(index):
    entry = read_golden_file()["nats_sss"]["archs"][index]
    arch = space.parse(entry["name"].split(" ")[0])
    assert [width for _, width in arch.genes] == entry["choices"]
    task = Task("cifar10", tuple(entry["input_shape"][1:]), entry["num_classes"])
    check_network(space.build(arch, task), entry)


@pytest.mark.data
def test_all_golden_networks_are_tested_and_choices_are_made_in_the_official_order():
    """Six networks were samples by random.seed(301) and random.choice per position; the file has four."""
    names = [entry["name"] for entry in read_golden_file()["nats_sss"]["archs"]]
    assert len(names) == 15
    rng = random.Random(301)
    samples = [
        ":".join(str(c.value) for c in space.list_decisions(lambda _, widths: rng.choice(widths)))
        for _ in range(6)
    ]
    assert len(set(samples) & set(names)) == 4


def test_the_largest_network_has_the_published_counts():
    """SPACES.md: 64:64:64:64:64 has 713,674 parameters and 274.4 M multiply-adds on CIFAR-10."""
    batch = Batch(torch.zeros(1, 3, 32, 32, device="meta"), torch.zeros(1, device="meta"))
    probe = Probe(space.build(space.parse("64:64:64:64:64"), device="meta"), batch)
    assert probe.params == 713_674
    assert round(probe.macs / 1e6, 1) == 274.4


def test_a_string_with_colons_is_not_taken_for_a_file():
    (record,) = score_networks("64:64:64:64:64", "params", "noise", space="nats_size")
    assert record.value == 713_674


def test_the_space_has_32_768_distinct_members():
    archs = {str(arch) for arch in space}
    assert space.size == len(archs) == 32_768
    assert {"8:8:8:8:8", "64:64:64:64:64", "8:16:24:32:64"} <= archs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64:64:64:64", "':' and a width"),
        ("64:64:64:64:64:64", "the end"),
        ("64:64::64:64", "a width"),
        ("64:64:x:64:64", "a width"),
        ("", "a width"),
        ("64:64:12:64:64", "'cell2' is 12, but it can only be one of 8, 16"),
    ],
)
def test_malformed_strings_are_rejected(text, message):
    with pytest.raises(UsageError, match=message):
        space.parse(text)


def test_a_width_is_the_number_of_output_channels():
    """The third width is that of the output of the second cell."""

    def list_shapes(text):
        network = space.build(space.parse(text), device="meta")
        return {name: tuple(weight.shape) for name, weight in network.named_parameters()}

    shapes = list_shapes("8:16:24:32:40")
    other_shapes = list_shapes("8:16:48:32:40")
    changed = set()
    for name in shapes.keys() & other_shapes.keys():
        if shapes[name] != other_shapes[name]:
            changed.add(name.split(".")[1])
    assert changed == {"2", "3"}  # the second cell, and the residual block that reads it


def test_the_drawing_lists_the_stages():
    stages = space.draw(space.parse("8:16:24:32:40")).stages
    assert [stage.channels for stage in stages] == [8, 8, 16, 24, 32, 40]
    assert stages[2] == Stage("residual", 16, stride=2)


def test_mutation_changes_one_width():
    arch = space.parse("8:16:24:32:40")
    child = space.mutate(arch, np.random.default_rng(0))
    assert sum(a != b for a, b in zip(arch.genes, child.genes, strict=True)) == 1
