"""The curve of a training for TensorBoard, which is an extra."""

from collections.abc import Mapping
from pathlib import Path

from untrained.errors import UsageError


class Board:
    """Writes every number of an epoch under its name."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError("--tensorboard needs one more package: pip install tensorboard") from error
        self._writer = SummaryWriter(str(folder))

    def add(self, row: Mapping[str, float]) -> None:
        for name in row.keys() - {"epoch"}:
            self._writer.add_scalar(name, row[name], int(row["epoch"]))
        self._writer.flush()
