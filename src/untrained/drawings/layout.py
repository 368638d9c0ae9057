"""Layout of a small directed acyclic graph: positions of its nodes and of the labels of its edges.

This is the layered method of Sugiyama et al. (1981):

1. The rank of a node is the length of the longest path to it.
2. A long edge gets a slot in each rank that it passes, and so does a label, so that boxes cannot
   overlap.
3. Of many random orders within the ranks, the one with the fewest crossings is selected.
4. Nodes move towards the middle of their neighbours, and edges become level. One longest path, the
   spine, is straight.

The result is deterministic. `along` is the coordinate in the direction of the flow, `across` the
one at right angles to it. `cell.py` decides which of them is horizontal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise, product
from random import Random

Order = list[list[int]]  # per rank, its slots from one side to the other
Size = tuple[float, float]  # along, across

_STARTS = 24  # random orders that are improved
_ORDER_SWEEPS = 8  # passes over all ranks that swap neighbours
_PLACEMENT_SWEEPS = 40  # passes over all ranks that move slots towards their targets
_SLANT = 0.2  # extra `along` distance of two boxes per `across` pixel of their edge
_FIXED_WEIGHT = 1e9  # weight of a slot that must not move
_NODE_ATTRACTION = 0.003  # how strongly the end nodes of a long edge attract its slots
_NEGLIGIBLE_SLANT = 8.0  # pixels
# A layout of this many slots takes a few seconds, one of twice as many five times as long.
MAX_SLOTS = 500


@dataclass(slots=True)
class Slot:
    """A place for a node, for the label of an edge, or for a point that a long edge passes."""

    rank: int
    size: Size = (0.0, 0.0)
    along: float = 0.0
    across: float = 0.0
    on_spine: bool = False


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Positions of a graph.

    Attributes:
        slots: Those of the nodes come first.
        chains: Per edge, the slots that it passes, from node to node.
        label_slots: Per edge, the slot of its label.
    """

    slots: list[Slot]
    chains: list[list[int]]
    label_slots: list[int | None]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Minimum distances in pixels.

    Attributes:
        along: Between two ranks.
        between_boxes: Between two boxes of a rank.
        beside_edge: Between an edge and a box, or between two edges.
    """

    along: float
    between_boxes: float
    beside_edge: float


def arrange_graph(
    nodes: Sequence[Size], edges: Sequence[tuple[int, int, Size | None]], gaps: Gaps
) -> GraphLayout:
    """Return positions for a graph.

    Args:
        nodes: Size of each node.
        edges: From, to, and the size of the label, or None for an edge without label.
        gaps: Minimum distances.
    """
    layout = _make_slots(nodes, edges)
    _mark_spine(layout, len(nodes))
    _place_across(layout, _choose_order(layout, gaps), gaps)
    _level_edges(layout)
    _place_along(layout, gaps)
    return layout


def count_slots(node_count: int, edges: Sequence[tuple[int, int, str]]) -> int:
    """Return how many slots the layout of a graph has: the measure of its size for `MAX_SLOTS`.

    Args:
        node_count: Number of nodes.
        edges: From, to, and the label, which may be empty.

    Raises:
        ValueError: If the graph has a cycle.
    """
    step = _choose_rank_step(edges)
    ranks = rank_nodes(node_count, [(source, target) for source, target, _ in edges])
    passed_slots = sum(step * (ranks[target] - ranks[source]) - 1 for source, target, _ in edges)
    return node_count + passed_slots


def _choose_rank_step(edges: Sequence[tuple[int, int, object]]) -> int:
    """Return 2 if an edge has a label, else 1: labels are in ranks half-way between nodes."""
    if any(label for _, _, label in edges):
        return 2
    return 1


def rank_nodes(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path that ends in each node.

    Raises:
        ValueError: If the graph has a cycle.
    """
    ranks = [0] * count
    # Without a cycle, the longest path has fewer than `count` edges.
    for _ in range(count):
        before = list(ranks)
        for source, target in edges:
            ranks[target] = max(ranks[target], ranks[source] + 1)
        if ranks == before:
            return ranks
    if count:
        raise ValueError("a cell must be a directed acyclic graph; this one has a cycle")
    return ranks


