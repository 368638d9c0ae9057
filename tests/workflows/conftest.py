"""Tables of known results, as for the benchmarks, and a space in a user's file."""

from pathlib import Path

import pytest

from tests.benchmarks.conftest import data_root as data_root
from tests.benchmarks.conftest import load_table as load_table

MINE = """
import untrained as ut
from torch import nn

@ut.space
def mynet(choose, task):
    layers, width = [nn.Flatten()], task.input_shape[0] * task.input_shape[1] * task.input_shape[2]
    for i in range(choose("depth", [1, 2, 3])):
        wide = choose(f"width{i}", [4, 16, 64])
        layers += [nn.Linear(width, wide), nn.ReLU()]
        width = wide
    return nn.Sequential(*layers, nn.Linear(width, task.num_classes))
"""


@pytest.fixture
def own_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a space into a file of the working directory and return its reference."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    return "./mine.py:mynet"
