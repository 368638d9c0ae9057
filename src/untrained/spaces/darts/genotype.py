"""Genotypes in the notation of the DARTS family: two cells, each a list of edges.

`Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), ...], normal_concat=range(2, 6),
reduce=..., reduce_concat=...)` has two edges (operation, source) per node. States 0 and 1 are the
outputs of the two preceding cells; nodes are counted from 2. The order of the two edges of a node
has no meaning; we write the lower source first. Text is parsed as data and never evaluated.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from untrained.drawings.diagrams import CellGraph, CellGraphs
from untrained.spaces.core.choices import Choose
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.darts.operations import OPERATIONS
from untrained.types import Choice, Genes

KINDS = ("normal", "reduce")
Edge = tuple[str, int]  # operation, source

# Cells have four nodes. Published cells from other spaces (NASNet, ENAS, ...) have five.
_NODE_COUNT = 4
_LARGE_NODE_COUNT = 5


@dataclass(frozen=True, slots=True)
class Wiring:
    """The edges and the output of a cell.

    Attributes:
        edges: Two edges per node, for nodes 2, 3, ...
        concat: Nodes whose states are concatenated to the output.
    """

    edges: tuple[Edge, ...]
    concat: tuple[int, ...]

    @property
    def nodes(self) -> range:
        node_count = len(self.edges) // 2
        return range(2, 2 + node_count)

    def edges_into(self, node: int) -> tuple[Edge, ...]:
        """Return the two edges of a node."""
        first = 2 * (node - 2)
        return self.edges[first : first + 2]


@dataclass(frozen=True, slots=True)
class Genotype:
    """The normal and the reduction cell."""

    normal: Wiring
    reduce: Wiring

    @classmethod
    def from_genes(cls, genes: Genes) -> "Genotype":
        values = {name: str(value) for name, value in genes}
        return cls(_read_wiring("normal", values), _read_wiring("reduce", values))

    def __getitem__(self, kind: str) -> Wiring:
        if kind == "normal":
            return self.normal
        return self.reduce

    @property
    def genes(self) -> Genes:
        return (*_list_genes("normal", self.normal), *_list_genes("reduce", self.reduce))


# ------------------------------------------------------------------------------------- choices


def choose_cell(
    choose: Choose,
    kind: str,
    list_candidates: Callable[[str, int, int], Sequence[str]],
    *,
    distinct: bool = False,
) -> list[tuple[str, Choice]]:
    """Choose a cell: for every node two sources, then an operation for each of them.

    Some published cells are accepted in text but never sampled: nodes with two equal sources, other
    operations, five nodes, other concatenations.

    Args:
        choose: The `choose` of the space.
        kind: `normal` or `reduce`.
        list_candidates: Function of kind, node and source that returns the allowed operations.
        distinct: Whether the two operations of a node must differ.

    Returns:
        The genes of the cell.
    """
    genes: list[tuple[str, Choice]] = []

    def add_gene(name: str, options: Sequence[Choice], accepted: Sequence[Choice]) -> Choice:
        not_sampled = [value for value in accepted if value not in options]
        value = choose(name, options, not_sampled)
        genes.append((name, value))
        return value

    node_count = add_gene(f"{kind}_nodes", (_NODE_COUNT,), (_LARGE_NODE_COUNT,))
    nodes = range(2, 2 + int(node_count))
    for node in nodes:
        pairs = [_join_states(pair) for pair in combinations(range(node), 2)]
        equal_pairs = [_join_states((source, source)) for source in range(node)]
        inputs = add_gene(f"{kind}{node}_inputs", pairs, equal_pairs)
        excluded = {"none"}
        for index, source in enumerate(_split_states(str(inputs))):
            candidates = list_candidates(kind, node, source)
            options = [op for op in candidates if op not in excluded]
            op = add_gene(f"{kind}{node}_op{index}", options, OPERATIONS)
            if distinct:
                excluded.add(str(op))
    subsets = []
    for size in range(1, len(nodes) + 1):
        for subset in combinations(nodes, size):
            subsets.append(_join_states(subset))
    add_gene(f"{kind}_concat", (_join_states(nodes),), subsets)
    return genes


def _read_wiring(kind: str, values: dict[str, str]) -> Wiring:
    edges: list[Edge] = []
    node_count = int(values[f"{kind}_nodes"])
    for node in range(2, 2 + node_count):
        node_edges = []
        for index, source in enumerate(_split_states(values[f"{kind}{node}_inputs"])):
            node_edges.append((values[f"{kind}{node}_op{index}"], source))
        edges += _sort_edges(node_edges)
    return Wiring(tuple(edges), _split_states(values[f"{kind}_concat"]))


def _list_genes(kind: str, wiring: Wiring) -> Iterator[tuple[str, Choice]]:
    nodes_gene, concat_gene = list_cell_genes(kind, wiring.nodes, sorted(wiring.concat))
    yield nodes_gene
    for node in wiring.nodes:
        yield from list_node_genes(kind, node, wiring.edges_into(node))
    yield concat_gene


def list_cell_genes(kind: str, nodes: range, concat: Sequence[int] | None = None) -> Genes:
    """Return the genes for the number of nodes and for the output (default: all nodes)."""
    if concat is None:
        concat = nodes
    return (f"{kind}_nodes", len(nodes)), (f"{kind}_concat", _join_states(concat))


def list_node_genes(kind: str, node: int, edges: Sequence[Edge]) -> Genes:
    """Return the genes of the two edges of a node."""
    sorted_edges = _sort_edges(edges)
    sources = _join_states(source for _, source in sorted_edges)
    genes: list[tuple[str, Choice]] = [(f"{kind}{node}_inputs", sources)]
    for index, (op, _) in enumerate(sorted_edges):
        genes.append((f"{kind}{node}_op{index}", op))
    return tuple(genes)


def _sort_edges(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=lambda edge: (edge[1], edge[0]))


def _join_states(states: Iterable[int]) -> str:
    return ",".join(map(str, states))


def _split_states(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


# ---------------------------------------------------------------------------------------- text


class GenotypeNotation:
    """The printed form of the named tuple in DARTS's code."""

    def format(self, genes: Genes) -> str:
        genotype = Genotype.from_genes(genes)
        fields = []
        for kind in KINDS:
            wiring = genotype[kind]
            fields.append(f"{kind}={list(wiring.edges)}")
            fields.append(f"{kind}_concat={_abbreviate_states(wiring.concat)}")
        return f"Genotype({', '.join(fields)})"

    def parse(self, text: str) -> Genes:
        text = " ".join(text.split())
        fields = _parse_fields(text)
        # All edges are parsed before the concatenations, so that the first error is the earliest.
        normal_edges = _parse_edges(text, fields["normal"])
        reduce_edges = _parse_edges(text, fields["reduce"])
        normal_concat = _parse_concat(text, fields["normal_concat"], _find_last_node(normal_edges))
        reduce_concat = _parse_concat(text, fields["reduce_concat"], _find_last_node(reduce_edges))
        genotype = Genotype(
            Wiring(normal_edges, normal_concat), Wiring(reduce_edges, reduce_concat)
        )
        return genotype.genes


