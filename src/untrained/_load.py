"""Names as people type them: `dextr(variant=published)`, and objects of their own, `./file.py:name` or
`package.module:name`. Loading such an object runs the user's code, and says so."""

import ast
import importlib
import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from untrained._quantities import show_value
from untrained.errors import UsageError, unknown
from untrained.user_code import (
    UserCode,
    find_user_code,
    import_user_file,
    is_path,
    prepare_imports,
    remember_named,
    was_named,
)

T = TypeVar("T")
LONGEST_NAME = 5_000  # characters of a name with its options


class UserCodeError(UsageError):
    """The user's own code raised; the message carries its own traceback and none of ours."""


def user_code_error(name: str, when: str, error: BaseException) -> UserCodeError:
    """What to say of an exception in the user's own code.

    Args:
        name: The file, module or function of the user.
        when: What it was doing, such as "while it was loaded".
        error: What it raised.
    """
    if isinstance(error, SystemExit):
        advice = "put what is meant for a script under `if __name__ == '__main__':`"
        return UserCodeError(f"{name} called sys.exit({error.code!r}) {when}; {advice}")
    return UserCodeError(f"{name} raised {when}\n{own_traceback(error)}")


def names_file(name: str) -> bool:
    """Whether `name` points into a file or a module rather than into a registry."""
    return ":" in name and not name.startswith("|") and not re.fullmatch(r"[\d:]+", name)  # 8:16:24:32:64 is an arch


def absolute(name: str) -> str:
    """The same name for a process that works in another folder."""
    where, colon, attribute = name.rpartition(":")
    if names_file(name) and is_path(where):
        return f"{Path(where).resolve()}{colon}{attribute}"
    return name


def from_file(name: str) -> Any:
    """The object called `attribute` in `where`, for a name `where:attribute`."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise half_a_name(name, "the object")
    module = _from_path(Path(where)) if is_path(where) else _from_module(where)
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
    if not isinstance(name, str):
        raise UsageError(f"{show_value(name)} is no {what}; give its name, such as {next(iter(known))!r}")
    base, options = parse_call(name)
    if base.endswith(".py"):
        raise half_a_name(base, f"the {what}")
    found = from_file(base) if names_file(base) else known[base]
    if not isinstance(found, kind):
        raise UsageError(f"{base} is not a {what}; put {decorator} above the function")
    return found, options


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """`dextr(variant=published)` -> `dextr`, `{"variant": "published"}`."""
    if not isinstance(text, str):
        raise UsageError(f"{show_value(text)} is not a name; give one as text, such as 'dextr(variant=published)'")
    if len(text) > LONGEST_NAME:
        raise UsageError(f"a name of {len(text):,} characters is too long: {show_value(text)}; shorten its options")
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
    if not isinstance(text, str):
        raise UsageError(f"{show_value(text)} is not a list of names; give them as text, such as 'params,naswot'")
    return [part for part in re.split(r",\s*(?![^()]*\))", text.strip()) if part]


def _literal(text: str) -> Any:
    """The Python value that a text spells; the text itself where it spells none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: of deeply nested text
        return text


def user_code_of(name: str) -> UserCode | None:
    """The user's files behind a name such as `./mine.py:mynet(depth=2)`; None for a name of a registry."""
    base, _ = parse_call(name)
    if not names_file(base):
        return None
    return find_user_code(base.rpartition(":")[0])


def fingerprint_user_code(*names: str) -> str:
    """One fingerprint of all the user's code behind some names; empty where there is none."""
    codes = [user_code_of(name) for name in names]
    fingerprints = list(dict.fromkeys(code.fingerprint for code in codes if code))
    if len(fingerprints) < 2:
        return "".join(fingerprints)
    return sha256("\n".join(fingerprints).encode()).hexdigest()


def require_named(name: str, fingerprint: str | None, origin: str, instead: str) -> None:
    """Refuse to run code that a file names and the user has not named.

    Args:
        name: What the file names, such as `./mine.py:mynet`. Names of a registry pass.
        fingerprint: That of the code when the file was written; None where the file does not keep it.
        origin: The file or folder that names the code, for the message.
        instead: What to type to name the code, for the message.
    """
    base, _ = parse_call(name)
    if not names_file(base):
        return
    code = user_code_of(name)
    if code is None:
        if base.startswith("untrained."):  # a module of this package
            return
        raise UsageError(f"{origin} needs {base}, which is not here; say where it is: {instead}")
    if fingerprint is not None and fingerprint != code.fingerprint:
        raise UsageError(f"{base} has changed since {origin} was made; to use it as it is now: {instead}")
    if not was_named(code):
        raise UsageError(
            f"{origin} wants to run {base}, which you have not run on this machine; read it, and name it: {instead}"
        )


def _from_path(path: Path) -> ModuleType:
    code = find_user_code(str(path) if is_path(str(path)) else f"./{path}")
    if code is None:
        raise UsageError(f"there is no file {path}; give the path as you would to python, such as ./my_net.py:make_net")
    remember_named(code)
    try:
        return import_user_file(code)
    except (Exception, SystemExit) as error:
        raise user_code_error(str(path), "while it was loaded", error) from error


def _from_module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    code = find_user_code(name)
    if code is not None:
        remember_named(code)
        prepare_imports(code)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"no module called {name} can be imported from here; for a file type ./{name.replace('.', '/')}.py:NAME"
            ) from error
        raise user_code_error(name, "while it was imported", error) from error
    except (Exception, SystemExit) as error:
        raise user_code_error(name, "while it was imported", error) from error


def own_traceback(error: BaseException) -> str:
    """The traceback of the user's code: frames of this package and of the import machinery are left out."""
    import traceback

    here = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(here) and "importlib" not in f.filename]
    lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()
