"""Drawing of an architecture: one or several cells, stages, or transformer layers."""

from functools import cache
from html import escape
from importlib.resources import files

from untrained.drawings.cell import draw_cell
from untrained.drawings.diagrams import (
    CellGraph,
    CellGraphs,
    Diagram,
    StageList,
    TransformerLayers,
)
from untrained.drawings.elements import LABEL_HEIGHT, Drawing, draw_text
from untrained.drawings.layers import draw_layers
from untrained.drawings.stages import draw_stages

_FILE_WIDTH = 880.0  # of a drawing in its own file


def draw_diagram(diagram: Diagram, *, max_width: float = _FILE_WIDTH) -> str:
    """Draw an architecture as one `<svg>`, or as a `<div>` of several named cells.

    The colours are those of `style.css`, which the page must contain.

    Args:
        diagram: Description of the architecture by its space.
        max_width: Width of the page in pixels.
    """
    drawings = _draw_parts(diagram, max_width)
    if not isinstance(diagram, CellGraphs):
        (drawing,) = drawings.values()
        return drawing.to_html()
    parts = []
    for name, drawing in drawings.items():
        parts.append(f"<h3>{escape(name)}</h3>{drawing.to_html()}")
    return f'<div class="cells">{"".join(parts)}</div>'


def draw_file(diagram: Diagram) -> str:
    """Draw an architecture as the content of an SVG file, with its colours and a background."""
    parts = []
    width = 0.0
    top = 0.0
    for name, drawing in _draw_parts(diagram, _FILE_WIDTH).items():
        if name:
            parts.append(f'<g class="list">{draw_text(name, 0.0, top + LABEL_HEIGHT / 2)}</g>')
            top += LABEL_HEIGHT
        parts.append(drawing.place(0.0, top))
        width = max(width, drawing.size[0])
        top += drawing.size[1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" '
        f'viewBox="0 0 {width:.1f} {top:.1f}">'
        f"<style>{read_style()}</style>"
        f'<rect width="100%" height="100%" fill="var(--paper)"/>{"".join(parts)}</svg>\n'
    )


@cache
def read_style() -> str:
    """Return the colours and fonts of drawings as CSS."""
    return files("untrained.drawings").joinpath("style.css").read_text("utf-8")


def _draw_parts(diagram: Diagram, max_width: float) -> dict[str, Drawing]:
    """Return the drawings by the names of the cells; the name is empty if there is only one."""
    match diagram:
        case CellGraph():
            return {"": draw_cell(diagram, max_width)}
        case CellGraphs():
            return {name: draw_cell(cell, max_width) for name, cell in diagram.parts}
        case StageList():
            return {"": draw_stages(diagram, max_width)}
        case TransformerLayers():
            return {"": draw_layers(diagram, max_width)}
