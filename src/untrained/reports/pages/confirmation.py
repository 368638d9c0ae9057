"""The section that says whether the proxy helped on the user's data, and on a table whether what was found is better
than what people made by hand. Reads a `Confirmation`."""

from collections.abc import Sequence
from html import escape
from statistics import fmean

from untrained._numbers import counted
from untrained.reports.pages.html import cell, code, html_cell, paragraph, section, table
from untrained.reports.summary import Summary
from untrained.studies.confirm import Group
from untrained.studies.references import COLUMNS, RATES, Entry


def confirmed(summary: Summary) -> str:
    """Mean and best of each group, what the differences are worth, and the winner; nothing where none was asked for."""
    found = summary.confirmed
    if found is None:
        return ""
    numbers = [("num", name) for name in ("Trained", "Mean", "Best", "Failed")]
    head = [("", "Chosen"), *numbers, ("", "All of them")]
    rows = table("", head, [_row(group) for group in found.groups])
    winner = f"<p>{escape(found.won)}: {code(found.winner)}</p>"
    held = "judged by AUC on the validation part" if found.entries else "a fifth of them held out and judged"
    note = (
        f"Each was trained for {counted(found.epochs, 'epoch')} on {found.samples:,} samples of {found.data}, {held}. "
        "The intervals take the networks of a group as drawn by chance and tell nothing of longer trainings."
    )
    trained = section("Confirmed by training", *map(paragraph, found.lines), rows, winner, paragraph(note, "note"))
    return trained + _references(found.entries)


def _references(entries: Sequence[Entry]) -> str:
    """The found network beside hand-made ones."""
    if not entries:
        return ""
    rows = table("", [("", "Network"), *(("num", name) for name in COLUMNS)], [_entry(entry) for entry in entries])
    note = (
        "All were trained on the same rows by the same recipe; the validation part chose their weights and of "
        f"{len(RATES)} learning rates the best for each, and the test part was read once by each. The last column "
        "compares row by row, with its 95 % interval."
    )
    return section("Beside networks made by hand", rows, paragraph(note, "note"))


def _entry(entry: Entry) -> str:
    if entry.error:
        return f"<tr>{cell(entry.name, '')}<td colspan={len(COLUMNS)}>{escape(entry.error)}</td></tr>"
    return f"<tr>{cell(entry.name, '')}{''.join(cell(text, 'num') for text in entry.told)}</tr>"


def _row(group: Group) -> str:
    known = group.known
    name = f"<b>{escape(group.name)}</b>, {escape(group.about)}"
    mean, best = (f"{of(known):.1f} %" if known else "\u2013" for of in (fmean, max))
    each = ", ".join("failed" if value is None else f"{value:.1f}" for value in group.reached)
    numbers = (f"{len(known)}", mean, best, str(len(group.reached) - len(known)))
    return f"<tr>{html_cell(name, '')}{''.join(cell(n, 'num') for n in numbers)}{cell(each, 'soft')}</tr>"
