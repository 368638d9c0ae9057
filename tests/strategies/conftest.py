"""A folder with a user's own space and proxy."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.strategies.helpers import MINE


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "mine.py").write_text(dedent(MINE))
    return tmp_path
