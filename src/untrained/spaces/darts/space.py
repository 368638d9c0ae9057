"""The DARTS space (Liu, Simonyan & Yang, ICLR 2019; arXiv:1806.09055) and NASI's variant.

DARTS is also the space of NAS-Bench-301. A normal and a reduction cell have four nodes each with
two edges from earlier states, and an edge carries one of seven operations. A cell has
1 * 3 * 6 * 10 = 180 wirings and 7^8 assignments of operations, so there are (180 * 7^8)^2 or about
10^18 architectures. Published genotypes outside of this space (other operations, five nodes,
another output: NASNet, ENAS, AmoebaNet) can be written and built, but are never sampled.

    darts                                                     scoring: 16 channels, 8 cells
    darts(channels=36,cells=20,auxiliary=True,drop_path=0.2)  final network for CIFAR
    darts(channels=48,cells=14,stem=imagenet,auxiliary=True)  final network for ImageNet (mobile)
    darts(cells=5,operations=hnas)                            HNAS: never samples dil_conv_5x5
    darts(operations=s2)                                      the reduced spaces s1 to s6

Built networks are final networks: affine norms, no norm after pooling. The supernet is DARTS's
search network. In training mode a network with an auxiliary tower returns (auxiliary logits,
logits), otherwise logits.
"""

from collections.abc import Callable
from functools import partial
from math import comb, prod
from typing import Any

from untrained.drawings.diagrams import CellGraphs
from untrained.options import Count, Probability
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.space import (
    Choose,
    NetworkBuilder,
    NetworkFunction,
    Space,
    register_space,
    space,
)
from untrained.spaces.darts.counts import count_network
from untrained.spaces.darts.genotype import (
    Genotype,
    GenotypeNotation,
    choose_cell,
    make_genotype_diagram,
)
from untrained.spaces.darts.network import DartsConfig, DartsNetwork
from untrained.spaces.darts.operations import list_candidates
from untrained.spaces.darts.supernet import NODES, DartsSupernet, EdgeCell, NodeCell
from untrained.types import Arch, Genes, Task


def _sort_edges_of_nodes(genes: Genes) -> Genes:
    """Return the canonical form: the order of the two edges of a node has no meaning."""
    return Genotype.from_genes(genes).genes


def _draw_arch(arch: Arch) -> CellGraphs:
    return make_genotype_diagram(arch.genes)


def _choose_genotype(choose: Choose, operation_set: str, *, distinct: bool = False) -> Genotype:
    candidates = partial(list_candidates, operation_set)
    normal = choose_cell(choose, "normal", candidates, distinct=distinct)
    reduce = choose_cell(choose, "reduce", candidates, distinct=distinct)
    return Genotype.from_genes((*normal, *reduce))


def _make_space_decorator(
    size: Callable[..., int], supernet: Callable[..., DartsSupernet], *, pooled: bool = False
) -> Callable[[NetworkFunction], Space]:
    """Return the decorator of a space of genotypes; `pooled` is the default of that option."""

    def count_arch(space: Space, arch: Arch, task: Task) -> Counts | None:
        options = {"pooled": pooled, **dict(space.options)}
        # The set of operations does not change the network of a given genotype.
        options.pop("operations", None)
        return count_network(Genotype.from_genes(arch.genes), task, DartsConfig(**options))

    return space(
        task=Task("cifar10", (3, 32, 32), 10),
        notation=GenotypeNotation(),
        canonical=_sort_edges_of_nodes,
        draw=_draw_arch,
        size=size,
        supernet=supernet,
        counts=count_arch,
    )


# --------------------------------------------------------------------------------------- DARTS


def _compute_darts_size(operations: str = "darts", **_: object) -> int:
    """Return the number of architectures.

    A node has two sources and two operations; all edges have equally many operations.
    """
    candidates = list_candidates(operations, "normal", 2, 0)
    op_count = len([op for op in candidates if op != "none"])
    cell_count = prod(comb(node, 2) * op_count**2 for node in NODES)
    return cell_count**2


def _build_darts_supernet(task: Task, *, operations: str = "darts", **config: Any) -> DartsSupernet:
    return DartsSupernet(task, DartsConfig(**config), EdgeCell, operations)


@register_space
@_make_space_decorator(size=_compute_darts_size, supernet=_build_darts_supernet)
def darts(
    choose: Choose,
    task: Task,
    *,
    operations: str = "darts",
    channels: Count = 16,
    cells: Count = 8,
    stem: str = "cifar",
    auxiliary: bool = False,
    drop_path: Probability = 0.0,
) -> NetworkBuilder:
    """Normal and reduction cells of four nodes, seven operations; about 10^18 architectures."""
    genotype = _choose_genotype(choose, operations)
    config = DartsConfig(channels, cells, stem, auxiliary, drop_path)
    return partial(DartsNetwork, genotype, task, config)


# ---------------------------------------------------------------------------------------- NASI


def _compute_nasi_size(**_: object) -> int:
    """Return the number of architectures: two sources and two ordered operations per node."""
    cell_count = prod(comb(node, 2) * 7 * 6 for node in NODES)
    return cell_count**2


def _build_nasi_supernet(task: Task, *, pooled: bool = True, **config: Any) -> DartsSupernet:
    return DartsSupernet(task, DartsConfig(pooled=pooled, **config), NodeCell, "darts")


@register_space
@_make_space_decorator(size=_compute_nasi_size, supernet=_build_nasi_supernet, pooled=True)
def darts_nasi(
    choose: Choose,
    task: Task,
    *,
    channels: Count = 16,
    cells: Count = 8,
    stem: str = "cifar",
    auxiliary: bool = False,
    drop_path: Probability = 0.0,
    pooled: bool = True,
) -> NetworkBuilder:
    """DARTS as NASI searches it: the two operations of a node differ.

    NASI is described by Shu et al. (ICLR 2022; arXiv:2109.00817, appendix B.2); there is no
    official code. In its supernet a node has one distribution over operations and one over inputs.
    The two most probable operations are kept, which always differ, and the two most probable
    inputs. Figure 5 of the paper seems to show five sep_conv_3x3 on four nodes, which this rule
    cannot give. We follow the text, but accept such cells if they are written.

    During the search (`pooled=True`), max pooling halves the maps before a reduction cell, and no
    edge has a stride, so that all states of a cell have one size. The final networks are those of
    DARTS (`pooled=False`).
    """
    genotype = _choose_genotype(choose, "darts", distinct=True)
    config = DartsConfig(channels, cells, stem, auxiliary, drop_path, pooled)
    return partial(DartsNetwork, genotype, task, config)
