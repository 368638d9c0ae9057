"""Sections about the scores: ranking, distribution, correlation with size, and failures."""

from collections.abc import Callable, Sequence
from html import escape
from statistics import median, quantiles
from typing import NamedTuple

from untrained import formatting
from untrained.benchmarks.statistics import spearman
from untrained.proxies.consensus import MIN_REFERENCE
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_collapsible,
    make_fact_list,
    make_html_cell,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.search_summary import FailedArch, RankedArch, SearchSummary
from untrained.reports.svg.plot import describe_direction
from untrained.reports.svg.ranking_charts import (
    TOP_COUNT,
    draw_histogram,
    draw_size_scatter,
    select_dots,
)

SHOWN_ROWS = 50  # of the ranking; the others are collapsed
SHOWN_ROWS_WITH_CONTEST = 10

GetSize = Callable[[RankedArch], float | None]
SIZES: dict[str, GetSize] = {
    "parameters": lambda row: row.params,
    "multiply-adds": lambda row: row.flops,
}

_SIZE_HEADINGS = {"parameters": "Params", "multiply-adds": "FLOPs"}


class _Column(NamedTuple):
    css_class: str
    name: str
    make_content: Callable[[RankedArch], str]


def make_ranking_section(summary: SearchSummary) -> str:
    """Return the section with the best architectures by score; the others are collapsed."""
    rows = summary.ranking
    if not rows:
        return make_section("Ranking", make_paragraph("No architecture has a score."))
    notes = [f"Best first; {describe_direction(summary.higher_is_better)}."]
    for consensus in summary.consensus:
        if consensus.label == summary.proxy:
            notes.append(consensus.scale)
    # With a hand-designed winner, `best` is only the best of the search.
    best_name = "winner"
    if summary.winner_name != summary.best:
        best_name = "best architecture"
    for row in rows[1:]:
        if row.arch == summary.best:
            notes.append(
                f"The {best_name} has rank {row.rank:,} by score: short trainings selected it."
            )
    if _list_spreads(summary):
        notes.append(
            f"Scores are means over {summary.seeds} seeds; "
            "\u00b1 is the 95 % confidence interval of the mean."
        )
        if any(row.tied for row in rows):
            notes.append(
                "= marks architectures that are not significantly worse than the best (95 %)."
            )
    if "multiply-adds" in _find_sizes(rows):
        notes.append("FLOPs count multiply-adds.")
    for note in summary.notes:
        notes.append(f"Some scores have a note: {note}.")
    shown_count = SHOWN_ROWS
    if summary.contest:
        shown_count = SHOWN_ROWS_WITH_CONTEST
    parts = [
        make_paragraph(" ".join(notes), "note"),
        _make_rank_table(summary, rows[:shown_count]),
    ]
    if len(rows) > shown_count:
        rest = _make_rank_table(summary, rows[shown_count:])
        parts.append(make_collapsible(f"The other {len(rows) - shown_count:,}", rest))
    return make_section("Ranking", *parts)


def _make_rank_table(summary: SearchSummary, rows: Sequence[RankedArch]) -> str:
    """Return a table of some rows of a ranking.

    Args:
        summary: The search. Its whole ranking decides the columns and the number of decimals. A
            column without values is left out.
        rows: The rows of the table.
    """
    ranking = summary.ranking
    # The visible and the collapsed table must have the same number of decimals.
    format_score = formatting.choose_column_format([row.score for row in ranking])
    spreads = _list_spreads(summary)
    format_spread = formatting.choose_column_format(spreads, digits=2)
    columns = [
        _Column("num soft", "Rank", _format_rank),
        _Column("arch", "Architecture", lambda row: make_code(row.arch)),
        _Column("num score", "Score", lambda row: format_score(row.score)),
    ]
    if spreads:
        columns.append(
            _Column("num soft", "\u00b1", lambda row: _format_or_dash(row.margin, format_spread))
        )
    for name, get_size in _find_sizes(ranking).items():
        columns.append(_make_size_column(_SIZE_HEADINGS[name], get_size))
    for index, label in enumerate(summary.other_proxies):
        columns.append(_make_other_column(label, index, ranking))
    lines = []
    for row in rows:
        cells = [make_html_cell(column.make_content(row), column.css_class) for column in columns]
        css_class = "first" if row.arch == summary.best else ""
        lines.append(make_row(cells, css_class))
    head = [(column.css_class, column.name) for column in columns]
    return make_table("rank", head, lines)


