"""A square table as a heat map: of correlations, or of shares where it is told what they are. Stronger colour, more of
it. Pure; knows no proxies and no classes.

Colours are one ink for each sign, laid on more or less thickly, so that they fit a light and a dark page.
"""

from collections.abc import Sequence
from html import escape

from untrained import _numbers
from untrained.reports.svg.style import fitted, frame, sans, words

_SMALL, _LARGE = 12.0, 36.0  # sides of a cell; too many small ones make the map scroll in its own box
_LEGIBLE = 26.0  # side from which a cell holds its number
_THICK = 0.78  # ink from which numbers are written in the colour of the paper
_LEGEND = 40.0


def heat(names: Sequence[str], table: Sequence[Sequence[float | None]], room: float, shares: str = "") -> str:
    """One cell for each pair; an empty one where there is no correlation. `shares` says of what the numbers are, where
    they are from 0 to 1; then nothing is written where there is none."""
    label = min(max((sans(name) for name in names), default=0.0), 0.32 * room) + 8
    side = min(max((room - label) / max(len(names), 1), _SMALL), _LARGE)
    whole = label + side * len(names)
    parts = [_column(name, label + side * (i + 0.5), label) for i, name in enumerate(names)]
    for i, (name, row) in enumerate(zip(names, table, strict=True)):
        y = label + side * i
        known = [None if shares and not value else value for value in row]
        cells = [_cell(value, label + side * j, side, f"{name}, {names[j]}") for j, value in enumerate(known)]
        shown = words(fitted(name, label - 8), label - 6, side / 2 + 4, "end name")
        parts.append(f'<g transform="translate(0 {y:.1f})">{shown}{"".join(cells)}</g>')
    parts.append(_legend(label, whole + 14, 0 if shares else -10))
    spoken = shares or f"Heat map of the correlations between {len(names)} columns: {', '.join(names)}"
    return frame("chart heat", (0.0, 0.0, max(whole, label + 190), whole + _LEGEND), spoken, parts)


def _column(name: str, x: float, y: float) -> str:
    shown = escape(fitted(name, y - 8))
    return f'<text class="name" transform="translate({x + 4:.1f} {y - 6:.1f}) rotate(-90)">{shown}</text>'


def _cell(value: float | None, x: float, side: float, pair: str) -> str:
    said = escape(f"{pair}: {'not defined' if value is None else _numbers.fixed(value, 2)}")
    size = f'x="{x:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"'
    rect = f"<rect {_ink(value)} {size}><title>{said}</title></rect>"
    if value is None or side < _LEGIBLE:
        return rect
    kind = "mid figure on" if abs(value) >= _THICK else "mid figure"
    return rect + words(_numbers.fixed(value, 2), x + (side - 1) / 2, side / 2 + 3, kind)


def _ink(value: float | None) -> str:
    if value is None:
        return 'class="void"'
    return f'class="{"minus" if value < 0 else "plus"}" fill-opacity="{abs(value):.2f}"'


def _legend(x: float, y: float, first: int) -> str:
    """From -1 or 0 to 1 in steps of a tenth."""
    tenths = range(first, 11)
    rects = '<rect {} x="{:.1f}" y="{:.1f}" width="9" height="9"/>'
    parts = [rects.format(_ink(tenth / 10), x + 9 * i, y) for i, tenth in enumerate(tenths)]
    marks = {-10: "\u22121", 0: "0", 10: "1"}
    parts += [words(marks[t], x + 9 * (i + 0.5), y + 22, "mid") for i, t in enumerate(tenths) if t in marks]
    return f'<g class="legend">{"".join(parts)}</g>'
