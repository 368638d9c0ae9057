"""Pictures are read once: all that can be read lie in one array of bytes under the data root, in the order of their
listing, and what was learned while reading lies beside it.

The name of the two files is made of all names, sizes and times, so a change anywhere means reading anew. They may be
deleted at any time.
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

from untrained._files import written_whole
from untrained._numbers import quantity
from untrained.data._decode import Seen, decoded
from untrained.data._listing import Entry, Listing
from untrained.data._progress import tell
from untrained.data.parts import TRAIN
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

_VERSION = 1  # of what is done to a picture
_AT_ONCE = 256  # pictures that wait to be written


@dataclass(frozen=True)
class Facts:
    """What was learned while pictures were read. Places are those of the listing."""

    sizes: list[tuple[int, int]]  # width and height of each that could be read
    modes: dict[str, int]
    changes: dict[str, int]
    lost: list[tuple[int, str]]  # why a picture could not be read
    remarks: list[tuple[int, str]]  # what to say of one that is used


def shelved(listing: Listing, shape: tuple[int, ...], root: Path) -> tuple[Tensor, Facts]:
    """The pictures that can be read, (N, height, width, channels) of uint8 for a shape of (channels, height, width);
    from the cache under `root` where they are in it."""
    folder = root / "cache" / "pictures"
    array, facts = (folder / f"{_key(listing, shape)}.{ending}" for ending in ("npy", "json"))
    found = _cached(array, facts)
    if found is None:
        _write(listing, shape, array, facts)
        found = _cached(array, facts)
    if found is None:
        raise UsageError(f"{array} was written and cannot be read; name another --data-root")
    return found


def _key(listing: Listing, shape: tuple[int, ...]) -> str:
    digest = sha256(repr((_VERSION, listing.title, shape)).encode())
    for entry in listing.entries:
        digest.update(repr((entry.name, entry.kind, entry.part, entry.stamp)).encode())
    return digest.hexdigest()[:24]


def _cached(array: Path, facts: Path) -> tuple[Tensor, Facts] | None:
    """What lies in the cache; None where nothing does, or half of it."""
    try:
        known = Facts(**parse_json(facts.read_text(encoding="utf-8")))
        images = np.load(array, mmap_mode="c", allow_pickle=False)  # memory of others: read when it is looked at
    except (OSError, ValueError, TypeError):
        return None
    return (torch.from_numpy(images), known) if len(images) == len(known.sizes) else None


def _write(listing: Listing, shape: tuple[int, ...], array: Path, facts: Path) -> None:
    channels, height, width = shape
    try:
        array.parent.mkdir(parents=True, exist_ok=True)
        need, free = len(listing.entries) * prod(shape), disk_usage(array.parent).free
        if need > free:
            raise UsageError(
                f"{listing.title} in {height}x{width} takes {quantity(need)}B, and {array.parent} has "
                f"{quantity(free)}B; choose a smaller --input-size (train, score: --input-shape) or another --data-root"
            )
        with written_whole(array) as part, part.open("wb") as file:
            _header(file, (len(listing.entries), height, width, channels))
            known = _read(listing, shape, file)
            _check(listing, known)
            file.seek(0)
            _header(file, (len(known.sizes), height, width, channels))  # as long as before: numpy leaves room to grow
        with written_whole(facts) as part:
            part.write_text(json.dumps(asdict(known)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"pictures are kept in {array.parent}: {error}; name another --data-root") from error


def _read(listing: Listing, shape: tuple[int, ...], file: BinaryIO) -> Facts:
    """Append every picture that can be read to the file, in the order of the listing."""
    sizes, lost, remarks = [], [], []
    modes, changes = Counter[str](), Counter[str]()
    first: dict[bytes, str] = {}  # by their pixels, the pictures that came before
    for place, (entry, seen) in enumerate(_decoded(listing.entries, shape)):
        if isinstance(seen, str):
            lost.append((place, seen))
            continue
        file.write(seen.pixels.tobytes())
        sizes.append((seen.width, seen.height))
        modes[seen.mode] += 1
        changes.update(seen.changes)
        like = first.setdefault(seen.digest, entry.name)
        alike = f"used, but it is the same picture as {like}" if like != entry.name else ""
        remarks += [(place, said) for said in (seen.remark, alike) if said]
    return Facts(sizes, dict(modes.most_common()), dict(changes.most_common()), lost, remarks)


def _decoded(entries: Sequence[Entry], shape: tuple[int, ...]) -> Iterator[tuple[Entry, Seen | str]]:
    """Entries with what became of them. Threads are enough: decoders let others work meanwhile."""

    def look(entry: Entry) -> Seen | str:
        return decoded(entry.open, entry.name, shape)

    with warnings.catch_warnings(), ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")  # what decoders warn of is told by the card, or is nothing to us
        for begin in range(0, len(entries), _AT_ONCE):
            some = entries[begin : begin + _AT_ONCE]
            for done, pair in enumerate(zip(some, pool.map(look, some), strict=True), begin + 1):
                tell(done, len(entries))
                yield pair


def _check(listing: Listing, facts: Facts) -> None:
    """Every class must have something to learn from."""
    lost = dict(facts.lost)
    left = {entry.kind for place, entry in enumerate(listing.entries) if entry.part == TRAIN and place not in lost}
    if empty := next((kind for kind in listing.classes if kind not in left), None):
        name, why = next((entry.name, lost[i]) for i, entry in enumerate(listing.entries) if entry.kind == empty)
        raise UsageError(
            f"class {empty} of {listing.title} has no readable picture to learn from ({name}: {why}); "
            f"put some into it, or take the class out"
        )


def _header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """The beginning of an .npy file of bytes."""
    write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
