"""What a strategy believed, in a run folder: `trace.json`, step by step, and `belief.json`, in the end. Its frozen
dataclasses as plain JSON, architectures as people write them."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from untrained._files import write_whole
from untrained.readers.json_file import parse_json
from untrained.types import Arch

TRACE, BELIEF = "trace.json", "belief.json"
Step = dict[str, Any]


def save(folder: Path, strategy: Any) -> None:
    """Write down what it tells, and nothing where it has nothing to tell."""
    believed = strategy.belief() if hasattr(strategy, "belief") else None
    for name, told in ((TRACE, list(getattr(strategy, "trace", ()))), (BELIEF, believed)):
        if told:
            write_whole(Path(folder, name), json.dumps(plain(told), indent=1) + "\n")


def read(folder: str | Path) -> list[Step]:
    """The steps, or none where nothing can be read: a report does without."""
    return _read(Path(folder, TRACE)) or []


def belief(folder: str | Path) -> dict[str, Any] | None:
    """What was believed in the end, or None where nothing can be read."""
    found: dict[str, Any] | None = _read(Path(folder, BELIEF))
    return found


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def plain(value: Any) -> Any:
    if isinstance(value, Arch):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
