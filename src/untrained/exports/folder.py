"""Replace the folder of an earlier export in one step, without losing files of the user.

`manifest.json` in the folder lists the exported files and their hashes. A later export replaces
exactly these files, and only if the user has not changed them. The new folder is prepared beside
the old one and gets hard links to the user's own files; then one system call exchanges the two. So
the path is always either the complete old folder or the complete new one, even after `kill -9`. If
the file system cannot exchange folders, an export into an existing folder is refused.
"""

import ctypes
import errno
import glob
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from untrained.errors import UsageError
from untrained.files import (
    find_free_folder,
    make_locked_folder,
    remove_leftovers,
    write_atomically,
)
from untrained.version import __version__

MANIFEST = "manifest.json"
_AT_FDCWD = -100  # of the C library: paths are relative to the current directory
_RENAME_EXCHANGE = 2  # the same number on Linux (renameat2) and macOS (renamex_np)


@dataclass
class Staging:
    """A new folder that is being prepared.

    Attributes:
        folder: Where to write the files.
        kept: Folder with files of the old folder that were added or changed during the export; None
            if there are none.
    """

    folder: Path
    kept: Path | None = None


def check_folder(folder: Path) -> None:
    """Check that an export to a path would not overwrite anything of the user.

    Raises:
        UsageError: The path is a file, a folder that was not exported, or an exported folder with
            changed files; or its file system cannot exchange folders.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another folder")
    if not any(folder.iterdir()):
        return
    exported_hashes = _read_exported_hashes(folder)
    if exported_hashes is None:
        raise UsageError(
            f"{folder} already exists and is not an earlier export: choose another folder, "
            "or move it away"
        )
    for name, digest in exported_hashes.items():
        # A file that the user removed is written again.
        if os.path.lexists(folder / name) and _hash_file(folder / name) != digest:
            raise UsageError(
                f"{folder / name} was changed after it was exported: move it out of the folder to "
                "keep it, or choose another folder"
            )
    _check_exchange(folder)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Staging]:
    """Provide an empty folder that becomes `folder` when the block ends without an error.

    Args:
        folder: The final path. Files of an earlier export are replaced, others stay.

    Yields:
        The staging, whose `folder` is the path to write into.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    pattern = f"{glob.escape(_make_staging_prefix(folder))}*"
    remove_leftovers(
        folder.parent, pattern, lambda leftover: _remove_redundant_files(leftover, folder)
    )
    with make_locked_folder(folder.parent, _make_staging_prefix(folder)) as staging_folder:
        staging = Staging(staging_folder)
        try:
            _write_manifest(staging.folder, {}, finished=False)
            yield staging
            _move_into_place(staging, folder)
        except BaseException:
            # After the exchange, this path is the old folder, which may contain files of the user.
            if staging.folder.exists():
                _remove_redundant_files(staging.folder, folder)
            raise


def _move_into_place(staging: Staging, folder: Path) -> None:
    """Write the manifest of a complete folder and move the folder to its final path."""
    hashes = {}
    for file in sorted(staging.folder.iterdir()):
        if file.name != MANIFEST:
            file.chmod(0o644)
            hashes[file.name] = _hash_file(file)
    mode = 0o755
    if folder.is_dir():
        mode = folder.stat().st_mode & 0o777
    # The user may have changed something since the first check.
    check_folder(folder)
    if folder.is_dir():
        _link_user_files(folder, staging.folder)
    _write_manifest(staging.folder, hashes, finished=True)
    (staging.folder / MANIFEST).chmod(0o644)
    staging.folder.chmod(mode)
    if not folder.is_dir() or not any(folder.iterdir()):
        os.rename(staging.folder, folder)
        return
    _exchange_folders(staging.folder, folder)
    # From here on the staging path is the old folder.
    if not _remove_redundant_files(staging.folder, folder):
        staging.kept = find_free_folder(folder)
        os.rename(staging.folder, staging.kept)


# ----------------------------------------------------------------------------------------- manifest


def _write_manifest(folder: Path, hashes: dict[str, str], *, finished: bool) -> None:
    facts = {"made_by": f"untrained {__version__}", "finished": finished, "sha256": hashes}
    write_atomically(folder / MANIFEST, json.dumps(facts, indent=1) + "\n")


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the content of a manifest; None if there is none that an export wrote."""
    try:
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = facts["sha256"]
        for name, digest in files.items():
            # Only files in this folder are ever compared or removed, never `../thesis.tex`.
            if Path(name).name != name or not isinstance(digest, str):
                return None
        if not isinstance(facts.get("finished"), bool):
            return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return dict(facts)


def _read_exported_hashes(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the files of an export by name; None if the folder is not an export."""
    manifest = _read_manifest(folder)
    if manifest is None or not manifest["finished"]:
        return None
    return dict(manifest["sha256"])


def _hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; empty for anything else, such as a folder or a link."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


