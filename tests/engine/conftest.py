"""A file of the user with networks to score."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

NET = """
    import numpy as np
    import torch
    from torch import nn
    from helper_of_the_net import WIDTH

    def make():
        layers = [nn.Conv2d(3, WIDTH, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(4, 5))

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
    """A file of the user that imports another one from the same folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "helper_of_the_net", raising=False)
    (tmp_path / "helper_of_the_net.py").write_text("WIDTH = 4\n")
    (tmp_path / "net.py").write_text(dedent(NET))
    return tmp_path / "net.py"