def _find_last_node(edges: Sequence[Edge]) -> int:
    return 1 + len(edges) // 2


def _abbreviate_states(states: tuple[int, ...]) -> range | list[int]:
    """Return a range for consecutive states, as DARTS's code prints it."""
    consecutive = range(states[0], states[-1] + 1)
    if tuple(consecutive) == states:
        return consecutive
    return list(states)


def _parse_fields(text: str) -> dict[str, ast.expr]:
    """Return the syntax trees of the four arguments of `Genotype(...)`."""
    names = ["normal", "normal_concat", "reduce", "reduce_concat"]
    arguments = ", ".join(f"{name}=[...]" for name in names)
    expected = f"Genotype({arguments})"
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        # Python counts from 1 and may point beyond the end.
        column = max(error.offset or 1, 1) - 1
        raise make_parse_error(text, min(column, len(text)), expected) from None
    except (ValueError, RecursionError, MemoryError):
        raise make_parse_error(text, 0, expected) from None
    match call:
        case ast.Call(func=ast.Name(id="Genotype"), args=[], keywords=keywords):
            keyword_names = sorted(keyword.arg or "" for keyword in keywords)
            if keyword_names == sorted(names):
                return {keyword.arg or "": keyword.value for keyword in keywords}
    raise make_parse_error(text, 0, expected)


def _parse_edges(text: str, field: ast.expr) -> tuple[Edge, ...]:
    lengths = (2 * _NODE_COUNT, 2 * _LARGE_NODE_COUNT)
    if not isinstance(field, ast.List | ast.Tuple) or len(field.elts) not in lengths:
        expected = f"a list of {lengths[0]} or {lengths[1]} edges, two per node"
        raise make_parse_error(text, field.col_offset, expected)
    edges = []
    for index, element in enumerate(field.elts):
        node = 2 + index // 2
        edges.append(_parse_edge(text, element, node))
    return tuple(edges)


def _parse_edge(text: str, element: ast.expr, node: int) -> Edge:
    match element:
        case ast.Tuple(elts=[ast.Constant(value=str(op)), ast.Constant(value=int(source))]):
            if op not in OPERATIONS:
                expected = f"one of {', '.join(OPERATIONS)}"
                raise make_parse_error(text, element.col_offset + 1, expected)
            if 0 <= source < node:
                return op, int(source)
    expected = f"an edge such as ('sep_conv_3x3', 0), with a source below {node}"
    raise make_parse_error(text, element.col_offset, expected)


def _parse_concat(text: str, field: ast.expr, last: int) -> tuple[int, ...]:
    """Read `range(2, 6)` or a list of nodes from 2 to `last`."""
    states: list[int] = []
    match field:
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Constant(value=int(start)), ast.Constant(value=int(stop))],
        ):
            # Limited, because `range(2, 10**12)` is valid syntax.
            states = list(range(max(start, 1), min(stop, last + 2)))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                # `type(...) is int` excludes True and False.
                if isinstance(element, ast.Constant) and type(element.value) is int:
                    states.append(element.value)
            if len(states) < len(elements):
                states = []
    is_unique = len(set(states)) == len(states)
    if not states or not is_unique or not set(states) <= set(range(2, last + 1)):
        expected = f"range(2, {last + 1}) or a list of nodes from 2 to {last}"
        raise make_parse_error(text, field.col_offset, expected)
    return tuple(sorted(states))


# ------------------------------------------------------------------------------------- drawing


def make_genotype_diagram(genes: Genes) -> CellGraphs:
    """Return both cells as graphs; the last node of a graph is the output."""
    genotype = Genotype.from_genes(genes)
    return CellGraphs(tuple((kind, _draw_wiring(genotype[kind])) for kind in KINDS))


def _draw_wiring(wiring: Wiring) -> CellGraph:
    edges = []
    for node in wiring.nodes:
        for op, source in wiring.edges_into(node):
            edges.append((source, node, op))
    output = wiring.nodes[-1] + 1
    for node in wiring.concat:
        edges.append((node, output, ""))
    node_labels = [str(node) for node in wiring.nodes]
    return CellGraph(("c_{k-2}", "c_{k-1}", *node_labels, "c_{k}"), tuple(edges))
