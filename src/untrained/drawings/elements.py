"""Basic SVG elements of drawings and charts: text, rectangles, labels, and the `<svg>` itself.

`reports/svg/plot.py` has the parts of charts that have axes.

Colours are CSS classes, which `drawings/style.css` defines. Operations have one class per family:
`op-skip`, `op-conv3`, and so on. The family is found by matching the name of the operation with
names that are common in the field; operations with other names have the colour of text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Box = tuple[float, float, float, float]  # left, top, width, height

# Monospace text of 12.5 px.
CHAR_WIDTH = 7.5
LABEL_HEIGHT = 24.0
LABEL_PADDING = 11.0

MARGIN = 6.0  # around a drawing

# A drawing is not scaled below this fraction of its size; on a narrower page it scrolls.
_MIN_SCALE = 0.75

# The first pattern that matches the whole name decides.
_FAMILIES = (
    ("none", r"none|zero|zeroize"),
    ("skip", r".*(skip|identity|shortcut).*"),
    ("avg", r".*(avg|average).*"),
    ("max", r".*max.*pool.*"),
    ("dil", r".*dil.*"),
    ("sep", r".*(sep|depthwise|dwise|mbconv|\be\d k\d).*"),
    ("conv1", r"(.*\D)?1x1(\D.*)?|k1 k\d k1"),
    ("conv3", r".*(conv|\dx\d).*|k\d k\d"),
)


def find_family(operation: str) -> str:
    """Return the family that decides the colour of an operation.

    `conv3` for `nor_conv_3x3`, `none` for `none`, `plain` for unknown names.
    """
    # Search spaces use different names for one operation: `Skip`, `skip_connect`, `identity`.
    name = operation.strip().lower()
    for family, pattern in _FAMILIES:
        if re.fullmatch(pattern, name):
            return family
    return "plain"


def measure_label(label: str) -> float:
    """Return the width of a label in pixels, with space at both ends."""
    return CHAR_WIDTH * len(label) + 2 * LABEL_PADDING


def draw_label(label: str, box: Box, css_class: str) -> str:
    """Draw a rounded box with text, in the colour of the operation that the text names."""
    x, y, width, height = box
    radius = min(width, height) / 2
    return (
        f'<g class="{css_class} op-{find_family(label)}">'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{radius:.1f}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + height / 2:.1f}">{escape(label)}</text></g>'
    )


def draw_rect(box: Box, css_class: str, radius: float = 2.0) -> str:
    x, y, width, height = box
    return (
        f'<rect class="{css_class}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius:.1f}"/>'
    )


def draw_text(text: str, x: float, y: float, css_class: str = "") -> str:
    """Draw text that starts at x; with the class `end` it ends there, with `mid` it is centred."""
    return f'<text class="{css_class}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def estimate_width(text: str) -> float:
    """Return an upper estimate of the width of 12 px text in the font of the page, in pixels."""
    return 7.0 * len(text)


def shorten_text(text: str, width: float) -> str:
    """Return the text, cut with an ellipsis if it does not fit into `width` pixels."""
    limit = max(int(width / estimate_width("x")), 2)
    if len(text) <= limit:
        return text
    return f"{text[: limit - 1]}\u2026"


def scale_to_unit(value: float, low: float, high: float) -> float:
    """Scale a value between low and high to 0 to 1; the result is 0.5 if both are equal."""
    if high > low:
        return (value - low) / (high - low)
    return 0.5


@dataclass(frozen=True)
class Drawing:
    """Elements and the area that they cover.

    Attributes:
        css_class: Class of the `<svg>`.
        box: The area, without the margin around it.
        description: Text for screen readers.
        parts: The elements.
    """

    css_class: str
    box: Box
    description: str
    parts: Sequence[str]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height with the margin."""
        return self.box[2] + 2 * MARGIN, self.box[3] + 2 * MARGIN

    def to_html(self) -> str:
        """Return an `<svg>` that becomes smaller on a narrow page."""
        width, _ = self.size
        style = f"max-width:{width:.0f}px;min-width:{_MIN_SCALE * width:.0f}px"
        return self._make_svg(f'style="{style}"')

    def place(self, left: float, top: float) -> str:
        """Return an `<svg>` inside another one, with its corner at `left` and `top`."""
        width, height = self.size
        return self._make_svg(
            f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
        )

    def _make_svg(self, attributes: str) -> str:
        left = self.box[0] - MARGIN
        top = self.box[1] - MARGIN
        width, height = self.size
        return (
            f'<svg class="{self.css_class}" '
            f'viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" {attributes} '
            f'role="img" aria-label="{escape(self.description)}">'
            f"{''.join(self.parts)}</svg>"
        )
