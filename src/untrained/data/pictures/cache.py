"""The cache of decoded pictures: one array of bytes per listing and size, under the data root.

A JSON file beside the array keeps facts about the decoded pictures. The names of both files are a
digest of the names, sizes and times of all pictures, so a change of any picture makes a new cache
entry. The files may be deleted at any time.
"""

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from shutil import disk_usage
from typing import BinaryIO

import numpy as np
import torch
from numpy.lib.format import write_array_header_1_0
from torch import Tensor

from untrained.data.parts import TRAIN
from untrained.data.pictures.decode import DecodedImage, decode_image
from untrained.data.pictures.listing import ImageFile, Listing
from untrained.errors import UsageError
from untrained.files import replace_atomically
from untrained.formatting import format_quantity
from untrained.progress import report_progress
from untrained.readers.json_file import parse_json

_VERSION = 3  # of the decoding and of the JSON file; change it to invalidate caches
_PICTURES_IN_FLIGHT = 256  # pictures that are decoded before the first of them is written


@dataclass(frozen=True)
class DecodingSummary:
    """Facts that were collected while pictures were decoded.

    Attributes:
        sizes: Width and height of each picture that could be decoded.
        modes: How many pictures have each colour mode.
        changes: How many pictures were changed in each way.
        unreadable: Pictures that could not be decoded: index in the listing, and the reason.
        remarks: Pictures that the user should look at: index in the listing, and a remark.
        conflicts: Equal pictures with different labels: their indices in the listing.
    """

    sizes: list[tuple[int, int]]
    modes: dict[str, int]
    changes: dict[str, int]
    unreadable: list[tuple[int, str]]
    remarks: list[tuple[int, str]]
    conflicts: list[tuple[int, int]]


def load_pictures(
    listing: Listing, shape: tuple[int, ...], root: Path
) -> tuple[Tensor, DecodingSummary]:
    """Load the pictures of a listing from the cache; decode them first if they are not in it.

    Args:
        listing: The pictures.
        shape: Channels, height and width of the input of networks.
        root: Data root, which holds the cache.

    Returns:
        The pictures that can be decoded, (N, height, width, channels) of uint8 in the order of the
        listing, and facts about them.

    Raises:
        UsageError: The cache cannot be written, or a class or the training part has no pictures.
    """
    key = _make_key(listing, shape)
    folder = root / "cache" / "pictures"
    array_file = folder / f"{key}.npy"
    facts_file = folder / f"{key}.json"
    cached = _read_cache(array_file, facts_file)
    if cached is None:
        _write_cache(listing, shape, array_file, facts_file)
        cached = _read_cache(array_file, facts_file)
    if cached is None:
        raise UsageError(f"{array_file} was written but cannot be read; name another --data-root")
    return cached


def _make_key(listing: Listing, shape: tuple[int, ...]) -> str:
    digest = sha256(repr((_VERSION, listing.title, shape)).encode())
    for file in listing.files:
        digest.update(repr((file.name, file.label, file.part, file.stamp)).encode())
    return digest.hexdigest()[:24]


def _read_cache(array_file: Path, facts_file: Path) -> tuple[Tensor, DecodingSummary] | None:
    """Read a cache entry; None if it does not exist or is incomplete."""
    try:
        facts = DecodingSummary(**parse_json(facts_file.read_text(encoding="utf-8")))
        # The file is mapped into memory, so only the pictures that are used are read.
        pixels = np.load(array_file, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, TypeError):
        return None
    if len(pixels) != len(facts.sizes):
        return None
    return torch.from_numpy(pixels), facts


def _write_cache(
    listing: Listing, shape: tuple[int, ...], array_file: Path, facts_file: Path
) -> None:
    channels, height, width = shape
    folder = array_file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        needed_bytes = len(listing.files) * prod(shape)
        free_bytes = disk_usage(folder).free
        if needed_bytes > free_bytes:
            raise UsageError(
                f"{listing.title} in {height}x{width} needs {format_quantity(needed_bytes)}B, but "
                f"only {format_quantity(free_bytes)}B are free in {folder}; choose a smaller "
                "--input-size (train, score: --input-shape) or another --data-root"
            )
        with replace_atomically(array_file) as temporary_file, temporary_file.open("wb") as file:
            # The number of decodable pictures is known only at the end, so the header is rewritten
            # then. Its length stays the same, because numpy reserves space for a longer shape.
            _write_header(file, (len(listing.files), height, width, channels))
            facts = _decode_pictures(listing, shape, file)
            if listing.has_numbers:
                _check_training_pictures(listing, facts)
            else:
                _check_classes(listing, facts)
            file.seek(0)
            _write_header(file, (len(facts.sizes), height, width, channels))
        with replace_atomically(facts_file) as temporary_file:
            temporary_file.write_text(json.dumps(asdict(facts)), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the cache of pictures {folder} cannot be written: {error}; name another --data-root"
        ) from error


