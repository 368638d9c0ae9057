"""The card of the user's pictures: a summary, files to look at, and proposed settings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from untrained.data.mirror import describe_mirroring
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.pictures.cache import DecodingSummary
from untrained.data.pictures.listing import PART_NAMES, ImageFile, Listing
from untrained.data.tables.card import describe_number_label
from untrained.data.tables.values import read_label
from untrained.formatting import format_count
from untrained.types import CLASSIFICATION, REGRESSION

_USUAL_SIZES = (32, 48, 64, 96, 128, 160, 192, 224)
_MAX_CLASSES_SHOWN = 12
_MIN_STEPS = 10  # per epoch
_MANY_PICTURES = 10_000  # with more, an epoch has enough steps even with batches of 128
_MAX_PIXELS = 2**22  # per batch
_MAX_BYTES = 2**32  # of all pictures, for an input size that the user did not set
_PURPOSES = {TRAIN: "for training", VAL: "for validation", TEST: "for testing"}


@dataclass(frozen=True)
class PictureCard:
    """A summary of pictures.

    Attributes:
        title: Name of the data.
        parts: Number of usable pictures per part.
        classes: Number of usable pictures per class; empty if labels are numbers.
        smallest: Width and height of the smallest original picture.
        median: Width and height of the original picture of median area.
        largest: Width and height of the largest original picture.
        modes: Number of pictures per colour mode.
        changes: Number of pictures that were changed in each way.
        network_size: Height and width of the network input.
        input_size: Proposed input size.
        input_size_reason: Reason for the proposal.
        batch: Batch size of the recipe `photos`.
        batch_reason: Reason for the batch size.
        mirrored: Whether that recipe mirrors pictures.
        problems: Files that the user should look at, with the reason.
        conflicts: Names of equal pictures that have different labels.
        task: What the labels of a label file are, and why; empty for folders.
        label: Summary of labels that are numbers; empty for classes.
        folder_warning: Why the folder may be at the wrong level; usually empty.
    """

    title: str
    parts: dict[str, int]
    classes: dict[str, int]
    smallest: tuple[int, int]
    median: tuple[int, int]
    largest: tuple[int, int]
    modes: dict[str, int]
    changes: dict[str, int]
    network_size: tuple[int, int]
    input_size: int
    input_size_reason: str
    batch: int
    batch_reason: str
    mirrored: bool
    problems: tuple[tuple[str, str], ...]
    conflicts: tuple[tuple[str, str], ...] = ()
    task: str = ""
    label: str = ""
    folder_warning: str = ""

    def lines(self) -> list[str]:
        total = sum(self.parts.values())
        parts = ", ".join(f"{count:,} {_PURPOSES[part]}" for part, count in self.parts.items())
        sizes = f"{self.smallest[0]}x{self.smallest[1]}"
        if self.largest != self.smallest:
            sizes += f" to {self.largest[0]}x{self.largest[1]}"
        if self.classes:
            lines = [f"{self.title}: {total:,} pictures in {len(self.classes):,} classes: {parts}"]
        else:
            lines = [f"{self.title}: {total:,} pictures: {parts}"]
        if self.task:
            lines.append(f"task: {self.task}")
        if self.classes:
            lines.append(f"classes: {_describe_balance(self.classes)}")
        else:
            lines.append(f"label: {self.label}")
        lines += [
            f"sizes: {sizes}, median {self.median[0]}x{self.median[1]} (width x height)",
            f"colours: {_format_counts(self.modes)}",
        ]
        if self.changes:
            lines.append(f"converted: {_format_counts(self.changes)}")
        height, width = self.network_size
        lines += [
            f"network input {width}x{height}: pictures are scaled to cover it and cropped around "
            "their centre",
            f"proposed: --input-size {self.input_size} ({self.input_size_reason})",
            f"training: --recipe photos takes batches of {self.batch} ({self.batch_reason})",
            f"training: {describe_mirroring(self.mirrored, has_numbers=not self.classes)}",
        ]
        if self.folder_warning:
            lines.append(f"warning: {self.folder_warning}")
        if self.conflicts:
            lines.append(f"warning: {_describe_conflicts(self.conflicts)}")
        return lines

    def details(self) -> list[str]:
        return []


def make_picture_card(
    listing: Listing, facts: DecodingSummary, shape: tuple[int, ...], mirrored: bool
) -> PictureCard:
    """Make the card of pictures that were decoded for networks.

    Args:
        listing: The pictures.
        facts: Facts about the decoded pictures.
        shape: Channels, height and width of the input of networks.
        mirrored: Whether pictures may be mirrored in training.
    """
    files = listing.list_readable_files(facts.unreadable)
    class_counts = Counter(file.label for file in files)
    part_counts = Counter(file.part for file in files)
    sizes = [(width, height) for width, height in facts.sizes]
    sizes.sort(key=lambda size: (size[0] * size[1], size))

    shorter_side = median(min(size) for size in sizes)
    proposed_size = propose_input_size(shorter_side)
    input_size = limit_input_size(proposed_size, len(listing.files))
    input_size_reason = f"the median shorter side is {shorter_side:g} pixels"
    if input_size < proposed_size:
        pictures = format_count(len(listing.files), "picture")
        input_size_reason += f"; {pictures} of {proposed_size} pixels would not fit into memory"
    elif shorter_side > _USUAL_SIZES[-1]:
        input_size_reason += f"; {_USUAL_SIZES[-1]} is the largest proposal"
    train_count = part_counts[TRAIN]
    batch = propose_batch_size(train_count, min(shape[1:]))
    steps = format_count(-(-train_count // batch), "step")

    conflicts = []
    for first_index, second_index in facts.conflicts:
        conflicts.append((listing.files[first_index].name, listing.files[second_index].name))
    problems = list(listing.problems)
    for index, reason in (*facts.unreadable, *facts.remarks):
        problems.append((listing.files[index].name, reason))
    return PictureCard(
        title=listing.title,
        parts={part: part_counts[part] for part in PART_NAMES},
        classes={name: class_counts[name] for name in listing.classes},
        smallest=sizes[0],
        median=sizes[len(sizes) // 2],
        largest=sizes[-1],
        modes=facts.modes,
        changes=facts.changes,
        network_size=(shape[1], shape[2]),
        input_size=input_size,
        input_size_reason=input_size_reason,
        batch=batch,
        batch_reason=f"{steps} in a pass over {format_count(train_count, 'picture')}",
        mirrored=mirrored,
        problems=tuple(sorted(problems)),
        conflicts=tuple(conflicts),
        task=_describe_task(listing),
        label=_describe_numbers(listing, files),
        folder_warning=listing.warning,
    )


def _describe_conflicts(conflicts: Sequence[tuple[str, str]]) -> str:
    """Return a warning about equal pictures with different labels."""
    count = format_count(len(conflicts), "picture")
    verb = "is" if len(conflicts) == 1 else "are"
    first, second = conflicts[0]
    return (
        f"{count} {verb} the same as another one with a different label, such as {second} and "
        f"{first}; a network cannot learn both: correct one of the labels, or remove the picture"
    )


def _describe_task(listing: Listing) -> str:
    """Return the task of a label file, why it is this one, and how to change it."""
    target = listing.target
    if target is None:
        return ""
    other_task = CLASSIFICATION if target.kind == REGRESSION else REGRESSION
    return f"{target.kind.name}, because {target.reason}; --task {other_task.name} changes it"


def _describe_numbers(listing: Listing, files: Sequence[ImageFile]) -> str:
    """Return a summary of labels that are numbers; empty for classes."""
    target = listing.target
    if target is None or not listing.has_numbers:
        return ""
    labels = [read_label(file.label, None) for file in files]
    label_range = (min(labels), max(labels))
    return describe_number_label(target.column, label_range, target.mean, target.std)


def propose_input_size(side: float) -> int:
    """Return the usual input size that is nearest to the shorter side of pictures, as a ratio."""
    return min(_USUAL_SIZES, key=lambda size: max(size / side, side / size))


def limit_input_size(input_size: int, pictures: int) -> int:
    """Return an input size, or the largest smaller one at which all pictures fit into memory.

    If they fit at none, it is 32.

    Args:
        input_size: One of the usual sizes.
        pictures: Number of pictures.
    """
    allowed_sizes = [_USUAL_SIZES[0]]
    for size in _USUAL_SIZES:
        if size <= input_size and 3 * size**2 * pictures <= _MAX_BYTES:
            allowed_sizes.append(size)
    return allowed_sizes[-1]


def propose_batch_size(pictures: int, input_size: int) -> int:
    """Propose a batch size: 64, or 128 for more than 10,000 pictures.

    It is smaller, down to 8, if an epoch would have fewer than ten steps, or a batch too many
    pixels.

    Args:
        pictures: Number of training pictures.
        input_size: Height and width of the input of networks.
    """
    usual_batch = 128 if pictures > _MANY_PICTURES else 64
    max_batch = min(usual_batch, pictures / _MIN_STEPS, _MAX_PIXELS / input_size**2)
    # The largest power of two that is not above `max_batch`; 0 if that is below 1.
    power_of_two = (1 << int(max_batch).bit_length()) >> 1
    return max(8, power_of_two)


def _describe_balance(classes: dict[str, int]) -> str:
    """Describe the sizes of the classes; if there are many, of the largest and the smallest."""
    ranked = sorted(classes.items(), key=lambda pair: -pair[1])
    largest_name, largest_count = ranked[0]
    smallest_name, smallest_count = ranked[-1]
    ratio = f"the largest has {largest_count / smallest_count:.3g} times as many as the smallest"
    if largest_count == smallest_count:
        ratio = "all have the same number"
    if len(classes) <= _MAX_CLASSES_SHOWN:
        return f"{_format_counts(classes)}; {ratio}"
    return f"from {smallest_name} {smallest_count:,} to {largest_name} {largest_count:,}; {ratio}"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
