"""Find, fingerprint and import the user's own Python files.

Finding and fingerprinting files never runs them; importing does. A run folder or a trained model
may refer to a file, but that alone must not run it. Code is imported when the user names it. From
then on it is trusted, until it changes: `untrained train runs/mine` may run it again.
"""

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import getsource, unwrap
from pathlib import Path
from types import CodeType, ModuleType

from untrained.data_root import find_cache_root

LIBRARY_FOLDERS = ("site-packages", "dist-packages")
PACKAGE = Path(__file__).resolve().parent


# ---------------------------------------------------------------------------------------- finding


@dataclass(frozen=True)
class UserCode:
    """A file of the user and the other files of the user that it imports.

    Attributes:
        main: The file that a reference such as `./mine.py:mynet` names.
        root: Folder in which imports are looked up, as Python does for a script.
        files: All files, sorted; `main` is one of them.
        release: Name and version of an installed package; empty for files of the user.
    """

    main: Path
    root: Path
    files: tuple[Path, ...]
    release: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 digest in hexadecimal. For a single file, it is the digest of its bytes."""
        if self.files == (self.main,) and not self.release:
            return hashlib.sha256(self.main.read_bytes()).hexdigest()
        digest = hashlib.sha256(self.release.encode())
        for file in self.files:
            name = file.relative_to(self.root).as_posix()
            content = file.read_bytes()
            digest.update(f"\n{name}\n{len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()

    def list_module_names(self, file: Path) -> list[str]:
        """Return the names by which a file may be imported, from the root or a folder below it."""
        parts = file.relative_to(self.root).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        return [".".join(parts[start:]) for start in range(len(parts))]


def find_user_code(location: str) -> UserCode | None:
    """Find a file of the user and the files that it imports, without running them.

    Import statements are followed, also those inside functions, if they lead to a file below the
    folder of the first file. Installed packages, the standard library and this package are left
    out. An installed module is identified by its own file and the version of its package.

    Args:
        location: A path, `./file.py`, or a module, `package.module`.

    Returns:
        The code; None for a module of this package, or if there is no such file.
    """
    if is_path(location):
        main = Path(location).resolve()
        if not main.is_file():
            return None
        return UserCode(main, main.parent, _follow_imports(main, main.parent))
    module_paths = _locate_module(location)
    if module_paths is None:
        return None
    main, root = module_paths
    if main.is_relative_to(PACKAGE):
        return None
    if _is_installed(main):
        return UserCode(main, root, (main,), _find_release(location))
    return UserCode(main, root, _follow_imports(main, root))


def fingerprint_function(function: Callable[..., object], skip_installed: bool = False) -> str:
    """Return a fingerprint of the code that defines a function.

    It covers the file of the function and the files that it imports. In a notebook, where there is
    no file, it covers the source of the function.

    Args:
        function: The function.
        skip_installed: Whether to return an empty text for functions of installed packages.
    """
    function = unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    file = Path(code.co_filename)
    if file.is_file():
        file = file.resolve()
        if skip_installed and _is_installed(file):
            return ""
        user_code = find_user_code(str(file))
        return user_code.fingerprint if user_code else ""
    try:
        source = getsource(function)
    except (OSError, TypeError):
        # Without source, the bytecode identifies the function. The repr of a function inside it
        # contains a memory address, which differs between processes.
        bytecode = f"{code.co_code!r} {code.co_consts!r} {code.co_names!r}"
        source = re.sub(r" at 0x[0-9a-f]+", "", bytecode)
    return hashlib.sha256(source.encode()).hexdigest()


def is_path(location: str) -> bool:
    """Return whether the part of a reference before the colon is a path, not a module."""
    return location.endswith(".py") or "/" in location


def _locate_module(name: str) -> tuple[Path, Path] | None:
    """Return the file of `package.module` and the folder that contains the package.

    The module is not imported. The result is None if there is no such module.
    """
    working_folder = Path.cwd()
    files = _find_module_files(working_folder, name)
    if files:
        return files[-1].resolve(), working_folder.resolve()
    # `find_spec` would import the parent package of a name with a dot.
    top = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations))).resolve().parent
    elif spec.origin:
        root = Path(spec.origin).resolve().parent
    else:
        return None
    files = _find_module_files(root, name)
    if files:
        return files[-1].resolve(), root
    if name == top and spec.origin and Path(spec.origin).is_file():
        # An extension module has no Python source.
        return Path(spec.origin).resolve(), root
    return None


def _find_release(module: str) -> str:
    """Return the name and version of the installed package that contains a module."""
    top = module.partition(".")[0]
    # Importing importlib.metadata is slow, which would delay `untrained --help`.
    from importlib import metadata

    distributions = metadata.packages_distributions().get(top, [])
    releases = [f"{name}=={metadata.version(name)}" for name in sorted(set(distributions))]
    return " ".join(releases)


def _find_module_files(root: Path, name: str) -> list[Path]:
    """Return the files that `import a.b.c` loads from a folder: packages first, then the module."""
    *packages, last = name.split(".")
    folder = root
    files = []
    for package in packages:
        folder = folder / package
        if (folder / "__init__.py").is_file():
            files.append(folder / "__init__.py")
    for candidate in (folder / last / "__init__.py", folder / f"{last}.py"):
        if candidate.is_file():
            return [*files, candidate]
    return []


def _follow_imports(main: Path, root: Path) -> tuple[Path, ...]:
    """Return a file and all files of the user that it imports directly or indirectly."""
    files = {main}
    unread_files = [main]
    while unread_files:
        file = unread_files.pop()
        for imported_file in _find_imported_files(file, root):
            if imported_file not in files and is_user_file(imported_file, root):
                files.add(imported_file)
                unread_files.append(imported_file)
    return tuple(sorted(files))


def _find_imported_files(file: Path, root: Path) -> Iterator[Path]:
    """Yield the files below `root` that the import statements of a file load."""
    for level, name in _read_imports(file.read_bytes()):
        base = root
        if level:
            base = file.parents[min(level, len(file.parents)) - 1]
            if (base / "__init__.py").is_file():
                yield base / "__init__.py"
        yield from _resolve_import(base, name)


@lru_cache(maxsize=1024)
def _read_imports(source: bytes) -> tuple[tuple[int, str], ...]:
    """Return what a source imports: pairs of the number of leading dots and the name after them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The error is reported when the file is imported.
        return ()
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.append((0, alias.name))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.append((node.level, module))
            # A name that is imported from a package may be one of its modules.
            for alias in node.names:
                names.append((node.level, f"{module}.{alias.name}".lstrip(".")))
        elif isinstance(node, ast.Call):
            names.append((0, _read_dynamic_import(node)))
    return tuple(dict.fromkeys(names))


