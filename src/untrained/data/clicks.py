"""`clicks`: a click log that is made up, with interactions planted in it. Any number of rows, the same ones every time.

    logit = bias + first order + second order + third order + gates
    first order   a weight of each identifier and of each dense column
    second order  <u_a, u_b> for two pairs of columns
    third order   sum_k p_k q_k r_k for one triple of columns, which no sum of pairs can say
    gates         a dense column times a weight of an identifier

`u`, `p`, `q`, `r` are drawn once for each identifier. A logistic regression sees the first order only. Since the truth
is known, so is the best log loss that anybody can reach.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained.data._options import split_query
from untrained.data._source import Source, source
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.table_card import TableCard
from untrained.errors import UsageError
from untrained.rng import generator
from untrained.types import Task

DENSE = 4
SIZES = (16, 16, 16, 16, 10, 10, 10, 100)
PAIRS, TRIPLE, GATES = ((0, 1), (2, 3)), (4, 5, 6), ((0, 4), (1, 7))
LATENT = 2
BIAS, FIRST, SECOND, THIRD, GATE = -1.4, 0.35, 0.8, 1.5, 0.8
ROWS = 20_000
FEWEST = 100


@source(
    "clicks",
    "a made-up click log with planted interactions, any number of rows: clicks, clicks:rows=100000",
    argument=True,
)
def clicks(argument: str, like: Task, root: Path) -> Source:
    from untrained.data._table import Rows, from_rows

    rows, seed = _said(argument)
    values, ids, logit = made(rows, seed)
    labels = generator("clicks", "labels", seed).random(rows) < 1 / (1 + np.exp(-logit))
    table = np.concatenate([values, ids, labels[:, None]], axis=1).astype(np.float32)
    cuts = [round(0.8 * rows), round(0.9 * rows)]  # rows are drawn alike, so their order is as good as any
    parts = {name: Rows(part) for name, part in zip((TRAIN, VAL, TEST), np.split(table, cuts), strict=True)}
    name = "clicks" + (f":{argument}" if argument else "")
    facts = {
        "rows": f"{rows:,} ({', '.join(f'{len(part):,} {name}' for name, part in parts.items())}), made up",
        "label": f"1 in {labels.mean():.1%} of the rows",
        "columns": f"{DENSE} dense, {len(SIZES)} of identifiers ({', '.join(map(str, SIZES))} different ones)",
        "planted": f"pairs {PAIRS}, triple {TRIPLE}, gates (dense, identifiers) {GATES}",
    }
    return from_rows(Task(name, (DENSE + len(SIZES),), 1, "bce", SIZES), parts, lambda: TableCard(name, facts))


def made(
    rows: int, seed: int = 0, block: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Dense columns (rows, 4), identifiers (rows, 8) and the true logits (rows,). What is planted depends on the seed
    alone: other blocks are more of the same log."""
    planted = generator("clicks", "planted", seed)
    weights = [planted.normal(size=size) for size in SIZES]
    slopes = planted.normal(size=DENSE)
    latent = [planted.normal(size=(size, LATENT)) for size in SIZES]
    gates = [planted.normal(size=SIZES[field]) for _, field in GATES]

    drawn = generator("clicks", "rows", seed, block)
    values = drawn.normal(size=(rows, DENSE))
    ids = np.stack([_zipf(drawn, size, rows) for size in SIZES], axis=1)
    at = [table[ids[:, i]] for i, table in enumerate(latent)]
    logit = BIAS + FIRST * (values @ slopes + sum(w[ids[:, i]] for i, w in enumerate(weights)))
    logit += SECOND * sum((at[a] * at[b]).sum(1) for a, b in PAIRS)
    logit += THIRD * np.prod([at[i] for i in TRIPLE], axis=0).sum(1)
    logit += GATE * sum(values[:, d] * gate[ids[:, i]] for (d, i), gate in zip(GATES, gates, strict=True))
    return values, ids, logit


def _zipf(drawn: np.random.Generator, size: int, rows: int) -> NDArray[np.int64]:
    """Identifiers of which the n-th comes 1 / sqrt(n) times as often as the first."""
    share = 1 / np.sqrt(np.arange(1, size + 1))
    return drawn.choice(size, rows, p=share / share.sum())


def _said(argument: str) -> tuple[int, int]:
    """`rows=100000,seed=3`."""
    said = {"rows": ROWS, "seed": 0}
    for word in filter(None, split_query(argument)[0].split(",")):
        name, _, text = word.partition("=")
        if name not in said or not text.isdecimal():
            raise UsageError(f"clicks cannot be made with {word!r}; write clicks:rows=100000,seed=1")
        said[name] = int(text)
    if said["rows"] < FEWEST:
        raise UsageError(f"{said['rows']} rows are too few to learn from; write clicks:rows={FEWEST} or more")
    return said["rows"], said["seed"]
