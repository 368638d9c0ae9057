"""Which pictures there are, of which class, in which part. Reads names, never pixels.

What no publisher keeps apart is cut from the pictures to learn from, by their names alone: a picture that is added to
one class moves none of another, and hardly any of its own.
"""

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image

from untrained._quantities import is_utf8
from untrained.data._decode import open_file
from untrained.data.parts import TEST, TRAIN, VAL, shared_out, shares
from untrained.errors import UsageError
from untrained.rng import seed_for

Problems = list[tuple[str, str]]
PARTS = {TRAIN: ("train", "training"), VAL: ("val", "valid", "validation"), TEST: ("test", "testing")}
_LINK_OUT = "not used: a link out of the folder, which is not followed"
_COLUMNS = (("path", "file", "filename", "image"), ("label", "class", "target"), ("split", "part", "set"))


@dataclass(frozen=True)
class Entry:
    """One picture: what to call it, its class, its part, how to open it, and a stamp that changes when it does."""

    name: str
    kind: str
    part: str
    stamp: str
    open: Callable[[], Image.Image]


@dataclass(frozen=True)
class Listing:
    """The pictures of a data set, part by part and class by class, and the files that are none of them."""

    title: str
    classes: tuple[str, ...]
    entries: tuple[Entry, ...]
    problems: tuple[tuple[str, str], ...]


def settled(title: str, found: Sequence[Entry], problems: Problems) -> Listing:
    """Everything found, put in order; parts that are missing are cut from the one to learn from."""
    kinds = {entry.kind for entry in found if entry.part == TRAIN}
    if len(kinds) < 2:
        links = sum(why == _LINK_OUT for _, why in problems)
        unfollowed = f" ({links:,} links out of the folder are not followed)" if links else ""
        raise UsageError(
            f"{title} has {len(kinds) or 'no'} class{'' if len(kinds) == 1 else 'es'} to learn from{unfollowed}; it "
            f"needs two or more, such as ./photos/cats/1.jpg and ./photos/dogs/1.jpg for folder:./photos"
        )
    classes = tuple(sorted(kinds, key=int if all(map(str.isdecimal, kinds)) else str))
    groups: dict[str, list[Entry]] = {kind: [] for kind in classes}
    for entry in found:
        if entry.part == TRAIN:
            groups[entry.kind].append(entry)
    cut = shares({entry.part for entry in found})
    entries = [entry for entry in found if entry.part != TRAIN and entry.kind in kinds]
    for group in groups.values():
        group.sort(key=lambda entry: seed_for("split", entry.kind, entry.name))
        for part, some in shared_out(group, cut).items():
            entries += [replace(entry, part=part) for entry in some]
    label, turn = ({name: place for place, name in enumerate(names)} for names in (classes, PARTS))
    entries.sort(key=lambda entry: (turn[entry.part], label[entry.kind], entry.name))
    strange = [(e.name, f"not used: there is no class {e.kind} to learn from") for e in found if e.kind not in kinds]
    return Listing(title, classes, tuple(entries), (*problems, *strange))


# ------------------------------------------------------------------------------------------------------------- folders


def of_folder(path: Path) -> Listing:
    """One subfolder a class; or subfolders train, val and test (as far as there are) that have such subfolders. A train
    without any, beside other folders, is a class of that name."""
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}; give one with a subfolder a class, such as folder:./photos")
    title = f"folder:{path.resolve().name}"
    problems: Problems = []
    below = {child.name.lower(): child for child in _children(path, path, problems)}
    parts = {part: next((below[name] for name in names if name in below), None) for part, names in PARTS.items()}
    train, others = parts[TRAIN], [child for child in below.values() if child not in parts.values()]
    if train is None or (others and not _children(train, path, [])):
        return settled(title, list(_classes(path, path, TRAIN, problems)), problems)
    found: list[Entry] = []
    for part, folder in parts.items():
        found += _classes(folder, path, part, problems) if folder else ()
    problems += [(_told(child, path), "not used: it lies beside train, val and test") for child in others]
    return settled(title, found, problems)


