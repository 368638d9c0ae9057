"""What all drawings share: colours by families of operations, text in boxes, the frame.

Colours are CSS classes (`op-skip`, `op-conv3`, ...), one per family of operations, defined in style.css.
Knows nothing of search spaces: it reads names that the field uses and draws any other name in ink.
"""

import re
from collections.abc import Sequence
from html import escape

Box = tuple[float, float, float, float]  # left, top, width, height

CHAR, LINE, PAD = 7.5, 24.0, 11.0  # of 12.5 px monospace text: advance, height of its box, space at either end
MARGIN = 6.0
_LEGIBLE = 0.75  # of the natural size; a page too narrow for that scrolls the drawing in its own box
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


def family(operation: str) -> str:
    """The family an operation is coloured by: `conv3` for nor_conv_3x3, `none` for none, `plain` for any other name."""
    name = operation.strip().lower()
    return next((family for family, pattern in _FAMILIES if re.fullmatch(pattern, name)), "plain")


def breadth(label: str) -> float:
    """Pixels of a label with space at either end."""
    return CHAR * len(label) + 2 * PAD


def pill(label: str, box: Box, kind: str) -> str:
    """A round box in the colour of its label."""
    x, y, w, h = box
    return (
        f'<g class="{kind} op-{family(label)}"><rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
        f'rx="{min(w, h) / 2:.1f}"/><text x="{x + w / 2:.1f}" y="{y + h / 2:.1f}">{escape(label)}</text></g>'
    )


def bar(box: Box, kind: str, round: float = 2.0) -> str:
    x, y, w, h = box
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{round:.1f}"/>'


def words(text: str, x: float, y: float, kind: str = "") -> str:
    """Text that starts at x, or ends there (`end`), or is centred (`mid`), as its class says."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def sans(text: str) -> float:
    """Pixels of 12 px text in the page's own letters, rather too many than too few."""
    return 7.0 * len(text)


def fitted(text: str, room: float) -> str:
    """The text, or as much of it as `room` pixels hold."""
    most = max(int(room / sans("x")), 2)
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def share(value: float, low: float, high: float) -> float:
    """Where it lies between the lowest and the highest, from 0 to 1; in the middle where all are alike."""
    return (value - low) / (high - low) if high > low else 0.5


def frame(kind: str, box: Box, spoken: str, parts: Sequence[str]) -> str:
    """The drawing as one `<svg>` with a margin around `box`; `spoken` is for those who cannot see it."""
    left, top = box[0] - MARGIN, box[1] - MARGIN
    width, height = box[2] + 2 * MARGIN, box[3] + 2 * MARGIN
    return (
        f'<svg class="{kind}" viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" '
        f'style="max-width:{width:.0f}px;min-width:{_LEGIBLE * width:.0f}px" '
        f'role="img" aria-label="{escape(spoken)}">'
        f"{''.join(parts)}</svg>"
    )
