"""What a value costs: a dot each, cost on a logarithmic axis, names where there is room. Pure; knows no proxies."""

from collections.abc import Iterable, Sequence
from html import escape
from math import inf
from typing import NamedTuple

from untrained import _numbers
from untrained.reports.svg.axis import Axis, axis
from untrained.reports.svg.plot import Frame, axes, axis_title
from untrained.reports.svg.style import Box, fitted, frame, sans, words

_HEIGHT, _RADIUS = 360.0, 4.5
_LINE = 14.0  # height of a name

Place = tuple[float, float]


class Offer(NamedTuple):
    name: str
    cost: float
    value: float
    kind: str = "proxy"


def tradeoff(offers: Sequence[Offer], room: float, x_title: str, y_title: str) -> str:
    """The offers that no cheaper one matches are joined by a line and named first; costs of nothing stand apart."""
    width = min(room, 760.0)
    x, nothing = _costs([offer.cost for offer in offers])
    y = axis([offer.value for offer in offers], decades=inf, count=8)
    labels = _numbers.ticks(y.ticks, units=False)
    left = 14.0 + 7.0 * max(map(len, labels), default=1)
    area = Frame(x, y, (left, 26.0, width - 20, _HEIGHT - 46))
    places = [(area.across(offer.cost or nothing), area.up(offer.value)) for offer in offers]
    first = [i for i, offer in enumerate(offers) if unmatched(offer, offers)]
    some = [tick for tick in x.ticks if tick != nothing]
    x_labels = ["0"] * (len(x.ticks) - len(some)) + _numbers.ticks(some, units=True)
    parts = [axes(area, x_labels, labels, axis_title(x_title, x), y_title)]
    path = "".join(f"{'LM'[i == 0]}{a:.1f},{b:.1f}" for i, (a, b) in enumerate(sorted(places[i] for i in first)))
    parts += [f'<path class="front" d="{path}"/>', *map(_dot, offers, places)]
    order = first + [i for i in range(len(offers)) if i not in first]
    parts += _names([(offers[i].name, places[i]) for i in order], len(first), places, (left, width))
    spoken = f"{y_title} against {x_title}: {len(offers)} dots. Best for their cost: "
    return frame("chart", (0.0, 0.0, width, _HEIGHT), spoken + ", ".join(offers[i].name for i in first), parts)


def _costs(costs: Sequence[float]) -> tuple[Axis, float]:
    """A logarithmic axis, and the place on it, below all others, that stands for a cost of nothing."""
    some = [cost for cost in costs if cost > 0] or [1.0]
    nothing = min(some) / max(max(some) / min(some), 10.0) ** 0.15
    whole = axis([nothing, *some] if 0 in costs else some, decades=0)
    ticks = tuple(tick for tick in whole.ticks if tick > nothing)
    return Axis(whole.low, whole.high, whole.log, (nothing, *ticks) if 0 in costs else ticks), nothing


def unmatched(offer: Offer, offers: Iterable[Offer]) -> bool:
    """Whether none is at least as good for at most the same cost, and better in one of both."""
    matching = [other for other in offers if other.value >= offer.value and other.cost <= offer.cost]
    return all((other.value, other.cost) == (offer.value, offer.cost) for other in matching)


def _dot(offer: Offer, place: Place) -> str:
    said = escape(f"{offer.name}: {_numbers.fixed(offer.value, 3)}, cost {offer.cost:g}")
    return (
        f'<circle class="offer k-{offer.kind}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{_RADIUS}">'
        f"<title>{said}</title></circle>"
    )


def _names(
    named: Sequence[tuple[str, Place]], must: int, dots: Sequence[Place], ends: tuple[float, float]
) -> list[str]:
    """Names beside their dots. The first `must` are always written, where they cover least; others only where free."""
    taken: list[Box] = [(x - _RADIUS, y - _RADIUS, 2 * _RADIUS, 2 * _RADIUS) for x, y in dots]
    written = []
    for i, (name, (x, y)) in enumerate(named):
        text = fitted(name, 190)
        box = min(_beside(text, x, y), key=lambda box: _covered(box, taken, ends))
        if i < must or _covered(box, taken, ends) == 0:
            taken.append(box)
            written.append(words(text, box[0], box[1] + 11, "name title" if i < must else "name"))
    return written


def _beside(text: str, x: float, y: float) -> list[Box]:
    """Right, left, above, below."""
    long, gap = sans(text), _RADIUS + 3
    level = y - _LINE / 2
    spots = [(x + gap, level), (x - gap - long, level), (x - long / 2, y - gap - _LINE), (x - long / 2, y + gap)]
    return [(a, b, long, _LINE) for a, b in spots]


def _covered(box: Box, taken: Iterable[Box], ends: tuple[float, float]) -> float:
    """How much of the boxes taken, and of the world outside the chart, a box would cover."""
    outside = max(0.0, ends[0] - box[0]) + max(0.0, box[0] + box[2] - ends[1])
    return _LINE * outside + sum(_shared(box, other) for other in taken)


def _shared(a: Box, b: Box) -> float:
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(across, 0.0) * max(down, 0.0)
