"""The page of a run in progress. It has no script; the browser reloads it."""

from collections.abc import Sequence

from untrained import formatting
from untrained.formatting import format_count, format_duration, format_progress
from untrained.reports.contest_result import ContestEntry
from untrained.reports.live_summary import LivePhase, LiveSummary
from untrained.reports.pages.contest_section import make_selection_cell
from untrained.reports.pages.document import make_command_section, make_document, make_header
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_copyable,
    make_fact_list,
    make_html_cell,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.svg.plot import describe_direction

# The table of best scores shows at most this many rows, the latest ones.
MAX_IMPROVEMENTS = 12
# Phases whose units are training steps. Those of others are architectures or pictures.
_STEP_PHASES = ("training", "warming up")


def render_live_page(summary: LiveSummary) -> str:
    """Return the whole page."""
    sections = [
        _make_live_header(summary),
        _make_phase_section(summary),
        _make_best_section(summary),
        _make_entry_section(summary),
        _make_failure_section(summary),
        _make_time_section(summary),
        make_command_section(summary.command, note=""),
    ]
    headline = make_live_headline(summary)
    return make_document(summary.title, headline, sections, summary.reload_seconds)


def make_live_headline(summary: LiveSummary) -> str:
    """Return `Scoring: 40 of 100. Best score so far: 3.91.`"""
    if not summary.phases:
        text = "Starting."
    else:
        phase = summary.phases[-1]
        text = f"{phase.name.capitalize()}: {_format_done(phase)}."
    if summary.best is not None:
        text += f" Best score so far: {formatting.format_significant(summary.best.score)}."
    return text


def _make_live_header(summary: LiveSummary) -> str:
    parts = []
    kind = "search in progress"
    if summary.ending:
        kind = "search report"
        parts.append(make_paragraph(summary.ending, "warn"))
    if summary.notice:
        parts.append(make_paragraph(summary.notice, "warn"))
    if summary.reload_seconds is not None:
        note = (
            f"This page reloads every {summary.reload_seconds} seconds. At the end, the report of "
            "the search replaces it."
        )
        parts.append(make_paragraph(note, "note"))
    headline = make_live_headline(summary)
    return make_header(kind, summary.written_on, summary.title, headline, *parts)


def _make_phase_section(summary: LiveSummary) -> str:
    if not summary.phases:
        return ""
    rows = []
    for phase in summary.phases:
        left = DASH
        if phase.is_finished:
            left = "finished"
        elif phase.seconds_left is not None:
            left = f"about {format_duration(phase.seconds_left)}"
        cells = [
            make_text_cell(phase.name, ""),
            make_html_cell(_make_progress_bar(phase), ""),
            make_text_cell(_format_done(phase), "num"),
            make_text_cell(format_duration(phase.seconds), "num"),
            make_text_cell(left, "num"),
        ]
        rows.append(make_row(cells, "" if phase.is_finished else "first"))
    head = [("", "Phase"), ("", ""), ("num", "Done"), ("num", "Time"), ("num", "Left")]
    parts = [make_table("", head, rows)]
    if summary.metrics:
        parts.append(make_fact_list(dict(summary.metrics)))
    if summary.remark:
        parts.append(make_paragraph(summary.remark, "note"))
    return make_section("Progress", *parts)


def _make_progress_bar(phase: LivePhase) -> str:
    if phase.is_finished:
        return '<progress value="1" max="1"></progress>'
    if not phase.total:
        return "<progress></progress>"
    return f'<progress value="{min(phase.done, phase.total)}" max="{phase.total}"></progress>'


def _format_done(phase: LivePhase) -> str:
    text = format_progress(phase.done, phase.total, phase.is_percentage)
    if phase.name in _STEP_PHASES:
        text += " steps"
    return text


def _make_best_section(summary: LiveSummary) -> str:
    best = summary.best
    if best is None:
        return ""
    direction = describe_direction(summary.higher_is_better)
    score = formatting.format_number(best.score)
    text = f"Score {score} by {summary.proxy} ({direction}) in {summary.space}."
    parts = [make_paragraph(text), make_copyable(best.arch)]
    if len(summary.improvements) > 1:
        rows = []
        for count, value in summary.improvements[-MAX_IMPROVEMENTS:]:
            cells = [
                make_text_cell(f"{count:,}", "num"),
                make_text_cell(formatting.format_number(value), "num score"),
            ]
            rows.append(make_row(cells))
        head = [("num", "Architectures scored"), ("num", "Best score")]
        parts.append(make_table("", head, rows))
    return make_section("Best so far", *parts)


def _make_entry_section(summary: LiveSummary) -> str:
    """Return the networks of the contest: those that trained longer first, then by result."""
    if not summary.entries:
        return ""
    ordered = sorted(summary.entries, key=_get_entry_order)
    rows = []
    for entry in ordered:
        params = DASH
        if entry.params is not None:
            params = formatting.format_quantity(entry.params)
        cells = [
            make_text_cell(str(entry.number), "num soft"),
            make_selection_cell(entry),
            make_text_cell(params, "num"),
            make_text_cell(str(len(entry.rounds)), "num"),
            make_text_cell(format_duration(entry.seconds), "num"),
            make_text_cell(_format_result(entry), "num score"),
        ]
        rows.append(make_row(cells))
    head = [("num soft", "Network"), ("", "Selected as"), ("num", "Params"), ("num", "Rounds")]
    head += [("num", "Time"), ("num score", _make_result_title(summary.entries))]
    return make_section("Contest", make_table("", head, rows))


def _get_entry_order(entry: ContestEntry) -> tuple[int, float]:
    result = entry.last_round
    if result is None:
        return (0, 0.0)
    return (-len(entry.rounds), -result.rank_value)


def _make_result_title(entries: Sequence[ContestEntry]) -> str:
    """Return the heading of the results, which tell whether the networks predict numbers."""
    for entry in entries:
        if entry.last_round is not None and entry.last_round.rmse is not None:
            return "Validation RMSE"
        if entry.last_round is not None:
            return "Validation accuracy"
    return "Validation result"


def _format_result(entry: ContestEntry) -> str:
    if entry.last_round is None:
        return DASH
    return entry.last_round.text


def _make_failure_section(summary: LiveSummary) -> str:
    if not summary.failures:
        # After an error of the command, "so far" would contradict it.
        text = "No architecture failed." if summary.ending else "No failures so far."
        return make_section("Failures", make_paragraph(text))
    rows = []
    for failure in summary.failures:
        example = make_paragraph(failure.detail) + make_code(failure.arch)
        cells = [
            make_html_cell(make_code(failure.kind), ""),
            make_text_cell(f"{failure.count:,}", "num"),
            make_html_cell(example, "example"),
        ]
        rows.append(make_row(cells))
    head = [("", "Reason"), ("num", "Count"), ("", "First example")]
    return make_section("Failures", make_table("kinds", head, rows))


def _make_time_section(summary: LiveSummary) -> str:
    facts = {"This session": format_duration(summary.seconds)}
    if summary.earlier_seconds:
        # The scoring of an earlier session, or of this command before it trained the winner.
        facts["Scoring before"] = format_duration(summary.earlier_seconds)
    if summary.scored:
        facts["Scored"] = format_count(summary.scored, "architecture")
    return make_section("Cost", make_fact_list(facts))
