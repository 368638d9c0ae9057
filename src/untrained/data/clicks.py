"""`clicks`: a synthetic click log with known interactions between its columns.

    logit = bias + first order + second order + third order + gates

    first order   a weight per identifier and per dense column
    second order  <u_a, u_b> for two pairs of columns
    third order   sum_k p_k q_k r_k for one triple of columns, which no sum of pairs can express
    gates         a dense column times a weight of an identifier

`u`, `p`, `q` and `r` are drawn once for each identifier. A logistic regression sees the first order
only. Since the true probabilities are known, so is the lowest possible log loss.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.data.tables.card import TableCard
from untrained.errors import UsageError
from untrained.formatting import format_percent
from untrained.seeds import make_generator
from untrained.types import Task

DENSE_COLUMNS = 4
VOCABULARIES = (16, 16, 16, 16, 10, 10, 10, 100)
PAIRS = ((0, 1), (2, 3))  # columns of identifiers
TRIPLE = (4, 5, 6)
GATES = ((0, 4), (1, 7))  # a dense column and a column of identifiers
LATENT_SIZE = 2
BIAS = -1.4
# Factors of the terms of the logit.
FIRST_ORDER_FACTOR = 0.35
SECOND_ORDER_FACTOR = 0.8
THIRD_ORDER_FACTOR = 1.5
GATE_FACTOR = 0.8
DEFAULT_ROWS = 20_000
MIN_ROWS = 100


@register_source(
    "a synthetic click log with planted interactions, any number of rows: clicks, "
    "clicks:rows=100000",
    takes_argument=True,
    is_table=True,
)
def clicks(argument: str, like: Task, root: Path) -> DataSource:
    # Importing pyarrow and pandas takes a second, so it is done when a table is opened.
    from untrained.data.tables.source import TablePart, make_table_source

    rows, seed = _parse_argument(argument)
    dense, identifiers, logits = generate_clicks(rows, seed)
    probabilities = 1 / (1 + np.exp(-logits))
    labels = make_generator("clicks", "labels", seed).random(rows) < probabilities
    table = np.concatenate([dense, identifiers, labels[:, None]], axis=1).astype(np.float32)

    # Rows are independent of each other, so they can be split in order.
    train, val, test = np.split(table, [round(0.8 * rows), round(0.9 * rows)])
    parts = {TRAIN: TablePart(train), VAL: TablePart(val), TEST: TablePart(test)}

    name = "clicks"
    if argument:
        name = f"clicks:{argument}"
    counts = ", ".join(f"{len(part):,} {part_name}" for part_name, part in parts.items())
    sizes = ", ".join(map(str, VOCABULARIES))
    facts = {
        "rows": f"{rows:,} ({counts}), synthetic",
        "label": f"{format_percent(labels.mean())} of the rows are 1",
        "columns": f"{DENSE_COLUMNS} dense, {len(VOCABULARIES)} identifiers "
        f"({sizes} different values)",
        "planted": f"pairs {PAIRS}, triple {TRIPLE}, gates (dense, identifiers) {GATES}",
    }
    column_count = DENSE_COLUMNS + len(VOCABULARIES)
    task = Task(name, (column_count,), 1, "bce", VOCABULARIES)
    return make_table_source(task, parts, lambda: TableCard(name, facts))


def generate_clicks(
    rows: int, seed: int = 0, block: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Generate rows of the click log.

    Args:
        rows: Number of rows.
        seed: Seed of the weights and interactions.
        block: Index of a block of rows. Blocks of the same seed are different rows of the same log.

    Returns:
        Dense columns (rows, 4), identifiers (rows, 8) and the true logits (rows,).
    """
    weight_generator = make_generator("clicks", "planted", seed)
    weights = [weight_generator.normal(size=size) for size in VOCABULARIES]
    slopes = weight_generator.normal(size=DENSE_COLUMNS)
    latent_vectors = [weight_generator.normal(size=(size, LATENT_SIZE)) for size in VOCABULARIES]
    gate_weights = [weight_generator.normal(size=VOCABULARIES[column]) for _, column in GATES]

    row_generator = make_generator("clicks", "rows", seed, block)
    dense = row_generator.normal(size=(rows, DENSE_COLUMNS))
    columns = [_draw_identifiers(row_generator, size, rows) for size in VOCABULARIES]
    identifiers = np.stack(columns, axis=1)

    # Latent vectors of the identifiers of each row, (rows, LATENT_SIZE) per column.
    latent = [vectors[identifiers[:, column]] for column, vectors in enumerate(latent_vectors)]
    identifier_weights = sum(
        weight[identifiers[:, column]] for column, weight in enumerate(weights)
    )
    logits = BIAS + FIRST_ORDER_FACTOR * (dense @ slopes + identifier_weights)
    logits += SECOND_ORDER_FACTOR * sum((latent[a] * latent[b]).sum(1) for a, b in PAIRS)
    logits += THIRD_ORDER_FACTOR * np.prod([latent[column] for column in TRIPLE], axis=0).sum(1)
    gates = np.zeros(rows)
    for (dense_column, column), weight in zip(GATES, gate_weights, strict=True):
        gates = gates + dense[:, dense_column] * weight[identifiers[:, column]]
    logits += GATE_FACTOR * gates
    return dense, identifiers, logits


def _draw_identifiers(generator: np.random.Generator, size: int, rows: int) -> NDArray[np.int64]:
    """Draw identifiers; the n-th is 1 / sqrt(n) times as frequent as the first."""
    frequencies = 1 / np.sqrt(np.arange(1, size + 1))
    return generator.choice(size, rows, p=frequencies / frequencies.sum())


def _parse_argument(argument: str) -> tuple[int, int]:
    """Read rows and seed from an argument such as `rows=100000,seed=3`."""
    values = {"rows": DEFAULT_ROWS, "seed": 0}
    for word in argument.split(","):
        if not word:
            continue
        name, _, text = word.partition("=")
        if name not in values or not text.isdecimal():
            raise UsageError(
                f"clicks cannot be made with {word!r}; write clicks:rows=100000,seed=1"
            )
        values[name] = int(text)
    if values["rows"] < MIN_ROWS:
        raise UsageError(
            f"{values['rows']} rows are too few to learn from; write clicks:rows={MIN_ROWS} or more"
        )
    return values["rows"], values["seed"]
