"""The DARTS space (Liu, Simonyan & Yang, ICLR 2019; arXiv:1806.09055), also that of NAS-Bench-301, and NASI's variant.

A normal and a reduction cell; each has four nodes with two edges from earlier states, and an edge carries one of seven
operations. A cell can be wired in 1 * 3 * 6 * 10 = 180 ways and equipped in 7^8, so there are (180 * 7^8)^2 or about
10^18 architectures. Published genotypes that are not of this space (other operations, five nodes, another output:
NASNet, ENAS, AmoebaNet) can be written and built, but are never drawn.

    darts                                                               scoring: 16 channels, 8 cells
    darts(channels=36,cells=20,auxiliary=True,drop_path=0.2)            the final net for CIFAR
    darts(channels=48,cells=14,stem=imagenet,auxiliary=True)            the final net for ImageNet (mobile setting)
    darts(cells=5,operations=hnas)                                      what HNAS samples: dil_conv_5x5 is never drawn
    darts(operations=s2)                                                the reduced spaces s1 to s6

Built networks are final nets: affine norms, no norm after pooling. The supernet is DARTS's search net. In training mode
with an auxiliary tower the answer is (auxiliary logits, logits), otherwise logits.
"""

from collections.abc import Callable
from functools import partial
from math import comb, prod
from typing import Any

from untrained._options import Count, Probability
from untrained.spaces._counts import Counts
from untrained.spaces._darts_net import Network, Plan
from untrained.spaces._darts_ops import candidates
from untrained.spaces._darts_size import counts
from untrained.spaces._darts_supernet import NODES, DartsSupernet, EdgeCell, NodeCell
from untrained.spaces._genotype import KINDS, Genotype, GenotypeNotation, choices, sketch
from untrained.spaces._space import SPACES, Space, space
from untrained.types import Arch, Genes, Task

_TASK = Task("cifar10", (3, 32, 32), 10)


def _canonical(genes: Genes) -> Genes:
    """The order of a node's two edges means nothing."""
    return Genotype.of(genes).genes


def _sketch(arch: Arch) -> Any:
    return sketch(arch.genes)


def _size(operations: str = "darts", **_: Any) -> int:
    """Two sources and two operations a node; every edge of a set has equally many operations."""
    n = len([op for op in candidates(operations, "normal", 2, 0) if op != "none"])
    return prod(comb(node, 2) * n * n for node in NODES) ** 2


def _supernet(task: Task, *, operations: str = "darts", **plan: Any) -> DartsSupernet:
    return DartsSupernet(task, Plan(**plan), EdgeCell, operations)


def _of_genotypes(
    size: Callable[..., int], supernet: Callable[..., DartsSupernet], *, pooled: bool = False
) -> Callable[..., Space]:
    """What all spaces of genotypes have in common; `pooled` unless it is an option."""

    def counted(home: Space, arch: Arch, task: Task) -> Counts | None:
        options = {"pooled": pooled} | {name: value for name, value in home.options if name != "operations"}
        return counts(Genotype.of(arch.genes), task, Plan(**options))

    return space(
        task=_TASK,
        notation=GenotypeNotation(),
        canonical=_canonical,
        sketch=_sketch,
        size=size,
        supernet=supernet,
        counts=counted,
    )


@_of_genotypes(size=_size, supernet=_supernet)
def darts(
    choose: Any,
    task: Task,
    *,
    operations: str = "darts",
    channels: Count = 16,
    cells: Count = 8,
    stem: str = "cifar",
    auxiliary: bool = False,
    drop_path: Probability = 0.0,
) -> Any:
    """Normal and reduction cells of four nodes, seven operations; about 10^18 architectures, written as genotypes."""
    genes = (gene for kind in KINDS for gene in choices(choose, kind, partial(candidates, operations)))
    return partial(Network, Genotype.of(tuple(genes)), task, Plan(channels, cells, stem, auxiliary, drop_path))


SPACES.add("darts", darts)


# ------------------------------------------------------------------------------------------------------------ NASI


def _nasi_size(**_: Any) -> int:
    return prod(comb(node, 2) * 7 * 6 for node in NODES) ** 2


def _nasi_supernet(task: Task, *, pooled: bool = True, **plan: Any) -> DartsSupernet:
    return DartsSupernet(task, Plan(pooled=pooled, **plan), NodeCell, "darts")


@_of_genotypes(size=_nasi_size, supernet=_nasi_supernet, pooled=True)
def darts_nasi(
    choose: Any,
    task: Task,
    *,
    channels: Count = 16,
    cells: Count = 8,
    stem: str = "cifar",
    auxiliary: bool = False,
    drop_path: Probability = 0.0,
    pooled: bool = True,
) -> Any:
    """DARTS as NASI searches it: a node's two operations differ, and they and its inputs are chosen independently.

    (Shu et al., ICLR 2022; arXiv:2109.00817, appendix B.2; there is no official code.) In the supernet a node has one
    distribution over operations and one over inputs; the two most probable of each are kept, so the two operations
    differ. (The paper's figure 5 seems to show five sep_conv_3x3 on four nodes, which this rule cannot give. We follow
    the text; such cells can be written.) During the search maps are halved by max pooling before a reduction cell, not
    by strides, so that all states of a cell have one size: `pooled`. Final nets are those of DARTS: `pooled=False`.
    """
    genes = (gene for kind in KINDS for gene in choices(choose, kind, partial(candidates, "darts"), distinct=True))
    plan = Plan(channels, cells, stem, auxiliary, drop_path, pooled)
    return partial(Network, Genotype.of(tuple(genes)), task, plan)


SPACES.add("darts_nasi", darts_nasi)
