"""The sections that show what was measured: the ranking, the scores, their relation to size, and what failed.

Reads a `Summary`; computes only what a reader needs to judge the ranking: quartiles, and rank correlations with size.
"""

from collections.abc import Callable, Sequence
from html import escape
from statistics import median, quantiles
from typing import NamedTuple

from untrained import _numbers
from untrained.benchmarks.statistics import spearman
from untrained.reports.pages.html import cell, code, facts, html_cell, paragraph, section, table
from untrained.reports.summary import Failed, Ranked, Summary
from untrained.reports.svg.charts import TOP, histogram, scatter, thinned
from untrained.reports.svg.plot import direction

SHOWN = 50  # rows of the ranking in plain sight; the rest folds away

Size = Callable[[Ranked], float | None]
SIZES: dict[str, Size] = {"parameters": lambda row: row.params, "multiply-adds": lambda row: row.flops}

_HEADS = {"parameters": "Params", "multiply-adds": "FLOPs"}


class _Column(NamedTuple):
    kind: str  # CSS classes
    name: str
    text: Callable[[Ranked], str]


def ranking(summary: Summary) -> str:
    """The first fifty in plain sight, the others folded away."""
    rows = summary.ranking
    if not rows:
        return section("Ranking", paragraph("There is nothing to rank."))
    notes = [f"Best first; {direction(summary.higher_is_better)}."]
    if _spreads(rows):
        notes.append(f"Scores are means over {summary.seeds} seeds, \u00b1 is the 95 % interval of the mean.")
        if any(row.tied for row in rows):
            notes.append("= marks what the seeds cannot tell from the best.")
    if "multiply-adds" in _measured(rows):
        notes.append("FLOPs count multiply-adds.")
    notes += [f"Of some scores must be said: {note}." for note in summary.notes]
    parts = [paragraph(" ".join(notes), "note"), _rank_table(rows, rows[:SHOWN])]
    if len(rows) > SHOWN:
        rest = _rank_table(rows, rows[SHOWN:])
        parts.append(f"<details><summary>The other {len(rows) - SHOWN:,}</summary>{rest}</details>")
    return section("Ranking", *parts)


def _rank_table(everything: Sequence[Ranked], rows: Sequence[Ranked]) -> str:
    """Number formats and columns follow the whole ranking; a column that no row fills is left out."""
    score, spread = _numbers.column([row.score for row in everything]), _numbers.column(_spreads(everything), digits=2)
    columns = [
        _Column("num soft", "Rank", lambda row: f"= {row.rank}" if row.tied else str(row.rank)),
        _Column("arch", "Architecture", lambda row: code(row.arch)),
        _Column("num score", "Score", lambda row: score(row.score)),
    ]
    if _spreads(everything):
        columns.append(_Column("num soft", "\u00b1", lambda row: _or_dash(row.margin, spread)))
    columns += [_size_column(_HEADS[name], of) for name, of in _measured(everything).items()]
    lines = ["".join(html_cell(column.text(row), column.kind) for column in columns) for row in rows]
    kinds = [' class="first"' if row is everything[0] else "" for row in rows]
    trs = [f"<tr{kind}>{line}</tr>" for kind, line in zip(kinds, lines, strict=True)]
    return table("rank", [(column.kind, column.name) for column in columns], trs)


def _size_column(name: str, of: Size) -> _Column:
    return _Column("num", name, lambda row: _or_dash(of(row), _numbers.quantity))


def distribution(summary: Summary) -> str:
    """How the scores lie; left out where there is nothing to compare."""
    rows = summary.ranking
    if len(rows) < 2:
        return ""
    scores = [row.score for row in rows]
    text = _numbers.column(scores)
    low, middle, high = quantiles(scores, n=4, method="inclusive")
    told = {"Best": text(scores[0]), "Median": text(middle), "Worst": text(scores[-1])}
    told["Middle half"] = f"{text(low)} to {text(high)}"
    if spreads := _spreads(rows):
        told["Typical \u00b1 over seeds"] = _numbers.column(spreads, digits=2)(median(spreads))
    chart = histogram(rows, higher_is_better=summary.higher_is_better)
    return section("Scores", f'<div class="pair"><figure>{chart}{_caption("", rows)}</figure>{facts(told)}</div>')


