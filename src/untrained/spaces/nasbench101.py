"""NAS-Bench-101 (Ying et al., ICML 2019; arXiv:1902.09635): cells of up to 7 vertices and 9 edges, 423,624 of them.

Operations sit on the vertices. A cell is written as its matrix, row by row, and its operations:
`0110/0001/0001/0000+input,conv3x3-bn-relu,maxpool3x3,output`. What people type may have vertices on no path and any
order; what we print is pruned and in the one order that the benchmark trained (see `_spec101.py`), so isomorphic cells
are equal. The digits of public tables (49 of the matrix, then 7 of operations: 0 input, 1 output, 2 max pooling, 3 and
4 convolutions 1x1 and 3x3) are read too: `0110...0+0421...`.

The network is the benchmark's: post-activation blocks, every edge from the cell's input a 1x1 projection, inner
tensors truncated where they are wider than their reader, the output a concatenation. Batch norm has the momentum of the
TensorFlow original (0.997 there is 0.003 in torch; NASBench-PyTorch writes 0.997). Weights are drawn as torch does.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from untrained._options import Count
from untrained.errors import UsageError
from untrained.spaces import _spec101 as graphs
from untrained.spaces._counts import Counts
from untrained.spaces._net101 import NASBench101, counts
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Cell
from untrained.spaces._space import SPACES, Invalid, Space, space
from untrained.spaces._spec101 import INPUT, MAX_EDGES, MAX_VERTICES, OPS, OUTPUT, Spec
from untrained.types import Arch, Genes, Task

_PAIRS = tuple((i, j) for j in range(MAX_VERTICES) for i in range(j))
_DIGITS = dict(zip("01234", (INPUT, OUTPUT, *reversed(OPS)), strict=True))


# ------------------------------------------------------------------------------------------------------ notation


def spec_from_text(text: str) -> Spec:
    """The cell that `matrix+operations` names, vertices on no path included."""
    rows, colon, names = text.partition("+")
    if not colon:
        raise malformed(text, len(text), "'+' and the operations")
    if "/" not in rows and "," not in names:
        return _from_digits(text, rows, names)
    ops, matrix, at = names.split(","), [], 0
    for row in rows.split("/"):
        if len(row) != len(ops) or set(row) - set("01"):
            raise malformed(text, at, f"{len(ops)} digits 0 or 1, one for each operation")
        matrix.append(tuple(map(int, row)))
        at += len(row) + 1
    return _checked(text, Spec(tuple(matrix), tuple(ops)))


def _from_digits(text: str, digits: str, codes: str) -> Spec:
    n = len(codes)
    if len(digits) != n * n or set(digits) - set("01"):
        raise malformed(text, 0, f"{n} x {n} digits 0 or 1, one row for each operation")
    for at, code in enumerate(codes):
        if code not in _DIGITS:
            raise malformed(text, n * n + 1 + at, "a digit from 0 to 4")
    matrix = tuple(tuple(map(int, digits[i * n : (i + 1) * n])) for i in range(n))
    return _checked(text, Spec(matrix, tuple(_DIGITS[code] for code in codes)))


def _checked(text: str, spec: Spec) -> Spec:
    at = text.index("+") + 1
    for position, op in enumerate(spec.ops):
        ends = {0: (INPUT,), len(spec.ops) - 1: (OUTPUT,)}
        if op not in ends.get(position, OPS):
            raise malformed(text, at, " or ".join(ends.get(position, OPS)))
        at += len(op) + 1 if "," in text else 1
    if len(spec.matrix) != len(spec.ops) or any(spec.matrix[i][j] for i in range(len(spec.ops)) for j in range(i + 1)):
        raise UsageError(f"{text}: the matrix must be square with ones above the diagonal only")
    return spec


def text_of(spec: Spec) -> str:
    return f"{'/'.join(''.join(map(str, row)) for row in spec.matrix)}+{','.join(spec.ops)}"


class _Notation:
    """Matrix and operations; genes are the edges among seven vertices and the operations of those on a path."""

    def format(self, genes: Genes) -> str:
        return text_of(_spec(genes))

    def parse(self, text: str) -> Genes:
        spec = graphs.pruned(spec_from_text(text))
        if len(spec.ops) > MAX_VERTICES:
            raise UsageError(f"{text} has {len(spec.ops)} vertices, but a cell has at most {MAX_VERTICES}")
        return _genes(spec)


# ------------------------------------------------------------------------------------- between cells and choices


def _genes(spec: Spec, places: Sequence[int] = ()) -> Genes:
    """The choices that make this pruned cell, its inner vertices at these places of 1..5; without, at the first."""
    inner = spec.ops[1:-1]
    at = (0, *(places or range(1, len(inner) + 1)), MAX_VERTICES - 1)
    edges = {(at[i], at[j]) for i in range(len(spec.ops)) for j in spec.targets(i)}
    wires = [(_edge(i, j), int((i, j) in edges)) for i, j in _PAIRS]
    return (*wires, *((f"op{place}", op) for place, op in zip(at[1:-1], inner, strict=True)))


def _spec(genes: Genes) -> Spec:
    """The pruned cell that these choices make."""
    chosen = dict(genes)
    ops = [str(chosen.get(f"op{v}", OPS[0])) for v in range(1, MAX_VERTICES - 1)]  # unsaid: on no path
    return graphs.pruned(graphs.spec_of([(i, j) for i, j in _PAIRS if chosen[_edge(i, j)]], ops))


def _edge(i: int, j: int) -> str:
    return f"{i}->{j}"


def _canonical(genes: Genes) -> Genes:
    return _genes(graphs.canonical(_spec(genes)))


def spec_of(arch: Arch) -> Spec:
    """The matrix and operations of an architecture: pruned, in canonical order."""
    return _spec(arch.genes)


def fingerprint(arch: Arch) -> str:
    """The hash under which the benchmark's files list this cell."""
    return graphs.fingerprint(spec_of(arch))


