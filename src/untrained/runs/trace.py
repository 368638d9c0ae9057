"""Files in the run folder that describe what a strategy did, for the report.

`trace.json` holds one entry per step, `prediction.json` the predictions of the strategy's final
model. The strategy provides both as dataclasses. In the files, an architecture is the text that
`str(arch)` returns.
"""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from untrained.files import write_atomically
from untrained.readers.json_file import parse_json
from untrained.types import Arch

TRACE = "trace.json"
PREDICTION = "prediction.json"
TraceStep = dict[str, Any]


def write_trace(folder: Path, strategy: object) -> None:
    """Write the steps and the predictions of a strategy, if it has any."""
    steps = list(getattr(strategy, "trace", ()))
    if steps:
        _write_json(folder / TRACE, steps)
    predict = getattr(strategy, "predict_grid", None)
    if predict is not None:
        prediction = predict()
        if prediction:
            _write_json(folder / PREDICTION, prediction)


def read_trace(folder: str | Path) -> list[TraceStep]:
    """Read the steps of a strategy; an empty list if there are none or they cannot be read."""
    return _read_json(Path(folder, TRACE)) or []


def read_prediction(folder: str | Path) -> dict[str, Any] | None:
    """Read the prediction of a strategy; None if there is none or it cannot be read."""
    prediction: dict[str, Any] | None = _read_json(Path(folder, PREDICTION))
    return prediction


def _write_json(path: Path, value: object) -> None:
    write_atomically(path, json.dumps(_to_plain_data(value), indent=1) + "\n")


def _read_json(path: Path) -> Any:
    # A report is complete without these files, so a damaged one is not an error.
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _to_plain_data(value: object) -> object:
    """Return dataclasses as dictionaries and architectures as text, recursively."""
    if isinstance(value, Arch):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for field in fields(value):
            plain[field.name] = _to_plain_data(getattr(value, field.name))
        return plain
    if isinstance(value, list | tuple):
        return [_to_plain_data(entry) for entry in value]
    return value
