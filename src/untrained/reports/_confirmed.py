"""The section that says whether the proxy helped on the user's data. Reads a `Confirmation`."""

from html import escape
from statistics import fmean

from untrained.reports._html import cell, code, paragraph, section, table
from untrained.reports.summary import Summary
from untrained.studies.confirm import Group


def confirmed(summary: Summary) -> str:
    """Mean and best of each group, what the differences are worth, and the winner; nothing where none was asked for."""
    found = summary.confirmed
    if found is None:
        return ""
    numbers = [("num", name) for name in ("Trained", "Mean", "Best", "Failed")]
    head = [("", "Chosen"), *numbers, ("", "All of them")]
    rows = table("", head, [_row(group) for group in found.groups])
    by = " and ".join(f"by {name}" if name != "random" else "at random" for name in found.by)
    winner = (
        f"<p>The winner of this run is the best of them all, with {found.reached:.1f} %, chosen {escape(by)}: "
        f"{code(found.winner)}</p>"
    )
    note = (
        f"Each was trained for {found.epochs} epochs on {found.samples:,} samples of {found.data}, a fifth of them "
        "held out and judged. The intervals take the networks of a group as drawn by chance and tell nothing of longer "
        "trainings."
    )
    return section("Confirmed by training", *map(paragraph, found.lines), rows, winner, paragraph(note, "note"))


def _row(group: Group) -> str:
    known = group.known
    name = f"<b>{escape(group.name)}</b>, {escape(group.about)}"
    mean, best = (f"{of(known):.1f} %" if known else "\u2013" for of in (fmean, max))
    each = ", ".join("failed" if value is None else f"{value:.1f}" for value in group.reached)
    numbers = (f"{len(known)}", mean, best, str(len(group.reached) - len(known)))
    return f"<tr>{cell(name, '')}{''.join(cell(n, 'num') for n in numbers)}{cell(each, 'soft')}</tr>"