# ------------------------------------------------------------------------------------- user's files


def _link_user_files(old: Path, new: Path) -> None:
    """Link everything that the user added to the old folder into the new one."""
    exported_hashes = _read_exported_hashes(old) or {}
    for entry in sorted(old.iterdir()):
        if entry.name in exported_hashes or entry.name == MANIFEST:
            continue
        if os.path.lexists(new / entry.name):
            raise UsageError(
                f"{entry} is not from the earlier export, and this one writes a file of that name: "
                "move it away, or choose another folder"
            )
        _link_recursively(entry, new / entry.name)


def _link_recursively(source: Path, target: Path) -> None:
    """Create a hard link to a file, or a folder of hard links to the files of a folder."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir()
        for entry in source.iterdir():
            _link_recursively(entry, target / entry.name)
        shutil.copystat(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # Some file systems have no hard links.
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_redundant_files(old_folder: Path, folder: Path) -> bool:
    """Remove a folder, except for files that exist nowhere else.

    These are removed: unchanged files of an export, and files that `folder` contains as well.

    Returns:
        Whether the whole folder was removed.
    """
    manifest = _read_manifest(old_folder)
    if manifest is not None and not manifest["finished"]:
        # An export was killed here. The folder contains only new files and links.
        return _remove_unfinished(old_folder)
    # A process that was killed while it wrote the first manifest leaves a partial file.
    for part in old_folder.glob(f"{MANIFEST}.*.part"):
        part.unlink(missing_ok=True)
    exported_hashes = _read_exported_hashes(old_folder) or {}
    for name, digest in exported_hashes.items():
        if _hash_file(old_folder / name) == digest:
            (old_folder / name).unlink(missing_ok=True)
    others = [entry for entry in old_folder.iterdir() if entry.name != MANIFEST]
    removed = [_remove_duplicates(entry, folder / entry.name) for entry in others]
    if not all(removed):
        return False
    if exported_hashes:
        (old_folder / MANIFEST).unlink(missing_ok=True)
    try:
        old_folder.rmdir()
    except OSError:
        return False
    return True


def _remove_unfinished(folder: Path) -> bool:
    """Remove a folder whose manifest says that it is unfinished; return whether it succeeded."""
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MANIFEST:
            entry.unlink(missing_ok=True)
    # The manifest is removed last: without it, a later export would not recognise the rest.
    (folder / MANIFEST).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _remove_duplicates(entry: Path, other: Path) -> bool:
    """Remove what also exists at `other`; return whether all of it was removed."""
    if entry.is_dir() and not entry.is_symlink():
        removed = []
        for child in list(entry.iterdir()):
            removed.append(_remove_duplicates(child, other / child.name))
        if not all(removed) or not other.is_dir():
            return False
        entry.rmdir()
        return True
    if not _are_equal(entry, other):
        return False
    entry.unlink(missing_ok=True)
    return True


def _are_equal(first: Path, second: Path) -> bool:
    """Return whether two paths are the same file, equal files, or equal links."""
    if not os.path.lexists(second):
        return False
    if os.path.samestat(first.lstat(), second.lstat()):
        return True
    if first.is_symlink() and second.is_symlink():
        return os.readlink(first) == os.readlink(second)
    if first.is_symlink() or second.is_symlink():
        return False
    first_hash = _hash_file(first)
    return first_hash != "" and first_hash == _hash_file(second)


def _make_staging_prefix(folder: Path) -> str:
    return f".{folder.name}.export-"


# ----------------------------------------------------------------------------------------- exchange


def _exchange_folders(first: Path, second: Path) -> None:
    """Exchange two folders in one system call, for which Python has no function."""
    library = ctypes.CDLL(None, use_errno=True)
    first_path = os.fsencode(first)
    second_path = os.fsencode(second)
    flag = ctypes.c_uint(_RENAME_EXCHANGE)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first_path, second_path, flag)
        else:
            failed = library.renameat2(_AT_FDCWD, first_path, _AT_FDCWD, second_path, flag)
    except AttributeError as error:
        # An older C library lacks the function.
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first), None, str(second))


def _check_exchange(folder: Path) -> None:
    """Check that the file system can exchange folders, before the export starts.

    Raises:
        UsageError: The file system cannot exchange folders.
    """
    trial = Path(mkdtemp(prefix=_make_staging_prefix(folder), dir=folder.parent))
    first = trial / "first"
    second = trial / "second"
    try:
        # With a manifest, the trial is removed later if this process is killed.
        _write_manifest(trial, {}, finished=False)
        first.mkdir()
        second.mkdir()
        _exchange_folders(first, second)
    except OSError as error:
        raise UsageError(
            f"the file system of {folder} cannot exchange two folders ({error.strerror}); "
            "choose a folder that does not exist yet"
        ) from error
    finally:
        _remove_unfinished(trial)
