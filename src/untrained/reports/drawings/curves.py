"""The paths of wires through a finished layout: smooth, as few bends as the boxes in the way allow.

Works in (along, across), like `_layout`; knows nothing of colours or SVG.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import dist, sqrt

from untrained.reports.drawings.layout import Item, Plan

Point = tuple[float, float]

_PORT = 9.0  # between wires that meet at a node
_CLEAR = 7.0  # between a wire and a box that is not its own
_STEEP = 4.0  # across per along at which an arc may leave a node
_KNOT = 60.0  # around a node, where its wires cannot help being close
_SAMPLES = 16  # points looked at on each piece of a curve


def curves(plan: Plan) -> list[list[Point]]:
    """Control points of the path of each edge: the start, then three for each cubic piece. Short edges choose first."""
    done: dict[int, list[Point]] = {}
    for edge in sorted(range(len(plan.chains)), key=lambda e: len(plan.chains[e])):
        ends = {plan.chains[edge][0], plan.chains[edge][-1]}
        mates = [other for other in done if ends & {plan.chains[other][0], plan.chains[other][-1]}]
        taken = [point for other in mates for point in samples(done[other])]
        knots = [(plan.items[i].along, plan.items[i].across) for i in ends]
        boxes = _foreign(plan, edge)
        done[edge] = min(_tries(plan, edge), key=lambda path: (_touching(path, boxes), _crowding(path, taken, knots)))
    return [done[edge] for edge in range(len(plan.chains))]


def _tries(plan: Plan, edge: int) -> list[list[Point]]:
    """Paths to choose from. The first visits only the label, or nothing; each next one visits more of the slots that
    the layout keeps free for this edge, from the middle outwards, so that an arc stays even."""
    first, *inner, last = plan.chains[edge]
    most = (len(inner) + 1) // 2 - (plan.labels[edge] is not None)
    windows = [inner[cut : len(inner) - cut] for cut in range(most, -1, -1)]
    return [_smooth(_points(plan, edge, [first, *window, last])) for window in windows]


def _foreign(plan: Plan, edge: int) -> list[Item]:
    own = {plan.chains[edge][0], plan.labels[edge], plan.chains[edge][-1]}
    return [item for i, item in enumerate(plan.items) if item.size[0] and i not in own]


def samples(path: Sequence[Point]) -> list[Point]:
    """Points on a piecewise cubic, in order."""
    steps = [k / _SAMPLES for k in range(_SAMPLES + 1)]
    return [_at(path[i : i + 4], t) for i in range(0, len(path) - 1, 3) for t in steps]


def _at(piece: Sequence[Point], t: float) -> Point:
    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = piece
    return a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3


def _touching(path: Sequence[Point], boxes: Sequence[Item]) -> int:
    """How much of the path runs over boxes or too close to them."""
    return sum(
        any(
            abs(a - box.along) < box.size[0] / 2 + _CLEAR and abs(c - box.across) < box.size[1] / 2 + _CLEAR
            for box in boxes
        )
        for a, c in samples(path)
    )


def _crowding(path: Sequence[Point], taken: Sequence[Point], knots: Sequence[Point]) -> int:
    """How much of the path, away from its nodes, runs too close to other wires of these nodes to be told apart."""
    free = [point for point in samples(path) if all(dist(point, knot) > _KNOT for knot in knots)]
    return sum(any(dist(point, other) < _CLEAR for other in taken) for point in free)


def _points(plan: Plan, edge: int, visited: Sequence[int]) -> list[Point]:
    """The places to pass: outlines of the two nodes, both ends of the label, the middle of an empty slot."""
    first, *inner, last = (plan.items[i] for i in visited)
    start, end = _port(plan, edge, 0), _port(plan, edge, -1)
    halves = [(item, half) for item in inner for half in sorted({-item.size[0] / 2, item.size[0] / 2})]
    return [
        (first.along + _side(first, start), first.across + start),
        *((item.along + half, item.across) for item, half in halves),
        (last.along - _side(last, end), last.across + end),
    ]


def _smooth(points: Sequence[Point]) -> list[Point]:
    """A curve through the points that swings past none; an arc leaves its nodes at an angle, an S with the flow."""
    slopes = [_slope(*three) for three in zip(points, points[1:], points[2:], strict=False)]
    first = _lift(points[0], points[1], slopes[0]) if slopes else 0.0
    last = _lift(points[-2], points[-1], slopes[-1]) if slopes else 0.0
    path = [points[0]]
    for (a, b), (m, n) in zip(pairwise(points), pairwise([first, *slopes, last]), strict=True):
        reach = 0.38 * (b[0] - a[0])
        path += [(a[0] + reach, a[1] + reach * m), (b[0] - reach, b[1] - reach * n), b]
    return path


def _slope(before: Point, here: Point, after: Point) -> float:
    """Across per along at a point: the harmonic mean of both sides, zero at a turn."""
    first = (here[1] - before[1]) / (here[0] - before[0])
    second = (after[1] - here[1]) / (after[0] - here[0])
    return 2 * first * second / (first + second) if first * second > 0 else 0.0


def _lift(a: Point, b: Point, inner: float) -> float:
    """Slope at the free end of a piece whose other end has slope `inner`: that of a beam, within reason."""
    chord = (b[1] - a[1]) / (b[0] - a[0])
    return min(max(1.5 * chord - 0.5 * inner, -_STEEP), _STEEP)


def _port(plan: Plan, edge: int, end: int) -> float:
    """How far off the middle of its node an edge leaves (end 0) or arrives (end -1); a straight one keeps to it."""
    inner = 1 if end == 0 else -2
    node = plan.chains[edge][end]
    near = {e: plan.items[chain[inner]].across for e, chain in enumerate(plan.chains) if chain[end] == node}
    mates = sorted(near, key=lambda e: (near[e], e))
    straight = [i for i, e in enumerate(mates) if abs(near[e] - plan.items[node].across) < 0.1]
    middle = straight[0] if straight else (len(mates) - 1) / 2
    room = plan.items[node].size[1] / 2 - 3
    widest = max(middle, len(mates) - 1 - middle, 1)
    return (mates.index(edge) - middle) * min(_PORT, room / widest)


def _side(item: Item, off: float) -> float:
    """From the middle of a node to its rounded outline, `off` beside the axis."""
    along, across = item.size
    radius = min(along, across) / 2
    beyond = max(abs(off) - (across / 2 - radius), 0.0)
    return along / 2 - radius + sqrt(max(radius**2 - beyond**2, 0.0))
