"""Where data lie on this machine. Knows a path, nothing of what is there; needs no torch."""

import os
from pathlib import Path


def data_root(root: str | Path | None = None) -> Path:
    """Where data sets and tables lie: `root`, else $UNTRAINED_DATA, else the user's cache folder."""
    if root is not None:
        return Path(root)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("UNTRAINED_DATA") or Path(cache) / "untrained")
