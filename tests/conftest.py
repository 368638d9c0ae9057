"""Where the tests find real data: `../shared` beside the checkout, where it exists; else they are skipped."""

import os
from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"
torch.set_num_threads(min(2, os.cpu_count() or 1))


def shared(*parts: str) -> Path:
    """A file of shared reference data; the test that asks for it is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not here: shared/{'/'.join(parts)}")
    return path


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"
