"""List the user's pictures with their labels and parts.

Only names are read, not pixels. Parts that the user does not provide are split off from the
training pictures by file name. Adding a picture to a class therefore moves no picture of another
class to another part, and hardly any of the same class. Labels are classes, or numbers if they come
from a label file (`label_file.py`).
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from statistics import median

from PIL import Image

from untrained.data.held_out import make_two_test_parts_error
from untrained.data.parts import MIN_SPLIT_ROWS, TEST, TRAIN, VAL, choose_shares, split_rows
from untrained.data.pictures.decode import open_image_file
from untrained.data.regression import compute_label_statistics
from untrained.data.tables.target import Target
from untrained.data.tables.values import read_label
from untrained.data_path import make_missing_folder_error
from untrained.errors import MAX_NAMES_SHOWN, UsageError
from untrained.formatting import format_count
from untrained.quantities import is_utf8
from untrained.seeds import derive_seed
from untrained.types import REGRESSION

Problems = list[tuple[str, str]]  # names of files, and what is wrong with them
# Names of folders and splits, by part.
PART_NAMES = {
    TRAIN: ("train", "training"),
    VAL: ("val", "valid", "validation"),
    TEST: ("test", "testing"),
}
# Number of pictures, spread over all of them, whose size is measured.
_MEASURED_FILES = 200
_HIDDEN = "hidden, so not used"
_NO_PERMISSION = "you have no permission to read it"
_LINK_OUT_OF_FOLDER = "not used: a link out of the folder, which is not followed"


@dataclass(frozen=True)
class ImageFile:
    """One picture.

    Attributes:
        name: Its name in messages.
        label: Its class, or the text of a number.
        part: Its part.
        stamp: A text that changes when the file changes.
        open: Function that opens it.
    """

    name: str
    label: str
    part: str
    stamp: str
    open: Callable[[], Image.Image]


@dataclass(frozen=True)
class Listing:
    """The pictures of a data set.

    Attributes:
        title: Name of the data.
        classes: Names of the classes, sorted; empty if labels are numbers.
        files: The pictures, sorted by part, class and name.
        problems: Files that are not used, with the reason.
        target: What the labels of a label file are. If they are numbers, it has the mean and the
            deviation of the training pictures, including any that turn out to be unreadable. None
            for folders.
        warning: What the user should check, such as a folder at the wrong level; usually empty.
    """

    title: str
    classes: tuple[str, ...]
    files: tuple[ImageFile, ...]
    problems: tuple[tuple[str, str], ...]
    target: Target | None = None
    warning: str = ""

    @property
    def has_numbers(self) -> bool:
        """Whether the labels are numbers and not classes."""
        return self.target is not None and self.target.kind == REGRESSION

    def have_different_labels(self, first: ImageFile, second: ImageFile) -> bool:
        """Whether two pictures have different labels. Numbers are compared as numbers."""
        if self.has_numbers:
            return read_label(first.label, None) != read_label(second.label, None)
        return first.label != second.label

    def list_readable_files(self, unreadable: Iterable[tuple[int, str]]) -> list[ImageFile]:
        """Return the files without those whose indices are listed as unreadable."""
        unreadable_indices = {index for index, _ in unreadable}
        files = []
        for index, file in enumerate(self.files):
            if index not in unreadable_indices:
                files.append(file)
        return files


def measure_shorter_side(listing: Listing) -> float | None:
    """Return the median length of the shorter sides of some pictures, without decoding them.

    Returns:
        The length in pixels; None if no picture could be opened.
    """
    step = max(1, len(listing.files) // _MEASURED_FILES)
    sides = []
    with warnings.catch_warnings():
        # Problems with pictures are listed on the card, so warnings are not shown here.
        warnings.simplefilter("ignore")
        for file in listing.files[::step]:
            try:
                with file.open() as image:
                    sides.append(min(image.size))
            except Exception:
                # The readers of a dozen formats raise many types of errors on damaged files.
                continue
    if not sides:
        return None
    return median(sides)


def make_listing(
    title: str, files: Sequence[ImageFile], problems: Problems, target: Target | None = None
) -> Listing:
    """Make a listing of sorted files; missing parts are split off from the training part.

    Args:
        title: Name of the data.
        files: The pictures in any order.
        problems: Files that are not used, with the reason.
        target: What the labels of a label file are; None for classes of folders.

    Raises:
        UsageError: There are fewer than two classes, or too few different numbers.
    """
    if target is not None and target.kind == REGRESSION:
        return _make_listing_of_numbers(title, files, problems, target)
    labels = {file.label for file in files if file.part == TRAIN}
    if len(labels) < 2:
        raise _too_few_classes_error(title, len(labels), problems)
    are_numbers = all(label.isdecimal() for label in labels)
    classes = tuple(sorted(labels, key=int if are_numbers else str))

    train_files: dict[str, list[ImageFile]] = {label: [] for label in classes}
    sorted_files = []
    problems_with_labels = []
    for file in files:
        if file.label not in labels:
            reason = f"not used: there is no class {file.label} to learn from"
            problems_with_labels.append((file.name, reason))
        elif file.part == TRAIN:
            train_files[file.label].append(file)
        else:
            sorted_files.append(file)

    shares = choose_shares({file.part for file in files})
    for class_files in train_files.values():
        # A random order that depends on the names only.
        class_files.sort(key=lambda file: derive_seed("split", file.label, file.name))
        for part, part_files in split_rows(class_files, shares).items():
            for file in part_files:
                sorted_files.append(replace(file, part=part))

    class_indices = {label: index for index, label in enumerate(classes)}
    part_indices = {part: index for index, part in enumerate(PART_NAMES)}
    sorted_files.sort(
        key=lambda file: (part_indices[file.part], class_indices[file.label], file.name)
    )
    all_problems = (*problems, *problems_with_labels)
    return Listing(title, classes, tuple(sorted_files), all_problems, target)


def _make_listing_of_numbers(
    title: str, files: Sequence[ImageFile], problems: Problems, target: Target
) -> Listing:
    """Make a listing of files whose labels are finite numbers.

    Raises:
        UsageError: There are too few pictures, or all training labels are equal.
    """
    train_files = [file for file in files if file.part == TRAIN]
    shares = choose_shares({file.part for file in files})
    # With fewer pictures, a part that is split off would be empty.
    min_count = MIN_SPLIT_ROWS if len(shares) > 1 else 1
    if len(train_files) < min_count:
        raise UsageError(
            f"{title} has {format_count(len(train_files), 'picture')} to learn from; "
            f"it needs at least {min_count}"
        )
    # A random order that depends on the names only.
    train_files.sort(key=lambda file: derive_seed("split", file.name))
    sorted_files = [file for file in files if file.part != TRAIN]
    for part, part_files in split_rows(train_files, shares).items():
        for file in part_files:
            sorted_files.append(replace(file, part=part))
    part_indices = {part: index for index, part in enumerate(PART_NAMES)}
    sorted_files.sort(key=lambda file: (part_indices[file.part], file.name))

    train_labels = [read_label(file.label, None) for file in sorted_files if file.part == TRAIN]
    mean, std = compute_label_statistics(train_labels, title)
    target = replace(target, mean=mean, std=std)
    return Listing(title, (), tuple(sorted_files), tuple(problems), target)


def find_part(word: str) -> str | None:
    """Return the part that a word such as "validation" names; None for other words."""
    for part, names in PART_NAMES.items():
        if word.lower() in names:
            return part
    return None


def _too_few_classes_error(title: str, class_count: int, problems: Problems) -> UsageError:
    classes = "1 class" if class_count == 1 else "no classes"
    links = sum(reason == _LINK_OUT_OF_FOLDER for _, reason in problems)
    hint = f" ({links:,} links out of the folder are not followed)" if links else ""
    message = f"{title} has {classes} to learn from{hint}; it needs two or more"
    if title.startswith("folder:"):
        message += ", such as ./photos/cats/1.jpg and ./photos/dogs/1.jpg for folder:./photos"
    return UsageError(message)


# ---------------------------------------------------------------------------------------- folders


def list_folder(path: Path, test: Path | None = None) -> Listing:
    """List a folder with one subfolder per class, or with subfolders `train`, `val` and `test`.

    In the second form, `val` and `test` may be missing. A subfolder `train` that has no subfolders
    but has other folders beside it is a class of that name.

    Args:
        path: The folder.
        test: Another folder with one subfolder per class, whose pictures are the test part; None
            if there is none.

    Raises:
        UsageError: There is no such folder, it has fewer than two classes, or there are two test
            parts.
    """
    title = f"folder:{path.resolve().name}"
    problems: Problems = []
    files = _list_all_parts(path, problems)
    warning = _find_wrong_level(path, files)
    if test is not None:
        test_files = _list_test_folder(test, problems)
        files = add_test_files(files, test_files, path, test)
    return replace(make_listing(title, files, problems), warning=warning)


def _find_wrong_level(path: Path, files: Sequence[ImageFile]) -> str:
    """Return a warning if a class seems to be a folder of classes; empty if none does.

    Such a class has no pictures of its own, but several subfolders with pictures.

    Args:
        path: The folder that the user named.
        files: Its pictures. Their names are paths relative to it.
    """
    subfolders: dict[str, set[str]] = {}
    for file in files:
        class_folder, subfolder = _split_class_folder(file)
        subfolders.setdefault(class_folder, set()).add(subfolder)
    for class_folder, names in subfolders.items():
        # The empty name stands for pictures that are in the class folder itself.
        if "" not in names and len(names) >= 2:
            return (
                f"{class_folder} contains {len(names):,} subfolders with pictures and no picture; "
                f"did you mean folder:{path / class_folder}?"
            )
    return ""


def _split_class_folder(file: ImageFile) -> tuple[str, str]:
    """Return the class folder of a file, and the subfolder of it that contains the file."""
    folders = list(PurePath(file.name).parts[:-1])
    # With parts, the class folder is in the folder of a part.
    depth = folders.index(file.label) + 1 if file.label in folders else len(folders)
    class_folder = str(PurePath(*folders[:depth]))
    subfolder = folders[depth] if len(folders) > depth else ""
    return class_folder, subfolder


def _list_all_parts(path: Path, problems: Problems) -> list[ImageFile]:
    """Return the files of a folder; those of class folders without a part are in `train`."""
    _check_folder(path)
    subfolders = {child.name.lower(): child for child in _list_subfolders(path, path, problems)}
    part_folders = _find_part_folders(subfolders)
    other_folders = [child for child in subfolders.values() if child not in part_folders.values()]
    train_folder = part_folders.get(TRAIN)
    is_train_a_class = (
        train_folder is not None
        and bool(other_folders)
        and not _list_subfolders(train_folder, path, [])
    )
    if train_folder is None or is_train_a_class:
        return list(_list_classes(path, path, TRAIN, problems))
    files: list[ImageFile] = []
    for part, folder in part_folders.items():
        files += _list_classes(folder, path, part, problems)
    for child in other_folders:
        problems.append((_format_name(child, path), "not used: it is beside train, val and test"))
    return files


def _list_test_folder(path: Path, problems: Problems) -> list[ImageFile]:
    """Return the files of the user's own test folder, which has one subfolder per class."""
    _check_folder(path)
    new_problems: Problems = []
    # Lists the problems of the folder itself, which `_list_classes` leaves out.
    _list_subfolders(path, path, new_problems)
    files = list(_list_classes(path, path, TEST, new_problems))
    for name, reason in new_problems:
        problems.append((f"{path.name}/{name}", reason))
    return files


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise make_missing_folder_error(path)