def _make_slots(
    nodes: Sequence[Size], edges: Sequence[tuple[int, int, Size | None]]
) -> GraphLayout:
    """Return one slot per node, and one per rank that an edge passes."""
    step = _choose_rank_step(edges)
    node_ranks = rank_nodes(len(nodes), [(source, target) for source, target, _ in edges])
    slots = [Slot(step * rank, size) for rank, size in zip(node_ranks, nodes, strict=True)]
    layout = GraphLayout(slots, [], [])
    for source, target, label in edges:
        ranks_between = range(slots[source].rank + 1, slots[target].rank)
        passed_slots = range(len(slots), len(slots) + len(ranks_between))
        slots.extend(Slot(rank) for rank in ranks_between)
        layout.chains.append([source, *passed_slots, target])
        label_slot = None
        if label:
            # Doubled ranks leave at least one slot between two nodes.
            label_slot = passed_slots[len(passed_slots) // 2]
            slots[label_slot].size = label
        layout.label_slots.append(label_slot)
    return layout


def _mark_spine(layout: GraphLayout, node_count: int) -> None:
    """Mark one longest path, backwards from the last node; it has one slot in every rank."""
    if not node_count:
        return
    node = max(range(node_count), key=lambda i: layout.slots[i].rank)
    layout.slots[node].on_spine = True
    while layout.slots[node].rank:
        # On a longest path every edge goes to the next rank of nodes, so the shortest one fits.
        arriving = [chain for chain in layout.chains if chain[-1] == node]
        chain = min(arriving, key=len)
        for slot in chain:
            layout.slots[slot].on_spine = True
        node = chain[0]


def _choose_order(layout: GraphLayout, gaps: Gaps) -> Order:
    """Return an order with the fewest crossings, and among these one with the least bending."""
    # Different starts often end in the same order.
    orders: dict[str, Order] = {}
    for start in range(_STARTS):
        order = _improve_order(layout, _sample_order(layout, start))
        orders[str(order)] = order
    crossings = [_count_crossings(layout, order) for order in orders.values()]
    fewest = min(crossings)
    candidates = []
    for order, count in zip(orders.values(), crossings, strict=True):
        if count == fewest:
            candidates.append(order)
    # Rounding makes the choice independent of the last digits of the arithmetic.
    return min(candidates, key=lambda order: round(_measure_bending(layout, order, gaps), 3))


def _sample_order(layout: GraphLayout, seed: int) -> Order:
    """Return a random order in which all slots of an edge are on the same side of the spine."""
    random = Random(seed)
    keys = []
    for slot in layout.slots:
        if slot.on_spine:
            keys.append(0.0)
        else:
            keys.append(random.choice((-1, 1)) * random.uniform(0.5, 1.5))
    # One key per edge, so that a long edge does not start with crossings of its own.
    for chain in layout.chains:
        key = random.choice((-1, 1)) * random.uniform(1, 2)
        for slot_index in chain[1:-1]:
            keys[slot_index] = 0.0 if layout.slots[slot_index].on_spine else key
    rank_count = max((slot.rank for slot in layout.slots), default=-1) + 1
    order: Order = [[] for _ in range(rank_count)]
    for i, slot in enumerate(layout.slots):
        order[slot.rank].append(i)
    for rank in order:
        rank.sort(key=lambda i: keys[i])
    return order


def _improve_order(layout: GraphLayout, order: Order) -> Order:
    """Swap neighbours as long as that removes crossings."""
    places = _list_places(order)
    slots_before, slots_after = _list_adjacent_slots(layout)
    for _ in range(_ORDER_SWEEPS):
        has_improved = False
        for rank in order:
            for i in range(len(rank) - 1):
                first = rank[i]
                second = rank[i + 1]
                # A swap of two neighbours only affects crossings between their own segments, so
                # those of the whole graph need not be counted again.
                crossings = 0
                crossings_if_swapped = 0
                for adjacent in (slots_before, slots_after):
                    first_places = [places[slot] for slot in adjacent[first]]
                    second_places = [places[slot] for slot in adjacent[second]]
                    crossings += _count_inversions(first_places, second_places)
                    crossings_if_swapped += _count_inversions(second_places, first_places)
                if crossings_if_swapped < crossings:
                    rank[i] = second
                    rank[i + 1] = first
                    places[second] = i
                    places[first] = i + 1
                    has_improved = True
        if not has_improved:
            break
    return order


def _list_places(order: Order) -> dict[int, int]:
    """Return the place of each slot in its rank."""
    places: dict[int, int] = {}
    for rank in order:
        for place, slot in enumerate(rank):
            places[slot] = place
    return places


def _list_adjacent_slots(layout: GraphLayout) -> tuple[list[list[int]], list[list[int]]]:
    """Return per slot the slots that edges connect it with: in the rank before, in the one after.

    A slot occurs several times if several edges connect it.
    """
    slots_before: list[list[int]] = [[] for _ in layout.slots]
    slots_after: list[list[int]] = [[] for _ in layout.slots]
    for first, second in _list_segments(layout):
        slots_after[first].append(second)
        slots_before[second].append(first)
    return slots_before, slots_after


def _count_inversions(first_places: Sequence[int], second_places: Sequence[int]) -> int:
    """Return how many pairs have a first place after the second one."""
    return sum(first > second for first, second in product(first_places, second_places))


def _count_crossings(layout: GraphLayout, order: Order) -> int:
    places = _list_places(order)
    # Segments between the same two ranks may cross.
    segments_by_rank: dict[int, list[tuple[int, int]]] = {}
    for first, second in _list_segments(layout):
        segments = segments_by_rank.setdefault(layout.slots[first].rank, [])
        segments.append((places[first], places[second]))
    crossings = 0
    for segments in segments_by_rank.values():
        for (a, b), (c, d) in combinations(segments, 2):
            # They cross if their order is reversed between the two ranks.
            if (a - c) * (b - d) < 0:
                crossings += 1
    return crossings


def _list_segments(layout: GraphLayout) -> list[tuple[int, int]]:
    """Return all pairs of neighbouring slots of an edge."""
    segments: list[tuple[int, int]] = []
    for chain in layout.chains:
        segments.extend(pairwise(chain))
    return segments


def _measure_bending(layout: GraphLayout, order: Order, gaps: Gaps) -> float:
    """Return the sum of squared bends of all edges, plus a penalty for an asymmetric drawing."""
    _place_across(layout, order, gaps)
    slots = layout.slots
    bending = 0.0
    for a, b in _list_segments(layout):
        bending += (slots[a].across - slots[b].across) ** 2
    # The spine is at 0, so this sum is 0 if both sides of it extend equally far.
    places = [slot.across for slot in slots]
    return bending + (max(places, default=0) + min(places, default=0)) ** 2


def _place_across(layout: GraphLayout, order: Order, gaps: Gaps) -> None:
    """Move the slots of each rank towards their targets, in several sweeps over all ranks.

    The slots of a rank keep their order and the gaps between them. The target of a node is the
    middle of its neighbours. The target of the slots of a long edge is their mean, so that the edge
    becomes level.
    """
    slots = layout.slots
    chain_of_slot: dict[int, list[int]] = {}
    for chain in layout.chains:
        for i in chain[1:-1]:
            chain_of_slot[i] = chain
    neighbours: dict[int, list[int]] = {i: [] for i in range(len(slots))}
    for a, b in _list_segments(layout):
        neighbours[a].append(b)
        neighbours[b].append(a)
    for slot in slots:
        slot.across = 0.0
    for _ in range(_PLACEMENT_SWEEPS):
        # Forwards and backwards, so that neither direction of the flow is preferred.
        for rank in (*order, *reversed(order)):
            targets = []
            weights = []
            for i in rank:
                targets.append(_find_target(layout, i, chain_of_slot.get(i), neighbours[i]))
                weights.append(_FIXED_WEIGHT if slots[i].on_spine else 1.0)
            distances = [_compute_min_distance(slots[a], slots[b], gaps) for a, b in pairwise(rank)]
            places = separate_places(targets, weights, distances)
            for i, across in zip(rank, places, strict=True):
                slots[i].across = across


def _find_target(
    layout: GraphLayout, slot: int, chain: Sequence[int] | None, neighbours: Sequence[int]
) -> float:
    """Return the target position of a slot.

    Args:
        layout: The layout.
        slot: Index of the slot.
        chain: Slots of the edge that it belongs to; None for a node.
        neighbours: Slots that edges connect with it.
    """
    if layout.slots[slot].on_spine:
        return 0.0
    if chain is None:
        return _average_across(layout, neighbours)
    # The weak pull of the nodes decides between levels that are equally good.
    level = _average_across(layout, chain[1:-1])
    between_nodes = _average_across(layout, (chain[0], chain[-1]))
    return (1 - _NODE_ATTRACTION) * level + _NODE_ATTRACTION * between_nodes


def _average_across(layout: GraphLayout, slots: Sequence[int]) -> float:
    if not slots:
        return 0.0
    return sum(layout.slots[i].across for i in slots) / len(slots)


def _level_edges(layout: GraphLayout) -> None:
    """Make edges exactly level if they are almost level."""
    for chain in layout.chains:
        places = [layout.slots[i].across for i in chain[1:-1]]
        if places and max(places) - min(places) < _NEGLIGIBLE_SLANT:
            # The outermost place is farthest from the boxes of the spine.
            for i in chain[1:-1]:
                layout.slots[i].across = max(places, key=abs)


def _compute_min_distance(a: Slot, b: Slot, gaps: Gaps) -> float:
    """Return the minimum distance between the middles of two neighbours in a rank."""
    gap = gaps.between_boxes
    # A slot without size is a point that an edge passes.
    if not a.size[1] or not b.size[1]:
        gap = gaps.beside_edge
    return (a.size[1] + b.size[1]) / 2 + gap


def separate_places(
    targets: Sequence[float], weights: Sequence[float], distances: Sequence[float]
) -> list[float]:
    """Return the places nearest to `targets` that keep their order and minimum distances.

    The method is isotonic regression by pooling adjacent violators.

    Args:
        targets: Preferred place of each item.
        weights: Weight of its squared distance from the preferred place.
        distances: Minimum distance between each item and the next one.
    """
    # Without the distances, the places only have to be non-decreasing.
    offsets = list(accumulate(distances, initial=0.0))[: len(targets)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for place, weight, offset in zip(targets, weights, offsets, strict=True):
        mean = place - offset
        members = 1
        # A pool that would have to be after its successor is joined with it.
        while pools and pools[-1][0] > mean:
            other_mean, other_weight, other_members = pools.pop()
            total = other_weight + weight
            mean = (other_mean * other_weight + mean * weight) / total
            weight = weight + other_weight
            members += other_members
        pools.append((mean, weight, members))
    means: list[float] = []
    for mean, _, members in pools:
        means.extend([mean] * members)
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _place_along(layout: GraphLayout, gaps: Gaps) -> None:
    """Place the ranks one after the other, as close as boxes and slanted edges allow."""
    slots = layout.slots
    segments = set(_list_segments(layout))
    positions: list[float] = []
    for rank in range(max((slot.rank for slot in slots), default=-1) + 1):
        position = 0.0
        if positions:
            position = positions[-1] + gaps.along
        earlier_slots = [i for i, slot in enumerate(slots) if slot.rank < rank]
        rank_slots = [i for i, slot in enumerate(slots) if slot.rank == rank]
        for i, j in product(earlier_slots, rank_slots):
            first = slots[i]
            second = slots[j]
            # Boxes face each other if a line along the flow hits both.
            distance = abs(first.across - second.across)
            is_facing = distance < (first.size[1] + second.size[1]) / 2 + gaps.beside_edge
            # A steep edge between two boxes needs more length to be smooth.
            slant = 0.0
            if (i, j) in segments and first.size[0] and second.size[0]:
                slant = _SLANT * distance
            if is_facing or slant:
                length = (first.size[0] + second.size[0]) / 2 + gaps.along + slant
                position = max(position, positions[first.rank] + length)
        positions.append(position)
    for slot in slots:
        slot.along = positions[slot.rank]