def _read_dynamic_import(call: ast.Call) -> str:
    """Return the module in `import_module("name")` or `__import__("name")`; else an empty text."""
    function = call.func
    if isinstance(function, ast.Attribute):
        function_name = function.attr
    else:
        function_name = getattr(function, "id", "")
    if function_name not in ("import_module", "__import__") or not call.args:
        return ""
    argument = call.args[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value.lstrip(".")
    return ""


def _resolve_import(root: Path, name: str) -> list[Path]:
    """Return the files of a module below a folder.

    A file may put subfolders on `sys.path`, so modules are looked for in subfolders as well.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        return []
    files = _find_module_files(root, name)
    if files:
        return files
    top = name.partition(".")[0]
    for file in sorted([*root.glob(f"*/{top}.py"), *root.glob(f"*/{top}/__init__.py")]):
        folder = file.parent.parent if file.name == "__init__.py" else file.parent
        files += _find_module_files(folder, name)
    return files


def is_user_file(file: Path, root: Path) -> bool:
    """Return whether a file is below `root` and belongs to the user.

    Installed packages, the standard library and this package do not belong to the user.
    """
    if not file.is_relative_to(root):
        return False
    if file.is_relative_to(PACKAGE) or file.is_relative_to(_find_standard_library()):
        return False
    return not any(folder in file.relative_to(root).parts for folder in LIBRARY_FOLDERS)


@cache
def _find_standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"]).resolve()


# -------------------------------------------------------------------------------------- importing


class _SourceLoader(SourceFileLoader):
    """Compiles a file from its source each time it is loaded.

    Python reuses bytecode if the size of the file and its modification time in whole seconds are
    equal. If a file is edited twice within a second, the first version could run.
    """

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        _loaded_sources[Path(self.path)] = hashlib.sha256(source).digest()
        return self.source_to_code(source, self.path)


class _UserModuleFinder(MetaPathFinder):
    """Finds modules below the folders of the user's files and loads them with `_SourceLoader`."""

    def __init__(self) -> None:
        self.roots: set[Path] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        file = Path(spec.origin).resolve()
        if not any(is_user_file(file, root) for root in self.roots):
            return None
        spec.loader = _SourceLoader(fullname, str(file))
        return spec


_loaded_sources: dict[Path, bytes] = {}  # file -> digest of the source that was loaded last
_finder = _UserModuleFinder()


def import_user_file(code: UserCode) -> ModuleType:
    """Import a file of the user as a module.

    Unchanged code is run once. If one of its files has changed, all of them are run again.
    """
    identity = f"{code.main}\n{code.fingerprint}"
    name = f"untrained_user_{code.main.stem}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    prepare_imports(code)
    spec = importlib.util.spec_from_file_location(
        name, code.main, loader=_SourceLoader(name, str(code.main))
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{code.main} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def prepare_imports(code: UserCode) -> None:
    """Make the files next to a file of the user importable, and unload outdated modules."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.roots.add(code.root)
    if str(code.root) not in sys.path:
        sys.path.insert(0, str(code.root))
    importlib.invalidate_caches()
    modules = _find_loaded_modules(code)
    if any(_is_outdated(module, code) for module in modules.values()):
        # A package keeps its modules as attributes, so unloading the changed ones is not enough.
        for name in modules:
            del sys.modules[name]


def _find_loaded_modules(code: UserCode) -> dict[str, ModuleType]:
    """Return the loaded modules that come from these files or have the name of one of them."""
    names: set[str] = set()
    for file in code.files:
        names.update(code.list_module_names(file))
    packages = {name.rpartition(".")[0] for name in names} - {""}
    # Resolving paths is slow, so modules with an unrelated name and path are skipped.
    endings = tuple(f"/{file.name}" for file in code.files)

    modules = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("untrained_user_"):
            continue
        origin = getattr(module, "__file__", None)
        if origin is None:
            is_namespace_package = name in packages and hasattr(module, "__path__")
            if is_namespace_package:
                modules[name] = module
            continue
        if not isinstance(origin, str):
            continue
        if name not in names and not Path(origin).as_posix().endswith(endings):
            continue
        file = Path(origin).resolve()
        if file in code.files or (name in names and not _is_installed(file)):
            modules[name] = module
    return modules


def _is_outdated(module: ModuleType, code: UserCode) -> bool:
    """Return whether Python would now load another file, or the file has changed since loading."""
    origin = getattr(module, "__file__", None)
    if origin is None:
        folders = [Path(folder).resolve() for folder in module.__path__]
        return not any(folder.is_relative_to(code.root) for folder in folders)
    file = Path(origin).resolve()
    if file not in code.files:
        return True
    digest = hashlib.sha256(file.read_bytes()).digest()
    # A module may have been imported before this package was. Assume that its file has not changed.
    return _loaded_sources.setdefault(file, digest) != digest


def _is_installed(file: Path) -> bool:
    in_library = any(folder in file.parts for folder in LIBRARY_FOLDERS)
    return (
        in_library or file.is_relative_to(_find_standard_library()) or file.is_relative_to(PACKAGE)
    )


# ------------------------------------------------------------------------------------------ trust


# Marks that were made in this process, for machines on which the cache folder cannot be written.
_trusted_in_this_process: set[str] = set()


def trust_user_code(code: UserCode) -> None:
    """Record that the user has asked to run this version of the code on this machine."""
    mark = _locate_trust_mark(code)
    if mark.name in _trusted_in_this_process:
        return
    _trusted_in_this_process.add(mark.name)
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def is_trusted(code: UserCode) -> bool:
    """Return whether the user has asked to run this version of the code on this machine."""
    mark = _locate_trust_mark(code)
    return mark.name in _trusted_in_this_process or mark.is_file()


def _locate_trust_mark(code: UserCode) -> Path:
    """Return the path of the empty file whose existence means that the code is trusted."""
    digest = hashlib.sha256(f"{code.main}\n{code.fingerprint}".encode()).hexdigest()
    return find_cache_root() / "named-code" / digest
