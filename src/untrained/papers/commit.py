"""Find the git commit of the code, for the pages of results."""

import os
import subprocess
from pathlib import Path

import untrained

COMMIT_VARIABLE = "UNTRAINED_COMMIT"


def read_commit() -> str:
    """Return the short hash of the commit that the package runs from.

    It ends in "+" if the package has changes that are not committed. Outside a git repository it is
    the value of the environment variable `UNTRAINED_COMMIT`, or empty.
    """
    package = Path(untrained.__file__).parent
    try:
        commit = _run_git(package, "rev-parse", "--short", "HEAD")
        changes = _run_git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return os.environ.get(COMMIT_VARIABLE, "")
    return f"{commit}+" if changes else commit


def _run_git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return completed.stdout.strip()
