"""The page of `untrained reproduce`: published numbers beside ours, deviations from the paper."""

from statistics import median

from untrained import formatting
from untrained.reports.pages.document import (
    make_command_section,
    make_document,
    make_header,
    make_settings_section,
)
from untrained.reports.pages.html import (
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.reproduction_result import COLUMN_TITLES, ReproductionResult
from untrained.reports.svg.figure import draw_figure

# CSS classes of the columns of `COLUMN_TITLES`.
_COLUMN_CLASSES = ("", "num", "num score", "num soft", "num soft", "num", "soft")


def render_reproduction_page(result: ReproductionResult) -> str:
    """Return the whole page."""
    headline = make_reproduction_headline(result)
    deviations = [make_paragraph(sentence) for sentence in result.deviations]
    settings = {**result.settings, "time": formatting.format_duration(result.seconds)}
    note = "Resumes an interrupted run. Repeating a finished run gives the same numbers."
    sections = [
        make_header("reproduction", result.made_on, result.title, headline, _make_about(result)),
        _make_results_section(result),
        _make_figures_section(result),
        make_section("Deviations from the paper", *deviations),
        make_settings_section(settings, result.versions),
        make_command_section(result.command, note),
    ]
    return make_document(f"{result.experiment}: {result.title}", headline, sections)


def make_reproduction_headline(result: ReproductionResult) -> str:
    """Return a sentence that says how close our numbers are to those of the paper."""
    differences = []
    interval_checks = []
    for line in result.lines:
        if line.difference is not None:
            differences.append(abs(line.difference))
        if line.paper_in_interval is not None:
            interval_checks.append(line.paper_in_interval)
    worst = result.worst_line
    if not differences or worst is None:
        return "The paper gives no numbers to compare with."
    typical = formatting.format_significant(median(differences), 2)
    largest = formatting.format_significant(max(differences), 2)
    text = (
        f"{formatting.format_count(len(differences), 'published number')}: the median difference "
        f"is {typical}, the largest {largest} ({worst.what})"
    )
    # Without a confidence interval, a difference cannot be judged.
    if interval_checks:
        within_count = sum(interval_checks)
        text += f"; {within_count} of {len(interval_checks)} are within our confidence intervals"
    return f"{text}."


def _make_about(result: ReproductionResult) -> str:
    about = make_paragraph(f"{result.paper}. {result.about}")
    if result.unit:
        about += make_paragraph(f"Unit: {result.unit}.", "note")
    return about


def _make_results_section(result: ReproductionResult) -> str:
    """Return the section with all lines. A column without values is left out."""
    columns = result.find_filled_columns()
    head = [(_COLUMN_CLASSES[i], COLUMN_TITLES[i].capitalize()) for i in columns]
    rows = []
    for texts in result.format_lines():
        rows.append(make_row([make_text_cell(texts[i], _COLUMN_CLASSES[i]) for i in columns]))
    parts = []
    if any(line.low is not None or line.spread is not None for line in result.lines):
        note = (
            "95 % is the confidence interval over architectures, or over searches or seeds if the "
            "number is their mean; \u00b1 is the standard deviation over searches or seeds."
        )
        parts.append(make_paragraph(note, "note"))
    parts.append(make_table("lines", head, rows))
    return make_section("Results", *parts)


def _make_figures_section(result: ReproductionResult) -> str:
    figures = [draw_figure(plot) for plot in result.plots]
    if not any(figures):
        return ""
    return make_section("Figure", f'<div class="pair">{"".join(figures)}</div>')
