"""What every page has: one self-contained HTML file around its sections, the header, and the sections that end it.

The file asks the network for nothing and is complete without scripts. Knows nothing of what a page is about.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from untrained import _numbers
from untrained.reports.pages.html import copyable, facts, paragraph, section

_COSTS = {
    "warm-up": "Warming up the supernet",
    "strategy": "Looking at the supernet",
    "build": "Building networks",
    "build and warm-up": "Building and warming up networks",
    "transfer": "Moving to the device",
    "measure": "Measuring",
    "total": "Total",
}
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
 content="{policy}">
<meta name="description" content="{headline}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}<script>{script}</script>
</body>
</html>
"""


def document(title: str, headline: str, sections: Sequence[str]) -> str:
    """The whole page."""
    style = files("untrained.reports").joinpath("style.css").read_text("utf-8")
    return _PAGE.format(
        policy=_policy(style),
        headline=escape(headline),
        title=escape(title),
        style=style,
        body="".join(sections),
        script=_SCRIPT,
    )


def _policy(style: str) -> str:
    """What a browser may do with the page: run and apply what we wrote, known by its hash, and show its pictures.

    Every text is escaped; should one slip through, the browser refuses to run it. Attributes may set a style, since
    drawings say by them how wide they are and how dark; such a style can neither run nor load anything.
    """
    return (
        f"default-src 'none'; script-src '{_hash(_SCRIPT)}'; style-src '{_hash(style)}'; "
        "style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def header(kind: str, made_on: str, title: str, lead: str, *parts: str) -> str:
    """What the page is, its title, the result in a sentence, and ready-made HTML below."""
    over = " \u00b7 ".join(part for part in ("untrained", kind, made_on) if part)
    whole = re.sub(r"(\d) (\w) ", "\\1\u00a0\\2\u00a0", lead)  # a number stays with its unit
    head = [paragraph(over, "over"), f"<h1>{escape(title)}</h1>", paragraph(whole, "lead")]
    return f"<header>{''.join([*head, *parts])}</header>\n"


def cost(seconds: Mapping[str, float], tried: int, more: Mapping[str, str], *parts: str) -> str:
    """Seconds as recorded, the total shared out over all that were tried, and more facts."""
    if not seconds:
        return section("Cost", paragraph("Not recorded."))
    names = [*(name for name in _COSTS if name in seconds), *(name for name in seconds if name not in _COSTS)]
    told = {_COSTS.get(name, name): _numbers.duration(seconds[name]) for name in names}
    if tried and "total" in seconds:
        told["Per architecture"] = f"{_numbers.duration(seconds['total'] / tried)} ({tried:,} tried)"
    return section("Cost", facts({**told, **more}), *parts)


def together(batched: int) -> dict[str, str]:
    """How many networks were looked at in the same kernels, where any were."""
    return {"Looked at together": f"{batched:,} networks"} if batched else {}


def settings(run: Mapping[str, str], versions: Mapping[str, str]) -> str:
    used = f"<div><h3>Versions</h3>{facts(versions)}</div>" if versions else ""
    return section("Settings", f'<div class="pair"><div><h3>Run</h3>{facts(run)}</div>{used}</div>')


def again(command: str, said: str, title: str = "To do it again") -> str:
    """The command to type."""
    return section(title, copyable(command), paragraph(said, "note"))
