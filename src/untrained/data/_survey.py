"""The first pass over a table: counts, vocabularies and statistics, in memory that does not grow with the file.

All that encodes a row is learned from the training part alone: what comes only in the others was never seen.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data import _values
from untrained.data._advice import DECIMAL_COMMA, Advice, advice
from untrained.data._options import Options
from untrained.data._reader import Bad, Table
from untrained.data._roles import HEAD, Roles
from untrained.data._schema import Dense, Identifiers, Schema, logarithm
from untrained.data._values import Keys, keys, numbers
from untrained.errors import UsageError
from untrained.rng import seed_for

SHARES = (0.8, 0.1, 0.1)  # of train, val and test, as in the paper of the reference networks
TRAIN_PART = 0
TOLERATED = 0.1  # the share of bad rows, and of text among numbers
Labels = NDArray[np.int64]
Split = Callable[[int, int], NDArray[np.int64]]  # the part of each row from the first number up to the second


def good(table: Table, roles: Roles, above: float | None, bad: Bad) -> Iterator[tuple[pa.RecordBatch, Labels]]:
    """Blocks without the rows that have no label, and the labels. A first block of which most have none tells that the
    column is no label; of later ones, which may be short, the count in the end decides."""
    for place, (block, lines) in enumerate(table.blocks(bad)):
        labels = _labels(block[roles.label], roles.label, above)
        if (unread := labels < 0).any():
            told = _values.texts(block[roles.label])
            if place == 0 and unread.mean() > 0.5:
                first = {told[row] for row in unread.nonzero()[0][:3]}
                kinds = ", ".join(sorted(repr(text) if text else "nothing" for text in first))
                wanted = "0 and 1, false and true or no and yes"
                more = "; more than two classes are not supported in a table" if len({*told} - {None}) > 2 else ""
                raise UsageError(f"the label {roles.label} holds {kinds}; wanted {wanted}{more}")
            for row in unread.nonzero()[0]:
                bad.add(int(lines[row]), f"the label {roles.label} is {told[row]!r}" if told[row] else "no label")
            block, labels = block.filter(pa.array(~unread)), labels[~unread]
        yield block, labels


def _labels(column: pa.Array, name: str, above: float | None) -> Labels:
    """0, 1, or -1 where there is none."""
    encoded = _values.strings(column).dictionary_encode(null_encoding="encode")
    rows = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    texts = _values.texts(encoded.dictionary)
    meanings = np.array([_values.label(text, above) for text in texts])
    if (odd := ~np.isnan(meanings) & (meanings != 0) & (meanings != 1)).any():
        typed = f"'csv:PATH?label={name}&above={_between(meanings[rows])}'"
        told = f"the label {name} is {texts[int(odd.argmax())]} somewhere"
        raise UsageError(f"{told}; wanted 0 and 1, or say which are 1: --data {typed}")
    coded: Labels = np.nan_to_num(meanings, nan=-1).astype(np.int64)
    return coded[rows]


def _between(values: NDArray[np.float64]) -> str:
    """A number that some of the values are above and others are not: the middle one where that will do."""
    low, middle, high = np.quantile(values[~np.isnan(values)], (0, 0.5, 1))
    short = f"{middle:.3g}"
    return short if low <= float(short) < high else f"{(low + high) / 2:.15g}"


# -------------------------------------------------------------------------------------------------------------- splits


def by_chance(start: int, stop: int) -> NDArray[np.int64]:
    """Parts that depend on the number of a row alone: it is scrambled (splitmix64) and cut at the shares."""
    mixed = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed_for("split"))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.searchsorted(np.cumsum(SHARES)[:-1], mixed / 2.0**64, side="right")


def by_time(table: Table, roles: Roles, above: float | None) -> Split:
    """The last rows are judged; equal moments go by their order in the file, and those without one are the first.
    Needs a pass of its own and some 17 bytes a row."""
    found = [_values.times(block[roles.time], roles.time) for block, _ in good(table, roles, above, Bad())]
    moments = np.nan_to_num(np.concatenate([*found, np.empty(0)]), nan=-np.inf)
    cuts = np.round(np.cumsum(SHARES)[:-1] * len(moments)).astype(int)
    parts = np.empty(len(moments), np.int8)
    for part, rows in enumerate(np.split(np.argsort(moments, kind="stable"), cuts)):
        parts[rows] = part
    return lambda start, stop: parts[start:stop].astype(np.int64)


# ------------------------------------------------------------------------------------------------------------- tallies


class Counting:
    """How often each identifier comes, up to `limit` different ones; then it stops and forgets."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._new: list[tuple[Keys, NDArray[np.int64]]] = []
        self.seen = self.missing = 0  # different ones when last looked
        self.full = False

    def add(self, column: pa.Array, learned: NDArray[np.bool_]) -> None:
        self.missing += column.null_count
        if self.full:
            return
        found, rows = keys(column)
        counts = np.bincount(rows[learned], minlength=len(found))
        self._new.append((found[counts > 0], counts[counts > 0]))
        if sum(len(new) for new, _ in self._new) > max(len(self._keys), 2**16):  # so each is sorted a few times only
            self.merge()

    def merge(self) -> tuple[Keys, NDArray[np.int64]]:
        """All identifiers in rising order, and their counts; none where there were too many."""
        if self.full:
            return self._keys, self._counts
        all_keys, all_counts = zip((self._keys, self._counts), *self._new, strict=True)
        self._keys, places = np.unique(np.concatenate(all_keys), return_inverse=True)
        self._counts = np.bincount(places, np.concatenate(all_counts), len(self._keys)).astype(np.int64)
        self._new, self.seen = [], len(self._keys)
        if self.seen > self._limit:
            self.full, self._keys, self._counts = True, np.empty(0, np.uint64), np.empty(0, np.int64)
        return self._keys, self._counts


