"""The page of a run: one self-contained HTML file that asks the network for nothing and is complete without scripts.

Reads a `Summary` and turns it into text. Knows nothing of stores, strategies or networks, and writes no file.
"""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from untrained import _numbers
from untrained.reports._evidence import SIZES, direction, distribution, failures, ranking, size
from untrained.reports._html import cell, copyable, facts, paragraph, section, table
from untrained.reports.drawing import draw
from untrained.reports.summary import Summary, Worker

_PHONE = 350  # pixels that a drawing has on a narrow page
_COSTS = {"build": "Building networks", "transfer": "Moving to the device", "measure": "Measuring", "total": "Total"}
_SCRIPT = """
if (navigator.clipboard) for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.onclick = () => navigator.clipboard.writeText(button.dataset.copy).then(() => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="description" content="{headline}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}<script>{script}</script>
</body>
</html>
"""


def render(summary: Summary) -> str:
    """The whole page."""
    parts = (_header, _best, ranking, distribution, size, failures, _cost, _settings, _again)
    return _PAGE.format(
        headline=escape(headline(summary)),
        title=escape(summary.title),
        style=files("untrained.reports").joinpath("style.css").read_text("utf-8"),
        body="".join(part(summary) for part in parts),
        script=_SCRIPT,
    )


def headline(summary: Summary) -> str:
    """The result in one sentence: `Best of 100: score 3.91, 1.07 M parameters, 154 M multiply-adds.`"""
    if not summary.ranking:
        tried = len(summary.failed)
        return f"No architecture has a score: {tried} tried, {tried} failed." if tried else "Nothing was scored."
    best = summary.ranking[0]
    told = [f"score {_numbers.significant(best.score)}"]
    told += [f"{_numbers.quantity(value)} {name}" for name, of in SIZES.items() if (value := of(best)) is not None]
    return f"Best of {len(summary.ranking):,}: {', '.join(told)}."


def _header(summary: Summary) -> str:
    """What was done, what came out, and what to beware of."""
    over = " \u00b7 ".join(part for part in ("untrained", "search report", summary.made_on) if part)
    lead = re.sub(r"(\d) (\w) ", "\\1\u00a0\\2\u00a0", headline(summary))  # a number stays with its unit
    about = summary.proxy_about.rstrip(".")
    parts = [
        paragraph(over, "over"),
        f"<h1>{escape(summary.title)}</h1>",
        paragraph(lead, "lead"),
        f"<p>The score is <b>{escape(summary.proxy)}</b>{escape(f': {about}' if about else '')}. "
        f"<b>{direction(summary).capitalize()}.</b> {escape(_searched(summary))}</p>",
    ]
    if summary.ending:
        parts.append(paragraph(summary.ending, "warn" if summary.stopped_early else "note"))
    return f"<header>{''.join(parts)}</header>\n"


def _searched(summary: Summary) -> str:
    """Where the architectures come from, and how many of those tried have no score."""
    of = f" of {summary.space_size:,}" if summary.space_size else ""
    tried, failed = len(summary.ranking) + len(summary.failed), len(summary.failed)
    without = f"; {failed:,} of them {'has' if failed == 1 else 'have'} no score" if failed else ""
    told = f"Tried {tried:,}{of} architectures of the space {summary.space}{without}."
    return f"{summary.screened} {told}" if summary.screened else told


def _best(summary: Summary) -> str:
    if not summary.ranking:
        return ""
    parts = [copyable(summary.ranking[0].arch)]
    if summary.drawing:
        parts.append(f'<div class="scroll drawing wide">{draw(summary.drawing)}</div>')
        parts.append(f'<div class="scroll drawing narrow">{draw(summary.drawing, room=_PHONE)}</div>')
    return section("The best architecture", *parts)


def _cost(summary: Summary) -> str:
    """Seconds as recorded, and the total shared out over all that were tried."""
    if not summary.cost:
        return section("Cost", paragraph("Not recorded."))
    names = [*(name for name in _COSTS if name in summary.cost), *(name for name in summary.cost if name not in _COSTS)]
    told = {_COSTS.get(name, name): _numbers.duration(summary.cost[name]) for name in names}
    tried = len(summary.ranking) + len(summary.failed)
    if tried and "total" in summary.cost:
        told["Per architecture"] = f"{_numbers.duration(summary.cost['total'] / tried)} ({tried:,} tried)"
    if summary.peak_bytes:
        told["Most GPU memory"] = f"{summary.peak_bytes / 2**20:,.0f} MiB"
    return section("Cost", facts(told), _workers(summary.workers))


def _workers(workers: Sequence[Worker]) -> str:
    """Who did what; left out where there was only one who never died."""
    if len(workers) < 2 and not any(worker.deaths for worker in workers):
        return ""
    head = ["Worker", "Networks", "Building", "Moving", "Measuring", "Idle", "Deaths"]
    lines = []
    for worker in workers:
        times = (worker.build, worker.transfer, worker.measure, worker.idle)
        values = [f"{worker.networks:,}", *map(_numbers.duration, times), str(worker.deaths)]
        lines.append(f"<tr>{cell(escape(worker.name), '')}{''.join(cell(v, 'num') for v in values)}</tr>")
    note = "A worker is idle while it starts and while it waits for the next architecture."
    return table("", [("num" if i else "", name) for i, name in enumerate(head)], lines) + paragraph(note, "note")


def _settings(summary: Summary) -> str:
    size = {"space size": f"{summary.space_size:,}"} if summary.space_size else {}
    shown = {"space": summary.space, **size, "proxy": summary.proxy, "seeds": str(summary.seeds), **summary.settings}
    versions = f"<div><h3>Versions</h3>{facts(summary.versions)}</div>" if summary.versions else ""
    return section("Settings", f'<div class="pair"><div><h3>Run</h3>{facts(shown)}</div>{versions}</div>')


def _again(summary: Summary) -> str:
    """The command that goes on with an interrupted run, or gives a finished one again."""
    title = "To go on" if summary.stopped_early else "To do it again"
    said = "Resumes this run; what is already scored is kept." if summary.stopped_early else "Gives this run again."
    return section(title, copyable(summary.command), paragraph(said, "note"))
