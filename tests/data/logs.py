"""Small click logs in which every row can be identified after encoding."""

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
def make_log(rows: int = 300) -> list[tuple[int, str, float, int]]:
    """Return rows of click, user, price and count.

    Few users are frequent, many occur once. The price is the row number + 0.5, so it identifies
    the row.
    """
    rng = random.Random(5)
    users = [f"u{min(int(rng.expovariate(0.1)), 40)}" for _ in range(rows)]
    return [(int(rng.random() < 0.3), users[i], i + 0.5, rng.randrange(1000)) for i in range(rows)]


def format_rows(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return a line of a CSV file per row."""
    return [",".join(map(str, row)) for row in rows]


def write_csv(path: Path, rows: Sequence[str], header: str = HEADER) -> Path:
    """Write a CSV file and return its path."""
    path.write_bytes("\n".join([header, *rows, ""]).encode())
    return path


def open_table(path: Path, query: str = "") -> DataSource:
    """Open a CSV file as data; `query` holds the options after its name, such as `?floor=1`."""
    return load_data(f"csv:{path}{query}", ANY)


def read_parts(source: DataSource) -> dict[str, NDArray[np.float32]]:
    """Return all rows of each part in the order of the file; the last column is the label."""
    rows_by_part = {}
    for name, part in source.parts.items():
        blocks = []
        for batch in part.batches(64):
            blocks.append(np.c_[batch.inputs.numpy(), batch.targets.float().numpy()])
        rows_by_part[name] = np.concatenate(blocks)
    return rows_by_part


def find_row_numbers(
    parts: dict[str, NDArray[np.float32]], column: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Return the row number in the file of each encoded row.

    `column` is a column whose values grow with the row number.
    """
    order = np.argsort(np.concatenate([rows[:, column] for rows in parts.values()]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    cuts = np.cumsum([len(rows) for rows in parts.values()])[:-1]
    return dict(zip(parts, np.split(numbers, cuts), strict=True))


def list_problems(card: Card) -> list[str]:
    """Return the problems on a card as they are printed."""
    return [f"{place}: {reason}" for place, reason in card.problems]
