"""The cells of NAS-Bench-101 as graphs: pruning, canonical form, official hash, channels.

A `CellSpec` is what the benchmark calls a ModelSpec: an upper triangular 0/1 matrix and one
operation per vertex. The first vertex is the input, the last one the output. Cells that differ only
in the order of their vertices are isomorphic, and count as one cell. Of these, the benchmark
trained the first in the order in which its authors enumerated all graphs; `find_canonical_form`
returns it. The order of the vertices still matters for the network: where channels do not divide
evenly, earlier vertices get one more, so the number of parameters depends on the order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import md5
from itertools import permutations, product

import numpy as np

# In the order in which the authors number operations.
OPS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")
INPUT = "input"
OUTPUT = "output"
MAX_VERTICES = 7
MAX_EDGES = 9
Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CellSpec:
    """A cell: `matrix[i][j]` is 1 if vertex i feeds vertex j > i; `ops` has one name per vertex."""

    matrix: Matrix
    ops: tuple[str, ...]

    @property
    def edge_count(self) -> int:
        return sum(map(sum, self.matrix))

    def sources(self, vertex: int) -> list[int]:
        """Return the vertices that feed this vertex."""
        return [source for source, row in enumerate(self.matrix) if row[vertex]]

    def targets(self, vertex: int) -> list[int]:
        """Return the vertices that this vertex feeds."""
        return [target for target, edge in enumerate(self.matrix[vertex]) if edge]


def make_spec(edges: Sequence[tuple[int, int]], inner_ops: Sequence[str]) -> CellSpec:
    """Return the cell with these edges; `inner_ops` are without the input and the output."""
    vertex_count = len(inner_ops) + 2
    rows = [[0] * vertex_count for _ in range(vertex_count)]
    for source, target in edges:
        rows[source][target] = 1
    matrix = tuple(tuple(row) for row in rows)
    return CellSpec(matrix, (INPUT, *inner_ops, OUTPUT))


def find_used_vertices(matrix: Matrix) -> list[int]:
    """Return the vertices on a path from input to output in order; empty if there is no path."""
    last = len(matrix) - 1
    reachable = {0}
    for target in range(1, last + 1):
        if any(matrix[source][target] for source in reachable):
            reachable.add(target)
    if last not in reachable:
        return []
    useful = {last}
    for source in reversed(range(last)):
        if any(matrix[source][target] for target in useful):
            useful.add(source)
    return sorted(reachable & useful)


def select_vertices(spec: CellSpec, vertices: Sequence[int]) -> CellSpec:
    """Return the cell that consists of these vertices, in this order."""
    rows = []
    for source in vertices:
        rows.append(tuple(spec.matrix[source][target] for target in vertices))
    ops = tuple(spec.ops[vertex] for vertex in vertices)
    return CellSpec(tuple(rows), ops)


def prune_spec(spec: CellSpec) -> CellSpec:
    """Remove the vertices that are not on a path from input to output."""
    return select_vertices(spec, find_used_vertices(spec.matrix))


# -------------------------------------------------------------------------------- isomorphism


def find_canonical_form(spec: CellSpec) -> CellSpec:
    """Return the first cell in the authors' order that is isomorphic to this pruned cell.

    Their order is by matrix, then by operations.
    """

    def list_operation_numbers(order: tuple[int, ...]) -> list[int]:
        return [OPS.index(spec.ops[vertex]) for vertex in order[1:-1]]

    best_order = min(_find_best_orders(spec.matrix), key=list_operation_numbers)
    return select_vertices(spec, best_order)


@cache
def _find_best_orders(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """Return all orders of the vertices for which the matrix has the lowest number.

    The authors number matrices by reading their upper triangles as binary numbers.
    """
    last = len(matrix) - 1
    edges = _list_edges(matrix)
    orders_by_number: dict[int, list[tuple[int, ...]]] = {}
    for inner in permutations(range(1, last)):
        order = (0, *inner, last)
        position = {vertex: index for index, vertex in enumerate(order)}
        moved_edges = [(position[source], position[target]) for source, target in edges]
        # The matrix must stay upper triangular.
        if any(source > target for source, target in moved_edges):
            continue
        number = sum(1 << _compute_edge_bit(source, target) for source, target in moved_edges)
        orders_by_number.setdefault(number, []).append(order)
    lowest = min(orders_by_number)
    return tuple(orders_by_number[lowest])


def _list_edges(matrix: Matrix) -> list[tuple[int, int]]:
    edges = []
    for source, row in enumerate(matrix):
        for target, edge in enumerate(row):
            if edge:
                edges.append((source, target))
    return edges


def _compute_edge_bit(source: int, target: int) -> int:
    """Return the bit of an edge in the number of a matrix, which is read column by column."""
    return source + target * (target - 1) // 2


def compute_hash(spec: CellSpec) -> str:
    """Return the hash of a pruned cell as the benchmark computes it.

    Isomorphic cells have the same hash. Each vertex starts with a hash of its degrees and its
    operation. In each round it is combined with the hashes of the neighbours; there are as many
    rounds as vertices.
    """
    labels = {op: number for number, op in enumerate(OPS)}
    labels[INPUT] = -1
    labels[OUTPUT] = -2
    vertices = range(len(spec.ops))
    sources = [spec.sources(vertex) for vertex in vertices]
    targets = [spec.targets(vertex) for vertex in vertices]
    hashes = []
    for vertex in vertices:
        label = labels[spec.ops[vertex]]
        hashes.append(_hash_text(str((len(targets[vertex]), len(sources[vertex]), label))))
    for _ in vertices:
        new_hashes = []
        for vertex in vertices:
            parts = (
                _join_sorted(hashes, sources[vertex]),
                _join_sorted(hashes, targets[vertex]),
                hashes[vertex],
            )
            new_hashes.append(_hash_text("|".join(parts)))
        hashes = new_hashes
    return _hash_text(str(sorted(hashes)))


def _join_sorted(hashes: list[str], vertices: list[int]) -> str:
    return "".join(sorted(hashes[vertex] for vertex in vertices))


def _hash_text(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


# -------------------------------------------------------------------- enumeration and sampling


def enumerate_specs(vertex_count: int) -> Iterator[CellSpec]:
    """Iterate over all pruned cells of this size, isomorphic ones included, in the authors' order.

    Cells have at most `MAX_EDGES` edges.
    """
    for number in _list_matrix_numbers(vertex_count):
        for inner_ops in product(OPS, repeat=vertex_count - 2):
            yield _make_numbered_spec(number, inner_ops)


def sample_spec(rng: np.random.Generator, max_vertices: int = MAX_VERTICES) -> CellSpec:
    """Sample a canonical cell; all are equally likely.

    Labelled cells are sampled uniformly and rejected unless they are in canonical form.
    """
    sizes = range(2, max_vertices + 1)
    spec_counts = []
    for size in sizes:
        spec_counts.append(len(_list_matrix_numbers(size)) * len(OPS) ** (size - 2))
    weights = np.array(spec_counts)
    while True:
        size = int(rng.choice(sizes, p=weights / weights.sum()))
        numbers = _list_matrix_numbers(size)
        number = numbers[int(rng.integers(len(numbers)))]
        op_indices = rng.integers(len(OPS), size=size - 2)
        spec = _make_numbered_spec(number, [OPS[int(index)] for index in op_indices])
        if find_canonical_form(spec) == spec:
            return spec


@cache
def _list_matrix_numbers(vertex_count: int) -> tuple[int, ...]:
    """Return the numbers of all matrices of pruned cells with at most `MAX_EDGES` edges.

    In a pruned cell, every vertex except the output has an outgoing edge and every vertex except
    the input has an incoming one, so all vertices are on a path from input to output. All numbers
    are tested at once with bit masks.
    """
    pairs = list_possible_edges(vertex_count)
    numbers = np.arange(1 << len(pairs), dtype=np.int32)
    edge_counts = sum((numbers >> bit) & 1 for bit in range(len(pairs)))
    is_valid = edge_counts <= MAX_EDGES
    last = vertex_count - 1
    for vertex in range(vertex_count):
        outgoing = 0
        incoming = 0
        for source, target in pairs:
            edge_mask = 1 << _compute_edge_bit(source, target)
            if source == vertex:
                outgoing |= edge_mask
            if target == vertex:
                incoming |= edge_mask
        if vertex != last:
            is_valid &= (numbers & outgoing) != 0
        if vertex != 0:
            is_valid &= (numbers & incoming) != 0
    return tuple(numbers[is_valid].tolist())


def _make_numbered_spec(number: int, inner_ops: Sequence[str]) -> CellSpec:
    edges = []
    for source, target in list_possible_edges(len(inner_ops) + 2):
        if number >> _compute_edge_bit(source, target) & 1:
            edges.append((source, target))
    return make_spec(edges, inner_ops)


def list_possible_edges(vertex_count: int) -> list[tuple[int, int]]:
    """Return all possible edges (source, target), ordered by target."""
    edges = []
    for target in range(vertex_count):
        for source in range(target):
            edges.append((source, target))
    return edges


# ----------------------------------------------------------------------------------- channels


def compute_channels(spec: CellSpec, cin: int, cout: int) -> tuple[int, ...]:
    """Return the width of every vertex of a pruned cell.

    Inner vertices that feed the output share its channels; the first ones get the remainder. All
    other inner vertices are as wide as the widest vertex they feed.
    """
    last = len(spec.ops) - 1
    output_sources = [vertex for vertex in spec.sources(last) if vertex > 0]
    widths = [cin, *[0] * (last - 1), cout]
    for index, vertex in enumerate(output_sources):
        widths[vertex] = cout // len(output_sources)
        if index < cout % len(output_sources):
            widths[vertex] += 1
    # A vertex feeds later vertices only, so their widths are known when going backwards.
    for vertex in reversed(range(1, last)):
        if vertex not in output_sources:
            widths[vertex] = max(widths[target] for target in spec.targets(vertex))
    return tuple(widths)
