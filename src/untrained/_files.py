"""Files that are written whole or not at all, and rows as CSV."""

import csv
import os
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal keys; the keys are the first line."""
    out = StringIO()
    table = csv.DictWriter(out, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()
