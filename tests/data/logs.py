"""Small click logs whose every row can be told apart after encoding, and a folder for what is made of them."""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untrained.data import Card, DataSource, load_data
from untrained.types import Task

ANY = Task("any", (1,), 1)
HEADER = "click,user,price,count"


@cache
def log(rows: int = 300) -> list[tuple[int, str, float, int]]:
    """Rows of click, user (few come often, many once), price (row number + 0.5, so that it tells the row) and count."""
    draw = random.Random(5)
    users = [f"u{min(int(draw.expovariate(0.1)), 40)}" for _ in range(rows)]
    return [
        (int(draw.random() < 0.3), users[i], i + 0.5, draw.randrange(1000)) for i in range(rows)
    ]


def lines(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [",".join(map(str, row)) for row in rows]


def write(path: Path, rows: Sequence[str], header: str = HEADER) -> Path:
    path.write_bytes("\n".join([header, *rows, ""]).encode())
    return path


def opened(path: Path, query: str = "") -> DataSource:
    return load_data(f"csv:{path}{query}", ANY)


def rows_of(source: DataSource) -> dict[str, NDArray[np.float32]]:
    """Every row of every part, the label last, in the order of the file."""
    found = {}
    for name, part in source.parts.items():
        batches = list(part.batches(64))
        found[name] = np.concatenate(
            [np.c_[batch.inputs.numpy(), batch.targets.float().numpy()] for batch in batches]
        )
    return found


def places(parts: dict[str, NDArray[np.float32]], column: int = 0) -> dict[str, NDArray[np.int64]]:
    """Which row of the file each encoded row was, by a column that grows with the row number."""
    order = np.argsort(np.concatenate([rows[:, column] for rows in parts.values()]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    cuts = np.cumsum([len(rows) for rows in parts.values()])[:-1]
    return dict(zip(parts, np.split(numbers, cuts), strict=True))


def said(card: Card) -> list[str]:
    """What needs attention, as it is printed."""
    return [f"{where}: {why}" for where, why in card.problems]
