"""HTML elements that the sections of a page consist of. These functions escape their texts."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

DASH = "\u2013"  # shown instead of a missing value

# Every drawing is made for these widths in pixels; style.css shows the one that fits the page.
_PAGE_WIDTHS = {"wide": 880.0, "narrow": 350.0}


def make_section(title: str, *parts: str) -> str:
    """Return a part of the page with its heading; `parts` are HTML."""
    return f"<section><h2>{escape(title)}</h2><div>{''.join(parts)}</div></section>\n"


def make_paragraph(text: str, css_class: str = "") -> str:
    if not css_class:
        return f"<p>{escape(text)}</p>"
    return f'<p class="{css_class}">{escape(text)}</p>'


def make_code(text: str) -> str:
    """Return text as code. Long lines break after separators, not inside a word."""
    return f"<code>{_allow_breaks(text)}</code>"


def make_copyable(text: str) -> str:
    """Return text with a copy button, which is hidden if scripts are disabled."""
    # A span moves to the next line as a whole before it breaks inside.
    words = " ".join(f"<span>{_allow_breaks(word)}</span>" for word in text.split(" "))
    button = f'<button type="button" hidden data-copy="{escape(text)}">Copy</button>'
    return f'<div class="copy"><pre>{words}</pre>{button}</div>'


def make_fact_list(facts: Mapping[str, str]) -> str:
    """Return a list of names and values, one pair per line."""
    rows = []
    for name, value in facts.items():
        rows.append(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def make_table(css_class: str, head: Sequence[tuple[str, str]], rows: Sequence[str]) -> str:
    """Return a table that scrolls inside its own box if it is too wide.

    Args:
        css_class: Class of the table.
        head: CSS class and text of each column heading.
        rows: `<tr>` elements.
    """
    headings = ""
    for column_class, text in head:
        headings += f'<th scope="col" class="{column_class}">{escape(text)}</th>'
    body = "\n".join(["", *rows])
    return (
        f'<div class="scroll"><table class="{css_class}"><thead><tr>{headings}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def make_row(cells: Sequence[str], css_class: str = "") -> str:
    """Return a row of a table; `cells` are `<td>` elements."""
    if not css_class:
        return f"<tr>{''.join(cells)}</tr>"
    return f'<tr class="{css_class}">{"".join(cells)}</tr>'


def make_text_cell(text: str, css_class: str) -> str:
    return make_html_cell(escape(text), css_class)


def make_html_cell(content: str, css_class: str) -> str:
    """Return a table cell; `content` is HTML."""
    return f'<td class="{css_class}">{content}</td>'


def make_figure(chart: str, caption: str, legend: str = "") -> str:
    """Return a figure; `chart` and `legend` are HTML, the caption is text."""
    return f"<figure>{chart}<figcaption>{make_paragraph(caption)}{legend}</figcaption></figure>"


def make_legend_entry(css_class: str, name: str) -> str:
    return f'<span class="key"><span class="dot {css_class}"></span> {name}</span> '


def make_collapsible(title: str, content: str) -> str:
    """Return content that is hidden until the reader clicks on its title."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def make_responsive(draw: Callable[[float], str]) -> str:
    """Return a drawing for wide pages and one for narrow pages; the page shows one of them.

    Args:
        draw: Returns the drawing for a width in pixels.
    """
    drawings = []
    for css_class, width in _PAGE_WIDTHS.items():
        drawings.append(f'<div class="scroll drawing {css_class}">{draw(width)}</div>')
    return "".join(drawings)


def _allow_breaks(text: str) -> str:
    """Return escaped text with optional line breaks after separators."""
    pieces = re.split(r"(?<=[|+,;:/)])(?=.)", text)
    return "<wbr>".join(escape(piece) for piece in pieces)
