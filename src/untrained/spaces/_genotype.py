"""Genotypes as the DARTS family writes them: two cells, each a list of edges and of the nodes joined to its output.

`Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), ...], normal_concat=range(2, 6), reduce=..., ...)`: two
edges (operation, source) a node. States 0 and 1 are the outputs of the two cells before, nodes count from 2. The order
of the two edges means nothing; we write the lower source first. Text is read as data: none of it is ever evaluated.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from untrained.spaces._darts_ops import OPERATIONS
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Cell, Cells
from untrained.types import Choice, Genes

KINDS = ("normal", "reduce")
Edge = tuple[str, int]  # operation, source


@dataclass(frozen=True, slots=True)
class Wiring:
    """A cell: the edges into nodes 2, 3, ..., two a node, and the nodes that are joined to its output."""

    edges: tuple[Edge, ...]
    concat: tuple[int, ...]

    @property
    def nodes(self) -> range:
        return range(2, 2 + len(self.edges) // 2)

    def into(self, node: int) -> tuple[Edge, ...]:
        return self.edges[2 * (node - 2) : 2 * (node - 1)]


@dataclass(frozen=True, slots=True)
class Genotype:
    normal: Wiring
    reduce: Wiring

    @classmethod
    def of(cls, genes: Genes) -> "Genotype":
        said = {name: str(value) for name, value in genes}
        return cls(*(_wiring(kind, said) for kind in KINDS))

    def __getitem__(self, kind: str) -> Wiring:
        return self.normal if kind == "normal" else self.reduce

    @property
    def genes(self) -> Genes:
        return tuple(gene for kind in KINDS for gene in _genes(kind, self[kind]))


# ------------------------------------------------------------------------------------------------------ as choices

_NODES, _MORE = 4, 5  # published cells that were not found in the DARTS space (NASNet, ENAS, ...) have five nodes


def choices(
    choose: Any, kind: str, candidates: Callable[[str, int, int], Sequence[str]], *, distinct: bool = False
) -> Iterator[tuple[str, Choice]]:
    """Choose a cell: for every node two sources, then an operation for each; the genes one after the other.

    Published cells may be written whose sources are equal, whose operations are others, with five nodes or another
    output; none of these is ever drawn. With `distinct`, the two operations of a node differ.
    """

    def gene(name: str, options: Sequence[Choice], also: Sequence[Choice]) -> tuple[str, Choice]:
        return name, choose(name, options, [option for option in also if option not in options])

    nodes = gene(f"{kind}_nodes", (_NODES,), (_MORE,))
    yield nodes
    states = range(2, 2 + int(nodes[1]))
    for node in states:
        pairs = [_written(pair) for pair in combinations(range(node), 2)]
        inputs = gene(f"{kind}{node}_inputs", pairs, [_written((source, source)) for source in range(node)])
        yield inputs
        taken: list[Choice] = []
        for i, source in enumerate(_read(str(inputs[1]))):
            free = [op for op in candidates(kind, node, source) if op not in taken and op != "none"]
            op = gene(f"{kind}{node}_op{i}", free, OPERATIONS)
            yield op
            taken += [op[1]] if distinct else []
    joined = [_written(chosen) for n in states for chosen in combinations(states, n - 1)]
    yield gene(f"{kind}_concat", (_written(states),), joined)


def _wiring(kind: str, said: dict[str, str]) -> Wiring:
    edges: list[Edge] = []
    for node in range(2, 2 + int(said[f"{kind}_nodes"])):
        sources = _read(said[f"{kind}{node}_inputs"])
        edges += _ordered((said[f"{kind}{node}_op{i}"], source) for i, source in enumerate(sources))
    return Wiring(tuple(edges), _read(said[f"{kind}_concat"]))


def _genes(kind: str, wiring: Wiring) -> Iterator[tuple[str, Choice]]:
    nodes, concat = cell_genes(kind, wiring.nodes, sorted(wiring.concat))
    yield nodes
    for node in wiring.nodes:
        yield from node_genes(kind, node, wiring.into(node))
    yield concat


def cell_genes(kind: str, nodes: range, concat: Sequence[int] | None = None) -> Genes:
    """How many nodes a cell has, and which of them are joined to its output; all, unless told otherwise."""
    return (f"{kind}_nodes", len(nodes)), (f"{kind}_concat", _written(nodes if concat is None else concat))


def node_genes(kind: str, node: int, edges: Sequence[Edge]) -> Genes:
    """The two edges of a node."""
    ordered = _ordered(edges)
    inputs = f"{kind}{node}_inputs", _written(source for _, source in ordered)
    return (inputs, *((f"{kind}{node}_op{i}", op) for i, (op, _) in enumerate(ordered)))


def _ordered(edges: Any) -> list[Edge]:
    return sorted(edges, key=lambda edge: (edge[1], edge[0]))


def _written(states: Any) -> str:
    return ",".join(map(str, states))


def _read(states: str) -> tuple[int, ...]:
    return tuple(map(int, states.split(",")))


# --------------------------------------------------------------------------------------------------------- as text


class GenotypeNotation:
    """The printed form of the named tuple that DARTS's code defines."""

    def format(self, genes: Genes) -> str:
        cells = Genotype.of(genes)
        fields = (f"{k}={list(cells[k].edges)}, {k}_concat={_listed(cells[k].concat)}" for k in KINDS)
        return f"Genotype({', '.join(fields)})"

    def parse(self, text: str) -> Genes:
        text = " ".join(text.split())
        fields = _fields(text)
        edges = {kind: _edges(text, fields[kind]) for kind in KINDS}
        joined = {k: _concat(text, fields[f"{k}_concat"], 1 + len(edges[k]) // 2) for k in KINDS}
        return Genotype(*(Wiring(edges[kind], joined[kind]) for kind in KINDS)).genes


def _listed(states: tuple[int, ...]) -> range | list[int]:
    whole = range(states[0], states[-1] + 1)
    return whole if tuple(whole) == states else list(states)


def _fields(text: str) -> dict[str, ast.expr]:
    names = [name for kind in KINDS for name in (kind, f"{kind}_concat")]
    wanted = f"Genotype({', '.join(f'{name}=[...]' for name in names)})"
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise malformed(text, min(max(error.offset or 1, 1) - 1, len(text)), wanted) from None
    except (ValueError, RecursionError, MemoryError):
        raise malformed(text, 0, wanted) from None
    match call:
        case ast.Call(func=ast.Name(id="Genotype"), args=[], keywords=keywords):
            fields = {keyword.arg or "": keyword.value for keyword in keywords}
            if sorted(keyword.arg or "" for keyword in keywords) == sorted(names):
                return fields
    raise malformed(text, 0, wanted)


def _edges(text: str, field: ast.expr) -> tuple[Edge, ...]:
    if not isinstance(field, ast.List | ast.Tuple) or len(field.elts) not in (2 * _NODES, 2 * _MORE):
        raise malformed(text, field.col_offset, f"a list of {2 * _NODES} or {2 * _MORE} edges, two a node")
    return tuple(_edge(text, element, 2 + i // 2) for i, element in enumerate(field.elts))


def _edge(text: str, element: ast.expr, node: int) -> Edge:
    match element:
        case ast.Tuple(elts=[ast.Constant(value=str(op)), ast.Constant(value=int(source))]):
            if op not in OPERATIONS:
                raise malformed(text, element.col_offset + 1, f"one of {', '.join(OPERATIONS)}")
            if 0 <= source < node:
                return op, int(source)
    raise malformed(text, element.col_offset, f"('sep_conv_3x3', 0) or the like, with a source below {node}")


def _concat(text: str, field: ast.expr, last: int) -> tuple[int, ...]:
    states: list[int] = []
    match field:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(a)), ast.Constant(value=int(b))]):
            states = list(range(max(a, 1), min(b, last + 2)))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            states = [e.value for e in elements if isinstance(e, ast.Constant) and type(e.value) is int]
            states = states if len(states) == len(elements) else []
    if not states or len(set(states)) < len(states) or not {*states} <= {*range(2, last + 1)}:
        raise malformed(text, field.col_offset, f"range(2, {last + 1}) or a list of nodes from 2 to {last}")
    return tuple(sorted(states))


# ------------------------------------------------------------------------------------------------------ as drawing


def sketch(genes: Genes) -> Cells:
    """Both cells as graphs; the output's node comes last."""
    cells = Genotype.of(genes)
    return Cells(tuple((kind, _drawn(cells[kind])) for kind in KINDS))


def _drawn(wiring: Wiring) -> Cell:
    edges = [(source, node, op) for node in wiring.nodes for op, source in wiring.into(node)]
    joined = [(node, wiring.nodes[-1] + 1, "") for node in wiring.concat]
    return Cell(("c_{k-2}", "c_{k-1}", *(str(node) for node in wiring.nodes), "c_{k}"), (*edges, *joined))
