"""Networks of NAS-Bench-201 equal the official ones."""

import pytest

from tests.golden.spaces import check_network, read_golden_file
from untrained.spaces import load_space
from untrained.types import Task

pytestmark = pytest.mark.data
space = load_space("nasbench201")


def test_networks_equal_the_official_ones():
    entries = read_golden_file()["nats_tss_check"]["archs"]
    assert len(entries) == 4
    for entry in entries:
        task = Task("cifar10", tuple(entry["input_shape"][1:]), entry["num_classes"])
        check_network(space.build(space.parse(entry["name"]), task), entry)