def add_test_files(
    files: Sequence[ImageFile],
    test_files: Sequence[ImageFile],
    path: Path,
    test: Path,
    *,
    have_classes: bool = True,
) -> list[ImageFile]:
    """Return files together with the user's own test files.

    The name of a test file then starts with the name of its folder or table.

    Args:
        files: The files.
        test_files: The user's own test files.
        path: The folder or label file of the files.
        test: That of the test files.
        have_classes: Whether labels are classes and not numbers.

    Raises:
        UsageError: There is a test part already, or no test file belongs to a known class.
    """
    if any(file.part == TEST for file in files):
        raise make_two_test_parts_error(path, test)
    labels = {file.label for file in files}
    if have_classes and not any(file.label in labels for file in test_files):
        shown_labels = ", ".join(sorted(labels)[:MAX_NAMES_SHOWN])
        raise UsageError(f"{test} has no pictures of the classes of {path}: {shown_labels}")
    named_files = [replace(file, name=f"{test.name}/{file.name}") for file in test_files]
    return [*files, *named_files]


def _find_part_folders(subfolders: Mapping[str, Path]) -> dict[str, Path]:
    """Return the subfolders whose names say that they are parts, by part."""
    part_folders = {}
    for part, names in PART_NAMES.items():
        for name in names:
            if name in subfolders:
                part_folders[part] = subfolders[name]
                break
    return part_folders


