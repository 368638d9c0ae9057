"""Where the tests find real data: `../shared` beside the checkout, where it exists; else they are skipped."""

from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"
torch.set_num_threads(min(2, torch.get_num_threads()))  # OMP_NUM_THREADS=1 is heard


def shared(*parts: str) -> Path:
    """A file of shared reference data; the test that asks for it is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not here: shared/{'/'.join(parts)}")
    return path


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"
