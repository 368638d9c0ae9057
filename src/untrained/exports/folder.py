"""Write a folder whole, in place of an earlier one, without losing anything that a user put into it.

`manifest.json` in the folder lists the files that were written, with their hashes. A later export replaces exactly
these files, and only where the user has not changed them. The new folder is made beside the old one, gets hard links
to the user's own files, and then both are exchanged in one system call. So at every moment the path shows either the
old folder or the new one, also after `kill -9`. Where a disk cannot exchange folders, an existing one is refused.
"""

import ctypes
import errno
import fcntl
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

from untrained import __version__
from untrained._files import free, write_whole
from untrained.errors import UsageError

MANIFEST = "manifest.json"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # the same number on Linux (renameat2) and macOS (renamex_np)


@dataclass
class Staging:
    """A folder in preparation."""

    folder: Path
    kept: Path | None = None  # files of the old folder that appeared in it or changed at the last moment


def check_folder(folder: Path) -> None:
    """Refuse a path that cannot be written without touching what is not ours.

    Raises:
        UsageError: There is a file, or a folder that no export wrote or whose files were changed since; or its disk
            cannot replace it in one step.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another folder")
    if not any(folder.iterdir()):
        return
    manifest = _read_manifest(folder)
    if manifest is None:
        raise UsageError(f"{folder} already exists and is no earlier export: choose another folder, or move it away")
    for name, digest in manifest.items():
        # A file that the user removed is simply written again.
        if os.path.lexists(folder / name) and _hash_file(folder / name) != digest:
            raise UsageError(
                f"{folder / name} was changed after it was exported: move it out of the folder to keep it, "
                f"or choose another folder"
            )
    _check_exchange(folder)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Staging]:
    """Give an empty folder to write files into; it becomes `folder` when the block ends without an error.

    Args:
        folder: Where the files shall be. Files of an earlier export are replaced, others stay.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    staging = Staging(Path(mkdtemp(prefix=_prefix(folder), dir=folder.parent)))
    lock = os.open(staging.folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a later export leaves this folder alone as long as this process lives
        _write_manifest(staging.folder, {}, finished=False)
        yield staging
        _finish(staging, folder)
    except BaseException:
        if staging.folder.exists():  # which may be the old folder by now
            _remove_copy(staging.folder, folder)
        raise
    finally:
        os.close(lock)


def _finish(staging: Staging, folder: Path) -> None:
    """Put a folder that is complete in place."""
    manifest = {}
    for file in sorted(staging.folder.iterdir()):
        if file.name != MANIFEST:
            file.chmod(0o644)
            manifest[file.name] = _hash_file(file)
    mode = folder.stat().st_mode & 0o777 if folder.is_dir() else 0o755
    check_folder(folder)  # the user may have changed something since it was checked first
    if folder.is_dir():
        _link_own_files(folder, staging.folder)
    _write_manifest(staging.folder, manifest, finished=True)
    (staging.folder / MANIFEST).chmod(0o644)
    staging.folder.chmod(mode)
    if not folder.is_dir() or not any(folder.iterdir()):
        os.rename(staging.folder, folder)
        return
    _exchange(staging.folder, folder)
    # From here on the path of the staging folder shows the old folder.
    if not _remove_copy(staging.folder, folder):
        staging.kept = free(folder)
        os.rename(staging.folder, staging.kept)


# ------------------------------------------------------------------------------------------------------------ manifest


def _write_manifest(folder: Path, files: dict[str, str], *, finished: bool) -> None:
    facts = {"made_by": f"untrained {__version__}", "finished": finished, "sha256": files}
    write_whole(folder / MANIFEST, json.dumps(facts, indent=1) + "\n")


def _load_manifest(folder: Path) -> dict[str, Any] | None:
    """Return what a manifest says; None where there is none that we wrote."""
    try:
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = facts["sha256"]
        # Names are names of files in this very folder: nothing else is ever compared or removed.
        valid = all(Path(name).name == name and isinstance(digest, str) for name, digest in files.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return facts if valid and isinstance(facts.get("finished"), bool) else None


def _read_manifest(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the files of an export by name; None where the folder is no export."""
    facts = _load_manifest(folder)
    return dict(facts["sha256"]) if facts and facts["finished"] else None


def _hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; empty for what is none, such as a folder or a link."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


# --------------------------------------------------------------------------------------------------------- user's files


def _link_own_files(old: Path, new: Path) -> None:
    """Give the new folder everything that the user put into the old one."""
    manifest = _read_manifest(old) or {}
    for entry in sorted(old.iterdir()):
        if entry.name in manifest or entry.name == MANIFEST:
            continue
        if os.path.lexists(new / entry.name):
            raise UsageError(
                f"{entry} is not from the earlier export, and this one writes a file of that name: move it away, "
                f"or choose another folder"
            )
        _link(entry, new / entry.name)


def _link(source: Path, target: Path) -> None:
    """Make the target the same file; a folder is made anew with the same files."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir()
        for entry in source.iterdir():
            _link(entry, target / entry.name)
        shutil.copystat(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # some disks have no hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_copy(copy: Path, folder: Path) -> bool:
    """Remove a folder as far as nothing is lost: our own unchanged files, and those that `folder` has too.

    Returns:
        Whether the copy is gone.
    """
    facts = _load_manifest(copy)
    if facts and not facts["finished"]:  # a killed export left it: it holds new files and links, nothing else
        return _remove_unfinished(copy)
    for part in copy.glob(f"{MANIFEST}.*.part"):  # the process was killed while it wrote its first file
        part.unlink(missing_ok=True)
    manifest = _read_manifest(copy) or {}
    for name, digest in manifest.items():
        if _hash_file(copy / name) == digest:
            (copy / name).unlink(missing_ok=True)
    others = [entry for entry in copy.iterdir() if entry.name != MANIFEST]
    gone = [_remove_equal(entry, folder / entry.name) for entry in others]
    if not all(gone):
        return False
    if manifest:
        (copy / MANIFEST).unlink(missing_ok=True)
    try:
        copy.rmdir()
    except OSError:
        return False
    return True


def _remove_unfinished(folder: Path) -> bool:
    """Remove a folder whose manifest says that it is unfinished; return whether it is gone."""
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MANIFEST:
            entry.unlink(missing_ok=True)
    # The manifest goes last: without it a later export would not know that the rest may go.
    (folder / MANIFEST).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _remove_equal(entry: Path, other: Path) -> bool:
    """Remove a file or folder of which there is another copy; return whether all of it is gone."""
    if entry.is_dir() and not entry.is_symlink():
        gone = [_remove_equal(below, other / below.name) for below in list(entry.iterdir())]
        if all(gone) and other.is_dir():
            entry.rmdir()
            return True
        return False
    if not _is_equal(entry, other):
        return False
    entry.unlink(missing_ok=True)
    return True


def _is_equal(one: Path, other: Path) -> bool:
    if not os.path.lexists(other):
        return False
    if os.path.samestat(one.lstat(), other.lstat()):
        return True
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    return _hash_file(one) != "" and _hash_file(one) == _hash_file(other)


def _prefix(folder: Path) -> str:
    return f".{folder.name}.export-"


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed exports of this folder left beside it."""
    for leftover in folder.parent.glob(f"{glob.escape(_prefix(folder))}*"):
        try:
            lock = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_copy(leftover, folder)
        except BlockingIOError:
            pass  # an export is at work there
        finally:
            os.close(lock)


# ------------------------------------------------------------------------------------------------------------- exchange


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step. Python has no function for that."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(*paths, ctypes.c_uint(_RENAME_EXCHANGE))
        else:
            failed = library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_EXCHANGE))
    except AttributeError as error:  # an older C library
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


def _check_exchange(folder: Path) -> None:
    """Refuse a disk that cannot exchange folders, before hours of work."""
    trial = Path(mkdtemp(prefix=_prefix(folder), dir=folder.parent))
    one = trial / "one"
    other = trial / "other"
    try:
        _write_manifest(trial, {}, finished=False)  # so that it is removed later if this process is killed
        one.mkdir()
        other.mkdir()
        _exchange(one, other)
    except OSError as error:
        raise UsageError(
            f"the disk of {folder} cannot replace a folder in one step ({error.strerror}); choose a folder that does "
            f"not exist yet"
        ) from error
    finally:
        _remove_unfinished(trial)
