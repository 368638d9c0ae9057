"""The page of a run: its best architecture, its ranking and the evidence beside it.

Reads a `Summary` and turns it into text. Knows nothing of stores, strategies or networks, and writes no file.
"""

from collections.abc import Sequence
from html import escape

from untrained import _numbers
from untrained._numbers import counted
from untrained.reports.drawings.draw import draw
from untrained.reports.pages.confirmation import confirmed
from untrained.reports.pages.document import again, cost, document, header, settings, together
from untrained.reports.pages.evidence import SIZES, distribution, failures, ranking, size
from untrained.reports.pages.html import cell, copyable, either, paragraph, section, table
from untrained.reports.pages.search_course import course, front, limits
from untrained.reports.pages.strategy_trace import beliefs
from untrained.reports.pages.training_sections import headline as reached
from untrained.reports.pages.training_sections import trained
from untrained.reports.summary import Summary, Worker
from untrained.reports.svg.plot import direction


def render(summary: Summary) -> str:
    """The whole page."""
    found = (_best, _trained, confirmed, limits, ranking, front, course, distribution, size, failures, beliefs)
    parts = (_header, *found, _cost, _settings, _again)
    return document(summary.title, headline(summary), [part(summary) for part in parts])


def headline(summary: Summary) -> str:
    """The result in one sentence: `Best of 100: score 3.91, 1.07 M parameters, 154 M multiply-adds.`"""
    if not summary.ranking:
        tried = len(summary.failed)
        return f"No architecture has a score: {tried} tried, {tried} failed." if tried else "Nothing was scored."
    archs, count = [row.arch for row in summary.ranking], f"{len(summary.ranking):,}"
    place = archs.index(summary.best) if summary.best in archs else 0
    best = summary.ranking[place]
    told = [f"score {_numbers.significant(best.score)}"]
    told += [f"{_numbers.quantity(value)} {name}" for name, of in SIZES.items() if (value := of(best)) is not None]
    how = f"Best by training, number {place + 1:,} of {count} by score" if place else f"Best of {count}"
    said = f"{how}: {', '.join(told)}."
    return f"{said} {reached(summary.trained)}" if summary.trained else said


def _header(summary: Summary) -> str:
    """What was done, what came out, and what to beware of."""
    about = summary.proxy_about.rstrip(".")
    score = (
        f"<p>The score is <b>{escape(summary.proxy)}</b>{escape(f': {about}' if about else '')}. "
        f"<b>{direction(summary.higher_is_better).capitalize()}.</b> {escape(_searched(summary))}</p>"
    )
    ending = paragraph(summary.ending, "warn" if summary.stopped_early else "note") if summary.ending else ""
    return header("search report", summary.made_on, summary.title, headline(summary), score, ending)


def _searched(summary: Summary) -> str:
    """Where the architectures come from, and how many of those tried have no score."""
    tried, failed = len(summary.ranking) + len(summary.failed), len(summary.failed)
    without = f"; {failed:,} of them {'has' if failed == 1 else 'have'} no score" if failed else ""
    of = f"{tried:,} of {summary.space_size:,} architectures" if summary.space_size else counted(tried, "architecture")
    told = f"Tried {of} of the space {summary.space}{without}."
    return f"{summary.screened} {told}" if summary.screened else told


def _best(summary: Summary) -> str:
    if not summary.ranking:
        return ""
    sketch = summary.drawing
    if sketch:
        drawing = either(lambda room: draw(sketch, room=room))
    else:
        drawing = paragraph("There is no drawing of it in the run folder; the command below makes one.", "note")
    return section("The best architecture", copyable(summary.best), drawing)


def _trained(summary: Summary) -> str:
    """What was trained in the same folder, with a warning where that is not the winner any more."""
    found = summary.trained
    if not found or not summary.ranking or found.asked.arch == summary.best:
        return trained(found)
    return section(
        "Trained before", paragraph(f"What follows is about another network: {found.asked.arch}", "warn")
    ) + trained(found)


def _cost(summary: Summary) -> str:
    memory = {"Most GPU memory": f"{summary.peak_bytes / 2**20:,.0f} MiB"} if summary.peak_bytes else {}
    tried = len(summary.ranking) + len(summary.failed)
    company = together(sum(worker.batched for worker in summary.workers))
    return cost(summary.cost, tried, memory | company, _workers(summary.workers), _uncounted(summary))


def _uncounted(summary: Summary) -> str:
    """What came after the judging and is no part of its account."""
    later = {"confirming": summary.confirmed, "training the best": summary.trained}
    took = [f"{name} took {_numbers.duration(found.seconds)}" for name, found in later.items() if found]
    return paragraph(f"This is the cost of judging; {' and '.join(took)}.", "note") if took else ""


def _workers(workers: Sequence[Worker]) -> str:
    """Who did what; left out where there was only one who never died."""
    if len(workers) < 2 and not any(worker.deaths for worker in workers):
        return ""
    head = ["Worker", "Networks", "Building", "Moving", "Measuring", "Idle", "Deaths"]
    lines = []
    for worker in workers:
        times = (worker.build, worker.transfer, worker.measure, worker.idle)
        values = [f"{worker.networks:,}", *map(_numbers.duration, times), str(worker.deaths)]
        lines.append(f"<tr>{cell(worker.name, '')}{''.join(cell(v, 'num') for v in values)}</tr>")
    note = "A worker is idle while it starts and while it waits for the next architecture."
    return table("", [("num" if i else "", name) for i, name in enumerate(head)], lines) + paragraph(note, "note")


def _settings(summary: Summary) -> str:
    size = {"space size": f"{summary.space_size:,}"} if summary.space_size else {}
    shown = {"space": summary.space, **size, "proxy": summary.proxy, "seeds": str(summary.seeds), **summary.settings}
    return settings(shown, summary.versions)


def _again(summary: Summary) -> str:
    """The command that goes on with an interrupted run, or gives a finished one again."""
    if summary.stopped_early:
        return again(summary.command, "Resumes this run; what is already scored is kept.", "To go on")
    return again(summary.command, "Gives this run again.")
