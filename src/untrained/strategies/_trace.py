"""What a strategy believed, as `trace.json` of a run folder: its frozen dataclasses as plain JSON, architectures as
people write them."""

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from untrained._files import write_whole
from untrained.types import Arch

FILE = "trace.json"
Step = dict[str, Any]


def save(folder: Path, trace: Iterable[Any]) -> None:
    """Write it, unless there is nothing to tell."""
    steps = [plain(step) for step in trace]
    if steps:
        write_whole(Path(folder, FILE), json.dumps(steps, indent=1) + "\n")


def read(folder: str | Path) -> list[Step]:
    """The steps, or none where nothing can be read: a report does without."""
    try:
        steps: list[Step] = json.loads(Path(folder, FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return steps


def plain(value: Any) -> Any:
    if isinstance(value, Arch):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
