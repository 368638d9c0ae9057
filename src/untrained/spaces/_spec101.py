"""The cells of NAS-Bench-101 as graphs: pruning, canonical form, the official fingerprint, channels. No torch here.

A `Spec` is what the benchmark calls a ModelSpec: an upper triangular 0/1 matrix and one operation a vertex, the first
being the input and the last the output. Cells that differ in the order of their vertices only are the same cell. The
benchmark trained one of them, the first in the order in which its authors listed all graphs; `canonical` finds that
one. It is not a matter of taste: where channels do not divide evenly the earlier vertices get one more, so the order
decides the number of parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import md5
from itertools import permutations, product

import numpy as np

OPS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")  # the order in which the authors count operations
INPUT, OUTPUT = "input", "output"
MAX_VERTICES, MAX_EDGES = 7, 9
Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """A cell: `matrix[i][j]` is 1 where vertex i feeds vertex j > i; `ops` names every vertex, ends included."""

    matrix: Matrix
    ops: tuple[str, ...]

    @property
    def edges(self) -> int:
        return sum(map(sum, self.matrix))

    def sources(self, vertex: int) -> list[int]:
        """The vertices that feed this one."""
        return [i for i, row in enumerate(self.matrix) if row[vertex]]

    def targets(self, vertex: int) -> list[int]:
        return [j for j, edge in enumerate(self.matrix[vertex]) if edge]


def spec_of(edges: Sequence[tuple[int, int]], inner: Sequence[str]) -> Spec:
    """The cell with these edges and inner operations; the input is vertex 0, the output the last."""
    n = len(inner) + 2
    present = set(edges)
    matrix = tuple(tuple(int((i, j) in present) for j in range(n)) for i in range(n))
    return Spec(matrix, (INPUT, *inner, OUTPUT))


def alive(matrix: Matrix) -> list[int]:
    """The vertices on a path from input to output, in order; empty where there is no such path."""
    n = len(matrix)
    forward, backward = {0}, {n - 1}
    for j in range(1, n):
        if any(matrix[i][j] for i in forward):
            forward.add(j)
    for i in reversed(range(n - 1)):
        if any(matrix[i][j] for j in backward):
            backward.add(i)
    return sorted(forward & backward) if n - 1 in forward else []


def restricted(spec: Spec, vertices: Sequence[int]) -> Spec:
    """The cell of these vertices only, in this order."""
    matrix = tuple(tuple(spec.matrix[i][j] for j in vertices) for i in vertices)
    return Spec(matrix, tuple(spec.ops[v] for v in vertices))


def pruned(spec: Spec) -> Spec:
    """Without the vertices that are on no path from input to output."""
    return restricted(spec, alive(spec.matrix))


# -------------------------------------------------------------------------------------------------- isomorphism


def canonical(spec: Spec) -> Spec:
    """The first of all cells isomorphic to this pruned one, in the authors' order: by matrix, then by operations."""
    orders = _best_orders(spec.matrix)
    return restricted(spec, min(orders, key=lambda order: [OPS.index(spec.ops[v]) for v in order[1:-1]]))


@cache
def _best_orders(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """Every order of the vertices that makes the matrix the first one."""
    n = len(matrix)
    numbered: dict[int, list[tuple[int, ...]]] = {}
    edges = [(i, j) for i in range(n) for j in range(n) if matrix[i][j]]
    for inner in permutations(range(1, n - 1)):
        order = (0, *inner, n - 1)
        place = {vertex: position for position, vertex in enumerate(order)}
        if all(place[i] < place[j] for i, j in edges):
            number = sum(1 << _bit(place[i], place[j]) for i, j in edges)
            numbered.setdefault(number, []).append(order)
    return tuple(numbered[min(numbered)])


def _bit(i: int, j: int) -> int:
    """The place of an edge in the number by which the authors list matrices: column by column."""
    return i + j * (j - 1) // 2


def fingerprint(spec: Spec) -> str:
    """The benchmark's own hash of a pruned cell: every vertex hashes its neighbours' hashes, as often as there are
    vertices. Isomorphic cells have the same."""
    n = len(spec.ops)
    label = {op: number for number, op in enumerate(OPS)} | {INPUT: -1, OUTPUT: -2}
    into, out = [spec.sources(v) for v in range(n)], [spec.targets(v) for v in range(n)]
    hashes = [_md5(str((len(out[v]), len(into[v]), label[spec.ops[v]]))) for v in range(n)]
    for _ in range(n):
        hashes = [_md5("|".join((_joined(hashes, into[v]), _joined(hashes, out[v]), hashes[v]))) for v in range(n)]
    return _md5(str(sorted(hashes)))


def _joined(hashes: list[str], vertices: list[int]) -> str:
    return "".join(sorted(hashes[v] for v in vertices))


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


# ------------------------------------------------------------------------------------------------- all of them


def specs(vertices: int) -> Iterator[Spec]:
    """All pruned cells of that many vertices within the limit of edges, isomorphic ones too, in the authors' order."""
    for number in _numbers(vertices):
        for inner in product(OPS, repeat=vertices - 2):
            yield _numbered(number, inner)


def random_spec(rng: np.random.Generator, max_vertices: int = MAX_VERTICES) -> Spec:
    """A canonical cell, each equally likely: of all cells in every order, the first that is in its canonical one."""
    sizes = range(2, max_vertices + 1)
    labelled = np.array([len(_numbers(n)) * len(OPS) ** (n - 2) for n in sizes])
    while True:
        vertices = int(rng.choice(sizes, p=labelled / labelled.sum()))
        number = _numbers(vertices)[int(rng.integers(len(_numbers(vertices))))]
        spec = _numbered(number, [OPS[int(op)] for op in rng.integers(len(OPS), size=vertices - 2)])
        if canonical(spec) == spec:
            return spec


@cache
def _numbers(vertices: int) -> tuple[int, ...]:
    """The numbers of the matrices in which every vertex is on a path and edges are within the limit."""
    pairs = _pairs(vertices)
    numbers = np.arange(1 << len(pairs), dtype=np.int32)
    good = sum((numbers >> bit) & 1 for bit in range(len(pairs))) <= MAX_EDGES
    for vertex in range(vertices):
        for end in (0, 1):  # edges that leave the vertex, edges that enter it
            if vertex != (vertices - 1, 0)[end]:
                good &= (numbers & sum(1 << _bit(*pair) for pair in pairs if pair[end] == vertex)) != 0
    return tuple(numbers[good].tolist())


def _numbered(number: int, inner: Sequence[str]) -> Spec:
    return spec_of([pair for pair in _pairs(len(inner) + 2) if number >> _bit(*pair) & 1], inner)


def _pairs(vertices: int) -> list[tuple[int, int]]:
    return [(i, j) for j in range(vertices) for i in range(j)]


# ----------------------------------------------------------------------------------------------------- channels


def channels(spec: Spec, cin: int, cout: int) -> tuple[int, ...]:
    """The width of every vertex of a pruned cell. Inner vertices that feed the output share its channels, the first
    ones taking what does not divide evenly; every other inner vertex is as wide as the widest it feeds."""
    last = len(spec.ops) - 1
    sharing = [v for v in spec.sources(last) if v > 0]
    widths = [cin, *[0] * (last - 1), cout]
    for place, vertex in enumerate(sharing):
        widths[vertex] = cout // len(sharing) + (place < cout % len(sharing))
    for vertex in reversed(range(1, last)):
        if vertex not in sharing:
            widths[vertex] = max(widths[target] for target in spec.targets(vertex))
    return tuple(widths)
