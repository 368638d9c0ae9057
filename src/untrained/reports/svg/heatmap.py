"""Heat map of a square matrix, of correlations or of fractions.

Positive and negative values have different colours. A larger absolute value is more opaque, so the
map fits both light and dark pages.
"""

from collections.abc import Sequence
from html import escape

from untrained import formatting
from untrained.drawings.elements import Drawing, draw_text, estimate_width, shorten_text

_MIN_CELL = 12.0  # pixels; a map of many cells of this size scrolls in its own box
_MAX_CELL = 36.0
_MIN_CELL_WITH_NUMBER = 26.0
_DARK_OPACITY = 0.78  # above this opacity, numbers have the colour of the background
_LEGEND_HEIGHT = 40.0
_LEGEND_CELL = 9.0


def draw_heatmap(
    names: Sequence[str],
    matrix: Sequence[Sequence[float | None]],
    max_width: float,
    description: str,
    *,
    has_fractions: bool = False,
) -> str:
    """Draw one cell per pair of names.

    Args:
        names: Labels of the rows, and of the columns in the same order.
        matrix: Values from -1 to 1; None is an empty cell.
        max_width: Width of the page in pixels.
        description: Text for screen readers.
        has_fractions: Whether the values are fractions from 0 to 1, whose zeros are empty cells;
            else they are correlations from -1 to 1.
    """
    longest_name = max((estimate_width(name) for name in names), default=0.0)
    label_width = min(longest_name, 0.32 * max_width) + 8
    side = (max_width - label_width) / max(len(names), 1)
    side = min(max(side, _MIN_CELL), _MAX_CELL)
    size = label_width + side * len(names)
    parts = []
    for i, name in enumerate(names):
        parts.append(_draw_column_name(name, label_width + side * (i + 0.5), label_width))
    for i, (name, row) in enumerate(zip(names, matrix, strict=True)):
        label = shorten_text(name, label_width - 8)
        cells = [draw_text(label, label_width - 6, side / 2 + 4, "end name")]
        for j, value in enumerate(row):
            number = "not defined" if value is None else formatting.format_fixed(value, 2)
            # Most cells of a confusion matrix are zero and would only distract.
            if has_fractions and not value:
                value = None
            title = f"{name}, {names[j]}: {number}"
            cells.append(_draw_cell(value, number, title, label_width + side * j, side))
        y = label_width + side * i
        parts.append(f'<g transform="translate(0 {y:.1f})">{"".join(cells)}</g>')
    lowest_tenth = 0 if has_fractions else -10
    parts.append(_draw_legend(label_width, size + 14, lowest_tenth))
    # A small map must still be wide enough for the legend.
    box = (0.0, 0.0, max(size, label_width + 190), size + _LEGEND_HEIGHT)
    return Drawing("chart heat", box, description, parts).to_html()


def _draw_column_name(name: str, x: float, y: float) -> str:
    text = escape(shorten_text(name, y - 8))
    place = f"translate({x + 4:.1f} {y - 6:.1f}) rotate(-90)"
    return f'<text class="name" transform="{place}">{text}</text>'


def _draw_cell(value: float | None, number: str, title: str, x: float, side: float) -> str:
    """Draw a cell.

    Args:
        value: The value that decides the colour; None for an empty cell.
        number: The text in the cell, if the cell is not empty and large enough.
        title: The text that is shown on hover.
        x: Left edge of the cell.
        side: Width and height of the cell.
    """
    rect = (
        f'<rect {_get_colour(value)} x="{x:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )
    # In a small cell the number is only shown on hover.
    if value is None or side < _MIN_CELL_WITH_NUMBER:
        return rect
    css_class = "mid figure"
    if abs(value) >= _DARK_OPACITY:
        css_class = "mid figure on"
    return rect + draw_text(number, x + (side - 1) / 2, side / 2 + 3, css_class)


def _get_colour(value: float | None) -> str:
    """Return the attributes of a cell that decide its colour."""
    if value is None:
        return 'class="empty"'
    css_class = "minus" if value < 0 else "plus"
    return f'class="{css_class}" fill-opacity="{abs(value):.2f}"'


def _draw_legend(x: float, y: float, lowest_tenth: int) -> str:
    """Draw the colours from -1 or 0 to 1 in steps of 0.1."""
    tenths = range(lowest_tenth, 11)
    cells = []
    for i, tenth in enumerate(tenths):
        left = x + _LEGEND_CELL * i
        cells.append(
            f'<rect {_get_colour(tenth / 10)} x="{left:.1f}" y="{y:.1f}" width="9" height="9"/>'
        )
    labels = []
    # Fractions have no negative side.
    for tenth, text in ((-10, "\u22121"), (0, "0"), (10, "1")):
        if tenth in tenths:
            middle = x + _LEGEND_CELL * (tenths.index(tenth) + 0.5)
            labels.append(draw_text(text, middle, y + 22, "mid"))
    return f'<g class="legend">{"".join(cells)}{"".join(labels)}</g>'
