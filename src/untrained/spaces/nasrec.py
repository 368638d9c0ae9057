"""NASRec (Zhang et al., WWW 2023; arXiv:2207.07187): networks for tables of clicks, block by block.

Seven blocks, each with one dense and one sparse operator, the sizes of their outputs, the earlier outputs that they
read (up to four of each kind), and whether the two streams meet. `nasrec_small` has two dense operators and one sparse
one, `nasrec_full` four and two; SiGeo (arXiv:2311.13169) searches both. How one is written: _nasrec_plan.py; the
network and the corners of the authors' code: _nasrec_net.py; its supernets: _nasrec_supernet.py.

The usual task is Criteo's: 13 dense columns, 26 of identifiers (their vocabularies are modest here). Any other table
will do: columns follow from the task. A table without identifiers is refused.

Where we differ from the authors:
* An architecture says only what its network uses: operators of two inputs say left and right, others which inputs they
  join. The authors always draw all of these, so theirs may differ in writing and be the same network.
* A mutation draws one key of one block anew, half the time one of the wiring, as theirs does; where that changes
  nothing (the same value again, or an input that is not used) it draws again. Inputs that a new operator needs are
  drawn as in a sample: first how many, then which.
* `norms=False` leaves out all layer norms. On made-up clicks with interactions planted in them most networks are better
  without; why is open (dev/LOG.md).
* `variant="published"` is for the supernet alone; see there.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
from torch import nn

from untrained._options import Count
from untrained.errors import unknown
from untrained.spaces._choices import any_of
from untrained.spaces._nasrec_net import Network
from untrained.spaces._nasrec_ops import DENSE, SPARSE
from untrained.spaces._nasrec_plan import PAIRED, Blocks, Plan, joined, plans_of
from untrained.spaces._nasrec_supernet import LONG, WIDE, PublishedSupernet, Supernet
from untrained.spaces._sketch import Cell, Cells
from untrained.spaces._space import SPACES, Invalid, Space, space
from untrained.types import Arch, Choice, Genes, Task

CRITEO = Task("criteo", (13 + 26,), 1, "bce", (1000,) * 26)
DENSE_DIMS = (16, 32, 64, 128, 256, 512, 768, WIDE)
SPARSE_DIMS = (16, 32, 48, LONG)
MOST = 4  # inputs of a kind
BLOCKS = 7
_SUPERNETS = {"default": Supernet, "published": PublishedSupernet}
_WIRING = (("dense_from",), ("sparse_from",), ("left",), ("right",))  # what a mutation draws anew, and
_INSIDE = (("dense", "sparse"), ("dense_dim",), ("sparse_dim",), ("interact",), ("fm",))  # inside of a block


# --------------------------------------------------------------------------------------------------- the spaces


def _register(name: str, about: str, dense: tuple[str, ...], sparse: tuple[str, ...]) -> Space:
    def network(
        choose: Any,
        task: Task,
        *,
        blocks: Count = BLOCKS,
        embedding_dim: Count = 16,
        variant: str = "default",
        norms: bool = True,
    ) -> Any:
        plans = tuple(_chosen(choose, i, dense, sparse) for i in range(blocks))
        return partial(Network, plans, task, embedding_dim, norms)

    network.__name__, network.__doc__ = name, about
    made = space(
        task=CRITEO,
        notation=Blocks(dense + sparse),
        sampling=_sample,
        mutation=_mutate,
        sketch=_sketch,
        size=partial(_count, dense, sparse),
        supernet=partial(_supernet, name, dense + sparse),
    )(network)
    return SPACES.add(name, made)


def _chosen(choose: Any, i: int, dense: tuple[str, ...], sparse: tuple[str, ...]) -> Plan:
    """Block i: it can read 0 to i."""
    op = choose(f"dense{i}", dense)
    names = [f"left{i}", f"right{i}"] if op in PAIRED else [f"dense_from{i}"]
    read = [choose(each, range(i + 1) if op in PAIRED else _subsets(i + 1)) for each in names]
    genes = {f"dense{i}": op, **dict(zip(names, read, strict=True))}
    for what, options in (
        ("dense_dim", DENSE_DIMS),
        ("sparse", sparse),
        ("sparse_from", _subsets(i + 1)),
        ("sparse_dim", SPARSE_DIMS),
        ("fm", (0, 1)),
        ("interact", (0, 1)),
    ):
        genes[f"{what}{i}"] = choose(f"{what}{i}", options)
    return Plan.of(genes, i)


def _subsets(n: int) -> list[str]:
    return [joined(some) for size in range(1, min(n, MOST) + 1) for some in combinations(range(n), size)]


def _count(dense: tuple[str, ...], sparse: tuple[str, ...], blocks: int = BLOCKS, **_: Any) -> int:
    def of(n: int) -> int:
        """Architectures of a block that can read n inputs."""
        subsets = sum(comb(n, size) for size in range(1, min(n, MOST) + 1))
        first = sum(n**2 if op in PAIRED else subsets for op in dense) * len(DENSE_DIMS)
        return first * len(sparse) * subsets * len(SPARSE_DIMS) * 2 * 2

    return prod(map(of, range(1, blocks + 1)))


def _supernet(
    name: str,
    ops: tuple[str, ...],
    task: Task,
    blocks: int = BLOCKS,
    embedding_dim: int = 16,
    variant: str = "default",
    norms: bool = True,
) -> nn.Module:
    if variant not in _SUPERNETS:
        raise unknown(f"variant of {name}", variant, _SUPERNETS)
    return _SUPERNETS[variant](ops, task, blocks, embedding_dim, norms)


# ------------------------------------------------------------------------------------------ samples and mutations


def _sample(space: Space, rng: np.random.Generator) -> Arch:
    return _answered(space, rng, {})


def _mutate(space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
    i = int(rng.integers(len(plans_of(arch.genes))))
    keys = _WIRING if rng.random() > 0.5 else _INSIDE
    anew = {f"{name}{i}" for name in keys[int(rng.integers(len(keys)))]}
    if not anew <= {name for name, _ in arch.genes}:
        raise Invalid("this input is not used")
    return _answered(space, rng, {name: value for name, value in arch.genes if name not in anew})


def _answered(space: Space, rng: np.random.Generator, known: dict[str, Choice]) -> Arch:
    """The architecture with these genes; others are drawn."""

    def pick(name: str, options: Sequence[Choice]) -> Choice:
        return known[name] if name in known else _drawn(options, rng)

    genes: Genes = tuple((call.name, call.value) for call in space.trace(pick))
    return space.arch(genes)


def _drawn(options: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """First how many inputs, then which; what is no list of inputs has equal chances."""
    many = any_of(sorted({str(option).count("+") for option in options}), rng)
    return any_of([option for option in options if str(option).count("+") == many], rng)


# -------------------------------------------------------------------------------------------------- the drawing


def _sketch(arch: Arch) -> Cells:
    """The two streams; a node is what a block adds to one. A dot product reads the tokens that its block reads."""
    plans = plans_of(arch.genes)
    dense = [f"{i} {plan.dense_op} {plan.dense_dim}{' + fm' * plan.fm}" for i, plan in enumerate(plans, 1)]
    sparse = [f"{i} {plan.sparse_op} {plan.sparse_dim}{' + 8' * plan.interact}" for i, plan in enumerate(plans, 1)]
    streams = (
        ("dense", _stream(dense, [plan.dense_from for plan in plans])),
        ("sparse (+ 8: tokens cut from the dense output)", _stream(sparse, [plan.sparse_from for plan in plans])),
    )
    return Cells(streams)


def _stream(labels: Sequence[str], inputs: Sequence[tuple[int, ...]]) -> Cell:
    wires = [(j, i, "") for i, read in enumerate(inputs, 1) for j in dict.fromkeys(read)]
    return Cell(("table", *labels, "head"), (*wires, (len(labels), len(labels) + 1, "")))


nasrec_small = _register(
    "nasrec_small",
    "Networks for tables of clicks: seven blocks of linear layers and dot products.",
    ("linear-2d", "dot-product"),
    ("linear-3d",),
)
nasrec_full = _register(
    "nasrec_full",
    "Networks for tables of clicks: seven blocks of linear layers, dot products, gates, sums and attention.",
    tuple(DENSE),
    tuple(SPARSE),
)
