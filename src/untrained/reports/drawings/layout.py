"""Where the boxes and wires of a small directed acyclic graph go: layers along the flow, a slot for each thing in one.

The method is Sugiyama's: longest-path layers; a long wire, and every label on a wire, takes a slot of its own in each
layer it passes, so boxes cannot overlap; of many orders the one with the fewest crossings is kept; then wires are drawn
level and nodes towards the middle of their neighbours. One longest path, the spine, is held straight. Deterministic.
`along` runs with the flow, `across` at right angles to it. Knows nothing of colours, SVG, or which way the page runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise, product
from random import Random

Order = list[list[int]]  # for each rank, its items from one side to the other
Size = tuple[float, float]  # along, across

_STARTS, _SWEEPS, _SETTLING = 24, 8, 40
_SLANT = 0.2  # room along for each unit that a wire between two boxes has to go across
_HELD = 1e9  # weight of an item that may not move
_HOMESICK = 0.003  # how much a long wire wants to be near its nodes, against running level


@dataclass(slots=True)
class Item:
    """Something that occupies a slot: a node, the label of an edge, or a point that a long edge passes through."""

    rank: int
    size: Size = (0.0, 0.0)
    along: float = 0.0
    across: float = 0.0
    held: bool = False  # on the spine


@dataclass(frozen=True, slots=True)
class Plan:
    """`items` begins with the nodes; `chains[e]` lists the items that edge e visits, `labels[e]` the labelled one."""

    items: list[Item]
    chains: list[list[int]]
    labels: list[int | None]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Free space between neighbours along the flow, and across it between boxes and between wires."""

    along: float
    across: float
    wire: float


def arrange(nodes: Sequence[Size], edges: Sequence[tuple[int, int, Size | None]], gaps: Gaps) -> Plan:
    """Positions for nodes of these sizes and edges (from, to, size of the label or None for a plain wire)."""
    plan = _slots(nodes, edges)
    _hold_spine(plan, len(nodes))
    _settle(plan, _best_order(plan, gaps), gaps)
    _level(plan)
    _advance(plan, gaps)
    return plan


def layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Length of the longest path that ends in each node."""
    depth = [0] * count
    for _ in range(count):
        before = list(depth)
        for source, target in edges:
            depth[target] = max(depth[target], depth[source] + 1)
        if depth == before:
            return depth
    if count:
        raise ValueError("a cell must be a directed acyclic graph; this one has a cycle")
    return depth


def _slots(nodes: Sequence[Size], edges: Sequence[tuple[int, int, Size | None]]) -> Plan:
    """One item per node, and one per rank that an edge passes; labels sit half-way, so ranks are doubled for them."""
    step = 2 if any(label for *_, label in edges) else 1
    depth = layers(len(nodes), [(source, target) for source, target, _ in edges])
    plan = Plan([Item(step * d, size) for d, size in zip(depth, nodes, strict=True)], [], [])
    for source, target, label in edges:
        first, last = plan.items[source].rank, plan.items[target].rank
        passed = range(len(plan.items), len(plan.items) + last - first - 1)
        plan.items.extend(Item(rank) for rank in range(first + 1, last))
        plan.chains.append([source, *passed, target])
        plan.labels.append(passed[len(passed) // 2] if label else None)
        if label:
            plan.items[passed[len(passed) // 2]].size = label
    return plan


def _hold_spine(plan: Plan, count: int) -> None:
    """Mark one longest path, walking back from the deepest node; it has exactly one item in every rank."""
    if not count:
        return
    tip = max(range(count), key=lambda node: plan.items[node].rank)
    plan.items[tip].held = True
    while plan.items[tip].rank:
        chain = min((chain for chain in plan.chains if chain[-1] == tip), key=len)
        for item in chain:
            plan.items[item].held = True
        tip = chain[0]


def _best_order(plan: Plan, gaps: Gaps) -> Order:
    """Of many starts the order with the fewest crossings, and of those the one whose wires bend least."""
    orders = {str(order): order for order in (_improved(plan, _first_order(plan, start)) for start in range(_STARTS))}
    crossings = {name: _crossings(plan, order) for name, order in orders.items()}
    fewest = [order for name, order in orders.items() if crossings[name] == min(crossings.values())]
    return min(fewest, key=lambda order: round(_bending(plan, order, gaps), 3))


def _first_order(plan: Plan, start: int) -> Order:
    """Whole edges thrown to one side or the other, so that a long wire does not wander."""
    random = Random(start)
    key = [0.0 if item.held else random.choice((-1, 1)) * random.uniform(0.5, 1.5) for item in plan.items]
    for chain in plan.chains:
        side = random.choice((-1, 1)) * random.uniform(1, 2)
        for item in chain[1:-1]:
            key[item] = 0.0 if plan.items[item].held else side
    ranks = range(max((item.rank for item in plan.items), default=-1) + 1)
    by_rank: Order = [[i for i, item in enumerate(plan.items) if item.rank == rank] for rank in ranks]
    return [sorted(items, key=lambda i: key[i]) for items in by_rank]


def _improved(plan: Plan, order: Order) -> Order:
    """Swap neighbours for as long as that removes a crossing."""
    fewest = _crossings(plan, order)
    for _ in range(_SWEEPS):
        before = fewest
        for items in order:
            for i in range(len(items) - 1):
                items[i], items[i + 1] = items[i + 1], items[i]
                crossings = _crossings(plan, order)
                if crossings < fewest:
                    fewest = crossings
                else:
                    items[i], items[i + 1] = items[i + 1], items[i]
        if fewest in (0, before):
            break
    return order


def _crossings(plan: Plan, order: Order) -> int:
    place = {item: i for items in order for i, item in enumerate(items)}
    gaps: dict[int, list[tuple[int, int]]] = {}
    for upper, lower in _segments(plan):
        gaps.setdefault(plan.items[upper].rank, []).append((place[upper], place[lower]))
    return sum((a - c) * (b - d) < 0 for wires in gaps.values() for (a, b), (c, d) in combinations(wires, 2))


def _segments(plan: Plan) -> list[tuple[int, int]]:
    return [segment for chain in plan.chains for segment in pairwise(chain)]


def _bending(plan: Plan, order: Order, gaps: Gaps) -> float:
    """How far wires stray sideways; a lopsided drawing counts as bent."""
    _settle(plan, order, gaps)
    places = [item.across for item in plan.items]
    stray = sum((plan.items[a].across - plan.items[b].across) ** 2 for a, b in _segments(plan))
    return stray + (max(places, default=0) + min(places, default=0)) ** 2


def _settle(plan: Plan, order: Order, gaps: Gaps) -> None:
    """Each rank in turn goes where it wants to be as far as order and gaps allow, until all are at rest.

    A node wants to be in the middle of its neighbours; the slots of a long wire want to be level with each other, and
    give way together: at rest the whole wire lies where its narrowest passage is.
    """
    inner = {i: chain for chain in plan.chains for i in chain[1:-1]}
    near: dict[int, list[int]] = {i: [] for i in range(len(plan.items))}
    for a, b in _segments(plan):
        near[a].append(b)
        near[b].append(a)
    for item in plan.items:
        item.across = 0.0
    for _ in range(_SETTLING):
        for items in (*order, *reversed(order)):
            wanted = [_wanted(plan, i, inner.get(i), near[i]) for i in items]
            weights = [_HELD if plan.items[i].held else 1.0 for i in items]
            between = [_apart(plan.items[a], plan.items[b], gaps) for a, b in pairwise(items)]
            for i, across in zip(items, separate(wanted, weights, between), strict=True):
                plan.items[i].across = across


def _wanted(plan: Plan, item: int, chain: Sequence[int] | None, near: Sequence[int]) -> float:
    if plan.items[item].held:
        return 0.0
    if chain is None:
        return _middle(plan, near)
    return (1 - _HOMESICK) * _middle(plan, chain[1:-1]) + _HOMESICK * _middle(plan, (chain[0], chain[-1]))


def _middle(plan: Plan, items: Sequence[int]) -> float:
    return sum(plan.items[i].across for i in items) / len(items) if items else 0.0


def _level(plan: Plan) -> None:
    """Remove what is left of a slant, too small to be meant, from the wires that run beside the spine."""
    for chain in plan.chains:
        places = [plan.items[i].across for i in chain[1:-1]]
        if places and max(places) - min(places) < 8:
            for i in chain[1:-1]:
                plan.items[i].across = max(places, key=abs)


def _apart(a: Item, b: Item, gaps: Gaps) -> float:
    wires = not a.size[1] or not b.size[1]
    return (a.size[1] + b.size[1]) / 2 + (gaps.wire if wires else gaps.across)


def separate(wanted: Sequence[float], weights: Sequence[float], between: Sequence[float]) -> list[float]:
    """The places nearest to `wanted` that keep their order and at least `between` apart (pool adjacent violators)."""
    offsets = list(accumulate(between, initial=0.0))[: len(wanted)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, members = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, mass, size = pools.pop()
            mean, weight, members = (other * mass + mean * weight) / (mass + weight), weight + mass, members + size
        pools.append((mean, weight, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]


def _advance(plan: Plan, gaps: Gaps) -> None:
    """Set the ranks one after the other as close as boxes that face each other and wires that must slant allow."""
    items, joined = plan.items, {*_segments(plan)}
    at: list[float] = []
    for rank in range(max((item.rank for item in items), default=-1) + 1):
        place = at[-1] + gaps.along if at else 0.0
        for i, j in product(range(len(items)), repeat=2):
            if items[i].rank < rank == items[j].rank:
                apart = abs(items[i].across - items[j].across)
                facing = apart < (items[i].size[1] + items[j].size[1]) / 2 + gaps.wire
                slant = _SLANT * apart if (i, j) in joined and items[i].size[0] and items[j].size[0] else 0.0
                if facing or slant:
                    room = (items[i].size[0] + items[j].size[0]) / 2 + gaps.along + slant
                    place = max(place, at[items[i].rank] + room)
        at.append(place)
    for item in items:
        item.along = at[item.rank]
