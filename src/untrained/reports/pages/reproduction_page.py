"""The page of `untrained reproduce`: a paper's numbers and ours side by side, and what was done differently.

Reads a `ReproductionResult` and turns it into text. Knows nothing of networks, tables or how anything was measured.
"""

from statistics import median

from untrained import _numbers
from untrained.reports.pages.document import again, document, header, settings
from untrained.reports.pages.html import cell, paragraph, section, table
from untrained.reports.reproduction_facts import COLUMN_TITLES, ReproductionResult
from untrained.reports.svg.figure import figure

_KINDS = ("", "num", "num score", "num soft", "num soft", "num", "soft")  # CSS classes of the columns


def render(found: ReproductionResult) -> str:
    """The whole page."""
    return document(
        f"{found.experiment}: {found.title}",
        headline(found),
        [
            header("reproduction", found.made_on, found.title, headline(found), _about(found)),
            _lines(found),
            _pictures(found),
            section("What is different", *(paragraph(said) for said in found.deviations)),
            settings({**found.settings, "time": _numbers.duration(found.seconds)}, found.versions),
            again(found.command, "Goes on where it was stopped, and gives the same numbers again."),
        ],
    )


def headline(found: ReproductionResult) -> str:
    """How near ours come to the paper's, in a sentence."""
    off = [abs(line.difference) for line in found.lines if line.difference is not None]
    worst = found.worst_line
    if not off or worst is None or worst.difference is None:
        return "The paper gives no numbers to compare with."
    inside = [line.paper_in_interval for line in found.lines if line.paper_in_interval is not None]
    said = f"{len(off)} published numbers: ours differ by {_numbers.significant(median(off), 2)} in the middle"
    most = f"at most by {_numbers.significant(max(off), 2)} ({worst.what})"
    covered = f"; {sum(inside)} of {len(inside)} lie within our intervals" if inside else ""
    return f"{said}, {most}{covered}."


def _about(found: ReproductionResult) -> str:
    unit = paragraph(f"Numbers: {found.unit}.", "note") if found.unit else ""
    return paragraph(f"{found.paper}. {found.about}") + unit


def _lines(found: ReproductionResult) -> str:
    """The lines; a column that no line fills is left out."""
    rows = found.format_lines()
    filled = found.filled_columns()
    head = [(_KINDS[i], COLUMN_TITLES[i].capitalize()) for i in filled]
    trs = [f"<tr>{''.join(cell(row[i], _KINDS[i]) for i in filled)}</tr>" for row in rows]
    said = "95 % is the interval over architectures, \u00b1 the standard deviation over seeds."
    measured = any(line.low is not None or line.spread is not None for line in found.lines)
    return section("The numbers", paragraph(said, "note") if measured else "", table("lines", head, trs))


def _pictures(found: ReproductionResult) -> str:
    drawn = [figure(plot) for plot in found.plots]
    return section("The figure", f'<div class="pair">{"".join(drawn)}</div>') if any(drawn) else ""
