"""The mutation of ZenNAS and ZiCo. A sample is the initial structure after several mutations.

The published search starts at one structure. In each step it replaces a block by a similar
candidate (with another type, width, bottleneck or number of sublayers). Then it corrects the input
widths of the following blocks, and splits blocks of six sublayers or more in two. The official
lists of candidates come from Python sets of strings, so a published run cannot be repeated with its
seed; our lists are ordered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from untrained.errors import make_unknown_name_error
from untrained.spaces.core.choices import InvalidArch, pick_uniformly
from untrained.spaces.core.space import NetworkFunction, Space
from untrained.spaces.zennas.network import ZenBlock, ZenConfig
from untrained.spaces.zennas.structure import (
    LAST,
    STEM,
    WIDTHS,
    StructureNotation,
    count_layers,
    list_genes,
    make_blocks,
)
from untrained.types import Arch

# The width of a candidate is that of the block times one of these.
WIDTH_SCALES = (2.5, 2, 1.5, 1.25, 1, 1 / 1.25, 1 / 1.5, 1 / 2, 1 / 2.5)
# A block of this many sublayers or more is split: into one of three sublayers and one of the rest.
SPLIT_LAYERS = 6
# A sample is 1 to 12 steps away from the initial structure.
MAX_STEPS = 12
VARIANTS = ("default", "published")


class CandidateValues(NamedTuple):
    """The values from which a candidate is made, one of each kind."""

    kinds: Sequence[str]
    widths: Sequence[int]
    inner_widths: Sequence[int]
    layer_counts: Sequence[int]


@dataclass(frozen=True)
class StructureMutation:
    """Initial structures of a search, and the candidates that may replace a block.

    The official code builds its list of candidates one type at a time, and by mistake copies the
    list that it is extending. Of n types in a family, the first two are therefore listed n times,
    the third n - 1 times, and the last one twice. With `variant="published"` a space samples from
    that list, and may pick a block that cannot change. By default all candidates except the block
    itself are equally likely.

    The option `replacements` is the number of blocks that a step replaces. It is 1 by default; the
    published search uses 2 once it has eleven networks.

    Attributes:
        families: Types of blocks; candidates are listed family by family.
        initial: Initial structures by name.
        max_width: Largest width of a candidate.
        last_can_change: Whether the last convolution may change.
    """

    families: tuple[tuple[str, ...], ...]
    initial: Mapping[str, str]
    max_width: int = WIDTHS[-1]
    last_can_change: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        kinds: list[str] = []
        for family in self.families:
            kinds.extend(family)
        return tuple(kinds)

    def list_candidates(self, block: ZenBlock, variant: str = "default") -> list[ZenBlock]:
        """Return all candidates for a block; a candidate may occur several times."""
        values = self._list_values(block, variant)
        candidates = []
        for kind in values.kinds:
            combinations = product(values.widths, values.inner_widths, values.layer_counts)
            for width, inner, layer_count in combinations:
                candidate = replace(block, kind=kind, cout=width, inner=inner, layers=layer_count)
                candidates.append(candidate)
        return candidates

    def sample(self, space: Space, rng: np.random.Generator) -> Arch:
        """Return the initial structure after some steps, without those that exceed `max_layers`."""
        initial_name = read_option(space, "initial")
        if initial_name not in self.initial:
            raise make_unknown_name_error(
                f"initial structure of {space.name}", str(initial_name), list(self.initial)
            )
        max_layers = read_option(space, "max_layers")
        blocks = StructureNotation(self.kinds).parse_blocks(self.initial[initial_name])
        step_count = int(rng.integers(MAX_STEPS)) + 1
        for _ in range(step_count):
            mutant = self.take_step(space, blocks, rng)
            if count_layers(mutant) <= max_layers:
                blocks = mutant
        return space.make_arch(list_genes(blocks))

    def mutate(self, space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
        """Take one step; raise `InvalidArch` if the result has more than `max_layers` layers."""
        mutant = self.take_step(space, make_blocks(arch.genes), rng)
        max_layers = read_option(space, "max_layers")
        if count_layers(mutant) > max_layers:
            raise InvalidArch(f"the mutant has more than {max_layers} layers")
        return space.make_arch(list_genes(mutant))

    def take_step(
        self, space: Space, blocks: Sequence[ZenBlock], rng: np.random.Generator
    ) -> list[ZenBlock]:
        """Replace one or more blocks, correct the input widths, and split long blocks."""
        variant = read_option(space, "variant")
        if variant not in VARIANTS:
            raise make_unknown_name_error(f"variant of {space.name}", str(variant), VARIANTS)
        is_published = variant == "published"
        indices = []
        for index, block in enumerate(blocks):
            # The published search may pick the last convolution although it cannot change.
            if is_published or self.last_can_change or block.kind != LAST:
                indices.append(index)
        count = min(read_option(space, "replacements"), len(indices))
        # The published search may pick a block twice, and then replaces it once.
        picked_indices = rng.choice(indices, count, replace=is_published).tolist()
        mutant = list(blocks)
        for index in sorted(set(picked_indices)):
            mutant[index] = self._sample_candidate(blocks[index], variant, rng)
        split_blocks: list[ZenBlock] = []
        for block in link_widths(mutant):
            split_blocks.extend(split_block(block))
        return split_blocks

    def _sample_candidate(
        self, block: ZenBlock, variant: str, rng: np.random.Generator
    ) -> ZenBlock:
        values = self._list_values(block, variant)
        while True:
            candidate = replace(
                block,
                kind=pick_uniformly(values.kinds, rng),
                cout=pick_uniformly(values.widths, rng),
                inner=pick_uniformly(values.inner_widths, rng),
                layers=pick_uniformly(values.layer_counts, rng),
            )
            if candidate != block or variant == "published":
                return candidate

    def _list_values(self, block: ZenBlock, variant: str) -> CandidateValues:
        inner_widths: Sequence[int] = (block.inner,)
        if block.kind == LAST and not self.last_can_change:
            return CandidateValues((block.kind,), (block.cout,), inner_widths, (block.layers,))
        widths = self._list_widths(block.cout)
        if block.kind in (STEM, LAST):
            return CandidateValues((block.kind,), widths, inner_widths, (block.layers,))
        kinds: Sequence[str] = self.kinds
        if variant != "default":
            kinds = self._list_published_kinds()
        lowest = max(block.layers - 2, 1)
        layer_counts = range(lowest, block.layers + 3)
        return CandidateValues(kinds, widths, self._list_widths(block.inner), layer_counts)

    def _list_published_kinds(self) -> list[str]:
        """Return the types, repeated as in the list of the official code."""
        kinds = []
        for family in self.families:
            family_size = len(family)
            for index, kind in enumerate(family):
                repeats = min(family_size, family_size + 1 - index)
                kinds += [kind] * repeats
        return kinds

    def _list_widths(self, width: int) -> list[int]:
        """Return the multiples of 8 near the scaled widths."""
        widths = set()
        for scale in WIDTH_SCALES:
            scaled = min(self.max_width, max(WIDTHS[0], scale * width))
            widths.add(round(scaled / 8) * 8)
        return sorted(widths)


def link_widths(blocks: Sequence[ZenBlock]) -> list[ZenBlock]:
    """Set the input channels of every block to the output channels of the one before it."""
    linked = [blocks[0]]
    for block in blocks[1:]:
        linked.append(replace(block, cin=linked[-1].cout))
    return linked


def split_block(block: ZenBlock) -> list[ZenBlock]:
    """Split a block of six sublayers or more in two.

    This changes the network, because the first unit of the second block has a projection.
    """
    if block.layers < SPLIT_LAYERS:
        return [block]
    first_layers = SPLIT_LAYERS // 2
    first = replace(block, layers=first_layers)
    second = replace(block, cin=block.cout, stride=1, layers=block.layers - first_layers)
    return [first, second]


# ------------------------------------------------------------------------------------- options


def read_option(space: Space, name: str) -> Any:
    """Return the value of an option, or its default."""
    options = dict(space.options)
    if name in options:
        return options[name]
    return _list_defaults(space.network)[name]


# Inspecting the signature every time would take half the time of a sample.
@cache
def _list_defaults(network: NetworkFunction) -> dict[str, Any]:
    parameters = signature(network).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def read_config(space: Space) -> ZenConfig:
    """Return the settings of networks as the options of a space define them."""
    return ZenConfig(
        use_se=bool(read_option(space, "use_se")),
        no_reslink=bool(read_option(space, "no_reslink")),
        no_BN=bool(read_option(space, "no_BN")),
    )
