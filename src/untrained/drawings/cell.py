"""Drawing of a cell: a graph whose operations are coloured labels on its edges or on its nodes."""

from collections.abc import Sequence
from html import escape
from math import hypot

from untrained.drawings.curves import Point, route_edges
from untrained.drawings.diagrams import CellGraph
from untrained.drawings.elements import (
    LABEL_HEIGHT,
    Box,
    Drawing,
    draw_label,
    find_family,
    measure_label,
)
from untrained.drawings.layout import Gaps, GraphLayout, Size, Slot, arrange_graph

_NODE_SIZE = 38.0  # of a node with a short name
_ARROW_LENGTH = 8.0
_ARROW_HALF_WIDTH = 0.42 * _ARROW_LENGTH


def draw_cell(cell: CellGraph, max_width: float) -> Drawing:
    """Draw a cell from left to right.

    It is drawn downwards if that is narrower and `max_width` is too small.
    """
    horizontal_layout = _arrange_cell(cell, downwards=False)
    horizontal_width, _ = _measure_slots(horizontal_layout.slots)
    if horizontal_width <= max_width:
        return _draw_layout(cell, horizontal_layout, downwards=False)
    vertical_layout = _arrange_cell(cell, downwards=True)
    _, vertical_width = _measure_slots(vertical_layout.slots)
    if vertical_width < horizontal_width:
        return _draw_layout(cell, vertical_layout, downwards=True)
    return _draw_layout(cell, horizontal_layout, downwards=False)


def _draw_layout(cell: CellGraph, layout: GraphLayout, *, downwards: bool) -> Drawing:
    # Convert (along, across) of the layout to (x, y) of the page.
    boxes = [_place_box(slot, downwards) for slot in layout.slots]
    left = min((box[0] for box in boxes), default=0.0)
    top = min((box[1] for box in boxes), default=0.0)
    length, breadth = _measure_slots(layout.slots)
    width, height = _swap_axes(downwards, length, breadth)
    paths = []
    for path in route_edges(layout):
        paths.append([_swap_axes(downwards, *point) for point in path])
    # Edges with the operation `none` are faint and drawn first, below all others.
    order = sorted(range(len(cell.edges)), key=lambda e: find_family(cell.edges[e][2]) != "none")
    parts = []
    for edge in order:
        parts.append(_draw_edge(cell, edge, paths[edge]))
    for edge, slot in enumerate(layout.label_slots):
        if slot is not None:
            parts.append(draw_label(cell.edges[edge][2], boxes[slot], "tag"))
    for node, label in enumerate(cell.nodes):
        parts.append(draw_label(label, boxes[node], "node"))
    return Drawing("cell", (left, top, width, height), _describe_cell(cell), parts)


def _arrange_cell(cell: CellGraph, *, downwards: bool) -> GraphLayout:
    """Return the layout of a cell; sizes are swapped so that `along` follows the flow."""
    has_labelled_edges = any(label for _, _, label in cell.edges)
    if not downwards:
        gaps = Gaps(along=24, between_boxes=24, beside_edge=22)
    elif has_labelled_edges:
        # A cell is drawn downwards on a narrow page, where boxes side by side must be closer.
        gaps = Gaps(along=28, between_boxes=14, beside_edge=14)
    else:
        # Operations are on the nodes, whose boxes are wide: an edge beside one needs space to bend.
        gaps = Gaps(along=40, between_boxes=14, beside_edge=14)
    nodes = []
    for label in cell.nodes:
        width = max(measure_label(label) - 6, _NODE_SIZE)
        nodes.append(_swap_axes(downwards, width, _NODE_SIZE))
    edges: list[tuple[int, int, Size | None]] = []
    for source, target, label in cell.edges:
        label_size = None
        if label:
            label_size = _swap_axes(downwards, measure_label(label), LABEL_HEIGHT)
        edges.append((source, target, label_size))
    return arrange_graph(nodes, edges, gaps)


def _swap_axes(downwards: bool, x: float, y: float) -> tuple[float, float]:
    """Convert page coordinates (x, y) to (along, across), or back."""
    if downwards:
        return y, x
    return x, y


def _measure_slots(slots: Sequence[Slot]) -> tuple[float, float]:
    """Return the length of all slots along the flow, and their breadth across it."""
    ends_along = []
    ends_across = []
    for slot in slots:
        ends_along.append(slot.along - slot.size[0] / 2)
        ends_along.append(slot.along + slot.size[0] / 2)
        ends_across.append(slot.across - slot.size[1] / 2)
        ends_across.append(slot.across + slot.size[1] / 2)
    length = max(ends_along, default=0.0) - min(ends_along, default=0.0)
    breadth = max(ends_across, default=0.0) - min(ends_across, default=0.0)
    return length, breadth


def _place_box(slot: Slot, downwards: bool) -> Box:
    """Return the box of a slot on the page."""
    x, y = _swap_axes(downwards, slot.along, slot.across)
    width, height = _swap_axes(downwards, *slot.size)
    return x - width / 2, y - height / 2, width, height


def _draw_edge(cell: CellGraph, edge: int, path: Sequence[Point]) -> str:
    """Draw an edge as a curve that ends at its arrow head, and the head."""
    source, target, label = cell.edges[edge]
    x, y = path[-1]
    control_x, control_y = path[-2]
    # Direction in which the curve arrives. It is zero if the control point is the end itself.
    length = hypot(x - control_x, y - control_y) or 1.0
    dx = (x - control_x) / length
    dy = (y - control_y) / length
    neck = (x - _ARROW_LENGTH * dx, y - _ARROW_LENGTH * dy)
    first_wing = (neck[0] - _ARROW_HALF_WIDTH * dy, neck[1] + _ARROW_HALF_WIDTH * dx)
    second_wing = (neck[0] + _ARROW_HALF_WIDTH * dy, neck[1] - _ARROW_HALF_WIDTH * dx)
    # The last piece is moved back so that it ends at the neck of the arrow head.
    last_control = (control_x - x + neck[0], control_y - y + neck[1])
    pieces = [path[i : i + 3] for i in range(1, len(path) - 3, 3)]
    pieces.append([path[-3], last_control, neck])
    curve = f"M{_format_points([path[0]])}"
    for piece in pieces:
        curve += f"C{_format_points(piece)}"
    head = _format_points([(x, y), first_wing, second_wing])
    title = f"{cell.nodes[source] or source} \u2192 {cell.nodes[target] or target}"
    if label:
        title += f": {label}"
    return (
        f'<g class="wire op-{find_family(label)}" data-edge="{source}-{target}">'
        f"<title>{escape(title)}</title>"
        f'<path d="{curve}"/><polygon points="{head}"/></g>'
    )


def _format_points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _describe_cell(cell: CellGraph) -> str:
    """Return a description for screen readers."""
    # Nodes without a label are called by their numbers.
    names = [label or str(node) for node, label in enumerate(cell.nodes)]
    edges = []
    for source, target, label in cell.edges:
        text = f"{names[source]} to {names[target]}"
        if label:
            text += f" by {label}"
        edges.append(text)
    return f"Cell of {len(cell.nodes)} nodes. " + "; ".join(edges)
