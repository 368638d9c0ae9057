"""An architecture as an SVG drawing, whatever its sketch: a cell, several cells, stages, or a transformer's layers.

Each kind has its own file; colours are CSS classes defined in style.css. Nothing here knows a search space.
"""

from html import escape

from untrained.reports.drawings.cell import draw_cell
from untrained.reports.drawings.layers import draw_layers
from untrained.reports.drawings.stages import draw_stages
from untrained.reports.svg.style import family as family
from untrained.spaces.core.diagrams import CellGraph, CellGraphs, Diagram, StageList, TransformerLayers


def draw(sketch: Diagram, *, room: float = 880) -> str:
    """The sketch as one `<svg>` for a page `room` pixels wide; named cells one below the other in a `<div>`."""
    match sketch:
        case CellGraph():
            return draw_cell(sketch, room)
        case CellGraphs():
            parts = [f"<h3>{escape(name)}</h3>{draw_cell(cell, room)}" for name, cell in sketch.parts]
            return f'<div class="cells">{"".join(parts)}</div>'
        case StageList():
            return draw_stages(sketch, room)
        case TransformerLayers():
            return draw_layers(sketch, room)
