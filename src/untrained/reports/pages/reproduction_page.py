"""The page of `untrained reproduce`: a paper's numbers and ours side by side, and what was done differently.

Reads a `Reproduction` and turns it into text. Knows nothing of networks, tables or how anything was measured.
"""

from statistics import median

from untrained import _numbers
from untrained.papers._item import HEAD, Reproduction
from untrained.reports.pages.document import again, document, header, settings
from untrained.reports.pages.html import cell, paragraph, section, table
from untrained.reports.svg.figure import figure

_KINDS = ("", "num", "num score", "num soft", "num soft", "num", "soft")  # CSS classes of the columns


def render(found: Reproduction) -> str:
    """The whole page."""
    return document(
        f"{found.item}: {found.title}",
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


def headline(found: Reproduction) -> str:
    """How near ours come to the paper's, in a sentence."""
    off = [abs(line.difference) for line in found.lines if line.difference is not None]
    furthest = found.furthest
    if not off or furthest is None or furthest.difference is None:
        return "The paper gives no numbers to compare with."
    inside = [line.inside for line in found.lines if line.inside is not None]
    said = f"{len(off)} published numbers: ours differ by {_numbers.significant(median(off), 2)} in the middle"
    worst = f"at most by {_numbers.significant(max(off), 2)} ({furthest.what})"
    covered = f"; {sum(inside)} of {len(inside)} lie within our intervals" if inside else ""
    return f"{said}, {worst}{covered}."


def _about(found: Reproduction) -> str:
    unit = paragraph(f"Numbers: {found.unit}.", "note") if found.unit else ""
    return paragraph(f"{found.paper}. {found.about}") + unit


def _lines(found: Reproduction) -> str:
    """The lines; a column that no line fills is left out."""
    rows = found.written()
    filled = found.filled()
    head = [(_KINDS[i], HEAD[i].capitalize()) for i in filled]
    trs = [f"<tr>{''.join(cell(row[i], _KINDS[i]) for i in filled)}</tr>" for row in rows]
    said = "95 % is the interval over architectures, \u00b1 the standard deviation over seeds."
    measured = any(line.low is not None or line.spread is not None for line in found.lines)
    return section("The numbers", paragraph(said, "note") if measured else "", table("lines", head, trs))


def _pictures(found: Reproduction) -> str:
    drawn = [figure(picture) for picture in found.pictures]
    return section("The figure", f'<div class="pair">{"".join(drawn)}</div>') if any(drawn) else ""
