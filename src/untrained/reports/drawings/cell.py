"""A cell: operations as coloured pills on the wires or as coloured nodes, flowing right or down."""

from collections.abc import Sequence
from html import escape
from math import hypot

from untrained.reports.drawings.curves import Point, curves
from untrained.reports.drawings.layout import Gaps, Item, Plan, arrange
from untrained.reports.svg.style import LINE, Box, breadth, family, frame, pill
from untrained.spaces.core.diagrams import CellGraph

_NODE = 38.0  # across a node with a short name
_HEAD = 8.0  # length of an arrow head


def draw_cell(cell: CellGraph, room: float) -> str:
    """The cell as one `<svg>`: from left to right if that fits into `room` pixels, else whichever way is narrower."""
    right = _plan(cell, down=False)
    if _extent(right.items)[0] <= room:
        return _svg(cell, right, down=False)
    down = _plan(cell, down=True)
    if _extent(down.items)[1] < _extent(right.items)[0]:
        return _svg(cell, down, down=True)
    return _svg(cell, right, down=False)


def _svg(cell: CellGraph, plan: Plan, *, down: bool) -> str:
    boxes = [_box(item, down) for item in plan.items]
    left, top = (min((box[k] for box in boxes), default=0.0) for k in (0, 1))
    width, height = _turned(*_extent(plan.items), down)
    paths = [[_turned(*point, down) for point in path] for path in curves(plan)]
    faint_first = sorted(range(len(cell.edges)), key=lambda e: family(cell.edges[e][2]) != "none")
    wires = [_wire(cell, e, paths[e]) for e in faint_first]
    tags = [pill(cell.edges[e][2], boxes[i], "tag") for e, i in enumerate(plan.labels) if i is not None]
    nodes = [pill(label, boxes[n], "node") for n, label in enumerate(cell.nodes)]
    return frame("cell", (left, top, width, height), _spoken(cell), wires + tags + nodes)


def _plan(cell: CellGraph, *, down: bool) -> Plan:
    """The layout with every size turned so that `along` follows the flow."""
    gaps = Gaps(28, across=14, wire=14) if down else Gaps(24, across=24, wire=22)
    nodes = [_turned(max(breadth(label) - 6, _NODE), _NODE, down) for label in cell.nodes]
    edges = [(a, b, _turned(breadth(label), LINE, down) if label else None) for a, b, label in cell.edges]
    return arrange(nodes, edges, gaps)


def _turned(x: float, y: float, down: bool) -> tuple[float, float]:
    """Page coordinates as (along, across), and back."""
    return (y, x) if down else (x, y)


def _extent(items: Sequence[Item]) -> tuple[float, float]:
    """Length with the flow and breadth across it."""
    ends = [[(item.along, item.across)[k] + s * item.size[k] / 2 for item in items for s in (-1, 1)] for k in (0, 1)]
    return max(ends[0], default=0.0) - min(ends[0], default=0.0), max(ends[1], default=0.0) - min(ends[1], default=0.0)


def _box(item: Item, down: bool) -> Box:
    """Left, top, width, height on the page."""
    (x, y), (w, h) = _turned(item.along, item.across, down), _turned(*item.size, down)
    return x - w / 2, y - h / 2, w, h


def _wire(cell: CellGraph, edge: int, path: Sequence[Point]) -> str:
    """The curve up to the arrow head, and the head."""
    source, target, label = cell.edges[edge]
    (x, y), (bx, by) = path[-1], path[-2]
    length = hypot(x - bx, y - by) or 1.0
    dx, dy = (x - bx) / length, (y - by) / length
    neck = (x - _HEAD * dx, y - _HEAD * dy)
    wings = [(neck[0] - s * 0.42 * _HEAD * dy, neck[1] + s * 0.42 * _HEAD * dx) for s in (1, -1)]
    curve = f"M{_xy(path[0])}" + "".join(f"C{' '.join(map(_xy, path[i : i + 3]))}" for i in range(1, len(path) - 3, 3))
    curve += f"C{' '.join(map(_xy, [path[-3], (bx - x + neck[0], by - y + neck[1]), neck]))}"
    head = " ".join(map(_xy, [(x, y), *wings]))
    names = [cell.nodes[n] or str(n) for n in (source, target)]
    said = escape(f"{names[0]} \u2192 {names[1]}" + (f": {label}" if label else ""))
    return (
        f'<g class="wire op-{family(label)}" data-edge="{source}-{target}"><title>{said}</title>'
        f'<path d="{curve}"/><polygon points="{head}"/></g>'
    )


def _xy(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


def _spoken(cell: CellGraph) -> str:
    """The drawing in words, for those who cannot see it."""
    name = [label or str(n) for n, label in enumerate(cell.nodes)]
    wires = [f"{name[a]} to {name[b]}" + (f" by {label}" if label else "") for a, b, label in cell.edges]
    return f"Cell of {len(cell.nodes)} nodes. " + "; ".join(wires)