class Moments:
    """Mean and deviation of a column, block by block (Chan, Golub and LeVeque's update)."""

    def __init__(self, log: bool) -> None:
        self.log = log
        self.count = self.missing = self.text = 0
        self.mean = self.squares = 0.0

    def add(self, column: pa.Array, learned: NDArray[np.bool_]) -> None:
        values, text = numbers(column)
        self.missing += int(np.isnan(values).sum())
        self.text += int(text.sum())
        values = logarithm(values[learned & ~np.isnan(values)], self.log)
        if new := len(values):
            apart, total = values.mean() - self.mean, self.count + new
            self.squares += float(((values - values.mean()) ** 2).sum() + apart**2 * self.count * new / total)
            self.mean += float(apart * new / total)
            self.count = total

    @property
    def std(self) -> float:
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0


# -------------------------------------------------------------------------------------------------------------- survey


def survey(table: Table, roles: Roles, options: Options) -> tuple[Schema, Split]:
    """What encodes the table, and which part each row is of."""
    split = by_time(table, roles, options.above) if roles.time else by_chance
    moments = {name: Moments(name in roles.logs) for name in roles.dense}
    counts = {name: Counting(options.hash) for name in roles.categorical}
    tallies: list[tuple[str, Moments | Counting]] = [*moments.items(), *counts.items()]
    rows, clicks, bad = np.zeros(3, np.int64), np.zeros(3, np.int64), Bad()
    advised: Advice = ()
    for block, labels in good(table, roles, options.above, bad):
        if not rows.any():
            advised = advice(block[:HEAD], labels[:HEAD], roles, options)
        parts = split(int(rows.sum()), int(rows.sum()) + len(block))
        for name, tally in tallies:
            tally.add(block[name], parts == TRAIN_PART)
        rows += np.bincount(parts, minlength=3)
        clicks += np.bincount(parts[labels == 1], minlength=3)
    _check_rows(table, rows, clicks, bad)
    dense, empty = _dense(moments, int(rows.sum()), roles)
    identifiers, useless = _identifiers(counts, options)
    if not dense and not identifiers:
        told = ", ".join(f"{name} ({why})" for name, why in (*roles.dropped, *empty, *useless))
        raise UsageError(f"{table.path} has no column left to learn from; dropped: {told or 'none'}")
    gone = dict((*empty, *useless))
    schema = Schema(
        label=roles.label,
        dense=tuple(dense),
        identifiers=tuple(identifiers),
        dropped=(*roles.dropped, *empty, *useless),
        rows=tuple(rows.tolist()),
        clicks=tuple(clicks.tolist()),
        split=f"by {roles.time}, the last are judged" if roles.time else "at random",
        floor=options.floor,
        bad=bad.count,
        bad_rows=tuple(bad.first),
        missing=table.missing,
        moments=tuple(name for name in roles.moments if name not in gone),
        dated=() if roles.time else roles.dated,
        decimal="," if options.comma else ".",
        advice=tuple((name, why) for name, why in advised if name not in gone or name in roles.commas),
    )
    return schema, split


def _check_rows(table: Table, rows: NDArray[np.int64], clicks: NDArray[np.int64], bad: Bad) -> None:
    total, ones = int(rows.sum()), int(clicks.sum())
    if bad.count > TOLERATED * (total + bad.count):
        told = f"{bad.count:,} of {total + bad.count:,} rows of {table.path} are bad"
        raise UsageError(f"{told}; {'; '.join(bad.first[:2])}. Mend the file, or say what its columns are")
    if total == 0:
        raise UsageError(f"{table.path} has a header and no rows")
    if ones in (0, total):
        raise UsageError(f"all {total:,} rows of {table.path} have the label {int(ones > 0)}; nothing can be learned")
    if rows.min() == 0 or clicks[TRAIN_PART] in (0, rows[TRAIN_PART]):
        raise UsageError(f"{total} rows of {table.path} are too few to learn from some and be judged on others")


def _dense(moments: dict[str, Moments], rows: int, roles: Roles) -> tuple[list[Dense], list[tuple[str, str]]]:
    kept, dropped = [], []
    for name, found in moments.items():
        if found.text > TOLERATED * (rows - found.missing + found.text):
            share = found.text / (rows - found.missing + found.text)
            instead = f"it {DECIMAL_COMMA}" if name in roles.commas else f"write categorical={name} or drop={name}"
            raise UsageError(f"{share:.0%} of the values of {name} are text; {instead}")
        if found.std > 0:
            kept.append(Dense(name, found.log, found.mean, found.std, found.missing, found.text))
        else:
            dropped.append((name, "one value only" if found.count else "no numbers"))
    return kept, dropped


def _identifiers(counts: dict[str, Counting], options: Options) -> tuple[list[Identifiers], list[tuple[str, str]]]:
    kept, dropped = [], []
    for name, counting in counts.items():
        found, often = counting.merge()
        words = found[often >= options.floor]
        if counting.full:
            kept.append(Identifiers(name, options.hash, counting.seen, counting.missing))
        elif counting.seen == 1:
            dropped.append((name, "one value only"))
        elif len(words) == 0:
            dropped.append((name, f"no value comes {options.floor} times"))
        else:
            kept.append(Identifiers(name, len(words) + 1, counting.seen, counting.missing, words))
    return kept, dropped
