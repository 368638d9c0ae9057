"""NAS-Bench-1Shot1 (Zela et al., ICLR 2020; arXiv:2001.10422): three subsets of NAS-Bench-101.

The subsets are chosen so that a supernet can contain them. Each of four or five nodes, and the
output, has a fixed number of parents. A cell is written like those of NAS-Bench-101, with the seven
vertices of public tables: spaces 1 and 2 have four nodes and an unused vertex before the output.
Networks are those of NAS-Bench-101 with the nodes in the given order.

A loose end is a node that feeds nothing. The option `members` decides which cells a space contains:
- `listed`: the 2,487, 3,609 and 24,066 cells that the paper lists. Its code is meant to list the
  cells without loose ends, but follows only the last parent of each node, so it finds only the
  cells whose nodes form a chain.
- `tight`: all cells without loose ends: 3,702, 12,474 and 135,900. The same code samples these.
- `loose`: cells may have loose ends, which are pruned when the network is built: 14,580, 29,160 and
  1,312,200. The paper says 6,240, 29,160 and 363,648; its code generates our numbers.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations

from untrained.drawings.diagrams import CellGraph
from untrained.errors import UsageError, make_unknown_name_error
from untrained.options import Count
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.space import (
    Choose,
    InvalidArch,
    NetworkBuilder,
    NetworkFunction,
    Space,
    register_space,
    space,
)
from untrained.spaces.nasbench1shot1.supernet import Supernet1Shot1
from untrained.spaces.nasbench101.graph import (
    MAX_VERTICES,
    OPS,
    CellSpec,
    make_spec,
    prune_spec,
    select_vertices,
)
from untrained.spaces.nasbench101.network import NASBench101, count_network
from untrained.spaces.nasbench101.space import format_spec, make_spec_diagram, parse_spec
from untrained.types import Arch, Choice, Genes, Task

# Number of parents of nodes 1, 2, ... and of the output.
ParentCounts = tuple[int, ...]
S1 = (1, 2, 2, 2, 2)
S2 = (1, 1, 2, 2, 3)
S3 = (1, 1, 1, 2, 2, 2)
_PARENT_COUNTS = {"nasbench1shot1_s1": S1, "nasbench1shot1_s2": S2, "nasbench1shot1_s3": S3}

# The operation of unused vertices in tables.
UNUSED_OP = "conv1x1-bn-relu"
_MEMBERS = ("listed", "tight", "loose")


# ------------------------------------------------------------------------------------- choices


def _choose_genes(choose: Choose, parent_counts: ParentCounts, members: str) -> Genes:
    """Choose a cell, from the output to the first node.

    A node that feeds nothing has no choices, unless loose ends are allowed.
    """
    genes: list[tuple[str, Choice]] = []
    output = len(parent_counts)
    used = {output}
    for node in range(output, 0, -1):
        if node not in used and members != "loose":
            continue
        name = _name_parent_choice(node, parent_counts)
        value = choose(name, _list_parent_options(node, parent_counts))
        genes.append((name, value))
        parents = _split_nodes(value)
        used |= set(parents)
        # In a chain, the highest used node below this one is one of its parents.
        next_used = max(vertex for vertex in used if vertex < node)
        if members == "listed" and max(parents) < next_used:
            raise InvalidArch(
                "its nodes do not form a chain, so the paper does not list it; "
                "members=tight contains it"
            )
        if node < output:
            genes.append((f"op{node}", choose(f"op{node}", OPS)))
    return tuple(genes)


def _list_parent_options(node: int, parent_counts: ParentCounts) -> tuple[str, ...]:
    """Return all sets of parents of a node: `0+1`, `0+2`, `1+2`."""
    options = []
    for parents in combinations(range(node), parent_counts[node - 1]):
        options.append("+".join(map(str, parents)))
    return tuple(options)


def _name_parent_choice(node: int, parent_counts: ParentCounts) -> str:
    if node == len(parent_counts):
        return "parents_out"
    return f"parents{node}"


def _split_nodes(value: Choice) -> list[int]:
    """Return the nodes of a text such as `0+1`; an empty list for an empty text."""
    return [int(node) for node in str(value).split("+") if node]


# ----------------------------------------------------------------------------- cells and genes


def _make_full_spec(genes: Genes, parent_counts: ParentCounts) -> CellSpec:
    """Return the cell with all seven vertices, unused ones included."""
    values = dict(genes)
    output = len(parent_counts)
    edges = []
    for node in range(1, output + 1):
        vertex = node if node < output else MAX_VERTICES - 1
        parents = values.get(_name_parent_choice(node, parent_counts), "")
        for parent in _split_nodes(parents):
            edges.append((parent, vertex))
    ops = [str(values.get(f"op{vertex}", UNUSED_OP)) for vertex in range(1, MAX_VERTICES - 1)]
    return make_spec(edges, ops)


class Nasbench1Shot1Notation:
    """The notation of NAS-Bench-101 with all vertices, used or not."""

    def __init__(self, parent_counts: ParentCounts) -> None:
        self.parent_counts = parent_counts

    def format(self, genes: Genes) -> str:
        return format_spec(_make_full_spec(genes, self.parent_counts))

    def parse(self, text: str) -> Genes:
        output = len(self.parent_counts)
        spec = _remove_unused_vertex(parse_spec(text), output)
        if len(spec.ops) != output + 1:
            raise UsageError(
                f"{text} has {len(spec.ops)} vertices in use, but here a cell has {output + 1}"
            )
        genes: list[tuple[str, Choice]] = []
        for node in range(output, 0, -1):
            sources = spec.sources(node)
            if sources:
                name = _name_parent_choice(node, self.parent_counts)
                genes.append((name, "+".join(map(str, sources))))
            is_connected = bool(sources) or bool(spec.targets(node))
            if node < output and is_connected:
                genes.append((f"op{node}", spec.ops[node]))
        return tuple(genes)


def _remove_unused_vertex(spec: CellSpec, output: int) -> CellSpec:
    """Remove the unused vertex before the output that cells of spaces 1 and 2 have in tables."""
    if output + 2 != MAX_VERTICES or len(spec.ops) != MAX_VERTICES:
        return spec
    is_unused = not spec.sources(output) and not spec.targets(output)
    if not is_unused:
        return spec
    return select_vertices(spec, [vertex for vertex in range(MAX_VERTICES) if vertex != output])


def get_full_spec(arch: Arch) -> CellSpec:
    """Return the cell with its seven vertices, unused ones included."""
    base_name = arch.space.partition("(")[0]
    return _make_full_spec(arch.genes, _PARENT_COUNTS[base_name])


def get_spec(arch: Arch) -> CellSpec:
    """Return the pruned cell, as in NAS-Bench-101, with its vertices in the given order."""
    return prune_spec(get_full_spec(arch))


# ---------------------------------------------------------------------------------- the spaces


def _choose_network(
    choose: Choose, task: Task, parent_counts: ParentCounts, *, members: str, **network_options: int
) -> NetworkBuilder:
    _require_known_members(members)
    genes = _choose_genes(choose, parent_counts, members)
    spec = prune_spec(_make_full_spec(genes, parent_counts))
    return partial(NASBench101, spec, task, **network_options)


def _require_known_members(members: str) -> None:
    if members not in _MEMBERS:
        raise make_unknown_name_error("value of the option members", members, _MEMBERS)


def _draw_arch(arch: Arch) -> CellGraph:
    return make_spec_diagram(get_spec(arch))


def _count_arch(space: Space, arch: Arch, task: Task) -> Counts | None:
    network_options = dict(space.options)
    network_options.pop("members", None)
    return count_network(get_spec(arch), task, **network_options)


def _make_space_decorator(
    parent_counts: ParentCounts, *, listed: int, tight: int, loose: int
) -> Callable[[NetworkFunction], Space]:
    """Return the decorator of one of the spaces, given its size for each value of `members`."""
    sizes = {"listed": listed, "tight": tight, "loose": loose}

    def compute_size(members: str = "listed", **_: int) -> int:
        _require_known_members(members)
        return sizes[members]

    def build_supernet(
        task: Task, members: str = "listed", **network_options: int
    ) -> Supernet1Shot1:
        parent_options = {}
        for node in range(1, len(parent_counts) + 1):
            name = _name_parent_choice(node, parent_counts)
            parent_options[name] = _list_parent_options(node, parent_counts)
        return Supernet1Shot1(parent_options, get_full_spec, task, **network_options)

    return space(
        task=Task("cifar10", (3, 32, 32), 10),
        notation=Nasbench1Shot1Notation(parent_counts),
        draw=_draw_arch,
        size=compute_size,
        supernet=build_supernet,
        counts=_count_arch,
    )


@register_space
@_make_space_decorator(S1, listed=2_487, tight=3_702, loose=14_580)
def nasbench1shot1_s1(
    choose: Choose,
    task: Task,
    members: str = "listed",
    channels: Count = 128,
    *,
    stacks: Count = 3,
    cells: Count = 3,
) -> NetworkBuilder:
    """Four nodes with 1, 2, 2, 2 parents, the output with 2; 2,487 cells of NAS-Bench-101."""
    return _choose_network(
        choose, task, S1, members=members, channels=channels, stacks=stacks, cells=cells
    )


@register_space
@_make_space_decorator(S2, listed=3_609, tight=12_474, loose=29_160)
def nasbench1shot1_s2(
    choose: Choose,
    task: Task,
    members: str = "listed",
    channels: Count = 128,
    *,
    stacks: Count = 3,
    cells: Count = 3,
) -> NetworkBuilder:
    """Four nodes with 1, 1, 2, 2 parents, the output with 3; 3,609 cells of NAS-Bench-101."""
    return _choose_network(
        choose, task, S2, members=members, channels=channels, stacks=stacks, cells=cells
    )


@register_space
@_make_space_decorator(S3, listed=24_066, tight=135_900, loose=1_312_200)
def nasbench1shot1_s3(
    choose: Choose,
    task: Task,
    members: str = "listed",
    channels: Count = 128,
    *,
    stacks: Count = 3,
    cells: Count = 3,
) -> NetworkBuilder:
    """Five nodes with 1, 1, 1, 2, 2 parents, the output with 2; 24,066 cells of NAS-Bench-101."""
    return _choose_network(
        choose, task, S3, members=members, channels=channels, stacks=stacks, cells=cells
    )
