"""Steps through structures: the mutation of ZenNAS and ZiCo, and samples as walks of such steps.

The published search starts at one structure and changes it block by block: a step replaces a block by a candidate near
it (another type, width, bottleneck, number of sublayers); then widths are linked again, and a block of six sublayers or
more becomes two. The official lists of candidates come out of Python sets of strings, so that a seed does not repeat a
published run; ours are ordered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from untrained.errors import unknown
from untrained.spaces._plainnet import Block
from untrained.spaces._space import Invalid, Space
from untrained.spaces._structure import LAST, STEM, WIDTHS, Structures, blocks_of, genes_of, layers, option
from untrained.types import Arch

SCALES = (2.5, 2, 1.5, 1.25, 1, 1 / 1.25, 1 / 1.5, 1 / 2, 1 / 2.5)  # of a width, to those of its candidates
SPLIT = 6  # a block of so many sublayers becomes two: of three, and of the rest
STEPS = 12  # a sample is 1 to 12 steps away from the initial structure
VARIANTS = ("default", "published")


@dataclass(frozen=True)
class Walk:
    """Where a search starts, and what a block may become.

    In the official code a list of candidates grows while it is copied, type by type, so that of n types in a family the
    first two are listed n times, the third n - 1 times, and the last one twice. `variant="published"` of a space draws
    from that list, and picks the block before it knows whether it can change; by default every candidate but the block
    itself is equally likely. `replacements` is 1; the published search takes 2 once it has eleven networks.
    """

    families: tuple[tuple[str, ...], ...]  # types of blocks; candidates are listed family by family
    initial: Mapping[str, str]
    widest: int = WIDTHS[-1]
    last_changes: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for family in self.families for kind in family)

    def candidates(self, block: Block, variant: str = "default") -> list[Block]:
        """All that a block may become in one step, as often as they are in the list that is drawn from."""
        kinds, *others = self._factors(block, variant)
        return [_replaced(block, values) for values in product(kinds, *others)]

    def sample(self, space: Space, rng: np.random.Generator) -> Arch:
        """The initial structure after some steps; a step beyond `max_layers` is not taken."""
        initial = option(space, "initial")
        if initial not in self.initial:
            raise unknown(f"initial structure of {space.name}", str(initial), list(self.initial))
        blocks = Structures(self.kinds).blocks(self.initial[initial])
        for _ in range(int(rng.integers(STEPS)) + 1):
            child = self.step(space, blocks, rng)
            blocks = child if layers(child) <= option(space, "max_layers") else blocks
        return space.arch(genes_of(blocks))

    def mutate(self, space: Space, arch: Arch, rng: np.random.Generator) -> Arch:
        """One step, drawn again where it leads beyond `max_layers`."""
        child = self.step(space, blocks_of(arch.genes), rng)
        if layers(child) > option(space, "max_layers"):
            raise Invalid(f"a step led beyond {option(space, 'max_layers')} layers")
        return space.arch(genes_of(child))

    def step(self, space: Space, blocks: Sequence[Block], rng: np.random.Generator) -> list[Block]:
        """One or more blocks replaced, widths linked, long blocks split."""
        changed, variant = list(blocks), option(space, "variant")
        if variant not in VARIANTS:
            raise unknown(f"variant of {space.name}", str(variant), VARIANTS)
        fair = variant == "default"
        places = [n for n, block in enumerate(blocks) if not fair or self.last_changes or block.kind != LAST]
        count = min(option(space, "replacements"), len(places))
        for n in sorted({*rng.choice(places, count, replace=not fair).tolist()}):
            changed[n] = self._drawn(blocks[n], variant, rng)
        return [part for block in relinked(changed) for part in split(block)]

    def _drawn(self, block: Block, variant: str, rng: np.random.Generator) -> Block:
        factors = self._factors(block, variant)
        while True:
            found = _replaced(block, tuple(values[int(rng.integers(len(values)))] for values in factors))
            if found != block or variant == "published":
                return found

    def _factors(self, block: Block, variant: str) -> tuple[Sequence[Any], ...]:
        """Types, widths, bottlenecks and sublayers; a candidate takes one of each."""
        if block.kind == LAST and not self.last_changes:
            return (block.kind,), (block.cout,), (block.inner,), (block.layers,)
        if block.kind in (STEM, LAST):
            return (block.kind,), self._widths(block.cout), (block.inner,), (block.layers,)
        kinds = self.kinds if variant == "default" else self._repeated()
        depths = [depth for depth in range(block.layers - 2, block.layers + 3) if depth > 0]
        return kinds, self._widths(block.cout), self._widths(block.inner), depths

    def _repeated(self) -> list[str]:
        many = [(kind, min(len(f), len(f) + 1 - n)) for f in self.families for n, kind in enumerate(f)]
        return [kind for kind, times in many for _ in range(times)]

    def _widths(self, width: int) -> list[int]:
        near = (min(self.widest, max(WIDTHS[0], scale * width)) for scale in SCALES)
        return sorted({round(wide / 8) * 8 for wide in near})


def _replaced(block: Block, values: tuple[Any, ...]) -> Block:
    kind, cout, inner, depth = values
    return replace(block, kind=kind, cout=cout, inner=inner, layers=depth)


def relinked(blocks: Sequence[Block]) -> list[Block]:
    """Every block takes in what the one before it puts out."""
    widths = [blocks[0].cin, *(block.cout for block in blocks[:-1])]
    return [replace(block, cin=cin) for block, cin in zip(blocks, widths, strict=True)]


def split(block: Block) -> tuple[Block, ...]:
    """A block of six sublayers or more in two. Not the same network: the second one's first unit projects."""
    if block.layers < SPLIT:
        return (block,)
    first = SPLIT // 2
    rest = replace(block, cin=block.cout, stride=1, layers=block.layers - first)
    return replace(block, layers=first), rest