def _list_classes(folder: Path, root: Path, part: str, problems: Problems) -> Iterator[ImageFile]:
    """Yield the files of every class folder in a folder.

    Args:
        folder: The folder, which has one subfolder per class.
        root: The folder that the user has named. It may be `folder` itself.
        part: The part of the files.
        problems: What is not used is added to it.
    """
    folder_problems: Problems = []
    class_folders = _list_subfolders(folder, root, folder_problems)
    # The caller has already listed the problems in the root itself.
    if folder != root:
        problems.extend(folder_problems)
    for class_folder in class_folders:
        if not is_utf8(class_folder.name):
            raise UsageError(
                f"the name of the class folder {_format_name(class_folder, root)} is not UTF-8; "
                "rename the folder"
            )
        paths = list(_find_files(class_folder, root, problems))
        name = _format_name(class_folder, root)
        if (name, _NO_PERMISSION) in problems:
            raise UsageError(f"the class {name} cannot be read: you have no permission")
        if not paths:
            raise UsageError(
                f"the class {name} has no files; put pictures into {class_folder}, or remove it"
            )
        for path in paths:
            yield make_image_file(path, _format_name(path, root), class_folder.name, part)


def _list_subfolders(folder: Path, root: Path, problems: Problems) -> list[Path]:
    """Return the subfolders that may be classes; everything else is added to the problems."""
    try:
        children = sorted(folder.iterdir())
    except PermissionError:
        raise UsageError(f"the folder {folder} cannot be read: you have no permission") from None
    subfolders = []
    for child in children:
        if child.name.startswith("."):
            problems.append((_format_name(child, root), _HIDDEN))
        elif _leaves_root(child, root):
            problems.append((_format_name(child, root), _LINK_OUT_OF_FOLDER))
        elif not child.is_dir():
            problems.append((_format_name(child, root), "not used: it is not in a class folder"))
        else:
            subfolders.append(child)
    return subfolders


