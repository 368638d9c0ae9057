"""The user's own Python files: which files a name leads to, whether they changed, and how they are imported.

Finding and fingerprinting never runs the user's code; importing does. A run folder or a trained model may name a file,
but only its owner may decide to run it: code is imported when the user names it, and what the user has named on this
machine is remembered, so that `untrained train runs/mine` need not ask again.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from untrained._root import cache_root

LIBRARY_FOLDERS = ("site-packages", "dist-packages")
PACKAGE = Path(__file__).resolve().parent


# ------------------------------------------------------------------------------------------------------ finding


@dataclass(frozen=True)
class UserCode:
    """The file that a reference such as `./mine.py:mynet` leads to, and the files of the user that it imports."""

    main: Path
    root: Path  # modules are looked for here, as Python does for a script
    files: tuple[Path, ...]  # sorted; `main` is one of them
    release: str = ""  # of an installed package: name and version

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits; of a single file the SHA-256 of its bytes."""
        if self.files == (self.main,) and not self.release:
            return hashlib.sha256(self.main.read_bytes()).hexdigest()
        digest = hashlib.sha256(self.release.encode())
        for file in self.files:
            name = file.relative_to(self.root).as_posix()
            content = file.read_bytes()
            digest.update(f"\n{name}\n{len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()

    def module_names(self, file: Path) -> list[str]:
        """The names under which one of the files may be imported: from the root, or from a folder below it."""
        parts = file.relative_to(self.root).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        return [".".join(parts[start:]) for start in range(len(parts))]


def find_user_code(where: str) -> UserCode | None:
    """The user's files behind a path `./file.py` or a module `package.module`, without running any of them.

    Every import statement is followed, also those inside of functions, as long as it leads to a file below the folder
    of the first one. What is installed, what comes with Python and this package do not count. A module that is
    installed itself is known by its own file and the version of its package.

    Returns:
        None for a module of this package, and where there is no such file.
    """
    if is_path(where):
        main = Path(where).resolve()
        if not main.is_file():
            return None
        return UserCode(main, main.parent, _follow_imports(main, main.parent))
    located = _locate_module(where)
    if located is None:
        return None
    main, root = located
    if main.is_relative_to(PACKAGE):
        return None
    if _is_installed(main):
        return UserCode(main, root, (main,), _release_of(where))
    return UserCode(main, root, _follow_imports(main, root))


def is_path(where: str) -> bool:
    """Whether the text before the colon of a reference is a path rather than a module."""
    return where.endswith(".py") or "/" in where


def _locate_module(name: str) -> tuple[Path, Path] | None:
    """The file of `package.module` and the folder that holds the package. Nothing is imported."""
    here = Path.cwd()
    files = _files_of_module(here, name)
    if files:
        return files[-1].resolve(), here.resolve()
    # For a name without a dot, `find_spec` asks the finders and imports nothing.
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
    files = _files_of_module(root, name)
    if files:
        return files[-1].resolve(), root
    if name == top and spec.origin and Path(spec.origin).is_file():  # compiled
        return Path(spec.origin).resolve(), root
    return None


def _release_of(module: str) -> str:
    """Name and version of the installed package of a module."""
    top = module.partition(".")[0]
    distributions = metadata.packages_distributions().get(top, [])
    return " ".join(f"{name}=={metadata.version(name)}" for name in sorted(set(distributions)))


def _files_of_module(root: Path, name: str) -> list[Path]:
    """The files that `import a.b.c` loads from a folder: of the packages on the way, then of the module."""
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
    found = {main}
    waiting = [main]
    while waiting:
        file = waiting.pop()
        for imported in _imported_files(file, root):
            if imported not in found and is_user_file(imported, root):
                found.add(imported)
                waiting.append(imported)
    return tuple(sorted(found))


def _imported_files(file: Path, root: Path) -> Iterator[Path]:
    """The files below `root` that the import statements of a file lead to."""
    for level, name in _imported_names(file.read_bytes()):
        base = root
        if level:
            base = file.parents[min(level, len(file.parents)) - 1]
            if (base / "__init__.py").is_file():
                yield base / "__init__.py"
        yield from _resolve(base, name)


@lru_cache(maxsize=1024)
def _imported_names(source: bytes) -> tuple[tuple[int, str], ...]:
    """What a source may import: the number of leading dots, and the name behind them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # loading it will say so
        return ()
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.append((node.level, module))
            # What is imported from a package may be a module of it.
            names += [(node.level, f"{module}.{alias.name}".lstrip(".")) for alias in node.names]
        elif isinstance(node, ast.Call):
            names.append((0, _literal_import(node)))
    return tuple(dict.fromkeys(names))


def _literal_import(call: ast.Call) -> str:
    """The module in `import_module("name")` and `__import__("name")`; empty for any other call."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called not in ("import_module", "__import__") or not call.args:
        return ""
    argument = call.args[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value.lstrip(".")
    return ""


def _resolve(root: Path, name: str) -> list[Path]:
    """The files of a module below a folder. A file may put subfolders on `sys.path`, so these are tried as well."""
    if not all(part.isidentifier() for part in name.split(".")):
        return []
    files = _files_of_module(root, name)
    if files:
        return files
    top = name.partition(".")[0]
    for file in sorted([*root.glob(f"*/{top}.py"), *root.glob(f"*/{top}/__init__.py")]):
        folder = file.parent.parent if file.name == "__init__.py" else file.parent
        files += _files_of_module(folder, name)
    return files


def is_user_file(file: Path, root: Path) -> bool:
    """Whether a file below `root` is the user's: not installed, not of Python itself, not of this package."""
    if not file.is_relative_to(root) or file.is_relative_to(PACKAGE) or file.is_relative_to(_standard_library()):
        return False
    return not any(folder in file.relative_to(root).parts for folder in LIBRARY_FOLDERS)


@cache
def _standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"]).resolve()


# ---------------------------------------------------------------------------------------------------- importing


class _SourceLoader(SourceFileLoader):
    """Compiles a file from its source each time it is loaded.

    Python reuses bytecode when size and time in whole seconds are equal, so a file that was edited within a second
    could run as it was before the edit.
    """

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        _loaded_sources[Path(self.path)] = hashlib.sha256(source).digest()
        return self.source_to_code(source, self.path)


class _UserModuleFinder(MetaPathFinder):
    """Finds the modules that lie below the folders of the user's files, where Python would find them as well."""

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


_loaded_sources: dict[Path, bytes] = {}  # by file: digest of the source that was loaded last
_finder = _UserModuleFinder()


def import_user_file(code: UserCode) -> ModuleType:
    """Run the user's file as a module. Unchanged code is run once; when one of its files changed, all are run again."""
    identity = f"{code.main}\n{code.fingerprint}"
    name = f"untrained_user_{code.main.stem}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    prepare_imports(code)
    spec = importlib.util.spec_from_file_location(name, code.main, loader=_SourceLoader(name, str(code.main)))
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
    """Let the user's file import what lies beside it, as a script can, and forget modules that are out of date."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.roots.add(code.root)
    if str(code.root) not in sys.path:
        sys.path.insert(0, str(code.root))
    importlib.invalidate_caches()
    loaded = _modules_of(code)
    if any(_is_outdated(module, code) for module in loaded.values()):
        # A package keeps its modules as attributes, so the changed ones alone are not enough.
        for name in loaded:
            del sys.modules[name]


def _modules_of(code: UserCode) -> dict[str, ModuleType]:
    """The imported modules that come from these files or stand in the way of one of them, by name."""
    names = {name for file in code.files for name in code.module_names(file)}
    packages = {name.rpartition(".")[0] for name in names} - {""}
    endings = tuple(f"/{file.name}" for file in code.files)
    found = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.startswith("untrained_user_"):
            continue
        if origin is None and name in packages and hasattr(module, "__path__"):
            found[name] = module  # a package without an __init__.py
        elif isinstance(origin, str) and (name in names or Path(origin).as_posix().endswith(endings)):
            file = Path(origin).resolve()
            if file in code.files or (name in names and not _is_installed(file)):
                found[name] = module
    return found


def _is_outdated(module: ModuleType, code: UserCode) -> bool:
    """Whether a module was loaded from another file than Python would load now, or before its file changed."""
    origin = getattr(module, "__file__", None)
    if origin is None:
        return not any(Path(folder).resolve().is_relative_to(code.root) for folder in module.__path__)
    file = Path(origin).resolve()
    if file not in code.files:
        return True
    digest = hashlib.sha256(file.read_bytes()).digest()
    # A module that the user imported before us is taken to be as its file is now.
    return _loaded_sources.setdefault(file, digest) != digest


def _is_installed(file: Path) -> bool:
    in_library = any(folder in file.parts for folder in LIBRARY_FOLDERS)
    return in_library or file.is_relative_to(_standard_library()) or file.is_relative_to(PACKAGE)


# ------------------------------------------------------------------------------------------------- what was named


_named_here: set[str] = set()  # for a machine on which nothing can be written


def remember_named(code: UserCode) -> None:
    """Keep that the user has named this code, as it is now, on this machine."""
    mark = _mark_of(code)
    if mark.name in _named_here:
        return
    _named_here.add(mark.name)
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def was_named(code: UserCode) -> bool:
    """Whether the user has named this code, as it is now, on this machine before."""
    mark = _mark_of(code)
    return mark.name in _named_here or mark.is_file()


def _mark_of(code: UserCode) -> Path:
    digest = hashlib.sha256(f"{code.main}\n{code.fingerprint}".encode()).hexdigest()
    return cache_root() / "named-code" / digest