def _classes(folder: Path, root: Path, part: str, problems: Problems) -> Iterator[Entry]:
    for child in _children(folder, root, problems if folder != root else []):
        if not is_utf8(child.name):
            raise UsageError(f"the name of the class folder {_told(child, root)} is not UTF-8; rename the folder")
        files = list(_files(child, root, problems))
        if not files:
            raise UsageError(f"the class {_told(child, root)} has no files; put pictures into {child}, or remove it")
        yield from (_entry(file, _told(file, root), child.name, part) for file in files)


def _children(folder: Path, root: Path, problems: Problems) -> list[Path]:
    """Subfolders that may be classes; what else lies there is noted."""
    children = []
    for child in sorted(folder.iterdir()):
        if child.name.startswith("."):
            problems.append((_told(child, root), "hidden, so not used"))
        elif _leads_out(child, root):
            problems.append((_told(child, root), _LINK_OUT))
        elif not child.is_dir():
            problems.append((_told(child, root), "not used: it lies in no folder of a class"))
        else:
            children.append(child)
    return children


def _leads_out(path: Path, root: Path) -> bool:
    """Whether a path is a link to something outside of the root. The root itself may be a link."""
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))
    # A link that leads nowhere is listed as such later, wherever it points.
    return target.exists() and not target.is_relative_to(os.path.realpath(root))


def _files(folder: Path, root: Path, problems: Problems) -> Iterator[Path]:
    """All files below a folder. Links that stay within the root are followed, but through each folder once."""
    seen: set[str] = set()

    def refused(error: OSError) -> None:
        problems.append((_told(Path(error.filename), root), "may not be read by you"))

    for place, folders, names in os.walk(folder, onerror=refused, followlinks=True):
        if (real := os.path.realpath(place)) in seen:
            folders.clear()
            problems.append((_told(Path(place), root), "not read again: a link to a folder that was read before"))
            continue
        seen.add(real)
        kept: dict[str, list[str]] = {"folders": [], "files": []}
        for kind, entries in (("folders", folders), ("files", names)):
            for name in sorted(entries):
                path = Path(place, name)
                if name.startswith("."):
                    problems.append((_told(path, root), "hidden, so not used"))
                elif _leads_out(path, root):
                    problems.append((_told(path, root), _LINK_OUT))
                else:
                    kept[kind].append(name)
        folders[:] = kept["folders"]
        yield from (Path(place, name) for name in kept["files"])


def _entry(path: Path, name: str, kind: str, part: str) -> Entry:
    try:
        found = path.stat()
        stamp = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"  # archives may set all times of change alike
    except OSError:
        stamp = "absent"
    return Entry(name, kind, part, stamp, partial(open_file, path))


def _told(path: Path, root: Path) -> str:
    """A path below the root as it can be printed, whatever bytes its name is made of."""
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")


# -------------------------------------------------------------------------------------------------------------- tables


def of_table(path: Path) -> Listing:
    """A CSV file with columns path and label, and perhaps split; paths are relative to the file."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}; give a CSV of paths and labels, such as images:./photos.csv")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines() or [""]
        table = csv.DictReader(lines, delimiter=max(",;\t", key=lines[0].count))
        rows = list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is not a CSV file in UTF-8: {error}; save it as one") from error
    names = {name.strip().lower(): name for name in table.fieldnames or ()}
    columns = [next((names[name] for name in said if name in names), None) for said in _COLUMNS]
    if None in columns[:2]:
        raise UsageError(f"{path} begins with {lines[0][:60]!r}; its first line must be path,label or path,label,split")
    problems: Problems = []
    found: dict[str, Entry] = {}
    for number, row in enumerate(rows, 2):
        name, kind, split = ((row[column] or "").strip() if column else "" for column in columns)
        if name in found:
            problems.append((name, "listed before, so not used again"))
        elif not name or not kind:
            problems.append((name or f"line {number}", "not used: its path or its label is missing"))
        else:
            part = part_called(split) if columns[2] else TRAIN
            if part is None:
                raise UsageError(f"{path}, line {number}: the split is {split!r}; write train, val or test")
            found[name] = _entry(path.parent / name, name, kind, part)
    return settled(f"images:{path.name}", list(found.values()), problems)


def part_called(said: str) -> str | None:
    """The part that people mean by a word."""
    return next((part for part, words in PARTS.items() if said.lower() in words), None)