def _decode_pictures(listing: Listing, shape: tuple[int, ...], file: BinaryIO) -> DecodingSummary:
    """Append every picture that can be decoded to a file, in the order of the listing."""
    sizes = []
    unreadable = []
    remarks = []
    modes: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    conflicts = []
    # By digest of the pixels: index of the first picture with them.
    first_indices: dict[bytes, int] = {}
    for index, (image_file, image) in enumerate(_decode_in_threads(listing.files, shape)):
        if isinstance(image, str):
            unreadable.append((index, image))
            continue
        file.write(image.pixels.tobytes())
        sizes.append((image.width, image.height))
        modes[image.mode] += 1
        changes.update(image.changes)
        if image.remark:
            remarks.append((index, image.remark))
        first_index = first_indices.setdefault(image.digest, index)
        first_file = listing.files[first_index]
        if listing.have_different_labels(image_file, first_file):
            conflicts.append((first_index, index))
            reason = (
                f"used, but it is the same picture as {first_file.name}, which has the label "
                f"{first_file.label} instead of {image_file.label}"
            )
            remarks.append((index, reason))
        elif first_file.name != image_file.name:
            remarks.append((index, f"used, but it is the same picture as {first_file.name}"))
    return DecodingSummary(
        sizes=sizes,
        modes=dict(modes.most_common()),
        changes=dict(changes.most_common()),
        unreadable=unreadable,
        remarks=remarks,
        conflicts=conflicts,
    )


def _decode_in_threads(
    files: Sequence[ImageFile], shape: tuple[int, ...]
) -> Iterator[tuple[ImageFile, DecodedImage | str]]:
    """Yield files with the decoded picture, or with the reason why it cannot be decoded.

    Threads are enough, because decoders release the interpreter lock.
    """

    def decode(file: ImageFile) -> DecodedImage | str:
        return decode_image(file.open, file.name, shape)

    thread_count = min(32, os.cpu_count() or 1)
    with warnings.catch_warnings(), ThreadPoolExecutor(thread_count) as pool:
        # Problems with pictures are listed on the card, so warnings of the decoders are not shown.
        warnings.simplefilter("ignore")
        for start in range(0, len(files), _PICTURES_IN_FLIGHT):
            chunk = files[start : start + _PICTURES_IN_FLIGHT]
            images = pool.map(decode, chunk)
            for done, pair in enumerate(zip(chunk, images, strict=True), start + 1):
                report_progress("reading pictures", done, len(files))
                yield pair


def _check_classes(listing: Listing, facts: DecodingSummary) -> None:
    """Raise an error if a class has no picture to learn from."""
    reasons = dict(facts.unreadable)
    classes_with_pictures = set()
    for file in listing.list_readable_files(facts.unreadable):
        if file.part == TRAIN:
            classes_with_pictures.add(file.label)
    for index, file in enumerate(listing.files):
        if file.label not in classes_with_pictures:
            # Files are sorted by part and class, so this is an unreadable training picture.
            raise UsageError(
                f"class {file.label} of {listing.title} has no readable picture to learn from "
                f"({file.name}: {reasons[index]}); add some, or remove the class"
            )


def _check_training_pictures(listing: Listing, facts: DecodingSummary) -> None:
    """Raise an error if there is no picture with a number to learn from."""
    for file in listing.list_readable_files(facts.unreadable):
        if file.part == TRAIN:
            return
    # Files are sorted by part, so the first one is an unreadable training picture.
    reason = dict(facts.unreadable)[0]
    raise UsageError(
        f"{listing.title} has no readable picture to learn from ({listing.files[0].name}: "
        f"{reason}); correct the paths"
    )


def _write_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """Write the header of an .npy file of bytes."""
    write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
