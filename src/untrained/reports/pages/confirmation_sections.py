"""Sections about confirmation trainings: does the proxy help on the user's table?

The best network also competes with hand-designed ones.
"""

from html import escape
from statistics import fmean

from untrained.formatting import format_count
from untrained.reports.confirmation_result import (
    RATE_FACTORS,
    Confirmation,
    DesignResult,
    format_result,
)
from untrained.reports.group_comparison import TrainedGroup
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_html_cell,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.search_summary import SearchSummary
from untrained.types import TaskKind


def make_confirmation_sections(summary: SearchSummary) -> str:
    """Return the sections on confirmation: groups, comparisons, winner; empty without trainings."""
    confirmation = summary.confirmation
    if confirmation is None:
        return ""
    head = [("", "Selection")]
    head += [("num", name) for name in ("Trained", "Mean", "Best", "Not trained")]
    head.append(("", "Results"))
    rows = [_make_group_row(group, confirmation.kind) for group in confirmation.groups]
    table = make_table("", head, rows)
    winner = f"<p>{escape(confirmation.winner_text)}: {make_code(confirmation.best_arch)}</p>"
    if confirmation.winning_design:
        winner = make_paragraph(f"{confirmation.winner_text}.")
    note = (
        f"Each network was trained for {format_count(confirmation.epochs, 'epoch')} on "
        f"{confirmation.samples:,} samples of {confirmation.data} and evaluated by "
        f"{confirmation.kind.quality_title} on the validation data. The confidence intervals treat "
        "the networks of a group as a random sample. They do not predict the results of longer "
        "trainings."
    )
    sentences = [make_paragraph(line) for line in confirmation.sentences]
    section = make_section(
        "Contest: short trainings", *sentences, table, winner, make_paragraph(note, "note")
    )
    return section + _make_design_section(confirmation)


def _make_design_section(confirmation: Confirmation) -> str:
    """Return the section that compares the best architecture with hand-designed networks."""
    if not confirmation.entries:
        return ""
    head = [("", "Network"), *(("num", name) for name in confirmation.columns)]
    winner = confirmation.winner_entry
    rows = []
    for entry in confirmation.entries:
        rows.append(_make_entry_row(entry, confirmation, is_winner=entry == winner))
    table = make_table("", head, rows)
    note = (
        "All networks were trained on the same rows with the same recipe. The validation data "
        f"selected the weights, the best of {len(RATE_FACTORS)} learning rates (LR) and the "
        "winner. The test data were used once per network. The last column is the mean difference "
        f"in {confirmation.kind.loss_title} over the test rows, with its 95 % confidence interval."
    )
    return make_section(
        "Contest: comparison with hand-designed networks", table, make_paragraph(note, "note")
    )


def _make_entry_row(entry: DesignResult, confirmation: Confirmation, is_winner: bool) -> str:
    name = make_text_cell(entry.short_title, "")
    if is_winner:
        name = make_html_cell(f"<b>{escape(entry.short_title)}</b>, the winner", "")
    elif entry.violation:
        name = make_text_cell(f"{entry.short_title}, cannot win: {entry.violation}", "")
    if entry.error:
        return make_row(
            [name, f"<td colspan={len(confirmation.columns)}>{escape(entry.error)}</td>"]
        )
    return make_row(
        [name, *(make_text_cell(text, "num") for text in confirmation.format_cells(entry))]
    )


def _make_group_row(group: TrainedGroup, kind: TaskKind) -> str:
    values = group.finished_results
    mean = DASH
    best = DASH
    if values:
        mean = format_result(fmean(values), kind)
        best = format_result(max(values), kind)
    results = []
    reasons = group.reasons or ("failed",) * len(group.results)
    for value, reason in zip(group.results, reasons, strict=True):
        if value is None:
            results.append(reason or "failed")
        else:
            results.append(format_result(value, kind, unit=False))
    failed_count = len(group.results) - len(values)
    cells = [make_html_cell(f"<b>{escape(group.name)}</b>, {escape(group.about)}", "")]
    for number in (str(len(values)), mean, best, str(failed_count)):
        cells.append(make_text_cell(number, "num"))
    cells.append(make_text_cell(", ".join(results), "soft"))
    return make_row(cells)
