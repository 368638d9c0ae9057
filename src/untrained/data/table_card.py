"""The card of a table: its rows and columns, what was missing or bad, and what was done about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from untrained._numbers import counted
from untrained.data._schema import Dense, Identifiers, Schema

FEW = 30  # rows of the rarer label, below which an AUC says little: its deviation is about 0.05 then


@dataclass(frozen=True)
class TableCard:
    """Facts in a few words, what is said of each column, and what needs attention."""

    name: str
    facts: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[str]:
        return [self.name, *(f"  {name}: {text}" for name, text in self.facts.items())]

    def details(self) -> list[str]:
        """The rows, in columns of equal width."""
        if not self.rows:
            return []
        told = ([f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()] for row in self.rows)
        cells = [[*self.rows[0]], *told]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def table_card(name: str, schema: Schema) -> TableCard:
    rows, clicks = sum(schema.rows), sum(schema.clicks)
    parts = ", ".join(f"{n:,} {part}" for n, part in zip(schema.rows, ("train", "val", "test"), strict=True))
    facts = {
        "rows": f"{rows:,} ({parts}; split {schema.split})",
        "label": f"{schema.label}, 1 in {clicks / rows:.1%} of the rows",
        "columns": f"{len(schema.dense)} dense, {len(schema.identifiers)} identifiers, {len(schema.dropped)} dropped",
        "bad rows": f"{schema.bad:,}" + (", left out" if schema.bad else ""),
    }
    if told := _few(schema.rows[-1], schema.clicks[-1]):
        facts["caution"] = told
    if schema.dated:
        first, *more = schema.dated
        looks = f"{', '.join((first, *more))} look{'' if more else 's'} like a date"
        facts["proposed"] = f"time={first} after the ? of --data ({looks}; the last rows are judged then)"
    rows_of = [_dense(column, column.name in schema.moments) for column in schema.dense]
    rows_of += [_identifiers(column, schema.floor) for column in schema.identifiers]
    advice = [(column, told) for column, told in schema.advice]
    text = [(c.name, f"{c.text:,} values are text and count as missing") for c in schema.dense if c.text]
    dropped = [(column, f"dropped: {why}") for column, why in schema.dropped]
    bad = [(line, why.strip()) for line, _, why in (row.partition(":") for row in schema.bad_rows)]
    return TableCard(name, facts, tuple(rows_of), (*advice, *text, *dropped, *bad))


def _few(rows: int, clicks: int) -> str:
    """What those to be judged on cannot tell."""
    rarer, count = min(((1, clicks), (0, rows - clicks)), key=lambda found: found[1])
    if count >= FEW:
        return ""
    told = f"only {count} with the label {rarer}; their AUC will say little"
    return f"of {counted(rows, 'row')} to be judged on {told if count else f'none has the label {rarer}: no AUC'}"


def _dense(column: Dense, moment: bool) -> dict[str, Any]:
    unit = "microseconds since 1970, " if moment else ""
    treatment = f"{unit}{'log, ' if column.log else ''}mean {column.mean:.4g}, deviation {column.std:.4g}"
    return _row(column.name, "dense", "", column.missing, treatment)


def _identifiers(column: Identifiers, floor: int) -> dict[str, Any]:
    if column.vocabulary is None:
        hashed = f"hashed into {column.size:,}"
        return _row(column.name, "identifiers", f"{column.distinct:,} or more", column.missing, hashed)
    kept = column.size - 1
    treatment = "all kept" if kept == column.distinct else f"{kept:,} kept that come {floor} times or more"
    return _row(column.name, "identifiers", column.distinct, column.missing, treatment)


def _row(name: str, kind: str, distinct: int | str, missing: int, treatment: str) -> dict[str, Any]:
    return {"column": name, "kind": kind, "distinct": distinct, "missing": missing, "treatment": treatment}
