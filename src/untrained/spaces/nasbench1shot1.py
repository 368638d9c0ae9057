"""NAS-Bench-1Shot1 (Zela et al., ICLR 2020; arXiv:2001.10422): three parts of NAS-Bench-101 that a supernet can hold.

Each of four or five nodes, and the output, has a fixed number of parents. A cell is written like those of
NAS-Bench-101, with the seven vertices of public tables: spaces 1 and 2 have four nodes and an idle vertex before the
output. Networks are NAS-Bench-101's, nodes in the order given.

`members` says which cells there are:
- `listed`: the 2,487, 3,609 and 24,066 of the paper. Its code lists cells without loose ends, that is without nodes
  that feed nothing, but follows the last parent only: it finds those cells whose nodes form a chain.
- `tight`: all cells without loose ends, which is what the same code samples: 3,702, 12,474 and 135,900.
- `loose`: all nodes have their parents, and loose ends are pruned when the network is built: 14,580, 29,160 and
  1,312,200 (the paper says 6,240, 29,160 and 363,648; its code generates ours).
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

from untrained._options import Count
from untrained.errors import UsageError
from untrained.spaces import _spec101 as graphs
from untrained.spaces._counts import Counts
from untrained.spaces._net101 import NASBench101, counts
from untrained.spaces._sketch import Cell
from untrained.spaces._space import SPACES, Extras, Invalid, Space, space
from untrained.spaces._spec101 import MAX_VERTICES, OPS, Spec
from untrained.spaces._super1shot1 import Supernet1Shot1
from untrained.spaces.nasbench101 import sketch_of, spec_from_text, text_of
from untrained.types import Arch, Choice, Genes, Task

Parents = tuple[int, ...]  # of nodes 1, 2, ... and the output
S1, S2, S3 = (1, 2, 2, 2, 2), (1, 1, 2, 2, 3), (1, 1, 1, 2, 2, 2)
IDLE = "conv1x1-bn-relu"  # what tables write at vertices that are not used
_MEMBERS = ("listed", "tight", "loose")


def parents_of(node: int, parents: Parents) -> tuple[str, ...]:
    """The ways to choose the parents of a node: `0+1`, `0+2`, `1+2`."""
    return tuple("+".join(map(str, some)) for some in combinations(range(node), parents[node - 1]))


def _nodes(value: Choice) -> list[int]:
    return [int(node) for node in str(value).split("+") if node]


def _choose(choose: Any, parents: Parents, members: str) -> Iterator[tuple[str, Choice]]:
    """The choices, from the output to the first node; a node that nobody reads has none unless loose ends may be."""
    last = len(parents)
    used = {last}
    for node in range(last, 0, -1):
        if node in used or members == "loose":
            name = _parents(node, parents)
            chosen = choose(name, parents_of(node, parents))
            yield name, chosen
            used |= set(_nodes(chosen))
            if members == "listed" and max(_nodes(chosen)) < max(u for u in used if u < node):
                raise Invalid("its nodes do not form a chain, so the paper does not list it; members=tight has it")
            if node < last:
                yield f"op{node}", choose(f"op{node}", OPS)


def _parents(node: int, parents: Parents) -> str:
    return "parents_out" if node == len(parents) else f"parents{node}"


# ------------------------------------------------------------------------------------- between cells and choices


def _whole(genes: Genes, parents: Parents) -> Spec:
    chosen, last = dict(genes), len(parents)
    edges = [
        (parent, node if node < last else MAX_VERTICES - 1)
        for node in range(1, last + 1)
        for parent in _nodes(chosen.get(_parents(node, parents), ""))
    ]
    return graphs.spec_of(edges, [str(chosen.get(f"op{v}", IDLE)) for v in range(1, MAX_VERTICES - 1)])


class _Notation:
    """The notation of NAS-Bench-101 with all vertices, used or not."""

    def __init__(self, parents: Parents) -> None:
        self.parents = parents

    def format(self, genes: Genes) -> str:
        return text_of(_whole(genes, self.parents))

    def parse(self, text: str) -> Genes:
        spec, last = spec_from_text(text), len(self.parents)
        if len(spec.ops) == last + 2 == MAX_VERTICES and not spec.sources(last) and not spec.targets(last):
            spec = graphs.restricted(spec, [v for v in range(MAX_VERTICES) if v != last])  # the idle vertex
        if len(spec.ops) != last + 1:
            raise UsageError(f"{text} has {len(spec.ops)} vertices in use, but here a cell has {last + 1}")
        genes: list[tuple[str, Choice]] = []
        for node in range(last, 0, -1):
            if sources := spec.sources(node):
                genes.append((_parents(node, self.parents), "+".join(map(str, sources))))
            if node < last and (sources or spec.targets(node)):
                genes.append((f"op{node}", spec.ops[node]))
        return tuple(genes)


def whole_spec(arch: Arch) -> Spec:
    """The cell with its seven vertices, those that are not used included."""
    return _whole(arch.genes, _PARENTS[arch.space.partition("(")[0]])


def spec_of(arch: Arch) -> Spec:
    """The cell of NAS-Bench-101 that this is: pruned, vertices in the order given."""
    return graphs.pruned(whole_spec(arch))


def _network(choose: Any, task: Task, parents: Parents, *, members: str, **shape: int) -> Any:
    if members not in _MEMBERS:
        raise UsageError(f"members is one of {', '.join(_MEMBERS)}, not {members!r}")
    genes = tuple(_choose(choose, parents, members))
    return partial(NASBench101, graphs.pruned(_whole(genes, parents)), task, **shape)


# --------------------------------------------------------------------------------------------------- the spaces


def _sketch(arch: Arch) -> Cell:
    return sketch_of(spec_of(arch))


def _extras(parents: Parents, *sizes: int) -> Extras:
    def size(members: str = "listed", **_: int) -> int:
        return dict(zip(_MEMBERS, sizes, strict=True))[members]

    def supernet(task: Task, members: str = "listed", **shape: int) -> Supernet1Shot1:
        options = {_parents(v, parents): parents_of(v, parents) for v in range(1, len(parents) + 1)}
        return Supernet1Shot1(options, whole_spec, task, **shape)

    def counted(space: Space, arch: Arch, task: Task) -> Counts | None:
        shape = {name: value for name, value in space.options if name != "members"}
        return counts(spec_of(arch), task, **shape)

    return {
        "task": Task("cifar10", (3, 32, 32), 10),
        "notation": _Notation(parents),
        "sketch": _sketch,
        "size": size,
        "supernet": supernet,
        "counts": counted,
    }


@space(**_extras(S1, 2_487, 3_702, 14_580))
def nasbench1shot1_s1(
    choose: Any, task: Task, members: str = "listed", channels: Count = 128, *, stacks: Count = 3, cells: Count = 3
) -> Any:
    """Cells of four nodes with 1, 2, 2, 2 parents, the output with 2; 2,487 architectures in NAS-Bench-101."""
    return _network(choose, task, S1, members=members, channels=channels, stacks=stacks, cells=cells)


@space(**_extras(S2, 3_609, 12_474, 29_160))
def nasbench1shot1_s2(
    choose: Any, task: Task, members: str = "listed", channels: Count = 128, *, stacks: Count = 3, cells: Count = 3
) -> Any:
    """Cells of four nodes with 1, 1, 2, 2 parents, the output with 3; 3,609 architectures in NAS-Bench-101."""
    return _network(choose, task, S2, members=members, channels=channels, stacks=stacks, cells=cells)


@space(**_extras(S3, 24_066, 135_900, 1_312_200))
def nasbench1shot1_s3(
    choose: Any, task: Task, members: str = "listed", channels: Count = 128, *, stacks: Count = 3, cells: Count = 3
) -> Any:
    """Cells of five nodes with 1, 1, 1, 2, 2 parents, the output with 2; 24,066 architectures in NAS-Bench-101."""
    return _network(choose, task, S3, members=members, channels=channels, stacks=stacks, cells=cells)


_PARENTS = {"nasbench1shot1_s1": S1, "nasbench1shot1_s2": S2, "nasbench1shot1_s3": S3}
for _space in (nasbench1shot1_s1, nasbench1shot1_s2, nasbench1shot1_s3):
    SPACES.add(_space.name, _space)