def _leaves_root(path: Path, root: Path) -> bool:
    """Return whether a path is a symbolic link that leads out of the root.

    The root itself may be a link.
    """
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))
    # A broken link is listed as unreadable later, wherever it points.
    return target.exists() and not target.is_relative_to(os.path.realpath(root))


def _find_files(folder: Path, root: Path, problems: Problems) -> Iterator[Path]:
    """Yield all files below a folder.

    Links that stay within the root are followed, but each folder is visited once.
    """
    visited_folders: set[str] = set()

    def note_unreadable_folder(error: OSError) -> None:
        problems.append((_format_name(Path(error.filename), root), _NO_PERMISSION))

    for current, subfolder_names, file_names in os.walk(
        folder, onerror=note_unreadable_folder, followlinks=True
    ):
        real_path = os.path.realpath(current)
        if real_path in visited_folders:
            subfolder_names.clear()
            reason = "not read again: a link to a folder that was read before"
            problems.append((_format_name(Path(current), root), reason))
            continue
        visited_folders.add(real_path)
        # `os.walk` visits only the subfolders that remain in its list.
        subfolder_names[:] = _filter_names(Path(current), subfolder_names, root, problems)
        for name in _filter_names(Path(current), file_names, root, problems):
            yield Path(current, name)


def _filter_names(folder: Path, names: Iterable[str], root: Path, problems: Problems) -> list[str]:
    """Return names sorted and without hidden ones and links out of the root."""
    kept_names = []
    for name in sorted(names):
        path = folder / name
        if name.startswith("."):
            problems.append((_format_name(path, root), _HIDDEN))
        elif _leaves_root(path, root):
            problems.append((_format_name(path, root), _LINK_OUT_OF_FOLDER))
        else:
            kept_names.append(name)
    return kept_names


def make_image_file(path: Path, name: str, label: str, part: str) -> ImageFile:
    """Make the entry of a file, which need not exist.

    Args:
        path: The file.
        name: Its name in messages.
        label: Its class, or the text of a number.
        part: Its part.
    """
    try:
        status = path.stat()
        # Archives may set the modification times of all files alike, so st_ctime is used as well.
        stamp = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    except OSError:
        stamp = "absent"
    return ImageFile(name, label, part, stamp, partial(open_image_file, path))


def _format_name(path: Path, root: Path) -> str:
    """Return a path below the root as printable text. Bytes that are not UTF-8 are replaced."""
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")