def _format_rank(row: RankedArch) -> str:
    if row.tied:
        return f"= {row.rank}"
    return str(row.rank)


def _make_other_column(label: str, index: int, ranking: Sequence[RankedArch]) -> _Column:
    """Return the column of a proxy of `--also`.

    Args:
        label: The proxy.
        index: Its position among the proxies of `--also`.
        ranking: The whole ranking, which decides the number of decimals.
    """
    values = []
    for row in ranking:
        value = row.other_scores[index]
        if value is not None:
            values.append(value)
    format_value = formatting.choose_column_format(values)
    return _Column("num", label, lambda row: _format_or_dash(row.other_scores[index], format_value))


def _make_size_column(name: str, get_size: GetSize) -> _Column:
    return _Column(
        "num", name, lambda row: _format_or_dash(get_size(row), formatting.format_quantity)
    )


def make_consensus_section(summary: SearchSummary) -> str:
    """Return one section per consensus, with its members and weights; empty for other proxies."""
    sections = []
    for consensus in summary.consensus:
        count = formatting.format_count(consensus.reference_size, "random network")
        origin = "come from the agreement between the members"
        if consensus.reference_size < MIN_REFERENCE:
            origin = "are equal, because so few networks do not show how far the members agree"
        note = (
            f"Each member ranks a network among {count} of the space. The score is the weighted "
            f"geometric mean of these percentiles. The weights {origin}; no network was trained "
            "for them."
        )
        rows = []
        for name, weight in consensus.weights:
            cells = [
                make_html_cell(make_code(name), ""),
                make_text_cell(formatting.format_percent(weight, 0), "num"),
            ]
            rows.append(make_row(cells))
        for name, reason in consensus.left_out:
            cells = [make_html_cell(make_code(name), ""), make_text_cell(f"none: it {reason}", "")]
            rows.append(make_row(cells))
        table = make_table("", [("", "Member"), ("num", "Weight")], rows)
        section = make_section(
            f"Members of {consensus.label}",
            make_paragraph(consensus.description),
            make_paragraph(note, "note"),
            table,
        )
        sections.append(section)
    return "".join(sections)


def make_distribution_section(summary: SearchSummary) -> str:
    """Return the section about the distribution of scores; empty with fewer than two."""
    rows = summary.ranking
    if len(rows) < 2:
        return ""
    scores = [row.score for row in rows]
    format_score = formatting.choose_column_format(scores)
    # `inclusive`, because these are all scores of the run and not a sample of them.
    low, middle, high = quantiles(scores, n=4, method="inclusive")
    facts = {
        "Best": format_score(scores[0]),
        "Median": format_score(middle),
        "Worst": format_score(scores[-1]),
        "Interquartile range": f"{format_score(low)} to {format_score(high)}",
    }
    spreads = _list_spreads(summary)
    if spreads:
        typical = formatting.choose_column_format(spreads, digits=2)(median(spreads))
        facts["Median standard deviation over seeds"] = typical
    chart = draw_histogram(rows, higher_is_better=summary.higher_is_better)
    figure = f"<figure>{chart}{_make_caption('', rows)}</figure>"
    pair = f'<div class="pair">{figure}{make_fact_list(facts)}</div>'
    return make_section("Score distribution", pair)


def make_size_section(summary: SearchSummary) -> str:
    """Return the section about score and size, with their correlation; empty with one score."""
    rows = summary.ranking
    if len(rows) < 2:
        return ""
    sizes = _find_sizes(rows)
    if not sizes:
        note = "Neither parameters nor multiply-adds were measured."
        return make_section("Score against size", make_paragraph(note))
    charts = []
    for name, get_size in sizes.items():
        charts.append(
            draw_size_scatter(
                rows,
                get_size,
                name,
                higher_is_better=summary.higher_is_better,
                winner=summary.best,
            )
        )
    correlations = _describe_correlations(rows, sizes)
    caption = f"{correlations} {_describe_omitted_dots(rows, summary.best)}".strip()
    pair = f'<div class="pair">{"".join(charts)}</div>'
    figure = f"<figure>{pair}{_make_caption(caption, rows)}</figure>"
    return make_section("Score against size", figure)


