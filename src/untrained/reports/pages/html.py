"""Pieces of HTML that sections are made of. Texts that come in are escaped here; knows nothing of runs or scores."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

_ROOMS = {"wide": 880.0, "narrow": 350.0}


def section(title: str, *parts: str) -> str:
    """A part of the page under its heading."""
    return f"<section><h2>{escape(title)}</h2><div>{''.join(parts)}</div></section>\n"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """A piece of code of any length, which may break after a separator rather than inside a word."""
    return f"<code>{_breakable(text)}</code>"


def copyable(text: str) -> str:
    """Text to take away, whole words to a line, with a button that only appears where scripts run."""
    words = " ".join(f"<span>{_breakable(word)}</span>" for word in text.split(" "))
    button = f'<button type="button" hidden data-copy="{escape(text)}">Copy</button>'
    return f'<div class="copy"><pre>{words}</pre>{button}</div>'


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values, one pair per line."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs.items())
    return f"<dl>{rows}</dl>"


def table(kind: str, head: Sequence[tuple[str, str]], rows: Sequence[str]) -> str:
    """A table that scrolls inside its own box if it must; `head` holds (class, text), rows are ready-made `<tr>`."""
    names = "".join(f'<th scope="col" class="{align}">{escape(text)}</th>' for align, text in head)
    body = "\n".join(["", *rows])
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def cell(text: str, kind: str) -> str:
    """A table cell with a text."""
    return html_cell(escape(text), kind)


def html_cell(content: str, kind: str) -> str:
    """A table cell of ready-made HTML."""
    return f'<td class="{kind}">{content}</td>'


def either(draw: Callable[[float], str]) -> str:
    """Two drawings of one thing, of which a page shows the one that it has room for, in pixels."""
    return "".join(f'<div class="scroll drawing {kind}">{draw(room)}</div>' for kind, room in _ROOMS.items())


def _breakable(text: str) -> str:
    """Escaped text with places where a line may end."""
    return "<wbr>".join(escape(piece) for piece in re.split(r"(?<=[|+,;:/)])(?=.)", text))
