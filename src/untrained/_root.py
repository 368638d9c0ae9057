"""Where data lie on this machine. Knows a path, nothing of what is there; needs no torch."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The user's cache folder: what is there can be made anew."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "untrained"


def data_root(root: str | Path | None = None) -> Path:
    """Where data sets and tables lie: `root`, else $UNTRAINED_DATA, else the user's cache folder."""
    return Path(root if root is not None else os.environ.get("UNTRAINED_DATA") or cache_root())
