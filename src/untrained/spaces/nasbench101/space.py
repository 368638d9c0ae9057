"""NAS-Bench-101 (Ying et al., ICML 2019; arXiv:1902.09635): 423,624 cells.

A cell has up to 7 vertices, which carry the operations, and up to 9 edges. It is written as its
matrix, row by row, and its operations:
`0110/0001/0001/0000+input,conv3x3-bn-relu,maxpool3x3,output`. Parsed cells may have unused
vertices, and their vertices may be in any order. Printed cells are pruned, with the vertices in the
order that the benchmark trained (see `graph.py`), so isomorphic cells are equal. The format of
public tables is accepted too: `0110...0+0421...` are 49 digits of the matrix and 7 digits of
operations (0 input, 1 output, 2 max pooling, 3 convolution 1x1, 4 convolution 3x3).

The network is that of the benchmark. Its blocks end with the ReLU. Every edge from the input of a
cell has a 1x1 projection, tensors that are wider than the vertex that reads them are truncated, and
the output is a concatenation. Batch norm has the momentum of the TensorFlow original (0.997 there
is 0.003 in torch; NASBench-PyTorch uses 0.997). Weights have torch's default initialisation.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from untrained.drawings.diagrams import CellGraph
from untrained.errors import UsageError
from untrained.options import Count
from untrained.spaces.core.choices import pick_uniformly
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.core.space import (
    Choose,
    InvalidArch,
    NetworkBuilder,
    Space,
    register_space,
    space,
)
from untrained.spaces.nasbench101.graph import (
    INPUT,
    MAX_EDGES,
    MAX_VERTICES,
    OPS,
    OUTPUT,
    CellSpec,
    compute_hash,
    find_canonical_form,
    find_used_vertices,
    list_possible_edges,
    make_spec,
    prune_spec,
    sample_spec,
    select_vertices,
)
from untrained.spaces.nasbench101.network import NASBench101, count_network
from untrained.types import Arch, Choice, Genes, Task

_POSSIBLE_EDGES = list_possible_edges(MAX_VERTICES)
_INNER_VERTICES = range(1, MAX_VERTICES - 1)
# The digits of operations in public tables.
_OPS_BY_DIGIT = {
    "0": INPUT,
    "1": OUTPUT,
    "2": "maxpool3x3",
    "3": "conv1x1-bn-relu",
    "4": "conv3x3-bn-relu",
}


# ----------------------------------------------------------------------------------- notation


def parse_spec(text: str) -> CellSpec:
    """Read a cell written as `matrix+operations`; unused vertices are kept."""
    matrix_text, plus, op_text = text.partition("+")
    if not plus:
        raise make_parse_error(text, len(text), "'+' and the operations")
    if "/" not in matrix_text and "," not in op_text:
        return _parse_digits(text, matrix_text, op_text)
    ops = op_text.split(",")
    rows = []
    position = 0
    for row in matrix_text.split("/"):
        if len(row) != len(ops) or set(row) - set("01"):
            expected = f"{len(ops)} digits 0 or 1, one for each operation"
            raise make_parse_error(text, position, expected)
        rows.append(tuple(map(int, row)))
        # One more for the slash.
        position += len(row) + 1
    spec = CellSpec(tuple(rows), tuple(ops))
    _check_spec(text, spec)
    return spec


def _parse_digits(text: str, matrix_digits: str, op_digits: str) -> CellSpec:
    """Read the format of public tables: digits of the matrix and of the operations."""
    vertex_count = len(op_digits)
    if vertex_count == 0:
        raise make_parse_error(text, len(text), "the operations")
    if len(matrix_digits) != vertex_count**2 or set(matrix_digits) - set("01"):
        expected = f"{vertex_count} x {vertex_count} digits 0 or 1, one row for each operation"
        raise make_parse_error(text, 0, expected)
    for index, digit in enumerate(op_digits):
        if digit not in _OPS_BY_DIGIT:
            position = len(matrix_digits) + 1 + index
            raise make_parse_error(text, position, "a digit from 0 to 4")
    rows = []
    for start in range(0, len(matrix_digits), vertex_count):
        rows.append(tuple(map(int, matrix_digits[start : start + vertex_count])))
    spec = CellSpec(tuple(rows), tuple(_OPS_BY_DIGIT[digit] for digit in op_digits))
    _check_spec(text, spec)
    return spec


def _check_spec(text: str, spec: CellSpec) -> None:
    """Raise an error unless operations are known and the matrix is upper triangular."""
    last = len(spec.ops) - 1
    position = text.index("+") + 1
    for vertex, op in enumerate(spec.ops):
        allowed: tuple[str, ...] = OPS
        if vertex == 0:
            allowed = (INPUT,)
        # In a cell of one vertex, both conditions hold, and the vertex must be the output.
        if vertex == last:
            allowed = (OUTPUT,)
        if op not in allowed:
            raise make_parse_error(text, position, " or ".join(allowed))
        # Names are separated by commas, digits are not.
        if "," in text:
            position += len(op) + 1
        else:
            position += 1
    is_square = len(spec.matrix) == len(spec.ops)
    if not is_square or _has_edge_below_diagonal(spec):
        raise UsageError(f"{text}: the matrix must be square with ones above the diagonal only")


def _has_edge_below_diagonal(spec: CellSpec) -> bool:
    for source, row in enumerate(spec.matrix):
        if any(row[: source + 1]):
            return True
    return False


def format_spec(spec: CellSpec) -> str:
    """Write a cell as `matrix+operations`."""
    rows = ["".join(map(str, row)) for row in spec.matrix]
    return f"{'/'.join(rows)}+{','.join(spec.ops)}"


class Nasbench101Notation:
    """Matrix and operations.

    Genes are the edges among seven vertices and the operations of the vertices on a path.
    """

    def format(self, genes: Genes) -> str:
        return format_spec(_make_pruned_spec(genes))

    def parse(self, text: str) -> Genes:
        spec = prune_spec(parse_spec(text))
        if len(spec.ops) > MAX_VERTICES:
            raise UsageError(
                f"{text} has {len(spec.ops)} vertices, but a cell has at most {MAX_VERTICES}"
            )
        return _list_genes(spec)


# --------------------------------------------------------------------------- cells and choices


def _list_genes(spec: CellSpec, numbers: Sequence[int] = ()) -> Genes:
    """Return the genes of a pruned cell.

    Args:
        spec: A pruned cell.
        numbers: For each inner vertex of the pruned cell, its number among the five inner vertices
            of the choices; by default 1, 2, ...
    """
    inner_ops = spec.ops[1:-1]
    inner_numbers = numbers or range(1, len(inner_ops) + 1)
    vertex_numbers = (0, *inner_numbers, MAX_VERTICES - 1)
    edges = set()
    for source in range(len(spec.ops)):
        for target in spec.targets(source):
            edges.add((vertex_numbers[source], vertex_numbers[target]))
    genes: list[tuple[str, Choice]] = []
    for edge in _POSSIBLE_EDGES:
        genes.append((_name_edge(*edge), int(edge in edges)))
    for number, op in zip(inner_numbers, inner_ops, strict=True):
        genes.append((f"op{number}", op))
    return tuple(genes)


def _make_pruned_spec(genes: Genes) -> CellSpec:
    """Return the pruned cell of these genes."""
    values = dict(genes)
    edges = [edge for edge in _POSSIBLE_EDGES if values[_name_edge(*edge)]]
    # A vertex without an operation is pruned below, so its operation does not matter.
    ops = [str(values.get(f"op{vertex}", OPS[0])) for vertex in _INNER_VERTICES]
    return prune_spec(make_spec(edges, ops))


def _name_edge(source: int, target: int) -> str:
    return f"{source}->{target}"


def _make_genes_canonical(genes: Genes) -> Genes:
    return _list_genes(find_canonical_form(_make_pruned_spec(genes)))


def get_spec(arch: Arch) -> CellSpec:
    """Return the pruned cell of an architecture, in canonical order."""
    return _make_pruned_spec(arch.genes)


def compute_arch_hash(arch: Arch) -> str:
    """Return the hash under which the files of the benchmark list this cell."""
    return compute_hash(get_spec(arch))


# ------------------------------------------------------------------------ sampling and mutation


def _sample_arch(space: Space, rng: np.random.Generator) -> Arch:
    """Sample one of the 423,624 cells; all are equally likely, as in samples from the table.

    Sampling matrices bit by bit would favour small cells.
    """
    return space.make_arch(_list_genes(sample_spec(rng)))


def _mutate_arch(space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
    """Mutate like the benchmark's code.

    Every edge flips with probability 1/7, every operation changes with probability 1/5. The
    vertices of the cell are placed at random among the five inner vertices, so that a mutation can
    add the others anywhere.
    """
    spec = get_spec(arch)
    inner_count = MAX_VERTICES - 2
    sampled_numbers = rng.choice(inner_count, len(spec.ops) - 2, replace=False)
    numbers = sorted(1 + int(number) for number in sampled_numbers)
    values = dict(_list_genes(spec, numbers))
    edges = []
    for edge in _POSSIBLE_EDGES:
        has_edge = bool(values[_name_edge(*edge)])
        is_flipped = rng.random() < 1 / MAX_VERTICES
        if has_edge != is_flipped:
            edges.append(edge)
    ops = []
    for vertex in _INNER_VERTICES:
        # The random operation is drawn for used vertices too, which keeps the random sequence.
        random_op = rng.choice(OPS)
        op = str(values.get(f"op{vertex}", random_op))
        ops.append(_mutate_operation(op, rng))
    mutant = prune_spec(make_spec(edges, ops))
    if not mutant.ops or mutant.edge_count > MAX_EDGES:
        raise InvalidArch("the mutant is not a valid cell")
    return space.make_arch(_list_genes(mutant))


def _mutate_operation(op: str, rng: np.random.Generator) -> str:
    if rng.random() >= 1 / (MAX_VERTICES - 2):
        return op
    others = [other for other in OPS if other != op]
    return pick_uniformly(others, rng)


# ----------------------------------------------------------------------------------- the space


def make_spec_diagram(spec: CellSpec) -> CellGraph:
    """Return a graph with operations on the nodes and plain edges."""
    labels = tuple(op.removesuffix("-bn-relu") for op in spec.ops)
    edges = []
    for source in range(len(labels)):
        for target in spec.targets(source):
            edges.append((source, target, ""))
    return CellGraph(labels, tuple(edges))


def _draw_arch(arch: Arch) -> CellGraph:
    return make_spec_diagram(get_spec(arch))


def _count_arch(space: Space, arch: Arch, task: Task) -> Counts | None:
    return count_network(get_spec(arch), task, **dict(space.options))


@register_space
@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=Nasbench101Notation(),
    canonical=_make_genes_canonical,
    mutate=_mutate_arch,
    sample=_sample_arch,
    draw=_draw_arch,
    size=423_624,
    counts=_count_arch,
)
def nasbench101(
    choose: Choose, task: Task, channels: Count = 128, stacks: Count = 3, cells: Count = 3
) -> NetworkBuilder:
    """Cells of up to seven vertices and nine edges, three operations; 423,624 architectures."""
    edges = [edge for edge in _POSSIBLE_EDGES if choose(_name_edge(*edge), (0, 1))]
    # Operations are chosen after the edges, and only for the vertices that remain.
    full_spec = make_spec(edges, [""] * len(_INNER_VERTICES))
    used_vertices = find_used_vertices(full_spec.matrix)
    if not used_vertices:
        raise InvalidArch("no path leads from the input to the output")
    pruned_spec = select_vertices(full_spec, used_vertices)
    edge_count = pruned_spec.edge_count
    if edge_count > MAX_EDGES:
        raise InvalidArch(
            f"{edge_count} edges are on paths from input to output, and {MAX_EDGES} are allowed"
        )
    ops = [choose(f"op{vertex}", OPS) for vertex in used_vertices[1:-1]]
    spec = CellSpec(pruned_spec.matrix, (INPUT, *ops, OUTPUT))
    return partial(NASBench101, spec, task, channels, stacks=stacks, cells=cells)
