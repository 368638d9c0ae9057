"""Where data sets and caches are on this machine."""

import os
from pathlib import Path


def find_cache_root() -> Path:
    """Return the folder for caches. Its content can be deleted at any time."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "untrained"


def find_data_root(root: str | Path | None = None) -> Path:
    """Return the folder of data sets and tables: `root`, else $UNTRAINED_DATA, else the cache."""
    if root is not None:
        return Path(root)
    return Path(os.environ.get("UNTRAINED_DATA") or find_cache_root())
