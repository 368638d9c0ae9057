"""Names as people type them: `dextr(variant=published)`, and objects of their own, `./file.py:name` or
`package.module:name`. Loading such an object runs the user's code, and says so."""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from untrained.errors import UsageError, unknown

T = TypeVar("T")


class UserCodeError(UsageError):
    """The user's own code raised; the message carries its own traceback and none of ours."""


def names_file(name: str) -> bool:
    """Whether `name` points into a file or a module rather than into a registry."""
    return ":" in name and not name.startswith("|") and not re.fullmatch(r"[\d:]+", name)  # 8:16:24:32:64 is an arch


def absolute(name: str) -> str:
    """The same name for a process that works in another folder."""
    where, colon, attribute = name.rpartition(":")
    is_path = names_file(name) and (where.endswith(".py") or "/" in where)
    return f"{Path(where).resolve()}{colon}{attribute}" if is_path else name


def from_file(name: str) -> Any:
    """The object called `attribute` in `where`, for a name `where:attribute`."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise half_a_name(name, "the object")
    module = _from_path(Path(where)) if where.endswith(".py") or "/" in where else _from_module(where)
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"object in {where}", attribute, _made_here(module) or public)
    return getattr(module, attribute)


def _made_here(module: ModuleType) -> dict[str, Any]:
    """The public objects that a module makes itself, in its order: nothing that it imports."""
    path = getattr(module, "__file__", None) or ""
    tree = ast.parse(Path(path).read_bytes() if path.endswith(".py") else b"")
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}

    def own(name: str, thing: Any) -> bool:
        foreign = (isfunction(thing) or isclass(thing)) and thing.__module__ != module.__name__  # by import *
        return not (name.startswith("_") or name in imported or foreign)

    return {name: thing for name, thing in vars(module).items() if own(name, thing)}


def half_a_name(name: str, what: str) -> UsageError:
    """The error for a file where something in it was meant."""
    return UsageError(f"{name!r} is half a name; say which is {what} in it: {name.rstrip(':') or './my_net.py'}:NAME")


def path_instead(text: str) -> UsageError | None:
    """The error for a file or a folder where an architecture was meant; None where the text is no path."""
    if text.endswith(".py"):
        return UsageError(f"{text} is a file; name a factory in it, {text}:make_net, or add --rank for all of them")
    if "/" not in text or set(text) & set("=|(,"):  # as in 0101010/0010100+input,conv1x1: cells of NAS-Bench-101
        return None
    lies = "is a path" if Path(text).exists() else "is no folder of a run"
    return UsageError(f"{text} {lies} and no architecture; give one, or ./my_net.py:make_net")


def members(path: Path) -> dict[str, Any]:
    """The public objects that a user's file defines itself, in its order."""
    return _made_here(_from_path(path))


def loaded(name: str, known: Mapping[str, T], kind: type[T], what: str, decorator: str) -> tuple[T, dict[str, Any]]:
    """The member of a catalogue, or of a user's file, that `name` means; and the options in its brackets."""
    base, options = parse_call(name)
    if base.endswith(".py"):
        raise half_a_name(base, f"the {what}")
    found = from_file(base) if names_file(base) else known[base]
    if not isinstance(found, kind):
        raise UsageError(f"{base} is not a {what}; put {decorator} above the function")
    return found, options


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """`dextr(variant=published)` -> `dextr`, `{"variant": "published"}`."""
    match = re.fullmatch(r"\s*(.+?)\s*(?:\((.*)\))?\s*", text)
    if match is None:
        raise UsageError("a name is missing; `untrained list` shows what there is")
    base, arguments = match.groups()
    options = {}
    for argument in split_names(arguments or ""):
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(f"{text!r}: write options as name=value, such as dextr(variant=published)")
        options[key.strip()] = _literal(value.strip())
    return base, options


def split_names(text: str) -> list[str]:
    """`a,b(c=1,d=2)` -> `a`, `b(c=1,d=2)`: commas inside brackets do not separate."""
    return [part for part in re.split(r",\s*(?![^()]*\))", text.strip()) if part]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def files_of(*names: str) -> list[Path]:
    """The user's files among `names`."""
    files = (Path(name.rpartition(":")[0]) for name in names if names_file(name))
    return [file for file in files if file.is_file()]


def code_of(files: Iterable[Path]) -> str:
    """A fingerprint of the user's files; empty without any. A changed file is another method."""
    contents = [file.read_bytes() for file in files]
    return sha256(b"".join(contents)).hexdigest()[:8] if contents else ""


def _from_path(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}; give the path as you would to python, such as ./my_net.py:make_net")
    known_by = sha256(str(path.resolve()).encode() + path.read_bytes())  # a file that has changed is another module
    name = f"untrained_user_{path.stem}_{known_by.hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _search(path.resolve().parent)  # as for a script: what lies beside the file can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserCodeError(f"{path} raised while it was loaded\n{own_traceback(error)}") from error
    return module


def _from_module(name: str) -> ModuleType:
    _search(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"no module called {name} can be imported from here; for a file type ./{name.replace('.', '/')}.py:NAME"
            ) from error
        raise UserCodeError(f"{name} raised while it was imported\n{own_traceback(error)}") from error
    except Exception as error:
        raise UserCodeError(f"{name} raised while it was imported\n{own_traceback(error)}") from error


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def own_traceback(error: BaseException) -> str:
    """The traceback of the user's code: frames of this package and of the import machinery are left out."""
    import traceback

    here = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(here) and "importlib" not in f.filename]
    lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()