def size(summary: Summary) -> str:
    """Whether the score is more than a count of parameters or operations."""
    rows = summary.ranking
    if len(rows) < 2:
        return ""
    measured = _measured(rows)
    if not measured:
        return section("Score and size", paragraph("Neither parameters nor multiply-adds were measured."))
    charts = [scatter(rows, of, name, higher_is_better=summary.higher_is_better) for name, of in measured.items()]
    said = " ".join(part for part in (_correlations(rows, measured), _drawn(rows)) if part)
    return section(
        "Score and size", f'<figure><div class="pair">{"".join(charts)}</div>{_caption(said, rows)}</figure>'
    )


def _correlations(rows: Sequence[Ranked], measured: dict[str, Size]) -> str:
    """The rank correlation of the score with each size, and what the strongest one means."""
    found: dict[str, float] = {}
    for name, of in measured.items():
        pairs = [(value, row.score) for row in rows if (value := of(row)) is not None]
        rho = spearman([value for value, _ in pairs], [score for _, score in pairs])
        if rho is not None:
            found[name] = rho
    if not found:
        return ""
    told = ", ".join(f"{_numbers.fixed(rho, 2)} with {name}" for name, rho in found.items())
    return f"Spearman rank correlation of the score: {told}. {_verdict(max(map(abs, found.values())))}"


def _verdict(strength: float) -> str:
    if strength >= 0.9:
        return "This ranking is little more than a ranking by size."
    if strength >= 0.5:
        return "This ranking follows size in part."
    return "Size alone does not explain this ranking."


def failures(summary: Summary) -> str:
    """Each kind of failure with its count and its first example."""
    if not summary.failed:
        return section("What failed", paragraph("Nothing failed."))
    kinds: dict[str, list[Failed]] = {}
    for failed in summary.failed:
        kinds.setdefault(failed.kind, []).append(failed)
    lines = []
    for kind, group in sorted(kinds.items(), key=lambda item: -len(item[1])):
        example = paragraph(group[0].detail or "No detail was recorded.") + code(group[0].arch) + _trace(group)
        lines.append(
            f"<tr>{html_cell(code(kind), '')}{cell(f'{len(group):,}', 'num')}{html_cell(example, 'example')}</tr>"
        )
    total = len(summary.failed) + len(summary.ranking)
    note = f"{len(summary.failed):,} of {total:,} architectures have no score, and take no part in the ranking."
    head = [("", "Reason"), ("num", "Count"), ("", "First example")]
    return section("What failed", paragraph(note, "note"), table("kinds", head, lines))


def _trace(group: Sequence[Failed]) -> str:
    """The first trace of these failures, folded away."""
    first = next((failed.trace for failed in group if failed.trace), "")
    return f"<details><summary>Trace</summary><pre>{escape(first)}</pre></details>" if first else ""


def _measured(rows: Sequence[Ranked]) -> dict[str, Size]:
    return {name: of for name, of in SIZES.items() if any(of(row) is not None for row in rows)}


def _spreads(rows: Sequence[Ranked]) -> list[float]:
    return [row.spread for row in rows if row.spread is not None]


def _or_dash(value: float | None, text: Callable[[float], str]) -> str:
    return "\u2013" if value is None else text(value)


def _drawn(rows: Sequence[Ranked]) -> str:
    shown = len(thinned(rows))
    return f"{shown:,} of {len(rows):,} points are drawn." if shown < len(rows) else ""


def _caption(said: str, rows: Sequence[Ranked]) -> str:
    """The text under a chart, and the colour of the best ten where they are not all there is."""
    key = f'<span class="dot"></span> the best {TOP}' if len(rows) > TOP else ""
    parts = [paragraph(said)] if said else []
    return f"<figcaption>{''.join(parts)}{key}</figcaption>" if said or key else ""
