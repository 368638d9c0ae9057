"""Parts of all pages: the HTML document, the header, and the sections at the end.

A page loads nothing from the network, and it is complete if scripts are disabled.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from untrained import formatting
from untrained.drawings.draw import read_style
from untrained.reports.pages.html import (
    make_copyable,
    make_fact_list,
    make_paragraph,
    make_section,
)

# Names of recorded costs, in the order in which they are shown.
_COST_NAMES = {
    "warm-up": "Warming up the supernet",
    "strategy": "Supernet measurements",
    "build": "Building networks",
    "build and warm-up": "Building and warming up networks",
    "transfer": "Moving to the device",
    "measure": "Measuring",
    "total": "Total",
}
_SCRIPT = """
if (navigator.clipboard) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    };
  }
}
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">{reload}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="{policy}">
<meta name="description" content="{headline}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}{script}
</body>
</html>
"""


def make_document(
    title: str, headline: str, sections: Sequence[str], reload_seconds: int | None = None
) -> str:
    """Return the whole page.

    Args:
        title: Title of the page.
        headline: The result in one sentence.
        sections: HTML of the sections.
        reload_seconds: Time after which the browser reloads the page, for a page that will still
            change; None for a final page. A page that reloads has no script.
    """
    # The colours are defined beside the drawings, which are also shown without a report.
    style = read_style() + files("untrained.reports").joinpath("style.css").read_text("utf-8")
    reload = ""
    script = f"<script>{_SCRIPT}</script>"
    if reload_seconds is not None:
        reload = f'\n<meta http-equiv="refresh" content="{reload_seconds}">'
        script = ""
    return _PAGE.format(
        reload=reload,
        policy=_make_policy(style),
        headline=escape(headline),
        title=escape(title),
        style=style,
        body="".join(sections),
        script=script,
    )


def _make_policy(style: str) -> str:
    """Return the content security policy: only our own script and style, identified by hashes.

    All text is escaped. The policy is a second line of defence: if some text were not escaped, the
    browser would not run it. Style attributes are allowed because drawings set widths and shades
    with them, and they can neither run code nor load files.
    """
    return (
        f"default-src 'none'; script-src '{_hash_content(_SCRIPT)}'; "
        f"style-src '{_hash_content(style)}'; "
        "style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash_content(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def make_header(kind: str, made_on: str, title: str, headline: str, *parts: str) -> str:
    """Return the header of a page.

    Args:
        kind: What the page is, such as "search report".
        made_on: Date and time.
        title: Heading of the page.
        headline: The result in one sentence.
        parts: HTML below the headline.
    """
    line = " \u00b7 ".join(part for part in ("untrained", kind, made_on) if part)
    # Keep numbers and their units on one line.
    headline = re.sub(r"(\d) (\w) ", "\\1\u00a0\\2\u00a0", headline)
    head = [
        make_paragraph(line, "over"),
        f"<h1>{escape(title)}</h1>",
        make_paragraph(headline, "lead"),
    ]
    return f"<header>{''.join([*head, *parts])}</header>\n"


def make_cost_section(
    seconds: Mapping[str, float], arch_count: int, more_facts: Mapping[str, str], *parts: str
) -> str:
    """Return the section about time.

    Args:
        seconds: Recorded times by name.
        arch_count: Number of architectures over which the total is averaged.
        more_facts: Facts that are listed after the times, by name.
        parts: HTML below the list.
    """
    if not seconds:
        return make_section("Cost", make_paragraph("Not recorded."))
    facts = {}
    for name, title in _COST_NAMES.items():
        if name in seconds:
            facts[title] = formatting.format_duration(seconds[name])
    # A strategy may record costs under other names.
    for name, value in seconds.items():
        if name not in _COST_NAMES:
            facts[name] = formatting.format_duration(value)
    if arch_count and "total" in seconds:
        average = formatting.format_duration(seconds["total"] / arch_count)
        facts["Per architecture"] = (
            f"{average} ({formatting.format_count(arch_count, 'architecture')})"
        )
    return make_section("Cost", make_fact_list({**facts, **more_facts}), *parts)


def list_batching_facts(count: int) -> dict[str, str]:
    """Return how many networks were scored together with others, for the list of costs."""
    if not count:
        return {}
    return {"Scored several at a time": formatting.format_count(count, "network")}


def make_settings_section(settings: Mapping[str, str], versions: Mapping[str, str]) -> str:
    parts = [f"<div><h3>Run</h3>{make_fact_list(settings)}</div>"]
    if versions:
        parts.append(f"<div><h3>Versions</h3>{make_fact_list(versions)}</div>")
    return make_section("Settings", f'<div class="pair">{"".join(parts)}</div>')


def make_command_section(command: str, note: str, title: str = "Command") -> str:
    """Return the section with the command that repeats or resumes a run.

    Args:
        command: The command; empty if the data were objects in Python.
        note: What the command does; may be empty.
        title: Heading of the section.
    """
    if not command:
        text = "Made with data passed in Python. Repeat the call in Python with the same data."
        return make_section(title, make_paragraph(text))
    if not note:
        return make_section(title, make_copyable(command))
    return make_section(title, make_copyable(command), make_paragraph(note, "note"))
