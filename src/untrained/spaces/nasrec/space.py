"""NASRec (Zhang et al., WWW 2023; arXiv:2207.07187): networks for click-through-rate prediction.

An architecture has seven blocks. Each block chooses one dense and one sparse operator, their output
sizes, the earlier outputs that they read (up to four of each kind), and the connections between the
two streams. `nasrec_small` offers two dense operators and one sparse operator, `nasrec_full` four
and two. SiGeo (arXiv:2311.13169) searches both. `blocks.py` describes the notation, `network.py`
the network and the special cases of the authors' code, `supernet.py` the supernets.

The default task is Criteo's: 13 dense columns and 26 columns of identifiers (with small
vocabularies here). Other tables with identifiers work too: the columns follow from the task.

Differences from the authors' code:
* An architecture only contains choices that its network uses: a left and a right input for paired
  operators, concatenated inputs for the others. The authors' code always samples both, so two of
  their architectures with different text may be the same network.
* As in the authors' code, a mutation samples one choice of one block again (or both operators
  together), with probability 1/2 a choice of inputs. If this changes nothing (because the value is
  the same or the input is not used), the mutation is repeated. If a new operator needs other
  inputs, first their number is sampled and then the inputs.
* `norms=False` removes all layer norms. On synthetic clicks with planted interactions most networks
  are better without them; the reason is unknown (dev/LOG.md).
* `variant="published"` only changes the supernet; see `supernet.py`.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import comb, prod

import numpy as np

from untrained.drawings.diagrams import CellGraph, CellGraphs
from untrained.errors import make_unknown_name_error
from untrained.options import Count
from untrained.spaces.core.choices import ChoiceOptions, Options, pick_uniformly
from untrained.spaces.core.space import (
    Choose,
    InvalidArch,
    NetworkBuilder,
    Space,
    register_space,
    space,
)
from untrained.spaces.nasrec.blocks import (
    PAIRED_OPERATORS,
    BlockSpec,
    NasrecNotation,
    join_inputs,
    make_block_specs,
)
from untrained.spaces.nasrec.network import NasrecNetwork
from untrained.spaces.nasrec.operators import DENSE_OPERATORS, SPARSE_OPERATORS
from untrained.spaces.nasrec.supernet import (
    MAX_DENSE_DIM,
    MAX_SPARSE_DIM,
    NasrecSupernet,
    PublishedNasrecSupernet,
)
from untrained.types import Arch, Choice, Genes, Task

CRITEO = Task("criteo", (13 + 26,), 1, "bce", (1000,) * 26)
DENSE_DIMS = (16, 32, 64, 128, 256, 512, 768, MAX_DENSE_DIM)
SPARSE_DIMS = (16, 32, 48, MAX_SPARSE_DIM)
MAX_INPUTS = 4  # of each kind
BLOCKS = 7
_SUPERNETS = {"default": NasrecSupernet, "published": PublishedNasrecSupernet}

# A mutation samples one of these groups of choices again: choices of inputs or choices inside a
# block.
_WIRING_CHOICES = (("dense_from",), ("sparse_from",), ("left",), ("right",))
_INNER_CHOICES = (("dense", "sparse"), ("dense_dim",), ("sparse_dim",), ("interact",), ("fm",))


# ---------------------------------------------------------------------------------- the spaces


def _register_nasrec_space(
    name: str, about: str, dense_ops: tuple[str, ...], sparse_ops: tuple[str, ...]
) -> Space:
    """Create and register a space with these operators."""
    all_ops = dense_ops + sparse_ops

    def choose_network(
        choose: Choose,
        task: Task,
        *,
        blocks: Count = BLOCKS,
        embedding_dim: Count = 16,
        variant: str = "default",
        norms: bool = True,
    ) -> NetworkBuilder:
        specs = []
        for index in range(blocks):
            specs.append(_choose_block(choose, index, dense_ops, sparse_ops))
        return partial(NasrecNetwork, tuple(specs), task, embedding_dim, norms)

    def build_supernet(
        task: Task,
        blocks: int = BLOCKS,
        embedding_dim: int = 16,
        variant: str = "default",
        norms: bool = True,
    ) -> NasrecSupernet:
        if variant not in _SUPERNETS:
            raise make_unknown_name_error(f"variant of {name}", variant, _SUPERNETS)
        return _SUPERNETS[variant](all_ops, task, blocks, embedding_dim, norms)

    # The decorator takes name and description from the function.
    choose_network.__name__ = name
    choose_network.__doc__ = about
    make_space = space(
        task=CRITEO,
        notation=NasrecNotation(all_ops),
        sample=_sample_arch,
        mutate=_mutate_arch,
        draw=_draw_arch,
        size=partial(_compute_size, dense_ops, sparse_ops),
        supernet=build_supernet,
    )
    return register_space(make_space(choose_network))


def _choose_block(
    choose: Choose, index: int, dense_ops: tuple[str, ...], sparse_ops: tuple[str, ...]
) -> BlockSpec:
    """Choose block `index`, which can read inputs 0 to `index`."""
    input_sets = _list_input_sets(index + 1)
    dense_op = choose(f"dense{index}", dense_ops)
    values: dict[str, Choice] = {f"dense{index}": dense_op}

    def add_choice(name: str, options: Sequence[Choice]) -> None:
        key = f"{name}{index}"
        values[key] = choose(key, options)

    if dense_op in PAIRED_OPERATORS:
        add_choice("left", range(index + 1))
        add_choice("right", range(index + 1))
    else:
        add_choice("dense_from", input_sets)
    add_choice("dense_dim", DENSE_DIMS)
    add_choice("sparse", sparse_ops)
    add_choice("sparse_from", input_sets)
    add_choice("sparse_dim", SPARSE_DIMS)
    add_choice("fm", (0, 1))
    add_choice("interact", (0, 1))
    return BlockSpec.from_genes(values, index)


def _list_input_sets(input_count: int) -> list[str]:
    """Return all sets of one to four inputs: `0`, `1`, `0+1`."""
    input_sets = []
    for size in range(1, min(input_count, MAX_INPUTS) + 1):
        for inputs in combinations(range(input_count), size):
            input_sets.append(join_inputs(inputs))
    return input_sets


def _compute_size(
    dense_ops: tuple[str, ...], sparse_ops: tuple[str, ...], blocks: int = BLOCKS, **_: object
) -> int:
    """Return the number of architectures: a product over blocks, where block i has i + 1 inputs."""
    block_counts = []
    for input_count in range(1, blocks + 1):
        set_sizes = range(1, min(input_count, MAX_INPUTS) + 1)
        input_sets = sum(comb(input_count, size) for size in set_sizes)
        dense_variants = 0
        for op in dense_ops:
            if op in PAIRED_OPERATORS:
                dense_variants += input_count**2
            else:
                dense_variants += input_sets
        dense_count = dense_variants * len(DENSE_DIMS)
        sparse_count = len(sparse_ops) * input_sets * len(SPARSE_DIMS)
        # The factors 2 are the factorisation machine and the interaction.
        block_counts.append(dense_count * sparse_count * 2 * 2)
    return prod(block_counts)


# ------------------------------------------------------------------------ sampling and mutation


def _sample_arch(space: Space, rng: np.random.Generator) -> Arch:
    return _complete_arch(space, rng, {})


def _mutate_arch(space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
    index = int(rng.integers(len(make_block_specs(arch.genes))))
    groups: tuple[tuple[str, ...], ...] = _INNER_CHOICES
    if rng.random() > 0.5:
        groups = _WIRING_CHOICES
    group = groups[int(rng.integers(len(groups)))]
    kept_values = dict(arch.genes)
    for name in group:
        if f"{name}{index}" not in kept_values:
            raise InvalidArch("this input is not used")
        del kept_values[f"{name}{index}"]
    return _complete_arch(space, rng, kept_values)


def _complete_arch(space: Space, rng: np.random.Generator, values: dict[str, Choice]) -> Arch:
    """Return an architecture with these values; all other choices are sampled."""

    def complete(name: str, options: Options) -> Choice:
        if name in values:
            return values[name]
        assert isinstance(options, ChoiceOptions), "no choice of this space is a range"
        return _sample_option(options, rng)

    decisions = space.list_decisions(complete)
    genes: Genes = tuple((decision.name, decision.value) for decision in decisions)
    return space.make_arch(genes)


def _sample_option(options: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """Sample one option: for sets of inputs first the size, then one of the sets of this size.

    Other options are equally likely.
    """
    # The number of inputs is the number of plus signs plus one.
    plus_counts = sorted({str(option).count("+") for option in options})
    plus_count = pick_uniformly(plus_counts, rng)
    candidates = [option for option in options if str(option).count("+") == plus_count]
    return pick_uniformly(candidates, rng)


# ------------------------------------------------------------------------------------- drawing


def _draw_arch(arch: Arch) -> CellGraphs:
    """Return the two streams as graphs, with one node per block.

    The graphs do not show that a dot product also reads the tokens of its block.
    """
    specs = make_block_specs(arch.genes)
    dense_labels = []
    sparse_labels = []
    for number, spec in enumerate(specs, 1):
        dense_label = f"{number} {spec.dense_op} {spec.dense_dim}"
        if spec.fm:
            dense_label += " + fm"
        dense_labels.append(dense_label)
        sparse_label = f"{number} {spec.sparse_op} {spec.sparse_dim}"
        if spec.interact:
            sparse_label += " + 8"
        sparse_labels.append(sparse_label)
    dense_graph = _draw_stream(dense_labels, [spec.dense_from for spec in specs])
    sparse_graph = _draw_stream(sparse_labels, [spec.sparse_from for spec in specs])
    sparse_title = "sparse (+ 8: tokens cut from the dense output)"
    return CellGraphs((("dense", dense_graph), (sparse_title, sparse_graph)))


def _draw_stream(labels: Sequence[str], inputs: Sequence[tuple[int, ...]]) -> CellGraph:
    edges = []
    for number, sources in enumerate(inputs, 1):
        # Left and right may be the same input, which is one edge.
        for source in dict.fromkeys(sources):
            edges.append((source, number, ""))
    last = len(labels)
    edges.append((last, last + 1, ""))
    return CellGraph(("table", *labels, "head"), tuple(edges))


nasrec_small = _register_nasrec_space(
    "nasrec_small",
    "Networks for tables of clicks: seven blocks of linear layers and dot products.",
    ("linear-2d", "dot-product"),
    ("linear-3d",),
)
nasrec_full = _register_nasrec_space(
    "nasrec_full",
    "Networks for tables of clicks: seven blocks of linear layers, dot products, gates, sums and "
    "attention.",
    tuple(DENSE_OPERATORS),
    tuple(SPARSE_OPERATORS),
)
