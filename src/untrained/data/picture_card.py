"""The card of somebody's pictures: what there is, what was changed so that networks can look at it, which files to look
at oneself, and which input size and batch to begin with."""

from collections import Counter
from dataclasses import dataclass
from statistics import median

from untrained._numbers import counted
from untrained.data._cache import Facts
from untrained.data._listing import PARTS, Listing
from untrained.data.parts import TRAIN

_SIDES = (32, 48, 64, 96, 128, 160, 192, 224)
_NAMED = 12  # classes that are told one by one
_STEPS = 50  # at least, in a pass over the pictures to learn from
_PIXELS = 2**22  # at most, in a batch


@dataclass(frozen=True)
class PictureCard:
    """Widths and heights are those of the files, counts those of the pictures that can be used."""

    title: str
    parts: dict[str, int]
    classes: dict[str, int]
    smallest: tuple[int, int]
    middle: tuple[int, int]
    largest: tuple[int, int]
    modes: dict[str, int]
    changes: dict[str, int]
    shown: tuple[int, int]  # height and width of what networks look at
    input_size: int
    input_size_because: str
    batch: int
    batch_because: str
    problems: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        parts = ", ".join(f"{count:,} {_PURPOSE[part]}" for part, count in self.parts.items())
        sizes = " to ".join(dict.fromkeys(f"{width}x{height}" for width, height in (self.smallest, self.largest)))
        changes = ", ".join(f"{what} {count:,}" for what, count in self.changes.items())
        height, width = self.shown
        return [
            f"{self.title}: {sum(self.parts.values()):,} pictures in {len(self.classes):,} classes: {parts}",
            f"classes: {_balance(self.classes)}",
            f"sizes: {sizes}, in the middle {self.middle[0]}x{self.middle[1]} (width x height)",
            f"colours: {_told(self.modes)}",
            *([f"made fit: {changes}"] if changes else []),
            f"networks look at {width}x{height}: scaled until they just cover it, cut around the centre",
            f"proposed: --input-size {self.input_size} ({self.input_size_because})",
            f'proposed: --recipe "quick(batch={self.batch})" to train ({self.batch_because})',
        ]

    def details(self) -> list[str]:
        return []


_PURPOSE = dict(zip(PARTS, ("to learn from", "to choose by", "to be judged on"), strict=True))


def picture_card(listing: Listing, facts: Facts, shape: tuple[int, ...]) -> PictureCard:
    """The card of pictures that were read for networks that take a shape of (channels, height, width)."""
    lost, names = dict(facts.lost), [entry.name for entry in listing.entries]
    used = [entry for place, entry in enumerate(listing.entries) if place not in lost]
    by_area = sorted(((width, height) for width, height in facts.sizes), key=lambda size: (size[0] * size[1], size))
    kinds, parts = Counter(entry.kind for entry in used), Counter(entry.part for entry in used)
    side = median(map(min, by_area))
    size = proposed_size(side)
    batch = proposed_batch(parts[TRAIN], size)
    capped = f"; {_SIDES[-1]} is the most" if side > _SIDES[-1] else ""
    remarked = (*facts.lost, *facts.remarks)
    return PictureCard(
        listing.title,
        {part: parts[part] for part in PARTS},
        {kind: kinds[kind] for kind in listing.classes},
        by_area[0],
        by_area[len(by_area) // 2],
        by_area[-1],
        facts.modes,
        facts.changes,
        (shape[1], shape[2]),
        size,
        f"shorter sides have {side:g} pixels in the middle{capped}",
        batch,
        f"{counted(-(-parts[TRAIN] // batch), 'step')} in a pass over {counted(parts[TRAIN], 'picture')}",
        tuple(sorted((*listing.problems, *((names[place], why) for place, why in remarked)))),
    )


def proposed_size(side: float) -> int:
    """The usual input size that is nearest to the shorter side of most pictures, as a ratio."""
    return min(_SIDES, key=lambda size: max(size / side, side / size))


def proposed_batch(pictures: int, size: int) -> int:
    """A power of two from 8 to 256: enough steps in a pass, and not too many pixels at once."""
    most = min(256, pictures / _STEPS, _PIXELS / size**2)
    return max(8, 1 << int(most).bit_length() >> 1)


def _balance(classes: dict[str, int]) -> str:
    """Every class with its number of pictures where that can be read; the ends of the list elsewhere."""
    ranked = sorted(classes.items(), key=lambda pair: -pair[1])
    most, fewest = ranked[0], ranked[-1]
    ratio = f"{most[1] / fewest[1]:.3g} times as many in the largest as in the smallest"
    if len(classes) <= _NAMED:
        return f"{_told(classes)}; {ratio}"
    return f"from {fewest[0]} {fewest[1]:,} to {most[0]} {most[1]:,}; {ratio}"


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
