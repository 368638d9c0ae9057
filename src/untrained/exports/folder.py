"""Replace the folder of an earlier export in one step, without losing files of the user.

`manifest.json` in the folder lists the files that were written, with their hashes. A later export
replaces exactly these files, and only if the user has not changed them. The new folder is prepared
beside the old one and gets hard links to the user's own files; then the two are exchanged in one
system call. So the path always shows either the old folder or the new one, even after `kill -9`. If
a file system cannot exchange folders, an existing folder is refused.
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
    make_locked_folder,
    find_free_folder,
    remove_leftovers,
    write_atomically,
)
from untrained.version import __version__

MANIFEST = "manifest.json"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # the same number on Linux (renameat2) and macOS (renamex_np)


@dataclass
class Staging:
    """A folder in preparation.

    Attributes:
        folder: Where to write the files.
        kept: Where files of the old folder are that appeared or changed at the last moment.
    """

    folder: Path
    kept: Path | None = None


def check_folder(folder: Path) -> None:
    """Refuse a path if an export there would overwrite something that no export wrote.

    Raises:
        UsageError: The path is a file, or a folder that no export wrote or whose files were changed
            since; or its file system cannot replace it in one step.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another folder")
    if not any(folder.iterdir()):
        return
    manifest = _read_manifest(folder)
    if manifest is None:
        raise UsageError(
            f"{folder} already exists and is not an earlier export: choose another folder, "
            "or move it away"
        )
    for name, digest in manifest.items():
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
        The folder to write into.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    pattern = f"{glob.escape(_prefix(folder))}*"
    remove_leftovers(folder.parent, pattern, lambda leftover: _remove_copy(leftover, folder))
    with make_locked_folder(folder.parent, _prefix(folder)) as staging_folder:
        staging = Staging(staging_folder)
        try:
            _write_manifest(staging.folder, {}, finished=False)
            yield staging
            _finish(staging, folder)
        except BaseException:
            # After the exchange this path is the old folder, in which files of the user may be.
            if staging.folder.exists():
                _remove_copy(staging.folder, folder)
            raise


def _finish(staging: Staging, folder: Path) -> None:
    """Move a complete folder to its place."""
    manifest = {}
    for file in sorted(staging.folder.iterdir()):
        if file.name != MANIFEST:
            file.chmod(0o644)
            manifest[file.name] = _hash_file(file)
    mode = 0o755
    if folder.is_dir():
        mode = folder.stat().st_mode & 0o777
    # The user may have changed something since the first check.
    check_folder(folder)
    if folder.is_dir():
        _link_own_files(folder, staging.folder)
    _write_manifest(staging.folder, manifest, finished=True)
    (staging.folder / MANIFEST).chmod(0o644)
    staging.folder.chmod(mode)
    if not folder.is_dir() or not any(folder.iterdir()):
        os.rename(staging.folder, folder)
        return
    _exchange(staging.folder, folder)
    # From here on the staging path is the old folder.
    if not _remove_copy(staging.folder, folder):
        staging.kept = find_free_folder(folder)
        os.rename(staging.folder, staging.kept)


# ----------------------------------------------------------------------------------------- manifest


def _write_manifest(folder: Path, files: dict[str, str], *, finished: bool) -> None:
    facts = {"made_by": f"untrained {__version__}", "finished": finished, "sha256": files}
    write_atomically(folder / MANIFEST, json.dumps(facts, indent=1) + "\n")


def _load_manifest(folder: Path) -> dict[str, Any] | None:
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


def _read_manifest(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the files of an export by name; None if the folder is not an export."""
    facts = _load_manifest(folder)
    if facts is None or not facts["finished"]:
        return None
    return dict(facts["sha256"])


def _hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; empty for anything else, such as a folder or a link."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


# ------------------------------------------------------------------------------------- user's files


def _link_own_files(old: Path, new: Path) -> None:
    """Give the new folder everything that the user put into the old one."""
    manifest = _read_manifest(old) or {}
    for entry in sorted(old.iterdir()):
        if entry.name in manifest or entry.name == MANIFEST:
            continue
        if os.path.lexists(new / entry.name):
            raise UsageError(
                f"{entry} is not from the earlier export, and this one writes a file of that name: "
                "move it away, or choose another folder"
            )
        _link(entry, new / entry.name)


def _link(source: Path, target: Path) -> None:
    """Link a file; a folder is created with links to its files."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir()
        for entry in source.iterdir():
            _link(entry, target / entry.name)
        shutil.copystat(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # Some file systems have no hard links.
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_copy(copy: Path, folder: Path) -> bool:
    """Remove a folder except for files that would be lost.

    Unchanged files of an export are removed, and files that `folder` has too.

    Returns:
        Whether the whole copy was removed.
    """
    facts = _load_manifest(copy)
    if facts is not None and not facts["finished"]:
        # A killed export left it. It holds new files and links, nothing else.
        return _remove_unfinished(copy)
    # A process that was killed while it wrote the first manifest leaves a part of it.
    for part in copy.glob(f"{MANIFEST}.*.part"):
        part.unlink(missing_ok=True)
    manifest = _read_manifest(copy) or {}
    for name, digest in manifest.items():
        if _hash_file(copy / name) == digest:
            (copy / name).unlink(missing_ok=True)
    others = [entry for entry in copy.iterdir() if entry.name != MANIFEST]
    removed = [_remove_equal(entry, folder / entry.name) for entry in others]
    if not all(removed):
        return False
    if manifest:
        (copy / MANIFEST).unlink(missing_ok=True)
    try:
        copy.rmdir()
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
    # The manifest is removed last: without it a later export would keep the rest.
    (folder / MANIFEST).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _remove_equal(entry: Path, other: Path) -> bool:
    """Remove a file or folder that has another copy; return whether all of it was removed."""
    if entry.is_dir() and not entry.is_symlink():
        removed = []
        for child in list(entry.iterdir()):
            removed.append(_remove_equal(child, other / child.name))
        if not all(removed) or not other.is_dir():
            return False
        entry.rmdir()
        return True
    if not _is_equal(entry, other):
        return False
    entry.unlink(missing_ok=True)
    return True


def _is_equal(one: Path, other: Path) -> bool:
    """Whether two paths are the same file, equal files, or equal links."""
    if not os.path.lexists(other):
        return False
    if os.path.samestat(one.lstat(), other.lstat()):
        return True
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    return _hash_file(one) != "" and _hash_file(one) == _hash_file(other)


def _prefix(folder: Path) -> str:
    return f".{folder.name}.export-"


# ----------------------------------------------------------------------------------------- exchange


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step. Python has no function for this system call."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(*paths, ctypes.c_uint(_RENAME_EXCHANGE))
        else:
            failed = library.renameat2(
                _AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)
            )
    except AttributeError as error:
        # An older C library lacks the function.
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


def _check_exchange(folder: Path) -> None:
    """Refuse a file system that cannot exchange folders before the work starts."""
    trial = Path(mkdtemp(prefix=_prefix(folder), dir=folder.parent))
    one = trial / "one"
    other = trial / "other"
    try:
        # With a manifest, the trial is removed later if this process is killed.
        _write_manifest(trial, {}, finished=False)
        one.mkdir()
        other.mkdir()
        _exchange(one, other)
    except OSError as error:
        raise UsageError(
            f"the file system of {folder} cannot replace a folder in one step ({error.strerror}); "
            "choose a folder that does not exist yet"
        ) from error
    finally:
        _remove_unfinished(trial)
