"""The folder of a user, and `untrained` in this process."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.helpers import MINE, Answer
from untrained.cli import main


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The folder of a user, with a file of theirs."""
    (tmp_path / "mine.py").write_text(dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def untrained_(project, monkeypatch, capsys) -> Callable[..., Answer]:
    """`untrained ARGUMENTS`, in this process: exit code, standard output, error stream."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["untrained", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return call
