"""A file of the user's own."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

NET = """
    import numpy as np
    import torch
    from torch import nn
    from helper_beside_the_net import WIDTH

    def make():
        return nn.Sequential(nn.Conv2d(3, WIDTH, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def numpy_weights():
        model = make()
        torch.nn.init.constant_(model[0].weight, np.random.rand())
        return model

    def inner():
        raise ValueError("the weights are elsewhere")

    def boom():
        return inner()

    def number():
        return 3

    three = 3

    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no forward today")
"""


@pytest.fixture
def user_file(tmp_path, monkeypatch) -> Path:
    """A file of the user's own, with another beside it that it imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "helper_beside_the_net", raising=False)
    (tmp_path / "helper_beside_the_net.py").write_text("WIDTH = 4\n")
    (tmp_path / "net.py").write_text(dedent(NET))
    return tmp_path / "net.py"