def _describe_correlations(rows: Sequence[RankedArch], sizes: dict[str, GetSize]) -> str:
    """Return the rank correlations of the score with each kind of size, and a conclusion."""
    correlations: dict[str, float] = {}
    for name, get_size in sizes.items():
        values = []
        scores = []
        for row in rows:
            value = get_size(row)
            if value is not None:
                values.append(value)
                scores.append(row.score)
        rank_correlation = spearman(values, scores)
        if rank_correlation is not None:
            correlations[name] = rank_correlation
    if not correlations:
        return ""
    texts = []
    strongest = 0.0
    for name, correlation in correlations.items():
        texts.append(f"{formatting.format_fixed(correlation, 2)} with {name}")
        strongest = max(strongest, abs(correlation))
    interpretation = _interpret_correlation(strongest)
    return f"Spearman rank correlation of the score: {', '.join(texts)}. {interpretation}"


def _interpret_correlation(strength: float) -> str:
    if strength >= 0.9:
        return "Size determines the ranking almost entirely."
    if strength >= 0.5:
        return "The ranking depends partly on size."
    return "The ranking depends little on size."


def make_failures_section(summary: SearchSummary) -> str:
    """Return the section about failures: the count and the first example of each kind."""
    if not summary.failed:
        return make_section("Failures", make_paragraph("There were no failures."))
    failures_by_kind: dict[str, list[FailedArch]] = {}
    for failed in summary.failed:
        failures_by_kind.setdefault(failed.kind, []).append(failed)
    # The most frequent kind comes first.
    rows = []
    for kind, failures in sorted(failures_by_kind.items(), key=lambda item: -len(item[1])):
        first = failures[0]
        detail = make_paragraph(first.detail or "No detail was recorded.")
        example = detail + make_code(first.arch) + _make_first_traceback(failures)
        cells = [
            make_html_cell(make_code(kind), ""),
            make_text_cell(f"{len(failures):,}", "num"),
            make_html_cell(example, "example"),
        ]
        rows.append(make_row(cells))
    note = (
        f"{len(summary.failed):,} of {summary.arch_count:,} architectures have no score and are "
        "not in the ranking."
    )
    head = [("", "Reason"), ("num", "Count"), ("", "First example")]
    return make_section("Failures", make_paragraph(note, "note"), make_table("kinds", head, rows))


def _make_first_traceback(failures: Sequence[FailedArch]) -> str:
    """Return the first traceback of these failures, collapsed; empty if there is none."""
    for failed in failures:
        if failed.trace:
            return make_collapsible("Traceback", f"<pre>{escape(failed.trace)}</pre>")
    return ""


def _find_sizes(rows: Sequence[RankedArch]) -> dict[str, GetSize]:
    """Return the kinds of size that at least one row has."""
    sizes = {}
    for name, get_size in SIZES.items():
        if any(get_size(row) is not None for row in rows):
            sizes[name] = get_size
    return sizes


def _list_spreads(summary: SearchSummary) -> list[float]:
    """Return the standard deviations over the seeds; empty with one seed."""
    if summary.seeds < 2:
        return []
    return [row.spread for row in summary.ranking if row.spread is not None]


def _format_or_dash(value: float | None, format_value: Callable[[float], str]) -> str:
    if value is None:
        return DASH
    return format_value(value)


def _describe_omitted_dots(rows: Sequence[RankedArch], winner: str) -> str:
    dot_count = len(select_dots(rows, winner))
    if dot_count == len(rows):
        return ""
    return f"{dot_count:,} of {len(rows):,} points are drawn."


def _make_caption(text: str, rows: Sequence[RankedArch]) -> str:
    """Return the caption of a chart, with a legend unless all rows are among the best ten."""
    parts = []
    if text:
        parts.append(make_paragraph(text))
    if len(rows) > TOP_COUNT:
        parts.append(f'<span class="dot"></span> the best {TOP_COUNT}')
    if not parts:
        return ""
    return f"<figcaption>{''.join(parts)}</figcaption>"