def _sampling(space: Space, rng: np.random.Generator) -> Arch:
    """Each of the 423,624 equally likely, as when papers draw from the benchmark's table; matrices drawn bit by bit
    would favour small cells."""
    return space.arch(_genes(graphs.random_spec(rng)))


def _mutation(space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
    """The benchmark's own: flip every edge with probability 1/7, change every operation with probability 1/5. Unused
    vertices stand at random places, so that they can come into use again."""
    spec = spec_of(arch)
    inner = MAX_VERTICES - 2
    places = sorted(1 + int(p) for p in rng.choice(inner, len(spec.ops) - 2, replace=False))
    chosen = dict(_genes(spec, places))
    edges = [(i, j) for i, j in _PAIRS if chosen[_edge(i, j)] != (rng.random() < 1 / MAX_VERTICES)]
    ops = [_other(str(chosen.get(f"op{v}", rng.choice(OPS))), rng) for v in range(1, inner + 1)]
    mutant = graphs.pruned(graphs.spec_of(edges, ops))
    if not _valid(mutant):
        raise Invalid("the mutant is no cell")
    return space.arch(_genes(mutant))


def _other(op: str, rng: np.random.Generator) -> str:
    others = [other for other in OPS if other != op]
    return others[int(rng.integers(len(others)))] if rng.random() < 1 / (MAX_VERTICES - 2) else op


def _valid(spec: Spec) -> bool:
    return bool(spec.ops) and spec.edges <= MAX_EDGES


def _sketch(arch: Arch) -> Cell:
    return sketch_of(spec_of(arch))


def sketch_of(spec: Spec) -> Cell:
    """Operations at the nodes, plain wires."""
    names = tuple(op.removesuffix("-bn-relu") for op in spec.ops)
    return Cell(names, tuple((i, j, "") for i in range(len(names)) for j in spec.targets(i)))


def _counts(space: Space, arch: Arch, task: Task) -> Counts | None:
    return counts(spec_of(arch), task, **dict(space.options))


@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=_Notation(),
    canonical=_canonical,
    mutation=_mutation,
    sampling=_sampling,
    sketch=_sketch,
    size=423_624,
    counts=_counts,
)
def nasbench101(choose: Any, task: Task, channels: Count = 128, stacks: Count = 3, cells: Count = 3) -> Any:
    """Cells of up to seven vertices and nine edges, three operations; 423,624 architectures up to isomorphism."""
    edges = [(i, j) for i, j in _PAIRS if choose(_edge(i, j), (0, 1))]
    whole = graphs.spec_of(edges, [""] * (MAX_VERTICES - 2))
    kept = graphs.alive(whole.matrix)
    cell = graphs.restricted(whole, kept)
    if not kept:
        raise Invalid("no path leads from the input to the output")
    if cell.edges > MAX_EDGES:
        raise Invalid(f"{cell.edges} edges lie between input and output, and {MAX_EDGES} are allowed")
    ops = [choose(f"op{v}", OPS) for v in kept[1:-1]]
    return partial(NASBench101, Spec(cell.matrix, (INPUT, *ops, OUTPUT)), task, channels, stacks=stacks, cells=cells)


SPACES.add("nasbench101", nasbench101)
