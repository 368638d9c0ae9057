"""The commit of the code, which a page of results states."""

import os
import subprocess
from pathlib import Path

import untrained

COMMIT_VARIABLE = "UNTRAINED_COMMIT"


def read_commit() -> str:
    """Return the short commit of the clone that the package runs from; empty if it is in none.

    A commit that ends in "+" has changes in the package that are not committed. A copy of a clone
    without its `.git` may name its commit in the environment variable `UNTRAINED_COMMIT`.
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
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
