"""Smooth paths of edges through a finished layout, with few bends and around all boxes.

Coordinates are (along, across), as in `layout.py`.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import dist, sqrt

from untrained.drawings.layout import GraphLayout, Slot

Point = tuple[float, float]

_PORT_DISTANCE = 9.0  # between edges that meet at a node
_CLEARANCE = 7.0  # between an edge and a box of something else
_MAX_SLOPE = 4.0  # largest slope (across / along) at which an arc leaves a node
_NODE_VICINITY = 60.0  # distance from a node within which its edges may be close to each other
_SAMPLES = 16  # points that are examined on each piece of a curve


def route_edges(layout: GraphLayout) -> list[list[Point]]:
    """Return the control points of the path of each edge.

    A path is a start, followed by three points for each cubic Bezier piece. Short edges are routed
    first. Each edge gets the candidate that touches the fewest boxes, and among these the one with
    the fewest points close to other edges.
    """
    chains = layout.chains
    paths: dict[int, list[Point]] = {}
    for edge in sorted(range(len(chains)), key=lambda e: len(chains[e])):
        ends = {chains[edge][0], chains[edge][-1]}
        # Edges that share a node are hard to tell apart if they run close to each other.
        neighbour_points: list[Point] = []
        for other, path in paths.items():
            if ends & {chains[other][0], chains[other][-1]}:
                neighbour_points.extend(sample_path(path))
        nodes = [(layout.slots[i].along, layout.slots[i].across) for i in ends]
        boxes = _find_obstacles(layout, edge)
        best_cost = None
        for path in _list_candidates(layout, edge):
            points = sample_path(path)
            cost = (
                _count_touching_points(points, boxes),
                _count_crowded_points(points, neighbour_points, nodes),
            )
            if best_cost is None or cost < best_cost:
                best_cost = cost
                paths[edge] = path
    return [paths[edge] for edge in range(len(chains))]


def _list_candidates(layout: GraphLayout, edge: int) -> list[list[Point]]:
    """Return candidate paths.

    The first one only passes the label, if there is one. Each further one passes more of the slots
    that the layout reserves for this edge, from the middle outwards, so that an arc stays
    symmetric.
    """
    first, *inner, last = layout.chains[edge]
    largest_cut = (len(inner) + 1) // 2
    # The label is in the middle and must be passed.
    if layout.label_slots[edge] is not None:
        largest_cut -= 1
    candidates = []
    for cut in range(largest_cut, -1, -1):
        middle = inner[cut : len(inner) - cut]
        candidates.append(_smooth_path(_list_waypoints(layout, edge, [first, *middle, last])))
    return candidates


def _find_obstacles(layout: GraphLayout, edge: int) -> list[Slot]:
    """Return the boxes that an edge must avoid: all but its label and its two nodes."""
    chain = layout.chains[edge]
    own_slots = {chain[0], layout.label_slots[edge], chain[-1]}
    obstacles = []
    for i, slot in enumerate(layout.slots):
        # A slot without size is a point that another edge passes.
        if slot.size[0] and i not in own_slots:
            obstacles.append(slot)
    return obstacles


def sample_path(path: Sequence[Point]) -> list[Point]:
    """Return points on a piecewise cubic path, in order."""
    points = []
    for start in range(0, len(path) - 1, 3):
        piece = path[start : start + 4]
        for k in range(_SAMPLES + 1):
            points.append(_evaluate_piece(piece, k / _SAMPLES))
    return points


def _evaluate_piece(piece: Sequence[Point], t: float) -> Point:
    """Return the point of a cubic Bezier curve at t from 0 to 1."""
    a = (1 - t) ** 3
    b = 3 * t * (1 - t) ** 2
    c = 3 * t**2 * (1 - t)
    d = t**3
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = piece
    x = a * x0 + b * x1 + c * x2 + d * x3
    y = a * y0 + b * y1 + c * y2 + d * y3
    return x, y


def _count_touching_points(points: Sequence[Point], boxes: Sequence[Slot]) -> int:
    """Return how many points lie on a box or too close to it."""
    count = 0
    for point in points:
        if any(_is_near_box(point, box) for box in boxes):
            count += 1
    return count


def _is_near_box(point: Point, box: Slot) -> bool:
    along, across = point
    is_beside = abs(along - box.along) < box.size[0] / 2 + _CLEARANCE
    return is_beside and abs(across - box.across) < box.size[1] / 2 + _CLEARANCE


def _count_crowded_points(
    points: Sequence[Point], neighbour_points: Sequence[Point], nodes: Sequence[Point]
) -> int:
    """Return how many points, away from the nodes, are too close to neighbouring edges."""
    count = 0
    for point in points:
        # Edges of one node must meet there.
        if any(dist(point, node) <= _NODE_VICINITY for node in nodes):
            continue
        if any(dist(point, other) < _CLEARANCE for other in neighbour_points):
            count += 1
    return count


def _list_waypoints(layout: GraphLayout, edge: int, slots: Sequence[int]) -> list[Point]:
    """Return the points that a path through these slots passes.

    They are on the outlines of both nodes, at both ends of the label and at empty slots.
    """
    first, *inner, last = (layout.slots[i] for i in slots)
    start = _compute_port_offset(layout, edge, 0)
    end = _compute_port_offset(layout, edge, -1)
    points = [(first.along + _compute_outline_distance(first, start), first.across + start)]
    for slot in inner:
        half = slot.size[0] / 2
        # A label is passed on a straight line from its start to its end.
        if half:
            points.append((slot.along - half, slot.across))
        points.append((slot.along + half, slot.across))
    points.append((last.along - _compute_outline_distance(last, end), last.across + end))
    return points


def _smooth_path(points: Sequence[Point]) -> list[Point]:
    """Return a cubic path through the points that does not overshoot.

    An arc leaves its nodes at an angle; an S-shaped path leaves them along the flow.
    """
    inner_slopes = []
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        inner_slopes.append(_choose_slope(before, here, after))
    first_slope = 0.0
    last_slope = 0.0
    if inner_slopes:
        first_slope = _choose_end_slope(points[0], points[1], inner_slopes[0])
        last_slope = _choose_end_slope(points[-2], points[-1], inner_slopes[-1])
    # A path without inner points is S-shaped and leaves its nodes along the flow.
    slopes = [first_slope, *inner_slopes, last_slope]
    path = [points[0]]
    for i, (a, b) in enumerate(pairwise(points)):
        # Slightly more than a third of the distance makes the bends rounder.
        reach = 0.38 * (b[0] - a[0])
        path.append((a[0] + reach, a[1] + reach * slopes[i]))
        path.append((b[0] - reach, b[1] - reach * slopes[i + 1]))
        path.append(b)
    return path


def _choose_slope(before: Point, here: Point, after: Point) -> float:
    """Return the slope at a point: the harmonic mean of both sides, zero at a turn."""
    first = (here[1] - before[1]) / (here[0] - before[0])
    second = (after[1] - here[1]) / (after[0] - here[0])
    if first * second <= 0:
        return 0.0
    return 2 * first * second / (first + second)


def _choose_end_slope(a: Point, b: Point, inner_slope: float) -> float:
    """Return the slope at the free end of a piece: zero curvature there, but a limited slope."""
    chord = (b[1] - a[1]) / (b[0] - a[0])
    return min(max(1.5 * chord - 0.5 * inner_slope, -_MAX_SLOPE), _MAX_SLOPE)


def _compute_port_offset(layout: GraphLayout, edge: int, end: int) -> float:
    """Return how far from the middle of its node an edge starts or ends, across the flow.

    Edges of a node are sorted by the position of their other end. A straight one is in the middle.

    Args:
        layout: The layout.
        edge: Index of the edge.
        end: 0 for the start of the edge, -1 for its end.
    """
    node = layout.chains[edge][end]
    next_place = 1 if end == 0 else -2
    positions = {}
    for other, chain in enumerate(layout.chains):
        if chain[end] == node:
            positions[other] = layout.slots[chain[next_place]].across
    # Sorted ports keep edges from crossing right at the node.
    order = sorted(positions, key=lambda e: (positions[e], e))
    middle = (len(order) - 1) / 2
    for i, other in enumerate(order):
        if abs(positions[other] - layout.slots[node].across) < 0.1:
            middle = i
            break
    # Ports are closer together if the node is too small for the usual distance.
    available = layout.slots[node].size[1] / 2 - 3
    ports_on_longer_side = max(middle, len(order) - 1 - middle, 1)
    distance = min(_PORT_DISTANCE, available / ports_on_longer_side)
    return (order.index(edge) - middle) * distance


def _compute_outline_distance(slot: Slot, offset: float) -> float:
    """Return the distance from the middle of a node to its rounded outline, at an offset across."""
    # The shorter sides of a node are semicircles.
    along, across = slot.size
    radius = min(along, across) / 2
    beyond = max(abs(offset) - (across / 2 - radius), 0.0)
    return along / 2 - radius + sqrt(max(radius**2 - beyond**2, 0.0))
