"""Drawing of an architecture: one or several cells, stages, or transformer layers."""

from html import escape

from untrained.reports.drawings.cell import draw_cell
from untrained.reports.drawings.layers import draw_layers
from untrained.reports.drawings.stages import draw_stages
from untrained.spaces.core.diagrams import (
    CellGraph,
    CellGraphs,
    Diagram,
    StageList,
    TransformerLayers,
)


def draw_diagram(diagram: Diagram, *, max_width: float = 880) -> str:
    """Draw an architecture as one `<svg>`, or as a `<div>` of several named cells.

    Args:
        diagram: Description of the architecture by its space.
        max_width: Width of the page in pixels.
    """
    match diagram:
        case CellGraph():
            return draw_cell(diagram, max_width)
        case CellGraphs():
            parts = []
            for name, cell in diagram.parts:
                parts.append(f"<h3>{escape(name)}</h3>{draw_cell(cell, max_width)}")
            return f'<div class="cells">{"".join(parts)}</div>'
        case StageList():
            return draw_stages(diagram, max_width)
        case TransformerLayers():
            return draw_layers(diagram, max_width)
