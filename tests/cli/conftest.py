"""A project folder of a user, and the command line in this process."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.helpers import USER_FILE, CommandResult
from untrained.cli.app import main


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The folder of a user, which is the working directory and contains `mine.py`."""
    (tmp_path / "mine.py").write_text(dedent(USER_FILE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def run_cli(project, monkeypatch, capsys) -> Callable[..., CommandResult]:
    """Run `untrained ARGUMENTS` in this process; returns exit code, output and error stream."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["untrained", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main()
        code = exit_info.value.code or 0
        assert isinstance(code, int)
        out, err = capsys.readouterr()
        return code, out, err

    return run
